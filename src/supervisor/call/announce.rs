//! The announcement: one stderr line per job that outlives the call, written for a model that never
//! heard of agent-sh; and the messages to `run --wait`.

use std::time::Duration;

use crate::job::notice;
use crate::job::{How, JobId, Outcome};
use crate::settings::Linger;
use crate::supervisor::job::{Job, Jobs, Limit};
use crate::supervisor::setup::Setup;
use crate::text;

/// How many jobs get a line of their own.
const LINES: usize = 10;
/// How much of a command a line shows.
const COMMAND: usize = 120;

/// What is said of the jobs that live on; `None` if there is nothing to say. `has_unseen`: something
/// lives on that cannot be named; `refusal`: why nothing can be stored.
pub(in crate::supervisor) fn announcement(
    jobs: &Jobs,
    has_unseen: bool,
    refusal: Option<&str>,
    setup: &Setup,
) -> Option<String> {
    let mut alive: Vec<&Job> = jobs.iter().filter(|job| !job.has_ended()).collect();
    // As they started, whichever came first to register.
    alive.sort_by_key(|job| (job.starttime(), job.pid()));
    if alive.is_empty() && !has_unseen {
        return None;
    }
    let program = setup.program_name();
    let shown = alive.iter().take(LINES);
    let mut lines: Vec<String> = shown.map(|job| line(job, program, refusal)).collect();
    if alive.len() > LINES {
        let more = alive.len() - LINES;
        lines.push(format!(
            "[agent-sh] and {more} more jobs. List: {program} ps"
        ));
    }
    if has_unseen {
        lines.push(
            "[agent-sh] something that this command started is still running in the background. \
             Without /proc it cannot be named, shown or stopped from here"
                .to_owned(),
        );
    }
    if setup.lingers() {
        let why = match setup.settings.linger {
            Linger::Auto => "this sandbox ends every process with the call, so the call",
            _ => "as AGENT_SH_LINGER asks, the call",
        };
        lines.push(format!("[agent-sh] {why} stays until the jobs have ended"));
    }
    Some(lines.join("\n") + "\n")
}

fn line(job: &Job, program: &str, refusal: Option<&str>) -> String {
    let shown = text::redact(&text::sanitize(job.text()));
    let command = if job.is_stray() {
        notice::told_command(How::Stray, &shown, COMMAND)
    } else {
        text::shorten(&shown, COMMAND)
    };
    let pid = job.pid();
    let Some(id) = job.id() else {
        let why = refusal.unwrap_or("nothing can be stored");
        return format!(
            "[agent-sh] {command} (pid {pid}) is still running in the background, but no record \
             of it can be kept: {why}"
        );
    };
    let path = job.redirected_to().filter(|_| !job.is_stray());
    let output = match path.and_then(text::plain_path) {
        Some(path) => path.to_owned(),
        None => format!("{program} logs {id}"),
    };
    format!(
        "[agent-sh] job {id} is still running in the background: {command} (pid {pid}). \
         Output: {output}. Stop: {program} kill {id}"
    )
}

/// How a job ended that the call stayed for. `ended`: since boot.
pub(in crate::supervisor) fn end_said(
    job: &Job,
    outcome: &Outcome,
    ended: Duration,
    setup: &Setup,
) -> String {
    let how = match (outcome, job.limit_reached()) {
        (_, Some(Limit::Time | Limit::Idle)) => "timed out".to_owned(),
        (Outcome::Exited(code), _) => format!("finished: exit {code}"),
        (Outcome::Signaled { signal, .. }, _) => {
            format!("was killed by SIG{}", text::signal_name(*signal))
        }
        (Outcome::Lost(_), _) => "is lost".to_owned(),
    };
    let shown = text::redact(&text::sanitize(job.text()));
    let kind = if job.is_stray() {
        How::Stray
    } else {
        How::Ampersand
    };
    let command = notice::told_command(kind, &shown, COMMAND);
    let Some(live) = job.live() else {
        return format!("[agent-sh] {command} (pid {}) {how}\n", job.pid());
    };
    let began = Duration::from_millis(live.launch().started_boot_ms);
    let after = text::short_duration(ended.saturating_sub(began));
    let (id, program) = (live.id(), setup.program_name());
    format!("[agent-sh] job {id} {how} after {after}: {command}. Output: {program} logs {id}\n")
}

/// To whoever watches a job with `run --wait`: its time is over, and so it is.
pub(in crate::supervisor) fn time_is_over(id: &JobId, limit: Limit, setup: &Setup) -> String {
    let run = setup.run.as_ref();
    let (what, time) = match limit {
        Limit::Idle => ("wrote nothing for", run.and_then(|run| run.idle_timeout)),
        _ => ("took longer than", run.and_then(|run| run.timeout)),
    };
    let time = humantime::format_duration(time.unwrap_or_default());
    let limit = limit.cause();
    format!("agent-sh: job {id} {what} {time} (--{limit}) and was ended\n")
}

/// To whoever watched a job with `run --wait` and got a signal: it is the watching that ends.
pub(in crate::supervisor) fn unwatched(id: &JobId, signal: i32) -> String {
    let name = nix::sys::signal::Signal::try_from(signal)
        .map_or_else(|_| format!("signal {signal}"), |name| name.to_string());
    format!("agent-sh: got {name} and no longer waits; job {id} goes on\n")
}

//! The announcement: one stderr line per job that outlives the call, written for a model that never
//! heard of agent-sh.

use crate::job::notice;
use crate::job::{How, JobId};
use crate::settings::Linger;
use crate::text;
use crate::wire::ToFront;

use super::Supervisor;
use super::jobs::Job;

/// How many jobs get a line of their own.
const LINES: usize = 10;
/// How much of a command a line shows.
const COMMAND: usize = 120;

impl Supervisor {
    pub(super) fn say_announcement(&mut self) {
        if !self.settings.announce {
            return;
        }
        let mut alive: Vec<&Job> = self.jobs.iter().filter(|job| !job.ended).collect();
        // As they started, whichever came first to register.
        alive.sort_by_key(|job| (job.starttime, job.pid));
        let unseen = self.has_unseen();
        if alive.is_empty() && !unseen {
            return;
        }
        let program = self.program_name();
        let mut lines: Vec<String> = alive
            .iter()
            .take(LINES)
            .map(|job| self.line(job, program))
            .collect();
        if alive.len() > LINES {
            let more = alive.len() - LINES;
            lines.push(format!(
                "[agent-sh] and {more} more jobs. List: {program} ps"
            ));
        }
        if unseen {
            lines.push(
                "[agent-sh] something that this command started is still running in the background. \
                 Without /proc it cannot be named, shown or stopped from here"
                    .to_owned(),
            );
        }
        if self.lingers() {
            let why = match self.settings.linger {
                Linger::Auto => "this sandbox ends every process with the call, so the call",
                _ => "as AGENT_SH_LINGER asks, the call",
            };
            lines.push(format!("[agent-sh] {why} stays until the jobs have ended"));
        }
        self.say(lines.join("\n") + "\n");
    }

    /// To whoever watches a job with `run --wait`: its time is over, and so it is.
    pub(super) fn say_time_is_over(&mut self, id: Option<&JobId>, limit: &str) {
        let (Some(id), Some(run)) = (id, &self.run) else {
            return;
        };
        let what = match limit {
            "idle-timeout" => ("wrote nothing for", run.idle_timeout),
            _ => ("took longer than", run.timeout),
        };
        let time = humantime::format_duration(what.1.unwrap_or_default());
        let said = format!(
            "agent-sh: job {id} {} {time} (--{limit}) and was ended\n",
            what.0
        );
        self.say(said);
    }

    /// To whoever watched a job with `run --wait` and got a signal: it is the watching that ends.
    pub(super) fn say_no_longer_watched(&mut self, signal: i32) {
        let name = nix::sys::signal::Signal::try_from(signal)
            .map_or_else(|_| format!("signal {signal}"), |name| name.to_string());
        if let Some(id) = self.jobs.first().and_then(Job::id) {
            let said = format!("agent-sh: got {name} and no longer waits; job {id} goes on\n");
            self.say(said);
        }
        self.say_announcement();
    }

    fn say(&mut self, text: String) {
        if let Some(link) = &mut self.link {
            link.tell(&ToFront::Say(text.into_bytes()));
        }
    }

    fn line(&self, job: &Job, program: &str) -> String {
        let shown = text::redact(&text::sanitize(&job.text));
        let command = if job.is_stray {
            notice::told_command(How::Stray, &shown, COMMAND)
        } else {
            text::shorten(&shown, COMMAND)
        };
        let pid = job.pid;
        let Some(id) = job.id() else {
            let why = self.ledger.refusal().unwrap_or("nothing can be stored");
            return format!(
                "[agent-sh] {command} (pid {pid}) is still running in the background, but no record \
                 of it can be kept: {why}"
            );
        };
        let path = job.redirected_to.as_deref().filter(|_| !job.is_stray);
        let output = match path.and_then(text::plain_path) {
            Some(path) => path.to_owned(),
            None => format!("{program} logs {id}"),
        };
        format!(
            "[agent-sh] job {id} is still running in the background: {command} (pid {pid}). \
             Output: {output}. Stop: {program} kill {id}"
        )
    }

    /// `agent-sh` when that finds us (or another of us) in PATH, else the whole path.
    pub(super) fn program_name(&self) -> &str {
        self.program_name.get_or_init(|| {
            let listed = std::env::var_os("PATH").unwrap_or_default();
            let found = std::env::split_paths(&listed).any(|dir| dir.join("agent-sh").is_file());
            if found {
                "agent-sh".to_owned()
            } else {
                text::quote(self.ourselves.as_os_str().as_encoded_bytes())
            }
        })
    }
}

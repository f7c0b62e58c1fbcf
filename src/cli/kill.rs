//! `kill`: ends jobs, whole trees of them, and says how each ended.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use crate::cli::format::{ending, sentence, signal_name};
use crate::cli::row;
use crate::cli::values::signal;
use crate::context::Context;
use crate::error::Result;
use crate::job::KillCause;
use crate::kill::{self, Report, Survivor};
use crate::message;
use crate::settings;
use crate::store::JobView;
use crate::text;

/// Stop jobs: TERM, then KILL, to the whole process tree
#[derive(Debug, Args)]
#[command(after_help = "\
Says how each job ended, even if it had ended before. TERM, INT, QUIT and ABRT are followed by KILL after the \
grace period. Other signals (HUP, USR1, STOP, CONT …) are sent once. The record says that agent-sh asked. \
-9, -KILL and so on work as with kill.

Example:
  agent-sh kill 7f3k
  agent-sh kill web db -s INT --grace 30s
  agent-sh kill --all                all running jobs of this session

Exit codes: 0 all of them have ended (or the signal was sent), 1 something is still running, 2 wrong usage, 125 no such \
job or agent-sh failed.")]
pub(super) struct Kill {
    /// Ids, unique prefixes of ids, names, or 'last'
    #[arg(value_name = "ID", required_unless_present_any = ["session", "all"])]
    pub jobs: Vec<String>,
    /// All running jobs of the caller's session
    #[arg(long, conflicts_with_all = ["jobs", "session"])]
    pub all: bool,
    /// All running jobs of this session; with IDs: the session that 'last' and names refer to
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// The first signal: TERM, SIGTERM or 15
    #[arg(short, long, value_name = "SIGNAL", default_value = "TERM", value_parser = signal)]
    pub signal: i32,
    /// How long the job may take to end before it gets KILL
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, default_value = "5s", value_parser = settings::duration)]
    pub grace: Duration,
    /// Print records as JSON, one per line
    #[arg(long)]
    pub json: bool,
}

/// `-9`, `-KILL`, `-SIGTERM`, as every kill takes them, in the form that clap reads.
pub(crate) fn readable(args: Vec<OsString>) -> Vec<OsString> {
    let mut options = true;
    let read = |(place, arg): (usize, OsString)| {
        options &= arg != "--";
        let word = arg.to_str().and_then(|arg| arg.strip_prefix('-'));
        let plain = |word: &&str| {
            let letters =
                |test: fn(&u8) -> bool| !word.is_empty() && word.bytes().all(|b| test(&b));
            letters(u8::is_ascii_digit)
                || word.len() > 1 && letters(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
        };
        match word.filter(plain).filter(|_| options && place > 1) {
            Some(word) if signal(word).is_ok() => format!("--signal={word}").into(),
            _ => arg,
        }
    };
    args.into_iter().enumerate().map(read).collect()
}

pub(crate) fn kill(context: &Context, kill: &Kill) -> Result<u8> {
    let mut worst = 0;
    let session = context.session();
    let session = session.as_deref();
    let mut jobs: Vec<JobView> = Vec::new();
    if kill.all {
        jobs = context.running_in(session)?;
        // Without a session those of others are not meant: their agents would miss them.
        jobs.retain(|job| job.launch.facts.session.as_deref() == session);
        if jobs.is_empty() {
            message::say_with_hint(
                "no job of this session is running",
                "'agent-sh ps -A' shows the jobs of every session, 'agent-sh kill --session KEY' ends those of one",
            );
        }
    }
    if let (Some(key), true) = (&kill.session, kill.jobs.is_empty()) {
        jobs = context.running_in(Some(key))?;
        if jobs.is_empty() {
            message::say(format!("no job is running in session '{key}'"));
        }
    }
    for wanted in &kill.jobs {
        // One that is unknown must not protect the others.
        match context.find_in(wanted, kill.session.as_deref()) {
            Ok(job) if jobs.iter().any(|before| before.dir == job.dir) => {}
            Ok(job) => jobs.push(job),
            Err(error) => worst = worst.max(message::error(&error)),
        }
    }
    let wish = kill::Wish {
        signal: kill.signal,
        grace: kill.grace,
        by: KillCause::of_verb(session.is_some()),
        session,
    };
    // Whom a job has left is found while the job can still be looked at.
    let all: Vec<JobView> = jobs.clone();
    let results = kill::at_once(&jobs, |job| kill::end_whole(job, &all, &wish));
    for (job, result) in jobs.iter().zip(results) {
        let code = match result {
            Ok(whole) => tell_whole(job, &whole, kill)?,
            Err(error) => message::error(&error),
        };
        worst = worst.max(code);
    }
    Ok(worst)
}

fn tell_whole(job: &JobView, whole: &kill::Whole, kill: &Kill) -> Result<u8> {
    let mut worst = tell(job, None, &whole.report, kill)?;
    for (daemon, report) in &whole.daemons {
        worst = worst.max(tell(daemon, Some(job), report, kill)?);
    }
    let id = &job.launch.id;
    for survivor in &whole.survivors {
        let Survivor { job, pid, command } = survivor;
        let command = text::sanitize(command.as_bytes());
        match job {
            Some(other) => message::say_with_hint(
                format!(
                    "job {other} (pid {pid}) lives on and may have come from job {id}: {command}"
                ),
                format!("'agent-sh kill {other}' ends it"),
            ),
            None => message::say_with_hint(
                format!("process {pid} lives on and may have come from job {id}: {command}"),
                format!("'kill {pid}' ends it"),
            ),
        }
    }
    Ok(worst)
}

/// `of`: the job that it is a daemon of.
fn tell(job: &JobView, of: Option<&JobView>, report: &Report, kill: &Kill) -> Result<u8> {
    let id = &job.launch.id;
    let whose = of.map(|job| format!(", a daemon of job {},", job.launch.id));
    let whose = whose.unwrap_or_default();
    let command = text::shorten(&job.launch.facts.command.text, 120);
    match report {
        Report::Before | Report::Ended(_) if kill.json => {
            let job = if let Report::Ended(ended) = report {
                ended
            } else {
                job
            };
            message::out_json(&crate::cli::show::facts(job))?;
            Ok(0)
        }
        Report::Before => {
            let how = already(&ending(&row(job)));
            message::out(&format!("job {id}{whose} {how}: {command}\n"))?;
            Ok(0)
        }
        Report::Ended(ended) if of.is_some() => {
            let how = ending(&row(ended));
            message::out(&format!("job {id}{whose} {how}: {command}\n"))?;
            Ok(0)
        }
        Report::Ended(ended) => {
            message::out(&format!("{}\n", sentence(&row(ended))))?;
            Ok(0)
        }
        Report::Gone => {
            message::say(format!(
                "job {id}{whose} is gone; its record is still to come"
            ));
            Ok(0)
        }
        Report::Sent => {
            let signal = signal_name(kill.signal);
            message::say(format!(
                "job {id}{whose} got {signal} and has not ended: {command}"
            ));
            Ok(0)
        }
        Report::Left(pids, refused) => {
            let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
            let why = match refused {
                Some(error) => crate::error::cause(error),
                None => "it does not go away".to_owned(),
            };
            let pids = pids.join(", ");
            message::say(format!("cannot end all of job '{id}' (pid {pids}): {why}"));
            Ok(1)
        }
    }
}

/// The sentence of an end that we did not bring about.
pub(crate) fn already(ending: &str) -> String {
    for (now, before) in [
        ("exited", "already exited"),
        ("was signaled", "was already signaled"),
        ("is lost", "was already lost"),
    ] {
        if let Some(rest) = ending.strip_prefix(now) {
            return format!("{before}{rest}");
        }
    }
    ending.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_as_every_kill_takes_them() {
        for (words, wanted) in [
            ("agent-sh kill -9 7f3k", "agent-sh kill --signal=9 7f3k"),
            (
                "agent-sh kill -KILL 7f3k",
                "agent-sh kill --signal=KILL 7f3k",
            ),
            (
                "agent-sh kill 7f3k -SIGTERM",
                "agent-sh kill 7f3k --signal=SIGTERM",
            ),
            ("agent-sh kill -USR1 a b", "agent-sh kill --signal=USR1 a b"),
            ("agent-sh kill -s 9 a", "agent-sh kill -s 9 a"),
            ("agent-sh kill -- -9", "agent-sh kill -- -9"),
            ("agent-sh kill -99 a", "agent-sh kill -99 a"),
            ("agent-sh kill -NONE a", "agent-sh kill -NONE a"),
            ("agent-sh kill -h", "agent-sh kill -h"),
        ] {
            let words = words.split(' ').map(OsString::from).collect();
            let wanted: Vec<OsString> = wanted.split(' ').map(OsString::from).collect();
            assert_eq!(readable(words), wanted);
        }
    }

    #[test]
    fn ends_that_came_before() {
        for (now, before) in [
            ("exited with 0 after 2s", "already exited with 0 after 2s"),
            ("was signaled (KILL)", "was already signaled (KILL)"),
            ("is lost (reboot)", "was already lost (reboot)"),
        ] {
            assert_eq!(already(now), before);
        }
    }
}

//! `kill`: ends jobs, whole trees of them.
//!
//! It writes down that it asked, tells the supervisor whom it is about to signal, signals, and waits; how
//! a job ended is for its supervisor to say. To a tree belong also the job's daemons: processes that were
//! left to the supervisor and carry the job's mark. Those that have become jobs of their own are ended as
//! such, also when the job itself has ended before. What carries no mark is left alone, and named.
//! Processes are signalled one by one, each through a pidfd whose process was checked: a pid that was
//! reused meanwhile is never hit.

mod home;
#[cfg(test)]
mod tests;
mod tree;

use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use crate::cli::{self, Kill};
use crate::error::{Error, Result};
use crate::job::record::KillIntent;
use crate::message;
use crate::store::{JobView, Waited};
use crate::sys::clock;
use crate::sys::signal::{ENDING, HARMLESS};
use crate::text;
use crate::verbs::format::{ending, sentence, signal_name};
use crate::verbs::{Context, row};
use home::{Home, Survivor};
pub(crate) use tree::Tree;

/// How long processes may take to go after KILL; only the kernel can hold them then.
const AFTER_KILL: Duration = Duration::from_secs(10);
/// How long the record may take once all processes are gone.
const FOR_RECORD: Duration = Duration::from_secs(5);
/// How long a signal that only may end a job is given before we say that it lives.
const AFTER_OTHER: Duration = Duration::from_millis(300);
/// How often it is looked for what has become a job meanwhile.
const ROUNDS: usize = 5;

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
            Some(word) if cli::signal(word).is_ok() => format!("--signal={word}").into(),
            _ => arg,
        }
    };
    args.into_iter().enumerate().map(read).collect()
}

pub(crate) fn kill(context: &Context, kill: &Kill) -> Result<u8> {
    let mut worst = 0;
    let mut jobs: Vec<JobView> = Vec::new();
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
    let session = context.session();
    let session = session.as_deref();
    let wish = Wish {
        signal: kill.signal,
        grace: kill.grace,
        by: "cli",
        session,
    };
    // Whom a job has left is found while the job can still be looked at.
    let all: Vec<JobView> = jobs.clone();
    let results = at_once(&jobs, |job| end_whole(job, &all, &wish));
    for (job, result) in jobs.iter().zip(results) {
        let code = match result {
            Ok(whole) => tell_whole(job, &whole, kill)?,
            Err(error) => message::error(&error),
        };
        worst = worst.max(code);
    }
    Ok(worst)
}

/// All at the same time: the grace of one must not delay the others.
fn at_once<T: Send>(
    jobs: &[JobView],
    work: impl Fn(&JobView) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = jobs
            .iter()
            .map(|job| scope.spawn(move || work(job)))
            .collect();
        let failed = || Error::sys("end a job", io::Error::other("a thread of ours ended"));
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|result| result.unwrap_or_else(|_| Err(failed())))
            .collect()
    })
}

/// What is wanted of a job's end, and by whom.
struct Wish<'a> {
    signal: i32,
    grace: Duration,
    by: &'a str,
    session: Option<&'a str>,
}

/// What became of a job and of all that came from it.
struct Whole {
    report: Report,
    /// Jobs of their own that it had left.
    daemons: Vec<(JobView, Report)>,
    survivors: Vec<Survivor>,
}

/// Ends a job, and with it the jobs that its daemons have become. `asked`: those that are ended anyway.
fn end_whole(job: &JobView, asked: &[JobView], wish: &Wish<'_>) -> Result<Whole> {
    let home = Home::of(job);
    let ends = ENDING.contains(&wish.signal);
    let mut whole = Whole {
        report: Report::Before,
        daemons: Vec::new(),
        survivors: Vec::new(),
    };
    let mut first = true;
    // A daemon may become a job while its own is being ended.
    for _ in 0..ROUNDS {
        let mut left = if ends { home.left_jobs()? } else { Vec::new() };
        left.retain(|job| {
            let is = |other: &JobView| other.dir == job.dir;
            !asked.iter().any(is) && !whole.daemons.iter().any(|(before, _)| is(before))
        });
        if first {
            left.insert(0, job.clone());
        }
        if left.is_empty() {
            break;
        }
        for (job, report) in left.iter().zip(at_once(&left, |job| end(job, wish))) {
            if std::mem::take(&mut first) {
                whole.report = report?;
            } else {
                whole.daemons.push((job.clone(), report?));
            }
        }
    }
    let gone = !matches!(whole.report, Report::Sent | Report::Left(..));
    if gone {
        whole.survivors = home.survivors()?;
    }
    Ok(whole)
}

fn tell_whole(job: &JobView, whole: &Whole, kill: &Kill) -> Result<u8> {
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

/// What became of a job.
#[derive(Debug)]
enum Report {
    /// It had ended before we asked.
    Before,
    Ended(Box<JobView>),
    /// Its processes are gone, its record is not there yet.
    Gone,
    /// The signal was sent, and it lives.
    Sent,
    /// These would not go; the refusal of the first, if one was refused.
    Left(Vec<i32>, Option<io::Error>),
}

fn end(job: &JobView, wish: &Wish<'_>) -> Result<Report> {
    let signal = wish.signal;
    if job.state.is_terminal() {
        return end_rest(job, wish);
    }
    let mut tree = Tree::of(job)?;
    if !HARMLESS.contains(&signal) {
        let intent = KillIntent {
            by: wish.by.to_owned(),
            signal,
            at: humantime::format_rfc3339_millis(clock::wall()).to_string(),
            session: wish.session.map(str::to_owned),
        };
        // A disk that takes no intent must not protect a job.
        job.request_kill(&intent).ok();
    }
    if !ENDING.contains(&signal) {
        let refused = tree.signal_new(signal, None, &mut Vec::new());
        return match (job.wait(Some(Instant::now() + AFTER_OTHER))?, refused) {
            (Waited::Ended(ended), _) => Ok(Report::Ended(ended)),
            (Waited::Gone, _) => Ok(Report::Gone),
            (Waited::TimedOut, None) => Ok(Report::Sent),
            (Waited::TimedOut, error) => Ok(Report::Left(vec![job.launch.proc.pid], error)),
        };
    }
    let (left, refused) = tree.end_all(wish);
    if !left.is_empty() {
        return Ok(Report::Left(left, refused));
    }
    match job.wait(Some(Instant::now() + FOR_RECORD))? {
        Waited::Ended(ended) => Ok(Report::Ended(ended)),
        Waited::Gone | Waited::TimedOut => Ok(Report::Gone),
    }
}

/// Ends what an ended job has left, if that is no job yet.
fn end_rest(job: &JobView, wish: &Wish<'_>) -> Result<Report> {
    let Some(mut tree) = Tree::of(job).ok().filter(|_| ENDING.contains(&wish.signal)) else {
        return Ok(Report::Before);
    };
    if tree.pids().is_empty() {
        return Ok(Report::Before);
    }
    let (left, refused) = tree.end_all(wish);
    Ok(if left.is_empty() {
        Report::Before
    } else {
        Report::Left(left, refused)
    })
}

/// Ends jobs without a word, each with its own thread: a hook has little time.
pub(crate) fn end_quietly(jobs: &[JobView], grace: Duration, by: &str, session: &str) {
    let wish = Wish {
        signal: libc::SIGTERM,
        grace,
        by,
        session: Some(session),
    };
    drop(at_once(jobs, |job| end(job, &wish)));
}

/// `of`: the job that it is a daemon of.
fn tell(job: &JobView, of: Option<&JobView>, report: &Report, kill: &Kill) -> Result<u8> {
    let id = &job.launch.id;
    let whose = of.map(|job| format!(", a daemon of job {},", job.launch.id));
    let whose = whose.unwrap_or_default();
    let command = text::shorten(&job.launch.command.text, 120);
    match report {
        Report::Before | Report::Ended(_) if kill.json => {
            let job = if let Report::Ended(ended) = report {
                ended
            } else {
                job
            };
            message::out_json(&super::show::facts(job))?;
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

//! Ending jobs, whole trees of them.
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

use std::io;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::job::KillCause;
use crate::job::record::KillIntent;
use crate::store::{JobView, Waited};
use crate::sys::clock;
use crate::sys::signal::{ENDING, HARMLESS};
use home::Home;
pub(crate) use home::Survivor;
pub(crate) use tree::Tree;

/// How long processes may take to go after KILL; only the kernel can hold them then.
const AFTER_KILL: Duration = Duration::from_secs(10);
/// How long the record may take once all processes are gone.
const FOR_RECORD: Duration = Duration::from_secs(5);
/// How long a signal that only may end a job is given before we say that it lives.
const AFTER_OTHER: Duration = Duration::from_millis(300);
/// How often it is looked for what has become a job meanwhile.
const ROUNDS: usize = 5;

/// All at the same time: the grace of one must not delay the others.
pub(crate) fn at_once<T: Send>(
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
pub(crate) struct Wish<'a> {
    pub(crate) signal: i32,
    pub(crate) grace: Duration,
    pub(crate) by: KillCause,
    pub(crate) session: Option<&'a str>,
}

/// What became of a job and of all that came from it.
pub(crate) struct Whole {
    pub(crate) report: Report,
    /// Jobs of their own that it had left.
    pub(crate) daemons: Vec<(JobView, Report)>,
    pub(crate) survivors: Vec<Survivor>,
}

/// Ends a job, and with it the jobs that its daemons have become. `asked`: those that are ended anyway.
pub(crate) fn end_whole(job: &JobView, asked: &[JobView], wish: &Wish<'_>) -> Result<Whole> {
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

/// What became of a job.
#[derive(Debug)]
pub(crate) enum Report {
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
            by: wish.by.clone(),
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
            (Waited::TimedOut, error) => Ok(Report::Left(vec![job.launch.facts.proc.pid], error)),
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
pub(crate) fn end_quietly(jobs: &[JobView], grace: Duration, by: KillCause, session: &str) {
    let wish = Wish {
        signal: libc::SIGTERM,
        grace,
        by,
        session: Some(session),
    };
    drop(at_once(jobs, |job| end(job, &wish)));
}

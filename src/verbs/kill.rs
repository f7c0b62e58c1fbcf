//! `kill`: ends jobs, whole trees of them.
//!
//! It writes down that it asked, tells the supervisor whom it is about to signal, signals, and waits; how
//! a job ended is for its supervisor to say. To a tree belong also the job's daemons: processes that were
//! left to the supervisor, carry the job's mark and are no jobs of their own.
//! Processes are signalled one by one, each through a pidfd whose process was checked: a pid that was
//! reused meanwhile is never hit.

mod home;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::cli::{self, Kill};
use crate::error::{Error, Result};
use crate::message;
use crate::record::KillIntent;
use crate::store::{JobView, Waited};
use crate::sys::signal::ENDING;
use crate::sys::{clock, proc};
use crate::text;
use crate::verbs::format::{ending, sentence, signal_name};
use crate::verbs::{Context, row};
use home::Home;

/// How long processes may take to go after KILL; only the kernel can hold them then.
const AFTER_KILL: Duration = Duration::from_secs(10);
/// How long the record may take once all processes are gone.
const FOR_RECORD: Duration = Duration::from_secs(5);
/// How long a signal that only may end a job is given before we say that it lives.
const AFTER_OTHER: Duration = Duration::from_millis(300);
/// Signals that no program ends by unless it wants to: they are no wish for an end.
const HARMLESS: [i32; 8] = [
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGURG,
    libc::SIGWINCH,
];

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
    // All at once: the grace of one must not delay the others.
    let results: Vec<Result<Report>> = std::thread::scope(|scope| {
        let threads: Vec<_> = jobs
            .iter()
            .map(|job| scope.spawn(move || end(job, kill.signal, kill.grace, "cli", session)))
            .collect();
        let failed = || Error::sys("end a job", io::Error::other("a thread of ours ended"));
        let joined = threads.into_iter().map(|t| t.join());
        joined
            .map(|result| result.unwrap_or_else(|_| Err(failed())))
            .collect()
    });
    for (job, result) in jobs.iter().zip(results) {
        let code = match result {
            Ok(report) => tell(job, &report, kill)?,
            Err(error) => message::error(&error),
        };
        worst = worst.max(code);
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

fn end(
    job: &JobView,
    signal: i32,
    grace: Duration,
    by: &str,
    session: Option<&str>,
) -> Result<Report> {
    if job.state.is_terminal() {
        return Ok(Report::Before);
    }
    let mut tree = Tree::of(job)?;
    if !HARMLESS.contains(&signal) {
        let intent = KillIntent {
            by: by.to_owned(),
            signal,
            at: humantime::format_rfc3339_millis(clock::wall()).to_string(),
            session: session.map(str::to_owned),
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
    let mut left = if signal == libc::SIGKILL {
        Vec::new()
    } else {
        tree.end_with(signal, grace).0
    };
    let mut refused = None;
    if signal == libc::SIGKILL || !left.is_empty() {
        (left, refused) = tree.end_with(libc::SIGKILL, AFTER_KILL);
    }
    if !left.is_empty() {
        return Ok(Report::Left(left, refused));
    }
    match job.wait(Some(Instant::now() + FOR_RECORD))? {
        Waited::Ended(ended) => Ok(Report::Ended(ended)),
        Waited::Gone | Waited::TimedOut => Ok(Report::Gone),
    }
}

/// Ends jobs without a word, each with its own thread: a hook has little time.
pub(crate) fn end_quietly(jobs: &[JobView], grace: Duration, by: &str, session: &str) {
    std::thread::scope(|scope| {
        for job in jobs {
            scope.spawn(move || drop(end(job, libc::SIGTERM, grace, by, Some(session))));
        }
    });
}

fn tell(job: &JobView, report: &Report, kill: &Kill) -> Result<u8> {
    let id = &job.launch.id;
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
            message::out(&format!("job {id} {how}: {command}\n"))?;
            Ok(0)
        }
        Report::Ended(ended) => {
            message::out(&format!("{}\n", sentence(&row(ended))))?;
            Ok(0)
        }
        Report::Gone => {
            message::say(format!("job {id} is gone; its record is still to come"));
            Ok(0)
        }
        Report::Sent => {
            let signal = signal_name(kill.signal);
            message::say(format!(
                "job {id} got {signal} and has not ended: {command}"
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

/// What of a process decides whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    ppid: i32,
    pgid: i32,
    sid: i32,
    starttime: u64,
}

/// The processes of one job.
#[derive(Debug)]
pub(super) struct Tree {
    leader: (i32, u64),
    /// The leader began a session, or a group: all in it belong to the job.
    has_session: bool,
    has_group: bool,
    /// Each process once seen in the tree. Its children are found also when the leader is gone.
    known: HashMap<i32, u64>,
    /// Never signalled, whatever the table says.
    spared: [i32; 2],
    /// `None` in tests.
    home: Option<Home>,
}

impl Tree {
    pub(super) fn of(job: &JobView) -> Result<Self> {
        let identity = &job.launch.proc;
        let here = (proc::boot_id(), proc::pidns(), proc::timens());
        if (identity.boot_id.as_str(), identity.pidns, identity.timens) != here {
            return Err(Error::Failed {
                text: format!(
                    "cannot reach job '{}': it runs in another container or namespace",
                    job.launch.id
                ),
                hint: Some("run this where the job was started".to_owned()),
            });
        }
        let leader = proc::stat(identity.pid)
            .filter(|stat| identity.pid > 1 && stat.starttime == identity.starttime);
        Ok(Self {
            leader: (identity.pid, identity.starttime),
            has_session: leader.is_some_and(|stat| stat.sid == stat.pid),
            has_group: leader.is_some_and(|stat| stat.pgid == stat.pid),
            known: leader
                .map(|stat| (stat.pid, stat.starttime))
                .into_iter()
                .collect(),
            spared: [std::process::id() as i32, job.launch.supervisor.pid],
            home: Some(Home::of(job)),
        })
    }

    /// Who of the tree lives in this look at the system; remembers them.
    fn living(&mut self, table: &[Process]) -> Vec<Process> {
        let (pid, starttime) = self.leader;
        // Somebody else with the leader's pid: its session and group are his then.
        let reused = table
            .iter()
            .any(|p| p.pid == pid && p.starttime != starttime);
        let belongs = |p: &Process| {
            self.known.get(&p.pid) == Some(&p.starttime)
                || !reused && self.has_session && p.sid == pid
                || !reused && self.has_group && p.pgid == pid
        };
        let may = |p: &Process| p.pid > 1 && !self.spared.contains(&p.pid);
        let mut inside: HashSet<i32> = table
            .iter()
            .filter(|p| belongs(p) && may(p))
            .map(|p| p.pid)
            .collect();
        let mut size = 0;
        while inside.len() > size {
            size = inside.len();
            let below = table.iter().filter(|p| may(p) && inside.contains(&p.ppid));
            let below: Vec<i32> = below.map(|p| p.pid).collect();
            inside.extend(below);
        }
        let living: Vec<Process> = table
            .iter()
            .filter(|p| inside.contains(&p.pid))
            .copied()
            .collect();
        self.known
            .extend(living.iter().map(|p| (p.pid, p.starttime)));
        living
    }

    /// Who of it lives now.
    pub(super) fn pids(&mut self) -> Vec<i32> {
        self.look().into_iter().map(|process| process.pid).collect()
    }

    fn look(&mut self) -> Vec<Process> {
        let table = proc::table();
        if let Some(home) = &mut self.home {
            let known = |(pid, starttime)| self.known.get(&pid) == Some(&starttime);
            let daemons = home.new_daemons(&table, known);
            self.known.extend(daemons);
        }
        let table: Vec<Process> = table
            .into_iter()
            .filter(|stat| !stat.is_dead())
            .map(|stat| Process {
                pid: stat.pid,
                ppid: stat.ppid,
                pgid: stat.pgid,
                sid: stat.sid,
                starttime: stat.starttime,
            })
            .collect();
        self.living(&table)
    }

    /// Signals all that live and were not in `sent` yet; gives the first refusal. `time`: how long their
    /// end may take, which is said before; `None`: the signal only may end them, and nothing follows it.
    fn signal_new(
        &mut self,
        signal: i32,
        time: Option<Duration>,
        sent: &mut Vec<(Process, OwnedFd)>,
    ) -> Option<io::Error> {
        let mut refused = None;
        let mut new = self.look();
        new.retain(|process| !sent.iter().any(|(before, _)| before == process));
        if let (Some(home), Some(time)) = (&self.home, time) {
            home.announce(new.iter().map(|p| (p.pid, p.starttime)).collect(), time);
        }
        for process in new {
            // One that ended meanwhile is no failure.
            let Ok(pidfd) = proc::pidfd_open_checked(process.pid, process.starttime) else {
                continue;
            };
            match proc::pidfd_send_signal(&pidfd, signal) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                Err(error) => refused = refused.or(Some(error)),
            }
            // A stopped process acts on a signal only when it goes on.
            if ENDING.contains(&signal) && signal != libc::SIGKILL {
                proc::pidfd_send_signal(&pidfd, libc::SIGCONT).ok();
            }
            sent.push((process, pidfd));
        }
        refused
    }

    /// Signals until nobody is left or the time is over. Gives those left, and the first refusal.
    fn end_with(&mut self, signal: i32, time: Duration) -> (Vec<i32>, Option<io::Error>) {
        let deadline = Instant::now() + time;
        let mut sent = Vec::new();
        let mut refused = None;
        loop {
            // KILL follows, and only when the kernel holds somebody it needs all of its time.
            let error = self.signal_new(signal, Some(time + AFTER_KILL), &mut sent);
            refused = refused.or(error);
            sent.retain(|(_, pidfd)| is_alive(pidfd));
            if sent.is_empty() {
                // Whoever was born since the look is found by another one.
                let left: Vec<i32> = self.look().iter().map(|p| p.pid).collect();
                if left.is_empty() || Instant::now() >= deadline {
                    return (left, refused);
                }
                continue;
            }
            // KILL must also meet those who are born while the others die.
            let patience = if signal == libc::SIGKILL {
                deadline.min(Instant::now() + Duration::from_millis(50))
            } else {
                deadline
            };
            wait_for_one(&sent, patience);
            if Instant::now() >= deadline {
                return (self.look().iter().map(|p| p.pid).collect(), refused);
            }
        }
    }
}

fn is_alive(pidfd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
    matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0) | Err(Errno::EINTR))
}

/// Blocks until one of them ends, or the deadline.
fn wait_for_one(sent: &[(Process, OwnedFd)], deadline: Instant) {
    let mut fds: Vec<PollFd> = sent
        .iter()
        .map(|(_, pidfd)| PollFd::new(pidfd.as_fd(), PollFlags::POLLIN))
        .collect();
    let left = deadline.saturating_duration_since(Instant::now());
    let ms = i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX);
    // An interrupted wait is a short one: the caller looks again.
    poll(
        &mut fds,
        PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX),
    )
    .ok();
}

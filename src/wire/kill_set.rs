//! A kill under way: which processes are about to end together with a job, and whether a process is a
//! daemon of one.
//!
//! Whoever kills a job says so to its supervisor before the first signal. Afterwards nobody could tell
//! a process that died of the kill from one that ended by itself: the job is gone, its tree was handed
//! to the supervisor, and the dead have no environment.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use crate::invocation::OWN_NAME;
use crate::job::JobId;
use crate::sys::proc::{self, Stat};
use crate::sys::{fds, signal};
use crate::wire::codec::{BLANK, NUL, Reader, Writer};
use crate::wire::frame::frame;
use crate::wire::{Address, JOB_VARIABLE, SUPERVISOR_VARIABLE};

pub(super) const KIND: u8 = b'k';
/// How many processes one frame names; each takes 32 bytes at most.
const MOST: usize = 100;
/// How long a supervisor may take to make room for what it is told.
const PATIENCE_MS: i32 = 200;

/// A process that cannot be mistaken for a later one of the same pid.
pub(crate) type Who = (i32, u64);

/// Processes that somebody is about to end together with a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillSet {
    pub job: JobId,
    /// How long that may take; whoever lives then is let live.
    pub time: Duration,
    pub who: Vec<Who>,
}

impl KillSet {
    fn encode(&self) -> Vec<Vec<u8>> {
        let frames = self.who.chunks(MOST).map(|some| {
            let who = some.iter().fold(Writer::new(BLANK), |list, who| {
                list.field(who.0).field(who.1)
            });
            let content = Writer::new(NUL)
                .field(&self.job)
                .field(self.time.as_millis())
                .bytes(&who.done());
            frame(KIND, &content.done())
        });
        frames.collect()
    }

    pub(super) fn read(content: &[u8]) -> Option<Self> {
        let mut fields = Reader::new(content, NUL);
        let job = fields.field()?;
        let time = Duration::from_millis(fields.field()?);
        let mut list = Reader::new(fields.rest()?, BLANK);
        let mut who = Vec::new();
        while let Some(pid) = list.text() {
            who.push((pid.parse().ok()?, list.field()?));
        }
        Some(Self { job, time, who })
    }

    /// Tells the job's supervisor, which reads it before it judges anybody's death. Nobody answers, and
    /// a supervisor that cannot be told protects nobody: it goes by the written intent then.
    pub fn tell(&self, address: Address) {
        let Ok(_supervisor) = proc::pidfd_open(address.pid) else {
            return;
        };
        let flags = libc::O_WRONLY | libc::O_NONBLOCK;
        let Ok(pipe) = fds::open_path(&address.pipe_path(), flags) else {
            return;
        };
        // What was opened is looked at: the number may be another's by now.
        if fds::object(pipe.as_raw_fd()) == Some(address.pipe) {
            self.write(&pipe);
        }
    }

    fn write(&self, pipe: &OwnedFd) {
        // A supervisor that goes away meanwhile is no reason for us to die.
        signal::ignore(&[libc::SIGPIPE]);
        for frame in self.encode() {
            if !fds::wait_writable(pipe.as_raw_fd(), PATIENCE_MS)
                || nix::unistd::write(pipe, &frame).is_err()
            {
                return;
            }
        }
    }
}

/// What the environment of a process says of where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// This job.
    Job,
    /// Another job, or the command itself.
    Other,
    /// Its environment is not ours, or cannot be read: anybody below the same supervisor.
    Unmarked,
}

/// Where a process came from, going by the marks that the job's program was started with: its id, and the
/// address of its supervisor, so that the same id in another store is no match.
#[must_use]
pub(crate) fn origin(pid: i32, job: &JobId, address: Option<&str>) -> Origin {
    let (mut of_job, mut of_supervisor, mut marked) = (false, address.is_none(), false);
    let id = job.as_str().as_bytes();
    let address = address.map(str::as_bytes);
    proc::for_each_variable(pid, |name, value| {
        if name == JOB_VARIABLE.as_bytes() {
            marked = true;
            of_job = value == id;
        } else if name == SUPERVISOR_VARIABLE.as_bytes() {
            marked = true;
            of_supervisor |= Some(value) == address;
        }
    });
    match (marked, of_job && of_supervisor) {
        (_, true) => Origin::Job,
        (true, false) => Origin::Other,
        (false, false) => Origin::Unmarked,
    }
}

/// Whether a process can be a daemon of a job at all. Nothing of ours is: a supervisor of a command of its
/// own, a launcher that is about to become another job.
#[must_use]
pub(crate) fn may_be_daemon(stat: &Stat, supervisor: i32) -> bool {
    stat.pid > 1
        && stat.pid != supervisor
        && !stat.is_dead()
        && !stat.comm().starts_with(OWN_NAME.as_bytes())
        && !proc::is_same_program(stat.pid, supervisor)
}

/// Whether a process that was left to `supervisor` came from this job.
#[must_use]
pub(crate) fn is_daemon_of(stat: &Stat, job: &JobId, supervisor: i32) -> bool {
    stat.ppid == supervisor
        && origin(stat.pid, job, None) == Origin::Job
        && may_be_daemon(stat, supervisor)
}

#[cfg(test)]
mod tests {
    use super::super::frame::{LONGEST, Request};
    use super::*;

    #[test]
    fn any_number_arrives_in_whole_frames() {
        for count in [1, MOST, MOST + 1, 3 * MOST] {
            let who: Vec<Who> = (0..count)
                .map(|at| (i32::MAX, u64::MAX - at as u64))
                .collect();
            let told = KillSet {
                job: "7f3k2mnp".parse().unwrap(),
                time: Duration::from_millis(15_000),
                who: who.clone(),
            };
            let frames = told.encode();
            assert!(frames.iter().all(|frame| frame.len() <= LONGEST));
            let mut bytes = frames.concat();
            let mut heard = Vec::new();
            while let Some(Request::KillSet(some)) = Request::take(&mut bytes) {
                assert_eq!((&some.job, some.time), (&told.job, told.time));
                heard.extend(some.who);
            }
            assert_eq!(heard, who, "{count}");
        }
    }

    #[test]
    fn nonsense_names_nobody() {
        for bad in [
            "",
            "7f3k\0",
            "7f3k\x005\0",
            "7f3k\x005\x0012",
            "7f3k\x005\x0012 x",
            "7f3k\0x\x0012 13",
            "../x\x005\x0012 13",
        ] {
            assert_eq!(KillSet::read(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn an_origin_needs_both_marks() {
        let job: JobId = "7f3k2m".parse().unwrap();
        for (marks, address, wanted) in [
            (&[][..], Some("4.5.6.7"), Origin::Unmarked),
            (&[][..], None, Origin::Unmarked),
            (
                &["AGENT_SH_SUPERVISOR=4.5.6.7"][..],
                Some("4.5.6.7"),
                Origin::Other,
            ),
            (&["AGENT_SH_JOB=7f3k2m"][..], Some("4.5.6.7"), Origin::Other),
            (&["AGENT_SH_JOB=7f3k2m"][..], None, Origin::Job),
            (&["AGENT_SH_JOB=7f3k2"][..], None, Origin::Other),
            (
                &["AGENT_SH_JOB=7f3k2m", "AGENT_SH_SUPERVISOR=4.5.6.7"][..],
                Some("4.5.6.7"),
                Origin::Job,
            ),
            (
                &["AGENT_SH_SUPERVISOR=4.5.6.8", "AGENT_SH_JOB=7f3k2m"][..],
                Some("4.5.6.7"),
                Origin::Other,
            ),
        ] {
            let marks = marks.iter().filter_map(|mark| mark.split_once('='));
            let mut child = std::process::Command::new("sleep")
                .arg("1000")
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .envs(marks.clone())
                .spawn()
                .unwrap();
            let found = origin(child.id().cast_signed(), &job, address);
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(found, wanted, "{:?} {address:?}", marks.collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_not_below_the_supervisor_is_nobodys_daemon() {
        let own = proc::stat(std::process::id().cast_signed()).unwrap();
        let job: JobId = "7f3k2m".parse().unwrap();
        assert!(!is_daemon_of(&own, &job, own.ppid));
        assert!(!is_daemon_of(&own, &job, own.ppid + 1));
    }
}

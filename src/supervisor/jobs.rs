//! Jobs: what we keep of them, and what they write.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::control::Inbox;
use super::{Supervisor, TOKEN_JOB, TOKEN_TTY};
use crate::handoff::Registered;
use crate::record::{self, ExitFacts};
use crate::settings::Capture;
use crate::store::LiveJob;
use crate::sys::fds::{self, Object};
use crate::sys::{clock, proc, pty, session};
use crate::text::StripEscapes;

/// How much a job may write in one go after its end before we stop listening.
const LAST_WORDS: usize = 4 * 1024 * 1024;

/// Where a job's output also appears while the call lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mirror {
    Sink(usize),
    /// The transcript of the job from which it was started.
    Job(usize),
}

/// The leader of a job's pseudo-terminal, or the read end of its pipe.
pub(super) struct Output {
    pub(super) leader: OwnedFd,
    /// Our copy of the job's end, so that its own closing is not taken for the end.
    pub(super) follower: Option<OwnedFd>,
    pub(super) object: Option<Object>,
    /// What the loop is told of: output to read, room for input.
    watched: EpollFlags,
}

impl Output {
    /// Whether nobody but us has the job's end open any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.follower.is_none() && fds::consumer_is_gone(self.leader.as_raw_fd())
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = i32> {
        let follower = self.follower.as_ref().map(AsRawFd::as_raw_fd);
        std::iter::once(self.leader.as_raw_fd()).chain(follower)
    }
}

pub(super) struct Job {
    pub(super) pid: i32,
    pub(super) starttime: u64,
    pub(super) text: Vec<u8>,
    /// `Some` iff it was a stray that its session's leader had left: who that was.
    pub(super) heir_of: Option<i32>,
    /// The record in the making; `None` when nothing can be stored.
    pub(super) live: Option<LiveJob>,
    /// Nobody asked for it: `text` is what the process says of itself.
    pub(super) is_stray: bool,
    pub(super) pidfd: Option<OwnedFd>,
    pub(super) output: Option<Output>,
    /// `Some` iff its stdin is its terminal.
    pub(super) inbox: Option<Inbox>,
    pub(super) mirror: Option<Mirror>,
    strip: StripEscapes,
    pub(super) redirected_to: Option<String>,
    pub(super) ended: bool,
    /// The end of it, if no record of that could be written yet.
    pub(super) unwritten: Option<Box<ExitFacts>>,
    pub(super) stopped_seen: bool,
    /// When to end it (`run --timeout`).
    pub(super) deadline: Option<Duration>,
    /// When it has been silent for too long (`run --idle-timeout`), and how long that is. Moved on
    /// only when it is reached, so that output costs no more than the time it came.
    pub(super) idle: Option<(Duration, Duration)>,
    pub(super) last_output: Duration,
    /// `Some` iff its time was over: which of its limits.
    pub(super) timed_out: Option<&'static str>,
    /// `Some` iff it was published before it registered: what it is to be told then.
    pub(super) expected: Option<Registered>,
    /// Its pidfd tells nothing new; to be looked at when something else happens.
    pub(super) unwatched: bool,
    /// Our own wish to end it; that of others is in the store.
    pub(super) kill_requested: Option<record::KillIntent>,
    token: u64,
}

impl Job {
    pub(super) fn id(&self) -> Option<&crate::job::JobId> {
        self.live.as_ref().map(LiveJob::id)
    }

    /// Whether it runs and nothing tells of its end.
    pub(super) fn is_unseen(&self) -> bool {
        !self.ended && self.pidfd.is_none()
    }

    pub(super) fn mirrors_to(&self, sink: usize) -> bool {
        self.mirror == Some(Mirror::Sink(sink))
    }

    pub(super) fn stop_mirroring(&mut self) {
        if matches!(self.mirror, Some(Mirror::Sink(_))) {
            self.mirror = None;
        }
    }

    pub(super) fn record_output(&mut self, bytes: &[u8]) {
        if self.idle.is_some() {
            self.last_output = clock::boottime();
        }
        if let Some(live) = &mut self.live {
            live.transcript().write(bytes);
        }
    }

    pub(super) fn note_stop(&mut self, signal: Option<i32>) {
        self.stopped_seen |= signal.is_some();
        if let Some(live) = &mut self.live {
            live.set_stopped(signal);
        }
    }

    /// What can wait until the harness was answered.
    pub(super) fn settle_down(&mut self) {
        if let Some(live) = self.live.as_mut().filter(|_| !self.ended) {
            live.preallocate();
            drop(live.sync());
        }
    }

    /// Whether its output is read.
    pub(super) fn listen(&mut self, epoll: &Epoll, on: bool) {
        self.watch_terminal(epoll, EpollFlags::EPOLLIN, on);
    }

    /// Adds to, or takes from, what the loop is told of its terminal. One that nothing is wanted of
    /// is not watched at all: its hang-up would be told for ever.
    pub(super) fn watch_terminal(&mut self, epoll: &Epoll, what: EpollFlags, on: bool) {
        let Some(output) = &mut self.output else {
            return;
        };
        let mut wanted = output.watched;
        wanted.set(what, on);
        if wanted == output.watched {
            return;
        }
        let mut event = EpollEvent::new(wanted, self.token | TOKEN_TTY);
        let result = if wanted.is_empty() {
            epoll.delete(&output.leader)
        } else if output.watched.is_empty() {
            epoll.add(&output.leader, event)
        } else {
            epoll.modify(&output.leader, &mut event)
        };
        if result.is_ok() {
            output.watched = wanted;
        }
    }
}

impl Supervisor {
    pub(super) fn job_of(&self, pid: i32) -> Option<usize> {
        self.jobs
            .iter()
            .position(|job| job.pid == pid && !job.ended)
    }

    /// Whether `pid` is a job that has ended: the shell may have left it to us unreaped.
    pub(super) fn was_job(&self, pid: i32) -> bool {
        let starttime = proc::starttime(pid);
        let mut jobs = self.jobs.iter();
        jobs.any(|job| job.pid == pid && Some(job.starttime) == starttime)
    }

    pub(super) fn new_job(&self, pid: i32, text: Vec<u8>, live: Option<LiveJob>) -> Job {
        let token = self.jobs.len() as u64;
        let pidfd = proc::pidfd_open(pid).ok();
        if let Some(pidfd) = &pidfd {
            self.watch(pidfd, token | TOKEN_JOB);
        }
        let published = live.as_ref().map(|live| live.launch().proc.starttime);
        Job {
            pid,
            starttime: published.or_else(|| proc::starttime(pid)).unwrap_or(0),
            text,
            heir_of: None,
            live,
            is_stray: false,
            pidfd,
            output: None,
            inbox: None,
            mirror: None,
            strip: StripEscapes::new(),
            redirected_to: None,
            ended: false,
            unwritten: None,
            stopped_seen: false,
            deadline: None,
            idle: None,
            last_output: Duration::ZERO,
            timed_out: None,
            expected: None,
            unwatched: false,
            kill_requested: None,
            token,
        }
    }

    /// Takes in a job that we started ourselves.
    pub(super) fn add_started(
        &mut self,
        pid: i32,
        text: Vec<u8>,
        live: LiveJob,
        output: Output,
        mirror: Option<Mirror>,
    ) {
        let mut job = self.new_job(pid, text, Some(live));
        job.output = Some(output);
        job.mirror = mirror;
        job.listen(&self.epoll, true);
        self.jobs.push(job);
    }

    /// Reads a job's output once, and gives how much there was.
    pub(super) fn read_tty(&mut self, index: usize) -> usize {
        let Some(job) = self.jobs.get_mut(index) else {
            return 0;
        };
        let Some(output) = &job.output else {
            return 0;
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = buffer.fill(&output.leader);
        match &result {
            // A pseudo-terminal that nobody has open any more answers EIO.
            Ok(0) => job.listen(&self.epoll, false),
            Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                job.listen(&self.epoll, false);
            }
            Ok(count) => self.take_output(index, buffer.bytes(*count)),
            Err(_) => {}
        }
        self.buffer = buffer;
        result.unwrap_or(0)
    }

    fn take_output(&mut self, index: usize, bytes: &[u8]) {
        self.jobs[index].record_output(bytes);
        match self.jobs[index].mirror {
            Some(Mirror::Sink(sink)) if self.run.is_none() => {
                let Some(target) = self.sinks.get_mut(sink) else {
                    return;
                };
                // A background job never holds the call: what the harness does not take at once is
                // in the transcript.
                if target.is_terminal {
                    target.offer(bytes);
                } else {
                    let mut clean = Vec::with_capacity(bytes.len());
                    self.jobs[index].strip.push(bytes, &mut clean);
                    target.offer(&clean);
                }
                if self.sinks[sink].gone {
                    self.consumer_left(sink);
                }
            }
            Some(Mirror::Sink(sink)) => {
                if self.sinks.get(sink).is_some_and(|sink| sink.is_terminal) {
                    self.write_sink(sink, bytes);
                } else {
                    let mut clean = Vec::with_capacity(bytes.len());
                    self.jobs[index].strip.push(bytes, &mut clean);
                    self.write_sink(sink, &clean);
                }
            }
            Some(Mirror::Job(parent)) if parent != index && !self.jobs[parent].ended => {
                self.take_output(parent, bytes);
            }
            _ => {}
        }
    }

    /// Reads what a job wrote up to now. `poll` makes the kernel hand over what is still under way.
    pub(super) fn drain_tty(&mut self, index: usize) {
        let mut left = LAST_WORDS;
        while let Some(output) = &self.jobs[index].output {
            let ready = fds::wait_readable(&[output.leader.as_raw_fd()], 0)[0];
            if !ready {
                break;
            }
            let count = self.read_tty(index);
            if count == 0 || count >= left {
                break;
            }
            left -= count;
        }
    }
}

/// Where a descriptor of a process leads, when that is a file with a name.
pub(super) fn target(pid: i32, fd: i32) -> Option<String> {
    let path = proc::link(pid, &format!("fd/{fd}"))?;
    path.is_absolute()
        .then(|| path.to_string_lossy().into_owned())
}

/// A pseudo-terminal for a job, or a pipe where there is none or none is wanted; with the path that
/// the job opens, and whether it is a terminal.
pub(super) fn open_output(
    capture: Capture,
    degraded: &mut Vec<String>,
) -> Option<(Output, String, bool)> {
    if capture == Capture::Pty {
        match pty::open(pty::Use::Output) {
            Ok(pty) => return Some(on_terminal(pty)),
            Err(_) => degraded.push("no-pty".to_owned()),
        }
    }
    let (leader, end) = fds::pipe().ok()?;
    fds::set_nonblocking(leader.as_fd()).ok()?;
    let path = format!("/proc/{}/fd/{}", session::pid(), end.as_raw_fd());
    let object = fds::object(end.as_raw_fd());
    Some((
        Output {
            leader,
            follower: Some(end),
            object,
            watched: EpollFlags::empty(),
        },
        path,
        false,
    ))
}

fn on_terminal(pty: pty::Pty) -> (Output, String, bool) {
    let object = fds::object(pty.follower.as_raw_fd());
    let output = Output {
        leader: pty.leader,
        follower: Some(pty.follower),
        object,
        watched: EpollFlags::empty(),
    };
    (output, pty.path, true)
}

/// A pseudo-terminal that a job is sat at. Without one it cannot be what was asked for.
pub(super) fn open_seat() -> std::io::Result<(Output, String, bool)> {
    pty::open(pty::Use::Seat).map(on_terminal)
}

//! Jobs: what we keep of them, and what they write.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::control::Inbox;
use super::processes::Ending;
use super::stream::Sink;
use super::{Supervisor, TOKEN_ERRORS, TOKEN_JOB, TOKEN_TTY};
use crate::job::Degraded;
use crate::job::record::{self, ExitFacts, Moment};
use crate::settings::Capture;
use crate::store::LiveJob;
use crate::sys::fds::{self, Object};
use crate::sys::{clock, proc, pty, session};
use crate::text::StripEscapes;
use crate::wire::Registered;

/// How much a job may write in one go after its end before we stop listening.
const LAST_WORDS: usize = 4 * 1024 * 1024;

/// Where a job's output also appears while the call lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mirror {
    Sink(usize),
    /// A channel of the job from which it was started: that one's transcript, and where that goes.
    Job(usize, usize),
}

/// The channel of a job's output, and the second one that its stderr has where the call has two streams.
pub(super) const STDOUT: usize = 0;
pub(super) const STDERR: usize = 1;

/// The leader of a pseudo-terminal, or the read end of a pipe.
pub(super) struct Channel {
    pub(super) leader: OwnedFd,
    /// Our copy of the job's end, so that its own closing is not taken for the end.
    follower: Option<OwnedFd>,
    pub(super) object: Option<Object>,
    /// What the loop is told of: output to read, room for input.
    watched: EpollFlags,
}

impl Channel {
    fn is_abandoned(&self) -> bool {
        self.follower.is_none() && fds::consumer_is_gone(self.leader.as_raw_fd())
    }

    /// Adds to, or takes from, what the loop is told. What nothing is wanted of is not watched at all:
    /// its hang-up would be told for ever.
    fn watch(&mut self, epoll: &Epoll, token: u64, what: EpollFlags, on: bool) {
        let mut wanted = self.watched;
        wanted.set(what, on);
        if wanted == self.watched {
            return;
        }
        let mut event = EpollEvent::new(wanted, token);
        let result = if wanted.is_empty() {
            epoll.delete(&self.leader)
        } else if self.watched.is_empty() {
            epoll.add(&self.leader, event)
        } else {
            epoll.modify(&self.leader, &mut event)
        };
        if result.is_ok() {
            self.watched = wanted;
        }
    }
}

/// A channel with the path by which the job opens its end.
pub(super) struct Opened {
    pub(super) channel: Channel,
    pub(super) path: String,
    pub(super) tty: bool,
}

/// What a job writes to.
pub(super) struct Output {
    pub(super) main: Channel,
    /// `Some` iff its stderr is told apart.
    errors: Option<Channel>,
}

impl Output {
    pub(super) fn new(main: Channel, errors: Option<Channel>) -> Self {
        Self { main, errors }
    }

    fn channels(&self) -> impl Iterator<Item = &Channel> {
        std::iter::once(&self.main).chain(&self.errors)
    }

    fn channel(&mut self, number: usize) -> Option<&mut Channel> {
        match number {
            STDOUT => Some(&mut self.main),
            _ => self.errors.as_mut(),
        }
    }

    /// The channel that one of these is the job's end of.
    pub(super) fn find(&self, streams: &[Option<Object>]) -> Option<usize> {
        self.channels()
            .position(|channel| channel.object.is_some() && streams.contains(&channel.object))
    }

    /// Gives up our copies of the job's ends.
    pub(super) fn let_go(&mut self) {
        self.main.follower = None;
        if let Some(errors) = &mut self.errors {
            errors.follower = None;
        }
    }

    /// Whether nobody but us has the job's ends open any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.channels().all(Channel::is_abandoned)
    }

    pub(super) fn follower(&self) -> Option<&OwnedFd> {
        self.main.follower.as_ref()
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = i32> {
        self.channels().flat_map(|channel| {
            let follower = channel.follower.as_ref().map(AsRawFd::as_raw_fd);
            std::iter::once(channel.leader.as_raw_fd()).chain(follower)
        })
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
    /// For each channel.
    pub(super) mirrors: [Option<Mirror>; 2],
    strips: [StripEscapes; 2],
    /// Its output waits for the harness.
    pub(super) held: bool,
    pub(super) redirected_to: Option<String>,
    pub(super) redirected_stderr: Option<String>,
    pub(super) ended: bool,
    /// It ended before its call returned, which is no news to whoever made the call.
    pub(super) ended_in_call: bool,
    /// `Some` iff it has ended: until when what it left may be ending with it.
    pub(super) ending: Option<Ending>,
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
    /// `Some` iff it has ended and its status could not be read yet: when that was.
    pub(super) end_seen: Option<Moment>,
    /// Nothing told of its end: it was found ended, some time after that.
    pub(super) found_ended: bool,
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
        self.mirrors.contains(&Some(Mirror::Sink(sink)))
    }

    pub(super) fn stop_mirroring(&mut self) {
        for mirror in &mut self.mirrors {
            mirror.take_if(|mirror| matches!(mirror, Mirror::Sink(_)));
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
        for number in [STDOUT, STDERR] {
            self.watch_channel(epoll, number, EpollFlags::EPOLLIN, on);
        }
    }

    /// Whether the loop is told of room for input.
    pub(super) fn want_room(&mut self, epoll: &Epoll, on: bool) {
        self.watch_channel(epoll, STDOUT, EpollFlags::EPOLLOUT, on);
    }

    fn watch_channel(&mut self, epoll: &Epoll, number: usize, what: EpollFlags, on: bool) {
        let kind = [TOKEN_TTY, TOKEN_ERRORS][number];
        let output = self.output.as_mut();
        if let Some(channel) = output.and_then(|output| output.channel(number)) {
            channel.watch(epoll, self.token | kind, what, on);
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
        let pidfd = self.can_watch().then(|| proc::pidfd_open(pid).ok());
        let pidfd = pidfd.flatten();
        if let Some(pidfd) = &pidfd {
            self.watch(pidfd, token | TOKEN_JOB);
        }
        let published = live.as_ref().map(|live| live.launch().facts.proc.starttime);
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
            mirrors: [None; 2],
            strips: [StripEscapes::new(), StripEscapes::new()],
            held: false,
            redirected_to: None,
            redirected_stderr: None,
            ended: false,
            ended_in_call: false,
            ending: None,
            unwritten: None,
            stopped_seen: false,
            deadline: None,
            idle: None,
            last_output: Duration::ZERO,
            timed_out: None,
            expected: None,
            end_seen: None,
            found_ended: false,
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
        job.mirrors[STDOUT] = mirror;
        job.listen(&self.epoll, true);
        self.jobs.push(job);
    }

    /// Reads a channel of a job once, and gives how much there was.
    pub(super) fn read_tty(&mut self, index: usize, number: usize) -> usize {
        let Some(job) = self.jobs.get_mut(index) else {
            return 0;
        };
        let output = job.output.as_mut();
        let Some(channel) = output.and_then(|output| output.channel(number)) else {
            return 0;
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = buffer.fill(&channel.leader);
        let over = match &result {
            Ok(count) => *count == 0,
            // A pseudo-terminal that nobody has open any more answers EIO.
            Err(error) => error.raw_os_error() == Some(libc::EIO),
        };
        if over {
            job.watch_channel(&self.epoll, number, EpollFlags::EPOLLIN, false);
        }
        let count = result.unwrap_or(0);
        if count > 0 {
            self.take_output(index, number, buffer.bytes(count));
        }
        self.buffer = buffer;
        count
    }

    /// Writes down what a job wrote, there and with those that it was started from, and shows it to the
    /// call, whether or not they have ended.
    fn take_output(&mut self, index: usize, number: usize, bytes: &[u8]) {
        let (mut at, mut channel) = (index, number);
        loop {
            let job = &mut self.jobs[at];
            if at == index || !job.ended {
                job.record_output(bytes);
            }
            match job.mirrors[channel] {
                // Whoever started it was there before.
                Some(Mirror::Job(parent, of)) if parent < at => (at, channel) = (parent, of),
                Some(Mirror::Sink(sink)) => {
                    self.show_output(index, number, sink, bytes);
                    return;
                }
                _ => return,
            }
        }
    }

    fn show_output(&mut self, index: usize, number: usize, sink: usize, bytes: &[u8]) {
        let Some(target) = self.sinks.get_mut(sink) else {
            return;
        };
        let mut clean = Vec::new();
        let shown = if target.is_terminal {
            bytes
        } else {
            clean.reserve(bytes.len());
            self.jobs[index].strips[number].push(bytes, &mut clean);
            &clean
        };
        if self.run.is_some() {
            self.write_sink(sink, shown);
            return;
        }
        // A background job never holds the call: what the harness does not take in time is in the
        // transcript.
        let wait = target.offer(shown, &self.epoll);
        if target.gone {
            self.consumer_left(sink);
        } else if wait {
            let job = &mut self.jobs[index];
            job.held = true;
            job.listen(&self.epoll, false);
        }
    }

    /// Whether a job waits for the harness.
    pub(super) fn is_holding(&self) -> bool {
        self.jobs.iter().any(|job| job.held)
    }

    /// Once the harness has read on, or does not read at all.
    pub(super) fn let_jobs_go_on(&mut self) {
        if !self.is_holding() || self.sinks.iter().any(Sink::holds_jobs) {
            return;
        }
        for job in self.jobs.iter_mut().filter(|job| job.held) {
            job.held = false;
            job.listen(&self.epoll, true);
        }
    }

    /// Reads what a job wrote up to now. `poll` makes the kernel hand over what is still under way.
    pub(super) fn drain_tty(&mut self, index: usize) {
        let mut left = LAST_WORDS;
        while let Some(output) = &self.jobs[index].output {
            let leaders = output.channels().map(|channel| channel.leader.as_raw_fd());
            let ready = fds::wait_readable(&leaders.collect::<Vec<_>>(), 0);
            let channels = ready.iter().enumerate().filter(|(_, ready)| **ready);
            let count: usize = channels
                .map(|(number, _)| self.read_tty(index, number))
                .sum();
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

/// Where stdout and stderr of a process lead, as far as they are not ours to read. One place is named
/// once.
pub(super) fn redirections(pid: i32, ours: [bool; 2]) -> [Option<String>; 2] {
    let of = |fd: i32, ours: bool| (!ours).then(|| target(pid, fd)).flatten();
    let stdout = of(1, ours[0]);
    let stderr = of(2, ours[1]).filter(|path| Some(path) != stdout.as_ref());
    [stdout, stderr]
}

/// A pseudo-terminal for a job, or a pipe where there is none or none is wanted.
pub(super) fn open_channel(capture: Capture, degraded: &mut Vec<Degraded>) -> Option<Opened> {
    if capture == Capture::Pty {
        match pty::open(pty::Use::Output) {
            Ok(pty) => return Some(on_terminal(pty)),
            Err(_) => degraded.push(Degraded::NoPty),
        }
    }
    let (leader, end) = fds::pipe().ok()?;
    fds::set_nonblocking(leader.as_fd()).ok()?;
    let path = format!("/proc/{}/fd/{}", session::pid(), end.as_raw_fd());
    Some(opened(leader, end, path, false))
}

fn opened(leader: OwnedFd, follower: OwnedFd, path: String, tty: bool) -> Opened {
    let channel = Channel {
        leader,
        object: fds::object(follower.as_raw_fd()),
        follower: Some(follower),
        watched: EpollFlags::empty(),
    };
    Opened { channel, path, tty }
}

fn on_terminal(pty: pty::Pty) -> Opened {
    opened(pty.leader, pty.follower, pty.path, true)
}

/// A pseudo-terminal that a job is sat at. Without one it cannot be what was asked for.
pub(super) fn open_seat() -> std::io::Result<Opened> {
    pty::open(pty::Use::Seat).map(on_terminal)
}

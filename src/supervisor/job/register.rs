//! How a process becomes a job by asking for it, or just before it asks: what is published of it, and
//! where it is to write.

use std::io::Write;

use super::channel::{Opened, Output, STDOUT};
use super::output::Mirror;
use super::{Job, redirections};
use crate::job::Degraded;
use crate::plan::asked::Asked;
use crate::settings::Capture;
use crate::supervisor::Supervisor;
use crate::supervisor::publisher::Start;
use crate::sys::{fds, proc, session};
use crate::wire::control::open_answer;
use crate::wire::{MIRROR_VARIABLE, Register, Registered};

/// For stdout and stderr, where what is written there appears; `None`: it is redirected.
type Mirrors = [Option<Mirror>; 2];

/// What a job is given to write to.
#[derive(Default)]
struct Channels {
    /// `None`: it writes where it would without us.
    main: Option<Opened>,
    /// `Some` iff its stderr is kept apart.
    errors: Option<Opened>,
    degraded: Vec<Degraded>,
}

impl Supervisor {
    /// Makes a process that asks for it a job, and tells it where to write.
    pub(in crate::supervisor) fn register(&mut self, request: &Register) {
        let mut answer = Registered::default();
        let job = self.jobs.running(request.pid);
        if let Some(expected) = job.and_then(|index| self.jobs[index].expected.take()) {
            answer = expected;
        }
        answer.int_ignored = self.setup.saved.was_ignored(libc::SIGINT);
        answer.quit_ignored = self.setup.saved.was_ignored(libc::SIGQUIT);
        answer.hangups = self.setup.has_terminal;
        answer.shell = self.setup.shell_path.to_string_lossy().into_owned();
        // A helper whose subshell was killed meanwhile names us, its parent by now; or a job that was
        // expected and has ended before it was heard.
        let known =
            request.pid == session::pid() || job.is_some() || self.jobs.includes(request.pid);
        if !known && proc::starttime(request.pid).is_some() {
            // It is here, or one of several: nobody else is to be taken for it.
            self.jobs.lone = None;
            let mirrors = self.own_streams(request.pid);
            self.add_registered(request, mirrors, &mut answer);
        }
        // What the text redirects stays, also where it is a copy of the call's own stdin.
        answer.stdin = !request.asked.stdin
            && self.setup.stdin.is_some()
            && fds::object_of(request.pid, 0) == self.setup.stdin;
        if let Some(pipe) = open_answer(request.answer_pid, request.answer_fd) {
            drop(std::fs::File::from(pipe).write_all(&answer.encode()));
        }
    }

    /// After the shell's end: the only job that the text can start is a child that has yet to become
    /// it. Nothing about it is unknown, so the call need not wait until it registers.
    pub(in crate::supervisor) fn expect_lone_job(&mut self, strays: &[i32]) -> bool {
        let [pid] = strays else { return false };
        if self.jobs.lone.is_none() || !self.is_about_to_register(*pid) {
            return false;
        }
        // The shell's copy sends a stream elsewhere for some of its steps: what leads elsewhere now need
        // not do so when the job runs, and only the launcher can tell.
        let mirrors = self.own_streams(*pid);
        if mirrors.iter().any(Option::is_none) {
            return false;
        }
        let Some(lone) = self.jobs.lone.take() else {
            return false;
        };
        let request = Register {
            asked: lone.asked,
            pid: *pid,
            answer_pid: 0,
            answer_fd: -1,
            text: lone.command,
        };
        let mut answer = Registered::default();
        let index = self.add_registered(&request, mirrors, &mut answer);
        self.jobs[index].expected = Some(answer);
        true
    }

    /// What the next job's output will go to, as far as that is known ahead.
    pub(in crate::supervisor) fn likely_capture(&self) -> Capture {
        let lone = self.jobs.lone.as_ref();
        lone.map_or(self.setup.settings.capture, |lone| self.capture(lone.asked))
    }

    /// What the output of a job goes to.
    fn capture(&self, asked: Asked) -> Capture {
        if asked.pipe {
            Capture::Pipe
        } else {
            self.setup.settings.capture
        }
    }

    /// Publishes a job and fills in the answer to it.
    fn add_registered(
        &mut self,
        request: &Register,
        mirrors: Mirrors,
        answer: &mut Registered,
    ) -> usize {
        let channels = self.open_channels(request.asked, mirrors);
        let is_captured = channels.main.is_some();
        let ours = self.is_ours(request.pid, mirrors, is_captured);
        let [redirected_to, redirected_stderr] = redirections(request.pid, ours);
        let tty = channels.main.as_ref().is_some_and(|opened| opened.tty);
        let start = Start {
            tty,
            redirected_to,
            redirected_stderr,
            degraded: channels.degraded.clone(),
            ..Start::new(request.asked.how, request.pid, &request.text)
        };
        let live = self.publish(&start);
        let mut job = self.new_job(&start, live);
        if job.live.is_some() {
            let has_reader = self.call.phase().has_reader();
            let shows = |sink| has_reader && !self.is_mirrored(sink);
            job.connect(channels, mirrors, shows, answer);
        }
        answer.id = job.id().map(ToString::to_string).unwrap_or_default();
        job.listen(&self.poller.epoll, true);
        let index = job.index;
        self.jobs.push(job);
        index
    }

    /// Two streams of the call stay two: what is kept apart comes in the order of reading, though, so
    /// one that nobody keeps apart stays whole.
    fn open_channels(&mut self, asked: Asked, mirrors: Mirrors) -> Channels {
        let mut channels = Channels::default();
        if mirrors.iter().all(Option::is_none) {
            return channels;
        }
        let apart = self.call.phase().has_reader() && are_two(mirrors);
        if !self.can_capture(if apart { 2 } else { 1 }) {
            // It writes where it would without us, and the record says so.
            channels.degraded.push(Degraded::NoCapture);
            return channels;
        }
        let capture = self.capture(asked);
        channels.main = self.warm.open(capture, &mut channels.degraded);
        if apart && channels.main.is_some() {
            channels.errors = self.warm.open(capture, &mut channels.degraded);
        }
        channels.degraded.dedup();
        channels
    }

    /// Which of its streams we read, so that they lead nowhere else.
    fn is_ours(&self, pid: i32, mirrors: Mirrors, is_captured: bool) -> [bool; 2] {
        if is_captured {
            return mirrors.map(|mirror| mirror.is_some());
        }
        let fed = [1, 2].map(|fd| self.call.relay.is_feed(fds::object_of(pid, fd)));
        let nested = mirrors.map(|mirror| matches!(mirror, Some(Mirror::Job(..))));
        [fed[0] || nested[0], fed[1] || nested[1]]
    }

    /// Whether the container shows every job on this stream of the call.
    fn is_mirrored(&self, sink: usize) -> bool {
        let Some(shown) = std::env::var_os(MIRROR_VARIABLE) else {
            return false;
        };
        let object = self.call.relay.sink_object(sink);
        let object = object.map(|object| object.to_string());
        let shown = shown.to_string_lossy();
        object.is_some_and(|object| shown.split(' ').any(|word| word == object))
    }

    fn own_streams(&self, pid: i32) -> Mirrors {
        [1, 2].map(|fd| self.own_stream(pid, fd))
    }

    /// Which of our streams the process still has at `fd`: the call's own, or the parent job's.
    fn own_stream(&self, pid: i32, fd: i32) -> Option<Mirror> {
        let object = fds::object_of(pid, fd)?;
        if let Some((sink, owner)) = self.call.relay.feed_of(object) {
            let owned = |owner| Mirror::Job(owner, STDOUT);
            return Some(owner.map_or(Mirror::Sink(sink), owned));
        }
        let parent = self.jobs.iter().find_map(|job| {
            let channel = job.output.as_ref()?.find(&[Some(object)])?;
            Some(Mirror::Job(job.index, channel))
        });
        parent.or_else(|| self.call.relay.sink_of(pid, fd, object).map(Mirror::Sink))
    }
}

impl Job {
    /// Gives it what it is to write to, if anything.
    fn connect(
        &mut self,
        channels: Channels,
        mirrors: Mirrors,
        shows: impl Fn(usize) -> bool,
        answer: &mut Registered,
    ) {
        let Some(main) = channels.main else { return };
        answer.output = main.path;
        answer.stdout = mirrors[0].is_some();
        answer.stderr = mirrors[1].is_some();
        answer.tty = main.tty;
        let first = mirrors.into_iter().flatten().next();
        let shown = if channels.errors.is_some() {
            mirrors
        } else {
            [first, None]
        };
        let index = self.index;
        self.shown.mirrors = shown.map(|mirror| {
            mirror.filter(|mirror| match mirror {
                Mirror::Sink(sink) => shows(*sink),
                Mirror::Job(parent, _) => *parent != index,
            })
        });
        let errors = channels.errors.map(|opened| (opened.channel, opened.path));
        let (errors, path) = errors.unzip();
        answer.errors = path.unwrap_or_default();
        self.output = Some(Output::new(main.channel, errors));
    }
}

/// Whether both streams are the call's own, and not the same.
fn are_two(mirrors: Mirrors) -> bool {
    matches!(mirrors, [Some(out), Some(err)] if out != err)
}

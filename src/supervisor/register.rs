//! How a process becomes a job by asking for it, or just before it asks: what is published of it, and
//! where it is to write.

use std::io::Write;

use super::jobs::{Mirror, Opened, Output, STDOUT, open_channel, redirections};
use super::ledger::Start;
use super::{Phase, Supervisor};
use crate::handoff::control::open_answer;
use crate::handoff::{MIRROR_VARIABLE, Register, Registered};
use crate::plan::asked::Asked;
use crate::settings::Capture;
use crate::sys::{fds, proc, session};

impl Supervisor {
    /// Makes a process that asks for it a job, and tells it where to write.
    pub(super) fn register(&mut self, request: &Register) {
        let mut answer = Registered {
            int_ignored: self.saved.was_ignored(libc::SIGINT),
            quit_ignored: self.saved.was_ignored(libc::SIGQUIT),
            hangups: self.has_terminal,
            shell: self.shell_path.to_string_lossy().into_owned(),
            ..Registered::default()
        };
        let job = self.job_of(request.pid);
        if let Some(expected) = job.and_then(|index| self.jobs[index].expected.take()) {
            answer = Registered {
                int_ignored: answer.int_ignored,
                quit_ignored: answer.quit_ignored,
                hangups: answer.hangups,
                shell: answer.shell,
                ..expected
            };
        }
        // A helper whose subshell was killed meanwhile names us, its parent by now; or a job that was
        // expected and has ended before it was heard.
        let known = request.pid == session::pid() || job.is_some() || self.was_job(request.pid);
        if !known && proc::starttime(request.pid).is_some() {
            // It is here, or one of several: nobody else is to be taken for it.
            self.lone = None;
            let mirrors = self.own_streams(request.pid);
            self.add_registered(request, mirrors, &mut answer);
        }
        // What the text redirects stays, also where it is a copy of the call's own stdin.
        answer.stdin = !request.asked.stdin
            && self.stdin.is_some()
            && fds::object_of(request.pid, 0) == self.stdin;
        if let Some(pipe) = open_answer(request.answer_pid, request.answer_fd) {
            drop(std::fs::File::from(pipe).write_all(&answer.encode()));
        }
    }

    /// After the shell's end: the only job that the text can start is a child that has yet to become
    /// it. Nothing about it is unknown, so the call need not wait until it registers.
    pub(super) fn expect_lone_job(&mut self, strays: &[i32]) -> bool {
        let [pid] = strays else { return false };
        if self.lone.is_none() || !self.is_about_to_register(*pid) {
            return false;
        }
        // The shell's copy sends a stream elsewhere for some of its steps: what leads elsewhere now need
        // not do so when the job runs, and only the launcher can tell.
        let mirrors = self.own_streams(*pid);
        if mirrors.iter().any(Option::is_none) {
            return false;
        }
        let Some(lone) = self.lone.take() else {
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
        self.add_registered(&request, mirrors, &mut answer);
        if let Some(job) = self.jobs.last_mut() {
            job.expected = Some(answer);
        }
        true
    }

    /// What the output of a job goes to.
    pub(super) fn capture(&self, asked: Asked) -> Capture {
        if asked.pipe {
            Capture::Pipe
        } else {
            self.settings.capture
        }
    }

    fn add_registered(
        &mut self,
        request: &Register,
        mirrors: [Option<Mirror>; 2],
        answer: &mut Registered,
    ) {
        let mut degraded = Vec::new();
        let capture = self.capture(request.asked);
        // Two streams of the call stay two: what is told apart comes in the order of reading, though, so
        // one that nobody tells apart stays whole.
        let apart = self.phase != Phase::Released && are_two(mirrors);
        let any = mirrors.iter().any(Option::is_some);
        let captured = any && self.can_capture(if apart { 2 } else { 1 });
        if any && !captured {
            // It writes where it would without us, and the record says so.
            degraded.push("no-capture".to_owned());
        }
        let main = captured.then(|| self.open(capture, &mut degraded));
        let main = main.flatten();
        let apart = apart && main.is_some();
        let errors = apart.then(|| self.open(capture, &mut degraded)).flatten();
        degraded.dedup();
        let tty = main.as_ref().is_some_and(|opened| opened.tty);
        let ours = if main.is_some() {
            mirrors.map(|mirror| mirror.is_some())
        } else {
            let fed = [1, 2].map(|fd| self.is_fed_by(request.pid, fd));
            let nested = mirrors.map(|mirror| matches!(mirror, Some(Mirror::Job(..))));
            [fed[0] || nested[0], fed[1] || nested[1]]
        };
        let [redirected_to, redirected_stderr] = redirections(request.pid, ours);
        let start = Start {
            how: request.asked.how,
            pid: request.pid,
            text: &request.text,
            tty,
            redirected_to: redirected_to.clone(),
            redirected_stderr: redirected_stderr.clone(),
            transcript: None,
            degraded,
            run: None,
            was: None,
        };
        let live = self.publish(&start);
        let index = self.jobs.len();
        let mut job = self.new_job(request.pid, request.text.clone(), live);
        job.redirected_to = redirected_to;
        job.redirected_stderr = redirected_stderr;
        if let Some(main) = main.filter(|_| job.live.is_some()) {
            answer.output = main.path;
            answer.stdout = mirrors[0].is_some();
            answer.stderr = mirrors[1].is_some();
            answer.tty = tty;
            let first = mirrors.into_iter().flatten().next();
            let shown = if errors.is_some() {
                mirrors
            } else {
                [first, None]
            };
            job.mirrors = shown.map(|mirror| {
                mirror.filter(|mirror| match mirror {
                    Mirror::Sink(sink) => self.phase != Phase::Released && !self.is_mirrored(*sink),
                    Mirror::Job(parent, _) => *parent != index,
                })
            });
            let (errors, path) = errors.map(|opened| (opened.channel, opened.path)).unzip();
            answer.errors = path.unwrap_or_default();
            job.output = Some(Output::new(main.channel, errors));
        }
        answer.id = job.id().map(ToString::to_string).unwrap_or_default();
        job.listen(&self.epoll, true);
        self.jobs.push(job);
    }

    /// A channel for a job, made ahead of it if there is one.
    fn open(&mut self, capture: Capture, degraded: &mut Vec<String>) -> Option<Opened> {
        let fits = |opened: &Opened| opened.tty == (capture == Capture::Pty);
        match self.spares.iter().position(fits) {
            Some(at) => Some(self.spares.swap_remove(at)),
            None => open_channel(capture, degraded),
        }
    }

    /// The terminals of an ended job go to one that was started from it and could not be given its own;
    /// else they are closed.
    pub(super) fn pass_on_output(&mut self, from: usize) {
        let job = &mut self.jobs[from];
        job.listen(&self.epoll, false);
        let Some(output) = job.output.take() else {
            return;
        };
        let mirrors = job.mirrors;
        let heir = self.jobs.iter_mut().find(|job| {
            let streams = || [1, 2].map(|fd| fds::object_of(job.pid, fd));
            !job.ended && job.output.is_none() && output.find(&streams()).is_some()
        });
        if let Some(heir) = heir {
            heir.output = Some(output);
            heir.mirrors = mirrors;
            heir.listen(&self.epoll, true);
        }
    }

    /// Whether a stream of the process is one of the call's pipes.
    fn is_fed_by(&self, pid: i32, fd: i32) -> bool {
        let object = fds::object_of(pid, fd);
        let mut feeds = self.feeds.iter().flatten();
        feeds.any(|feed| Some(feed.object) == object)
    }

    /// Whether the container shows every job on this stream of the call.
    fn is_mirrored(&self, sink: usize) -> bool {
        let Some(shown) = std::env::var_os(MIRROR_VARIABLE) else {
            return false;
        };
        let object = fds::object(self.sinks[sink].original()).map(|object| object.to_string());
        let shown = shown.to_string_lossy();
        object.is_some_and(|object| shown.split(' ').any(|word| word == object))
    }

    fn own_streams(&self, pid: i32) -> [Option<Mirror>; 2] {
        [1, 2].map(|fd| self.own_stream(pid, fd))
    }

    /// Which of our streams the process still has at `fd`: the call's own, or the parent job's.
    fn own_stream(&self, pid: i32, fd: i32) -> Option<Mirror> {
        let object = fds::object_of(pid, fd)?;
        if let Some(feed) = self
            .feeds
            .iter()
            .flatten()
            .find(|feed| feed.object == object)
        {
            let owned = |owner| Mirror::Job(owner, STDOUT);
            return Some(feed.owner.map_or(Mirror::Sink(feed.sink), owned));
        }
        let parent = self.jobs.iter().enumerate().find_map(|(parent, job)| {
            let channel = job.output.as_ref()?.find(&[Some(object)])?;
            Some(Mirror::Job(parent, channel))
        });
        if parent.is_some() {
            return parent;
        }
        // Handed through: only the very same open file is inheritance; opened anew it is a redirection.
        let sink = self.sinks.iter().position(|sink| {
            fds::object(sink.original()) == Some(object)
                && fds::is_same_description(sink.original(), pid, fd).unwrap_or(sink.is_terminal)
        });
        sink.map(Mirror::Sink)
    }
}

/// Whether both streams are the call's own, and not the same.
fn are_two(mirrors: [Option<Mirror>; 2]) -> bool {
    matches!(mirrors, [Some(out), Some(err)] if out != err)
}

//! Making jobs of strays: those that live, and those that ended before anybody saw them.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use super::is_blind;
use crate::job::Evidence;
use crate::job::How;
use crate::rewrite;
use crate::supervisor::Supervisor;
use crate::supervisor::job::{KILLED_LEFTOVER, LEFTOVER, redirections};
use crate::supervisor::processes::{Class, Ending, Life, Session, classify};
use crate::supervisor::publisher::Start;
use crate::supervisor::state::Phase;
use crate::supervisor::timers::Timer;
use crate::sys::fds::Object;
use crate::sys::process::Usage;
use crate::sys::{fds, proc};

/// Where a stray's output goes that we can read.
struct Streams {
    objects: [Option<Object>; 2],
    /// The ended job whose terminal it still writes to.
    inherited: Option<usize>,
    /// The transcript of the job that has its pipe.
    shared: Option<String>,
    redirected: [Option<String>; 2],
}

impl Supervisor {
    /// Records a stray that nobody saw alive; of its command only the name is left.
    pub(in crate::supervisor) fn record_dead_stray(&mut self, pid: i32, status: i32, usage: Usage) {
        let whole = || String::from_utf8_lossy(&self.setup.command).into_owned();
        let text = proc::comm(pid).unwrap_or_else(whole);
        let start = Start::new(How::Stray, pid, text.as_bytes());
        let live = if is_blind() {
            let started = self.call.shell.started;
            self.publisher.publish_since(&start, started)
        } else {
            self.publish(&start)
        };
        if live.is_some() {
            let mut job = self.new_job(&start, live);
            job.set_stray(false, dead_leader(pid));
            self.jobs.push(job);
            let index = self.jobs.len() - 1;
            self.finish(index, status, Some(usage), Evidence::WaitId);
        }
    }

    /// Makes jobs of the strays that live, and plans the next check for when those are over that may be
    /// ending with a job. `call_ends`: whoever is to be announced must be a job now.
    pub(in crate::supervisor) fn adopt_strays(&mut self, call_ends: bool) {
        let loose = self.jobs.ended_with_output();
        let endings = self.jobs.recent_endings();
        let context = self.context(&endings, call_ends);
        let mut again: Option<Duration> = None;
        let mut any_dying = false;
        for pid in self.strays(false) {
            let Some(stat) = proc::stat(pid) else {
                continue;
            };
            let life = if proc::is_dying(&stat) {
                Life::Dying
            } else {
                Life::Alive
            };
            let facts = self.facts(pid, Some(&stat), life);
            if classify(&facts, &context) == Class::Stray {
                self.adopt(pid, &loose);
                continue;
            }
            any_dying |= life == Life::Dying;
            let at = next_check_of(facts.session, life, &endings, context.now);
            again = again.into_iter().chain(at).min();
        }
        self.strays.dying_until = match (any_dying, self.strays.dying_until) {
            (true, None) => Some(context.now + KILLED_LEFTOVER),
            (true, since) => since,
            (false, _) => None,
        };
        for index in loose {
            // Whoever is adopted later may still write to the terminal of its job.
            let until = self.jobs[index].ending().map(|ending| ending.until);
            match until.filter(|until| context.now < *until && !call_ends) {
                Some(until) => again = again.into_iter().chain([until]).min(),
                None => self.jobs.pass_on_output(index, &self.poller.epoll),
            }
        }
        if let Some(at) = again {
            self.timers.set_earlier(Timer::Strays, at);
        }
    }

    fn adopt(&mut self, pid: i32, loose: &[usize]) {
        let text = self.text_of(pid);
        // What stands in the command itself is whoever called's own words.
        let is_named = !text.is_empty()
            && memchr::memmem::find(&self.setup.command, text.as_bytes()).is_some();
        let streams = self.streams_of(pid, loose);
        let [redirected_to, redirected_stderr] = streams.redirected;
        let start = Start {
            tty: streams.inherited.is_some(),
            redirected_to,
            redirected_stderr,
            transcript: streams.shared,
            ..Start::new(How::Stray, pid, text.as_bytes())
        };
        let live = self.publish(&start);
        let index = self.jobs.len();
        let mut job = self.new_job(&start, live);
        job.set_stray(is_named, dead_leader(pid));
        if let Some(from) = streams.inherited {
            job.inherit_output(&mut self.jobs[from], &self.poller.epoll);
        }
        self.jobs.push(job);
        self.call.relay.give(&streams.objects, index);
        if self.call.phase() == Phase::Released {
            self.jobs[index].do_housekeeping();
        }
    }

    /// The words of a process. A forked copy of the shell carries the whole rewritten text.
    fn text_of(&self, pid: i32) -> String {
        let words = proc::cmdline(pid).unwrap_or_default();
        if words == self.setup.shell_argv {
            String::from_utf8_lossy(&self.setup.command).into_owned()
        } else {
            rewrite::shown(words.iter().map(|word| word.as_bytes()))
        }
    }

    fn streams_of(&self, pid: i32, loose: &[usize]) -> Streams {
        let objects = [1, 2].map(|fd| fds::object_of(pid, fd));
        // The terminal of an ended job passes to whoever of its tree still writes to it.
        let inherited = self.jobs.writer_of(loose, &objects);
        let owner = self.call.relay.owner_among(&objects);
        let shared = owner.and_then(|owner| {
            let path = self.jobs[owner].live()?.transcript_path();
            Some(path.to_string_lossy().into_owned())
        });
        let output = inherited.and_then(|index| self.jobs[index].output());
        let ours = objects.map(|object| {
            self.call.relay.is_feed(object)
                || output.is_some_and(|output| output.find(&[object]).is_some())
        });
        Streams {
            objects,
            inherited,
            shared,
            redirected: redirections(pid, ours),
        }
    }
}

/// When a process is to be checked again that is no stray yet.
fn next_check_of(
    session: Session,
    life: Life,
    endings: &[Ending],
    now: Duration,
) -> Option<Duration> {
    if life == Life::Dying {
        return Some(now + LEFTOVER);
    }
    let over = match session {
        Session::EndedJob(ending) => Some(ending.until),
        Session::Other => endings.iter().map(|ending| ending.until).min(),
        Session::Job | Session::Call => None,
    };
    over.filter(|at| now < *at)
}

/// The leader of a stray's session, if it has ended: a daemon's parent, which handed over to it.
fn dead_leader(pid: i32) -> Option<i32> {
    let leader = proc::stat(pid)?.sid;
    let lives = leader == pid || proc::stat(leader).is_some_and(|stat| !stat.is_dead());
    (!lives).then_some(leader)
}

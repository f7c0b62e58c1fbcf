//! The end of a job: finding out how it ended, and ending one whose time is over.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::epoll::{EpollEvent, EpollFlags};

use super::{Job, Limit};
use crate::job::record;
use crate::job::{Evidence, LostReason, Outcome};
use crate::supervisor::Supervisor;
use crate::supervisor::call::time_is_over;
use crate::supervisor::event_loop::TOKEN_JOB;
use crate::supervisor::processes::{Ending, Reach};
use crate::supervisor::state::{Event, Phase};
use crate::supervisor::timers::Timer;
use crate::sys::process::{self, ChangeKind, Usage};
use crate::sys::signal::ENDING;
use crate::sys::{clock, proc, session};

/// How long the leftovers of an ended job may live before they count as jobs of their own.
pub(in crate::supervisor) const LEFTOVER: Duration = Duration::from_millis(200);
/// The same for what a kill is about to end, and for all that is left if nobody said whom it means.
pub(in crate::supervisor) const KILLED_LEFTOVER: Duration = Duration::from_secs(15);
/// From TERM to KILL for a job whose time is over.
const TIMEOUT_GRACE: Duration = Duration::from_secs(5);

impl Supervisor {
    /// Something happened to a job: if it ended, find out how.
    pub(in crate::supervisor) fn check_job(&mut self, index: usize) {
        if index >= self.jobs.len() || self.jobs[index].ended {
            return;
        }
        let job = &self.jobs[index];
        let Some(pidfd) = &job.watch.pidfd else {
            self.find_again(index);
            return;
        };
        match process::peek_child(pidfd.as_fd()) {
            Ok(Some(change)) => {
                let pid = job.pid;
                if let ChangeKind::Ended(status) = change.kind {
                    self.finish(index, status, Some(change.usage), Evidence::WaitId);
                    let shell = &mut self.call.shell;
                    if pid == shell.pid {
                        shell.set_first_status(status, change.usage);
                    }
                    process::reap(pid);
                }
            }
            Ok(None) => {}
            // The shell is its parent. It may be a zombie still, or reaped already.
            Err(_) => self.check_grandchild(index),
        }
    }

    /// Checks the jobs whose pidfd tells nothing, or that have none.
    pub(in crate::supervisor) fn check_unwatched(&mut self) {
        for index in 0..self.jobs.len() {
            if self.jobs[index].needs_asking() {
                self.check_job(index);
            }
        }
    }

    /// A job for which there was no descriptor: perhaps there is one now. One that has gone without a
    /// trace is found out like this alone.
    fn find_again(&mut self, index: usize) {
        let (pid, starttime) = (self.jobs[index].pid, self.jobs[index].starttime);
        match proc::pidfd_open_checked(pid, starttime) {
            Ok(pidfd) => {
                let event = EpollEvent::new(EpollFlags::EPOLLIN, index as u64 | TOKEN_JOB);
                let _ = self.poller.epoll.add(&pidfd, event);
                let job = &mut self.jobs[index];
                job.watch.pidfd = Some(pidfd);
                job.watch.found_ended = proc::stat(pid).is_none_or(|stat| stat.is_dead());
            }
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                // Our own children are seen by waiting for them.
                if proc::ppid(pid) != Some(session::pid()) {
                    self.jobs[index].watch.found_ended = true;
                    self.finish_unseen(index);
                }
            }
            Err(_) => {}
        }
    }

    fn check_grandchild(&mut self, index: usize) {
        let job = &self.jobs[index];
        let Some(pidfd) = &job.watch.pidfd else {
            return;
        };
        let starttime = job.starttime;
        if let Some(status) = proc::zombie_status(job.pid, starttime) {
            self.finish(index, status, None, Evidence::ProcStat);
        } else if let Some(status) = proc::pidfd_exit_status(pidfd) {
            self.finish(index, status, None, Evidence::PidfdInfo);
        } else if proc::starttime(job.pid) == Some(starttime) {
            // A zombie whose status we may not read: to be asked after when its parent has gone.
            let _ = self.poller.epoll.delete(pidfd);
            self.jobs[index].watch.unwatched = true;
            let now = (clock::wall(), clock::boottime());
            self.jobs[index].watch.end_seen.get_or_insert(now);
        } else if proc::starttime(job.pid) != Some(starttime)
            && process::peek_child(pidfd.as_fd()).is_err()
        {
            self.finish_unseen(index);
        }
    }

    fn finish_unseen(&mut self, index: usize) {
        let lost = Outcome::Lost(LostReason::StatusUnseen);
        self.finish_as(index, lost, None, Evidence::None);
    }

    pub(in crate::supervisor) fn finish(
        &mut self,
        index: usize,
        status: i32,
        usage: Option<Usage>,
        evidence: Evidence,
    ) {
        let id = self.jobs[index].id().cloned();
        let outcome = Outcome::from_wait_status(status);
        self.finish_as(index, outcome, usage, evidence);
        let job = &self.jobs[index];
        if !self.is_watched_run() || job.pid != self.call.shell.pid {
            return;
        }
        // The verb reports as `wait` would: a code, also for a signal.
        let code = match job.limits.timed_out {
            Some(limit) if limit != Limit::Drain => {
                if let Some(id) = id {
                    self.call.front.print(time_is_over(&id, limit, &self.setup));
                }
                124
            }
            _ => Outcome::from_wait_status(status).shell_code(),
        };
        let usage = usage.unwrap_or_default();
        self.call.shell.set_status(i32::from(code) << 8, usage);
        self.apply(Event::ShellEnded);
    }

    /// Whether the foreground is the job of `run --wait`.
    fn is_watched_run(&self) -> bool {
        self.setup.is_run() && self.call.phase() == Phase::Foreground
    }

    fn finish_as(
        &mut self,
        index: usize,
        outcome: Outcome,
        usage: Option<Usage>,
        evidence: Evidence,
    ) {
        self.subscribe_jobs();
        self.notifications.note_end();
        let signal = match outcome {
            Outcome::Signaled { signal, .. } => Some(signal),
            _ => None,
        };
        let now = (clock::wall(), clock::boottime());
        let ended = self.jobs[index].watch.end_seen.unwrap_or(now);
        if let Some(output) = &mut self.jobs[index].output {
            output.let_go();
        }
        self.drain_output(index);
        self.drain_feeds();
        self.close_typing(index);
        let is_in_call = !self.call.phase().is_after_call();
        self.jobs[index].set_ended(is_in_call);
        self.timers.cancel(Timer::JobIdle(index));
        if !self.jobs[index].has_timed_out() {
            self.timers.cancel(Timer::JobDeadline(index));
        }
        if let Some(pidfd) = self.jobs[index].watch.pidfd.take() {
            let _ = self.poller.epoll.delete(&pidfd);
        }
        let wish = self.jobs[index].take_kill_intent(&outcome);
        // Before the record tells others of it, who may act on that.
        self.note_ending(index, signal, wish.as_ref().map(|wish| wish.signal));
        self.say_end(index, &outcome, ended.1);
        self.write_exit(index, |job| {
            job.exit_facts(outcome, usage, evidence, ended, wish)
        });
        self.jobs[index].close_abandoned(&self.poller.epoll);
    }

    /// Notes until when what a job left may still be ending with it, and whom its end may have hit.
    /// `wished`: the signal that somebody asked for.
    fn note_ending(&mut self, index: usize, died_of: Option<i32>, wished: Option<i32>) {
        if died_of.is_some() || wished.is_some() {
            // Who dies with it was said before the first signal.
            self.read_requests();
        }
        // After any other signal nothing follows.
        let more = wished.is_some_and(|signal| ENDING.contains(&signal));
        let (reach, time) = match died_of {
            _ if self.kill_set.names_any_of(index) => (Reach::Nobody, LEFTOVER),
            _ if more => (Reach::Everybody, KILLED_LEFTOVER),
            Some(signal) => (Reach::Signal(signal), LEFTOVER),
            None => (Reach::Nobody, LEFTOVER),
        };
        if matches!(reach, Reach::Signal(_)) {
            self.note_daemons(index);
        }
        let until = clock::boottime() + time;
        self.jobs[index].ending = Some(Ending {
            starttime: self.jobs[index].starttime,
            until,
            reach,
        });
        // The job of `run --wait` is its call, and ends first.
        let is_over = self.is_watched_run() || self.call.phase().is_after_call();
        if is_over && !self.has_no_children() {
            self.timers.set_earlier(Timer::Strays, until);
        }
    }

    /// A job's time is over: TERM, and KILL for whatever of it that was not enough for, also when the
    /// job itself has ended of it.
    pub(in crate::supervisor) fn time_out(&mut self, index: usize, limit: Limit) {
        self.end_job(index, limit, TIMEOUT_GRACE);
    }

    /// The idle time of a job is over, if it wrote nothing meanwhile; else it is counted from there.
    pub(in crate::supervisor) fn check_idle(&mut self, index: usize, now: Duration) {
        let job = &mut self.jobs[index];
        let Some(after) = job.limits.idle.filter(|_| !job.ended) else {
            return;
        };
        let at = job.limits.last_output + after;
        if at > now {
            self.timers.set(Timer::JobIdle(index), at);
        } else {
            job.limits.idle = None;
            self.time_out(index, Limit::Idle);
        }
    }

    /// TERM for a job, and KILL `grace` later; a second time KILL at once.
    pub(in crate::supervisor) fn end_job(&mut self, index: usize, limit: Limit, grace: Duration) {
        let job = &mut self.jobs[index];
        let signal = if job.has_timed_out() {
            libc::SIGKILL
        } else {
            job.limits.timed_out = Some(limit);
            job.limits.kill_requested = Some(record::KillIntent {
                by: limit.cause(),
                signal: libc::SIGTERM,
                at: record::rfc3339(clock::wall()),
                session: None,
            });
            let at = clock::boottime().saturating_add(grace);
            self.timers.set(Timer::JobDeadline(index), at);
            libc::SIGTERM
        };
        self.signal_job(index, signal);
    }
}

impl Job {
    /// The call itself says nothing of a job that is ended with the container, or that it stays for.
    fn set_ended(&mut self, is_in_call: bool) {
        self.ended = true;
        self.ended_in_call = is_in_call && self.limits.timed_out != Some(Limit::Drain);
        self.limits.idle = None;
    }
}

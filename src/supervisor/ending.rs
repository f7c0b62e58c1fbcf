//! The end of a job: finding out how it ended, writing that down, ending one whose time is over.

use std::os::fd::AsFd;
use std::time::Duration;

use super::jobs::Output;
use super::processes::{Ending, Reach};
use super::{KILLED_LEFTOVER, LEFTOVER, Phase, Supervisor, TOKEN_JOB};
use crate::job::{LostReason, Outcome};
use crate::record::LONGEST_TAIL;
use crate::record::{self, ExitFacts};
use crate::screen::clean_tail;
use crate::sys::process::{self, ChangeKind, Usage};
use crate::sys::signal::ENDING;
use crate::sys::{clock, proc, session};
use crate::text;

/// How often a record that the disk refuses is tried again, and for how long.
const RETRY: Duration = Duration::from_secs(1);
const GIVE_UP: Duration = Duration::from_secs(120);
/// What of the transcript is looked at for the tail in the record; more than is kept, for escape
/// sequences do not count.
const TAIL: usize = 8 * 1024;
/// From TERM to KILL for a job whose time is over.
const TIMEOUT_GRACE: Duration = Duration::from_secs(5);

impl Supervisor {
    /// Something happened to a job: if it ended, find out how.
    pub(super) fn check_job(&mut self, index: usize) {
        let Some(job) = self.jobs.get(index).filter(|job| !job.ended) else {
            return;
        };
        let Some(pidfd) = &job.pidfd else {
            self.find_again(index);
            return;
        };
        match process::peek_child(pidfd.as_fd()) {
            Ok(Some(change)) => {
                let pid = job.pid;
                if let ChangeKind::Ended(status) = change.kind {
                    self.finish(index, status, Some(change.usage), "waitid");
                    if pid == self.shell.pid {
                        self.shell.status.get_or_insert((status, change.usage));
                    }
                    process::reap(pid);
                }
            }
            Ok(None) => {}
            // The shell is its parent. It may be a zombie still, or reaped already.
            Err(_) => self.check_grandchild(index),
        }
    }

    /// A job for which there was no descriptor: perhaps there is one now. One that has gone without a
    /// trace is found out like this alone.
    fn find_again(&mut self, index: usize) {
        let (pid, starttime) = (self.jobs[index].pid, self.jobs[index].starttime);
        match proc::pidfd_open_checked(pid, starttime) {
            Ok(pidfd) => {
                self.watch(&pidfd, index as u64 | TOKEN_JOB);
                let job = &mut self.jobs[index];
                job.pidfd = Some(pidfd);
                job.found_ended = proc::stat(pid).is_none_or(|stat| stat.is_dead());
            }
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                // Our own children are seen by waiting for them.
                if proc::ppid(pid) != Some(session::pid()) {
                    self.jobs[index].found_ended = true;
                    let lost = Outcome::Lost(LostReason::StatusUnseen);
                    self.finish_as(index, lost, None, "none");
                }
            }
            Err(_) => {}
        }
    }

    fn check_grandchild(&mut self, index: usize) {
        let job = &self.jobs[index];
        let Some(pidfd) = &job.pidfd else { return };
        let starttime = job.starttime;
        if let Some(status) = proc::zombie_status(job.pid, starttime) {
            self.finish(index, status, None, "proc-stat");
        } else if let Some(status) = proc::pidfd_exit_status(pidfd) {
            self.finish(index, status, None, "pidfd-info");
        } else if proc::starttime(job.pid) == Some(starttime) {
            // A zombie whose status we may not read: look again when its parent has gone.
            let _ = self.epoll.delete(pidfd);
            self.jobs[index].unwatched = true;
            let now = (clock::wall(), clock::boottime());
            self.jobs[index].end_seen.get_or_insert(now);
        } else if proc::starttime(job.pid) != Some(starttime)
            && process::peek_child(pidfd.as_fd()).is_err()
        {
            let lost = Outcome::Lost(LostReason::StatusUnseen);
            self.finish_as(index, lost, None, "none");
        }
    }

    pub(super) fn finish(
        &mut self,
        index: usize,
        status: i32,
        usage: Option<Usage>,
        evidence: &'static str,
    ) {
        let id = self.jobs[index].id().cloned();
        let outcome = Outcome::from_wait_status(status);
        self.finish_as(index, outcome, usage, evidence);
        let watched = self.run.is_some() && self.phase == Phase::Foreground;
        if watched && self.jobs[index].pid == self.shell.pid {
            // The verb reports as `wait` would: a code, also for a signal.
            let code = match self.jobs[index].timed_out {
                Some(limit) if limit != "drain" => {
                    self.say_time_is_over(id.as_ref(), limit);
                    124
                }
                _ => Outcome::from_wait_status(status).shell_code(),
            };
            self.shell.status = Some((i32::from(code) << 8, usage.unwrap_or_default()));
            self.phase = Phase::Settling(clock::boottime());
        }
    }

    fn finish_as(
        &mut self,
        index: usize,
        outcome: Outcome,
        usage: Option<Usage>,
        evidence: &'static str,
    ) {
        self.introduce_jobs();
        self.news = true;
        let signal = match outcome {
            Outcome::Signaled { signal, .. } => Some(signal),
            _ => None,
        };
        let now = (clock::wall(), clock::boottime());
        let ended = self.jobs[index].end_seen.unwrap_or(now);
        if let Some(output) = &mut self.jobs[index].output {
            output.let_go();
        }
        self.drain_tty(index);
        self.drain_feeds();
        self.close_inbox(index);
        // The call itself says nothing of a job that is ended with the container, or that it stays for.
        let in_call = !matches!(self.phase, Phase::Released | Phase::Lingering);
        let job = &mut self.jobs[index];
        job.ended = true;
        job.ended_in_call = in_call && job.timed_out != Some("drain");
        job.idle = None;
        if job.timed_out.is_none() {
            job.deadline = None;
        }
        if let Some(pidfd) = job.pidfd.take() {
            let _ = self.epoll.delete(&pidfd);
        }
        let live = job.live.as_ref();
        let wish = job.kill_requested.take();
        let wish = wish.or_else(|| live.and_then(|live| live.kill_intent(&outcome)));
        // Before the record tells others of it, who may act on that.
        self.note_ending(index, signal, wish.as_ref().map(|wish| wish.signal));
        self.say_ending(index, &outcome, ended.1);
        let job = &mut self.jobs[index];
        if let Some(mut live) = job.live.take() {
            let mut facts = ExitFacts::new(outcome, "supervisor", evidence, ended);
            facts.end_unseen = job.found_ended;
            facts.rusage = usage.map(|usage| record::Usage {
                user_ms: usage.user_ms,
                sys_ms: usage.sys_ms,
                max_rss_kib: usage.max_rss_kib,
            });
            facts.output = live.transcript().facts();
            facts.stopped_seen = job.stopped_seen;
            facts.kill_requested = wish;
            facts.during_call = job.ended_in_call;
            let tail = live.transcript().tail(TAIL);
            facts.tail = (!tail.is_empty()).then(|| text::redact(&clean_tail(&tail, LONGEST_TAIL)));
            if live.commit(&facts).is_err() && !live.is_removed() {
                job.unwritten = Some(Box::new(facts));
                let now = clock::boottime();
                self.retry_at.get_or_insert(now + RETRY);
                self.give_up_at.get_or_insert(now + GIVE_UP);
            }
            job.live = Some(live);
        }
        let job = &mut self.jobs[index];
        if job.output.as_ref().is_none_or(Output::is_abandoned) {
            job.listen(&self.epoll, false);
            job.output = None;
            if job.unwritten.is_none() {
                job.live = None;
            }
        }
        self.end_lingering();
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
            _ if self.kills.knows(index) => (Reach::Nobody, LEFTOVER),
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
        let watched = self.run.is_some() && self.phase == Phase::Foreground;
        let after_call = matches!(self.phase, Phase::Released | Phase::Lingering);
        if (watched || after_call) && !self.has_no_children() {
            self.look_for_strays_at(until);
        }
    }

    /// Tries again to write the records that the disk refused; gives up after a while, and then
    /// whoever looks next finds the lease free and says `lost`.
    pub(super) fn write_unwritten(&mut self) {
        let mut left = false;
        for job in &mut self.jobs {
            let (Some(facts), Some(live)) = (&job.unwritten, &mut job.live) else {
                continue;
            };
            if live.commit(facts).is_ok() {
                job.unwritten = None;
                self.news = true;
            } else {
                left = true;
            }
        }
        let now = clock::boottime();
        self.retry_at =
            Some(now + RETRY).filter(|_| left && self.give_up_at.is_some_and(|at| now < at));
    }

    /// A job's time is over: TERM, and KILL for whatever of it that was not enough for, also when the
    /// job itself has ended of it.
    pub(super) fn time_out(&mut self, index: usize, by: &'static str) {
        self.end_job(index, by, TIMEOUT_GRACE);
    }

    /// TERM for a job, and KILL `grace` later; a second time KILL at once.
    pub(super) fn end_job(&mut self, index: usize, by: &'static str, grace: Duration) {
        let job = &mut self.jobs[index];
        let signal = if job.timed_out.is_some() {
            libc::SIGKILL
        } else {
            job.timed_out = Some(by);
            job.deadline = Some(clock::boottime().saturating_add(grace));
            job.kill_requested = Some(record::KillIntent {
                by: by.to_owned(),
                signal: libc::SIGTERM,
                at: record::rfc3339(clock::wall()),
                session: None,
            });
            libc::SIGTERM
        };
        self.signal_job(index, signal);
    }
}

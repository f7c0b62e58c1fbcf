//! Strays: what the kernel hands to us when its parent has gone. Which of them become jobs, which were
//! only passing; and the foreground command that becomes a job itself.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use super::jobs::target;
use super::ledger::Start;
use super::stream::Sink;
use super::{DRAIN, LAUNCHING, Phase, REGISTRATION, Supervisor};
use crate::handoff;
use crate::invocation;
use crate::job::How;
use crate::rewrite;
use crate::sys::process::Usage;
use crate::sys::{fds, proc, session};

impl Supervisor {
    /// Our children that are no job, not the shell and not being killed with either; with `dead`, also
    /// those that have ended and were not reaped yet.
    pub(super) fn strays(&self, dead: bool) -> Vec<i32> {
        if self.has_no_children() || self.is_blind() {
            return Vec::new();
        }
        let known = |pid: i32| {
            self.job_of(pid).is_some()
                || (pid == self.shell.pid && self.shell.status.is_none())
                || self.is_target(pid)
                || self.is_condemned(pid)
                || self.helpers.contains(&pid)
        };
        let mut children = proc::own_children();
        children.retain(|&pid| {
            let is_stray =
                |stat: &proc::Stat| (dead || !stat.is_dead()) && !is_supervisor_name(stat.comm());
            !known(pid) && proc::stat(pid).as_ref().is_some_and(is_stray)
        });
        children
    }

    /// Whether all that is left below us are supervisors of commands of their own (`agent-sh run`
    /// from within a job): they need nobody above them.
    pub(super) fn has_only_supervisors(&self) -> bool {
        let mut children = proc::own_children().into_iter();
        children.all(|pid| self.is_helper(pid))
    }

    /// Whether `pid` is a forked copy of the shell, or a launcher, that has yet to become a job. A helper
    /// that registers a subshell is none itself.
    pub(super) fn is_about_to_register(&self, pid: i32) -> bool {
        let words = proc::cmdline(pid).unwrap_or_default();
        words == self.shell_argv || words.get(1).is_some_and(|word| word == invocation::LAUNCH)
    }

    /// Whether one of the strays has yet to register, and may still be waited for.
    pub(super) fn is_awaiting_registration(&self, strays: &[i32], elapsed: Duration) -> bool {
        let limits = strays.iter().filter_map(|&pid| self.on_its_way(pid));
        limits.max().is_some_and(|limit| elapsed < limit)
    }

    /// How long a process that is on its way to becoming a job may take for it: a launcher, or a copy
    /// of a shell of ours that has started nothing but one. A copy with other children is a subshell
    /// that works already, and registers no more. In the middle of an exec there are no words.
    pub(super) fn on_its_way(&self, pid: i32) -> Option<Duration> {
        if !self.has_spots || pid == self.shell.pid {
            return None;
        }
        let words = proc::cmdline(pid).unwrap_or_default();
        if is_launcher(&words) {
            return Some(LAUNCHING);
        }
        let children = proc::children(pid);
        if children.is_empty() {
            return self.is_copy(&words).then_some(REGISTRATION);
        }
        children
            .into_iter()
            .filter_map(|child| self.on_its_way(child))
            .max()
    }

    /// Whether these are the words of the shell, or of one whose text was rewritten with it. A shell of
    /// the latter kind cannot be told from its copies: it may have become its last command meanwhile.
    fn is_copy(&self, words: &[OsString]) -> bool {
        let rewritten = |word: &OsString| {
            let has = |name: &str| memchr::memmem::find(word.as_bytes(), name.as_bytes()).is_some();
            has(invocation::LAUNCH) || has(invocation::ADOPT)
        };
        words.is_empty() || words == self.shell_argv || words.iter().any(rewritten)
    }

    /// Whether a stray was born just now: it may be on its way to becoming a daemon, or to its end.
    pub(super) fn is_unsettled(&self, pid: i32) -> bool {
        proc::stat(pid).is_some_and(|stat| proc::age(&stat).is_some_and(|age| age < DRAIN))
    }

    /// Whether a process that ended before it was adopted deserves a record all the same: one that had
    /// left the shell's session meant to stay (a daemon), and so did one that was a stray already when
    /// the call was cut short. Short-lived leftovers did not (`> >(tee log)`, the rest of an ended
    /// job), nor did what died of the kill itself, nor one that handed over to a child, as daemons do,
    /// nor a launcher that a hang-up ended before it had registered its job.
    pub(super) fn is_worth_a_record(&self, pid: i32, status: i32) -> bool {
        if self.is_target(pid)
            || self.is_condemned(pid)
            || self.was_job(pid)
            || self.is_helper(pid)
            || self.leftovers_at.is_some() && !self.ended_by_itself(pid, status)
        {
            return false;
        }
        if self.is_blind() {
            // Whatever outlived its call.
            return matches!(self.phase, Phase::Released | Phase::Lingering);
        }
        let Some(dead) = proc::stat(pid) else {
            return false;
        };
        let left = dead.sid != self.shell.session && dead.sid != session::own_session();
        let bystander = self.bystanders.contains(&pid);
        // The heir may have become a job, or ended too, by the time we look; or it has ended and been
        // recorded long since, and whoever forked both left this one to us only now. One that does not
        // lead the session hands over at once, or is a daemon itself, beside another; and never to the
        // leader, which may be as young by the clock of `starttime`.
        let leads = dead.sid == pid;
        let handed_over = || {
            let children = proc::own_children().into_iter();
            let mut recorded = self.jobs.iter();
            leads && recorded.any(|job| job.heir_of == Some(pid))
                || (leads || self.is_unsettled(pid))
                    && children.filter_map(proc::stat).any(|heir| {
                        let other = heir.pid != pid && heir.pid != heir.sid;
                        other && heir.sid == dead.sid && heir.starttime >= dead.starttime
                    })
        };
        let launcher = !left && dead.comm().starts_with(invocation::OWN_NAME.as_bytes());
        (left || bystander) && !launcher && !handed_over()
    }

    /// Records a stray that nobody saw alive; of its command only the name is left.
    pub(super) fn record_dead_stray(&mut self, pid: i32, status: i32, usage: Usage) {
        let whole = || String::from_utf8_lossy(&self.command).into_owned();
        let text = proc::comm(pid).unwrap_or_else(whole);
        let start = Start {
            how: How::Stray,
            pid,
            text: text.as_bytes(),
            tty: false,
            redirected_to: None,
            transcript: None,
            degraded: Vec::new(),
            run: None,
            was: None,
        };
        let live = if self.is_blind() {
            self.ledger.publish_since(&start, self.shell.started)
        } else {
            self.ledger.publish(&start)
        };
        if let Some(live) = live {
            let mut job = self.new_job(pid, text.into_bytes(), Some(live));
            job.is_stray = true;
            job.heir_of = dead_leader(pid);
            self.jobs.push(job);
            self.finish(self.jobs.len() - 1, status, Some(usage), "waitid");
        }
    }

    /// Makes everything that the kernel handed to us a job.
    pub(super) fn adopt_strays(&mut self) {
        let loose: Vec<usize> = (0..self.jobs.len())
            .filter(|&index| self.jobs[index].ended && self.jobs[index].output.is_some())
            .collect();
        for pid in self.strays(false) {
            self.adopt(pid, &loose);
        }
        for index in loose {
            self.jobs[index].output = None;
        }
    }

    fn adopt(&mut self, pid: i32, loose: &[usize]) {
        let words = proc::cmdline(pid).unwrap_or_default();
        // A forked copy of the shell carries the whole rewritten text.
        let text = if words == self.shell_argv {
            String::from_utf8_lossy(&self.command).into_owned()
        } else {
            rewrite::shown(words.iter().map(|word| word.as_bytes()))
        };
        // What stands in the command itself is whoever called's own words.
        let is_told =
            !text.is_empty() && memchr::memmem::find(&self.command, text.as_bytes()).is_some();
        let streams = [1, 2].map(|fd| fds::object_of(pid, fd));
        let feed = self
            .feeds
            .iter()
            .flatten()
            .position(|feed| streams.contains(&Some(feed.object)));
        // The terminal of an ended job passes to whoever of its tree still writes to it.
        let inherited = loose.iter().copied().find(|&index| {
            let output = self.jobs[index].output.as_ref();
            output.is_some_and(|o| o.object.is_some() && streams.contains(&o.object))
        });
        let shared = feed
            .and_then(|at| self.feeds.iter().flatten().nth(at)?.owner)
            .and_then(|owner| {
                let path = self.jobs[owner].live.as_ref()?.transcript_path();
                Some(path.to_string_lossy().into_owned())
            });
        let redirected_to = if feed.is_none() && inherited.is_none() {
            target(pid, 1)
        } else {
            None
        };
        let start = Start {
            how: How::Stray,
            pid,
            text: text.as_bytes(),
            tty: inherited.is_some(),
            redirected_to: redirected_to.clone(),
            transcript: shared,
            degraded: Vec::new(),
            run: None,
            was: None,
        };
        let live = self.ledger.publish(&start);
        let index = self.jobs.len();
        let mut job = self.new_job(pid, text.into_bytes(), live);
        job.is_stray = !is_told;
        job.heir_of = dead_leader(pid);
        job.redirected_to = redirected_to;
        if let Some(from) = inherited {
            job.output = self.jobs[from].output.take();
            job.listen(&self.epoll, true);
        }
        self.jobs.push(job);
        let owned = self
            .feeds
            .iter_mut()
            .flatten()
            .filter(|feed| feed.owner.is_none());
        for feed in owned.filter(|feed| streams.contains(&Some(feed.object))) {
            feed.owner = Some(index);
        }
        if self.phase == Phase::Released {
            self.jobs[index].settle_down();
        }
    }

    /// What is still written to the call's own pipes belongs to a job, or to nobody.
    pub(super) fn give_feeds_to_jobs(&mut self) {
        let heir = self.jobs.iter().position(|job| !job.ended);
        let unseen = self.has_unseen();
        for slot in &mut self.feeds {
            let Some(feed) = slot else { continue };
            if feed.owner.is_none() {
                feed.owner = heir;
            }
            // Somebody whom we cannot see may write: nobody reads it, but it must not die of that.
            if feed.owner.is_some() || unseen {
                feed.listen(&self.epoll, true);
            } else {
                *slot = None;
            }
        }
    }

    /// The foreground command becomes a job: the harness would kill it soon, or just tried to.
    pub(super) fn promote(&mut self) {
        let text = self.command.clone();
        let start = Start {
            how: How::Promoted,
            pid: self.shell.pid,
            text: &text,
            tty: false,
            redirected_to: if self.feeds.iter().flatten().next().is_some() {
                None
            } else {
                target(self.shell.pid, 1)
            },
            transcript: None,
            degraded: Vec::new(),
            run: None,
            was: None,
        };
        let redirected_to = start.redirected_to.clone();
        let Some(live) = self.ledger.publish_since(&start, self.shell.started) else {
            // Without a record nobody could find it again: leave it to the harness.
            self.promote_at = None;
            return;
        };
        let index = self.jobs.len();
        let mut job = self.new_job(self.shell.pid, text, Some(live));
        job.redirected_to = redirected_to;
        for feed in self.feeds.iter_mut().flatten() {
            // What the harness has not taken yet is kept; else a reminder of what it saw last.
            let pending = self.sinks.get_mut(feed.sink).map(Sink::take_pending);
            match pending.filter(|pending| !pending.is_empty()) {
                Some(pending) => job.record_output(&pending),
                None => job.record_output(&feed.tail),
            }
            feed.owner = Some(index);
        }
        self.jobs.push(job);
        self.say_announcement();
        self.finish_call(124 << 8);
    }
}

/// The leader of a stray's session, if it has ended: a daemon's parent, which handed over to it.
fn dead_leader(pid: i32) -> Option<i32> {
    let leader = proc::stat(pid)?.sid;
    let lives = leader == pid || proc::stat(leader).is_some_and(|stat| !stat.is_dead());
    (!lives).then_some(leader)
}

fn is_launcher(words: &[OsString]) -> bool {
    let second = words.get(1);
    second.is_some_and(|word| word == invocation::LAUNCH || word == invocation::ADOPT)
}

/// Whether `pid` is a supervisor like this process, or a helper of one, by the name it gave itself.
/// (Its arguments may have been too short to hold the title.)
pub(super) fn is_supervisor(pid: i32) -> bool {
    proc::stat(pid).is_some_and(|stat| is_supervisor_name(stat.comm()))
}

fn is_supervisor_name(name: &[u8]) -> bool {
    let titles = [handoff::SUPERVISOR_TITLE, crate::notify::deliver::TITLE];
    let mut titles = titles.iter().map(|title| title.to_bytes());
    name.len() == 15 && titles.any(|title| title.starts_with(name))
}

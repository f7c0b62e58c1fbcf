//! Strays: what the kernel hands to us when its parent has gone. Which of them become jobs, which were
//! only passing; and the foreground command that becomes a job itself.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use super::jobs::{Job, redirections};
use super::ledger::Start;
use super::processes::{Class, Context, Ending, Life, ProcessFacts, Reach, Session, classify};
use super::stream::{Feed, Sink};
use super::{DRAIN, KILLED_LEFTOVER, LAUNCHING, LEFTOVER, Phase, REGISTRATION, Supervisor};
use crate::invocation;
use crate::job::{Evidence, How, Outcome};
use crate::rewrite;
use crate::sys::fds::Object;
use crate::sys::process::Usage;
use crate::sys::{clock, fds, proc, session};
use crate::wire::{self, is_daemon_of};

impl Supervisor {
    /// Our children that are no job, not the shell and not being killed with either; with `dead`, also
    /// those that have ended and were not reaped yet.
    pub(super) fn strays(&self, dead: bool) -> Vec<i32> {
        if self.has_no_children() || self.is_blind() {
            return Vec::new();
        }
        let mut children = proc::own_children();
        children.retain(|&pid| {
            let is_stray =
                |stat: &proc::Stat| (dead || !stat.is_dead()) && !is_supervisor_name(stat.comm());
            !self.is_accounted(pid) && proc::stat(pid).as_ref().is_some_and(is_stray)
        });
        children
    }

    /// Whether it is known already what a child is: the shell, a job, a helper, or one that was signalled
    /// with them.
    fn is_accounted(&self, pid: i32) -> bool {
        self.job_of(pid).is_some()
            || (pid == self.shell.pid && self.shell.status.is_none())
            || self.is_target(pid)
            || self.is_condemned(pid)
            || self.helpers.contains(&pid)
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

    /// Whether one that lives may be ending together with its job, or by a signal.
    pub(super) fn is_ending(&self, pid: i32) -> bool {
        proc::stat(pid).is_some_and(|stat| match self.session_of(&stat) {
            Session::EndedJob(ending) => clock::boottime() < ending.until,
            _ => proc::is_dying(&stat),
        })
    }

    /// What is to be done about a child that has ended and was no job.
    pub(super) fn class_of_ended(&self, pid: i32, status: i32) -> Class {
        let life = match Outcome::from_wait_status(status) {
            Outcome::Exited(code) => Life::Exited(code),
            Outcome::Signaled { signal, .. } => Life::Signaled(signal),
            Outcome::Lost(_) => return Class::Ignore,
        };
        let stat = proc::stat(pid);
        if stat.is_none() && !self.is_blind() {
            return Class::Ignore;
        }
        let endings = self.recent_endings();
        let facts = self.facts(pid, stat.as_ref(), life);
        classify(&facts, &self.context(&endings, false))
    }

    /// The jobs that ended so lately that their processes may still be ending with them.
    fn recent_endings(&self) -> Vec<Ending> {
        let now = clock::boottime();
        let endings = self.jobs.iter().filter_map(|job| job.ending);
        endings.filter(|ending| now < ending.until).collect()
    }

    fn context<'a>(&self, endings: &'a [Ending], call_ends: bool) -> Context<'a> {
        let now = clock::boottime();
        Context {
            now,
            blind: self.is_blind(),
            after_call: matches!(self.phase, Phase::Released | Phase::Lingering),
            call_ends,
            impatient: self.dying_until.is_some_and(|until| until <= now),
            endings,
        }
    }

    /// `stat` is `None` where there is no `/proc`.
    fn facts(&self, pid: i32, stat: Option<&proc::Stat>, life: Life) -> ProcessFacts {
        let ended = matches!(life, Life::Exited(_) | Life::Signaled(_));
        let of_our_kind = stat.is_some_and(|stat| is_supervisor_name(stat.comm()));
        let accounted = of_our_kind || self.is_accounted(pid) || ended && self.was_job(pid);
        let session = stat.map_or(Session::Call, |stat| self.session_of(stat));
        let who = (pid, stat.map_or(0, |stat| stat.starttime));
        let seen = self.bystanders.contains(&pid) || self.kills.is_known_daemon(who);
        let is_ours = |stat: &proc::Stat| stat.comm().starts_with(invocation::OWN_NAME.as_bytes());
        ProcessFacts {
            accounted,
            life,
            session,
            starttime: who.1,
            seen,
            launcher: session == Session::Call && stat.is_some_and(is_ours),
            has_heir: !accounted
                && life == Life::Exited(0)
                && (session == Session::Other || seen)
                && stat.is_some_and(|stat| self.has_heir(stat)),
        }
    }

    /// Whose session a child is in. Only a job that led a session has the number of one.
    fn session_of(&self, stat: &proc::Stat) -> Session {
        let job = self.jobs.iter().rev().find(|job| job.pid == stat.sid);
        let led = job.filter(|job| {
            // The number can be another's since: a leader's, or one whose leader has gone.
            let leader = if stat.pid == stat.sid {
                Some(stat.starttime)
            } else {
                proc::starttime(stat.sid)
            };
            job.starttime <= stat.starttime && leader.is_none_or(|time| time == job.starttime)
        });
        match led {
            Some(job) if !job.ended => Session::Job,
            Some(job) => Session::EndedJob(job.ending.unwrap_or(Ending {
                starttime: job.starttime,
                until: Duration::ZERO,
                reach: Reach::Nobody,
            })),
            None if [self.shell.session, session::own_session()].contains(&stat.sid) => {
                Session::Call
            }
            None => Session::Other,
        }
    }

    /// Whether one that has ended left another in its session, as a daemon's own parent does.
    fn has_heir(&self, dead: &proc::Stat) -> bool {
        // The heir may have become a job, or ended too, by the time we look; or it has ended and been
        // recorded long since, and whoever forked both left this one to us only now. One that does not
        // lead the session hands over at once, or is a daemon itself, beside another; and never to the
        // leader, which may be as young by the clock of `starttime`.
        let leads = dead.sid == dead.pid;
        let mut recorded = self.jobs.iter();
        if leads && recorded.any(|job| job.heir_of == Some(dead.pid)) {
            return true;
        }
        if !leads && !self.is_unsettled(dead.pid) {
            return false;
        }
        let children = proc::own_children().into_iter();
        children.filter_map(proc::stat).any(|heir| {
            let other = heir.pid != dead.pid && heir.pid != heir.sid;
            other && heir.sid == dead.sid && heir.starttime >= dead.starttime
        })
    }

    /// Notes the daemons that live when a job dies of a signal which nobody had told us of: should they
    /// die of the same one, it is an end of their own. Those of that job are not noted.
    pub(super) fn note_daemons(&mut self, index: usize) {
        let now = clock::boottime();
        if self.has_no_children() || !self.kills.may_look(now) {
            return;
        }
        let Some(id) = self.jobs[index].id().cloned() else {
            return;
        };
        for pid in self.strays(false) {
            let Some(stat) = proc::stat(pid) else {
                continue;
            };
            if self.session_of(&stat) == Session::Other
                && !self.is_unsettled(pid)
                && !is_daemon_of(&stat, &id, session::pid())
            {
                self.kills.add_daemon((pid, stat.starttime));
            }
        }
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
            redirected_stderr: None,
            transcript: None,
            degraded: Vec::new(),
            run: None,
            was: None,
        };
        let live = if self.is_blind() {
            self.ledger.publish_since(&start, self.shell.started)
        } else {
            self.publish(&start)
        };
        if let Some(live) = live {
            let mut job = self.new_job(pid, text.into_bytes(), Some(live));
            job.is_stray = true;
            job.heir_of = dead_leader(pid);
            self.jobs.push(job);
            self.finish(self.jobs.len() - 1, status, Some(usage), Evidence::WaitId);
        }
    }

    /// Makes jobs of the strays that live, and looks again when those are over that may be ending with a
    /// job. `call_ends`: whoever is to be announced must be a job now.
    pub(super) fn adopt_strays(&mut self, call_ends: bool) {
        let loose: Vec<usize> = (0..self.jobs.len())
            .filter(|&index| self.jobs[index].ended && self.jobs[index].output.is_some())
            .collect();
        let endings = self.recent_endings();
        let context = self.context(&endings, call_ends);
        let mut again: Option<Duration> = None;
        let mut dying = false;
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
            dying |= life == Life::Dying;
            let over = match facts.session {
                Session::EndedJob(ending) => Some(ending.until),
                Session::Other => endings.iter().map(|ending| ending.until).min(),
                Session::Job | Session::Call => None,
            };
            let at = over.filter(|at| context.now < *at && life == Life::Alive);
            let waits = at.or((life == Life::Dying).then_some(context.now + LEFTOVER));
            again = again.into_iter().chain(waits).min();
        }
        self.dying_until = match (dying, self.dying_until) {
            (true, None) => Some(context.now + KILLED_LEFTOVER),
            (true, since) => since,
            (false, _) => None,
        };
        for index in loose {
            // Whoever is adopted later may still write to the terminal of its job.
            let until = self.jobs[index].ending.map(|ending| ending.until);
            match until.filter(|until| context.now < *until && !call_ends) {
                Some(until) => again = again.into_iter().chain([until]).min(),
                None => self.pass_on_output(index),
            }
        }
        if let Some(at) = again {
            self.look_for_strays_at(at);
        }
    }

    pub(super) fn look_for_strays_at(&mut self, at: Duration) {
        let at = self.leftovers_at.map_or(at, |before| before.min(at));
        self.leftovers_at = Some(at);
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
            output.is_some_and(|output| output.find(&streams).is_some())
        });
        let shared = feed
            .and_then(|at| self.feeds.iter().flatten().nth(at)?.owner)
            .and_then(|owner| {
                let path = self.jobs[owner].live.as_ref()?.transcript_path();
                Some(path.to_string_lossy().into_owned())
            });
        let kept = |stream: &Option<Object>| {
            let fed = |feed: &Feed| Some(feed.object) == *stream;
            let output = inherited.and_then(|index| self.jobs[index].output.as_ref());
            self.feeds.iter().flatten().any(fed)
                || output.is_some_and(|output| output.find(&[*stream]).is_some())
        };
        let ours = [kept(&streams[0]), kept(&streams[1])];
        let [redirected_to, redirected_stderr] = redirections(pid, ours);
        let start = Start {
            how: How::Stray,
            pid,
            text: text.as_bytes(),
            tty: inherited.is_some(),
            redirected_to: redirected_to.clone(),
            redirected_stderr: redirected_stderr.clone(),
            transcript: shared,
            degraded: Vec::new(),
            run: None,
            was: None,
        };
        let live = self.publish(&start);
        let index = self.jobs.len();
        let mut job = self.new_job(pid, text.into_bytes(), live);
        job.is_stray = !is_told;
        job.heir_of = dead_leader(pid);
        job.redirected_to = redirected_to;
        job.redirected_stderr = redirected_stderr;
        if let Some(from) = inherited {
            // The loop would go on telling of it under the number of the job that has ended.
            self.jobs[from].listen(&self.epoll, false);
            job.output = self.jobs[from].output.take();
            job.mirrors = self.jobs[from].mirrors;
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
        let lives = |job: &Job| !job.ended;
        let recorded = |job: &Job| lives(job) && job.live.is_some();
        let heir = self.jobs.iter().position(recorded);
        let heir = heir.or_else(|| self.jobs.iter().position(lives));
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
        let streams = [1, 2].map(|fd| fds::object_of(self.shell.pid, fd));
        let fed = |stream: Option<Object>| {
            let mut feeds = self.feeds.iter().flatten();
            feeds.any(|feed| Some(feed.object) == stream)
        };
        let ours = streams.map(fed);
        let [redirected_to, redirected_stderr] = redirections(self.shell.pid, ours);
        let start = Start {
            how: How::Promoted,
            pid: self.shell.pid,
            text: &text,
            tty: false,
            redirected_to,
            redirected_stderr,
            transcript: None,
            degraded: Vec::new(),
            run: None,
            was: None,
        };
        let redirected_to = start.redirected_to.clone();
        let redirected_stderr = start.redirected_stderr.clone();
        let Some(live) = self.ledger.publish_since(&start, self.shell.started) else {
            // Without a record nobody could find it again: leave it to the harness.
            self.promote_at = None;
            return;
        };
        let index = self.jobs.len();
        let mut job = self.new_job(self.shell.pid, text, Some(live));
        job.redirected_to = redirected_to;
        job.redirected_stderr = redirected_stderr;
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
    let titles = [wire::SUPERVISOR_TITLE, crate::notify::deliver::TITLE];
    let mut titles = titles.iter().map(|title| title.to_bytes());
    name.len() == 15 && titles.any(|title| title.starts_with(name))
}

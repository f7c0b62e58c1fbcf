//! Strays: what the kernel hands to us when its parent has gone. Here the facts are gathered by which
//! `processes` decides what each of them is; `adopt` makes jobs of those that are strays.

mod adopt;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use super::Supervisor;
use super::processes::{Class, Context, Ending, Life, ProcessFacts, Reach, Session, classify};
use super::state::{DRAIN, LAUNCHING, REGISTRATION};
use crate::invocation;
use crate::job::Outcome;
use crate::sys::{clock, proc, process, session};
use crate::wire::{self, is_daemon_of};

/// Whether there is no `/proc` to see our children by. That there are some, and how each of them ended,
/// we know all the same.
pub(super) fn is_blind() -> bool {
    !proc::is_ours()
}

/// What is remembered from one check of our children to the next.
#[derive(Default)]
pub(super) struct Strays {
    /// `Some` while a process is waited for that is ending: until when.
    dying_until: Option<Duration>,
}

impl Strays {
    fn is_impatient(&self, now: Duration) -> bool {
        self.dying_until.is_some_and(|until| until <= now)
    }
}

impl Supervisor {
    /// ECHILD is the kernel's own word that nothing of ours is left.
    pub(super) fn has_no_children(&self) -> bool {
        process::peek_ended().is_err_and(|error| error.raw_os_error() == Some(libc::ECHILD))
    }

    /// Whether something lives on that cannot be named.
    pub(super) fn has_unseen(&self) -> bool {
        !self.has_no_children() && is_blind()
    }

    /// Our children that are no job, not the shell and not being killed with either; with `dead`, also
    /// those that have ended and were not reaped yet.
    pub(super) fn strays(&self, dead: bool) -> Vec<i32> {
        if self.has_no_children() || is_blind() {
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
        self.jobs.running(pid).is_some()
            || (pid == self.call.shell.pid && self.call.shell.is_running())
            || self.call.kill.is_target(pid)
            || self.kill_set.contains(pid, &self.jobs)
            || self.notifications.is_helper(pid)
    }

    /// Whether all that is left below us are supervisors of commands of their own (`agent-sh run`
    /// from within a job): they need nobody above them.
    pub(super) fn has_only_supervisors(&self) -> bool {
        let mut children = proc::own_children().into_iter();
        children.all(|pid| self.notifications.is_helper(pid) || is_supervisor(pid))
    }

    /// Whether `pid` is a forked copy of the shell, or a launcher, that has yet to become a job. A helper
    /// that registers a subshell is none itself.
    pub(super) fn is_about_to_register(&self, pid: i32) -> bool {
        let words = proc::cmdline(pid).unwrap_or_default();
        words == self.setup.shell_argv
            || words.get(1).is_some_and(|word| word == invocation::LAUNCH)
    }

    /// How long a process that is on its way to becoming a job may take for it: a launcher, or a copy
    /// of a shell of ours that has started nothing but one. A copy with other children is a subshell
    /// that works already, and registers no more. In the middle of an exec there are no words.
    pub(super) fn registration_limit(&self, pid: i32) -> Option<Duration> {
        if !self.setup.has_spots || pid == self.call.shell.pid {
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
            .filter_map(|child| self.registration_limit(child))
            .max()
    }

    /// Whether these are the words of the shell, or of one whose text was rewritten with it. A shell of
    /// the latter kind cannot be distinguished from its copies: it may have become its last command meanwhile.
    fn is_copy(&self, words: &[OsString]) -> bool {
        let rewritten = |word: &OsString| {
            let has = |name: &str| memchr::memmem::find(word.as_bytes(), name.as_bytes()).is_some();
            has(invocation::LAUNCH) || has(invocation::ADOPT)
        };
        words.is_empty() || words == self.setup.shell_argv || words.iter().any(rewritten)
    }

    /// Whether a stray was born just now: it may be on its way to becoming a daemon, or to its end.
    pub(super) fn was_just_started(&self, pid: i32) -> bool {
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
        if stat.is_none() && !is_blind() {
            return Class::Ignore;
        }
        let endings = self.jobs.recent_endings();
        let facts = self.facts(pid, stat.as_ref(), life);
        classify(&facts, &self.context(&endings, false))
    }

    fn context<'a>(&self, endings: &'a [Ending], call_ends: bool) -> Context<'a> {
        let now = clock::boottime();
        Context {
            now,
            blind: is_blind(),
            after_call: self.call.phase().is_after_call(),
            call_ends,
            impatient: self.strays.is_impatient(now),
            endings,
        }
    }

    /// `stat` is `None` where there is no `/proc`.
    fn facts(&self, pid: i32, stat: Option<&proc::Stat>, life: Life) -> ProcessFacts {
        let ended = matches!(life, Life::Exited(_) | Life::Signaled(_));
        let of_our_kind = stat.is_some_and(|stat| is_supervisor_name(stat.comm()));
        let accounted = of_our_kind || self.is_accounted(pid) || ended && self.jobs.includes(pid);
        let session = stat.map_or(Session::Call, |stat| self.session_of(stat));
        let who = (pid, stat.map_or(0, |stat| stat.starttime));
        let seen = self.call.kill.is_bystander(pid) || self.kill_set.is_known_daemon(who);
        let is_ours = |stat: &proc::Stat| stat.comm().starts_with(invocation::OWN_NAME.as_bytes());
        ProcessFacts {
            accounted,
            life,
            session,
            starttime: who.1,
            seen,
            launcher: session == Session::Call && stat.is_some_and(is_ours),
            has_successor: !accounted
                && life == Life::Exited(0)
                && (session == Session::Other || seen)
                && stat.is_some_and(|stat| self.has_successor(stat)),
        }
    }

    /// Whose session a child is in. Only a job that led a session has the number of one.
    fn session_of(&self, stat: &proc::Stat) -> Session {
        let job = self.jobs.latest(stat.sid);
        let led = job.filter(|job| {
            // The number can be another's since: a leader's, or one whose leader has gone.
            let leader = if stat.pid == stat.sid {
                Some(stat.starttime)
            } else {
                proc::starttime(stat.sid)
            };
            job.starttime() <= stat.starttime && leader.is_none_or(|time| time == job.starttime())
        });
        match led {
            Some(job) if !job.has_ended() => Session::Job,
            Some(job) => Session::EndedJob(job.ending().unwrap_or(Ending {
                starttime: job.starttime(),
                until: Duration::ZERO,
                reach: Reach::Nobody,
            })),
            None if [self.call.shell.session, session::own_session()].contains(&stat.sid) => {
                Session::Call
            }
            None => Session::Other,
        }
    }

    /// Whether one that has ended left another in its session, as a daemon's own parent does.
    fn has_successor(&self, dead: &proc::Stat) -> bool {
        // The successor may have become a job, or ended too, by the time we look; or it has ended and been
        // recorded long since, and whoever forked both left this one to us only now. One that does not
        // lead the session hands over at once, or is a daemon itself, beside another; and never to the
        // leader, which may be as young by the clock of `starttime`.
        let leads = dead.sid == dead.pid;
        let mut recorded = self.jobs.iter();
        if leads && recorded.any(|job| job.former_leader() == Some(dead.pid)) {
            return true;
        }
        if !leads && !self.was_just_started(dead.pid) {
            return false;
        }
        let children = proc::own_children().into_iter();
        children.filter_map(proc::stat).any(|other| {
            let follows = other.pid != dead.pid && other.pid != other.sid;
            follows && other.sid == dead.sid && other.starttime >= dead.starttime
        })
    }

    /// Notes the daemons that live when a job dies of a signal that nobody had announced: should they
    /// die of the same one, it is an end of their own. Those of that job are not noted.
    pub(super) fn note_daemons(&mut self, index: usize) {
        let now = clock::boottime();
        if self.has_no_children() || !self.kill_set.may_check_daemons(now) {
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
                && !self.was_just_started(pid)
                && !is_daemon_of(&stat, &id, session::pid())
            {
                self.kill_set.add_daemon((pid, stat.starttime));
            }
        }
    }
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

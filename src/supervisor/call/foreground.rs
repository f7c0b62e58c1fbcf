//! The foreground: the shell and everything below it that is no job. Signalling it without touching
//! jobs, and ending what a signal has left of it.

use std::time::Duration;

use super::{Call, PassedOn};
use crate::job::KillCause;
use crate::store;
use crate::supervisor::Supervisor;
use crate::supervisor::publisher::Identity;
use crate::supervisor::setup::Setup;
use crate::supervisor::state::{Cause, LAUNCHING};
use crate::supervisor::timers::Timer;
use crate::sys::{clock, proc, signal};
use crate::wire::Who;

/// From TERM to KILL for a foreground whose front was killed.
const GRACE: Duration = Duration::from_secs(1);

/// Who ends the foreground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::supervisor) enum Reason {
    /// Somebody sent a signal to the front.
    Signal,
    /// We do, because the front has died.
    FrontDied,
    /// PID 1 does.
    Drain,
}

impl Reason {
    /// Who asked for the end, as the record says it. A signal to the front comes from whoever made the call.
    pub(in crate::supervisor) fn cause(self) -> KillCause {
        match self {
            Self::Signal => KillCause::Harness,
            Self::FrontDied => KillCause::FrontDied,
            Self::Drain => KillCause::Drain,
        }
    }
}

/// Why the foreground is being ended from outside.
#[derive(Clone, Debug)]
pub(super) struct Killing {
    pub(super) signal: i32,
    pub(super) sender: i32,
    pub(super) program: Option<String>,
    pub(super) reason: Reason,
    /// KILL will follow; else the signal was only passed on, or KILL was used.
    awaits_kill: bool,
    /// What was signalled. These are no strays, whoever their parent is by now.
    pub(super) targets: Vec<Who>,
    /// When it began, and who the shell was and where it worked: afterwards nobody can tell.
    pub(super) at: Duration,
    pub(super) shell: Option<Identity>,
}

/// The end of the foreground from outside, and what is left of it.
#[derive(Default)]
pub(in crate::supervisor) struct ForegroundKill {
    current: Option<Killing>,
    /// What lived on when the shell had died of a signal and the call was over.
    remnants: Vec<Who>,
    /// Strays that lived when the call was cut short.
    bystanders: Vec<i32>,
}

impl ForegroundKill {
    pub(in crate::supervisor) fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    fn is_for(&self, reason: Reason) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|killing| killing.reason == reason)
    }

    fn awaits_kill(&self) -> bool {
        self.current.as_ref().is_some_and(|k| k.awaits_kill)
    }

    pub(in crate::supervisor) fn note_bystanders(&mut self, strays: Vec<i32>) {
        self.bystanders = strays;
    }

    pub(in crate::supervisor) fn is_bystander(&self, pid: i32) -> bool {
        self.bystanders.contains(&pid)
    }

    fn add_targets(&mut self, targets: Vec<Who>) {
        if let Some(killing) = &mut self.current {
            killing.targets.extend(targets);
        }
    }

    pub(super) fn take(&mut self) -> Option<Killing> {
        self.current.take()
    }

    pub(in crate::supervisor) fn forget(&mut self) {
        self.current = None;
    }

    pub(super) fn set_remnants(&mut self, targets: Vec<Who>) {
        self.remnants = targets;
    }

    /// Whether something that was signalled as part of the foreground has yet to go.
    pub(in crate::supervisor) fn has_living_targets(&self) -> bool {
        let killing = self.current.as_ref();
        killing.is_some_and(|killing| killing.targets.iter().any(is_alive))
    }

    /// Whether `pid` was signalled as part of the foreground.
    pub(in crate::supervisor) fn is_target(&self, pid: i32) -> bool {
        let targets = self.current.iter().flat_map(|killing| &killing.targets);
        targets
            .chain(&self.remnants)
            .any(|&(target, starttime)| target == pid && proc::starttime(pid) == Some(starttime))
    }

    /// The signal for what has lost its parent since the foreground was signalled.
    fn signal_for_orphans(&self, shell_died: bool) -> Option<i32> {
        let killing = self.current.as_ref()?;
        match killing.reason {
            Reason::Signal => shell_died.then_some(killing.signal),
            Reason::FrontDied | Reason::Drain => killing.awaits_kill.then_some(libc::SIGTERM),
        }
    }
}

pub(super) fn is_alive(&(pid, starttime): &Who) -> bool {
    proc::stat(pid).is_some_and(|stat| stat.starttime == starttime && !stat.is_dead())
}

impl Call {
    /// Signals the group that the shell leads. A shell that was reaped leads none: its number may be
    /// another's by now.
    pub(in crate::supervisor) fn signal_group(&self, signal: i32, setup: &Setup) {
        if self.shell.is_running() && !setup.shares_group {
            drop(signal::kill_group(self.shell.pid, signal));
        }
    }

    /// Whether `pid` is the shell or below it.
    pub(super) fn is_of_foreground(&self, pid: i32) -> bool {
        let tree = proc::tree(self.shell.pid);
        pid > 0 && tree.iter().any(|stat| stat.pid == pid)
    }
}

impl Supervisor {
    /// Signals the shell and everything below it that is no job and not about to become one.
    pub(in crate::supervisor) fn signal_foreground(&mut self, signal: i32) {
        // Who has registered is a job, also if nobody has read it yet.
        self.read_requests();
        if self.call.shell.is_running() {
            let targets = self.signal_tree(self.call.shell.pid, signal);
            self.call.kill.add_targets(targets);
        }
    }

    /// Somebody ends the foreground by a signal that the front passes on.
    pub(in crate::supervisor) fn note_kill(&mut self, passed: PassedOn) {
        let mut killing = self.new_killing(passed.signal, Reason::Signal);
        killing.sender = passed.sender;
        killing.program = proc::comm(passed.sender);
        self.call.kill.current = Some(killing);
    }

    /// TERM for the foreground now, and KILL later. Asked again to drain, it only hurries.
    pub(in crate::supervisor) fn end_foreground(&mut self, cause: Cause) {
        let now = clock::boottime();
        let (signal, reason, kill_at) = match cause {
            // The record says what ended the front.
            Cause::FrontDied => (libc::SIGKILL, Reason::FrontDied, now + GRACE),
            Cause::Drain => (libc::SIGTERM, Reason::Drain, self.drain.until()),
        };
        if cause == Cause::Drain && self.call.kill.is_for(Reason::Drain) {
            self.timers.hasten(Timer::KillForeground, kill_at);
            return;
        }
        let mut killing = self.new_killing(signal, reason);
        killing.awaits_kill = true;
        self.call.kill.current = Some(killing);
        self.timers.set(Timer::KillForeground, kill_at);
        self.signal_foreground(libc::SIGTERM);
    }

    /// Notes the state of things before the foreground is signalled; what was noted before an earlier
    /// signal stays.
    fn new_killing(&mut self, signal: i32, reason: Reason) -> Killing {
        if let Some(earlier) = self.call.kill.take() {
            return Killing {
                signal,
                reason,
                ..earlier
            };
        }
        let strays = self.strays(true);
        self.call.kill.note_bystanders(strays);
        let pid = self.call.shell.pid;
        let cwd = proc::link(pid, "cwd").unwrap_or_default();
        Killing {
            signal,
            sender: 0,
            program: None,
            reason,
            awaits_kill: false,
            targets: Vec::new(),
            at: clock::boottime(),
            shell: store::identity(pid).map(|identity| (identity, cwd)),
        }
    }

    /// The grace is over: KILL for whatever of the foreground is left, also where its parent has gone.
    pub(in crate::supervisor) fn kill_foreground(&mut self) {
        if let Some(killing) = &mut self.call.kill.current {
            killing.awaits_kill = false;
        }
        self.signal_foreground(libc::SIGKILL);
        self.signal_orphans(libc::SIGKILL);
        let current = self.call.kill.current.as_ref();
        let targets = current.map(|killing| killing.targets.clone());
        self.kill_all(&targets.unwrap_or_default());
    }

    /// The same when the shell has died of a signal that was passed on and the call is over.
    pub(in crate::supervisor) fn kill_remnants(&mut self) {
        self.kill_all(&self.call.kill.remnants);
    }

    fn kill_all(&self, targets: &[Who]) {
        for &(pid, starttime) in targets {
            if proc::starttime(pid) == Some(starttime) {
                self.signal_tree(pid, libc::SIGKILL);
            }
        }
    }

    /// What was forked while the foreground was being signalled, or seemed to become a job then, has
    /// lost its parent since and is one of our children now: still in the shell's session, and no stray
    /// from before.
    fn signal_orphans(&mut self, signal: i32) {
        for pid in self.strays(false) {
            let same = proc::stat(pid).is_some_and(|stat| stat.sid == self.call.shell.session);
            if same && !self.call.kill.is_bystander(pid) {
                let targets = self.signal_tree(pid, signal);
                self.call.kill.add_targets(targets);
            }
        }
    }

    /// Whether the foreground is being ended and some of it is left. What has lost its parent since it
    /// was signalled is signalled now.
    pub(super) fn is_foreground_dying(&mut self) -> bool {
        let died = self.call.shell.died_of_signal();
        if let Some(signal) = self.call.kill.signal_for_orphans(died) {
            self.signal_orphans(signal);
        }
        self.call.kill.awaits_kill() && self.call.kill.has_living_targets()
    }

    /// Whether a signal for the foreground passes a process by, because it is about to become a job: the
    /// text has gone past its `&`. KILL comes a second later and knows only launchers.
    fn is_passed_by(&self, stat: &proc::Stat, signal: i32) -> bool {
        self.registration_limit(stat.pid).is_some_and(|limit| {
            let waits = limit == LAUNCHING || signal != libc::SIGKILL;
            waits && proc::age(stat).is_some_and(|age| age < limit)
        })
    }

    /// Signals `root` and its descendants, jobs and their descendants excepted unless `root` is one, and
    /// what is about to become a job; of a job itself, which may look like that, all. Gives what it
    /// signalled.
    pub(in crate::supervisor) fn signal_tree(&self, root: i32, signal: i32) -> Vec<Who> {
        let table = proc::table();
        let is_job = self.jobs.running(root).is_some();
        let spared = self.jobs.trees_beside(root, &table);
        let tree = proc::tree_in(&table, root);
        if tree.is_empty() {
            // Without /proc only the group can be named; a forked subshell of ours may be in it.
            drop(signal::kill_group(root, signal));
            return Vec::new();
        }
        let targets: Vec<Who> = tree
            .iter()
            .filter(|stat| !spared.contains(&stat.pid))
            .filter(|stat| is_job || !self.is_passed_by(stat, signal))
            .map(|stat| (stat.pid, stat.starttime))
            .collect();
        // KILL must not race a process that forks on: stop all of them first.
        let rounds: &[i32] = if signal == libc::SIGKILL {
            &[libc::SIGSTOP, libc::SIGKILL]
        } else {
            &[signal]
        };
        for &signal in rounds {
            for &(pid, starttime) in &targets {
                if let Ok(pidfd) = proc::pidfd_open_checked(pid, starttime) {
                    drop(proc::pidfd_send_signal(&pidfd, signal));
                }
            }
        }
        targets
    }
}

//! The foreground: signalling it without touching jobs, and the record of its death from outside.

use crate::job::record::{self, ExitFacts, KilledBy};
use crate::job::{Evidence, How, KillCause, Observer, Outcome};
use crate::store;
use crate::sys::proc;
use crate::sys::{clock, signal};

use super::ledger::Start;
use super::{CONSEQUENCE, DOOM, Doomed, Killing, LAUNCHING, Supervisor};

impl Supervisor {
    /// Signals the shell and everything below it that is no job and not about to become one.
    pub(super) fn signal_foreground(&mut self, signal: i32) {
        // Who has registered is a job, also if nobody has read it yet.
        self.read_requests();
        if self.shell.status.is_none() {
            let targets = self.signal_tree(self.shell.pid, signal);
            if let Some(killing) = &mut self.killing {
                killing.targets.extend(targets);
            }
        }
    }

    /// Signals the group that the shell leads. A shell that was reaped leads none: its number may be
    /// another's by now.
    pub(super) fn signal_group(&self, signal: i32) {
        if self.shell.status.is_none() && !self.shares_group {
            drop(signal::kill_group(self.shell.pid, signal));
        }
    }

    /// Whether `pid` is the shell or below it.
    pub(super) fn is_of_foreground(&self, pid: i32) -> bool {
        let tree = proc::tree(self.shell.pid);
        pid > 0 && tree.iter().any(|stat| stat.pid == pid)
    }

    /// Notes the state of things before the foreground is signalled; what was noted before an earlier
    /// signal stays.
    pub(super) fn new_killing(&mut self, signal: i32, by: &'static str) -> Killing {
        if let Some(earlier) = self.killing.take() {
            return Killing {
                signal,
                by,
                ..earlier
            };
        }
        self.bystanders = self.strays(true);
        let pid = self.shell.pid;
        let cwd = proc::link(pid, "cwd").unwrap_or_default();
        Killing {
            signal,
            sender: 0,
            program: None,
            by,
            escalate_at: None,
            targets: Vec::new(),
            at: clock::boottime(),
            shell: store::identity(pid).map(|identity| (identity, cwd)),
        }
    }

    /// The grace is over: KILL for whatever of the foreground is left, also where its parent has gone.
    pub(super) fn kill_foreground(&mut self) {
        self.signal_foreground(libc::SIGKILL);
        self.signal_orphans(libc::SIGKILL);
        if let Some(killing) = &self.killing {
            self.kill_all(&killing.targets);
        }
    }

    /// The same when the shell has died of a signal that was passed on and the call is over.
    pub(super) fn kill_doomed(&mut self) {
        if let Some(doomed) = &self.doomed {
            self.kill_all(&doomed.targets);
        }
    }

    fn kill_all(&self, targets: &[(i32, u64)]) {
        for &(pid, starttime) in targets {
            if proc::starttime(pid) == Some(starttime) {
                self.signal_tree(pid, libc::SIGKILL);
            }
        }
    }

    /// Signals what has lost its parent since the foreground was signalled.
    fn chase(&mut self) {
        let Some(killing) = &self.killing else { return };
        let died = self
            .shell
            .status
            .is_some_and(|(status, _)| status & 0x7f != 0);
        let signal = match killing.by {
            "signal" if died => killing.signal,
            "front-died" | "drain" if killing.escalate_at.is_some() => libc::SIGTERM,
            _ => return,
        };
        self.signal_orphans(signal);
    }

    /// What was forked while the foreground was being signalled, or seemed to become a job then, has
    /// lost its parent since and is one of our children now: still in the shell's session, and no stray
    /// from before.
    fn signal_orphans(&mut self, signal: i32) {
        for pid in self.strays(false) {
            let same = proc::stat(pid).is_some_and(|stat| stat.sid == self.shell.session);
            if same && !self.bystanders.contains(&pid) {
                let targets = self.signal_tree(pid, signal);
                if let Some(killing) = &mut self.killing {
                    killing.targets.extend(targets);
                }
            }
        }
    }

    /// Whether the foreground is being ended and some of it is left.
    pub(super) fn is_being_killed(&mut self) -> bool {
        self.chase();
        let killing = self.killing.as_ref();
        killing.is_some_and(|killing| killing.escalate_at.is_some()) && self.has_living_targets()
    }

    /// Whether something that was signalled as part of the foreground has yet to go.
    pub(super) fn has_living_targets(&self) -> bool {
        let killing = self.killing.as_ref();
        killing.is_some_and(|killing| killing.targets.iter().any(is_alive))
    }

    /// Whether `pid` was signalled as part of the foreground.
    pub(super) fn is_target(&self, pid: i32) -> bool {
        let killing = self.killing.iter().flat_map(|killing| &killing.targets);
        let doomed = self.doomed.iter().flat_map(|doomed| &doomed.targets);
        killing
            .chain(doomed)
            .any(|&(target, starttime)| target == pid && proc::starttime(pid) == Some(starttime))
    }

    /// Whether a signal for the foreground passes a process by, because it is about to become a job: the
    /// text has gone past its `&`. KILL comes a second later and knows only launchers.
    fn is_passed_by(&self, stat: &proc::Stat, signal: i32) -> bool {
        self.on_its_way(stat.pid).is_some_and(|limit| {
            let waits = limit == LAUNCHING || signal != libc::SIGKILL;
            waits && proc::age(stat).is_some_and(|age| age < limit)
        })
    }

    /// Signals `root` and its descendants, jobs and their descendants excepted unless `root` is one, and
    /// what is about to become a job; of a job itself, which may look like that, all. Gives what it
    /// signalled.
    pub(super) fn signal_tree(&self, root: i32, signal: i32) -> Vec<(i32, u64)> {
        let table = proc::table();
        let is_job = self.job_of(root).is_some();
        let mut spared: Vec<i32> = Vec::new();
        for job in self.jobs.iter().filter(|job| !job.ended && job.pid != root) {
            spared.extend(proc::tree_in(&table, job.pid).iter().map(|stat| stat.pid));
        }
        let tree = proc::tree_in(&table, root);
        if tree.is_empty() {
            // Without /proc only the group can be named; a forked subshell of ours may be in it.
            drop(signal::kill_group(root, signal));
            return Vec::new();
        }
        // KILL must not race a process that forks on: stop all of them first.
        let rounds: &[i32] = if signal == libc::SIGKILL {
            &[libc::SIGSTOP, libc::SIGKILL]
        } else {
            &[signal]
        };
        let targets: Vec<(i32, u64)> = tree
            .iter()
            .filter(|stat| !spared.contains(&stat.pid))
            .filter(|stat| is_job || !self.is_passed_by(stat, signal))
            .map(|stat| (stat.pid, stat.starttime))
            .collect();
        for &signal in rounds {
            for &(pid, starttime) in &targets {
                if let Ok(pidfd) = proc::pidfd_open_checked(pid, starttime) {
                    drop(proc::pidfd_send_signal(&pidfd, signal));
                }
            }
        }
        targets
    }

    /// A foreground that was ended from outside leaves a record: which signal, from whom, after how
    /// long, and its last words. A harness's limit then does not pass for a program that crashes.
    pub(super) fn record_killed_foreground(&mut self, status: i32) {
        let Some(killing) = self.killing.take() else {
            return;
        };
        let outcome = Outcome::from_wait_status(status);
        let now = clock::boottime();
        let late = now.saturating_sub(killing.at) > CONSEQUENCE;
        if late && killing.by == "signal" && matches!(outcome, Outcome::Exited(_)) {
            // The command took the signal and went on.
            return;
        }
        if killing.targets.iter().any(is_alive) {
            let (targets, kill_at) = (killing.targets.clone(), Some(now + DOOM));
            self.doomed = Some(Doomed { targets, kill_at });
        }
        let text = self.command.clone();
        let start = Start {
            how: How::Foreground,
            pid: self.shell.pid,
            text: &text,
            tty: self.has_terminal,
            redirected_to: None,
            redirected_stderr: None,
            transcript: None,
            degraded: Vec::new(),
            run: None,
            was: killing.shell,
        };
        let started = self.shell.started;
        let Some(mut live) = self.ledger.publish_since(&start, started) else {
            return;
        };
        let tail: Vec<u8> = self
            .feeds
            .iter()
            .flatten()
            .flat_map(|feed| feed.tail.clone())
            .collect();
        let tail = if tail.is_empty() {
            std::mem::take(&mut self.last_tail)
        } else {
            tail
        };
        live.transcript().write(&tail);
        let ended = (clock::wall(), clock::boottime());
        let mut facts = ExitFacts::new(outcome, Observer::Supervisor, Evidence::WaitId, ended);
        facts.rusage = self.shell.status.map(|(_, usage)| record::Usage {
            user_ms: usage.user_ms,
            sys_ms: usage.sys_ms,
            max_rss_kib: usage.max_rss_kib,
        });
        facts.output = live.transcript().facts();
        facts.tail = Some(String::from_utf8_lossy(&tail).into_owned());
        facts.kill_requested = Some(record::KillIntent {
            by: match killing.by {
                "drain" => KillCause::Drain,
                "front-died" => KillCause::FrontDied,
                _ => KillCause::Harness,
            },
            signal: killing.signal,
            at: record::rfc3339(ended.0),
            session: None,
        });
        facts.killed_by = (killing.sender > 0).then_some(KilledBy {
            signal: killing.signal,
            pid: killing.sender,
            program: killing.program,
        });
        facts.during_call = true;
        drop(live.commit(&facts));
        self.news = true;
    }
}

fn is_alive(&(pid, starttime): &(i32, u64)) -> bool {
    proc::stat(pid).is_some_and(|stat| stat.starttime == starttime && !stat.is_dead())
}

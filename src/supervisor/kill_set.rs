//! The kill set: processes that are about to end together with a job. Whoever of them dies is part of
//! that job's end and has no record of its own; whoever lives is no job of its own until the kill is over.

use std::time::Duration;

use super::Supervisor;
use super::job::{Job, Jobs, KILLED_LEFTOVER};
use super::state::Phase;
use super::timers::Timer;
use crate::sys::{clock, proc, session};
use crate::wire::{self, Who, is_daemon_of};

/// No kill takes longer; whoever says so is not believed.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Daemons are not looked for more often.
const DAEMON_CHECK: Duration = Duration::from_millis(50);

/// Who dies with our jobs.
#[derive(Default)]
pub(super) struct KillSet {
    members: Vec<Member>,
    /// Daemons that lived when a job died of a signal.
    daemons: Vec<Who>,
    /// When daemons were last looked for.
    daemons_checked: Option<Duration>,
}

struct Member {
    who: Who,
    /// `None`: of a job that has ended and is not known by its id any more.
    job: Option<usize>,
    until: Duration,
}

impl KillSet {
    /// When the next member's time is over.
    fn next(&self) -> Option<Duration> {
        self.members.iter().map(|member| member.until).min()
    }

    /// Whether it is known who dies with this job.
    pub(super) fn names_any_of(&self, job: usize) -> bool {
        self.members.iter().any(|member| member.job == Some(job))
    }

    fn of_job(&self, job: usize) -> impl Iterator<Item = Who> {
        let members = self.members.iter();
        members
            .filter(move |member| member.job == Some(job))
            .map(|member| member.who)
    }

    /// Whether it is time to look for daemons: many jobs may die of one signal.
    pub(super) fn may_check_daemons(&mut self, now: Duration) -> bool {
        let due = self
            .daemons_checked
            .is_none_or(|at| at + DAEMON_CHECK <= now);
        if due {
            self.daemons_checked = Some(now);
        }
        due
    }

    pub(super) fn add_daemon(&mut self, who: Who) {
        if !self.daemons.contains(&who) {
            self.daemons.push(who);
        }
    }

    pub(super) fn is_known_daemon(&self, who: Who) -> bool {
        self.daemons.contains(&who)
    }

    fn add(&mut self, who: Who, job: Option<usize>, until: Duration) {
        match self.members.iter_mut().find(|known| known.who == who) {
            Some(known) => {
                known.until = known.until.max(until);
                known.job = known.job.or(job);
            }
            None => self.members.push(Member { who, job, until }),
        }
    }

    /// Whether `pid` ends with a job that is being killed: it was named, or is in the session or the
    /// group of the job's own, where the kill will find it.
    pub(super) fn contains(&self, pid: i32, jobs: &Jobs) -> bool {
        if self.members.is_empty() {
            return false;
        }
        let Some(stat) = proc::stat(pid) else {
            return false;
        };
        self.members.iter().any(|member| {
            let leader = member.job.map(|index| jobs[index].pid());
            member.who == (pid, stat.starttime)
                || leader.is_some_and(|leader| leader == stat.sid || leader == stat.pgid)
        })
    }

    /// Removes those whose time is over. Gives whether one of them was of a job that has ended.
    fn remove_over(&mut self, now: Duration, jobs: &Jobs) -> bool {
        let mut of_ended = false;
        self.members.retain(|member| {
            let over = member.until <= now;
            of_ended |= over && member.job.is_none_or(|index| jobs[index].has_ended());
            !over
        });
        of_ended
    }
}

impl Supervisor {
    fn add_to_kill_set(&mut self, members: &[Who], job: Option<usize>, until: Duration) {
        for &who in members {
            self.kill_set.add(who, job, until);
        }
        self.timers.set_to(Timer::KillSet, self.kill_set.next());
    }

    /// Somebody who kills a job says who dies with it.
    pub(super) fn note_kill_set(&mut self, named: &wire::KillSet) {
        let mut jobs = self.jobs.iter();
        let job = jobs.position(|job| job.id() == Some(&named.job));
        let until = clock::boottime() + named.time.min(LONGEST);
        self.add_to_kill_set(&named.who, job, until);
    }

    /// Signals all of a job: its tree, its daemons, and whoever was signalled with it before.
    pub(super) fn signal_job(&mut self, index: usize, signal: i32) {
        let mut targets = Vec::new();
        if !self.jobs[index].has_ended() {
            targets.extend(self.signal_tree(self.jobs[index].pid(), signal));
        }
        for daemon in self.adopted_daemons_of(index) {
            // It has a record of its own, which is to say why it ended.
            let intent = self.jobs[index].kill_requested().cloned();
            self.jobs[daemon].request_kill(intent);
            targets.extend(self.signal_tree(self.jobs[daemon].pid(), signal));
        }
        for (pid, starttime) in self.others_of(index) {
            // One that became a job meanwhile is another's, and so is its number when it has gone.
            let other = self.jobs.running(pid);
            let other = other.filter(|&other| self.jobs[other].kill_requested().is_none());
            if other.is_none()
                && !targets.contains(&(pid, starttime))
                && proc::starttime(pid) == Some(starttime)
            {
                targets.extend(self.signal_tree(pid, signal));
            }
        }
        let until = clock::boottime() + KILLED_LEFTOVER;
        self.add_to_kill_set(&targets, Some(index), until);
    }

    /// Daemons of a job that have become jobs of their own.
    fn adopted_daemons_of(&self, index: usize) -> Vec<usize> {
        let Some(id) = self.jobs[index].id() else {
            return Vec::new();
        };
        let is_daemon = |job: &Job| {
            let stat = (job.was_adopted() && !job.has_ended()).then(|| proc::stat(job.pid()));
            let stat = stat.flatten();
            stat.is_some_and(|stat| is_daemon_of(&stat, id, session::pid()))
        };
        let others = (0..self.jobs.len()).filter(|&other| other != index);
        others
            .filter(|&other| is_daemon(&self.jobs[other]))
            .collect()
    }

    /// What belongs to a job and need not be below its process.
    fn others_of(&self, index: usize) -> Vec<Who> {
        let mut others: Vec<Who> = self.kill_set.of_job(index).collect();
        if let Some(id) = self.jobs[index].id() {
            let strays = self.strays(false).into_iter().filter_map(proc::stat);
            let daemons = strays.filter(|stat| is_daemon_of(stat, id, session::pid()));
            others.extend(daemons.map(|stat| (stat.pid, stat.starttime)));
        }
        others
    }

    /// Kills that are over: whoever outlived one whose job has ended is a job of its own now.
    pub(super) fn end_kills(&mut self, now: Duration) {
        let mut held = proc::own_children();
        held.retain(|&pid| self.kill_set.contains(pid, &self.jobs));
        let of_ended = self.kill_set.remove_over(now, &self.jobs);
        self.timers.set_to(Timer::KillSet, self.kill_set.next());
        let mut held = held.iter();
        let outlived = held.any(|&pid| !self.kill_set.contains(pid, &self.jobs));
        if of_ended && outlived && self.call.phase() == Phase::Released {
            self.adopt_strays(false);
        }
    }
}

//! Kills under way: who is about to end together with a job. Whoever of them dies is part of that job's
//! end and has no record of its own; whoever lives is no job of its own until the kill is over.

use std::time::Duration;

use super::jobs::Job;
use super::{KILLED_LEFTOVER, Phase, Supervisor};
use crate::job::How;
use crate::sys::{clock, proc, session};
use crate::wire::{KillSet, Who, is_daemon_of};

/// No kill takes longer; whoever says so is not believed.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Daemons are not looked for more often.
const LOOK: Duration = Duration::from_millis(50);

/// Who dies with our jobs.
#[derive(Default)]
pub(super) struct Kills {
    condemned: Vec<Sentence>,
    /// Daemons that lived when a job died of a signal.
    daemons: Vec<Who>,
    /// When daemons were last looked for.
    looked: Option<Duration>,
}

struct Sentence {
    who: Who,
    /// `None`: of a job that has ended and is not known by its id any more.
    job: Option<usize>,
    until: Duration,
}

impl Kills {
    pub(super) fn next(&self) -> Option<Duration> {
        self.condemned.iter().map(|sentence| sentence.until).min()
    }

    /// Whether it is known who dies with this job.
    pub(super) fn knows(&self, job: usize) -> bool {
        self.condemned
            .iter()
            .any(|sentence| sentence.job == Some(job))
    }

    /// Whether it is time to look for daemons: many jobs may die of one signal.
    pub(super) fn may_look(&mut self, now: Duration) -> bool {
        let due = self.looked.is_none_or(|at| at + LOOK <= now);
        if due {
            self.looked = Some(now);
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
        match self.condemned.iter_mut().find(|known| known.who == who) {
            Some(known) => {
                known.until = known.until.max(until);
                known.job = known.job.or(job);
            }
            None => self.condemned.push(Sentence { who, job, until }),
        }
    }
}

impl Supervisor {
    /// Somebody who kills a job says who dies with it.
    pub(super) fn note_kill(&mut self, told: &KillSet) {
        let job = self.jobs.iter().position(|job| job.id() == Some(&told.job));
        let until = clock::boottime() + told.time.min(LONGEST);
        for &who in &told.who {
            self.kills.add(who, job, until);
        }
    }

    /// Whether `pid` ends with a job that is being killed: it was named, or is in the session or the group
    /// of the job's own, where the kill will find it.
    pub(super) fn is_condemned(&self, pid: i32) -> bool {
        if self.kills.condemned.is_empty() {
            return false;
        }
        let Some(stat) = proc::stat(pid) else {
            return false;
        };
        self.kills.condemned.iter().any(|sentence| {
            let leader = sentence.job.map(|index| self.jobs[index].pid);
            sentence.who == (pid, stat.starttime)
                || leader.is_some_and(|leader| leader == stat.sid || leader == stat.pgid)
        })
    }

    /// Signals all of a job: its tree, its daemons, and whoever was signalled with it before.
    pub(super) fn signal_job(&mut self, index: usize, signal: i32) {
        let (pid, ended) = (self.jobs[index].pid, self.jobs[index].ended);
        let mut targets = Vec::new();
        if !ended {
            targets.extend(self.signal_tree(pid, signal));
        }
        for daemon in self.stray_jobs_of(index) {
            // It has a record of its own, which is to say why it ended.
            if self.jobs[daemon].kill_requested.is_none() {
                self.jobs[daemon].kill_requested = self.jobs[index].kill_requested.clone();
            }
            targets.extend(self.signal_tree(self.jobs[daemon].pid, signal));
        }
        for (pid, starttime) in self.others_of(index) {
            // One that became a job meanwhile is another's, and so is its number when it has gone.
            let other = self.job_of(pid);
            let other = other.filter(|&other| self.jobs[other].kill_requested.is_none());
            if other.is_none()
                && !targets.contains(&(pid, starttime))
                && proc::starttime(pid) == Some(starttime)
            {
                targets.extend(self.signal_tree(pid, signal));
            }
        }
        let until = clock::boottime() + KILLED_LEFTOVER;
        for who in targets {
            self.kills.add(who, Some(index), until);
        }
    }

    /// Daemons of a job that have become jobs of their own.
    fn stray_jobs_of(&self, index: usize) -> Vec<usize> {
        let Some(id) = self.jobs[index].id() else {
            return Vec::new();
        };
        let is_daemon = |job: &Job| {
            let stray = job.live.as_ref().map(|live| live.launch().facts.how) == Some(How::Stray);
            let stat = proc::stat(job.pid).filter(|_| stray && !job.ended);
            stat.is_some_and(|stat| is_daemon_of(&stat, id, session::pid()))
        };
        let others = (0..self.jobs.len()).filter(|&other| other != index);
        others
            .filter(|&other| is_daemon(&self.jobs[other]))
            .collect()
    }

    /// What belongs to a job and need not be below its process.
    fn others_of(&self, index: usize) -> Vec<Who> {
        let before = self.kills.condemned.iter();
        let mut others: Vec<Who> = before
            .filter(|sentence| sentence.job == Some(index))
            .map(|sentence| sentence.who)
            .collect();
        if let Some(id) = self.jobs[index].id() {
            let strays = self.strays(false).into_iter().filter_map(proc::stat);
            let daemons = strays.filter(|stat| is_daemon_of(stat, id, session::pid()));
            others.extend(daemons.map(|stat| (stat.pid, stat.starttime)));
        }
        others
    }

    /// Kills that are over: whoever outlived one whose job has ended is a job of its own now.
    pub(super) fn forget_kills(&mut self, now: Duration) {
        let mut held = proc::own_children();
        held.retain(|&pid| self.is_condemned(pid));
        let jobs = &self.jobs;
        let mut of_ended = false;
        self.kills.condemned.retain(|sentence| {
            let over = sentence.until <= now;
            of_ended |= over && sentence.job.is_none_or(|index| jobs[index].ended);
            !over
        });
        let outlived = held.iter().any(|&pid| !self.is_condemned(pid));
        if of_ended && outlived && self.phase == Phase::Released {
            self.adopt_strays(false);
        }
    }
}

//! Where a job lives: below its supervisor, to which the kernel hands its daemons. They are found there by
//! their mark, and the supervisor is told whom a kill is about to end.

use std::collections::HashSet;
use std::time::Duration;

use crate::handoff::{Address, Condemned, Who, is_daemon_of};
use crate::store::JobView;
use crate::sys::proc::Stat;

#[derive(Debug)]
pub(super) struct Home {
    job: Box<JobView>,
    /// Processes with the mark of this job that have become jobs of their own.
    jobs: HashSet<Who>,
}

impl Home {
    pub(super) fn of(job: &JobView) -> Self {
        Self {
            job: Box::new(job.clone()),
            jobs: HashSet::new(),
        }
    }

    /// Daemons of the job in this look at the system that are not `known` yet. Where nobody can say what
    /// else is a job, there are none.
    pub(super) fn new_daemons(&mut self, table: &[Stat], known: impl Fn(Who) -> bool) -> Vec<Who> {
        let launch = &self.job.launch;
        let (pid, starttime) = (launch.supervisor.pid, launch.supervisor.starttime);
        let lives = |stat: &Stat| stat.pid == pid && stat.starttime == starttime;
        if pid <= 1 || !table.iter().any(lives) {
            return Vec::new();
        }
        let is_new = |who: &Who| !known(*who) && !self.jobs.contains(who);
        let below = table.iter().filter(|stat| stat.ppid == pid);
        let found: Vec<Who> = below
            .filter(|stat| is_new(&(stat.pid, stat.starttime)))
            .filter(|stat| is_daemon_of(stat, &launch.id, pid))
            .map(|stat| (stat.pid, stat.starttime))
            .collect();
        if found.is_empty() {
            return found;
        }
        let Ok(running) = self.job.running_beside() else {
            return Vec::new();
        };
        let jobs = running
            .iter()
            .map(|job| (job.launch.proc.pid, job.launch.proc.starttime));
        self.jobs.extend(jobs);
        let free = found.into_iter().filter(|who| !self.jobs.contains(who));
        free.collect()
    }

    /// Tells the supervisor who is about to be signalled, and how long their end may take.
    pub(super) fn announce(&self, who: Vec<Who>, time: Duration) {
        let launch = &self.job.launch;
        let address = launch.control.as_deref().and_then(Address::from_text);
        if let Some(address) = address.filter(|_| !who.is_empty()) {
            let job = launch.id.clone();
            Condemned { job, time, who }.tell(address);
        }
    }
}

//! Where a job lives: below its supervisor, to which the kernel hands its daemons. They are found by their
//! marks, wherever they are, and the supervisor is told whom a kill is about to end.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::job::How;
use crate::store::JobView;
use crate::sys::proc::{self, Stat};
use crate::text;
use crate::wire::{Address, KillSet, Origin, Who, may_be_daemon, origin};

/// How long the supervisor may take to list what a job has left.
const UNTIL_LISTED: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Home {
    job: Box<JobView>,
    /// Processes that are jobs of their own, as far as they were asked for.
    jobs: HashSet<Who>,
}

/// One that lives on and may have come from a job.
#[derive(Debug)]
pub(crate) struct Survivor {
    pub(crate) job: Option<String>,
    pub(crate) pid: i32,
    pub(crate) command: String,
}

impl Home {
    pub(super) fn of(job: &JobView) -> Self {
        Self {
            job: Box::new(job.clone()),
            jobs: HashSet::new(),
        }
    }

    /// Daemons of the job in this look at the system that are not `known` yet and no jobs of their own.
    /// Where nobody can say what is a job, there are none.
    pub(super) fn new_daemons(&mut self, table: &[Stat], known: impl Fn(Who) -> bool) -> Vec<Who> {
        let is_new = |who: &Who| !known(*who) && !self.jobs.contains(who);
        let found: Vec<Who> = table
            .iter()
            .filter(|stat| is_new(&(stat.pid, stat.starttime)) && self.is_of_job(stat, table))
            .map(|stat| (stat.pid, stat.starttime))
            .collect();
        if found.is_empty() {
            return found;
        }
        let Ok(running) = self.job.running_beside() else {
            return Vec::new();
        };
        self.jobs.extend(running.iter().map(who));
        let free = found.into_iter().filter(|who| !self.jobs.contains(who));
        free.collect()
    }

    /// Jobs of their own that this one has left: strays with its marks, or in its session.
    pub(super) fn left_jobs(&self) -> Result<Vec<JobView>> {
        let table = proc::table();
        let left = table.iter().filter(|stat| self.is_of_job(stat, &table));
        let left: Vec<Who> = left.map(|stat| (stat.pid, stat.starttime)).collect();
        // Whoever has left nothing need not look through the store.
        if left.iter().all(|&process| process == who(&self.job)) {
            return Ok(Vec::new());
        }
        let mut jobs = self.job.running_beside()?;
        jobs.retain(|job| {
            let other = job.launch.id != self.job.launch.id;
            other && job.launch.facts.how == How::Stray && left.contains(&who(job))
        });
        Ok(jobs)
    }

    /// Whether a process came from this job and has no parent in it any more.
    fn is_of_job(&self, stat: &Stat, table: &[Stat]) -> bool {
        let launch = &self.job.launch;
        // Nothing that a job made is older than the job.
        if stat.starttime < launch.facts.proc.starttime
            || !may_be_daemon(stat, launch.supervisor.pid)
        {
            return false;
        }
        let supervised = self.is_supervised(table);
        let below = supervised && stat.ppid == launch.supervisor.pid;
        let address = launch.control.as_deref();
        // Without a supervisor they are with whoever takes orphans.
        if below || !supervised && address.is_some() {
            let found = origin(stat.pid, &launch.id, address);
            if found == Origin::Job {
                return true;
            }
        }
        // A session has its number for as long as somebody is in it.
        let leader = launch.facts.proc.pid;
        let taken = table.iter().any(|stat| stat.pid == leader);
        self.job.state.is_terminal() && below && stat.sid == leader && !taken
    }

    fn is_supervised(&self, table: &[Stat]) -> bool {
        let supervisor = &self.job.launch.supervisor;
        let identity = (supervisor.pid, supervisor.starttime);
        let lives = |stat: &Stat| (stat.pid, stat.starttime) == identity && !stat.is_dead();
        supervisor.pid > 1 && table.iter().any(lives)
    }

    /// What lives on below the supervisor, is no older than the job, and does not say where it came from.
    /// Waits until the supervisor has listed it, for then it has a name.
    pub(super) fn survivors(&self) -> Result<Vec<Survivor>> {
        let deadline = Instant::now() + UNTIL_LISTED;
        loop {
            let table = proc::table();
            let unmarked = table.iter().filter(|stat| self.is_unmarked(stat, &table));
            let unmarked: Vec<&Stat> = unmarked.collect();
            if unmarked.is_empty() {
                return Ok(Vec::new());
            }
            let jobs = self.job.running_beside()?;
            let mut found = Vec::new();
            let mut unlisted = false;
            for stat in unmarked {
                let job = jobs
                    .iter()
                    .find(|job| who(job) == (stat.pid, stat.starttime));
                if job.is_some_and(|job| job.launch.facts.how != How::Stray) {
                    continue;
                }
                unlisted |= job.is_none();
                let words = proc::cmdline(stat.pid).unwrap_or_default();
                let shown =
                    || crate::rewrite::shown(words.iter().map(|word| word.as_encoded_bytes()));
                let command = job.map_or_else(shown, |job| job.launch.facts.command.text.clone());
                found.push(Survivor {
                    job: job.map(|job| job.launch.id.to_string()),
                    pid: stat.pid,
                    command: text::shorten(&text::redact(&command), 120),
                });
            }
            if !unlisted || Instant::now() >= deadline {
                return Ok(found);
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    fn is_unmarked(&self, stat: &Stat, table: &[Stat]) -> bool {
        let launch = &self.job.launch;
        stat.ppid == launch.supervisor.pid
            && stat.starttime >= launch.facts.proc.starttime
            && (stat.pid, stat.starttime) != who(&self.job)
            && may_be_daemon(stat, launch.supervisor.pid)
            && self.is_supervised(table)
            && origin(stat.pid, &launch.id, launch.control.as_deref()) == Origin::Unmarked
    }

    /// Tells the supervisor who is about to be signalled, and how long their end may take.
    pub(super) fn announce(&self, who: Vec<Who>, time: Duration) {
        let launch = &self.job.launch;
        let address = launch.control.as_deref().and_then(Address::from_text);
        if let Some(address) = address.filter(|_| !who.is_empty()) {
            let job = launch.id.clone();
            KillSet { job, time, who }.tell(address);
        }
    }
}

fn who(job: &JobView) -> Who {
    (job.launch.facts.proc.pid, job.launch.facts.proc.starttime)
}

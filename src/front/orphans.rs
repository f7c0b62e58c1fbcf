//! What the front does when the supervisor of its command was killed. The shell's output goes nowhere
//! then, and nobody would ever end it: the front ends the foreground itself. Jobs are left alone; their
//! records say that nobody supervises them.
//!
//! The kernel has handed the supervisor's children to init by the time the front hears of its end, so
//! the foreground is told from strangers by what it carries: the supervisor's address in its
//! environment, and a start after our own.

use std::time::Duration;

use crate::config;
use crate::error::Error;
use crate::message;
use crate::shell::Ourselves;
use crate::store::{self, Store};
use crate::sys::proc::{self, Stat};
use crate::sys::{clock, fds, session};
use crate::wire::{JOB_VARIABLE, SUPERVISOR_VARIABLE};

/// From TERM to KILL, as when the front is the one that was killed.
const GRACE: Duration = Duration::from_secs(1);
/// Between two looks at what is left.
const PAUSE_MS: i32 = 10;
/// How often KILL is repeated for what was forked meanwhile.
const ROUNDS: u32 = 20;

/// A process that cannot be mistaken for a later one of the same pid.
type Who = (i32, u64);

/// Ends the foreground, says what happened, and gives the exit code. `is_shell`: a command runs in the
/// foreground; else there is only a job, which goes on.
pub(super) fn supervisor_died(supervisor: i32, shell: Option<i32>, is_shell: bool) -> u8 {
    if is_shell && let Some(mut foreground) = Foreground::find(supervisor, shell) {
        foreground.end();
    }
    let (end, hint) = if is_shell {
        ("the command was ended", "jobs that it had started")
    } else {
        ("nobody can tell how the job ends", "the job")
    };
    message::error(&Error::Failed {
        text: format!("the supervisor of this command was killed; {end}"),
        hint: Some(format!(
            "{hint} may still run without a supervisor: agent-sh ps"
        )),
    })
}

struct Foreground {
    /// How the supervisor's address begins in an environment.
    marker: Vec<u8>,
    /// What we carry ourselves of an outer job: it marks no job below us.
    outer_job: Option<Vec<u8>>,
    since: u64,
    /// The shell's session.
    session: Option<i32>,
    /// Jobs that the store knows: a forked subshell carries no mark of its own.
    jobs: Vec<Who>,
    /// What had left the shell's tree before: to be a job at the end of the call. Spared like jobs.
    strays: Vec<Who>,
    targets: Vec<Who>,
}

impl Foreground {
    /// `None` without a `/proc` to tell by: nobody is signalled on a guess.
    fn find(supervisor: i32, shell: Option<i32>) -> Option<Self> {
        let variable = |name: &str, value: &str| format!("{name}={value}").into_bytes();
        let outer = std::env::var(JOB_VARIABLE).ok();
        let settings = config::settings(&Ourselves::find());
        let stores = Store::readers(&settings, |name| std::env::var_os(name));
        let jobs = store::all_jobs(&stores).unwrap_or_default();
        let mut found = Self {
            marker: variable(SUPERVISOR_VARIABLE, &format!("{supervisor}.")),
            outer_job: outer.map(|id| variable(JOB_VARIABLE, &id)),
            since: proc::starttime(session::pid())?,
            session: None,
            jobs: jobs
                .iter()
                .map(|job| (job.launch.facts.proc.pid, job.launch.facts.proc.starttime))
                .collect(),
            strays: Vec::new(),
            targets: Vec::new(),
        };
        let table = proc::table();
        let ours: Vec<Stat> = table
            .iter()
            .filter(|stat| found.is_ours(stat))
            .copied()
            .collect();
        // Before the shell was announced there is nothing but it and what it has just forked.
        let shell_stat = ours.iter().find(|stat| Some(stat.pid) == shell);
        found.session = shell_stat.map(|stat| stat.sid);
        let roots: Vec<i32> = match shell {
            Some(_) => shell_stat.map(|stat| stat.pid).into_iter().collect(),
            None => ours.iter().map(|stat| stat.pid).collect(),
        };
        found.add(&table, &roots);
        let strays = ours
            .iter()
            .map(who)
            .filter(|who| !found.targets.contains(who));
        found.strays = strays.collect();
        Some(found)
    }

    /// Whether a process came from our supervisor. One of an earlier supervisor with the same pid is
    /// older than we are.
    fn is_ours(&self, stat: &Stat) -> bool {
        let carries = |entry: &[u8]| entry.starts_with(&self.marker);
        stat.starttime >= self.since && !stat.is_dead() && proc::environment(stat.pid, carries)
    }

    fn is_job(&self, stat: &Stat) -> bool {
        let name = format!("{JOB_VARIABLE}=").into_bytes();
        let carries =
            |entry: &[u8]| entry.starts_with(&name) && self.outer_job.as_deref() != Some(entry);
        self.jobs.contains(&who(stat)) || proc::environment(stat.pid, carries)
    }

    /// Adds the trees below `roots`, jobs and theirs left out.
    fn add(&mut self, table: &[Stat], roots: &[i32]) -> Vec<Who> {
        let mut new = Vec::new();
        let mut spared: Vec<i32> = Vec::new();
        for root in roots {
            for stat in proc::tree_in(table, *root) {
                if spared.contains(&stat.ppid) && stat.pid != *root || self.is_job(&stat) {
                    // Parents come first.
                    spared.push(stat.pid);
                } else if !self.targets.contains(&who(&stat)) {
                    self.targets.push(who(&stat));
                    new.push(who(&stat));
                }
            }
        }
        new
    }

    /// Looks again: what targets have forked, and what was forked and lost its parent in between (it is
    /// still in the shell's session, and was no stray before). Gives the newcomers and whether any of
    /// all of them lives.
    fn look(&mut self) -> (Vec<Who>, bool) {
        let table = proc::table();
        let live = |&(pid, starttime): &Who| {
            let same = |stat: &&Stat| stat.pid == pid && stat.starttime == starttime;
            table.iter().find(same).is_some_and(|stat| !stat.is_dead())
        };
        let mut roots: Vec<i32> = self
            .targets
            .iter()
            .filter(|who| live(who))
            .map(|who| who.0)
            .collect();
        let in_session = |stat: &&Stat| {
            Some(stat.sid) == self.session
                && !self.strays.contains(&who(stat))
                && self.is_ours(stat)
        };
        roots.extend(table.iter().filter(in_session).map(|stat| stat.pid));
        let new = self.add(&table, &roots);
        let any = self.targets.iter().any(live);
        (new, any)
    }

    fn end(&mut self) {
        send(&self.targets, libc::SIGTERM);
        let deadline = clock::boottime() + GRACE;
        while clock::boottime() < deadline {
            let (new, any) = self.look();
            if !any {
                return;
            }
            send(&new, libc::SIGTERM);
            // One that was stopped has to wake up to die.
            send(&self.targets, libc::SIGCONT);
            drop(fds::wait_readable(&[], PAUSE_MS));
        }
        for _ in 0..ROUNDS {
            // KILL must not race a process that forks on: stop all of them first.
            send(&self.targets, libc::SIGSTOP);
            self.look();
            send(&self.targets, libc::SIGKILL);
            if !self.look().1 {
                return;
            }
            drop(fds::wait_readable(&[], PAUSE_MS));
        }
    }
}

fn who(stat: &Stat) -> Who {
    (stat.pid, stat.starttime)
}

fn send(targets: &[Who], number: i32) {
    for &(pid, starttime) in targets {
        if pid != session::pid()
            && let Ok(pidfd) = proc::pidfd_open_checked(pid, starttime)
        {
            drop(proc::pidfd_send_signal(&pidfd, number));
        }
    }
}

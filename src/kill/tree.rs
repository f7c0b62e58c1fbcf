//! The processes of one job: found by session, group, parents and marks, signalled through pidfds.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::{Error, Result};
use crate::kill::home::Home;
use crate::kill::{AFTER_KILL, Wish};
use crate::store::JobView;
use crate::sys::proc;
use crate::sys::signal::ENDING;

/// What of a process decides whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) ppid: i32,
    pub(super) pgid: i32,
    pub(super) sid: i32,
    pub(super) starttime: u64,
}

/// The processes of one job.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(super) leader: (i32, u64),
    /// The leader began a session, or a group: all in it belong to the job.
    pub(super) has_session: bool,
    pub(super) has_group: bool,
    /// Each process once seen in the tree. Its children are found also when the leader is gone.
    pub(super) known: HashMap<i32, u64>,
    /// Never signalled, whatever the table says.
    pub(super) spared: [i32; 2],
    /// `None` in tests.
    pub(super) home: Option<Home>,
}

impl Tree {
    pub(crate) fn of(job: &JobView) -> Result<Self> {
        let identity = &job.launch.facts.proc;
        let here = (proc::boot_id(), proc::pidns(), proc::timens());
        if (identity.boot_id.as_str(), identity.pidns, identity.timens) != here {
            return Err(Error::Failed {
                text: format!(
                    "cannot reach job '{}': it runs in another container or namespace",
                    job.launch.id
                ),
                hint: Some("run this where the job was started".to_owned()),
            });
        }
        let leader = proc::stat(identity.pid)
            .filter(|stat| identity.pid > 1 && stat.starttime == identity.starttime);
        Ok(Self {
            leader: (identity.pid, identity.starttime),
            has_session: leader.is_some_and(|stat| stat.sid == stat.pid),
            has_group: leader.is_some_and(|stat| stat.pgid == stat.pid),
            known: leader
                .map(|stat| (stat.pid, stat.starttime))
                .into_iter()
                .collect(),
            spared: [std::process::id() as i32, job.launch.supervisor.pid],
            home: Some(Home::of(job)),
        })
    }

    /// Who of the tree lives in this look at the system; remembers them.
    pub(super) fn living(&mut self, table: &[Process]) -> Vec<Process> {
        let (pid, starttime) = self.leader;
        // Somebody else with the leader's pid: its session and group are his then.
        let reused = table
            .iter()
            .any(|p| p.pid == pid && p.starttime != starttime);
        let belongs = |p: &Process| {
            self.known.get(&p.pid) == Some(&p.starttime)
                || !reused && self.has_session && p.sid == pid
                || !reused && self.has_group && p.pgid == pid
        };
        let may = |p: &Process| p.pid > 1 && !self.spared.contains(&p.pid);
        let mut inside: HashSet<i32> = table
            .iter()
            .filter(|p| belongs(p) && may(p))
            .map(|p| p.pid)
            .collect();
        let mut size = 0;
        while inside.len() > size {
            size = inside.len();
            let below = table.iter().filter(|p| may(p) && inside.contains(&p.ppid));
            let below: Vec<i32> = below.map(|p| p.pid).collect();
            inside.extend(below);
        }
        let living: Vec<Process> = table
            .iter()
            .filter(|p| inside.contains(&p.pid))
            .copied()
            .collect();
        self.known
            .extend(living.iter().map(|p| (p.pid, p.starttime)));
        living
    }

    /// Who of it lives now.
    pub(crate) fn pids(&mut self) -> Vec<i32> {
        self.look().into_iter().map(|process| process.pid).collect()
    }

    fn look(&mut self) -> Vec<Process> {
        let stats = proc::table();
        let table: Vec<Process> = stats
            .iter()
            .filter(|stat| !stat.is_dead())
            .map(|stat| Process {
                pid: stat.pid,
                ppid: stat.ppid,
                pgid: stat.pgid,
                sid: stat.sid,
                starttime: stat.starttime,
            })
            .collect();
        let living = self.living(&table);
        let Some(home) = &mut self.home else {
            return living;
        };
        let known = |(pid, starttime)| self.known.get(&pid) == Some(&starttime);
        let daemons = home.new_daemons(&stats, known);
        if daemons.is_empty() {
            return living;
        }
        self.known.extend(daemons);
        self.living(&table)
    }

    /// The signal, and KILL for whoever is left when the grace is over. Gives those that would not go,
    /// and the first refusal.
    pub(super) fn end_all(&mut self, wish: &Wish<'_>) -> (Vec<i32>, Option<io::Error>) {
        let force = wish.signal == libc::SIGKILL;
        if !force && self.end_with(wish.signal, wish.grace).0.is_empty() {
            return (Vec::new(), None);
        }
        self.end_with(libc::SIGKILL, AFTER_KILL)
    }

    /// Signals all that live and were not in `sent` yet; gives the first refusal. `time`: how long their
    /// end may take, which is said before; `None`: the signal only may end them, and nothing follows it.
    pub(super) fn signal_new(
        &mut self,
        signal: i32,
        time: Option<Duration>,
        sent: &mut Vec<(Process, OwnedFd)>,
    ) -> Option<io::Error> {
        let mut refused = None;
        let mut new = self.look();
        new.retain(|process| !sent.iter().any(|(before, _)| before == process));
        if let (Some(home), Some(time)) = (&self.home, time) {
            home.announce(new.iter().map(|p| (p.pid, p.starttime)).collect(), time);
        }
        for process in new {
            // One that ended meanwhile is no failure.
            let Ok(pidfd) = proc::pidfd_open_checked(process.pid, process.starttime) else {
                continue;
            };
            match proc::pidfd_send_signal(&pidfd, signal) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                Err(error) => refused = refused.or(Some(error)),
            }
            // A stopped process acts on a signal only when it goes on.
            if ENDING.contains(&signal) && signal != libc::SIGKILL {
                proc::pidfd_send_signal(&pidfd, libc::SIGCONT).ok();
            }
            sent.push((process, pidfd));
        }
        refused
    }

    /// Signals until nobody is left or the time is over. Gives those left, and the first refusal.
    fn end_with(&mut self, signal: i32, time: Duration) -> (Vec<i32>, Option<io::Error>) {
        let deadline = Instant::now() + time;
        let mut sent = Vec::new();
        let mut refused = None;
        loop {
            // KILL follows, and only when the kernel holds somebody it needs all of its time.
            let error = self.signal_new(signal, Some(time + AFTER_KILL), &mut sent);
            refused = refused.or(error);
            sent.retain(|(_, pidfd)| is_alive(pidfd));
            if sent.is_empty() {
                // Whoever was born since the look is found by another one.
                let left: Vec<i32> = self.look().iter().map(|p| p.pid).collect();
                if left.is_empty() || Instant::now() >= deadline {
                    return (left, refused);
                }
                continue;
            }
            // KILL must also meet those who are born while the others die.
            let patience = if signal == libc::SIGKILL {
                deadline.min(Instant::now() + Duration::from_millis(50))
            } else {
                deadline
            };
            wait_for_one(&sent, patience);
            if Instant::now() >= deadline {
                return (self.look().iter().map(|p| p.pid).collect(), refused);
            }
        }
    }
}

fn is_alive(pidfd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
    matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0) | Err(Errno::EINTR))
}

/// Blocks until one of them ends, or the deadline.
fn wait_for_one(sent: &[(Process, OwnedFd)], deadline: Instant) {
    let mut fds: Vec<PollFd> = sent
        .iter()
        .map(|(_, pidfd)| PollFd::new(pidfd.as_fd(), PollFlags::POLLIN))
        .collect();
    let left = deadline.saturating_duration_since(Instant::now());
    let ms = i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX);
    // An interrupted wait is a short one: the caller looks again.
    poll(
        &mut fds,
        PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX),
    )
    .ok();
}

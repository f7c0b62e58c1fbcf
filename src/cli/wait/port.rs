//! Whether a job listens on a port.
//!
//! The kernel tells nobody when a socket begins to listen, so this is the one thing that has to be
//! looked at again and again: first who listens in the job's network, which is one question, and the
//! descriptors of its processes only when somebody does.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::kill::Tree;
use crate::store::JobView;
use crate::sys::listen;

/// How often to look; less often where a look takes long.
const EVERY: Duration = Duration::from_millis(10);
const MOST: Duration = Duration::from_millis(60);
/// How often to look for processes in networks of their own, and for who listens if it is not the job.
const THOROUGHLY: Duration = Duration::from_millis(200);

pub(super) struct Port {
    number: u16,
    tree: Tree,
    /// Processes in whose networks to look, one for each.
    networks: Vec<i32>,
    looked: Option<Instant>,
    /// What a look costs, to keep it a small part of the time.
    cost: Duration,
    due: Instant,
    /// Sockets that listen there and are not the job's.
    foreign: HashSet<u64>,
}

impl Port {
    pub(super) fn new(job: &JobView, number: u16) -> Result<Self> {
        Ok(Self {
            number,
            tree: Tree::of(job)?,
            networks: vec![job.launch.facts.proc.pid],
            looked: None,
            cost: Duration::ZERO,
            due: Instant::now(),
            foreign: HashSet::new(),
        })
    }

    /// When to look again.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Whether a process of the job listens there now.
    pub(super) fn is_open(&mut self) -> bool {
        let now = Instant::now();
        if now < self.due {
            return false;
        }
        let thorough = self.looked.is_none_or(|last| last.elapsed() >= THOROUGHLY);
        let open = self.look(thorough);
        if !thorough {
            self.cost = now.elapsed();
        }
        self.due = Instant::now() + EVERY.max(3 * self.cost).min(MOST);
        open
    }

    fn look(&mut self, thorough: bool) -> bool {
        let mut pids = None;
        if thorough {
            self.looked = Some(Instant::now());
            // A socket may have been handed over since.
            self.foreign.clear();
            let all = self.tree.pids();
            self.networks = one_of_each_network(&all);
            pids = Some(all);
        }
        let sockets = self.networks.iter();
        let listening: HashSet<u64> = sockets
            .flat_map(|&pid| listen::sockets(pid, self.number))
            .filter(|inode| !self.foreign.contains(inode))
            .collect();
        if listening.is_empty() {
            return false;
        }
        let pids = pids.unwrap_or_else(|| self.tree.pids());
        if pids.iter().any(|&pid| holds_one(pid, &listening)) {
            return true;
        }
        self.foreign.extend(listening);
        false
    }
}

fn one_of_each_network(pids: &[i32]) -> Vec<i32> {
    let mut seen = HashSet::new();
    let network = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let first = |pid: &&i32| seen.insert(network(pid));
    pids.iter().filter(first).copied().collect()
}

fn holds_one(pid: i32, sockets: &HashSet<u64>) -> bool {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    descriptors.flatten().any(|descriptor| {
        let target = std::fs::read_link(descriptor.path()).ok();
        let inode = target.as_deref().and_then(inode_of);
        inode.is_some_and(|inode| sockets.contains(&inode))
    })
}

/// `socket:[12345]`
fn inode_of(target: &Path) -> Option<u64> {
    let text = target.to_str()?.strip_prefix("socket:[")?;
    text.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_that_are_sockets() {
        assert_eq!(inode_of(Path::new("socket:[42]")), Some(42));
        assert_eq!(inode_of(Path::new("pipe:[42]")), None);
    }
}

//! Whether a job listens on a port.
//!
//! The kernel tells nobody when a socket begins to listen, so this is the one thing that has to be
//! looked at again and again: the table of the job's network first, which is one read, and the
//! descriptors of its processes only when somebody listens there.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::store::JobView;
use crate::verbs::kill::Tree;

/// How often to look.
pub(super) const EVERY: Duration = Duration::from_millis(15);
/// How often to look for processes in networks of their own, and for who listens if it is not the job.
const THOROUGHLY: Duration = Duration::from_millis(200);
const LISTENS: &str = "0A";

pub(super) struct Port {
    number: u16,
    tree: Tree,
    /// Processes in whose networks to look, one for each.
    networks: Vec<i32>,
    looked: Option<Instant>,
    /// Sockets that listen there and are not the job's.
    foreign: HashSet<u64>,
}

impl Port {
    pub(super) fn new(job: &JobView, number: u16) -> Result<Self> {
        Ok(Self {
            number,
            tree: Tree::of(job)?,
            networks: vec![job.launch.proc.pid],
            looked: None,
            foreign: HashSet::new(),
        })
    }

    /// Whether a process of the job listens there now.
    pub(super) fn is_open(&mut self) -> bool {
        let due = self.looked.is_none_or(|last| last.elapsed() >= THOROUGHLY);
        let mut pids = None;
        if due {
            self.looked = Some(Instant::now());
            // A socket may have been handed over since.
            self.foreign.clear();
            let all = self.tree.pids();
            self.networks = one_of_each_network(&all);
            pids = Some(all);
        }
        let tables = self.networks.iter().flat_map(|pid| {
            ["tcp", "tcp6"].map(|table| std::fs::read_to_string(format!("/proc/{pid}/net/{table}")))
        });
        let listening: HashSet<u64> = tables
            .flatten()
            .flat_map(|table| listeners(&table, self.number))
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

/// The inodes of the sockets that listen on the port, from `/proc/net/tcp` or `tcp6`.
fn listeners(table: &str, port: u16) -> Vec<u64> {
    let wanted = format!("{port:04X}");
    let rows = table.lines().skip(1).filter_map(|row| {
        let mut words = row.split_whitespace();
        let local = words.nth(1)?;
        let state = words.nth(1)?;
        let inode = words.nth(5)?;
        let here = state == LISTENS && local.rsplit_once(':')?.1 == wanted;
        here.then(|| inode.parse().ok())?
    });
    rows.collect()
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
    fn the_table_of_the_kernel() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000   114        0 20461 1 0 100 0 0 10 0
   1: 0100007F:0CEA 0100007F:8E22 01 00000000:00000000 00:00000000 00000000   114        0 20462 1 0 100 0 0 10 0
   2: 00000000000000000000000000000000:0CEA 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1 0 100 0 0 10 0
";
        assert_eq!(listeners(table, 3306), [20461, 777]);
        assert_eq!(listeners(table, 3307), [] as [u64; 0]);
        assert_eq!(listeners("", 3306), [] as [u64; 0]);
        assert_eq!(inode_of(Path::new("socket:[42]")), Some(42));
        assert_eq!(inode_of(Path::new("pipe:[42]")), None);
    }
}

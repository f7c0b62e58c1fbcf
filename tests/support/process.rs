//! Looking at processes through `/proc`, and killing them the ways the harnesses do.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::holds_within;

/// A process that cannot be mistaken for a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: i32,
    start: u64,
}

impl Identity {
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let (_, _, start) = stat(pid)?;
        Some(Self { pid, start })
    }

    /// Whether it still runs; a zombie does not.
    pub(crate) fn lives(self) -> bool {
        stat(self.pid).is_some_and(|(state, _, start)| start == self.start && state != b'Z')
    }
}

/// State, parent and start time of a process.
fn stat(pid: i32) -> Option<(u8, i32, u64)> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold spaces and parentheses; the last one closes it.
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(text.get(end + 2..)?).ok()?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some((
        *fields.first()?.as_bytes().first()?,
        fields.get(1)?.parse().ok()?,
        fields.get(19)?.parse().ok()?,
    ))
}

pub(crate) fn parent_of(pid: i32) -> Option<i32> {
    stat(pid).map(|(_, parent, _)| parent)
}

pub(super) fn all_pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// Sends a signal by pid; one that has gone meanwhile is no failure.
pub(crate) fn signal(pid: i32, signal: Signal) {
    assert!(pid > 1, "never signal pid {pid}");
    let _gone = kill(Pid::from_raw(pid), signal);
}

/// Kills the process group that `pid` leads.
pub(crate) fn group_kill(pid: i32) {
    assert!(pid > 1, "never signal group {pid}");
    let _gone = killpg(Pid::from_raw(pid), Signal::SIGKILL);
}

/// `root` and everything below it by parent, as `ps -A -o pid,ppid` shows it at this moment.
pub(crate) fn tree(root: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in all_pids() {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.get(pid).into_iter().flatten());
        next += 1;
    }
    found
}

/// Kills a tree as Claude Code and Gemini do: TERM to every descendant by pid and to the group, then
/// KILL to what the tree has become.
pub(crate) fn tree_kill(root: i32) {
    let before = tree(root);
    let _gone = killpg(Pid::from_raw(root), Signal::SIGTERM);
    for &pid in before.iter().rev() {
        signal(pid, Signal::SIGTERM);
    }
    let mut after = tree(root);
    after.extend(before);
    group_kill(root);
    for pid in after {
        signal(pid, Signal::SIGKILL);
    }
}

/// Whether process `pid` was started within the sandbox at `root`: it carries the sandbox's path in its
/// environment, works in it or holds a file of it open. Our own process and what it has only forked so
/// far do not count.
fn belongs_to(pid: i32, root: &Path) -> bool {
    let base = format!("/proc/{pid}");
    let exe = fs::read_link(format!("{base}/exe"));
    if pid == i32::try_from(std::process::id()).unwrap() || stat(pid).is_none_or(|s| s.0 == b'Z') {
        return false;
    }
    if exe.is_ok_and(|path| std::env::current_exe().is_ok_and(|own| own == path)) {
        return false;
    }
    let environ = fs::read(format!("{base}/environ")).unwrap_or_default();
    let root_bytes = root.to_str().unwrap().as_bytes();
    if environ
        .windows(root_bytes.len())
        .any(|window| window == root_bytes)
    {
        return true;
    }
    let links = fs::read_dir(format!("{base}/fd")).into_iter().flatten();
    links
        .flatten()
        .map(|entry| entry.path())
        .chain([format!("{base}/cwd").into()])
        .any(|link| fs::read_link(link).is_ok_and(|target| target.starts_with(root)))
}

/// The processes of a sandbox, each with its command line.
pub(super) fn survivors(root: &Path) -> Vec<(Identity, String)> {
    let pids = all_pids().into_iter();
    pids.filter(|&pid| belongs_to(pid, root))
        .filter_map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            Some((Identity::of(pid)?, line))
        })
        .collect()
}

/// Kills by pid whatever a sandbox left behind.
pub(super) fn sweep(root: &Path) {
    holds_within(std::time::Duration::from_secs(5), || {
        let left = survivors(root);
        for (identity, _) in &left {
            if identity.lives() {
                signal(identity.pid, Signal::SIGKILL);
            }
        }
        left.is_empty()
    });
}

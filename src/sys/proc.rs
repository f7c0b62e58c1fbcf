//! What the kernel says of a process, and handles on it.
//!
//! A pid alone is nobody: (boot, pid namespace, pid, start time) is a process. `/proc/PID/stat` is
//! read into a buffer on the stack, for these calls are on the way of every `cmd &`.

mod pidfd;
mod signals;

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;
use std::time::Duration;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

pub(crate) use pidfd::{
    pidfd_exit_status, pidfd_open, pidfd_open_checked, pidfd_send_signal, pidfd_wait,
};
pub(crate) use signals::{blocks, is_dying};

/// The lines of `/proc/PID/stat` that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub pid: i32,
    name: [u8; 16],
    /// `R S D T t Z X I`, as the kernel writes it.
    pub state: u8,
    pub ppid: i32,
    pub pgid: i32,
    pub sid: i32,
    /// Ticks since boot, as this time namespace counts them.
    pub starttime: u64,
    /// Its end has begun, and it will run no more code of its own (PF_EXITING).
    exiting: bool,
    /// The wait status of a zombie. The kernel writes 0 for one that we may not inspect:
    /// only `zombie_status` says whether it can be believed.
    exit_code: i32,
}

impl Stat {
    /// The name of the program, at most 15 bytes.
    #[must_use]
    pub(crate) fn comm(&self) -> &[u8] {
        let end = self.name.iter().position(|&byte| byte == 0);
        &self.name[..end.unwrap_or(self.name.len())]
    }

    /// Ended, though its parent may not have asked yet.
    #[must_use]
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// Whether `/proc` is there and counts processes as we do. That of another pid namespace knows us by
/// another number, and under our numbers it shows strangers: nothing of it is believed.
#[must_use]
pub(crate) fn is_ours() -> bool {
    static OURS: OnceLock<bool> = OnceLock::new();
    *OURS.get_or_init(|| {
        let own = std::fs::read_link("/proc/self").ok();
        let own = own.as_ref().and_then(|path| path.to_str()?.parse().ok());
        own == Some(super::session::pid())
    })
}

/// The path of something below the directory of a process, if `/proc` can be believed.
fn path(pid: i32, name: &str) -> Option<String> {
    is_ours().then(|| format!("/proc/{pid}/{name}"))
}

/// Where a link of a process leads: `cwd`, `fd/1`.
#[must_use]
pub(crate) fn link(pid: i32, name: &str) -> Option<std::path::PathBuf> {
    std::fs::read_link(path(pid, name)?).ok()
}

/// Asks for one process. `None`: there is none, or `/proc` hides it.
#[must_use]
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    if !is_ours() {
        return None;
    }
    let mut path = [0u8; 32];
    let path = stat_path(pid, &mut path)?;
    let fd = open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
    // The name is at most 64 bytes, and each of the 52 fields at most 20. The kernel writes the line
    // in one piece, so that one read has it all.
    let mut buffer = [0u8; 1536];
    let filled = nix::unistd::read(&fd, &mut buffer).ok()?;
    parse_stat(&buffer[..filled])
}

fn stat_path(pid: i32, buffer: &mut [u8; 32]) -> Option<&std::ffi::CStr> {
    use std::io::Write;
    let mut rest = &mut buffer[..];
    write!(rest, "/proc/{pid}/stat\0").ok()?;
    std::ffi::CStr::from_bytes_until_nul(buffer).ok()
}

/// The name in parentheses may hold anything, also `) R 1`: the last `)` ends it.
fn parse_stat(line: &[u8]) -> Option<Stat> {
    let open = line.iter().position(|&byte| byte == b'(')?;
    let close = line.iter().rposition(|&byte| byte == b')')?;
    let pid = number(line.get(..open)?.trim_ascii())?;
    let mut name = [0u8; 16];
    for (to, from) in name.iter_mut().zip(line.get(open + 1..close)?) {
        *to = *from;
    }
    let mut fields = line
        .get(close + 1..)?
        .split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty());
    let state = *fields.next()?.first()?;
    let ppid = number(fields.next()?)?;
    let pgid = number(fields.next()?)?;
    let sid = number(fields.next()?)?;
    // Field 7 is next; the flags are field 9, the start time field 22, the exit code field 52.
    let flags: u64 = number(fields.nth(2)?)?;
    let starttime = number(fields.nth(12)?)?;
    let exit_code = fields.nth(29).and_then(number).unwrap_or(0);
    Some(Stat {
        pid,
        name,
        state,
        ppid,
        pgid,
        sid,
        starttime,
        exiting: flags & PF_EXITING != 0,
        exit_code,
    })
}

/// `include/linux/sched.h`, the same on every machine.
const PF_EXITING: u64 = 4;

fn number<T: std::str::FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[must_use]
pub(crate) fn starttime(pid: i32) -> Option<u64> {
    stat(pid).map(|stat| stat.starttime)
}

/// A start time as a moment of the clock that counts from boot, to a hundredth of a second.
#[must_use]
pub(crate) fn since_boot(starttime: u64) -> Option<Duration> {
    // SAFETY: takes a number; -1 means that it does not know.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let ticks = u64::try_from(ticks).ok().filter(|ticks| *ticks > 0)?;
    Some(Duration::from_millis(
        starttime.saturating_mul(1000) / ticks,
    ))
}

/// How long ago the process started, to a hundredth of a second.
#[must_use]
pub(crate) fn age(stat: &Stat) -> Option<Duration> {
    let started = since_boot(stat.starttime)?;
    Some(super::clock::boottime().saturating_sub(started))
}

/// The state letter.
#[must_use]
pub(crate) fn state(pid: i32) -> Option<u8> {
    stat(pid).map(|stat| stat.state)
}

#[must_use]
pub(crate) fn ppid(pid: i32) -> Option<i32> {
    stat(pid).map(|stat| stat.ppid)
}

/// The wait status of a zombie that is not our child.
///
/// Where ptrace-like access is denied the kernel prints 0 instead of the status (do_task_stat). The
/// link `ns/pid` needs the same access, so reading it proves that a 0 is a real one.
#[must_use]
pub(crate) fn zombie_status(pid: i32, starttime: u64) -> Option<i32> {
    let found = stat(pid)?;
    if found.state != b'Z' || found.starttime != starttime {
        return None;
    }
    if found.exit_code == 0 && std::fs::read_link(format!("/proc/{pid}/ns/pid")).is_err() {
        return None;
    }
    Some(found.exit_code)
}

/// Every process that `/proc` shows: one look, for walks over trees.
#[must_use]
pub(crate) fn table() -> Vec<Stat> {
    if !is_ours() {
        return Vec::new();
    }
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(stat)
        .collect()
}

/// The direct children, of all threads. Falls back to a look at every process where the kernel was
/// built without CONFIG_PROC_CHILDREN.
#[must_use]
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let Some(Ok(threads)) = path(pid, "task").map(std::fs::read_dir) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for thread in threads.flatten() {
        match std::fs::read_to_string(thread.path().join("children")) {
            Ok(text) => found.extend(text.split_ascii_whitespace().flat_map(str::parse::<i32>)),
            // A thread that ended meanwhile has none; a missing file is another matter.
            Err(error) if error.kind() == io::ErrorKind::NotFound && thread.path().exists() => {
                return table()
                    .into_iter()
                    .filter_map(|stat| (stat.ppid == pid).then_some(stat.pid))
                    .collect();
            }
            Err(_) => {}
        }
    }
    found
}

/// The children of this process, which has one thread: a shorter way to the same list.
#[must_use]
pub(crate) fn own_children() -> Vec<i32> {
    match std::fs::File::open("/proc/thread-self/children") {
        Ok(mut file) => {
            let mut text = String::with_capacity(256);
            drop(file.read_to_string(&mut text));
            let pids = text.split_ascii_whitespace();
            pids.flat_map(str::parse::<i32>).collect()
        }
        Err(_) => children(std::process::id().cast_signed()),
    }
}

/// The process and all below it, parents first, from one look at the table.
#[must_use]
pub(crate) fn tree(root: i32) -> Vec<Stat> {
    tree_in(&table(), root)
}

/// The same in a look taken before.
#[must_use]
pub(crate) fn tree_in(table: &[Stat], root: i32) -> Vec<Stat> {
    let mut below: std::collections::HashMap<i32, Vec<&Stat>> = std::collections::HashMap::new();
    for stat in table {
        below.entry(stat.ppid).or_default().push(stat);
    }
    let mut found: Vec<Stat> = table.iter().filter(|s| s.pid == root).copied().collect();
    let mut parents = std::collections::VecDeque::from([root]);
    while let Some(parent) = parents.pop_front() {
        // Removing makes a loop in a torn look harmless.
        for stat in below.remove(&parent).unwrap_or_default() {
            if stat.pid != root {
                found.push(*stat);
                parents.push_back(stat.pid);
            }
        }
    }
    found
}

/// The name of the program, at most 15 bytes.
#[must_use]
pub(crate) fn comm(pid: i32) -> Option<String> {
    let name = std::fs::read(path(pid, "comm")?).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

#[must_use]
pub(crate) fn exe(pid: i32) -> Option<std::path::PathBuf> {
    link(pid, "exe")
}

/// Whether two processes run the same file, under whatever name.
#[must_use]
pub(crate) fn is_same_program(one: i32, other: i32) -> bool {
    let file = |pid| {
        let stat = nix::sys::stat::stat(path(pid, "exe")?.as_str()).ok()?;
        Some((stat.st_dev, stat.st_ino))
    };
    file(one).is_some_and(|one| file(other) == Some(one))
}

/// The inodes of the sockets that a process has open.
#[must_use]
pub(crate) fn sockets_of(pid: i32) -> Vec<u64> {
    let inode = |entry: std::fs::DirEntry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        let text = target.to_str()?.strip_prefix("socket:[")?;
        text.strip_suffix(']')?.parse().ok()
    };
    let entries = path(pid, "fd").and_then(|dir| std::fs::read_dir(dir).ok());
    let entries = entries.into_iter().flatten().flatten();
    entries.filter_map(inode).collect()
}

/// The arguments, as the process shows them.
#[must_use]
pub(crate) fn cmdline(pid: i32) -> Option<Vec<OsString>> {
    let mut bytes = Vec::with_capacity(8 * 1024);
    let file = std::fs::File::open(path(pid, "cmdline")?).ok()?;
    file.take(1 << 20).read_to_end(&mut bytes).ok()?;
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    if bytes.is_empty() {
        return None;
    }
    Some(
        bytes
            .split(|&byte| byte == 0)
            .map(|arg| OsString::from_vec(arg.to_vec()))
            .collect(),
    )
}

/// Names and values of the environment that a process started with. None where it cannot be read.
pub(crate) fn for_each_variable(pid: i32, mut each: impl FnMut(&[u8], &[u8])) {
    let bytes = path(pid, "environ").and_then(|path| std::fs::read(path).ok());
    for entry in bytes.unwrap_or_default().split(|&byte| byte == 0) {
        if let Some(at) = memchr::memchr(b'=', entry) {
            each(&entry[..at], &entry[at + 1..]);
        }
    }
}

/// Whether the environment that a process started with has an entry of which `wanted` holds.
#[must_use]
pub(crate) fn environment(pid: i32, wanted: impl Fn(&[u8]) -> bool) -> bool {
    path(pid, "environ")
        .and_then(|path| std::fs::read(path).ok())
        .is_some_and(|bytes| bytes.split(|&byte| byte == 0).any(wanted))
}

fn namespace(path: &str) -> u64 {
    nix::sys::stat::stat(path).map_or(0, |stat| stat.st_ino)
}

/// The inode of our pid namespace; 0 where `/proc` does not say.
#[must_use]
pub(crate) fn pidns() -> u64 {
    static OURS: OnceLock<u64> = OnceLock::new();
    *OURS.get_or_init(|| namespace("/proc/self/ns/pid"))
}

/// The inode of our time namespace; 0 where there is none.
#[must_use]
pub(crate) fn timens() -> u64 {
    static OURS: OnceLock<u64> = OnceLock::new();
    *OURS.get_or_init(|| namespace("/proc/self/ns/time"))
}

/// The inode of another process's pid namespace.
#[must_use]
pub(crate) fn pidns_of(pid: i32) -> Option<u64> {
    nix::sys::stat::stat(path(pid, "ns/pid")?.as_str())
        .ok()
        .map(|stat| stat.st_ino)
}

/// The inode of the first pid namespace, the same on every Linux (PROC_PID_INIT_INO).
pub(crate) const FIRST_PIDNS: u64 = 0xEFFF_FFFC;

/// Names this boot of the kernel; empty where `/proc` does not say.
#[must_use]
pub(crate) fn boot_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| read_line("/proc/sys/kernel/random/boot_id").unwrap_or_default())
}

/// Names this machine without giving its id away: a hash of `/etc/machine-id`, or empty.
#[must_use]
pub(crate) fn machine() -> &'static str {
    use sha2::Digest;
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| {
        let Some(id) = read_line("/etc/machine-id") else {
            return String::new();
        };
        let hash = sha2::Sha256::digest(format!("agent-sh:{id}"));
        hash.iter().take(8).fold(String::new(), |mut hex, byte| {
            use std::fmt::Write;
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    })
}

fn read_line(path: &str) -> Option<String> {
    let mut buffer = [0u8; 128];
    let mut file = std::fs::File::open(path).ok()?;
    let read = file.read(&mut buffer).ok()?;
    let text = std::str::from_utf8(&buffer[..read]).ok()?.trim();
    (!text.is_empty() && text != "uninitialized").then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_forge_fields() {
        let tail = format!("1 2 3 0 -1{} 777{} 10752", " 0".repeat(13), " 0".repeat(29));
        for name in ["sh", ") R 9", "a b", "((", ""] {
            let stat = parse_stat(format!("42 ({name}) Z {tail}\n").as_bytes()).unwrap();
            assert_eq!(
                (stat.pid, stat.state, stat.ppid, stat.pgid, stat.sid),
                (42, b'Z', 1, 2, 3),
                "{name}"
            );
            assert_eq!((stat.starttime, stat.exit_code), (777, 42 << 8), "{name}");
        }
        for broken in ["", "42", "42 (sh", "42 (sh)", "42 (sh) R 1 2"] {
            assert_eq!(parse_stat(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn our_own_facts() {
        let me = std::process::id() as i32;
        let stat = stat(me).unwrap();
        assert_eq!(stat.pid, me);
        assert_eq!(stat.ppid, std::os::unix::process::parent_id() as i32);
        assert!(stat.starttime > 0 && !stat.is_dead() && !is_dying(&stat));
        assert_eq!(boot_id().len(), 36);
        assert_eq!(pidns_of(me), Some(pidns()));
        assert!(tree(me).iter().any(|found| found.pid == me));
        assert!(table().len() > 1);
        assert!(is_ours());
    }
}

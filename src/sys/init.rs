//! What a process needs that stands at the root of a tree: taking every signal, passing signals on,
//! reaping whatever is handed to it, and holding nothing.

use std::io;
use std::time::Duration;

use super::process::{self, Change, ChangeKind};

/// Signals that the kernel sends for what the process itself did wrong. Blocked, they would make the
/// kernel kill it all the same.
const OWN_FAULTS: [i32; 7] = [
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGABRT,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Every signal that can be passed on, blocked in this process and waited for.
pub(crate) struct AllSignals {
    set: libc::sigset_t,
}

impl AllSignals {
    /// Blocks them.
    #[must_use]
    pub(crate) fn block() -> Self {
        // SAFETY: an all-zero sigset_t is a valid value on Linux.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is live.
        unsafe { libc::sigfillset(&raw mut set) };
        for signal in OWN_FAULTS {
            // SAFETY: `set` is live.
            unsafe { libc::sigdelset(&raw mut set, signal) };
        }
        // SAFETY: `set` is live; a null old set means "do not tell".
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) };
        Self { set }
    }

    /// The next signal, or `None` when `limit` is over or a handler ran.
    #[must_use]
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Option<i32> {
        let limit = limit.map(|limit| libc::timespec {
            tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the set is live, nobody wants the details, and the limit is live or null.
        let signal =
            unsafe { libc::sigtimedwait(&raw const self.set, std::ptr::null_mut(), limit) };
        (signal > 0).then_some(signal)
    }
}

/// The next child that has ended, reaped: its pid and wait status. `Err(ECHILD)`: there are none.
pub(crate) fn reap_next() -> io::Result<Option<(i32, i32)>> {
    let mut status = 0;
    // SAFETY: `status` is live.
    match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } {
        0 => Ok(None),
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Some((pid, status))),
    }
}

/// The signal that has stopped this child since it was last asked.
#[must_use]
pub(crate) fn stopped_by(pid: i32) -> Option<i32> {
    match process::take_stop_of(pid) {
        Some(Change {
            kind: ChangeKind::Stopped(signal),
            ..
        }) => Some(signal),
        _ => None,
    }
}

/// Sends `signal` to a child that was not reaped yet, or to the group that it leads.
pub(crate) fn pass_on(child: i32, signal: i32, group: bool) {
    if child <= 1 {
        return;
    }
    // SAFETY: plain numbers; the child is unreaped, so its number means it.
    let sent = unsafe { libc::kill(if group { -child } else { child }, signal) };
    if sent < 0 && group {
        // It has left the group that we gave it.
        // SAFETY: as above.
        unsafe { libc::kill(child, signal) };
    }
}

/// Sends `signal` to a process with a number, which its receiver reads beside it.
pub(crate) fn queue(pid: i32, signal: i32, value: i32) -> io::Result<()> {
    if pid <= 1 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let value = libc::sigval {
        sival_ptr: value.unsigned_abs() as usize as *mut libc::c_void,
    };
    // SAFETY: plain numbers; the pointer is never followed.
    if unsafe { libc::sigqueue(pid, signal, value) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Has the kernel send `signal` to this process when its parent dies.
pub(crate) fn signal_at_parents_death(signal: i32) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes an integer.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Gives back the memory of program code and constants that only the start needed. What is used again
/// is read again, from the page cache.
pub(crate) fn forget_start() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        return;
    };
    for (start, length) in unwritten(&maps) {
        // SAFETY: the range is mapped from the program file, and was never written to: what is dropped
        // is found there again.
        unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    }
}

/// The ranges of the program's own code and of the constants in front of it. Behind it stands what the
/// C library has written to before it made it read-only.
fn unwritten(maps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let program = maps.lines().next().and_then(|line| line.split('/').nth(1));
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (range, rights) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
        let ours = line.contains('/') && line.split('/').nth(1) == program;
        if !ours || !matches!(rights, "r--p" | "r-xp") {
            break;
        }
        let hex = |text: &str| usize::from_str_radix(text, 16).ok();
        let range = range.split_once('-');
        let range = range.and_then(|(start, end)| hex(start).zip(hex(end)));
        if let Some((start, end)) = range {
            found.push((start, end.saturating_sub(start)));
        }
        if rights == "r-xp" {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_never_written_is_given_back() {
        let program = "00200000-002e4000 r--p 00000000 fe:00 131 /bin/agent-sh\n\
                       002e4000-00ac8000 r-xp 000e3000 fe:00 131 /bin/agent-sh\n\
                       00ac8000-00b06000 r--p 008c6000 fe:00 131 /bin/agent-sh\n\
                       00b06000-00b0e000 rw-p 00903000 fe:00 131 /bin/agent-sh\n";
        let wanted = [(0x20_0000, 0xe_4000), (0x2e_4000, 0x7e_4000)];
        assert_eq!(unwritten(program), wanted);
        for other in [
            "",
            "nonsense",
            "00400000-00452000 rw-p 00000000 00:00 0\n",
            "7f-80 r-xp 0 0:0 0 [vdso]\n",
        ] {
            assert_eq!(unwritten(other), [], "{other}");
        }
    }
}

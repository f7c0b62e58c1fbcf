//! Handles on processes: to signal them, to wait for them, and to learn how they ended.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::stat;
use crate::sys::clock;

/// A handle on a process. It never means another one: signals through it cannot hit a stranger.
pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    if pid <= 0 {
        return Err(Errno::EINVAL.into());
    }
    // SAFETY: plain numbers; the kernel makes a new descriptor or fails.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: the call above just made this descriptor, and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// A handle on exactly this process: opened first, checked afterwards, so that a reused pid in
/// between is noticed.
pub(crate) fn pidfd_open_checked(pid: i32, starttime: u64) -> io::Result<OwnedFd> {
    let fd = pidfd_open(pid)?;
    match stat(pid) {
        Some(found) if found.starttime == starttime => Ok(fd),
        _ => Err(Errno::ESRCH.into()),
    }
}

pub(crate) fn pidfd_send_signal(pidfd: impl AsFd, signal: i32) -> io::Result<()> {
    let fd = pidfd.as_fd().as_raw_fd();
    let no_info: *const libc::siginfo_t = std::ptr::null();
    // SAFETY: the descriptor is borrowed and so open; a null siginfo asks the kernel to fill it in.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, no_info, 0) };
    Errno::result(result)?;
    Ok(())
}

/// `struct pidfd_info` of linux/pidfd.h, in its first size (PIDFD_INFO_SIZE_VER0, 64 bytes).
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    pid: u32,
    tgid: u32,
    ppid: u32,
    ids: [u32; 8],
    exit_code: i32,
}

const PIDFD_INFO_EXIT: u64 = 1 << 3;
/// `_IOWR(0xFF, 11, struct pidfd_info)`
const PIDFD_GET_INFO: u64 = 3 << 30 | (size_of::<PidfdInfo>() as u64) << 16 | 0xFF << 8 | 11;

/// The wait status of a process that was reaped by its parent, whoever that was (Linux 6.15).
/// `None`: it still runs or is a zombie, or the kernel cannot say.
#[must_use]
pub(crate) fn pidfd_exit_status(pidfd: impl AsFd) -> Option<i32> {
    let mut info = PidfdInfo {
        mask: PIDFD_INFO_EXIT,
        ..PidfdInfo::default()
    };
    let fd = pidfd.as_fd().as_raw_fd();
    // SAFETY: the request number carries the size of `PidfdInfo`, and `info` is a live one that the
    // kernel fills in.
    let result = unsafe { libc::ioctl(fd, PIDFD_GET_INFO as _, &raw mut info) };
    (result == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

/// Blocks until the process has ended. `false`: the time is over first.
pub(crate) fn pidfd_wait(pidfd: impl AsFd, timeout: Option<Duration>) -> io::Result<bool> {
    let deadline = timeout.map(|timeout| clock::boottime().saturating_add(timeout));
    loop {
        let left = match deadline {
            None => PollTimeout::NONE,
            Some(end) => {
                let left = end.saturating_sub(clock::boottime());
                // Rounded up, or the last millisecond would be spent spinning.
                let ms = left.as_micros().div_ceil(1000).min(i32::MAX as u128);
                PollTimeout::try_from(ms as i32).unwrap_or(PollTimeout::MAX)
            }
        };
        let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, left) {
            Ok(0) if deadline.is_some_and(|end| clock::boottime() >= end) => {
                return Ok(false);
            }
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::proc::{children, comm, starttime, zombie_status};
    use std::process::{Command, Stdio};

    #[test]
    fn the_status_of_a_process_by_every_road() {
        for (script, status) in [
            ("exit 42", 42 << 8),
            ("exit 0", 0),
            ("kill -9 $$", 9),
            ("kill -15 $$", 15),
        ] {
            let mut child = Command::new("sh")
                .args(["-c", &format!("read x; {script}")])
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            let pid = child.id() as i32;
            let start = starttime(pid).unwrap();
            let fd = pidfd_open_checked(pid, start).unwrap();
            assert!(pidfd_open_checked(pid, start + 1).is_err());
            assert!(!pidfd_wait(&fd, Some(Duration::ZERO)).unwrap());
            assert_eq!(pidfd_exit_status(&fd), None);
            assert_eq!(zombie_status(pid, start), None);
            assert!(children(std::process::id() as i32).contains(&pid));
            drop(child.stdin.take());
            assert!(pidfd_wait(&fd, None).unwrap());
            assert_eq!(zombie_status(pid, start), Some(status), "{script}");
            assert_eq!(zombie_status(pid, start + 1), None);
            child.wait().unwrap();
            match pidfd_exit_status(&fd) {
                Some(seen) => assert_eq!(seen, status, "{script}"),
                None => crate::skip::skipped_in_part("PIDFD_INFO_EXIT: not in this kernel"),
            }
            assert!(pidfd_send_signal(&fd, 0).is_err());
        }
    }

    #[test]
    fn a_signal_through_a_pidfd() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let fd = pidfd_open(child.id() as i32).unwrap();
        assert_eq!(
            comm(child.id() as i32).as_deref().map(|c| c.is_empty()),
            Some(false)
        );
        pidfd_send_signal(&fd, libc::SIGTERM).unwrap();
        assert!(pidfd_wait(&fd, None).unwrap());
        child.wait().unwrap();
        assert!(pidfd_open(-1).is_err() && pidfd_open(0).is_err());
    }
}

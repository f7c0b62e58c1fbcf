//! Starting a process that no walk down from here can ever have met.
//!
//! Harnesses end a call by reading the parents of all processes, noting everything below the one that
//! they started, and killing what they noted by pid, milliseconds later. A double fork alone is no
//! cure: while the process in the middle lives, its child is below us, and may be on such a list long
//! after it began to answer for somebody's work. So there is one more step:
//!
//! ```text
//! we ── middle ── starter      which waits until middle has ended, and has init for its parent;
//!                 starter ··· the process, a child of init from birth (CLONE_PARENT)
//! ```
//!
//! Middle and starter share our memory and all else that can be shared, and last for a few system
//! calls; only the process itself is a copy. We go on when both have let go.
//!
//! Any of them may be killed at any moment. The kernel writes the new pid to our memory as part of the
//! clone, so we always know whether the process exists: work must never be done twice because its
//! starter was killed at the wrong time. Until the starter is gone we touch nothing: what is copied
//! is our heap as we left it.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

use super::process::{self, Forked};
use super::{fds, pause, session};

/// How often the starter gives way to the middle process, and how often it looks again after that.
const YIELDS: u32 = 100;
const LOOKS: u32 = 1000;
const PAUSE_MS: i32 = 1;

/// A process that was started, and the two that started it, which have ended.
pub(crate) struct Detached {
    pub pid: i32,
    middle: i32,
    starter: i32,
}

impl Detached {
    /// Reaps the middle process, and where we are init the starter too.
    pub(crate) fn reap_starters(&self) {
        process::wait_for(self.middle);
        process::reap(self.starter);
    }
}

/// Runs `child`, which does not come back, in a copy of this process whose parent is init (or the
/// nearest subreaper above us). The session, group and name that it is born with are what the middle
/// process takes on in `prepare`. `started` gets its pid; it is 0 and of the kind that copies share, so
/// that writing it needs no new page. The caller is single-threaded.
pub(crate) fn spawn(
    prepare: impl Fn(),
    child: &mut impl FnMut(),
    started: &AtomicI32,
) -> io::Result<Detached> {
    let stack = Stack::new()?;
    // The page is there from now on.
    started.store(0, Ordering::Release);
    // The starter's pid while it shares our memory.
    let sharing = AtomicI32::new(0);
    let (middle_pid, starter_pid) = (Cell::new(0), Cell::new(0));
    let mut start = || {
        process::child_tell_end(&sharing);
        if child_outlive(middle_pid.get()) {
            pause::at(c"starter-orphaned");
            child_start(child, started);
        }
        0
    };
    let middle = process::spawn_sharing_all(&mut || {
        prepare();
        middle_pid.set(session::pid());
        pause::at(c"middle-started");
        // SAFETY: the stack is the starter's alone. What `start` refers to is in the frame of `spawn`,
        // which is not left while the starter shares it.
        let starter = unsafe { process::clone_noted(&mut start, stack.top(), &sharing) };
        starter_pid.set(starter.unwrap_or(0));
        pause::at(c"middle-ending");
        0
    })?;
    wait_for_zero(&sharing);
    let detached = Detached {
        pid: started.load(Ordering::Acquire),
        middle,
        starter: starter_pid.get(),
    };
    if detached.pid == 0 {
        detached.reap_starters();
        return Err(io::ErrorKind::WouldBlock.into());
    }
    // Giving it back takes longer than most commands can wait.
    std::mem::forget(stack);
    Ok(detached)
}

/// Where the starter runs and the process lives on: only touched pages cost anything. The lowest part
/// is a guard; running over it is a crash, not a corruption.
struct Stack(*mut libc::c_void);

const STACK: usize = 1024 * 1024;
const GUARD: usize = 64 * 1024;

impl Stack {
    fn new() -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping touches nothing that exists.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), STACK, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the beginning of the mapping that was just made and that nobody uses yet.
        unsafe { libc::mprotect(start, GUARD, libc::PROT_NONE) };
        Ok(Self(start))
    }

    fn top(&self) -> *mut u8 {
        // SAFETY: the end of the mapping, where a stack that grows down begins.
        unsafe { self.0.cast::<u8>().add(STACK) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody runs on it any more.
        unsafe { libc::munmap(self.0, STACK) };
    }
}

/// Waits until `parent`, which is about to end, has ended. False: somebody holds it.
fn child_outlive(parent: i32) -> bool {
    let gone = || session::parent_pid() != parent;
    let gives_way = |_| {
        process::give_way();
        gone()
    };
    let looks_again = |_| {
        drop(fds::wait_readable(&[], PAUSE_MS));
        gone()
    };
    gone() || (0..YIELDS).any(gives_way) || (0..LOOKS).any(looks_again)
}

/// Forks beside this process, not below it; `child` goes on in the copy.
fn child_start(child: &mut impl FnMut(), started: &AtomicI32) {
    let starter = session::pid();
    // Kernels that are not Linux itself may refuse the flag, or do without it (gVisor): then it is a
    // child of the starter, and waits for its end.
    let forked = process::child_fork_noted(libc::CLONE_PARENT, started)
        .or_else(|_| process::child_fork_noted(0, started));
    if matches!(forked, Ok(Forked::Child)) {
        child_outlive(starter);
        child();
    }
}

/// How long we sleep before we look whether the starter ended without a word.
const PATIENCE: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// Waits until the kernel has zeroed `word`, or the process is gone whose pid it holds: killed in its
/// first moments, or with a core dump, it leaves the word as it is.
fn wait_for_zero(word: &AtomicI32) {
    loop {
        let pid = word.load(Ordering::Acquire);
        if pid == 0 {
            return;
        }
        let (address, patience) = (word.as_ptr(), PATIENCE);
        let patience = &raw const patience;
        // Not a private futex: the kernel's own wake-up is not one. Why the call comes back does not
        // matter.
        // SAFETY: a live number and a live time.
        unsafe { libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAIT, pid, patience) };
        if word.load(Ordering::Acquire) == pid && is_gone(pid) {
            return;
        }
    }
}

/// Whether a process has ended, reaped or not; when in doubt it has not. Allocates nothing. (`errno` is
/// shared with the starter, whose own calls never set it to ESRCH.)
fn is_gone(pid: i32) -> bool {
    let nobody = || io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    // SAFETY: plain numbers.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if pidfd < 0 {
        // SAFETY: plain numbers; signal 0 only asks.
        return nobody() || unsafe { libc::kill(pid, 0) } != 0 && nobody();
    }
    let mut poll = libc::pollfd {
        fd: i32::try_from(pidfd).unwrap_or(-1),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live entry.
    let ended = unsafe { libc::poll(&raw mut poll, 1, 0) } == 1;
    // SAFETY: ours, and not used again.
    unsafe { libc::close(poll.fd) };
    ended
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn it_is_born_below_none_of_us() {
        let (from, to) = fds::pipe().unwrap();
        let fd = to.as_raw_fd();
        let mut child = || {
            process::child_write(fd, &session::parent_pid().to_le_bytes());
            process::exit_now(0);
        };
        let [started, _] = process::shared_numbers().unwrap();
        for _ in 0..100 {
            let detached = spawn(|| (), &mut child, started).unwrap();
            let mut parent = [0; 4];
            assert_eq!(nix::unistd::read(&from, &mut parent).unwrap(), 4);
            let parent = i32::from_le_bytes(parent);
            let below = [session::pid(), detached.middle, detached.starter];
            assert!(!below.contains(&parent), "{parent} is one of {below:?}");
            assert!(!below.contains(&detached.pid));
            detached.reap_starters();
        }
    }

    #[test]
    fn killed_at_the_start_it_was_never_there() {
        let (from, to) = fds::pipe().unwrap();
        let fd = to.as_raw_fd();
        let mut child = || {
            process::child_write(fd, b"runs");
            process::exit_now(0);
        };
        // The middle process ends before it has started anybody.
        let [started, _] = process::shared_numbers().unwrap();
        let result = spawn(|| process::exit_now(1), &mut child, started);
        assert!(result.is_err());
        drop(to);
        assert_eq!(nix::unistd::read(&from, &mut [0; 4]).unwrap(), 0);
    }

    #[test]
    fn forked_beside_it_was_never_below() {
        let (from, to) = fds::pipe().unwrap();
        let fd = to.as_raw_fd();
        let (creator, sibling) = (AtomicI32::new(0), AtomicI32::new(0));
        let pid = process::spawn_sharing(&mut || {
            creator.store(session::pid(), Ordering::Release);
            if let Ok(Forked::Child) = process::child_fork_noted(libc::CLONE_PARENT, &sibling) {
                process::child_write(fd, &session::parent_pid().to_le_bytes());
                process::exit_now(0);
            }
            // The creator lives until its sibling has spoken.
            drop(fds::wait_readable(&[from.as_raw_fd()], -1));
            0
        });
        let mut parent = [0; 4];
        assert_eq!(nix::unistd::read(&from, &mut parent).unwrap(), 4);
        assert_eq!(i32::from_le_bytes(parent), session::pid());
        assert_ne!(creator.into_inner(), session::pid());
        for pid in [pid.unwrap(), sibling.into_inner()] {
            assert_eq!(process::wait_for(pid), Some(0));
        }
    }

    #[test]
    fn one_that_ended_without_a_word_is_not_waited_for() {
        let pid = process::spawn_sharing(&mut || 0).unwrap();
        // A zombie first, then nobody.
        wait_for_zero(&AtomicI32::new(pid));
        process::wait_for(pid);
        wait_for_zero(&AtomicI32::new(pid));
        assert!(!is_gone(session::pid()));
    }
}

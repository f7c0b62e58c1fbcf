//! Sessions, process groups, the controlling terminal, the subreaper bit, the process title.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::fds;
use super::signal;

/// The controlling terminal of this process, if it has one.
#[must_use]
pub(crate) fn controlling_terminal() -> Option<OwnedFd> {
    fds::open_path("/dev/tty", libc::O_RDWR).ok()
}

/// The terminal's foreground process group.
#[must_use]
pub(crate) fn foreground_group(terminal: &impl AsRawFd) -> Option<i32> {
    // SAFETY: the descriptor is open for as long as the borrow.
    let group = unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) };
    (group > 0).then_some(group)
}

/// Makes `group` the terminal's foreground group, also from the background. Async-signal-safe.
pub(crate) fn child_take_terminal(terminal: i32, group: i32) {
    signal::block(&[libc::SIGTTOU]);
    // SAFETY: plain numbers; failure (the terminal is gone) leaves things as they are.
    unsafe { libc::tcsetpgrp(terminal, group) };
}

#[must_use]
pub(crate) fn own_group() -> i32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::getpgrp() }
}

#[must_use]
pub(crate) fn own_session() -> i32 {
    // SAFETY: 0 means this process; cannot fail.
    unsafe { libc::getsid(0) }
}

#[must_use]
pub(crate) fn pid() -> i32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::getpid() }
}

#[must_use]
pub(crate) fn parent_pid() -> i32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::getppid() }
}

/// Starts a new session. Async-signal-safe.
pub(crate) fn child_new_session() -> io::Result<()> {
    // SAFETY: takes nothing.
    if unsafe { libc::setsid() } < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Starts a new process group in the session. Async-signal-safe.
pub(crate) fn child_new_group() {
    // SAFETY: zeros mean this process.
    unsafe { libc::setpgid(0, 0) };
}

/// Joins a process group of the session. Async-signal-safe.
pub(crate) fn child_join_group(group: i32) {
    // SAFETY: plain numbers; 0 means this process. A group that has gone meanwhile is refused.
    unsafe { libc::setpgid(0, group) };
}

/// Has the kernel kill this process when its parent `parent` ends.
pub(crate) fn child_die_with(parent: i32) {
    // SAFETY: PR_SET_PDEATHSIG takes an integer.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    if parent_pid() != parent {
        // It ended before we asked.
        super::process::exit_now(0);
    }
}

/// Whether nobody in this session could continue our process group if it were stopped: no ancestor of
/// ours in another group of it. The kernel then drops the signals of job control.
#[must_use]
pub(crate) fn is_group_orphaned(parent_of: impl Fn(i32) -> Option<i32>) -> bool {
    let (group, session) = (own_group(), own_session());
    let mut pid = parent_pid();
    for _ in 0..512 {
        // SAFETY: plain numbers; a process that has gone, or is out of our sight, gives -1.
        if pid <= 0 || unsafe { libc::getsid(pid) } != session {
            return true;
        }
        // SAFETY: as above.
        if unsafe { libc::getpgid(pid) } != group {
            return false;
        }
        match parent_of(pid) {
            Some(parent) => pid = parent,
            None => return true,
        }
    }
    true
}

/// Whether this process, and all that it starts, can gain no privileges any more.
#[must_use]
pub(crate) fn no_new_privs() -> bool {
    // SAFETY: PR_GET_NO_NEW_PRIVS takes nothing and gives 0 or 1, or -1 where it is not known.
    unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 }
}

/// Makes this process the one that orphans among its descendants are handed to.
pub(crate) fn become_subreaper() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes an integer.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The name of this process, cut after 15 bytes. Async-signal-safe.
pub(crate) fn child_set_name(name: &CStr) {
    // SAFETY: PR_SET_NAME reads at most 16 bytes of a live C string.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

static ARGUMENTS: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static ARGUMENTS_LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Remembers where the kernel put the argument strings, so that [`set_title`] can overwrite them.
///
/// # Safety
/// `argv` must be the vector that `main` got, with `argc` entries.
pub unsafe fn remember_arguments(argc: i32, argv: *const *const std::ffi::c_char) {
    let Some(last) = usize::try_from(argc)
        .ok()
        .and_then(|count| count.checked_sub(1))
    else {
        return;
    };
    // SAFETY: `main`'s vector has an entry 0, as `argc` is at least 1.
    let start = unsafe { *argv };
    // SAFETY: `last` is the index of the last entry.
    let last = unsafe { argv.add(last) };
    // SAFETY: the vector has that entry.
    let end = unsafe { *last };
    // SAFETY: every entry is a C string.
    let end_length = unsafe { libc::strlen(end) };
    let length = (end as usize).saturating_sub(start as usize) + end_length;
    ARGUMENTS.store(start.cast_mut().cast(), Ordering::Relaxed);
    ARGUMENTS_LENGTH.store(length, Ordering::Relaxed);
}

/// Replaces what `ps` and `pkill -f` see of this process. Nothing of ours that stays may carry the
/// command's text: an agent that cleans up with `pkill -f 'npm run dev'` means the server, not its
/// supervisor, nor the front that waits for the `pkill`. The real shell has the text, as without us.
/// `std::env::args_os` has nothing to say afterwards.
pub(crate) fn set_title(title: &CStr) {
    child_set_name(title);
    overwrite_arguments(title);
}

/// The same for the arguments alone.
pub(crate) fn overwrite_arguments(title: &CStr) {
    let title = title.to_bytes();
    let start = ARGUMENTS.load(Ordering::Relaxed);
    let length = ARGUMENTS_LENGTH.load(Ordering::Relaxed);
    if start.is_null() {
        return;
    }
    let count = title.len().min(length.saturating_sub(1));
    // SAFETY: the area belongs to this process and is writable; nobody holds a reference into it, as
    // `main` and all who read the arguments copied them (`std::env::args_os` copies).
    unsafe { std::ptr::write_bytes(start, 0, length) };
    // SAFETY: as above; `count` is within both areas, which do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(title.as_ptr(), start, count) };
}
/// Takes our own variables out of the environment where this program has more rights than its caller: they
/// would choose what it runs, and where it writes. To be called before anything else.
pub(crate) fn forget_own_variables(beginning: &str) {
    if !super::fsx::is_privileged() {
        return;
    }
    let names: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    for name in names {
        if name.as_encoded_bytes().starts_with(beginning.as_bytes()) {
            // SAFETY: called at the very beginning, when this process has no other thread.
            unsafe { std::env::remove_var(&name) };
        }
    }
}

//! Forking, exec'ing and waiting. No thread exists in any process that forks here.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::AtomicI32;

pub(crate) enum Forked {
    Parent(i32),
    Child,
}

/// Forks. The caller is single-threaded, so the child may go on as an ordinary program.
pub(crate) fn fork() -> io::Result<Forked> {
    // SAFETY: no other thread exists before the last fork of a process (an invariant of the crate),
    // so no lock can be held by a thread that the child lacks.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid)),
    }
}

/// Forks by the bare system call: right in a child of [`spawn_sharing`], where the C library's fork
/// would run its handlers on memory that is the parent's too.
pub(crate) fn child_fork() -> io::Result<Forked> {
    child_fork_noted(0, &AtomicI32::new(0))
}

/// The same with more flags. The kernel notes the new pid in the parent's memory before the new process
/// runs, whatever happens to the parent meanwhile.
pub(super) fn child_fork_noted(flags: i32, pid: &AtomicI32) -> io::Result<Forked> {
    let flags = flags | libc::CLONE_PARENT_SETTID | libc::SIGCHLD;
    // SAFETY: without CLONE_VM the kernel copies this process, which is single-threaded; it writes to
    // one live number.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, pid.as_ptr(), 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(i32::try_from(pid).unwrap_or(-1))),
    }
}

/// The stack of a child of [`spawn_sharing`]: enough for a few system calls, taken from our own.
const SMALL_STACK: usize = 32 * 1024;

extern "C" fn call<F: FnMut() -> i32>(child: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `clone_sharing` passes its own argument, which outlives the child's use of it: whoever
    // called it waits until the child has exec'd or ended.
    let child = unsafe { &mut *child.cast::<F>() };
    child()
}

/// Runs `child` in a child process that shares our memory (as `vfork` does) on a stack of its own,
/// and comes back when it has exec'd or ended, which it does at once. Nothing is copied, not even page
/// tables. The child's result is its exit code; what it writes to its captures is seen by the parent.
pub(crate) fn spawn_sharing<F: FnMut() -> i32>(child: &mut F) -> io::Result<i32> {
    spawn_with(child, 0)
}

/// The same for a child that leaves descriptors, directory and signal handlers as they are: not even
/// these are copied.
pub(super) fn spawn_sharing_all<F: FnMut() -> i32>(child: &mut F) -> io::Result<i32> {
    spawn_with(child, ALL)
}

/// What else a child can share with us.
const ALL: i32 = libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_SIGHAND;

fn spawn_with<F: FnMut() -> i32>(child: &mut F, flags: i32) -> io::Result<i32> {
    #[repr(align(16))]
    struct Small([std::mem::MaybeUninit<u8>; SMALL_STACK]);
    let mut stack = Small([const { std::mem::MaybeUninit::uninit() }; SMALL_STACK]);
    let top = stack.0.as_mut_ptr_range().end.cast();
    // SAFETY: the end of the array, which lives until the child has left this memory.
    unsafe { clone_sharing(child, top, flags | libc::CLONE_VFORK, std::ptr::null_mut()) }
}

/// Starts `child` as [`spawn_sharing_all`] does, without waiting for it. Its pid is in `sharing` before
/// it runs. Once it has called [`child_tell_end`], that is zeroed, and waiters are woken, when it has let
/// go of our memory.
///
/// # Safety
/// `top` is the end of memory that nobody else uses while the child does; nobody touches what `child`
/// refers to meanwhile.
pub(super) unsafe fn clone_noted<F: FnMut() -> i32>(
    child: &mut F,
    top: *mut u8,
    sharing: &AtomicI32,
) -> io::Result<i32> {
    // SAFETY: as above.
    unsafe {
        clone_sharing(
            child,
            top,
            libc::CLONE_PARENT_SETTID | ALL,
            sharing.as_ptr(),
        )
    }
}

/// Has the kernel zero `sharing` when this process ends, however that comes about. (The flag that does so
/// from birth is refused by some C libraries.)
pub(super) fn child_tell_end(sharing: &AtomicI32) {
    // SAFETY: a live number, which whoever reads it keeps as long as we may write to it.
    unsafe { libc::syscall(libc::SYS_set_tid_address, sharing.as_ptr()) };
}

/// # Safety
/// `top` is the end of memory that nobody else uses while the child does, and `pid` is null or that of
/// a number that lives as long; without CLONE_VFORK, nobody touches what `child` refers to meanwhile.
unsafe fn clone_sharing<F: FnMut() -> i32>(
    child: &mut F,
    top: *mut u8,
    flags: i32,
    pid: *mut i32,
) -> io::Result<i32> {
    let flags = flags | libc::CLONE_VM | libc::SIGCHLD;
    let child = (&raw mut *child).cast();
    // SAFETY: the child runs on its own stack, and the caller answers for what it refers to.
    let pid = unsafe { libc::clone(call::<F>, top.cast(), flags, child, pid) };
    if pid < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(pid)
    }
}

/// Numbers that this process shares with those that it forks from here on, 0 at first: telling a
/// process something it may need to know one day, without waking it. They are there as long as it is.
pub(crate) fn shared_numbers() -> io::Result<&'static [AtomicI32; 2]> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let size = size_of::<[AtomicI32; 2]>();
    // SAFETY: a new anonymous mapping touches nothing that exists.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed, aligned to a page, never unmapped, and only used as atomic numbers.
    Ok(unsafe { &*memory.cast() })
}

/// The path by which this process was exec'd, as the kernel noted it (AT_EXECFN); needs no `/proc`.
#[must_use]
pub(crate) fn executed_path() -> Option<&'static Path> {
    // SAFETY: takes a number; 0 means that there is no such entry.
    let address = unsafe { libc::getauxval(libc::AT_EXECFN) };
    if address == 0 {
        return None;
    }
    // SAFETY: the kernel put a C string there that stays for the life of the process.
    let path = unsafe { CStr::from_ptr(address as *const c_char) };
    Some(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// Ends this process at once: no exit handlers, no buffers, no destructors.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Lets whoever waits for this processor run first.
pub(crate) fn give_way() {
    // SAFETY: takes nothing.
    unsafe { libc::sched_yield() };
}

/// A program image ready to be exec'd: everything that allocates is done before the fork.
pub struct Image {
    path: CString,
    /// Owns what `argv_pointers` points to.
    _argv: Vec<CString>,
    /// Owns the entries of `env_pointers` that are not the process's own environment.
    _env: Vec<CString>,
    argv_pointers: Vec<*const c_char>,
    env_pointers: Vec<*const c_char>,
}

/// Bytes as a C string; a NUL inside, which no argument from an exec can have, ends it.
#[must_use]
pub(crate) fn c_string(bytes: &[u8]) -> CString {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The entries of this process's environment, exactly as they came (also without a `=`).
fn environment_entries() -> Vec<*const c_char> {
    let mut entries = Vec::with_capacity(64);
    // SAFETY: reading the pointer; nobody changes the environment in this program.
    let mut next = unsafe { environ };
    if next.is_null() {
        return entries;
    }
    loop {
        // SAFETY: the vector ends with a null pointer, which has not been passed.
        let entry = unsafe { *next };
        if entry.is_null() {
            return entries;
        }
        entries.push(entry);
        // SAFETY: the entry was not the last one.
        next = unsafe { next.add(1) };
    }
}

impl Image {
    /// `path` with `argv`, in this process's environment plus `extra` (`NAME=value`, replacing).
    #[must_use]
    pub fn new(path: &Path, argv: &[impl AsRef<OsStr>], extra: &[Vec<u8>]) -> Self {
        let argv: Vec<CString> = argv
            .iter()
            .map(|arg| c_string(arg.as_ref().as_bytes()))
            .collect();
        let env: Vec<CString> = extra.iter().map(|entry| c_string(entry)).collect();
        let name_of = |entry: &[u8]| {
            entry
                .iter()
                .position(|&b| b == b'=')
                .map_or(entry.len(), |at| at + 1)
        };
        let mut env_pointers = environment_entries();
        env_pointers.retain(|&entry| {
            // SAFETY: the entries are C strings of the environment, which stays as it is.
            let entry = unsafe { CStr::from_ptr(entry) }.to_bytes();
            !extra
                .iter()
                .any(|new| entry.starts_with(&new[..name_of(new)]))
        });
        env_pointers.extend(env.iter().map(|entry| entry.as_ptr()));
        env_pointers.push(std::ptr::null());
        let mut argv_pointers: Vec<*const c_char> = argv.iter().map(|arg| arg.as_ptr()).collect();
        argv_pointers.push(std::ptr::null());
        Self {
            path: c_string(path.as_os_str().as_bytes()),
            _argv: argv,
            _env: env,
            argv_pointers,
            env_pointers,
        }
    }

    /// Replaces this process; returns only when that failed. Async-signal-safe.
    #[must_use]
    pub fn child_exec(&self) -> io::Error {
        // SAFETY: both vectors end with a null pointer and point to live C strings.
        unsafe {
            libc::execve(
                self.path.as_ptr(),
                self.argv_pointers.as_ptr(),
                self.env_pointers.as_ptr(),
            )
        };
        io::Error::last_os_error()
    }
}

/// Starts a helper of ours as a child: a session of its own, nothing of ours on its streams. The
/// caller is single-threaded.
pub(crate) fn spawn_helper(image: &Image) -> io::Result<i32> {
    spawn_sharing(&mut || {
        drop(super::session::child_new_session());
        child_become_helper(image)
    })
}

/// The same, handed to init (or the nearest subreaper) at once: whoever starts it owes it nothing.
/// That it cannot be started is no failure of its starter.
pub(crate) fn spawn_orphan(image: &Image) {
    let middle = spawn_sharing(&mut || {
        drop(super::session::child_new_session());
        match child_fork() {
            Ok(Forked::Child) => exit_now(child_become_helper(image)),
            _ => 0,
        }
    });
    if let Ok(pid) = middle {
        wait_for(pid);
    }
}

fn child_become_helper(image: &Image) -> i32 {
    // A supervisor's child has its name until the exec, and PID 1 may tell it to end its jobs by this signal.
    super::signal::ignore(&[libc::SIGPWR]);
    // Whoever starts it may hear no signal at all; what reaches it, and what it starts, is its own affair.
    super::signal::block_only(&super::signal::LIMITS);
    // SAFETY: a C string and a number.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
    for fd in 0..3 {
        // SAFETY: plain numbers; a failure leaves the stream as it is.
        unsafe { libc::dup2(null, fd) };
    }
    if null > 2 {
        // SAFETY: ours, and not used again.
        unsafe { libc::close(null) };
    }
    // Whatever the caller left open is not ours to hold: somebody may wait for its end.
    super::fds::close_all_but(3, &mut []);
    drop(image.child_exec());
    127
}

/// What a wait found out about a child, without consuming it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub pid: i32,
    pub kind: ChangeKind,
    pub usage: Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// The wait status, as `waitpid` encodes it.
    Ended(i32),
    Stopped(i32),
    Continued,
}

/// Resources used by an ended child and its own waited-for children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub user_ms: u64,
    pub sys_ms: u64,
    pub max_rss_kib: u64,
}

fn wait_raw(kind: libc::idtype_t, id: libc::id_t, options: i32) -> io::Result<Option<Change>> {
    // SAFETY: all-zero values of both structures are valid; the call fills them in.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // The libc wrapper drops the fifth argument; the kernel fills in the usage also with WNOWAIT.
    // SAFETY: both pointers are to live structures of the kernel's layout.
    let result = unsafe {
        libc::syscall(
            libc::SYS_waitid,
            kind,
            id,
            &raw mut info,
            options,
            &raw mut usage,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: after a successful waitid the SIGCHLD fields are valid (all zero if nothing changed).
    let pid = unsafe { info.si_pid() };
    if pid == 0 {
        return Ok(None);
    }
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    let kind = match info.si_code {
        libc::CLD_EXITED => ChangeKind::Ended((status & 0xff) << 8),
        libc::CLD_KILLED => ChangeKind::Ended(status & 0x7f),
        libc::CLD_DUMPED => ChangeKind::Ended(status & 0x7f | 0x80),
        libc::CLD_CONTINUED => ChangeKind::Continued,
        _ => ChangeKind::Stopped(status),
    };
    let ms = |time: libc::timeval| {
        time.tv_sec.unsigned_abs() * 1000 + u64::try_from(time.tv_usec / 1000).unwrap_or(0)
    };
    let usage = Usage {
        user_ms: ms(usage.ru_utime),
        sys_ms: ms(usage.ru_stime),
        max_rss_kib: usage.ru_maxrss.unsigned_abs(),
    };
    Ok(Some(Change { pid, kind, usage }))
}

/// An ended child, left unreaped: "acknowledge after commit". `Err(ECHILD)`: there is no child at all.
pub(crate) fn peek_ended() -> io::Result<Option<Change>> {
    wait_raw(
        libc::P_ALL,
        0,
        libc::WEXITED | libc::WNOHANG | libc::WNOWAIT,
    )
}

/// The same for one child by its pidfd; `Err(ECHILD)`: it is not our child.
pub(crate) fn peek_child(pidfd: BorrowedFd<'_>) -> io::Result<Option<Change>> {
    let id = libc::id_t::try_from(pidfd.as_raw_fd()).map_err(io::Error::other)?;
    wait_raw(
        libc::P_PIDFD,
        id,
        libc::WEXITED | libc::WNOHANG | libc::WNOWAIT,
    )
}

/// A child that stopped or continued since the last call; consumed.
pub(crate) fn take_stop() -> Option<Change> {
    wait_raw(
        libc::P_ALL,
        0,
        libc::WSTOPPED | libc::WCONTINUED | libc::WNOHANG,
    )
    .ok()
    .flatten()
}

/// The same for one child.
#[must_use]
pub(crate) fn take_stop_of(pid: i32) -> Option<Change> {
    let id = libc::id_t::try_from(pid).ok()?;
    wait_raw(libc::P_PID, id, libc::WSTOPPED | libc::WNOHANG)
        .ok()
        .flatten()
}

/// Whether a child has stopped; left for [`take_stop`].
#[must_use]
pub(crate) fn is_stopped(pid: i32) -> bool {
    let options = libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT;
    let change = libc::id_t::try_from(pid).map(|id| wait_raw(libc::P_PID, id, options));
    matches!(change, Ok(Ok(Some(_))))
}

/// Reaps an ended child.
pub(crate) fn reap(pid: i32) {
    let Ok(id) = libc::id_t::try_from(pid) else {
        return;
    };
    // A failure means that it is gone already.
    drop(wait_raw(libc::P_PID, id, libc::WEXITED | libc::WNOHANG));
}

/// Waits for a child to end, reaps it and gives its wait status.
pub(crate) fn wait_for(pid: i32) -> Option<i32> {
    let id = libc::id_t::try_from(pid).ok()?;
    loop {
        match wait_raw(libc::P_PID, id, libc::WEXITED) {
            Ok(Some(Change {
                kind: ChangeKind::Ended(status),
                ..
            })) => return Some(status),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return None,
        }
    }
}

/// Writes bytes from a child that may not allocate. Async-signal-safe.
pub(crate) fn child_write(fd: i32, bytes: &[u8]) {
    // SAFETY: the pointer and length are those of the live slice.
    unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
}

/// Waits until a byte can be read from `fd`; false when the other end was closed instead.
#[must_use]
pub(crate) fn child_wait_gate(fd: i32) -> bool {
    let mut byte = 0u8;
    loop {
        // SAFETY: one live byte.
        let count = unsafe { libc::read(fd, (&raw mut byte).cast(), 1) };
        if count >= 0 {
            return count == 1;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return false;
        }
    }
}

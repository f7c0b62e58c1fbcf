//! Descriptors: what they are, where they point, moving and closing them.
//!
//! Where the C library is called directly, there is a reason: the number may be closed, which is part of
//! the question (`stat`, `status_flags`, `duplicate`, `poll`), and a borrowed descriptor of a safe
//! interface may not be; or the call is made between fork and exec on whatever number it is (`put`,
//! `close_range`); or no package has it (`kcmp`). The rest goes through nix.

use std::io::{self, IsTerminal};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::socket::{MsgFlags, send};
use nix::sys::stat::Mode;

/// What kind of object a descriptor is open on, as far as relaying cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Closed,
    Pipe,
    Socket,
    Terminal,
    File {
        append: bool,
    },
    /// Anything else: /dev/null, other devices, directories.
    Other,
}

/// The object behind a descriptor: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    pub dev: u64,
    pub ino: u64,
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.dev, self.ino)
    }
}

fn stat(fd: RawFd) -> io::Result<libc::stat> {
    // SAFETY: an all-zero `stat` is a valid value; it is only read after the call filled it in.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is live and ours; a bad `fd` is reported as an error.
    if unsafe { libc::fstat(fd, &raw mut stat) } == 0 {
        Ok(stat)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Tells what `fd` is open on, without changing it.
#[must_use]
pub(crate) fn kind(fd: RawFd) -> Kind {
    let Ok(stat) = stat(fd) else {
        return Kind::Closed;
    };
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFIFO => Kind::Pipe,
        libc::S_IFSOCK => Kind::Socket,
        libc::S_IFREG => Kind::File {
            append: status_flags(fd) & libc::O_APPEND != 0,
        },
        // It is open, as `fstat` has just shown.
        libc::S_IFCHR if with_borrowed(fd, |fd| fd.is_terminal()) => Kind::Terminal,
        _ => Kind::Other,
    }
}

/// Whether one of the three streams is a terminal.
#[must_use]
pub(crate) fn at_terminal() -> bool {
    (0..3).any(|fd| kind(fd) == Kind::Terminal)
}

/// The object that `fd` is open on.
#[must_use]
pub(crate) fn object(fd: RawFd) -> Option<Object> {
    stat(fd).ok().map(|stat| Object {
        dev: stat.st_dev,
        ino: stat.st_ino,
    })
}

fn status_flags(fd: RawFd) -> i32 {
    // SAFETY: F_GETFL takes no pointer.
    unsafe { libc::fcntl(fd, libc::F_GETFL) }
}

/// Whether `fd` may be written to.
#[must_use]
pub(crate) fn is_writable(fd: RawFd) -> bool {
    let flags = status_flags(fd);
    flags >= 0 && flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// A close-on-exec copy of `fd` at 10 or above, out of the way of what a shell uses.
pub(crate) fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    duplicate_from(fd, 10)
}

fn duplicate_from(fd: RawFd, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes an integer.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, least) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made `copy`, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Fills closed standard streams, so that no descriptor of ours takes their numbers. The fillers vanish
/// at an exec: the real shell finds the streams closed as the caller left them.
pub(crate) fn fill_closed_streams() {
    for fd in 0..3 {
        if kind(fd) == Kind::Closed
            && let Ok(null) = open_path("/dev/null", libc::O_RDWR)
        {
            // The lowest free number is `fd` itself, as those below it are open.
            std::mem::forget(null);
        }
    }
}

/// A pipe, both ends close-on-exec: (read end, write end).
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?)
}

pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Opens the same pipe anew for writing, so that O_NONBLOCK does not reach the other holders.
#[must_use]
pub(crate) fn reopen_nonblocking(fd: RawFd) -> Option<OwnedFd> {
    open_path(
        &format!("/proc/self/fd/{fd}"),
        libc::O_WRONLY | libc::O_NONBLOCK,
    )
    .ok()
}

/// Opens `path` close-on-exec and never as a controlling terminal.
pub(crate) fn open_path(path: &str, flags: i32) -> io::Result<OwnedFd> {
    let flags = OFlag::from_bits_retain(flags) | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    Ok(nix::fcntl::open(path, flags, Mode::empty())?)
}

/// Makes `to` a copy of `from` that survives an exec.
pub(crate) fn put(from: RawFd, to: RawFd) -> io::Result<()> {
    let result = if from == to {
        // SAFETY: F_SETFD takes an integer.
        unsafe { libc::fcntl(from, libc::F_SETFD, 0) }
    } else {
        // SAFETY: `dup2` takes two numbers; whatever was open at `to` is given up on purpose.
        unsafe { libc::dup2(from, to) }
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Closes every descriptor from `first` on except those in `keep`.
pub(crate) fn close_all_but(first: RawFd, keep: &mut [RawFd]) {
    keep.sort_unstable();
    let mut next = first;
    for &fd in keep.iter().filter(|&&fd| fd >= first) {
        if fd > next {
            close_range(next, fd - 1);
        }
        next = fd + 1;
    }
    close_range(next, RawFd::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    let (low, high) = (first.unsigned_abs(), last.unsigned_abs());
    // SAFETY: the caller gives these numbers up; no owner of ours is among them.
    if unsafe { libc::syscall(libc::SYS_close_range, low, high, 0) } == 0 {
        return;
    }
    // Kernels before 5.9 and some sandboxes lack close_range.
    let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")
        .map(|entries| {
            entries
                .flatten()
                .filter_map(|e| e.file_name().to_str()?.parse().ok())
                .collect()
        })
        .unwrap_or_else(|_| (first..1024).collect());
    for fd in open.into_iter().filter(|fd| (first..=last).contains(fd)) {
        // SAFETY: as above.
        unsafe { libc::close(fd) };
    }
}

/// What has happened on each descriptor when one was ready for its events, or after `timeout_ms` (-1: for
/// ever). A negative number is passed over. Allocates nothing: a process that shares our memory sleeps so.
fn poll(polls: &mut [libc::pollfd], timeout_ms: i32) -> usize {
    let count = libc::nfds_t::try_from(polls.len()).unwrap_or(0);
    // SAFETY: `polls` is live and has `count` entries.
    let ready = unsafe { libc::poll(polls.as_mut_ptr(), count, timeout_ms) };
    usize::try_from(ready).unwrap_or(0)
}

/// The same for one descriptor: what has happened on it.
fn poll_one(fd: RawFd, events: i16, timeout_ms: i32) -> i16 {
    let mut polls = [libc::pollfd {
        fd,
        events,
        revents: 0,
    }];
    match poll(&mut polls, timeout_ms) {
        0 => 0,
        _ => polls[0].revents,
    }
}

/// Whether nobody reads the other end of the pipe or socket any more.
#[must_use]
pub(crate) fn consumer_is_gone(fd: RawFd) -> bool {
    poll_one(fd, 0, 0) & (libc::POLLERR | libc::POLLHUP) != 0
}

/// Whether a small write to `fd` would not block.
#[must_use]
pub(crate) fn has_room(fd: RawFd) -> bool {
    poll_one(fd, libc::POLLOUT, 0) != 0
}

/// Whether `fd` of the process `pid` is the same open file description as our `own`. `None`: the
/// kernel does not tell.
#[must_use]
pub(crate) fn is_same_description(own: RawFd, pid: i32, fd: RawFd) -> Option<bool> {
    const KCMP_FILE: libc::c_int = 0;
    let (me, own, fd) = (super::session::pid(), i64::from(own), i64::from(fd));
    // SAFETY: kcmp takes numbers and only compares.
    let result = unsafe { libc::syscall(libc::SYS_kcmp, me, pid, KCMP_FILE, own, fd) };
    (result >= 0).then_some(result == 0)
}

/// The object behind descriptor `fd` of the process `pid`.
#[must_use]
pub(crate) fn object_of(pid: i32, fd: RawFd) -> Option<Object> {
    use std::os::unix::fs::MetadataExt;
    if !super::proc::is_ours() {
        return None;
    }
    let file = std::fs::metadata(format!("/proc/{pid}/fd/{fd}")).ok()?;
    Some(Object {
        dev: file.dev(),
        ino: file.ino(),
    })
}

/// Whether descriptor `fd` of the process `pid` is a regular file.
#[must_use]
pub(crate) fn is_regular_of(pid: i32, fd: RawFd) -> bool {
    super::proc::is_ours()
        && std::fs::metadata(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|file| file.is_file())
}

/// Waits until `fd` can be read, something happened on it, or `timeout_ms` passed (-1: for ever).
#[must_use]
pub(crate) fn wait_readable(fds: &[RawFd], timeout_ms: i32) -> Vec<bool> {
    let wanted: Vec<(RawFd, i16)> = fds.iter().map(|&fd| (fd, libc::POLLIN)).collect();
    wait_for_any(&wanted, timeout_ms)
}

/// The same for what each is waited for (`POLLIN`, `POLLOUT`). A negative descriptor is passed over.
#[must_use]
pub(crate) fn wait_for_any(wanted: &[(RawFd, i16)], timeout_ms: i32) -> Vec<bool> {
    let mut polls: Vec<libc::pollfd> = wanted
        .iter()
        .map(|&(fd, events)| libc::pollfd {
            fd,
            events,
            revents: 0,
        })
        .collect();
    let ready = poll(&mut polls, timeout_ms);
    polls
        .iter()
        .map(|poll| ready > 0 && poll.revents != 0)
        .collect()
}

/// Waits until a small write to `fd` would not block, or `timeout_ms` passed.
#[must_use]
pub(crate) fn wait_writable(fd: RawFd, timeout_ms: i32) -> bool {
    poll_one(fd, libc::POLLOUT, timeout_ms) != 0
}

/// Sends without blocking and without SIGPIPE, whatever the socket's own mode.
pub(crate) fn send_nonblocking(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    Ok(send(fd, bytes, flags)?)
}

/// How many files this process may open at most: the hard limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileLimit(rlim_t);

impl FileLimit {
    #[must_use]
    pub(crate) fn now() -> Self {
        let limits = getrlimit(Resource::RLIMIT_NOFILE);
        Self(limits.map_or(libc::RLIM_INFINITY, |(_, hard)| hard))
    }

    /// Raises the soft limit to the hard one. Only for a process that execs nothing any more.
    pub(crate) fn raise(self) {
        // Where that fails, the limit stays as it was.
        let _stays = setrlimit(Resource::RLIMIT_NOFILE, self.0, self.0);
    }

    /// How many there can be once it is raised.
    #[must_use]
    pub(crate) fn most(self) -> u64 {
        self.0
    }
}

/// Whether so many more descriptors can be had now. `fd` is any that is open.
#[must_use]
pub(crate) fn are_free(count: usize, fd: RawFd) -> bool {
    let copy = |_| duplicate_from(fd, 0).ok();
    let taken: Vec<OwnedFd> = (0..count).map_while(copy).collect();
    taken.len() == count
}

/// Lends a raw descriptor that its owner keeps open for the length of the call.
pub(crate) fn with_borrowed<T>(fd: RawFd, use_it: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
    // SAFETY: the caller's owner outlives this call.
    use_it(unsafe { BorrowedFd::borrow_raw(fd) })
}

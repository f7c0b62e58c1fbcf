//! Signals: the state the caller left them in, taking them as descriptors, and dying by one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Signals that are sent to end a job. Others may be a reload or a nudge that it lives through.
pub(crate) const ENDING: [i32; 5] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGABRT,
    libc::SIGKILL,
];

/// What the kernel sends to whoever reaches a limit. Not taken, the write or the work just fails.
pub(crate) const LIMITS: [i32; 2] = [libc::SIGXFSZ, libc::SIGXCPU];

/// Signals that end no process which neither catches nor ignores them.
pub(crate) const HARMLESS: [i32; 8] = [
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGURG,
    libc::SIGWINCH,
];

/// The mask and dispositions as they were at some moment, to be put back in a child.
#[derive(Clone)]
pub(crate) struct Saved {
    mask: libc::sigset_t,
    ignored: u64,
}

impl Saved {
    /// Notes the mask and which of `signals` are ignored now.
    #[must_use]
    pub(crate) fn now(signals: &[i32]) -> Self {
        let mut mask = empty_set();
        // SAFETY: a null new set means "only ask"; `mask` is live.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, std::ptr::null(), &raw mut mask) };
        let ignored = signals
            .iter()
            .filter(|&&s| is_ignored(s))
            .fold(0, |bits, &s| bits | bit(s));
        Self { mask, ignored }
    }

    #[must_use]
    pub(crate) fn was_ignored(&self, signal: i32) -> bool {
        self.ignored & bit(signal) != 0
    }

    /// Puts the noted state back for `signals`, then the mask. Async-signal-safe.
    pub(crate) fn child_restore(&self, signals: &[i32]) {
        for &signal in signals {
            set_disposition(
                signal,
                if self.was_ignored(signal) {
                    libc::SIG_IGN
                } else {
                    libc::SIG_DFL
                },
            );
        }
        // SAFETY: the noted mask is a valid set; a null old set means "do not tell".
        unsafe {
            libc::sigprocmask(
                libc::SIG_SETMASK,
                &raw const self.mask,
                std::ptr::null_mut(),
            )
        };
    }
}

fn bit(signal: i32) -> u64 {
    1u64 << (signal - 1).clamp(0, 63)
}

fn empty_set() -> libc::sigset_t {
    // SAFETY: an all-zero sigset_t is a valid value on Linux, and sigemptyset makes it so anyway.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is live.
    unsafe { libc::sigemptyset(&raw mut set) };
    set
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = empty_set();
    add(&mut set, signals);
    set
}

fn add(set: &mut libc::sigset_t, signals: &[i32]) {
    for &signal in signals {
        // SAFETY: `set` is live; a bad number is refused.
        unsafe { libc::sigaddset(set, signal) };
    }
}

/// Whether `signal` is ignored by this process now.
#[must_use]
pub(crate) fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action means "only ask"; `action` is live.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

fn set_disposition(signal: i32, handler: libc::sighandler_t) {
    // SAFETY: only SIG_IGN and SIG_DFL are ever passed, so no code of ours runs in a handler.
    unsafe { libc::signal(signal, handler) };
}

pub(crate) fn ignore(signals: &[i32]) {
    signals
        .iter()
        .for_each(|&signal| set_disposition(signal, libc::SIG_IGN));
}

pub(crate) fn reset(signals: &[i32]) {
    signals
        .iter()
        .for_each(|&signal| set_disposition(signal, libc::SIG_DFL));
}

pub(crate) fn block(signals: &[i32]) {
    let set = set_of(signals);
    // SAFETY: `set` is live; a null old set means "do not tell".
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

pub(crate) fn unblock(signals: &[i32]) {
    let set = set_of(signals);
    // SAFETY: as in `block`.
    unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) };
}

/// A descriptor from which blocked `signals` are read.
pub(crate) struct SignalFd(OwnedFd);

/// One signal that arrived: its number, who sent it, and whether the kernel itself did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub signal: i32,
    pub sender: i32,
    pub by_kernel: bool,
    /// The number that was sent with it.
    pub value: i32,
}

impl SignalFd {
    pub(crate) fn new(signals: &[i32]) -> io::Result<Self> {
        Self::deaf_to(&[], signals)
    }

    /// The same in a process that others do not reach either.
    pub(crate) fn deaf_to(others: &[i32], signals: &[i32]) -> io::Result<Self> {
        let set = set_of(signals);
        let mut blocked = set;
        add(&mut blocked, others);
        // SAFETY: `blocked` is live; a null old set means "do not tell".
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const blocked, std::ptr::null_mut()) };
        // SAFETY: `set` is live; -1 asks for a new descriptor.
        let fd =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just made `fd`.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal that is waiting, if any.
    #[must_use]
    pub(crate) fn next(&self) -> Option<Arrived> {
        // SAFETY: an all-zero signalfd_siginfo is a valid value.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of_val(&info);
        // SAFETY: `info` is live and `size` bytes long.
        let count = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size) };
        (usize::try_from(count) == Ok(size)).then(|| Arrived {
            signal: info.ssi_signo.cast_signed(),
            sender: info.ssi_pid.cast_signed(),
            by_kernel: info.ssi_code == libc::SI_KERNEL,
            value: info.ssi_int,
        })
    }
}

impl AsRawFd for SignalFd {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Ends this process by `signal`, as the real shell ended, without leaving a second core file.
pub(crate) fn die_by(signal: i32) {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `none` is live.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    reset(&[signal]);
    // SAFETY: plain numbers. The signal stays pending while blocked and strikes at the unblock.
    unsafe { libc::kill(super::session::pid(), signal) };
    unblock(&[signal]);
}

/// Stops this process as `signal` would have.
pub(crate) fn stop_self() {
    // SAFETY: plain numbers.
    unsafe { libc::kill(super::session::pid(), libc::SIGSTOP) };
}

/// Blocks these and no others. Async-signal-safe.
pub(crate) fn block_only(signals: &[i32]) {
    let set = set_of(signals);
    // SAFETY: as in `block`.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) };
}

/// Takes back signals that wait behind the mask: they would go on to the next program.
pub(crate) fn forget(signals: &[i32]) {
    for &signal in signals.iter().filter(|&&signal| !is_ignored(signal)) {
        set_disposition(signal, libc::SIG_IGN);
        set_disposition(signal, libc::SIG_DFL);
    }
}

/// Blocks whatever can be blocked.
pub(crate) fn block_all() {
    let mut set = empty_set();
    // SAFETY: `set` is live.
    unsafe { libc::sigfillset(&raw mut set) };
    // SAFETY: as in `block`.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Sends `signal` to every process of our own group, us included.
pub(crate) fn send_to_own_group(signal: i32) {
    // SAFETY: plain numbers; 0 means our own group.
    unsafe { libc::kill(0, signal) };
}

/// Kills a child that was not waited for yet.
pub(crate) fn kill_child(pid: i32) {
    signal_child(pid, libc::SIGKILL);
}

/// Sends `signal` to a child that was not waited for yet.
pub(crate) fn signal_child(pid: i32, signal: i32) {
    if pid > 1 {
        // SAFETY: plain numbers.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Sends `signal` to the process group `group`. Refuses the groups that mean "everybody" or "mine".
pub(crate) fn kill_group(group: i32, signal: i32) -> io::Result<()> {
    if group <= 1 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: plain numbers.
    if unsafe { libc::kill(-group, signal) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

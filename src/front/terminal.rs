//! The front at a terminal: in which process group the shell runs, and stopping and going on with it.
//!
//! An interactive shell knows a command by the group it gave it, ours. Ctrl-Z, `fg`, `bg` and
//! `kill %1` mean that group, and a stop is noticed by the end of a wait for us. Four cases:
//!
//! * None of our streams is the terminal, and the text starts no jobs: whoever called may be at the
//!   terminal itself, as a full-screen program is that runs a hook, and must keep it. The shell shares
//!   our group, as without us.
//! * The group is orphaned: nobody in the session could continue it, so the kernel stops nobody in
//!   it. Harnesses that open a terminal start us like this. The shell leads a group of its own, so
//!   that a kill of ours does not hit subshells that are jobs, and nothing of job control is lost.
//! * We are in the foreground and the text starts no jobs: the shell shares our group, and everything
//!   is as without us, also beside `| less` and below `make -j`.
//! * Else the shell leads a group of its own, and an anchor keeps that from being orphaned, as the
//!   shell's parent is in another session: a child of the front that sleeps in the shell's group. The
//!   front stops when the shell did, passes on what was meant for the group, and lends the terminal.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::sys::process::{self, Forked};
use crate::sys::signal::{self, Arrived};
use crate::sys::{fds, proc, session};
use crate::wire::{Anchorage, Group};

/// What `ps` shows of an anchor.
const TITLE: &CStr = c"agent-sh anchor";

/// What stops a process at a terminal.
pub(super) const STOPS: &[i32] = &[libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// What an interactive shell sends to a group of ours, beyond what is always passed on.
pub(super) const JOB_CONTROL: &[i32] = &[
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCONT,
    libc::SIGWINCH,
];

/// The terminal as the front has it.
pub(super) struct Terminal {
    fd: OwnedFd,
    kind: Kind,
    /// One of our streams is the terminal.
    is_used: bool,
    /// `Some` iff anchored; ends with this.
    _anchor: Option<Anchor>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Orphaned,
    Shared,
    Anchored,
}

/// What is to be done with a signal that came to the front.
pub(super) enum Meant {
    /// Everybody has it who should.
    Nobody,
    Foreground,
    /// The shell is to go on.
    Continue,
}

impl Meant {
    /// Whom a signal was meant for where there is no terminal.
    pub(super) fn without_terminal(arrived: &Arrived) -> Self {
        if arrived.signal == libc::SIGCONT {
            Self::Continue
        } else {
            Self::Foreground
        }
    }
}

/// What is to be said to the supervisor of a shell that was stopped.
pub(super) enum Next {
    Nothing,
    /// The front is to be stopped, too.
    Stop,
    /// The shell is to go on.
    Continue,
}

impl Terminal {
    /// Decides where the shell is to run. `None` where that takes a process or a descriptor too many.
    pub(super) fn new(fd: &OwnedFd, starts_jobs: bool) -> Option<(Self, Group)> {
        let in_foreground = session::foreground_group(fd) == Some(session::own_group());
        let is_used = fds::at_terminal();
        let (kind, group, _anchor) = if !is_used && in_foreground && !starts_jobs {
            (Kind::Shared, Group::Shared, None)
        } else if session::is_group_orphaned(proc::ppid) {
            (Kind::Orphaned, Group::Own, None)
        } else if in_foreground && !starts_jobs {
            (Kind::Shared, Group::Shared, None)
        } else {
            let (anchor, anchorage) = Anchor::start()?;
            (Kind::Anchored, Group::Anchored(anchorage), Some(anchor))
        };
        let fd = fd.try_clone().ok()?;
        let terminal = Self {
            fd,
            kind,
            is_used,
            _anchor,
        };
        Some((terminal, group))
    }

    pub(super) fn is_anchored(&self) -> bool {
        self.kind == Kind::Anchored
    }

    /// Whom a signal was meant for. `shell`: the shell's pid once it runs.
    pub(super) fn meant_for(&self, arrived: &Arrived, shell: Option<i32>) -> Meant {
        if self.is_anchored() && self.is_used {
            // Whatever came to our group came past the shell's.
            self.lend(shell.unwrap_or(0));
        }
        let is_key = arrived.by_kernel && arrived.signal != libc::SIGCONT;
        match self.kind {
            // The keys of the terminal reached the shell itself. Before it has become one, it was deaf.
            Kind::Shared if is_key && shell.is_some() => Meant::Nobody,
            _ => Meant::without_terminal(arrived),
        }
    }

    /// The shell was stopped: we are to stop likewise, so that whoever started us sees it. See
    /// `supervisor::call::stops` for what may happen meanwhile.
    pub(super) fn stop_with_shell(&self, shell: i32, number: i32) -> Next {
        let is_stopped = || proc::state(shell) == Some(b'T');
        if !is_stopped() {
            return Next::Nothing;
        }
        if !self.is_anchored() {
            return Next::Stop;
        }
        let by_use = matches!(number, libc::SIGTTIN | libc::SIGTTOU);
        if by_use && self.lend(shell) {
            // `fg` gave the terminal to us, for the shell; a command that runs is not told.
            return Next::Continue;
        }
        self.take_back(shell);
        if number == libc::SIGSTOP {
            return Next::Stop;
        }
        // A key, or the use of the terminal from the background, stops all of a pipeline.
        signal::reset(&[number]);
        signal::send_to_own_group(number);
        if is_stopped() {
            // It strikes here. A SIGCONT that came first has taken it away.
            signal::unblock(&[number]);
            signal::block(&[number]);
        } else {
            // The shell goes on, so all go on; and the signal is taken away from us.
            signal::send_to_own_group(libc::SIGCONT);
        }
        self.lend(shell);
        if is_stopped() {
            Next::Continue
        } else {
            Next::Nothing
        }
    }

    /// If our group has the terminal, gives it to the shell's.
    fn lend(&self, shell: i32) -> bool {
        let lends = self.kind != Kind::Shared
            && shell > 0
            && session::foreground_group(&self.fd) == Some(session::own_group());
        if lends {
            session::child_take_terminal(self.fd.as_raw_fd(), shell);
        }
        lends
    }

    /// If the shell's group has the terminal, takes it.
    pub(super) fn take_back(&self, shell: i32) {
        if shell > 0 && session::foreground_group(&self.fd) == Some(shell) {
            session::child_take_terminal(self.fd.as_raw_fd(), session::own_group());
        }
    }
}

/// A child of the front that sleeps in the shell's group. The kernel ends it with the front.
struct Anchor {
    pid: i32,
}

impl Anchor {
    /// Starts one, with the descriptors by which the shell's process calls it into its group. The shell
    /// waits for it: there is no moment at which Ctrl-Z would be dropped.
    fn start() -> Option<(Self, Anchorage)> {
        let (called, call) = fds::pipe().ok()?;
        let (answer, answered) = fds::pipe().ok()?;
        // A key must not stop it before it has come to block signals: the shell waits for it.
        signal::block(STOPS);
        match process::fork().ok()? {
            Forked::Parent(pid) => Some((Self { pid }, Anchorage { call, answer })),
            Forked::Child => {
                drop((call, answer));
                sleep_in_group(&called, answered)
            }
        }
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        // Our own child, not reaped yet: nobody else can have its pid.
        signal::kill_child(self.pid);
        process::wait_for(self.pid);
    }
}

fn sleep_in_group(called: &OwnedFd, answered: OwnedFd) -> ! {
    signal::block_all();
    session::child_die_with(session::parent_pid());
    session::set_title(TITLE);
    fds::close_all_but(0, &mut [called.as_raw_fd(), answered.as_raw_fd()]);
    drop(std::env::set_current_dir("/"));
    let mut pid = [0u8; 4];
    match nix::unistd::read(called, &mut pid) {
        Ok(4) => session::child_join_group(i32::from_le_bytes(pid)),
        _ => process::exit_now(0),
    }
    // Closing it is the answer.
    drop(answered);
    loop {
        drop(fds::wait_readable(&[], -1));
    }
}

//! The shell is stopped, and goes on: so does the front, for its parent waits for that and for nothing
//! else; and who continues the front means the shell.
//!
//! Nobody tells a front that has stopped itself that the shell has gone on meanwhile. So we stop and
//! continue it, in the order in which the kernel tells us of the shell; of a stop and a continuation the
//! kernel keeps the one that was sent last. In any order of events both run in the end, or neither does:
//!
//! * Somebody else continues the shell (`kill -CONT $$` in a job of its own), or ends it while it is
//!   stopped, or it becomes a job: the front is continued before anything is said to it.
//! * The front is continued: it says so, and we continue the shell. Then our own continuation reaches a
//!   front that runs; it knows the sender and passes nothing on.
//! * The front is continued after the shell has stopped and before we have stopped the front: either it
//!   can say so before it is stopped, and both go on; or the stop takes the continuation away, and both
//!   stand as if that had come first. Whoever waits for the stop is never there.
//! * The shell stops again at once: the kernel tells us of that alone. The front runs, and is stopped.
//! * A key stopped both, in a group that they share: both were stopped, and both go on, without us.
//! * The terminal changes hands (an anchored shell): the front takes it back first, and then asks to be
//!   stopped, or stops its whole group itself by a signal that it has blocked. It looks at the shell when
//!   that signal is pending already: if the shell is still stopped then, the continuation is yet to
//!   come, and takes the signal away or wakes the front.
//! * The front has died: its end of the link is closed, and the handle is on nobody else.

use std::os::fd::OwnedFd;

use super::{Call, Front};
use crate::supervisor::setup::Setup;
use crate::supervisor::state::Phase;
use crate::sys::{proc, signal};
use crate::wire::ToFront;

/// A front that was stopped with the shell.
pub(super) struct StoppedFront {
    handle: OwnedFd,
    /// Not by whoever stopped the shell, who will continue both.
    by_us: bool,
}

fn is_stopped(pid: i32) -> bool {
    proc::state(pid) == Some(b'T')
}

impl Call {
    /// The shell was stopped by a signal, or goes on.
    pub(in crate::supervisor) fn shell_changed(&mut self, stopped: Option<i32>, setup: &Setup) {
        match stopped {
            Some(signal) => self.shell_stopped(signal, setup),
            None => self.front.continue_with_shell(),
        }
    }

    fn shell_stopped(&mut self, signal: i32, setup: &Setup) {
        // A key stops both, in a group that they share. The front has that signal before the shell has
        // stopped, so it hears of this only if it was not meant, or when all is over.
        let may_be_key = setup.shares_group && signal != libc::SIGSTOP;
        if !setup.is_anchored && !may_be_key {
            self.stop_front(signal, setup);
            return;
        }
        let heard = self.front.continues;
        if let Some(front) = self.hold_front(setup) {
            front.by_us |= setup.is_anchored;
            self.front.send(&ToFront::Stopped { signal, heard });
        }
    }

    /// Stops the front as the shell was stopped, if it still is.
    pub(super) fn stop_front(&mut self, signal: i32, setup: &Setup) {
        let (shell, front) = (self.shell.pid, self.front.pid);
        let goes_on = proc::state(shell).is_some() && !is_stopped(shell);
        // Elsewhere the front's group may be one in which nothing but STOP stops anybody.
        let signal = if setup.shares_group {
            signal
        } else {
            libc::SIGSTOP
        };
        if !goes_on
            && let Some(held) = self.hold_front(setup)
            && !is_stopped(front)
        {
            held.by_us = true;
            drop(proc::pidfd_send_signal(&held.handle, signal));
        }
    }

    /// A handle on the front. `None`: it is not to be stopped.
    fn hold_front(&mut self, setup: &Setup) -> Option<&mut StoppedFront> {
        let has_shell = self.phase == Phase::Foreground && !setup.is_run();
        let link = self.front.link().filter(|_| has_shell)?;
        if self.front.stopped.is_none() {
            let handle = proc::pidfd_open(self.front.pid).ok()?;
            if link.is_gone() {
                // Looked at after the handle was opened: that may be on a later process of this pid.
                return None;
            }
            let by_us = false;
            self.front.stopped = Some(StoppedFront { handle, by_us });
        }
        self.front.stopped.as_mut()
    }

    /// The front was continued.
    pub(super) fn continue_shell(&mut self, setup: &Setup) {
        self.front.continues = self.front.continues.wrapping_add(1);
        if !setup.shares_group {
            self.signal_group(libc::SIGCONT, setup);
        } else if self.shell.is_running() && is_stopped(self.shell.pid) {
            // Whoever continued the whole group has continued it, too; a second time would be seen.
            signal::signal_child(self.shell.pid, libc::SIGCONT);
        }
    }
}

impl Front {
    /// The shell goes on.
    fn continue_with_shell(&mut self) {
        if self.stopped.as_ref().is_some_and(|front| front.by_us) {
            self.wake();
        }
        self.stopped = None;
    }

    /// The shell has ended, or become a job: if the front was stopped with it, whoever did so has nobody
    /// to continue.
    pub(in crate::supervisor) fn wake(&mut self) {
        if let Some(front) = self.stopped.take() {
            drop(proc::pidfd_send_signal(&front.handle, libc::SIGCONT));
        }
    }
}

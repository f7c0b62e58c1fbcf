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

use super::{Phase, Supervisor};
use crate::handoff::ToFront;
use crate::sys::{proc, signal};

impl Supervisor {
    pub(super) fn shell_stopped(&mut self, signal: i32) {
        if !self.is_anchored {
            self.stop_front(signal);
            return;
        }
        let heard = self.continues;
        if self.hold_front()
            && let Some(link) = &mut self.link
        {
            link.tell(&ToFront::Stopped { signal, heard });
        }
    }

    /// Stops the front as the shell was stopped, if it still is.
    pub(super) fn stop_front(&mut self, signal: i32) {
        let is_stopped = |pid| proc::state(pid).is_some_and(|state| state == b'T');
        let goes_on = proc::state(self.shell.pid).is_some_and(|state| state != b'T');
        if goes_on || is_stopped(self.front) || !self.hold_front() {
            return;
        }
        // Elsewhere the front's group may be one in which nothing but STOP stops anybody.
        let signal = if self.shares_group {
            signal
        } else {
            libc::SIGSTOP
        };
        if let Some(front) = &self.stopped_front {
            drop(proc::pidfd_send_signal(front, signal));
        }
    }

    /// Opens a handle on the front, so that it can be continued. False: it is not to be stopped.
    fn hold_front(&mut self) -> bool {
        let has_shell = self.phase == Phase::Foreground && self.run.is_none();
        let Some(link) = self.link.as_ref().filter(|_| has_shell) else {
            return false;
        };
        if self.stopped_front.is_none() {
            let handle = proc::pidfd_open(self.front).ok();
            // Looked at after the handle was opened: it is not on a later process of that pid.
            self.stopped_front = handle.filter(|_| !link.is_gone());
        }
        self.stopped_front.is_some()
    }

    /// The shell goes on, or has ended.
    pub(super) fn continue_front(&mut self) {
        if let Some(front) = self.stopped_front.take() {
            drop(proc::pidfd_send_signal(&front, libc::SIGCONT));
        }
    }

    /// The front was continued.
    pub(super) fn continue_shell(&mut self) {
        self.continues = self.continues.wrapping_add(1);
        if !self.shares_group {
            self.signal_group(libc::SIGCONT);
        } else if self.shell.status.is_none() && proc::state(self.shell.pid) == Some(b'T') {
            // Whoever continued the whole group has continued it, too; a second time would be seen.
            signal::signal_child(self.shell.pid, libc::SIGCONT);
        }
    }
}

//! Our children: which have ended, stopped or gone on, and whose end that is.

use super::Supervisor;
use super::processes::Class;
use super::state::Event;
use crate::job::Evidence;
use crate::sys::process::{self, Change, ChangeKind};

impl Supervisor {
    pub(super) fn check_children(&mut self) {
        while let Ok(Some(change)) = process::peek_ended() {
            let ChangeKind::Ended(status) = change.kind else {
                break;
            };
            if self.note_end(&change, status) {
                process::reap(change.pid);
                self.notifications.forget_helper(change.pid);
            }
        }
        self.check_unwatched();
        while let Some(change) = process::take_stop() {
            self.note_stop(change.pid, change.kind);
        }
    }

    /// Gives whether the child may be reaped: a job is noted and looked at once more.
    fn note_end(&mut self, change: &Change, status: i32) -> bool {
        let pid = change.pid;
        if let Some(index) = self.jobs.running(pid) {
            self.finish(index, status, Some(change.usage), Evidence::WaitId);
            return true;
        }
        if pid == self.call.shell.pid {
            self.call.shell.set_status(status, change.usage);
            self.apply(Event::ShellEnded);
            return true;
        }
        self.read_front_to_end();
        if self.class_of_ended(pid, status) != Class::Stray {
            return true;
        }
        // Whoever ended it with its job has said so before.
        self.read_requests();
        if self.jobs.running(pid).is_some() {
            return false;
        }
        if self.class_of_ended(pid, status) == Class::Stray {
            self.record_dead_stray(pid, status, change.usage);
        }
        true
    }

    fn note_stop(&mut self, pid: i32, kind: ChangeKind) {
        let stopped = match kind {
            ChangeKind::Stopped(signal) => Some(signal),
            _ => None,
        };
        if let Some(index) = self.jobs.running(pid) {
            self.jobs[index].note_stop(stopped);
        } else if pid == self.call.shell.pid {
            self.call.shell_changed(stopped, &self.setup);
        }
    }
}

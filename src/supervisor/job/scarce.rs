//! Few descriptors: a job is watched over, recorded and captured only as far as those last that it takes
//! to the very end. One that is captured and then cannot be recorded would be worse than none.

use std::os::fd::AsRawFd;

use crate::store::LiveJob;
use crate::supervisor::Supervisor;
use crate::supervisor::publisher::Start;
use crate::sys::fds;

/// Kept free for what is opened for a moment: an answer, a read of `/proc`, a record.
const SPARE: usize = 4;
/// What the store takes, once.
const STORE: usize = 3;
/// What a record takes while its job runs: the directory and the lease, and a handle on the process.
const RECORD: usize = 3;
/// What a captured job takes on top: its transcript and the times, and two ends for each channel.
const TRANSCRIPT: usize = 2;
const CHANNEL: usize = 2;

/// With so many, and so many more for each job, nobody has to count.
const PLENTY: u64 = 64;
const PLENTY_FOR_A_JOB: u64 = 12;

/// What came from the front and goes as soon as the shell runs: its ends of two pipes, its signals.
const FRONT: usize = 3;

/// Whether there is any use in a supervisor: one job at least can be recorded, once the front's
/// descriptors and `pipes` of the shell's are closed. `fd` is any that is open.
pub(in crate::supervisor) fn can_begin(most: u64, pipes: usize, fd: i32) -> bool {
    most >= PLENTY || fds::are_free(SPARE + STORE + RECORD - FRONT - pipes, fd)
}

impl Supervisor {
    /// Whether nobody has to count, whatever comes next.
    pub(in crate::supervisor) fn has_plenty(&self) -> bool {
        let jobs = self.jobs.len() as u64;
        let needed = jobs.saturating_add(1).saturating_mul(PLENTY_FOR_A_JOB);
        self.setup.most_files >= needed.saturating_add(PLENTY)
    }

    fn has_room_for(&self, count: usize) -> bool {
        self.has_plenty() || {
            let store = if self.publisher.store().is_none() {
                STORE
            } else {
                0
            };
            fds::are_free(SPARE + store + count, self.poller.epoll.0.as_raw_fd())
        }
    }

    /// Whether a job's output can be captured by so many channels, and its end be recorded.
    pub(super) fn can_capture(&self, channels: usize) -> bool {
        self.has_room_for(RECORD + TRANSCRIPT + channels * CHANNEL)
    }

    /// Whether there is a descriptor to watch a process by.
    pub(super) fn can_watch(&self) -> bool {
        self.has_plenty() || fds::are_free(SPARE + 1, self.poller.epoll.0.as_raw_fd())
    }

    /// Publishes a job whose end can be recorded; `None` when nothing can be stored.
    pub(in crate::supervisor) fn publish(&mut self, start: &Start<'_>) -> Option<LiveJob> {
        if !self.has_room_for(RECORD) {
            return None;
        }
        self.publisher.publish(start)
    }
}

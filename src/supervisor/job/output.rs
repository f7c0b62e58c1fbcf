//! Reading what jobs write: into their transcripts, and to the call as long as that lasts.

use std::os::fd::AsRawFd;

use nix::sys::epoll::EpollFlags;

use super::Job;
use super::channel::{Output, STDERR, STDOUT};
use crate::supervisor::Supervisor;
use crate::supervisor::call::Flow;
use crate::sys::fds;

/// How much a job may write in one go after its end before we stop listening.
const MOST_AT_END: usize = 4 * 1024 * 1024;

/// Where a job's output also appears while the call lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mirror {
    Sink(usize),
    /// A channel of the job from which it was started: that one's transcript, and where that goes.
    Job(usize, usize),
}

impl Job {
    pub(super) fn mirrors_to(&self, sink: usize) -> bool {
        self.shown.mirrors.contains(&Some(Mirror::Sink(sink)))
    }

    /// Whether its stdout or stderr is the end of one of these channels.
    pub(super) fn writes_to(&self, output: &Output) -> bool {
        let streams = [1, 2].map(|fd| fds::object_of(self.pid, fd));
        output.find(&streams).is_some()
    }
}

impl Supervisor {
    /// The loop tells of a job's terminal: room for input, or output to read.
    pub(in crate::supervisor) fn terminal_ready(&mut self, index: usize, flags: EpollFlags) {
        if flags.contains(EpollFlags::EPOLLOUT) {
            self.type_at(index);
        }
        if flags.intersects(!EpollFlags::EPOLLOUT) {
            self.read_channel(index, STDOUT);
        }
    }

    /// The loop tells of the terminal that a job's stderr has for itself.
    pub(in crate::supervisor) fn errors_ready(&mut self, index: usize) {
        self.read_channel(index, STDERR);
    }

    /// Reads a channel of a job once, and gives how much there was.
    fn read_channel(&mut self, index: usize, number: usize) -> usize {
        if index >= self.jobs.len() {
            return 0;
        }
        let job = &mut self.jobs[index];
        let output = job.output.as_mut();
        let Some(channel) = output.and_then(|output| output.channel(number)) else {
            return 0;
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = buffer.fill(&channel.leader);
        let over = match &result {
            Ok(count) => *count == 0,
            // A pseudo-terminal that nobody has open any more answers EIO.
            Err(error) => error.raw_os_error() == Some(libc::EIO),
        };
        if over {
            job.watch_channel(&self.poller.epoll, number, EpollFlags::EPOLLIN, false);
        }
        let count = result.unwrap_or(0);
        if count > 0 {
            self.take_output(index, number, buffer.bytes(count));
        }
        self.buffer = buffer;
        count
    }

    /// Writes down what a job wrote, there and with those that it was started from, and shows it to the
    /// call, whether or not they have ended.
    fn take_output(&mut self, index: usize, number: usize, bytes: &[u8]) {
        let (mut at, mut channel) = (index, number);
        loop {
            let job = &mut self.jobs[at];
            if at == index || !job.ended {
                job.record_output(bytes);
            }
            match job.shown.mirrors[channel] {
                // Whoever started it was there before.
                Some(Mirror::Job(parent, of)) if parent < at => (at, channel) = (parent, of),
                Some(Mirror::Sink(sink)) => {
                    self.show_output(index, number, sink, bytes);
                    return;
                }
                _ => return,
            }
        }
    }

    fn show_output(&mut self, index: usize, number: usize, sink: usize, bytes: &[u8]) {
        let Some(is_terminal) = self.call.relay.is_terminal(sink) else {
            return;
        };
        let mut clean = Vec::new();
        let shown = if is_terminal {
            bytes
        } else {
            clean.reserve(bytes.len());
            self.jobs[index].shown.strips[number].push(bytes, &mut clean);
            &clean
        };
        if self.setup.is_run() {
            self.write_sink(sink, shown);
            return;
        }
        // A background job never holds the call: what the harness does not take in time is in the
        // transcript.
        let epoll = &self.poller.epoll;
        let (flow, wait) = self.call.relay.offer(sink, shown, epoll);
        if wait {
            let job = &mut self.jobs[index];
            job.shown.is_held = true;
            job.listen(epoll, false);
        }
        self.follow_flow(sink, flow);
    }

    /// Only `run --wait` holds its job back; other jobs go on whatever the harness reads.
    pub(in crate::supervisor) fn follow_flow(&mut self, sink: usize, flow: Flow) {
        if flow != Flow::Unchanged && self.setup.is_run() {
            let on = flow == Flow::GoOn;
            self.jobs.listen_to_mirrors(sink, &self.poller.epoll, on);
        }
    }

    /// Goes on with the jobs whose output waited, once the harness has read on, or does not read at all.
    pub(in crate::supervisor) fn resume_jobs(&mut self) {
        if self.jobs.any_held() && !self.call.relay.holds_jobs() {
            self.jobs.resume_held(&self.poller.epoll);
        }
    }

    /// Reads what a job wrote up to now. `poll` makes the kernel hand over what is still under way.
    pub(in crate::supervisor) fn drain_output(&mut self, index: usize) {
        let mut left = MOST_AT_END;
        while let Some(output) = &self.jobs[index].output {
            let leaders = output.channels().map(|channel| channel.leader.as_raw_fd());
            let ready = fds::wait_readable(&leaders.collect::<Vec<_>>(), 0);
            let channels = ready.iter().enumerate().filter(|(_, ready)| **ready);
            let count: usize = channels
                .map(|(number, _)| self.read_channel(index, number))
                .sum();
            if count == 0 || count >= left {
                break;
            }
            left -= count;
        }
    }
}

//! The call: passing its output on while the shell runs, and ending it once the shell has ended.

use std::time::Duration;

use nix::sys::epoll::EpollFlags;

use super::jobs::Job;
use super::stream::Sink;
use super::{DRAIN, LAUNCHING, Phase, REGISTRATION, Supervisor};
use crate::handoff::ToFront;
use crate::sys::{clock, process};

/// From the end of the call to the work that the harness need not wait for.
const SETTLING_DOWN: Duration = Duration::from_millis(10);

impl Supervisor {
    pub(super) fn handle_sink(&mut self, index: usize, flags: EpollFlags) {
        let Some(sink) = self.sinks.get_mut(index) else {
            return;
        };
        if flags.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP) {
            sink.gone = true;
        } else {
            sink.flush(&self.epoll);
        }
        if sink.gone {
            self.consumer_left(index);
        } else if !self.sinks[index].is_full() {
            self.listen_to_all(true, index);
        }
        self.let_jobs_go_on();
    }

    /// Nobody reads any more: whoever writes next must get SIGPIPE, as without us.
    pub(super) fn consumer_left(&mut self, index: usize) {
        self.sinks[index].unwatch(&self.epoll);
        for feed in &mut self.feeds {
            if feed
                .as_ref()
                .is_some_and(|feed| feed.sink == index && feed.owner.is_none())
            {
                *feed = None;
            }
        }
        self.listen_to_all(true, index);
    }

    /// Holds back, or goes on with, everything that writes to a sink.
    pub(super) fn listen_to_all(&mut self, on: bool, sink: usize) {
        for feed in self
            .feeds
            .iter_mut()
            .flatten()
            .filter(|feed| feed.sink == sink)
        {
            feed.listen(&self.epoll, on);
        }
        // Only `run --wait` holds its job back; other jobs go on whatever the harness reads.
        let held = self.run.is_some();
        for job in self
            .jobs
            .iter_mut()
            .filter(|job| held && job.mirrors_to(sink))
        {
            job.listen(&self.epoll, on);
        }
    }

    pub(super) fn write_sink(&mut self, index: usize, bytes: &[u8]) {
        let Some(sink) = self.sinks.get_mut(index) else {
            return;
        };
        sink.push(bytes, &self.epoll);
        if sink.gone {
            self.consumer_left(index);
        } else if sink.is_full() {
            self.listen_to_all(false, index);
        }
    }

    /// Reads a feed once. Returns whether there may be more at once.
    pub(super) fn read_feed(&mut self, index: usize) -> bool {
        let Some(Some(feed)) = self.feeds.get_mut(index) else {
            return false;
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = feed.read(&mut buffer);
        let more = match result {
            Ok(0) => {
                feed.listen(&self.epoll, false);
                self.last_tail = std::mem::take(&mut feed.tail);
                self.feeds[index] = None;
                false
            }
            Ok(count) => {
                let bytes = buffer.bytes(count);
                match feed.owner {
                    Some(owner) => self.jobs[owner].record_output(bytes),
                    None => {
                        feed.remember(bytes);
                        let sink = feed.sink;
                        self.write_sink(sink, bytes);
                    }
                }
                true
            }
            Err(error) => error.kind() == std::io::ErrorKind::Interrupted,
        };
        self.buffer = buffer;
        more
    }

    /// Reads whatever is in the feeds now; stops at a full sink.
    pub(super) fn drain_feeds(&mut self) {
        for index in 0..self.feeds.len() {
            let sink_is_full = |me: &Self| {
                me.feeds[index]
                    .as_ref()
                    .is_some_and(|f| me.sinks.get(f.sink).is_some_and(Sink::is_full))
            };
            while !sink_is_full(self) && self.read_feed(index) {}
        }
    }

    /// The next moment at which waiting for the end of the output stops.
    pub(super) fn settle_deadline(&self, since: Duration) -> Duration {
        let now = clock::boottime();
        if self.sinks.iter().any(Sink::is_behind) {
            return now + DRAIN;
        }
        [since + DRAIN, since + REGISTRATION, since + LAUNCHING]
            .into_iter()
            .find(|at| *at > now)
            .unwrap_or(since + LAUNCHING)
    }

    /// After the shell's end: decides whether the call is over, and ends it.
    pub(super) fn settle(&mut self) {
        let Phase::Settling(since) = self.phase else {
            return;
        };
        self.read_requests();
        self.drain_feeds();
        if self.sinks.iter().any(Sink::is_full) {
            // The harness is slow to read; its own pipe holds it, not ours to cut short.
            return;
        }
        if self.run.is_some() {
            let status = self.shell.status.map_or(125 << 8, |(status, _)| status);
            if self.owes_before_the_end() {
                self.linger_with(status);
                self.end_lingering();
            } else {
                self.finish_call(status);
            }
            return;
        }
        if self.is_being_killed() {
            return;
        }
        let mut any_strays = false;
        let any_children = !self.has_no_children();
        if any_children {
            let elapsed = clock::boottime().saturating_sub(since);
            let mut strays = self.strays(false);
            if self.expect_lone_job(&strays) {
                strays.clear();
            }
            if self.is_awaiting_registration(&strays, elapsed) {
                return;
            }
            let open = self.feeds.iter().flatten().any(|feed| feed.owner.is_none());
            // Also the last words of somebody who is ending by a signal.
            let someone = self.is_blind() || !strays.is_empty() || self.has_living_targets();
            let holds_pipe = open && someone && self.link.is_some();
            let passing = |&pid: &i32| self.is_unsettled(pid) || self.is_ending(pid);
            if elapsed < DRAIN && (holds_pipe || strays.iter().any(passing)) {
                return;
            }
            any_strays = !strays.is_empty();
        }
        if any_children || !self.jobs.is_empty() {
            // What a job wrote before this moment belongs to the call.
            for index in 0..self.jobs.len() {
                self.drain_tty(index);
            }
            self.drain_feeds();
            // A harness that reads on gets it all.
            let behind = |sink: &Sink| sink.is_behind() && !sink.has_stalled(DRAIN);
            if self.link.is_some() && self.sinks.iter().any(behind) {
                return;
            }
        }
        // Also for the terminals of jobs that have ended already.
        if any_strays || self.jobs.iter().any(|job| job.ended) {
            self.adopt_strays(true);
        }
        self.end_call();
    }

    fn end_call(&mut self) {
        let status = self.shell.status.map_or(125 << 8, |(status, _)| status);
        self.record_killed_foreground(status);
        let lives = self.jobs.iter().any(|job| !job.ended) || self.has_unseen();
        let stays = lives && self.lingers() || self.owes_before_the_end();
        if stays && self.link.is_some() {
            self.say_announcement();
            self.phase = Phase::Lingering;
            self.end_new_jobs();
            self.end_lingering();
            return;
        }
        self.say_announcement();
        self.finish_call(status);
    }

    /// Tells the front how to end and lets go of everything that is the harness's.
    pub(super) fn finish_call(&mut self, status: i32) {
        self.let_go_of_sinks();
        self.wake_front();
        if let Some(link) = &mut self.link {
            link.tell(&ToFront::Done(status));
            // On the same processor we would go on, and the front, and the harness with it, wait.
            process::give_way();
        }
        self.release();
    }

    fn let_go_of_sinks(&mut self) {
        for sink in &mut self.sinks {
            sink.unwatch(&self.epoll);
        }
        self.sinks.clear();
    }

    pub(super) fn release(&mut self) {
        self.let_go_of_sinks();
        self.drop_link();
        self.phase = Phase::Released;
        self.killing = None;
        self.expect_redirections();
        self.give_feeds_to_jobs();
        self.spares.clear();
        for job in &mut self.jobs {
            job.stop_mirroring();
            job.held = false;
            job.listen(&self.epoll, true);
        }
        // The front has the processor now: what the disk takes its time for comes after it.
        self.settle_down_at = Some(clock::boottime() + SETTLING_DOWN);
    }

    pub(super) fn settle_down(&mut self) {
        self.settle_down_at = None;
        self.jobs.iter_mut().for_each(Job::settle_down);
        self.ledger.tidy();
    }
}

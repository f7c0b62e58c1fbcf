//! After the shell's end: delivering what belongs to the call, and finding out when that is all.

use super::Reading;
use crate::supervisor::Supervisor;
use crate::supervisor::state::{self, DRAIN, Event, Leftovers, Phase};
use crate::supervisor::strays::is_blind;
use crate::supervisor::timers::Timer;
use crate::sys::clock;

impl Supervisor {
    /// Reads a feed once. Returns whether there may be more at once.
    pub(in crate::supervisor) fn read_feed(&mut self, index: usize) -> bool {
        let mut buffer = std::mem::take(&mut self.buffer);
        let reading = self.call.relay.read(index, &mut buffer, &self.poller.epoll);
        match reading {
            Reading::Nothing | Reading::Interrupted => {}
            Reading::Job { owner, count } => self.jobs[owner].record_output(buffer.bytes(count)),
            Reading::Foreground { sink, count } => self.write_sink(sink, buffer.bytes(count)),
        }
        self.buffer = buffer;
        reading != Reading::Nothing
    }

    /// Reads whatever is in the feeds now; stops at a full sink.
    pub(in crate::supervisor) fn drain_feeds(&mut self) {
        for index in 0..self.call.relay.feed_count() {
            while !self.call.relay.is_feed_held(index) && self.read_feed(index) {}
        }
    }

    pub(in crate::supervisor) fn write_sink(&mut self, sink: usize, bytes: &[u8]) {
        let flow = self.call.relay.write(sink, bytes, &self.poller.epoll);
        self.follow_flow(sink, flow);
    }

    /// Delivers what it can of the call's output, and ends the call once that is all.
    pub(in crate::supervisor) fn deliver(&mut self) {
        if self.call.phase != Phase::Delivering {
            return;
        }
        if self.has_delivered() {
            self.timers.cancel(Timer::CallCheck);
            self.apply(Event::Delivered);
            self.apply(Event::Recorded);
            return;
        }
        // A slow reader is waited for without a limit, as without us.
        let relay = &self.call.relay;
        let since = self.call.delivering_since;
        let at = (!relay.is_full())
            .then(|| state::next_check(since, clock::boottime(), relay.is_behind()));
        self.timers.set_to(Timer::CallCheck, at);
    }

    fn has_delivered(&mut self) -> bool {
        self.read_requests();
        self.drain_feeds();
        if self.call.relay.is_full() {
            // The harness is slow to read; its own pipe holds it, not ours to cut short.
            return false;
        }
        if self.setup.is_run() {
            return true;
        }
        if self.is_foreground_dying() {
            return false;
        }
        let any_children = !self.has_no_children();
        let mut any_strays = false;
        if any_children {
            let mut strays = self.strays(false);
            if self.expect_lone_job(&strays) {
                strays.clear();
            }
            if state::is_held(&self.leftovers(&strays)) {
                return false;
            }
            any_strays = !strays.is_empty();
        }
        if any_children || !self.jobs.is_empty() {
            // What a job wrote before this moment belongs to the call.
            for index in 0..self.jobs.len() {
                self.drain_output(index);
            }
            self.drain_feeds();
            // A harness that reads on gets it all.
            if self.call.front.is_there() && self.call.relay.is_catching_up(DRAIN) {
                return false;
            }
        }
        // Also for the terminals of jobs that have ended already.
        if any_strays || self.jobs.iter().any(|job| job.has_ended()) {
            self.adopt_strays(true);
        }
        true
    }

    fn leftovers(&self, strays: &[i32]) -> Leftovers {
        let elapsed = clock::boottime().saturating_sub(self.call.delivering_since);
        let limits = strays
            .iter()
            .filter_map(|&pid| self.registration_limit(pid));
        let registration = limits.max();
        // Also the last output of somebody who is ending by a signal.
        let someone = || is_blind() || !strays.is_empty() || self.call.kill.has_living_targets();
        let holds_pipe =
            self.call.relay.has_open_feeds() && self.call.front.is_there() && someone();
        let passing = |&pid: &i32| self.was_just_started(pid) || self.is_ending(pid);
        // Asking the kernel takes time: nobody is asked whose answer would change nothing.
        let is_passing = elapsed < DRAIN && !holds_pipe && strays.iter().any(passing);
        Leftovers {
            elapsed,
            registration,
            holds_pipe,
            is_passing,
        }
    }
}

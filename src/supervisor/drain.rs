//! The container stops, or its command has ended: PID 1 tells every supervisor to end what it has.

use std::time::Duration;

use super::Supervisor;
use super::job::Limit;
use super::state::Event;
use super::timers::Timer;
use crate::sys::signal::Arrived;
use crate::sys::{clock, session};
use crate::wire::END_JOBS;

/// What PID 1 asked for last.
#[derive(Default)]
pub(super) struct Drain {
    until: Duration,
}

impl Drain {
    /// When KILL follows TERM, since boot.
    pub(super) fn until(&self) -> Duration {
        self.until
    }
}

impl Supervisor {
    /// A signal for us came beside those of our children. Only whoever reaps us may end our jobs by one.
    pub(super) fn take_signal(&mut self, arrived: &Arrived) {
        if arrived.signal == END_JOBS && arrived.sender == session::parent_pid() {
            let grace = Duration::from_millis(u64::try_from(arrived.value).unwrap_or(0));
            let until = clock::boottime().saturating_add(grace);
            self.drain = Drain { until };
            self.apply(Event::DrainRequested);
        }
    }

    /// TERM for every job now, KILL then. Asked again, it only hurries.
    pub(super) fn end_jobs(&mut self, until: Duration) {
        let grace = until.saturating_sub(clock::boottime());
        for index in 0..self.jobs.len() {
            if self.jobs[index].has_ended() {
                continue;
            }
            if self.jobs[index].has_timed_out() {
                self.timers.set_earlier(Timer::JobDeadline(index), until);
            } else {
                self.end_job(index, Limit::Drain, grace);
            }
        }
    }
}

//! The container stops, or its command has ended: PID 1 tells every supervisor to end what it has.

use std::time::Duration;

use super::{Phase, Supervisor};
use crate::handoff::END_JOBS;
use crate::sys::signal::Arrived;
use crate::sys::{clock, session};

impl Supervisor {
    /// A signal for us came beside those of our children. Only whoever reaps us may end our jobs by one.
    pub(super) fn take_signal(&mut self, arrived: &Arrived) {
        if arrived.signal == END_JOBS && arrived.sender == session::parent_pid() {
            let grace = u64::try_from(arrived.value).unwrap_or(0);
            self.drain(Duration::from_millis(grace));
        }
    }

    /// Ends jobs and a foreground that still runs: TERM now, KILL after `grace`. Asked again, it only
    /// hurries.
    fn drain(&mut self, grace: Duration) {
        let until = clock::boottime().saturating_add(grace);
        self.drain_jobs(grace);
        self.drain_foreground(until);
    }

    pub(super) fn drain_jobs(&mut self, grace: Duration) {
        let until = clock::boottime().saturating_add(grace);
        for index in 0..self.jobs.len() {
            let job = &mut self.jobs[index];
            if job.ended {
                continue;
            }
            if job.timed_out.is_none() {
                self.end_job(index, "drain", grace);
            } else if job.deadline.is_none_or(|at| until < at) {
                job.deadline = Some(until);
            }
        }
    }

    fn drain_foreground(&mut self, until: Duration) {
        if self.phase != Phase::Foreground || self.run.is_some() {
            return;
        }
        let draining = self
            .killing
            .as_ref()
            .filter(|killing| killing.by == "drain");
        let earlier = draining.and_then(|killing| killing.escalate_at);
        if draining.is_none() {
            let mut killing = self.new_killing(libc::SIGTERM, "drain");
            killing.escalate_at = Some(until);
            self.killing = Some(killing);
            self.signal_foreground(libc::SIGTERM);
        } else if let (Some(at), Some(killing)) = (earlier, &mut self.killing) {
            killing.escalate_at = Some(at.min(until));
        }
    }
}

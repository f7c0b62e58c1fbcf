//! A call that stays for its jobs, because everything here ends with it: the front is PID 1 of its
//! namespace, or a sandbox was made for the call.
//!
//! Whoever stops such a call stops its jobs: they are told to end at once, and the call is over when they
//! have ended, their records are written and their subscribers were notified. How each of them ended is
//! said. What follows from what is decided by `state`.

use std::time::Duration;

use super::Supervisor;
use super::call::end_said;
use super::state::{Event, Phase};
use super::timers::Timer;
use crate::job::Outcome;
use crate::sys::clock;

/// From TERM to KILL for jobs where the front is PID 1: Docker kills after 10 seconds.
const CONTAINER: Duration = Duration::from_secs(8);
/// The same in a sandbox whose harness kills its call soon.
const SANDBOX: Duration = Duration::from_secs(1);
/// How long notifications may hold a call after its last job.
const NOTIFYING: Duration = Duration::from_secs(10);
/// The same when the call was told to end: counted from KILL.
const NOTIFYING_STOPPED: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Linger {
    /// `Some` iff the jobs were told to end with the call: when KILL follows, since boot.
    kill_at: Option<Duration>,
}

impl Linger {
    pub(super) fn is_stopped(&self) -> bool {
        self.kill_at.is_some()
    }
}

impl Supervisor {
    /// Whether the front stays when the call is over.
    pub(super) fn has_to_stay(&self) -> bool {
        if self.setup.is_run() {
            return self.owes_before_the_end();
        }
        let stays = || self.has_living_jobs() && self.setup.lingers() || self.owes_before_the_end();
        self.call.front.is_there() && stays()
    }

    /// Whether it stays with the job that `run` has started.
    pub(super) fn stays_with_run(&self) -> bool {
        self.jobs.start_status() == 0 && self.setup.lingers_for_run()
    }

    /// Whether somebody is to be notified of an end, and could not be later.
    fn owes_before_the_end(&self) -> bool {
        self.notifications.is_due()
            && self.setup.dies_with_the_call()
            && self.publisher.store().is_some_and(|store| store.may_owe())
    }

    /// Whether a call whose jobs have ended waits for what is still to be done about that.
    pub(super) fn is_notifying(&self) -> bool {
        let notifies = || self.notifications.are_under_way() && self.setup.dies_with_the_call();
        self.timers.is_set(Timer::RetryRecords) || notifies()
    }

    /// TERM for all jobs, and KILL when the time is over that this place has.
    pub(super) fn stop_jobs(&mut self) {
        let grace = if self.setup.is_init() {
            CONTAINER
        } else {
            SANDBOX
        };
        let kill_at = clock::boottime() + grace;
        let kill_at = *self.linger.kill_at.get_or_insert(kill_at);
        self.end_jobs_with_call(kill_at);
    }

    /// KILL for what is left of them.
    pub(super) fn hurry_jobs(&mut self) {
        let now = clock::boottime();
        self.linger.kill_at = Some(now);
        self.end_jobs_with_call(now);
    }

    fn end_jobs_with_call(&mut self, kill_at: Duration) {
        self.end_jobs(kill_at);
        let limit = kill_at + NOTIFYING_STOPPED;
        self.timers.hasten(Timer::Notifications, limit);
    }

    /// Says how a job ended that the call stays for.
    pub(super) fn say_end(&mut self, index: usize, outcome: &Outcome, ended: Duration) {
        if self.call.phase().tells_ends() && self.setup.settings.announce {
            let text = end_said(&self.jobs[index], outcome, ended, &self.setup);
            self.call.front.print(text);
        }
    }

    /// A lingering call ends with its last job, once those were notified who want to know.
    pub(super) fn check_lingering(&mut self) {
        if self.call.phase() != Phase::Lingering {
            return;
        }
        if self.has_living_jobs() {
            // A stray may have become one meanwhile.
            self.timers.cancel(Timer::Notifications);
        } else {
            self.apply(Event::NoJobsLeft);
        }
    }

    /// Notifications get their time once, from the end of the last job.
    pub(super) fn await_notifications(&mut self) {
        if self.timers.is_set(Timer::Notifications) {
            return;
        }
        let now = clock::boottime();
        let limit = match self.linger.kill_at {
            Some(kill_at) => kill_at.max(now) + NOTIFYING_STOPPED,
            None => now + NOTIFYING,
        };
        self.timers.set(Timer::Notifications, limit);
    }

    /// Their time is over.
    pub(super) fn end_notifications(&mut self) {
        if !self.has_living_jobs() {
            self.apply(Event::NotificationsOverdue);
        }
    }
}

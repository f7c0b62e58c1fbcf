//! Notifications about our jobs: subscribers are entered when the call is over, and notified by a helper
//! process once something ended. The supervisor itself delivers nothing: it must not wait for anybody.

use super::Supervisor;
use super::timers::Timer;
use crate::notify::start;
use crate::store::outbox::Subscription;
use crate::sys::process::{self, Image};

#[derive(Default)]
pub(super) struct Notifications {
    /// How many of the jobs have had their subscribers entered.
    subscribed: usize,
    /// Something ended that somebody may want to hear of.
    is_due: bool,
    /// Processes that deliver; no jobs, no strays.
    helpers: Vec<i32>,
}

impl Notifications {
    /// Something ended.
    pub(super) fn note_end(&mut self) {
        self.is_due = true;
    }

    pub(super) fn is_helper(&self, pid: i32) -> bool {
        self.helpers.contains(&pid)
    }

    /// A process that was ours has been reaped.
    pub(super) fn forget_helper(&mut self, pid: i32) {
        self.helpers.retain(|helper| *helper != pid);
    }

    /// Whether something ended that nobody was notified of yet.
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    pub(super) fn are_under_way(&self) -> bool {
        !self.helpers.is_empty()
    }
}

impl Supervisor {
    /// Enters the subscribers of new jobs, and has a job followed where somebody wants to hear of its
    /// output. After the call, so that it costs the call nothing.
    pub(super) fn subscribe_jobs(&mut self) {
        if !self.call.phase().is_after_call() {
            return;
        }
        let mut reported = false;
        while self.notifications.subscribed < self.jobs.len() {
            let job = &self.jobs[self.notifications.subscribed];
            self.notifications.subscribed += 1;
            let (Some(store), Some(live)) = (self.publisher.store(), job.live()) else {
                continue;
            };
            if job.has_ended_in_call() {
                continue;
            }
            start::enlist(store, &self.setup.settings.notify, live.id());
            if !store.has_subscriptions() {
                continue;
            }
            let session = live.launch().facts.session.as_deref();
            let subs = store.subscriptions();
            let covers = |sub: &&Subscription| sub.standing && sub.covers(session);
            let wanted = subs.iter().filter(covers).any(Subscription::watches);
            // A subscription that was made for jobs by name may have asked for this one just now.
            reported |= subs
                .iter()
                .any(|sub| sub.of_running && (covers(&sub) || !sub.standing));
            if wanted {
                let image = start::image(store.path(), &[live.id().as_str()]);
                self.start_helper(&image);
            }
        }
        if let Some(store) = self.publisher.store().filter(|_| reported) {
            let image = start::image(store.path(), &[]);
            self.start_helper(&image);
        }
    }

    /// Starts the helper that delivers, if something ended and somebody subscribed. After the disk has
    /// confirmed the records: nobody outside may know of an end that a power cut takes back.
    pub(super) fn notify(&mut self) {
        if self.timers.is_set(Timer::Housekeeping) && !self.notifications.is_due {
            // The call has only just ended; there is nothing to deliver yet.
            return;
        }
        self.subscribe_jobs();
        if !self.notifications.is_due || !self.call.phase().is_after_call() {
            return;
        }
        self.notifications.is_due = false;
        let Some(store) = self.publisher.store().filter(|s| s.may_owe()) else {
            return;
        };
        let image = start::image(store.path(), &[]);
        self.start_helper(&image);
    }

    fn start_helper(&mut self, image: &Image) {
        self.use_all_processors();
        let helper = process::spawn_helper(image);
        self.notifications.helpers.extend(helper);
    }
}

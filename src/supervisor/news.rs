//! Who wants to hear of our jobs: they are entered when the call is over, and told by a helper process
//! once something ended. The supervisor itself delivers nothing: it must not wait for anybody.

use super::{Phase, Supervisor};
use crate::notify::start;
use crate::store::outbox::Subscription;
use crate::sys::process::{self, Image};

impl Supervisor {
    pub(super) fn is_helper(&self, pid: i32) -> bool {
        self.helpers.contains(&pid) || super::strays::is_supervisor(pid)
    }

    /// Enters new jobs with those who are to be told of their end, and has them followed where
    /// somebody wants to hear of their output. After the call, so that it costs the call nothing.
    pub(super) fn introduce_jobs(&mut self) {
        if self.phase != Phase::Released {
            return;
        }
        let mut reported = false;
        while self.introduced < self.jobs.len() {
            let job = &self.jobs[self.introduced];
            self.introduced += 1;
            let (Some(store), Some(live)) = (self.ledger.store(), &job.live) else {
                continue;
            };
            if job.ended_in_call {
                continue;
            }
            start::enlist(store, &self.settings.notify, live.id());
            if !store.has_subscriptions() {
                continue;
            }
            let session = live.launch().session.as_deref();
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
        if let Some(store) = self.ledger.store().filter(|_| reported) {
            let image = start::image(store.path(), &[]);
            self.start_helper(&image);
        }
    }

    /// Starts the helper that delivers, if there is news and somebody to tell. After the disk has
    /// confirmed the records: nobody outside may know of an end that a power cut takes back.
    pub(super) fn spread_news(&mut self) {
        if self.settle_down_at.is_some() && !self.news {
            // The call has only just ended; nothing is to be told yet.
            return;
        }
        self.introduce_jobs();
        if !self.news || self.phase != Phase::Released {
            return;
        }
        self.news = false;
        let Some(store) = self.ledger.store().filter(|s| s.may_owe()) else {
            return;
        };
        let image = start::image(store.path(), &[]);
        self.start_helper(&image);
    }

    fn start_helper(&mut self, image: &Image) {
        self.use_all_processors();
        self.helpers.extend(process::spawn_helper(image));
    }
}

//! Following a running job for those who subscribed to its output: lines that match, and signs of
//! life. It sleeps in the kernel until the job writes or ends, and leaves with it.
//!
//! A job can write a million lines that match. So there is one notice in 15 seconds with all that came
//! meanwhile, and after eight there are no more, which the last one says.

mod event;
mod subscriber;

use std::time::Duration;

use crate::follow::lines::Lines;
use crate::follow::output::{self, Position};
use crate::follow::sleep::{Event as Woken, Sleeper};
use crate::job::JobId;
use crate::store::outbox::{Claim, Subscription};
use crate::store::{JobView, Store};
use subscriber::Subscriber;

/// Between two notices of one job's output.
pub(crate) const EVERY: Duration = Duration::from_secs(15);
/// So many notices of one job's output there are.
pub(crate) const MOST: u32 = 8;

/// Follows a job for all standing subscriptions to its output; `only` for that of this name, from there on.
///
/// A subscription that is made while a job's call still lasts is found by whoever made it and by the
/// job's supervisor: the first of them follows.
pub(crate) fn follow(store: &Store, id: &JobId, only: Option<(&str, Position)>) {
    let Ok(Some(job)) = store.load(id) else {
        return;
    };
    let session = job.launch.facts.session.as_deref();
    let mut claims = Vec::new();
    let mut subs = store.subscriptions();
    subs.retain(|sub| {
        let meant = only.is_none_or(|(name, _)| sub.name == name);
        let watches = meant && sub.standing && sub.watches() && sub.covers(session);
        let claim = watches.then(|| store.claim(&sub.name, &format!("{id}.follow")));
        match claim {
            None => false,
            Some(Ok(Ok(claim))) => {
                claims.push(claim);
                true
            }
            Some(Ok(Err(_))) => false,
            // Notified twice beats not at all.
            Some(Err(_)) => true,
        }
    });
    run_from(store, &job, &subs, only.map(|(_, from)| from));
    claims.into_iter().for_each(Claim::forget);
}

/// Follows a job for these subscribers until it ends.
pub(crate) fn run(store: &Store, job: &JobView, subs: &[Subscription]) {
    run_from(store, job, subs, None);
}

fn run_from(store: &Store, job: &JobView, subs: &[Subscription], from: Option<Position>) {
    let mut subscribers: Vec<Subscriber<'_>> = subs.iter().filter_map(Subscriber::new).collect();
    if subscribers.is_empty() || job.state.is_terminal() {
        return;
    }
    let Ok((sources, _)) = output::sources(job) else {
        return;
    };
    let mut lines = Lines::new(sources);
    // If what was written before cannot be passed over, nor can the rest be read.
    if from.is_some_and(|from| lines.skip_to(from).is_err()) {
        return;
    }
    let mut sleeper = Sleeper::new();
    lines.watch(&mut sleeper, 0);
    sleeper.watch_end(job, 0);
    let mut total = 0;
    loop {
        let read = lines.read_on(|seen| {
            subscribers
                .iter_mut()
                .for_each(|subscriber| subscriber.check(seen));
        });
        total = u64::saturating_add(total, read.unwrap_or(0));
        for subscriber in &mut subscribers {
            subscriber.notify(store, job, total);
        }
        subscribers.retain(|subscriber| !subscriber.is_done());
        if subscribers.is_empty() {
            return;
        }
        if lines.is_behind {
            continue;
        }
        let due = subscribers.iter().filter_map(Subscriber::due).min();
        let woken = sleeper.sleep(due);
        // What came last is in the notice of the end.
        if woken.iter().any(|woken| matches!(woken, Woken::Ended(..))) {
            return;
        }
    }
}

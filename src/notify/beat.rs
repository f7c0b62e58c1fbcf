//! Signs of life for those who are elsewhere: that a job has started, and, every 20 seconds, that it still runs. A machine
//! that vanishes says nothing any more, and that is how its jobs are known to be lost.
//!
//! One helper process beats for all jobs of a store, whoever started it; it holds a lock for each subscriber and leaves
//! with the last job. The supervisors sleep on.

use std::collections::HashSet;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::deliver::{Attempt, carry};
use super::{Event, Sink, broker, send};
use crate::error::Result;
use crate::job::record;
use crate::job::{How, JobId};
use crate::store::outbox::Subscription;
use crate::store::{JobView, Store};
use crate::sys::{clock, fsx};

/// Between two signs of life of one job.
pub(crate) const EVERY: Duration = Duration::from_secs(20);
/// After so long without one, a job is believed to be lost.
pub(crate) const LIFETIME: Duration = Duration::from_secs(60);
const TYPE: &str = "dev.agent-sh.job.beat.v1";

/// Tells that a job has started, if this is news. Everything else of a job comes after it.
pub(super) fn tell_start(
    store: &Store,
    sub: &Subscription,
    job: &JobView,
    limit: Duration,
    now: bool,
) -> Result<Attempt> {
    // A killed command was never started as a job.
    if !job.launch_known || job.launch.facts.how == How::Foreground {
        return Ok(Attempt::Settled);
    }
    let eid = format!("{}.start", job.id());
    carry(store, sub, &eid, job, limit, now, || {
        Some(Event {
            json: store.event(&eid)?.to_string(),
            notice: String::new(),
            id: eid.clone(),
        })
    })
}

/// Beats until no job of this subscriber runs, unless somebody else does.
pub(super) fn beat(store: &Store, sub: &Subscription) {
    let Ok(Sink::Broker(url)) = sub.sink.parse() else {
        return;
    };
    let Some(_held) = store.hold_beat(&sub.name) else {
        return;
    };
    let (tell, ended) = mpsc::channel();
    let mut watched: HashSet<JobId> = HashSet::new();
    loop {
        let wanted = store.subscription(&sub.name).is_some() && store.disabled(&sub.name).is_none();
        let jobs = match store.reported(sub) {
            Ok(jobs) if wanted && !jobs.is_empty() => jobs,
            _ => return,
        };
        let next = Instant::now() + EVERY;
        for job in &jobs {
            // What fails is tried again with the next beat.
            let told = tell_start(store, sub, job, broker::LIMIT, true);
            if matches!(told, Ok(Attempt::Settled)) {
                drop(send(sub, &event(job), Some(job), broker::LIMIT));
            }
            if watched.insert(job.id().clone()) {
                await_end(job, &tell);
            }
        }
        // The last end lets us go at once; a new job waits for the next beat, for its start was told by its own helper.
        let mut running: HashSet<JobId> = jobs.iter().map(|job| job.id().clone()).collect();
        while let Ok(id) = ended.recv_timeout(next.saturating_duration_since(Instant::now())) {
            running.remove(&id);
            watched.remove(&id);
            broker::forget(&url, &id);
            if running.is_empty() {
                break;
            }
        }
    }
}

/// Says when a job has ended. Without a thread it is found out with the next beat.
fn await_end(job: &JobView, tell: &mpsc::Sender<JobId>) {
    let (job, tell) = (job.clone(), tell.clone());
    let wait = move || {
        drop(job.wait(None));
        drop(tell.send(job.id().clone()));
    };
    let thread = std::thread::Builder::new().stack_size(256 * 1024);
    drop(thread.spawn(wait));
}

fn event(job: &JobView) -> Event {
    let now = clock::wall();
    let launch = &job.launch;
    let millis = now
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, record::millis);
    let id = format!("{}.beat.{millis}", launch.id);
    let mut json = json!({
        "specversion": "1.0",
        "id": id,
        "source": record::source_of(launch, fsx::euid()),
        "type": TYPE,
        "subject": launch.id,
        "time": record::rfc3339(now),
        "datacontenttype": "application/json",
        "data": {
            "job": launch.id,
            "state": job.state,
            "started_at": launch.facts.started_at,
            "duration_ms": job.duration_ms(),
            "bytes_total": job.bytes_total(),
            "degraded": job.degraded,
            "lifetime_ms": record::millis(LIFETIME),
        },
    });
    // CloudEvents has no null attributes.
    if let Some(session) = &launch.facts.session {
        json["correlationid"] = session.clone().into();
    }
    Event {
        id,
        json: json.to_string(),
        notice: String::new(),
    }
}

//! Whether the agent of a job's session was told of its end: one marker per job.
//!
//! Many ways lead to an agent: a `wait` that it called itself, a hook of its harness, a wake-up from
//! outside. Whoever is first claims the telling; the others find it claimed and stay silent.

use std::io;
use std::time::{Duration, Instant};

use crate::store::jobs::view::JobView;
use crate::store::outbox::claim::{Held, Taken, hold};
use crate::store::outbox::untold;
use crate::sys::fsx;

const TELLING: &str = "telling";
const TOLD: &str = "told";
/// A `wait` has reported the end, to whoever called it.
const WAITED: &str = "waited";

/// The right to tell the agent. Dropped without [`ToldClaim::done`], it goes back.
#[derive(Debug)]
pub(crate) struct ToldClaim {
    /// `Some` until it is given back or done.
    held: Option<Held>,
    job: JobView,
}

/// How far the telling is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Not,
    /// Somebody is at it now.
    Now,
    Done,
}

/// Claims the telling of this job's end to the agent of its session. `None`: it was told, is being
/// told, or the job is gone.
#[must_use]
pub(crate) fn claim(job: &JobView) -> Option<ToldClaim> {
    try_claim(job).ok()
}

/// The same, with the reason for a refusal.
pub(crate) fn try_claim(job: &JobView) -> Result<ToldClaim, Told> {
    let dir = || fsx::open_dir(&job.dir);
    let (Ok(claims), Ok(look)) = (dir(), dir()) else {
        return Err(Told::Done);
    };
    let settled = || fsx::stat_at(&look, TOLD).is_ok();
    match hold(claims, TELLING, settled) {
        Ok(Ok(held)) => Ok(ToldClaim {
            held: Some(held),
            job: job.clone(),
        }),
        Ok(Err(Taken::Settled)) => Err(Told::Done),
        Ok(Err(Taken::Held)) => Err(Told::Now),
        // No marker can be made (a full disk): better later than over and over.
        Err(_) => Err(Told::Not),
    }
}

/// How long somebody who is at it may take to give the claim back, and how often we look.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(60);

/// The same, and waits a little for somebody who holds the claim and may give it back.
#[must_use]
pub(crate) fn claim_patiently(job: &JobView) -> Option<ToldClaim> {
    let end = Instant::now() + PATIENCE;
    loop {
        match try_claim(job) {
            Ok(claim) => return Some(claim),
            Err(Told::Now) if Instant::now() < end => std::thread::park_timeout(PAUSE),
            Err(_) => return None,
        }
    }
}

/// Whether it was told, without claiming anything.
#[must_use]
pub(crate) fn is_told(job: &JobView) -> bool {
    fsx::open_dir(&job.dir).is_ok_and(|dir| fsx::stat_at(&dir, TOLD).is_ok())
}

/// Whether a `wait` has reported it.
#[must_use]
pub(crate) fn is_waited(job: &JobView) -> bool {
    fsx::open_dir(&job.dir).is_ok_and(|dir| fsx::stat_at(&dir, WAITED).is_ok())
}

/// A `wait` has reported it. Where that cannot be noted, the next one reports it again.
pub(crate) fn mark_waited(job: &JobView) {
    drop(fsx::open_dir(&job.dir).and_then(|dir| fsx::create_at(&dir, WAITED)));
    if job.launch.facts.session.is_none() {
        // Whoever waited is the one who makes the calls, as far as anybody can tell.
        untold::forget_end(&job.dir, &job.launch);
    }
}

/// It turned out that the words did not get there: the end is to be told again.
pub(crate) fn take_back(job: &JobView) -> io::Result<()> {
    fsx::unlink_at(&fsx::open_dir(&job.dir)?, TOLD)
}

impl ToldClaim {
    /// The agent was told.
    pub(crate) fn done(mut self) -> io::Result<()> {
        let Some(held) = self.held.take() else {
            return Ok(());
        };
        let settled = held.settle(&fsx::open_dir(&self.job.dir)?, TOLD);
        untold::forget_end(&self.job.dir, &self.job.launch);
        settled
    }
}

impl Drop for ToldClaim {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.forget();
        }
    }
}

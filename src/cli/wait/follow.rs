//! `wait --follow`: every job of a session, as they start and end, until somebody stops it.
//!
//! The kernel tells of new jobs (their directories appear by a rename) and of ends (leases); between
//! them it sleeps. What had ended before is past, unless it was promised to this subscriber.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use super::args::Wait;
use crate::cli::wait::TIMED_OUT;
use crate::cli::wait::notify::{Audience, is_news};
use crate::error::Result;
use crate::follow::sleep::{Event, Watch};
use crate::store::JobView;
use crate::store::outbox::acknowledged;

/// The number under which the places of new jobs are watched; that of a job is its place in the list.
const HOMES: usize = usize::MAX;

pub(super) fn follow(audience: &mut Audience<'_>, wait: &Wait) -> Result<u8> {
    let session = wait
        .tell
        .session
        .clone()
        .or_else(|| audience.context.session());
    let deadline = wait.timeout.map(|time| Instant::now() + time);
    audience.context.open_store()?;
    let mut watch = Watch::new()?;
    for dir in audience.context.job_dirs() {
        watch.add_entries(&dir, HOMES);
    }
    let mut running: Vec<JobView> = Vec::new();
    let mut known: BTreeSet<PathBuf> = BTreeSet::new();
    let mut first = true;
    loop {
        for job in audience.context.jobs()? {
            let ours = session.is_none() || job.launch.facts.session == session;
            if !ours || !known.insert(job.dir.clone()) {
                continue;
            }
            if job.state.is_terminal() {
                let wanted = if first {
                    audience.owes(&job)?
                } else {
                    is_news(&job)
                };
                if wanted {
                    audience.want(&job)?;
                    end(audience, &job)?;
                }
                continue;
            }
            audience.want(&job)?;
            audience.follow(&job)?;
            watch.add_end(&job, running.len())?;
            running.push(job);
        }
        first = false;
        for event in watch.next(deadline) {
            if let Event::Ended(place, waited) = event {
                end(audience, &crate::cli::ended(&running[place], waited?)?)?;
            }
        }
        if deadline.is_some_and(|at| at <= Instant::now()) {
            return Ok(TIMED_OUT);
        }
    }
}

/// One end. What the agent of our own session knows is not said to it again.
fn end(audience: &mut Audience<'_>, job: &JobView) -> Result<()> {
    let ours = audience.context.session().is_some()
        && audience.context.session() == job.launch.facts.session;
    let known = ours && (acknowledged::is_told(job) || !is_news(job));
    audience.deliver(job, !known).map(drop)
}

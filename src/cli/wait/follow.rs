//! `wait --follow`: every job of a session, as they start and end, until somebody stops it.
//!
//! Between them it sleeps. What had ended before is past, unless it is pending for this subscriber.

use std::time::Instant;

use super::TIMED_OUT;
use super::args::Wait;
use super::subscribers::{Subscribers, is_news};
use crate::error::Result;
use crate::follow::session::SessionJobs;
use crate::store::JobView;
use crate::store::outbox::acknowledged;

pub(super) fn follow(subscribers: &mut Subscribers<'_>, wait: &Wait) -> Result<u8> {
    let context = subscribers.context;
    let session = wait.delivery.session.clone().or_else(|| context.session());
    let deadline = wait.timeout.map(|time| Instant::now() + time);
    context.open_store()?;
    let stores = context.stores();
    let mut jobs = SessionJobs::new(&stores, session.as_deref());
    let mut is_first = true;
    loop {
        for job in jobs.take_new()? {
            let is_wanted = match job.state.is_terminal() {
                true if is_first => subscribers.have_pending(&job)?,
                true => is_news(&job),
                false => true,
            };
            if is_wanted {
                subscribers.add_job(&job)?;
            }
            if is_wanted && job.state.is_terminal() {
                deliver(subscribers, &job)?;
            }
        }
        is_first = false;
        for (job, waited) in jobs.sleep(&[], deadline).0 {
            deliver(subscribers, &crate::cli::ended(&job, waited?)?)?;
        }
        if deadline.is_some_and(|at| at <= Instant::now()) {
            return Ok(TIMED_OUT);
        }
    }
}

/// One end. What the agent of our own session knows is not printed for it again.
fn deliver(subscribers: &mut Subscribers<'_>, job: &JobView) -> Result<()> {
    let session = subscribers.context.session();
    let ours = session.is_some() && session == job.launch.facts.session;
    let is_known = ours && (acknowledged::is_told(job) || !is_news(job));
    subscribers.deliver(job, !is_known).map(drop)
}

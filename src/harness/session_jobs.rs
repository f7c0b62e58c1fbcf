//! The jobs of one session as its agent is notified of them: those that run, those whose end is news,
//! and the wait for the next end.

use std::time::{Duration, Instant};

use nix::poll::PollFd;

use crate::context::Context;
use crate::error::Result;
use crate::follow::session::SessionJobs;
use crate::job::JobId;
use crate::job::notice;
use crate::notify::agent;
use crate::store::outbox::acknowledged::{self, ToldClaim};
use crate::store::{JobView, Store, Waited};
use crate::text;

/// How long an end waits for others, so that what ends together is in one notice.
const TOGETHER: Duration = Duration::from_millis(60);
/// At most so many ends are described in full at once.
const MOST: usize = 12;

/// The jobs of a session in all stores, as they are now.
pub(super) struct Jobs {
    pub(super) running: Vec<JobView>,
    /// Ended, and the agent may not know yet.
    pub(super) ended: Vec<JobView>,
}

impl Jobs {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.ended.is_empty()
    }
}

pub(super) fn jobs_of(stores: &[Store], session: &str) -> Result<Jobs> {
    let mut jobs = Vec::new();
    for store in stores {
        jobs.extend(store.jobs_of(session)?);
    }
    Ok(sorted(jobs))
}

fn sorted(jobs: Vec<JobView>) -> Jobs {
    let (mut ended, running): (Vec<JobView>, Vec<JobView>) =
        jobs.into_iter().partition(|job| job.state.is_terminal());
    ended.retain(is_news);
    Jobs { running, ended }
}

/// Whether the agent is to be notified of this end: it did not see it, did not cause it, and has not
/// acknowledged it.
fn is_news(job: &JobView) -> bool {
    job.record.is_some() && agent::is_no_news(job).is_none() && !acknowledged::is_told(job)
}

/// Ends that were claimed, with their text. Nobody else reports them until this is dropped.
pub(super) struct Report {
    claims: Vec<ToldClaim>,
    headlines: Vec<String>,
    pub(super) jobs: Vec<JobId>,
    pub(super) text: String,
}

impl Report {
    /// Claims what can be claimed. `None`: others have reported, or are reporting, all of it.
    pub(super) fn claim(context: &Context, ended: &[JobView]) -> Option<Self> {
        let mut claims = Vec::new();
        let mut texts = Vec::new();
        let mut headlines = Vec::new();
        let mut jobs = Vec::new();
        for job in ended {
            let (Some(claim), Some(record)) = (acknowledged::claim_patiently(job), &job.record)
            else {
                continue;
            };
            claims.push(claim);
            headlines.push(notice::headline(record));
            jobs.push(job.id().clone());
            if claims.len() <= MOST {
                let program = program(context);
                let tail = record.data.tail.clone().unwrap_or_default();
                let reader = notice::Reader { program: &program };
                texts.push(notice::text(record, &tail, reader).trim_end().to_owned());
            } else {
                texts.push(notice::headline(record));
            }
        }
        (!claims.is_empty()).then(|| Self {
            claims,
            headlines,
            jobs,
            text: texts.join("\n\n"),
        })
    }

    /// The facts alone, one a line, for a person.
    pub(super) fn headlines(&self) -> String {
        self.headlines.join("\n")
    }

    /// The agent has it. A marker that cannot be written means that it may be notified again.
    pub(super) fn done(self) {
        self.claims.into_iter().for_each(|claim| drop(claim.done()));
    }
}

/// The program as the agent's shell can call it.
pub(super) fn program(context: &Context) -> String {
    let path = context.env("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join("agent-sh").is_file());
    let own = std::env::args_os().next().unwrap_or_default();
    match own.to_str() {
        Some(own) if !found && own.starts_with('/') => text::quote(own.as_bytes()),
        _ => "agent-sh".to_owned(),
    }
}

/// Waits for ends of a session's jobs, also of those that start while it waits.
pub(super) struct Watch<'a> {
    jobs: SessionJobs<'a>,
    /// One of these is ready when there is nobody left to notify.
    client: Vec<PollFd<'a>>,
}

impl<'a> Watch<'a> {
    /// Begins to wait, and gives the jobs that there are now. Once one of `client` is ready, there is
    /// nobody left to notify.
    pub(super) fn start(
        stores: &'a [Store],
        session: &'a str,
        client: Vec<PollFd<'a>>,
    ) -> Result<(Self, Jobs)> {
        let mut jobs = SessionJobs::new(stores, Some(session));
        let now = sorted(jobs.take_new()?);
        Ok((Self { jobs, client }, now))
    }

    /// The ends that are news, as soon as there are some. Empty: nothing runs any more, the client has
    /// gone, or the deadline is over.
    pub(super) fn next(&mut self, deadline: Option<Instant>) -> Result<Vec<JobView>> {
        let mut ended = Vec::new();
        let mut limit = deadline;
        while self.jobs.running() > 0 || !ended.is_empty() {
            let mut new = Vec::new();
            let (over, is_client_gone) = self.jobs.sleep(&self.client, limit);
            if is_client_gone {
                return Ok(Vec::new());
            }
            for (job, waited) in over {
                new.push(match waited {
                    Ok(Waited::Ended(ended)) => *ended,
                    // Removed, or unreadable: nothing can be said of it.
                    _ => job,
                });
            }
            new.extend(self.jobs.take_new()?);
            new.retain(|job| job.state.is_terminal() && is_news(job));
            if !new.is_empty() && ended.is_empty() {
                let together = Instant::now() + TOGETHER;
                limit = Some(limit.map_or(together, |limit| limit.min(together)));
            }
            ended.append(&mut new);
            if limit.is_some_and(|limit| Instant::now() >= limit) {
                break;
            }
        }
        Ok(ended)
    }
}

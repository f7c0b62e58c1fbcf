//! The jobs of one session as its agent should hear of them: those that run, those whose end is news,
//! and the wait for the next end.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::JobId;
use crate::job::notice;
use crate::notify::agent;
use crate::store::outbox::acknowledged::{self, ToldClaim};
use crate::store::{JobView, Store, Waited};
use crate::text;

/// How long an end waits for others, so that what ends together is told together.
const TOGETHER: Duration = Duration::from_millis(60);
/// Enough for a record to be read.
const STACK: usize = 512 * 1024;
/// At most so many ends are told in full at once.
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
    let mut jobs = Jobs {
        running: Vec::new(),
        ended: Vec::new(),
    };
    for store in stores {
        for job in store.jobs_of(session)? {
            if !job.state.is_terminal() {
                jobs.running.push(job);
            } else if is_news(&job) {
                jobs.ended.push(job);
            }
        }
    }
    Ok(jobs)
}

/// Whether the agent should hear of this end: of what it has not seen, did not do, and was not told.
fn is_news(job: &JobView) -> bool {
    job.record.is_some() && agent::is_no_news(job).is_none() && !acknowledged::is_told(job)
}

/// Ends that were claimed, with their text. Nobody else tells them until this is dropped.
pub(super) struct Telling {
    claims: Vec<ToldClaim>,
    headlines: Vec<String>,
    pub(super) jobs: Vec<JobId>,
    pub(super) text: String,
}

impl Telling {
    /// Claims what can be claimed. `None`: others have told, or are telling, all of it.
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

    /// The agent has it. A marker that cannot be written means that it may hear of it again.
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

enum Event {
    Ended(Box<JobView>),
    New(usize, JobId),
    ClientGone,
}

/// Waits for ends of a session's jobs, also of those that start while it waits.
pub(super) struct Watch<'a> {
    stores: &'a [Store],
    session: &'a str,
    events: Receiver<Event>,
    sender: Sender<Event>,
    /// How many jobs are waited for.
    running: usize,
    known: Vec<JobId>,
}

impl<'a> Watch<'a> {
    /// Starts to look for new jobs, then lists those there are: none falls in between. `gone` blocks
    /// until there is nobody left to tell.
    pub(super) fn start(
        stores: &'a [Store],
        session: &'a str,
        gone: impl FnOnce() + Send + 'static,
    ) -> Result<(Self, Jobs)> {
        let (sender, events) = mpsc::channel();
        for (place, store) in stores.iter().enumerate() {
            // Without it, jobs that start later are found by the next hook.
            let Ok(arrivals) = store.arrivals() else {
                continue;
            };
            let sender = sender.clone();
            spawn(move || {
                while let Ok(ids) = arrivals.next() {
                    for id in ids {
                        drop(sender.send(Event::New(place, id)));
                    }
                }
            })?;
        }
        let tell = sender.clone();
        spawn(move || {
            gone();
            drop(tell.send(Event::ClientGone));
        })?;
        let jobs = jobs_of(stores, session)?;
        let mut watch = Self {
            stores,
            session,
            events,
            sender,
            running: 0,
            known: Vec::new(),
        };
        for job in &jobs.running {
            watch.follow(job)?;
        }
        Ok((watch, jobs))
    }

    fn follow(&mut self, job: &JobView) -> Result<()> {
        if self.known.contains(job.id()) {
            return Ok(());
        }
        self.known.push(job.id().clone());
        self.running += 1;
        let (sender, job) = (self.sender.clone(), job.clone());
        spawn(move || {
            let ended = match job.wait(None) {
                Ok(Waited::Ended(ended)) => ended,
                // Removed, or unreadable: nothing can be told of it.
                _ => Box::new(job),
            };
            drop(sender.send(Event::Ended(ended)));
        })
    }

    /// The ends that are news, as soon as there are some. Empty: nothing runs any more, the client has
    /// gone, or the deadline is over.
    pub(super) fn next(&mut self, deadline: Option<Instant>) -> Result<Vec<JobView>> {
        let mut ended = Vec::new();
        let mut limit = deadline;
        while self.running > 0 || !ended.is_empty() {
            let event = match limit {
                None => self
                    .events
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
                Some(limit) => self
                    .events
                    .recv_timeout(limit.saturating_duration_since(Instant::now())),
            };
            match event {
                Ok(Event::Ended(job)) => {
                    self.running -= 1;
                    if is_news(&job) {
                        ended.push(*job);
                        limit = Some(limit.map_or(Instant::now() + TOGETHER, |limit| {
                            limit.min(Instant::now() + TOGETHER)
                        }));
                    }
                }
                Ok(Event::New(place, id)) => self.arrived(place, &id, &mut ended)?,
                Ok(Event::ClientGone) => return Ok(Vec::new()),
                Err(_) => break,
            }
        }
        Ok(ended)
    }

    fn arrived(&mut self, place: usize, id: &JobId, ended: &mut Vec<JobView>) -> Result<()> {
        let Some(Ok(Some(job))) = self.stores.get(place).map(|store| store.load(id)) else {
            return Ok(());
        };
        if job.launch.facts.session.as_deref() != Some(self.session) || self.known.contains(id) {
            return Ok(());
        }
        if job.state.is_terminal() {
            self.known.push(id.clone());
            if is_news(&job) {
                ended.push(job);
            }
            return Ok(());
        }
        self.follow(&job)
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = thread::Builder::new().stack_size(STACK).spawn(work);
    started
        .map(drop)
        .map_err(|source| Error::sys("start a thread", source))
}

//! The jobs of a session in all stores, as they start and end.

use std::collections::HashSet;
use std::time::Instant;

use nix::poll::PollFd;

use super::sleep::{Event, Sleeper};
use crate::error::Result;
use crate::job::JobId;
use crate::store::{JobView, Store, Waited};

/// The number under which the stores are watched; that of a job is its place in the list.
const STORES: usize = usize::MAX;

pub(crate) struct SessionJobs<'a> {
    stores: &'a [Store],
    /// `None`: all sessions.
    session: Option<&'a str>,
    sleeper: Sleeper,
    /// What was seen in each of the stores.
    known: Vec<HashSet<JobId>>,
    /// There may be jobs that were not seen yet.
    has_new: bool,
    /// Every job that ran when it was seen.
    jobs: Vec<JobView>,
    running: usize,
}

impl<'a> SessionJobs<'a> {
    /// Jobs that start from now on are noticed.
    pub(crate) fn new(stores: &'a [Store], session: Option<&'a str>) -> Self {
        let mut sleeper = Sleeper::new();
        for store in stores {
            sleeper.watch_entries(&store.jobs_path(), STORES);
        }
        Self {
            stores,
            session,
            sleeper,
            known: vec![HashSet::new(); stores.len()],
            has_new: true,
            jobs: Vec::new(),
            running: 0,
        }
    }

    /// The jobs that were not given yet, also those that have ended. Of the others the end is waited for.
    pub(crate) fn take_new(&mut self) -> Result<Vec<JobView>> {
        let mut new = Vec::new();
        if !std::mem::take(&mut self.has_new) {
            return Ok(new);
        }
        for (store, known) in self.stores.iter().zip(&mut self.known) {
            new.extend(store.new_jobs(self.session, known)?);
        }
        for job in new.iter().filter(|job| !job.state.is_terminal()) {
            self.sleeper.watch_end(job, self.jobs.len());
            self.jobs.push(job.clone());
            self.running += 1;
        }
        Ok(new)
    }

    /// How many jobs are waited for.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Blocks until a job has ended or there are new ones, one of `others` is ready, or the time is over.
    /// Gives the jobs that have ended, each as it was seen before, and whether one of `others` is ready.
    pub(crate) fn sleep(
        &mut self,
        others: &[PollFd<'_>],
        until: Option<Instant>,
    ) -> (Vec<(JobView, Result<Waited>)>, bool) {
        let mut ended = Vec::new();
        let (events, ready) = self.sleeper.sleep_with(others, until);
        for event in events {
            match event {
                Event::Changed(_) => self.has_new = true,
                Event::Ended(number, waited) => {
                    self.running -= 1;
                    ended.push((self.jobs[number].clone(), waited));
                }
            }
        }
        (ended, ready.contains(&true))
    }
}

//! Waiting for the jobs of one session on behalf of its agent: one process at a time.

use std::collections::HashSet;
use std::io;

use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::job::JobId;
use crate::store::jobs::list::sort;
use crate::store::jobs::view::JobView;
use crate::store::outbox::claim::{Held, hold};
use crate::store::{Store, root};
use crate::sys::{fsx, lock};

const DIR: &str = "waiters";

/// The right to wait. The kernel frees it with its holder; it leaves nothing behind.
#[derive(Debug)]
pub struct Waiter {
    /// `Some` until it is dropped.
    held: Option<Held>,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.forget();
        }
    }
}

/// A session's key is text of others; a name must be plain.
pub(in crate::store) fn name_of(session: &str) -> String {
    let hash = Sha256::digest(session.as_bytes());
    hash.iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl Store {
    /// Takes the right to wait for this session's jobs. `None`: another process waits already.
    pub fn hold_waiter(&self, session: &str) -> io::Result<Option<Waiter>> {
        let dir = root::inner(&self.base, DIR, true).map_err(io::Error::other)?;
        let held = hold(dir, &name_of(session), || false)?;
        Ok(held.ok().map(|held| Waiter { held: Some(held) }))
    }

    /// The kept jobs of one session, the newest last. Those of others are not looked into.
    pub fn jobs_of(&self, session: &str) -> Result<Vec<JobView>> {
        self.new_jobs(Some(session), &mut HashSet::new())
    }

    /// The same without those in `known`, to which all jobs are added; of every session if none is given.
    pub fn new_jobs(
        &self,
        session: Option<&str>,
        known: &mut HashSet<JobId>,
    ) -> Result<Vec<JobView>> {
        let is_wanted = |id: &JobId| {
            let label = || self.label(id);
            session.is_none() || label().is_some_and(|label| label.session.as_deref() == session)
        };
        let new = self.ids()?.into_iter();
        let new = new.filter(|id| known.insert(id.clone()) && is_wanted(id));
        let mut jobs: Vec<JobView> = new.filter_map(|id| self.load(&id).ok()?).collect();
        sort(&mut jobs);
        Ok(jobs)
    }
}

/// Whether a process waits now on behalf of the agent of this job's session.
#[must_use]
pub(crate) fn is_waited_for(job: &JobView) -> bool {
    let base = job.dir.parent().and_then(std::path::Path::parent);
    let (Some(base), Some(session)) = (base, &job.launch.facts.session) else {
        return false;
    };
    let dir = fsx::open_dir(&base.join(DIR));
    let file = dir.and_then(|dir| fsx::open_at(&dir, name_of(session).as_str()));
    file.is_ok_and(|file| lock::is_written(&file).unwrap_or(false))
}

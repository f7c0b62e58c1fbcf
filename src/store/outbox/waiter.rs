//! Waiting for the jobs of one session on behalf of its agent: one process at a time, and it learns of
//! jobs that start meanwhile.

use std::io;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
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
        let ours = |id: &JobId| {
            let label = self.label(id);
            label.is_some_and(|label| label.session.as_deref() == Some(session))
        };
        let ids = self.ids()?.into_iter().filter(ours);
        let mut jobs: Vec<JobView> = ids.filter_map(|id| self.load(&id).ok()?).collect();
        sort(&mut jobs);
        Ok(jobs)
    }

    /// Tells of jobs that are published from now on.
    pub fn arrivals(&self) -> io::Result<Arrivals> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC)?;
        let wanted =
            AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_ONLYDIR;
        inotify.add_watch(&self.path.join("v1/jobs"), wanted)?;
        Ok(Arrivals { inotify })
    }
}

/// Whether a process waits now to tell the agent of this job's session.
#[must_use]
pub fn is_waited_for(job: &JobView) -> bool {
    let base = job.dir.parent().and_then(std::path::Path::parent);
    let (Some(base), Some(session)) = (base, &job.launch.facts.session) else {
        return false;
    };
    let dir = fsx::open_dir(&base.join(DIR));
    let file = dir.and_then(|dir| fsx::open_at(&dir, name_of(session).as_str()));
    file.is_ok_and(|file| lock::is_written(&file).unwrap_or(false))
}

/// New jobs of all sessions.
#[derive(Debug)]
pub struct Arrivals {
    inotify: Inotify,
}

impl Arrivals {
    /// Blocks until there are some. Names that are none of ours are left out.
    pub fn next(&self) -> io::Result<Vec<JobId>> {
        let events = self.inotify.read_events()?;
        let names = events.into_iter().filter_map(|event| event.name);
        Ok(names
            .filter_map(|name| name.to_str()?.parse().ok())
            .collect())
    }
}

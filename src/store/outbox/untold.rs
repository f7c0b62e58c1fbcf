//! Ends that an agent may still have to be told of, for each session or caller: what the agent's next
//! command looks at. An entry is a hint; whether the agent was told, the job's own marker says.
//!
//! ```text
//! v1/tell/<key>/<job>   it has ended
//! ```
//!
//! Both directories go when they are empty, so that a command which has nothing to tell finds nothing.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::job::JobId;
use crate::job::record::{Launch, Record};
use crate::settings::Settings;
use crate::store::outbox::waiter::name_of;
use crate::store::{Store, root};
use crate::sys::fsx;

const DIR: &str = "tell";
/// How often an entry is tried whose directory another process is just removing.
const TRIES: usize = 8;

impl Store {
    /// The stores in which something may be to tell. One look each, and nothing is opened where there is
    /// nothing.
    pub fn with_untold(settings: &Settings, env: impl Fn(&str) -> Option<OsString>) -> Vec<Self> {
        let candidates = root::candidates(settings, &env);
        let paths = candidates.iter().map(root::path_of);
        paths
            .filter(|path| fsx::stat_path(&path.join("v1").join(DIR)).is_ok())
            .filter_map(|path| Self::at(&path).ok())
            .collect()
    }

    /// What is noted for this key, the oldest jobs first.
    #[must_use]
    pub fn untold(&self, key: &str) -> Vec<JobId> {
        let dir = directory(&self.base, key, false);
        let names = dir.and_then(|dir| fsx::names(&dir)).unwrap_or_default();
        let mut found: Vec<JobId> = names
            .iter()
            .filter_map(|name| name.to_str()?.parse().ok())
            .collect();
        found.sort();
        found
    }

    /// Takes an entry away, and its directories if it was the last.
    pub fn forget_untold(&self, key: &str, id: &JobId) {
        forget(&self.base, key, id);
    }

    /// Removes entries of jobs that are gone.
    pub(in crate::store) fn sweep_untold(&self) {
        let Ok(all) = root::inner(&self.base, DIR, false) else {
            return;
        };
        for key in fsx::names(&all).unwrap_or_default() {
            let Some(key) = key.to_str() else { continue };
            let Ok(dir) = root::inner(&all, key, false) else {
                continue;
            };
            for name in fsx::names(&dir).unwrap_or_default() {
                let id = name.to_str().and_then(|name| name.parse::<JobId>().ok());
                let is_kept = id.is_some_and(|id| self.job_path(&id).exists());
                if !is_kept && let Some(name) = name.to_str() {
                    fsx::unlink_at(&dir, name).ok();
                }
            }
            fsx::remove_dir_at(&all, key).ok();
        }
        fsx::remove_dir_at(&self.base, DIR).ok();
    }
}

/// Notes the end of a job for whoever's next command is to tell it, unless it is no news.
pub(in crate::store) fn note_end(job_dir: &Path, launch: &Launch, record: &Record) {
    let Some(key) = launch.teller().filter(|_| record.is_no_news().is_none()) else {
        return;
    };
    if let Some(base) = base_of(job_dir) {
        // What cannot be noted is told some other way, or found by whoever looks.
        drop(note(&base, &key, &launch.id));
    }
}

/// The end of a job was told, or is to be told no more.
pub(in crate::store) fn forget_end(job_dir: &Path, launch: &Launch) {
    if let (Some(key), Some(base)) = (launch.teller(), base_of(job_dir)) {
        forget(&base, &key, &launch.id);
    }
}

/// The directory of the store that a job is in.
fn base_of(job_dir: &Path) -> Option<OwnedFd> {
    fsx::open_dir(job_dir.parent()?.parent()?).ok()
}

fn note(base: &OwnedFd, key: &str, id: &JobId) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for _ in 0..TRIES {
        let made =
            directory(base, key, true).and_then(|dir| fsx::create_at(&dir, id.as_str()).map(drop));
        match made {
            // Another process has just removed the directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => last = error,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            other => return other,
        }
    }
    Err(last)
}

fn forget(base: &OwnedFd, key: &str, id: &JobId) {
    let Ok(dir) = directory(base, key, false) else {
        return;
    };
    fsx::unlink_at(&dir, id.as_str()).ok();
    // They go only if they are empty.
    if let Ok(all) = root::inner(base, DIR, false)
        && fsx::remove_dir_at(&all, name_of(key).as_str()).is_ok()
    {
        fsx::remove_dir_at(base, DIR).ok();
    }
}

fn directory(base: &OwnedFd, key: &str, make: bool) -> io::Result<OwnedFd> {
    let missing = |_| io::Error::from(io::ErrorKind::NotFound);
    let all = root::inner(base, DIR, make).map_err(missing)?;
    root::inner(&all, name_of(key).as_str(), make).map_err(missing)
}

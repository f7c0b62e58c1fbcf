//! Taking away what is no longer wanted: ended jobs, and what a crash left behind.
//!
//! When a job is old enough is the caller's decision. Here it is only made sure that nothing is
//! taken that somebody owns: a job goes through `.trash`, by one rename, so that no reader sees half
//! of it. Its output goes at once, its record a while later: whoever waits for the job has its
//! directory open, and still reads there how it ended.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::sys::stat::FileStat;

use crate::error::{Error, Result};
use crate::job::JobId;
use crate::store::jobs::files::{self, Content};
use crate::store::{Store, root};
use crate::sys::{clock, fsx, lock};

/// What is being made or removed for so long was left behind by a crash.
pub(in crate::store) const ABANDONED: Duration = Duration::from_secs(3600);
/// So long a removed record can still be read by those who had opened its job.
const LAST_LOOK: Duration = Duration::from_secs(60);
/// What stays for that time.
const RECORD: [&str; 2] = ["run.json", "exit.json"];

impl Store {
    /// Removes an ended job. `false`: it is not there, has not ended, or somebody still owns it.
    pub fn remove(&self, id: &JobId) -> Result<bool> {
        let failed = |source| {
            Error::io(
                "remove",
                &self.path.join("v1/jobs").join(id.as_str()),
                source,
            )
        };
        let dir = match fsx::open_dir_at(&self.jobs, id.as_str()) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        // Not while somebody judges it.
        drop(lock::exclusive(&dir));
        let ended = fsx::stat_at(&dir, "exit.json").is_ok();
        if !ended || is_owned(&dir) {
            return Ok(false);
        }
        let trash = root::inner(&self.base, ".trash", true).map_err(|why| Error::Failed {
            text: format!("cannot remove job '{id}': {why}"),
            hint: None,
        })?;
        // Its id must never come again. A disk that is too full to note that is to be cleared all the
        // same; then only a clock that is set back could bring it again.
        drop(self.raise_floor(std::iter::once(id)));
        let name = format!("{id}.{:08x}", fsx::random());
        match fsx::rename_new_at(&self.jobs, id.as_str(), &trash, name.as_str()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        }
        self.forget_markers(id);
        empty(&dir, &RECORD).map_err(failed)?;
        Ok(true)
    }

    /// Removes what crashes left in `tmp` and `.trash`, and says how many.
    pub fn sweep(&self) -> Result<u64> {
        self.sweep_after(ABANDONED, LAST_LOOK)
    }

    pub(in crate::store) fn sweep_after(
        &self,
        abandoned: Duration,
        last_look: Duration,
    ) -> Result<u64> {
        let mut swept = 0;
        self.sweep_names(|stat| is_old(stat, abandoned));
        self.sweep_clients();
        self.sweep_untold();
        for (place, age) in [("tmp", abandoned), (".trash", last_look)] {
            let Ok(parent) = root::inner(&self.base, place, false) else {
                continue;
            };
            let names = fsx::names(&parent)
                .map_err(|source| Error::io("list", &self.path.join("v1").join(place), source))?;
            for name in names.iter().filter_map(|name| name.to_str()) {
                let Ok(dir) = fsx::open_dir_at(&parent, name) else {
                    continue;
                };
                let old = fsx::stat_of(&dir).is_ok_and(|stat| is_old(&stat, age));
                if old && !is_owned(&dir) && empty_and_remove(&parent, name).is_ok() {
                    swept += 1;
                }
            }
        }
        Ok(swept + self.sweep_outbox())
    }
}

/// Whether somebody holds the lease. A launch that cannot be asked counts as owned only if it exists.
fn is_owned(dir: &OwnedFd) -> bool {
    match files::read(dir, "run.json") {
        Ok(Content::Bytes(_, file)) => lock::is_written(&file).unwrap_or(true),
        Ok(Content::Missing | Content::Unfit) => false,
        Err(_) => true,
    }
}

/// Unchanged for long. A clock that went back makes nothing old.
pub(in crate::store) fn is_old(stat: &FileStat, age: Duration) -> bool {
    let changed = Duration::from_secs(stat.st_ctime.unsigned_abs());
    clock::wall()
        .duration_since(std::time::UNIX_EPOCH)
        .is_ok_and(|now| now.saturating_sub(changed) >= age)
}

/// Removes the plain files of a directory, but for some. A directory within would be a stranger's,
/// and stops it.
fn empty(dir: &OwnedFd, but: &[&str]) -> io::Result<()> {
    for file in fsx::names(dir)? {
        if but.iter().any(|name| file == *name) {
            continue;
        }
        match fsx::unlink_at(dir, file.as_os_str()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn empty_and_remove(parent: impl AsFd, name: &str) -> io::Result<()> {
    empty(&fsx::open_dir_at(parent.as_fd(), name)?, &[])?;
    fsx::remove_dir_at(parent, name)
}

//! Taking away what is no longer wanted: ended jobs, and what a crash left behind.
//!
//! When a job is old enough is the caller's decision. Here it is only made sure that nothing is
//! taken that somebody owns: a job goes through `.trash`, by one rename, so that no reader sees half
//! of it, and whoever has it open can read on.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::files::{self, Content};
use super::{Store, root};
use crate::error::{Error, Result};
use crate::job::JobId;
use crate::sys::{clock, fsx, lock};

/// What is being made or removed for so long was left behind by a crash.
const ABANDONED: Duration = Duration::from_secs(3600);

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
        let name = format!("{id}.{:08x}", fsx::random());
        match fsx::rename_new_at(&self.jobs, id.as_str(), &trash, name.as_str()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        }
        self.forget_markers(id);
        empty_and_remove(&trash, &name).map_err(failed)?;
        Ok(true)
    }

    /// Removes what crashes left in `tmp` and `.trash`, and says how many.
    pub fn sweep(&self) -> Result<u64> {
        let mut swept = 0;
        for place in ["tmp", ".trash"] {
            let Ok(parent) = root::inner(&self.base, place, false) else {
                continue;
            };
            let names = fsx::names(&parent)
                .map_err(|source| Error::io("list", &self.path.join("v1").join(place), source))?;
            for name in names.iter().filter_map(|name| name.to_str()) {
                let Ok(dir) = fsx::open_dir_at(&parent, name) else {
                    continue;
                };
                if is_old(&dir) && !is_owned(&dir) && empty_and_remove(&parent, name).is_ok() {
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
pub(super) fn is_old(dir: &OwnedFd) -> bool {
    let Ok(stat) = fsx::stat_of(dir) else {
        return false;
    };
    let changed = Duration::from_secs(stat.st_ctime.unsigned_abs());
    clock::wall()
        .duration_since(std::time::UNIX_EPOCH)
        .is_ok_and(|now| now.saturating_sub(changed) > ABANDONED)
}

/// Removes a directory of plain files. A directory within would be a stranger's, and stops it.
fn empty_and_remove(parent: impl AsFd, name: &str) -> io::Result<()> {
    let dir = fsx::open_dir_at(parent.as_fd(), name)?;
    for file in fsx::names(&dir)? {
        match fsx::unlink_at(&dir, file.as_os_str()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fsx::remove_dir_at(parent, name)
}

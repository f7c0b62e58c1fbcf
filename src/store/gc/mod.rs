//! Which ended jobs are no longer wanted. What is removed, and how, is in `sweep`.

pub(super) mod sweep;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::error::Result;
use crate::job::JobId;
use crate::settings::Settings;
use crate::store::{JobView, Store};
use crate::sys::{clock, fsx, lock};

/// How often a supervisor clears up at its end.
const EVERY: Duration = Duration::from_secs(3600);
/// What it never removes: `ps` still shows it, and somebody may be about to ask how it ended.
const FRESH: Duration = Duration::from_secs(3600);
const MARK: &str = "gc.last";

/// What may stay.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Jobs that ended longer ago are removed.
    pub keep: Duration,
    /// Of the others the oldest are removed until all together have no more bytes than this.
    pub max_bytes: u64,
    /// But none that ended less than this ago.
    pub fresh: Duration,
    /// Only look.
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It ended longer ago than `keep`.
    Old,
    /// All together are larger than `max_bytes`.
    Large,
}

#[derive(Clone, Debug)]
pub struct Removed {
    pub job: JobView,
    pub bytes: u64,
    pub why: Why,
}

/// What was done, or would be.
#[derive(Debug, Default)]
pub struct Collected {
    pub removed: Vec<Removed>,
    /// Jobs that stay, and their bytes.
    pub kept: usize,
    pub kept_bytes: u64,
    /// Of these, how many have not ended, and how many still owe a notice.
    pub running: usize,
    pub owing: usize,
    /// What crashes had left behind.
    pub swept: u64,
    /// Jobs that could not be removed, and why.
    pub failed: Vec<String>,
}

impl Store {
    /// Removes what the policy does not want to keep; never a job that runs, or that somebody is
    /// still to be told of.
    pub fn collect(&self, policy: &Policy) -> Result<Collected> {
        let mut done = Collected::default();
        // The oldest first: they are the first to go.
        let mut left: Vec<(JobView, u64, Duration)> = Vec::new();
        let owed = self.undelivered();
        for job in self.jobs()? {
            let bytes = self.bytes_of(job.id());
            done.kept += 1;
            done.kept_bytes = done.kept_bytes.saturating_add(bytes);
            if !job.state.is_terminal() || job.record.is_none() {
                done.running += usize::from(!job.state.is_terminal());
            } else if owed.contains(job.id()) {
                done.owing += 1;
            } else {
                let age = job.settled_age().unwrap_or_default();
                left.push((job, bytes, age));
            }
        }
        left.sort_by_key(|(_, _, age)| std::cmp::Reverse(*age));
        let too_large = done.kept_bytes > policy.max_bytes;
        let may_go = |age: &Duration| *age >= policy.keep || (too_large && *age >= policy.fresh);
        if !policy.dry_run {
            // Once for all of them: each would ask the disk.
            let ids = left.iter().filter(|(_, _, age)| may_go(age));
            drop(self.raise_floor(ids.map(|(job, ..)| job.id())));
        }
        let mut gone = Vec::new();
        for (job, bytes, age) in left {
            let why = if age >= policy.keep {
                Why::Old
            } else if done.kept_bytes > policy.max_bytes && age >= policy.fresh {
                Why::Large
            } else {
                continue;
            };
            if !policy.dry_run {
                match self.remove(job.id()) {
                    Ok(true) => gone.push(job.id().clone()),
                    Ok(false) => continue,
                    Err(error) => {
                        done.failed.push(error.to_string());
                        continue;
                    }
                }
            }
            done.kept -= 1;
            done.kept_bytes = done.kept_bytes.saturating_sub(bytes);
            done.removed.push(Removed { job, bytes, why });
        }
        if !policy.dry_run {
            // Without this they are unknown instead of gone, which is no reason to stop.
            drop(self.bury(&gone));
            done.swept = self.sweep()?;
        }
        Ok(done)
    }

    /// Clears up if that was not done for an hour. For a supervisor that is about to leave: nobody
    /// waits for it.
    pub fn collect_if_due(&self, settings: &Settings) {
        let Some(mark) = self.take_turn() else {
            return;
        };
        drop(self.collect(&Policy {
            keep: settings.keep.max(FRESH),
            max_bytes: settings.max_bytes,
            fresh: FRESH,
            dry_run: false,
        }));
        // Also where a child of this process has yet to exec, and so to close it.
        drop(lock::release(&mark));
    }

    /// The mark, locked and set to now; `None`: it is not time yet, or somebody else does it.
    fn take_turn(&self) -> Option<std::fs::File> {
        let now = clock::wall()
            .duration_since(std::time::UNIX_EPOCH)
            .ok()?
            .as_secs();
        let recent = |mark: &nix::sys::stat::FileStat| {
            // A time in the future was set by another clock: it says nothing.
            let then = mark.st_mtime.unsigned_abs();
            mark.st_size > 0 && then <= now && now - then < EVERY.as_secs()
        };
        if fsx::stat_at(&self.base, MARK).is_ok_and(|mark| recent(&mark)) {
            return None;
        }
        let mark = fsx::open_append_at(&self.base, MARK).ok()?;
        if !lock::try_write(&mark).ok()? || fsx::stat_of(&mark).is_ok_and(|mark| recent(&mark)) {
            return None;
        }
        mark.set_len(0).ok()?;
        io::Write::write_all(&mut &mark, b"\n").ok()?;
        Some(mark)
    }

    /// What a job takes on the disk.
    #[must_use]
    pub fn bytes_of(&self, id: &JobId) -> u64 {
        fsx::open_dir_at(&self.jobs, id.as_str()).map_or(0, |dir| bytes_in(&dir))
    }
}

fn bytes_in(dir: &OwnedFd) -> u64 {
    let names = fsx::names(dir).unwrap_or_default();
    names
        .iter()
        .filter_map(|name| fsx::stat_at(dir, name.as_os_str()).ok())
        .map(|stat| stat.st_blocks.unsigned_abs().saturating_mul(512))
        .fold(0, u64::saturating_add)
}

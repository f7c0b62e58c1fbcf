//! Many jobs at once. An ended job is told by its record alone, read in one go and without what only
//! a newer version knows; everything else is looked at as a single job would be.

use std::path::Path;
use std::time::Duration;

use super::files::{self, Content};
use super::{JobView, Store, fsx, judge};
use crate::error::Result;
use crate::job::JobId;
use crate::record::{self, Parsed};
use crate::sys::clock;

/// Fewer jobs than this are not worth a thread.
const PER_THREAD: usize = 500;
const MOST_THREADS: usize = 4;
/// How far the time of a file may be off the time in it.
const SLACK: Duration = Duration::from_secs(60);

/// All jobs of all stores, the newest last.
pub fn all_jobs(stores: &[Store]) -> Result<Vec<JobView>> {
    jobs_since(stores, None)
}

/// The same; those that ended longer ago than this may be left out, unread.
pub fn jobs_since(stores: &[Store], ended_within: Option<Duration>) -> Result<Vec<JobView>> {
    let mut jobs = Vec::new();
    for store in stores {
        jobs.extend(store.list(ended_within)?);
    }
    sort(&mut jobs);
    Ok(jobs)
}

/// The newest last.
pub(super) fn sort(jobs: &mut [JobView]) {
    jobs.sort_by(|a, b| {
        (&a.launch.started_at, &a.launch.id).cmp(&(&b.launch.started_at, &b.launch.id))
    });
}

impl Store {
    /// Every kept job, reconciled, the newest last. A job that cannot be read is left out.
    pub fn jobs(&self) -> Result<Vec<JobView>> {
        jobs_since(std::slice::from_ref(self), None)
    }

    fn list(&self, ended_within: Option<Duration>) -> Result<Vec<JobView>> {
        let ids = self.ids()?;
        let jobs = self.path.join("v1/jobs");
        let oldest = ended_within.and_then(|within| {
            let since = clock::wall().checked_sub(within + SLACK)?;
            Some(since.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs())
        });
        let read = |ids: &[JobId]| -> Vec<JobView> {
            let wanted = ids.iter().filter(|id| self.ended_since(id, oldest));
            wanted.filter_map(|id| self.glance(id, &jobs)).collect()
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.min(ids.len() / PER_THREAD).clamp(1, MOST_THREADS);
        if threads == 1 {
            return Ok(read(&ids));
        }
        let share = ids.len().div_ceil(threads);
        Ok(std::thread::scope(|scope| {
            let workers: Vec<_> = ids
                .chunks(share)
                .map(|chunk| scope.spawn(|| read(chunk)))
                .collect();
            let lists = workers.into_iter().map(|worker| worker.join());
            lists.flat_map(|list| list.unwrap_or_default()).collect()
        }))
    }

    /// Whether the job may have ended since then, or not at all. The time of its record's file tells.
    fn ended_since(&self, id: &JobId, oldest: Option<u64>) -> bool {
        let Some(oldest) = oldest else { return true };
        let path = format!("{id}/exit.json");
        fsx::stat_at(&self.jobs, path.as_str())
            .map_or(true, |stat| stat.st_mtime >= oldest.cast_signed())
    }

    /// One job for a list.
    fn glance(&self, id: &JobId, jobs: &Path) -> Option<JobView> {
        if let Ok(Content::Bytes(bytes, _)) =
            files::read_below(&self.jobs, id.as_str(), "exit.json")
            && let Parsed::Whole(record) = record::parse_record_plainly(&bytes)
            && record.data.job == *id
        {
            return Some(judge::from_record(&jobs.join(id.as_str()), record));
        }
        self.load(id).ok()?
    }
}

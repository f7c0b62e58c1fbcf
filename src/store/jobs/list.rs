//! Many jobs at once. An ended job is told by its record alone, read in one go and without what a list
//! does not show; everything else is looked at as a single job would be.

use std::time::Duration;

use crate::error::Result;
use crate::job::JobId;
use crate::job::record;
use crate::store::jobs::files::{self, Content};
use crate::store::{JobView, Store, Summary, fsx};
use crate::sys::clock;

/// Fewer jobs than this are not worth a thread.
const PER_THREAD: usize = 500;
const MOST_THREADS: usize = 4;
/// How far the time of a file may be off the time in it.
const SLACK: Duration = Duration::from_secs(60);

/// The rows of all jobs of all stores, the newest last. Jobs that ended longer ago than this may be
/// left out, unread.
pub(crate) fn summaries(stores: &[Store], ended_within: Option<Duration>) -> Result<Vec<Summary>> {
    let oldest = ended_within.and_then(|within| {
        let since = clock::wall().checked_sub(within + SLACK)?;
        let since = since.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(since.as_secs().cast_signed())
    });
    let mut rows = Vec::new();
    for store in stores {
        rows.extend(store.for_each(|id| store.summary(id, oldest))?);
    }
    Ok(sorted(rows, |row: &Summary| {
        (&row.started_at, row.pid.unwrap_or(0), &row.id)
    }))
}

/// All jobs of all stores, the newest last.
pub(crate) fn all_jobs(stores: &[Store]) -> Result<Vec<JobView>> {
    let mut jobs = Vec::new();
    for store in stores {
        jobs.extend(store.for_each(|id| store.load(id).ok()?)?);
    }
    sort(&mut jobs);
    Ok(jobs)
}

/// As they started, the newest last. Those of one moment are in the order of their pids, which is that of
/// the forks, but for the moment at which the kernel begins to count anew.
pub(in crate::store) fn sort(jobs: &mut Vec<JobView>) {
    *jobs = sorted(std::mem::take(jobs), |job: &JobView| {
        (
            &job.launch.facts.started_at,
            job.launch.facts.proc.pid,
            &job.launch.id,
        )
    });
}

/// The jobs that have not ended, the newest last.
pub(crate) fn running_jobs(stores: &[Store]) -> Result<Vec<JobView>> {
    let mut jobs = Vec::new();
    for store in stores {
        let running = |id: &JobId| {
            let path = format!("{id}/exit.json");
            // A file of that name says enough here: only what is damaged would be looked at in vain.
            if fsx::stat_at(&store.jobs, path.as_str()).is_ok() {
                return None;
            }
            let job = store.load(id).ok()??;
            (!job.state.is_terminal()).then_some(job)
        };
        jobs.extend(store.for_each(running)?);
    }
    sort(&mut jobs);
    Ok(jobs)
}

impl JobView {
    /// The jobs of the same store that have not ended.
    pub fn running_beside(&self) -> Result<Vec<Self>> {
        // What `Store::job_path` put together.
        let path = self.dir.ancestors().nth(3).unwrap_or(&self.dir);
        running_jobs(&[Store::at(path)?])
    }
}

/// Sorts places instead of what is there: jobs are large, and moving them about takes longer than all else.
fn sorted<T, F>(jobs: Vec<T>, key: F) -> Vec<T>
where
    F: for<'a> Fn(&'a T) -> (&'a String, i32, &'a JobId),
{
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by(|&a, &b| key(&jobs[a]).cmp(&key(&jobs[b])));
    let mut jobs: Vec<Option<T>> = jobs.into_iter().map(Some).collect();
    order
        .into_iter()
        .filter_map(|place| jobs[place].take())
        .collect()
}

impl Store {
    /// Every kept job, reconciled, the newest last. A job that cannot be read is left out.
    pub fn jobs(&self) -> Result<Vec<JobView>> {
        all_jobs(std::slice::from_ref(self))
    }

    /// Asks every job, on several threads where there are many.
    fn for_each<T: Send>(&self, ask: impl Fn(&JobId) -> Option<T> + Sync) -> Result<Vec<T>> {
        let ids = self.ids()?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.min(ids.len() / PER_THREAD).clamp(1, MOST_THREADS);
        if threads == 1 {
            return Ok(ids.iter().filter_map(ask).collect());
        }
        let share = ids.len().div_ceil(threads);
        let ask = &ask;
        Ok(std::thread::scope(|scope| {
            let workers: Vec<_> = ids
                .chunks(share)
                .map(|chunk| scope.spawn(move || chunk.iter().filter_map(ask).collect::<Vec<T>>()))
                .collect();
            let lists = workers.into_iter().map(|worker| worker.join());
            lists.flat_map(|list| list.unwrap_or_default()).collect()
        }))
    }

    /// The row of one job. `None`: it ended before `oldest`, as the time of its record's file tells, or
    /// it cannot be read.
    fn summary(&self, id: &JobId, oldest: Option<i64>) -> Option<Summary> {
        if let Ok(file) = fsx::open_below(&self.jobs, id.as_str(), "exit.json") {
            let stat = fsx::stat_of(&file).ok()?;
            if oldest.is_some_and(|oldest| stat.st_mtime < oldest) {
                return None;
            }
            if let Ok(Content::Bytes(bytes, _)) = files::read_known(file, &stat)
                && let Some(record) = record::parse_summary(&bytes)
                && record.data.job == *id
            {
                return Some(Summary::of_record(&self.job_path(id), record));
            }
        }
        Some(self.load(id).ok()??.summary())
    }
}

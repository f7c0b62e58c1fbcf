//! The store: the directory of all jobs, and the only room that knows a path below it.
//!
//! ```text
//! <root>/v1/jobs/<id>/run.json      the launch, immutable; its write lock is the lease
//!                     exit.tmp      reserved for the record
//!                     exit.json     THE terminal record
//!                     out, out.<n>  the transcript: its head, and a ring of its newest segments
//!                     kill.<n>.json wishes for its end; the first is the cause
//!                     stopped       there while the job is stopped
//!                     redirect      the file that its output goes to, if that showed later
//!         v1/tmp/     jobs that are being made; their lease is held
//!         v1/.trash/  jobs that are being removed
//! ```
//!
//! Liveness is a lock that the kernel frees with its holder, never a pid. No `exit.json` and a free
//! lease mean that nobody can state the end any more: whoever looks first commits `lost`, through
//! the same rename. Readers hold no descriptor of a job between calls, so ten thousand can be listed.

mod create;
mod files;
mod judge;
mod live;
mod root;
mod sweep;
#[cfg(test)]
mod tests;
mod transcript;
mod view;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

pub use create::Prepared;
pub use live::{Draft, LiveJob};
pub use transcript::{Reading, Transcript, TranscriptReader};
pub use view::{JobView, Waited, wait_any};

use crate::error::{Error, Result};
use crate::job::{JobId, is_id_prefix};
use crate::record::{LaunchLabel, Moment, ProcIdentity};
use crate::settings::Settings;
use crate::sys::{clock, fsx, proc};

/// So many wishes for one job's end are kept.
const MOST_KILLS: u32 = 64;

/// One state directory.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    jobs: OwnedFd,
    /// `None` for a reader of a store that has none; made when a job is.
    tmp: Option<OwnedFd>,
    base: OwnedFd,
    /// Why the first choice was not taken.
    degraded: Vec<String>,
}

/// Now, on both clocks.
#[must_use]
pub fn moment() -> Moment {
    (clock::wall(), clock::boottime())
}

/// The identity of a process that runs now. `None`: it does not.
#[must_use]
pub fn identity(pid: i32) -> Option<ProcIdentity> {
    Some(identity_with(pid, proc::starttime(pid)?))
}

/// The same for a caller who knows the start time already.
#[must_use]
pub fn identity_with(pid: i32, starttime: u64) -> ProcIdentity {
    ProcIdentity {
        pid,
        starttime,
        pidns: proc::pidns(),
        timens: proc::timens(),
        boot_id: proc::boot_id().to_owned(),
        machine: proc::machine().to_owned(),
    }
}

impl Store {
    /// The first usable directory, made if it is missing.
    pub fn open(settings: &Settings, env: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let mut tried = Vec::new();
        let mut degraded = Vec::new();
        for candidate in root::candidates(settings, &env) {
            let opened = root::open_or_make(&candidate).and_then(|(path, dir)| {
                Self::below(path.clone(), &dir, true).map_err(|why| (path, why))
            });
            match opened {
                Ok(mut store) => {
                    store.degraded = degraded;
                    return Ok(store);
                }
                Err((path, why)) => {
                    if matches!(candidate, root::Candidate::At { named: true, .. }) {
                        degraded.push(format!("state: '{}' {why}", path.display()));
                    }
                    tried.push((path, why));
                }
            }
        }
        Err(Error::NoState { tried })
    }

    /// Every state directory that exists and is ours, the preferred first. Makes nothing.
    pub fn readers(settings: &Settings, env: impl Fn(&str) -> Option<OsString>) -> Vec<Self> {
        let mut seen = Vec::new();
        let mut stores = Vec::new();
        let mut candidates = root::candidates(settings, &env);
        // Whoever names a directory means that one; only where it cannot be used did jobs go elsewhere.
        let stands_alone = settings.state.as_deref().is_some_and(|path| {
            let usable = || {
                candidates
                    .first()
                    .is_some_and(|c| !root::existing(c).is_empty())
            };
            let makeable = || path.parent().is_some_and(fsx::is_writable);
            if path.exists() {
                fsx::is_writable(path) && usable()
            } else {
                makeable()
            }
        });
        if stands_alone {
            candidates.truncate(1);
        }
        for (path, dir) in candidates.iter().flat_map(root::existing) {
            let Ok(stat) = fsx::stat_of(&dir) else {
                continue;
            };
            let place = (stat.st_dev, stat.st_ino);
            if seen.contains(&place) {
                continue;
            }
            seen.push(place);
            stores.extend(Self::below(path, &dir, false));
        }
        stores
    }

    fn below(path: PathBuf, dir: &OwnedFd, make: bool) -> std::result::Result<Self, String> {
        let base = root::inner(dir, "v1", make)?;
        Ok(Self {
            jobs: root::inner(&base, "jobs", make)?,
            tmp: root::inner(&base, "tmp", make).map_or_else(
                |why| if make { Err(why) } else { Ok(None) },
                |dir| Ok(Some(dir)),
            )?,
            base,
            path,
            degraded: Vec::new(),
        })
    }

    /// The state directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What kept the store from being where the user wanted it; goes into every record.
    #[must_use]
    pub fn degraded(&self) -> &[String] {
        &self.degraded
    }

    fn ids(&self) -> Result<Vec<JobId>> {
        let names = fsx::names(&self.jobs)
            .map_err(|source| Error::io("list", &self.path.join("v1/jobs"), source))?;
        Ok(names
            .iter()
            .filter_map(|name| name.to_str()?.parse().ok())
            .collect())
    }

    /// Every kept job, reconciled, the newest last. A job that cannot be read is left out.
    pub fn jobs(&self) -> Result<Vec<JobView>> {
        let mut jobs: Vec<JobView> = self
            .ids()?
            .into_iter()
            .filter_map(|id| self.load(&id).ok()?)
            .collect();
        sort(&mut jobs);
        Ok(jobs)
    }

    /// One job by its whole id. `Ok(None)`: there is none.
    pub fn load(&self, id: &JobId) -> Result<Option<JobView>> {
        let path = self.path.join("v1/jobs").join(id.as_str());
        match fsx::open_dir_at(&self.jobs, id.as_str()) {
            Ok(dir) => match judge::load(&dir, &path, id) {
                // It was removed while we looked.
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    Ok(None)
                }
                other => other.map(Some),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::io("open", &path, source)),
        }
    }

    fn label(&self, id: &JobId) -> Option<LaunchLabel> {
        let dir = fsx::open_dir_at(&self.jobs, id.as_str()).ok()?;
        match files::read(&dir, "run.json").ok()? {
            files::Content::Bytes(bytes, _) => serde_json::from_slice(&bytes).ok(),
            _ => None,
        }
    }
}

/// All jobs of all stores, the newest last.
pub fn all_jobs(stores: &[Store]) -> Result<Vec<JobView>> {
    let mut jobs = Vec::new();
    for store in stores {
        jobs.extend(store.jobs()?);
    }
    sort(&mut jobs);
    Ok(jobs)
}

/// As they started: those of one moment in the order of their pids, which is that of the forks (but for
/// the moment at which the kernel begins to count anew).
fn sort(jobs: &mut [JobView]) {
    let key = |job: &JobView| (job.launch.started_at.clone(), job.launch.proc.pid);
    jobs.sort_by(|a, b| {
        let order = key(a).cmp(&key(b));
        order.then_with(|| a.launch.id.cmp(&b.launch.id))
    });
}

/// Finds one job: by its id, by a name given to it, by `last`, or by the beginning of its id.
///
/// A name stands before a beginning, for ids of one hour begin alike and names are short; of
/// several jobs with one name the newest is meant, and one of the caller's session before others.
/// `last` is the newest of the session, or of all where the caller has none.
pub fn find(stores: &[Store], wanted: &str, session: Option<&str>) -> Result<JobView> {
    let unknown = || Error::NoJob {
        wanted: crate::text::shorten(wanted, 80),
    };
    if let Ok(id) = wanted.parse::<JobId>() {
        for store in stores {
            if let Some(view) = store.load(&id)? {
                return view.readable();
            }
        }
    }
    let mut begins = Vec::new();
    let mut named: Option<(bool, (String, i32), &Store, JobId)> = None;
    for store in stores {
        for id in store.ids()? {
            if is_id_prefix(wanted) && id.as_str().starts_with(wanted) {
                begins.push((store, id.clone()));
            }
            let Some(label) = store.label(&id) else {
                continue;
            };
            let ours = session.is_some() && label.session.as_deref() == session;
            let fits = match wanted {
                "last" => ours || session.is_none(),
                _ => label.name.as_deref() == Some(wanted),
            };
            let started = (label.started_at, label.proc.pid);
            let better = |(was_ours, was, _, old): &(bool, (String, i32), &Store, JobId)| {
                (ours, &started, &id) > (*was_ours, was, old)
            };
            if fits && named.as_ref().is_none_or(better) {
                named = Some((ours, started, store, id));
            }
        }
    }
    let found = match (named, begins.as_slice()) {
        (Some((_, _, store, id)), _) => store.load(&id)?,
        (None, [(store, id)]) => store.load(id)?,
        (None, []) => None,
        (None, several) => {
            let mut ids: Vec<String> = several.iter().map(|(_, id)| id.to_string()).collect();
            ids.sort();
            return Err(Error::Ambiguous {
                wanted: wanted.to_owned(),
                ids,
            });
        }
    };
    found.ok_or_else(unknown)?.readable()
}

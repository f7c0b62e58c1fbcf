//! The store: the directory of all jobs, and the only room that knows a path below it.
//!
//! ```text
//! <root>/v1/jobs/<id>/run.json      the launch, immutable; its write lock is the lease
//!                     exit.tmp      reserved for the record
//!                     exit.json     THE terminal record
//!                     exit.is.*     the end, while the disk has room for a name alone
//!                     out, out.<n>  the transcript: its head, and a ring of its newest segments
//!                     times         when what of it was written
//!                     kill.<n>.json wishes for its end; the first is the cause
//!                     stopped       there while the job is stopped
//!                     redirect      the file that its output goes to, if that showed later
//!                     event.<n>.json  what else is to be told of it
//!                     notice.<n>    whose the n-th notice of its output is
//!                     told          the agent of its session knows of its end
//!         v1/names/   an empty file `name~id` for each job with a name
//!         v1/subs/    who is to be told of ends, and who was (see `outbox`)
//!         v1/waiters/ who waits for the jobs of a session, on behalf of its agent
//!         v1/tell/    ends that the agent's next command may have to tell (see `outbox::untold`)
//!         v1/clients/ which conversation a client's process is having, where its commands do not tell
//!         v1/tmp/     jobs that are being made; their lease is held
//!         v1/.trash/  jobs that are being removed
//!         v1/store    who the store is: the id in its events' source, and a key (see `ids`)
//!         v1/floor    no id up to this one is given out any more
//!         v1/events.index  the order of events, as readers first saw them
//!         v1/gc.last  its time is that of the last clearing up
//! ```
//!
//! Liveness is a lock that the kernel frees with its holder, never a pid. No `exit.json` and a free
//! lease mean that nobody can state the end any more: whoever looks first commits `lost`, through
//! the same rename. Readers hold no descriptor of a job between calls, so ten thousand can be listed.

mod clients;
mod gc;
mod index;
mod jobs;
pub(crate) mod outbox;
mod probe;
mod root;
#[cfg(test)]
mod tests;
mod transcript;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

pub(crate) use clients::{Client, is_key as is_client_key};
pub(crate) use gc::{Collected, Policy, Removed, Why};
pub(crate) use index::ids::Own;
pub(crate) use index::timeline::Timeline;
pub(crate) use jobs::create::Prepared;
pub(crate) use jobs::find::find;
pub(crate) use jobs::list::{all_jobs, running_jobs, summaries};
pub use jobs::live::Draft;
pub(crate) use jobs::live::LiveJob;
pub(crate) use jobs::summary::Summary;

pub(crate) use jobs::view::{JobView, Waited};
pub(crate) use transcript::reader::{Chunk, Reading, TranscriptReader};
pub(crate) use transcript::times::Mark;

use crate::error::{Error, Result};
use crate::job::record::{Moment, ProcIdentity};
use crate::job::{Degraded, JobId};
use crate::settings::Settings;
use crate::sys::{clock, fsx, proc};

/// So many wishes for one job's end are kept.
const MOST_KILLS: u32 = 64;

/// A place in which nothing can be made, and why.
pub(crate) type Closed = (PathBuf, String);

/// One state directory.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    jobs: OwnedFd,
    /// `None` for a reader of a store that has none; made when a job is.
    tmp: Option<OwnedFd>,
    base: OwnedFd,
    /// Who it is, once asked for.
    own: std::sync::OnceLock<Own>,
    /// Why the first choice was not taken.
    degraded: Vec<Degraded>,
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

/// That of this process. A fork has another one, so nothing that forks may ask before it does.
#[must_use]
pub(crate) fn own_identity() -> &'static ProcIdentity {
    static OURS: std::sync::OnceLock<ProcIdentity> = std::sync::OnceLock::new();
    OURS.get_or_init(|| identity(std::process::id().cast_signed()).unwrap_or_default())
}

/// The same for a caller who knows the start time already.
#[must_use]
pub(crate) fn identity_with(pid: i32, starttime: u64) -> ProcIdentity {
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
    /// The first usable directory, made if it is missing. Whether it can be written shows only when
    /// something is: see [`Store::open_but`].
    pub fn open(settings: &Settings, env: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        Self::open_but(settings, env, &[])
    }

    /// The same without the places in which nothing could be made when it was tried.
    pub fn open_but(
        settings: &Settings,
        env: impl Fn(&str) -> Option<OsString>,
        closed: &[Closed],
    ) -> Result<Self> {
        let mut tried = Vec::new();
        let mut degraded = Vec::new();
        for candidate in root::candidates(settings, &env) {
            let opened = root::open_or_make(&candidate).and_then(|(path, dir)| {
                match closed.iter().find(|(known, _)| *known == path) {
                    Some((_, why)) => Err((path, why.clone())),
                    None => Self::below(path.clone(), &dir, true).map_err(|why| (path, why)),
                }
            });
            match opened {
                Ok(mut store) => {
                    store.degraded = degraded;
                    return Ok(store);
                }
                Err((path, why)) => {
                    let named = matches!(candidate, root::Candidate::At { named: true, .. });
                    if named || root::is_foreign(&why) {
                        let text = format!("state: '{}' {why}", path.display());
                        degraded.push(Degraded::Other(text));
                    }
                    tried.push((path, why));
                }
            }
        }
        Err(Error::NoState { tried })
    }

    /// The first directory that looks as if it could be written, for those who have the time to look.
    pub fn open_writable(
        settings: &Settings,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self> {
        let mut closed = Vec::new();
        loop {
            let store = Self::open_but(settings, &env, &closed)?;
            match root::usable(&store.path) {
                Ok(()) => return Ok(store),
                Err(why) => closed.push((store.path, why)),
            }
        }
    }

    /// What an error says about this place: that nothing can be made in it. A disk that is full, or a
    /// process without descriptors, says nothing about the place.
    #[must_use]
    pub fn closed_by(&self, error: &Error) -> Option<Closed> {
        let Error::Io { source, .. } = error else {
            return None;
        };
        let is_closed = matches!(
            source.raw_os_error(),
            Some(libc::EROFS | libc::EACCES | libc::EPERM | libc::EIO | libc::ESTALE)
        );
        is_closed.then(|| (self.path.clone(), crate::error::cause(source)))
    }

    /// Every state directory that exists and is ours, the preferred first. Makes nothing.
    pub fn readers(settings: &Settings, env: impl Fn(&str) -> Option<OsString>) -> Vec<Self> {
        let mut seen = Vec::new();
        let mut stores = Vec::new();
        let mut candidates = root::candidates(settings, &env);
        // Whoever names a directory means that one; only where it cannot be used did jobs go elsewhere.
        let named = settings.state.as_deref();
        if named.is_some_and(|path| root::usable(path).is_ok()) {
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

    /// Why no new job can be in the directory that the user named.
    #[must_use]
    pub fn refusal(settings: &Settings) -> Option<Closed> {
        let path = settings.state.clone().filter(|_| !fsx::is_privileged())?;
        let why = root::usable(&path).err()?;
        Some((path, why))
    }

    /// The store in this very directory, which must be there.
    pub fn at(path: &Path) -> Result<Self> {
        let refused = |why| Error::NoState {
            tried: vec![(path.to_owned(), why)],
        };
        let dir = fsx::open_dir(path).map_err(|error| refused(crate::error::cause(&error)))?;
        Self::below(path.to_owned(), &dir, false).map_err(refused)
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
            own: std::sync::OnceLock::new(),
            path,
            degraded: Vec::new(),
        })
    }

    /// The state directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where jobs appear; to be watched, not to be read.
    #[must_use]
    pub fn jobs_path(&self) -> PathBuf {
        self.path.join("v1/jobs")
    }

    /// Where a job's files appear; to be watched, not to be read.
    #[must_use]
    pub fn job_path(&self, id: &JobId) -> PathBuf {
        self.jobs_path().join(id.as_str())
    }

    /// What kept the store from being where the user wanted it; goes into every record.
    #[must_use]
    pub fn degraded(&self) -> &[Degraded] {
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

    /// One job by its whole id. `Ok(None)`: there is none.
    pub fn load(&self, id: &JobId) -> Result<Option<JobView>> {
        let path = self.path.join("v1/jobs").join(id.as_str());
        match fsx::open_dir_at(&self.jobs, id.as_str()) {
            Ok(dir) => match jobs::reconcile::load(&dir, &path, id) {
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
}

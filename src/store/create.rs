//! The beginning of a job: its directory, its lease, and the rename that makes it visible.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::live::{Draft, LiveJob};
use super::transcript::Transcript;
use super::{Store, moment, own_identity};
use crate::error::{Error, Result};
use crate::job::JobId;
use crate::record::{self, FORMAT, Launch, LeaseFile};
use crate::sys::{fsx, lock};

/// A store in which so many ids in a row are taken is broken.
const ID_ATTEMPTS: u32 = 64;
/// A directory and a locked, empty `run.json` for a job that is about to come. Making files is the
/// slow part of publishing a job; done while the shell starts, it costs the call nothing.
pub struct Prepared {
    id: JobId,
    dir: OwnedFd,
    run: File,
    lease: Option<LeaseFile>,
}

impl Store {
    /// Prepares for one job.
    pub fn prepare(&self) -> Result<Prepared> {
        let failed = |source| Error::io("make a job in", &self.path, source);
        let Some(tmp) = &self.tmp else {
            return Err(failed(io::ErrorKind::NotFound.into()));
        };
        let (id, dir) = make_temporary(tmp, || mint(moment().0)).map_err(failed)?;
        match make_run_file(&dir) {
            Ok((run, lease)) => Ok(Prepared {
                id,
                dir,
                run,
                lease,
            }),
            Err(source) => {
                drop(fsx::remove_dir_at(tmp, id.as_str()));
                Err(failed(source))
            }
        }
    }

    /// Undoes [`Store::prepare`].
    pub fn discard(&self, prepared: &Prepared) {
        if let Some(tmp) = &self.tmp {
            drop(fsx::unlink_at(&prepared.dir, "run.json"));
            drop(fsx::remove_dir_at(tmp, prepared.id.as_str()));
        }
    }

    /// Makes the job visible and owned. The caller's process is its supervisor.
    pub fn create_job(&self, draft: Draft) -> Result<LiveJob> {
        self.create_prepared(self.prepare()?, draft)
    }

    /// The same with a directory that is there already.
    pub fn create_prepared(&self, prepared: Prepared, mut draft: Draft) -> Result<LiveJob> {
        self.place_in_conversation(&mut draft);
        let (wall, boot) = draft.started.unwrap_or_else(moment);
        let mut launch = Launch {
            format: FORMAT,
            id: prepared.id.clone(),
            command: draft.command,
            how: draft.how,
            cwd: draft.cwd,
            session: draft.session,
            harness: draft.harness,
            name: draft.name,
            started_at: record::rfc3339(wall),
            started_boot_ms: record::millis(boot),
            tty: draft.tty,
            redirected_to: draft.redirected_to,
            transcript: draft.transcript,
            transcript_cap: draft.transcript_cap,
            proc: draft.proc,
            supervisor: own_identity().clone(),
            control: draft.control,
            interactive: draft.interactive,
            lease: prepared.lease,
            degraded: draft.degraded,
            ignored_settings: draft.ignored_settings,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            wake: draft.wake,
            extra: serde_json::Map::new(),
        };
        launch.degraded.extend(self.degraded.iter().cloned());
        // A file system without locks. Readers then ask for the supervisor's pid and start time.
        if prepared.lease.is_none() {
            launch.degraded.push("no-lease".to_owned());
        }
        if let Err(source) = self.publish(&prepared, &mut launch, wall) {
            self.discard(&prepared);
            return Err(Error::io("make a job in", &self.path, source));
        }
        let dir = Arc::new(prepared.dir);
        let path = self.path.join("v1/jobs").join(launch.id.as_str());
        let transcript = Transcript::new(Arc::clone(&dir), launch.transcript_cap, launch.tty);
        Ok(LiveJob::new(launch, path, dir, prepared.run, transcript))
    }

    /// Writes `run.json`, then moves the directory to where readers look.
    fn publish(
        &self,
        prepared: &Prepared,
        launch: &mut Launch,
        wall: std::time::SystemTime,
    ) -> io::Result<()> {
        let tmp = self.tmp.as_ref().ok_or(io::ErrorKind::NotFound)?;
        for _ in 0..ID_ATTEMPTS {
            // Before the job appears: a name that leads nowhere harms nobody and is swept later.
            if let Some(name) = &launch.name {
                self.note_name(name, &launch.id);
            }
            let mut bytes = serde_json::to_vec(launch)?;
            bytes.push(b'\n');
            prepared.run.write_all_at(&bytes, 0)?;
            match fsx::rename_new_at(tmp, prepared.id.as_str(), &self.jobs, launch.id.as_str()) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    launch.id = mint(wall);
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

fn mint(wall: std::time::SystemTime) -> JobId {
    let since = wall.duration_since(std::time::UNIX_EPOCH);
    JobId::mint(since.map_or(0, |time| time.as_secs()), fsx::random())
}

/// An empty `run.json`, locked where the file system has locks.
fn make_run_file(dir: &OwnedFd) -> io::Result<(File, Option<LeaseFile>)> {
    let run = fsx::create_at(dir, "run.json")?;
    let lease = match lock::try_write(&run) {
        Ok(true) => {
            let stat = fsx::stat_of(&run)?;
            Some(LeaseFile {
                dev: stat.st_dev,
                ino: stat.st_ino,
            })
        }
        Ok(false) | Err(_) => None,
    };
    Ok((run, lease))
}

fn make_temporary(tmp: &OwnedFd, mint: impl Fn() -> JobId) -> io::Result<(JobId, OwnedFd)> {
    for _ in 0..ID_ATTEMPTS {
        let id = mint();
        match fsx::make_dir_at(tmp, id.as_str()) {
            Ok(()) => {
                let dir = fsx::open_dir_at(tmp, id.as_str())?;
                return Ok((id, dir));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

//! The beginning of a job: its directory, its lease, and the rename that makes it visible.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::job::record::{self, FORMAT, JobFacts, Launch, LeaseFile};
use crate::job::{Degraded, JobId};
use crate::store::jobs::live::{Draft, LiveJob};
use crate::store::transcript::Transcript;
use crate::store::{Store, moment, own_identity};
use crate::sys::{fsx, lock};

/// Where a place for the next job waits: a directory with an empty `run.json`, which nobody owns. It is
/// taken, and left, by one rename. No sweep comes here, so nobody else touches what is being taken.
const SPARE: &str = "spare";

/// A directory and a locked, empty `run.json` for a job that is about to come. Making files is the
/// slow part of publishing a job (up to 2 ms on ext4 where much was removed lately); done after the call
/// before, or at least while the shell starts, it costs no call anything.
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
        if let Some(spare) = self.take_spare(tmp) {
            return Ok(spare);
        }
        let (id, dir) = self.make_temporary(tmp).map_err(failed)?;
        let run = fsx::create_at(&dir, "run.json").and_then(|run| Ok((own(&run)?, run)));
        match run {
            Ok((lease, run)) => Ok(Prepared {
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

    /// Takes the place that an earlier supervisor left. What is not as it should be is left to the sweep.
    fn take_spare(&self, tmp: &OwnedFd) -> Option<Prepared> {
        // Most often there is one; where there is none, no id need be looked for.
        fsx::stat_at(&self.base, SPARE).ok()?;
        let mut held: Option<String> = None;
        let taken = self.take_id(|name| {
            match &held {
                None => fsx::rename_new_at(&self.base, SPARE, tmp, name)?,
                Some(old) => fsx::rename_new_at(tmp, old.as_str(), tmp, name)?,
            }
            held = Some(name.to_owned());
            Ok(())
        });
        let id = taken.ok()?;
        let dir = fsx::open_dir_at(tmp, id.as_str()).ok()?;
        let run = fsx::open_rw_at(&dir, "run.json").ok()?;
        let stat = fsx::stat_of(&run).ok()?;
        let fits = fsx::is_regular(&stat) && stat.st_size == 0 && stat.st_nlink == 1;
        let fits = fits && stat.st_uid == fsx::euid() && stat.st_mode & 0o077 == 0;
        let lease = fits.then(|| own(&run).ok())??;
        Some(Prepared {
            id,
            dir,
            run,
            lease,
        })
    }

    /// Leaves a place for the next job, if there is none. For a supervisor that has time.
    pub fn leave_spare(&self) {
        if fsx::stat_at(&self.base, SPARE).is_err()
            && let Some(tmp) = &self.tmp
            && let Ok((id, dir)) = self.make_temporary(tmp)
        {
            let made = fsx::create_at(&dir, "run.json");
            let left = made
                .and_then(|_| fsx::rename_new_at(tmp, id.as_str(), &self.base, SPARE))
                .is_ok();
            if !left {
                remove(tmp, &id, &dir);
            }
        }
    }

    /// A new directory in `tmp`, with the id that its job will have.
    fn make_temporary(&self, tmp: &OwnedFd) -> io::Result<(JobId, OwnedFd)> {
        let mut held: Option<String> = None;
        let taken = self.take_id(|name| {
            match &held {
                None => fsx::make_dir_at(tmp, name)?,
                Some(old) => fsx::rename_new_at(tmp, old.as_str(), tmp, name)?,
            }
            held = Some(name.to_owned());
            Ok(())
        });
        match taken.and_then(|id| Ok((fsx::open_dir_at(tmp, id.as_str())?, id))) {
            Ok((dir, id)) => Ok((id, dir)),
            Err(error) => {
                if let Some(left) = held {
                    drop(fsx::remove_dir_at(tmp, left.as_str()));
                }
                Err(error)
            }
        }
    }

    /// Undoes [`Store::prepare`]: leaves the place for the next job, or removes it.
    pub fn give_back(&self, prepared: &Prepared) {
        let Some(tmp) = &self.tmp else { return };
        // Before anybody can take it.
        drop(lock::release(&prepared.run));
        if fsx::rename_new_at(tmp, prepared.id.as_str(), &self.base, SPARE).is_err() {
            remove(tmp, &prepared.id, &prepared.dir);
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
            facts: JobFacts {
                started_at: record::rfc3339(wall),
                ..draft.facts
            },
            store: Some(self.own().id().to_owned()),
            started_boot_ms: record::millis(boot),
            transcript: draft.transcript,
            transcript_cap: draft.transcript_cap,
            supervisor: own_identity().clone(),
            control: draft.control,
            interactive: draft.interactive,
            lease: prepared.lease,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            caller: draft.caller,
            wake: draft.wake,
            extra: serde_json::Map::new(),
        };
        launch.facts.degraded.extend(self.degraded.iter().cloned());
        // A file system without locks. Readers then ask for the supervisor's pid and start time.
        if prepared.lease.is_none() {
            launch.facts.degraded.push(Degraded::NoLease);
        }
        if let Err(source) = self.publish(&prepared, &mut launch) {
            if let Some(tmp) = &self.tmp {
                remove(tmp, &launch.id, &prepared.dir);
            }
            return Err(Error::io("make a job in", &self.path, source));
        }
        let dir = Arc::new(prepared.dir);
        let path = self.path.join("v1/jobs").join(launch.id.as_str());
        let transcript = Transcript::new(Arc::clone(&dir), launch.transcript_cap, launch.facts.tty);
        Ok(LiveJob::new(launch, path, dir, prepared.run, transcript))
    }

    /// Writes `run.json`, then moves the directory to where readers look. `launch.id` is always the name
    /// that the directory has.
    fn publish(&self, prepared: &Prepared, launch: &mut Launch) -> io::Result<()> {
        let tmp = self.tmp.as_ref().ok_or(io::ErrorKind::NotFound)?;
        loop {
            // Before the job appears: a name that leads nowhere harms nobody and is swept later.
            if let Some(name) = &launch.facts.name {
                self.note_name(name, &launch.id);
            }
            let mut bytes = serde_json::to_vec(launch)?;
            bytes.push(b'\n');
            prepared.run.write_all_at(&bytes, 0)?;
            match fsx::rename_new_at(tmp, launch.id.as_str(), &self.jobs, launch.id.as_str()) {
                Ok(()) => return Ok(()),
                // Only somebody who does not keep to the rules can have taken it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let mut held = launch.id.to_string();
                    let taken = self.take_id(|name| {
                        fsx::rename_new_at(tmp, held.as_str(), tmp, name)?;
                        name.clone_into(&mut held);
                        Ok(())
                    });
                    let failed = taken.as_ref().err().map(io::Error::kind);
                    launch.id = held.parse().map_err(io::Error::other)?;
                    if let Some(kind) = failed {
                        return Err(kind.into());
                    }
                    // The new id may be shorter.
                    prepared.run.set_len(0)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Locks a `run.json` where the file system has locks.
fn own(run: &File) -> io::Result<Option<LeaseFile>> {
    if !lock::try_write(run).unwrap_or(false) {
        return Ok(None);
    }
    let stat = fsx::stat_of(run)?;
    Ok(Some(LeaseFile {
        dev: stat.st_dev,
        ino: stat.st_ino,
    }))
}

fn remove(tmp: &OwnedFd, id: &JobId, dir: &OwnedFd) {
    drop(fsx::unlink_at(dir, "run.json"));
    drop(fsx::remove_dir_at(tmp, id.as_str()));
}

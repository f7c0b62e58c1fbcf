//! A job as its supervisor has it: the lease, the transcript, the one commit.
//!
//! The lease is the write lock on `run.json` itself. A lock file of its own would be one more inode
//! for each job, and making one costs up to 0.9 ms on some ext4. Only two are made while a job
//! starts: its directory and `run.json`. The directory appears in `jobs/` whole and locked, by a
//! rename, so nobody ever sees a job that nobody owns.
//!
//! The end is one rename of `exit.tmp` to `exit.json` that refuses to replace. It wakes those who
//! wait: the lease is given up right after it, before the disk has confirmed anything, because a
//! confirmation takes milliseconds and a reader in the same machine needs none. Sinks outside are
//! to be called after `commit` returned.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::job::record::{
    self, CommandText, Durability, ExitFacts, JobFacts, KillIntent, Launch, Moment, ProcIdentity,
    Record, Writer,
};
use crate::job::{How, JobId, Outcome};
use crate::store::jobs::byname;
use crate::store::jobs::files::{self, Content};
use crate::store::moment;
use crate::store::outbox::untold;
use crate::store::transcript::Transcript;
use crate::sys::{fsx, lock, signal};

/// What `exit.tmp` reserves: enough for a record with a long command and a full tail.
const RESERVED: u32 = 8 * 1024;

/// What the caller knows of a job that starts. The store adds the id, the time and the lease.
#[derive(Clone, Debug)]
pub struct Draft {
    pub facts: JobFacts,
    pub transcript: Option<String>,
    pub transcript_cap: u64,
    pub control: Option<String>,
    pub interactive: bool,
    /// `None`: now.
    pub started: Option<Moment>,
    /// The process that made the call, `PID.START`.
    pub caller: Option<String>,
    pub wake: std::collections::BTreeMap<String, String>,
}

impl Draft {
    #[must_use]
    pub fn new(command: CommandText, how: How, cwd: String, proc: ProcIdentity) -> Self {
        Self {
            facts: JobFacts::new(command, how, cwd, proc),
            transcript: None,
            transcript_cap: 64 << 20,
            control: None,
            interactive: false,
            started: None,
            caller: None,
            wake: std::collections::BTreeMap::new(),
        }
    }
}

/// A job that this process owns.
///
/// Dropping it gives up the lease without a record: the next reader then commits `lost`. A process
/// that forks while it has one must exec in the child, or the child keeps the lease too.
#[derive(Debug)]
pub struct LiveJob {
    launch: Launch,
    path: PathBuf,
    dir: Arc<OwnedFd>,
    /// `run.json` with the lock; `Some` iff the lease is held.
    lease: Option<File>,
    transcript: Transcript,
    reserved: bool,
    /// What was published and is not confirmed by the disk yet.
    unsynced: Option<Record>,
}

impl LiveJob {
    pub(in crate::store) fn new(
        launch: Launch,
        path: PathBuf,
        dir: Arc<OwnedFd>,
        run: File,
        transcript: Transcript,
    ) -> Self {
        Self {
            launch,
            path,
            dir,
            lease: Some(run),
            transcript,
            reserved: false,
            unsynced: None,
        }
    }

    #[must_use]
    pub fn id(&self) -> &JobId {
        &self.launch.id
    }

    #[must_use]
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.path
    }

    #[must_use]
    pub fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    /// The lease as a forked child has it that has yet to exec.
    #[cfg(test)]
    pub(in crate::store) fn shared_lease(&self) -> Option<File> {
        self.lease.as_ref()?.try_clone().ok()
    }

    /// Where its output can be read: its own file, or the one it shares.
    #[must_use]
    pub fn transcript_path(&self) -> PathBuf {
        match &self.launch.transcript {
            Some(path) => PathBuf::from(path),
            None => self.path.join("out"),
        }
    }

    /// Reserves space for the record, so that a full disk cannot keep it out. Off the critical path.
    pub fn preallocate(&mut self) {
        if !self.reserved {
            self.reserved = fsx::create_at(&*self.dir, "exit.tmp")
                .and_then(|file| fsx::reserve(&file, RESERVED))
                .is_ok();
        }
        if self.launch.facts.redirected_to.is_none() && self.launch.transcript.is_none() {
            self.transcript.touch();
        }
    }

    /// Asks the disk to have the launch, before anybody is told of the job.
    pub fn sync(&self) -> Result<()> {
        let failed = |source| Error::io("sync", &self.path, source);
        if let Some(run) = &self.lease {
            run.sync_all().map_err(failed)?;
        }
        fsx::sync_dir(&self.dir).map_err(failed)?;
        let jobs = self.path.parent().unwrap_or(&self.path);
        fsx::open_dir(jobs)
            .and_then(|jobs| fsx::sync_dir(&jobs))
            .map_err(failed)
    }

    /// Somebody removed its directory while it ran: there is no place for a record any more.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        fsx::stat_of(&*self.dir).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// The wish that such an end goes back to, if somebody uttered one.
    #[must_use]
    pub fn kill_intent(&self, outcome: &Outcome) -> Option<KillIntent> {
        kill_intent(&self.dir, outcome)
    }

    /// Notes the file that its output turned out to go to. `run.json` stays as it is; readers find the
    /// note beside it, and the record will say it too. Best effort.
    pub fn set_redirected(&mut self, path: &str) {
        drop(files::write_new(&*self.dir, "redirect", path.as_bytes()));
        self.launch.facts.redirected_to = Some(path.to_owned());
    }

    /// The same for its stderr, if that is another file.
    pub fn set_redirected_stderr(&mut self, path: &str) {
        let name = "redirect-stderr";
        drop(files::write_new(&*self.dir, name, path.as_bytes()));
        self.launch.facts.redirected_stderr = Some(path.to_owned());
    }

    /// Lets `ps` say that the job is stopped, or runs again. Best effort.
    pub fn set_stopped(&mut self, signal: Option<i32>) {
        match signal {
            Some(signal) => {
                drop(fsx::unlink_at(&*self.dir, "stopped"));
                drop(files::write_new(
                    &*self.dir,
                    "stopped",
                    signal.to_string().as_bytes(),
                ));
            }
            None => {
                drop(fsx::unlink_at(&*self.dir, "stopped"));
            }
        }
    }

    /// States the end: visible, lease given up, then confirmed by the disk.
    ///
    /// An error means that no record exists; the lease is kept, and the caller should try again
    /// later. That somebody else was first is no error.
    pub fn commit(&mut self, facts: &ExitFacts) -> Result<()> {
        self.publish_exit(facts)?;
        self.settle();
        Ok(())
    }

    /// The first half of `commit`: the record is visible to every reader, the lease is free.
    pub fn publish_exit(&mut self, facts: &ExitFacts) -> Result<()> {
        if self.lease.is_none() {
            return Ok(());
        }
        let record = record::terminal_event(
            &self.launch,
            facts,
            &writer(&self.transcript_text(), &self.dir),
        );
        match self.try_publish(&record) {
            Ok(published) => self.unsynced = published,
            Err(error) => {
                // Losing old output is better than losing the end.
                let mut result = Err(error);
                while let Err(error) = &result {
                    let helps = files::is_full(error) && !files::is_too_large(error);
                    if !helps || !self.transcript.give_up_space() {
                        break;
                    }
                    result = self.try_publish(&record);
                }
                match result {
                    Ok(published) => self.unsynced = published,
                    Err(source) if !self.publish_by_name(facts) => {
                        let path = self.path.join("exit.json");
                        return Err(Error::io("write", &path, source));
                    }
                    Err(_) => {}
                }
            }
        }
        if let Some(run) = self.lease.take() {
            // Closing it would do, but for a child of this process that has yet to exec.
            drop(lock::release(&run));
        }
        untold::note_end(&self.path, &self.launch, &record);
        Ok(())
    }

    /// The second half of `commit`: asks the disk to confirm. Never fails: a record that the disk
    /// does not confirm says so in `durability`.
    pub fn settle(&mut self) {
        if self.launch.facts.redirected_to.is_none() && self.launch.transcript.is_none() {
            self.transcript.touch();
        }
        drop(self.transcript.sync());
        if let Some(record) = self.unsynced.take() {
            settle_record(&self.dir, record);
        }
    }

    fn transcript_text(&self) -> String {
        self.transcript_path().to_string_lossy().into_owned()
    }

    /// `Ok(None)`: somebody else committed before.
    fn try_publish(&mut self, record: &Record) -> io::Result<Option<Record>> {
        let attempt = self.publish_as(record, "exit.tmp");
        match attempt {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                self.transcript.close();
                self.publish_as(record, "exit.tmp")
            }
            // Whatever is wrong with that file, a fresh one may do.
            Err(error) if !files::is_full(&error) => {
                let fresh = format!("exit.tmp.{:08x}", fsx::random());
                self.publish_as(record, &fresh)
            }
            Err(_) => self.publish_as(&record.slim(), "exit.tmp"),
            done => done,
        }
    }

    fn publish_as(&self, record: &Record, temporary: &str) -> io::Result<Option<Record>> {
        let file = match fsx::open_rw_at(&*self.dir, temporary) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fsx::create_at(&*self.dir, temporary)?
            }
            Err(error) => return Err(error),
        };
        let bytes = record.to_bytes();
        file.write_all_at(&bytes, 0)?;
        file.set_len(bytes.len() as u64)?;
        match fsx::rename_new_at(&*self.dir, temporary, &*self.dir, "exit.json") {
            Ok(()) => Ok(Some(record.clone())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                drop(fsx::unlink_at(&*self.dir, temporary));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The last resort on a disk that takes no byte and no inode: a file that exists gets what is known
    /// of the end as its name. Readers turn it into a record as soon as there is room.
    fn publish_by_name(&mut self, facts: &ExitFacts) -> bool {
        let name = byname::name(facts);
        ["exit.tmp", "stopped", "out.1"]
            .iter()
            .any(|spare| fsx::rename_new_at(&*self.dir, *spare, &*self.dir, name.as_str()).is_ok())
    }
}

/// Who writes a record in this process, now.
pub(in crate::store) fn writer(transcript: &str, dir: &OwnedFd) -> Writer {
    use crate::sys::proc;
    let durability = if fsx::is_volatile(dir) {
        Durability::Boot
    } else {
        Durability::Disk
    };
    Writer {
        uid: fsx::euid(),
        pid: std::process::id() as i32,
        boot_id: proc::boot_id().to_owned(),
        timens: proc::timens(),
        now: moment(),
        transcript: (!transcript.is_empty()).then(|| transcript.to_owned()),
        durability,
    }
}

/// Confirms `exit.json`. After a failed fsync the kernel may have thrown the pages away and marked
/// them clean, so the same file is never asked twice: the record is written again beside it and
/// takes its place. It is the same record of the same writer, so this replaces nothing but bytes.
pub(in crate::store) fn settle_record(dir: &OwnedFd, record: Record) {
    let first = fsx::open_at(dir, "exit.json")
        .and_then(|file| file.sync_all())
        .and_then(|()| fsx::sync_dir(dir));
    if first.is_ok() {
        return;
    }
    let mut record = record;
    for attempt in 1..=3 {
        if attempt == 3 {
            record.data.durability = Durability::Unsynced;
        }
        let name = format!("exit.tmp.{:08x}", fsx::random());
        let written = files::write_new(dir, &name, &record.to_bytes());
        let synced = written.and_then(|file| file.sync_all());
        if (synced.is_ok() || attempt == 3)
            && fsx::rename_at(dir, name.as_str(), dir, "exit.json").is_ok()
        {
            drop(fsx::sync_dir(dir));
            return;
        }
        drop(fsx::unlink_at(dir, name.as_str()));
    }
}

/// The wish that was the cause: the first one, but a signal that does not always end a job counts
/// only if the job died of it, or if nothing else was wished.
pub(in crate::store) fn kill_intent(dir: &OwnedFd, outcome: &Outcome) -> Option<KillIntent> {
    let mut wishes: Vec<KillIntent> = Vec::new();
    for number in 1..=crate::store::MOST_KILLS {
        match files::read(dir, &format!("kill.{number}.json")) {
            Ok(Content::Bytes(bytes, _)) => wishes.extend(serde_json::from_slice(&bytes).ok()),
            Ok(Content::Unfit) => {}
            Ok(Content::Missing) | Err(_) => break,
        }
    }
    let died_of = match outcome {
        Outcome::Signaled { signal, .. } if !signal::ENDING.contains(signal) => Some(*signal),
        _ => None,
    };
    let place = wishes
        .iter()
        .position(|wish| Some(wish.signal) == died_of)
        .or_else(|| {
            wishes
                .iter()
                .position(|wish| signal::ENDING.contains(&wish.signal))
        })
        .unwrap_or(0);
    (place < wishes.len()).then(|| wishes.swap_remove(place))
}

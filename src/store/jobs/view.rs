//! A job as everybody else sees it: its facts, its output, and how to wait for its end.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::job::record::{self, ExitFacts, FORMAT, KillIntent, Launch, OutputFacts, Record};
use crate::job::{Degraded, Evidence, JobId, LostReason, Observer, Outcome, State};
use crate::store::jobs::files;
use crate::store::jobs::live;
use crate::store::jobs::reconcile::{Look, abandoned_output, commit, load, look, reconcile};
use crate::store::transcript;
use crate::store::transcript::reader::{Reading, TranscriptReader};
use crate::store::transcript::times::{self, Mark};
use crate::store::{MOST_KILLS, moment};
use crate::sys::{fsx, lock, proc};

/// What was known of a job when it was looked at.
#[derive(Clone, Debug)]
pub struct JobView {
    pub launch: Launch,
    pub state: State,
    /// `Some` iff the state is terminal, but for a newer format.
    pub record: Option<Record>,
    pub degraded: Vec<Degraded>,
    pub dir: PathBuf,
    /// `false` if `run.json` could not be read: then most of `launch` means nothing.
    pub launch_known: bool,
    /// Above `record::FORMAT`: a newer agent-sh wrote it, and nothing here was judged.
    pub format: u64,
    pub(in crate::store) output: OutputFacts,
}

/// How a wait ended.
#[derive(Clone, Debug)]
pub enum Waited {
    Ended(Box<JobView>),
    TimedOut,
    /// The job was removed meanwhile, with its record.
    Gone,
}

/// How often a job is looked at that nothing else can be waited on for.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

pub(in crate::store) fn transcript_path(launch: &Launch, dir: &Path) -> PathBuf {
    match &launch.transcript {
        Some(path) => PathBuf::from(path),
        None => dir.join("out"),
    }
}

impl JobView {
    #[must_use]
    pub fn id(&self) -> &JobId {
        &self.launch.id
    }

    /// An error for what a newer version wrote.
    pub(in crate::store) fn readable(self) -> Result<Self> {
        if self.format > FORMAT {
            return Err(Error::NewerFormat {
                id: self.launch.id.to_string(),
                format: self.format,
                reads: FORMAT,
            });
        }
        Ok(self)
    }

    /// How it ended, if it did.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.record.as_ref().map(Record::outcome)
    }

    /// Only if it was observed.
    #[must_use]
    pub fn exit_code(&self) -> Option<u8> {
        self.record.as_ref()?.data.exit_code
    }

    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.record.as_ref()?.data.signal
    }

    /// Why it is lost.
    #[must_use]
    pub fn reason(&self) -> Option<LostReason> {
        self.record.as_ref()?.data.reason
    }

    /// When it ended; `None` also if nobody saw it.
    #[must_use]
    pub fn ended_at(&self) -> Option<&str> {
        self.record.as_ref()?.data.ended_at.as_deref()
    }

    /// When its end became known: there for every terminal job.
    #[must_use]
    pub fn settled_at(&self) -> Option<&str> {
        Some(self.record.as_ref()?.time.as_str())
    }

    /// How long ago its end became known. A wall clock that jumped ahead must not make old what is
    /// new, so within one boot the shorter of both clocks counts.
    #[must_use]
    pub fn settled_age(&self) -> Option<Duration> {
        let record = self.record.as_ref()?;
        let (wall, boot) = moment();
        let by_wall = Duration::from_millis(record::wall_between(&record.recordedtime, wall));
        let same_boot = record.data.facts.proc.boot_id == proc::boot_id();
        let by_boot = record
            .sequence
            .parse::<u64>()
            .ok()
            .map(Duration::from_nanos);
        match by_boot {
            Some(then) if same_boot => Some(by_wall.min(boot.saturating_sub(then))),
            _ => Some(by_wall),
        }
    }

    /// From start to end, or so far.
    #[must_use]
    pub fn duration_ms(&self) -> Option<u64> {
        if let Some(record) = &self.record {
            return record.data.duration_ms;
        }
        if !self.launch_known {
            return None;
        }
        let (wall, boot) = moment();
        let who = &self.launch.facts.proc;
        let same_clock = who.boot_id == proc::boot_id() && who.timens == proc::timens();
        Some(if same_clock {
            record::millis(boot).saturating_sub(self.launch.started_boot_ms)
        } else {
            record::wall_between(&self.launch.facts.started_at, wall)
        })
    }

    #[must_use]
    pub fn bytes_total(&self) -> u64 {
        self.output.bytes_total
    }

    #[must_use]
    pub fn output(&self) -> &OutputFacts {
        &self.output
    }

    /// Where its output can be read: its own file, or the one it shares.
    #[must_use]
    pub fn transcript_path(&self) -> PathBuf {
        transcript_path(&self.launch, &self.dir)
    }

    /// The directory and the cap of the transcript that holds its output.
    fn transcript_dir(&self) -> io::Result<OwnedFd> {
        let path = self.transcript_path();
        fsx::open_dir(path.parent().unwrap_or(&self.dir))
    }

    /// Its output in order. A job that wrote nothing has an empty one.
    pub fn read_transcript(&self, reading: Reading) -> Result<TranscriptReader> {
        let dir = self
            .transcript_dir()
            .map_err(|source| Error::io("read", &self.transcript_path(), source))?;
        // What the record counted is exact; the names of the files are not if the disk was full.
        let output = &self.output;
        let missing = (self.record.is_some() && self.launch.transcript.is_none())
            .then(|| output.bytes_total.saturating_sub(output.bytes_kept));
        Ok(TranscriptReader::new(
            dir,
            self.launch.transcript_cap,
            missing,
            reading,
        ))
    }

    /// The files that its output is in.
    #[must_use]
    pub fn transcript_files(&self) -> Vec<PathBuf> {
        let path = self.transcript_path();
        let parent = path.parent().unwrap_or(&self.dir).to_owned();
        let names = self.transcript_dir().map(|dir| transcript::names(&dir));
        let names = names.unwrap_or_default().into_iter();
        names.map(|name| parent.join(name)).collect()
    }

    /// When it wrote what, and the sizes that its terminal got. Empty where nobody noted it.
    #[must_use]
    pub fn times(&self) -> Vec<Mark> {
        self.transcript_dir().map(times::read).unwrap_or_default()
    }

    /// The last `most` bytes of its output that are kept.
    #[must_use]
    pub fn tail(&self, most: usize) -> Vec<u8> {
        self.transcript_dir()
            .map(|dir| transcript::tail_on_disk(&dir, most))
            .unwrap_or_default()
    }

    /// Looks again.
    pub fn reload(&self) -> Result<Option<Self>> {
        match fsx::open_dir(&self.dir) {
            Ok(dir) => load(&dir, &self.dir, &self.launch.id).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::io("open", &self.dir, source)),
        }
    }

    /// Writes down that somebody wants this job to end, before any signal is sent.
    pub fn request_kill(&self, intent: &KillIntent) -> Result<()> {
        let failed = |source| Error::io("write a kill request in", &self.dir, source);
        let dir = fsx::open_dir(&self.dir).map_err(failed)?;
        let temporary = format!("kill.tmp.{:08x}", fsx::random());
        let bytes = serde_json::to_vec(intent).map_err(|error| failed(error.into()))?;
        drop(files::write_new(&dir, &temporary, &bytes).map_err(failed)?);
        for number in 1..=MOST_KILLS {
            let name = format!("kill.{number}.json");
            match fsx::rename_new_at(&dir, temporary.as_str(), &dir, name.as_str()) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    drop(fsx::unlink_at(&dir, temporary.as_str()));
                    return Err(failed(error));
                }
            }
        }
        // Enough were written; the first is the cause anyway.
        drop(fsx::unlink_at(&dir, temporary.as_str()));
        Ok(())
    }

    /// Blocks until the job has ended, or the deadline is over. Asks nobody again and again: it
    /// sleeps in the kernel, on the lease, or on the process itself if nobody holds that.
    pub fn wait(&self, deadline: Option<Instant>) -> Result<Waited> {
        if self.state.is_terminal() {
            return Ok(Waited::Ended(Box::new(self.clone())));
        }
        let failed = |source| Error::io("wait for", &self.dir, source);
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        // Held open: if the job is removed meanwhile, its record can still be read for a while.
        let dir = match fsx::open_dir(&self.dir) {
            Ok(dir) => dir,
            Err(error) if gone(&error) => return Ok(Waited::Gone),
            Err(error) => return Err(failed(error)),
        };
        loop {
            let run = match fsx::open_at(&dir, "run.json") {
                Ok(run) => run,
                Err(error) if gone(&error) => return Ok(Waited::Gone),
                Err(error) => return Err(failed(error)),
            };
            if !wait_for_lease(run, deadline).map_err(failed)? {
                return Ok(Waited::TimedOut);
            }
            let view = match look(&dir, &self.dir, &self.launch.id).map_err(failed)? {
                Look::Settled(view) => *view,
                Look::Open => match reconcile(&self.dir, &self.launch.id) {
                    Ok(view) => view,
                    Err(Error::Io { source, .. }) if gone(&source) => return Ok(Waited::Gone),
                    Err(error) => return Err(error),
                },
            };
            if view.state.is_terminal() {
                return Ok(Waited::Ended(Box::new(view)));
            }
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Waited::TimedOut);
            }
            view.wait_without_lease(&dir, left)?;
        }
    }

    /// Waits a while for a job whose lease tells nothing: on the process itself where it can be
    /// seen from here, else by looking again.
    fn wait_without_lease(&self, dir: &OwnedFd, left: Option<Duration>) -> Result<()> {
        let who = &self.launch.facts.proc;
        let here = self.launch_known
            && who.pidns == proc::pidns()
            && who.timens == proc::timens()
            && who.boot_id == proc::boot_id();
        if here && self.degraded.contains(&Degraded::Unsupervised) {
            return match proc::pidfd_open_checked(who.pid, who.starttime) {
                Ok(handle) => self.wait_for_leader(&handle, dir, left),
                // It ended just now.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
                Err(source) => Err(Error::sys("wait for a process", source)),
            };
        }
        // Another machine's job, or a file system without locks. A wake-up too many is harmless.
        std::thread::park_timeout(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN)));
        Ok(())
    }

    /// Waits for a process that nobody supervises. Whoever has a handle on it when it ends can
    /// still learn its status, and states it.
    fn wait_for_leader(
        &self,
        handle: &OwnedFd,
        dir: &OwnedFd,
        left: Option<Duration>,
    ) -> Result<()> {
        let who = &self.launch.facts.proc;
        if !proc::pidfd_wait(handle, left).map_err(|source| Error::sys("wait", source))? {
            return Ok(());
        }
        let seen = proc::zombie_status(who.pid, who.starttime)
            .map(|status| (status, Evidence::ProcStat))
            .or_else(|| {
                proc::pidfd_exit_status(handle).map(|status| (status, Evidence::PidfdInfo))
            });
        if let Some((status, evidence)) = seen {
            let outcome = Outcome::from_wait_status(status);
            let mut facts = ExitFacts::new(outcome, Observer::Waiter, evidence, moment());
            facts.output = abandoned_output(dir, &self.launch);
            facts.kill_requested = live::kill_intent(dir, &facts.outcome);
            facts.degraded.push(Degraded::Unsupervised);
            drop(commit(dir, &self.dir, &self.launch, &facts));
        }
        Ok(())
    }
}

/// `false`: the deadline is over first.
fn wait_for_lease(run: File, deadline: Option<Instant>) -> io::Result<bool> {
    let Some(deadline) = deadline else {
        lock::wait_unwritten(&run)?;
        return Ok(true);
    };
    if !lock::is_written(&run)? {
        return Ok(true);
    }
    // There is no lock call with a time limit. After the limit the thread stays in the kernel until
    // the lease is free or the process ends, whichever is first; it holds one descriptor.
    let (tell, told) = mpsc::sync_channel(1);
    std::thread::Builder::new()
        .stack_size(64 * 1024)
        .spawn(move || drop(tell.send(lock::wait_unwritten(&run))))?;
    match told.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(result) => result.map(|()| true),
        Err(mpsc::RecvTimeoutError::Timeout) => Ok(false),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(io::ErrorKind::Other.into()),
    }
}

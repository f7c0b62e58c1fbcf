//! The judgement on a job: running, ended, or lost because nobody can state its end any more.
//!
//! R0 to R6 of reconciling, in this order: a whole record stands; another machine's job is left
//! alone; a held lease means alive; a free one is looked at again under the directory's lock; a
//! process that still runs is only unsupervised; the rest is committed as lost. Committing is the
//! same rename that a supervisor does, so there is one record whoever comes first.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::job::record::{
    self, ExitFacts, FORMAT, Launch, LeaseFile, OutputFacts, Parsed, ProcIdentity, Record,
};
use crate::job::{Degraded, Evidence, JobId, LostReason, Observer, Outcome, State};
use crate::store::index::ids;
use crate::store::jobs::files::{self, Content};
use crate::store::jobs::view::{JobView, transcript_path};
use crate::store::jobs::{byname, live};
use crate::store::outbox::untold;
use crate::store::{moment, transcript};
use crate::sys::{fsx, lock, proc};

/// Whether somebody can still state the end of a job.
enum Life {
    /// Its supervisor holds the lease.
    Supervised,
    /// Its supervisor is gone, but it runs.
    Unsupervised,
    /// Not ours to judge: another machine, or a copy of the directory.
    Foreign,
    /// It ended and its status can still be read.
    Ended(i32),
    Lost(LostReason),
}

/// Looks at a job, and commits its loss if it is lost.
pub(in crate::store) fn load(dir: &OwnedFd, path: &Path, id: &JobId) -> Result<JobView> {
    let failed = |source| Error::io("read", path, source);
    match look(dir, path, id).map_err(failed)? {
        Look::Settled(view) => Ok(*view),
        Look::Open => reconcile(path, id),
    }
}

pub(in crate::store) enum Look {
    Settled(Box<JobView>),
    /// There is no whole record and no owner: to be judged under the lock.
    Open,
}

/// The launch as far as it can be read, with the file to ask for the lease.
struct Run {
    launch: Launch,
    known: bool,
    file: Option<File>,
}

fn read_run(dir: &OwnedFd, id: &JobId) -> io::Result<std::result::Result<Run, u64>> {
    let unknown = |file| Run {
        launch: record::unknown_launch(id.clone()),
        known: false,
        file,
    };
    Ok(match files::read(dir, "run.json")? {
        Content::Bytes(bytes, file) => match record::parse_launch(&bytes) {
            Parsed::Whole(mut launch) if launch.id == *id => {
                let notes = [
                    (&mut launch.facts.redirected_to, "redirect"),
                    (&mut launch.facts.redirected_stderr, "redirect-stderr"),
                ];
                for (known, name) in notes {
                    if known.is_none()
                        && let Ok(Content::Bytes(path, _)) = files::read(dir, name)
                    {
                        // No path is longer, and it goes into the record.
                        let path = Some(path).filter(|path| path.len() <= libc::PATH_MAX as usize);
                        *known = path.and_then(|path| String::from_utf8(path).ok());
                    }
                }
                Ok(Run {
                    launch,
                    known: true,
                    file: Some(file),
                })
            }
            Parsed::Newer(format) => Err(format),
            _ => Ok(unknown(Some(file))),
        },
        Content::Missing | Content::Unfit => Ok(unknown(None)),
    })
}

fn read_record(dir: &OwnedFd) -> io::Result<Option<Parsed<Record>>> {
    Ok(match files::read(dir, "exit.json")? {
        Content::Missing => None,
        Content::Unfit => Some(Parsed::Corrupt),
        Content::Bytes(bytes, _) => Some(record::parse_record(&bytes)),
    })
}

pub(in crate::store) fn look(dir: &OwnedFd, path: &Path, id: &JobId) -> io::Result<Look> {
    let run = match read_run(dir, id)? {
        Ok(run) => run,
        Err(format) => return Ok(newer(dir, path, id, format)),
    };
    match read_record(dir)? {
        Some(Parsed::Whole(record)) => return Ok(ended(path, run, record)),
        Some(Parsed::Newer(format)) => return Ok(newer(dir, path, id, format)),
        Some(Parsed::Corrupt) => return Ok(Look::Open),
        None => {}
    }
    let note = match life(&run) {
        Life::Supervised => None,
        Life::Unsupervised => Some(Degraded::Unsupervised),
        Life::Foreign => Some(Degraded::Foreign),
        Life::Ended(_) | Life::Lost(_) => return Ok(Look::Open),
    };
    let stopped = note.is_none() && fsx::stat_at(dir, "stopped").is_ok();
    let mut degraded = run.launch.facts.degraded.clone();
    degraded.extend(note.clone());
    let output = if note == Some(Degraded::Unsupervised) {
        abandoned_output(dir, &run.launch)
    } else {
        transcript::facts_on_disk(dir, run.launch.transcript_cap, run.launch.facts.tty)
    };
    Ok(Look::Settled(Box::new(JobView {
        state: if stopped {
            State::Stopped
        } else {
            State::Running
        },
        record: None,
        degraded,
        dir: path.to_owned(),
        launch_known: run.known,
        format: FORMAT,
        output,
        launch: run.launch,
    })))
}

fn ended(path: &Path, run: Run, record: Record) -> Look {
    let mut view = from_record(path, record);
    if run.known {
        view.launch = run.launch;
    }
    Look::Settled(Box::new(view))
}

/// An ended job as its record alone tells it.
pub(in crate::store) fn from_record(path: &Path, record: Record) -> JobView {
    let output = &record.data.output;
    let mut launch = record.launch();
    // Another place than its own: the transcript that it shares.
    let own = path.join("out");
    launch.transcript = output.path.clone().filter(|path| Path::new(path) != own);
    JobView {
        launch,
        state: record.data.state,
        degraded: record.data.facts.degraded.clone(),
        dir: path.to_owned(),
        launch_known: true,
        format: FORMAT,
        output: OutputFacts {
            bytes_total: output.bytes_total,
            bytes_kept: output.bytes_kept,
            dropped_bytes: output.dropped_bytes,
            capped: output.capped,
            tty: output.tty,
            missing_since: output
                .missing_since
                .as_deref()
                .and_then(|time| humantime::parse_rfc3339(time).ok()),
        },
        record: Some(record),
    }
}

/// A job of a newer version: a row with what its files plainly say, and hands off.
fn newer(dir: &OwnedFd, path: &Path, id: &JobId, format: u64) -> Look {
    let read = |name: &str| match files::read(dir, name) {
        Ok(Content::Bytes(bytes, file)) => {
            serde_json::from_slice::<Value>(&bytes).ok().zip(Some(file))
        }
        _ => None,
    };
    let mut launch = record::unknown_launch(id.clone());
    let mut owned = false;
    if let Some((run, file)) = read("run.json") {
        let text = |pointer: &str| run.pointer(pointer)?.as_str().map(str::to_owned);
        launch.facts.command.text = text("/command/text").unwrap_or_default();
        launch.facts.cwd = text("/cwd").unwrap_or_default();
        launch.facts.session = text("/session");
        launch.facts.harness = text("/harness");
        launch.facts.name = text("/name");
        launch.facts.started_at = text("/started_at").unwrap_or(launch.facts.started_at);
        owned = lock::is_written(&file).unwrap_or(false);
    }
    let state = read("exit.json")
        .and_then(|(exit, _)| serde_json::from_value(exit.pointer("/data/state")?.clone()).ok())
        .unwrap_or(if owned { State::Running } else { State::Lost });
    Look::Settled(Box::new(JobView {
        launch,
        state,
        record: None,
        degraded: vec![Degraded::NewerFormat],
        dir: path.to_owned(),
        launch_known: false,
        format,
        output: OutputFacts::default(),
    }))
}

/// What a supervisor writes in a job's directory as long as it lives.
const SIGNS: [&str; 6] = [
    "run.json", "out", "times", "exit.tmp", "stopped", "redirect",
];

/// The output of a job whose supervisor is gone: what is there, and until when that is sure to be all.
pub(in crate::store) fn abandoned_output(dir: &OwnedFd, launch: &Launch) -> OutputFacts {
    let mut output = transcript::facts_on_disk(dir, launch.transcript_cap, launch.facts.tty);
    // What goes to a file of its own does not need us.
    let captured =
        launch.facts.redirected_to.is_none() || launch.facts.tty || output.bytes_total > 0;
    if captured {
        let newest = transcript::names(dir).pop();
        let names = SIGNS.iter().copied().chain(newest.as_deref());
        let own = names.filter_map(|name| fsx::stat_at(dir, name).ok());
        let own = own.filter_map(|stat| fsx::changed_at(&stat)).max();
        let shared = launch.transcript.as_ref();
        let shared = shared.and_then(|path| std::fs::metadata(path).ok()?.modified().ok());
        output.missing_since = own.max(shared);
    }
    output
}

fn is_lease(file: &File, lease: LeaseFile) -> bool {
    fsx::stat_of(file).is_ok_and(|stat| stat.st_dev == lease.dev && stat.st_ino == lease.ino)
}

/// Whether this very process runs, as far as we can see from here.
fn is_alive(who: &ProcIdentity) -> bool {
    who.pid > 0
        && proc::stat(who.pid).is_some_and(|found| {
            // Start times of another time namespace cannot be compared; then the pid must do,
            // which can only delay a judgement.
            let same = who.timens != proc::timens() || found.starttime == who.starttime;
            same && !found.is_dead()
        })
}

/// R1 to R4: who could still state the end of this job.
fn life(run: &Run) -> Life {
    let Some(file) = &run.file else {
        return Life::Lost(LostReason::RecordCorrupt);
    };
    // Without a lock that can be asked the answer is "held": it delays, and loses nothing.
    let held = lock::is_written(file).unwrap_or(true);
    if !run.known {
        return if held {
            Life::Supervised
        } else {
            Life::Lost(LostReason::RecordCorrupt)
        };
    }
    let launch = &run.launch;
    let leader = &launch.facts.proc;
    let differs =
        |theirs: &str, ours: &str| !theirs.is_empty() && !ours.is_empty() && theirs != ours;
    if differs(&leader.machine, proc::machine()) {
        return Life::Foreign;
    }
    if differs(&leader.boot_id, proc::boot_id()) {
        // A lock that outlived a reboot is held by another machine that looks like this one.
        return if held && launch.lease.is_some() {
            Life::Foreign
        } else {
            Life::Lost(LostReason::Reboot)
        };
    }
    let elsewhere = leader.pidns != 0 && proc::pidns() != 0 && leader.pidns != proc::pidns();
    match launch.lease {
        Some(lease) if is_lease(file, lease) && held => return Life::Supervised,
        Some(lease) if is_lease(file, lease) => {}
        // Not the file that was locked: only the supervisor itself can tell.
        _ if elsewhere => return Life::Foreign,
        _ if is_alive(&launch.supervisor) => return Life::Supervised,
        _ => {}
    }
    if elsewhere {
        return elsewhere_life(leader);
    }
    if is_alive(leader) {
        return Life::Unsupervised;
    }
    match proc::zombie_status(leader.pid, leader.starttime) {
        Some(status) => Life::Ended(status),
        None => Life::Lost(LostReason::SupervisorDied),
    }
}

/// The supervisor is gone and the job was in another pid namespace. If that is one below ours, its
/// processes show in our `/proc` under other pids; if it is the first one, it cannot be gone.
fn elsewhere_life(leader: &ProcIdentity) -> Life {
    if leader.pidns == proc::FIRST_PIDNS {
        return Life::Unsupervised;
    }
    let lives = proc::table().iter().any(|found| {
        found.starttime == leader.starttime
            && !found.is_dead()
            && proc::pidns_of(found.pid) == Some(leader.pidns)
    });
    if lives {
        Life::Unsupervised
    } else {
        Life::Lost(LostReason::PidnsGone)
    }
}

/// R2 to R6, one judge at a time: the directory's own lock serialises those who look, while the
/// lease keeps them from a job that is owned.
pub(in crate::store) fn reconcile(path: &Path, id: &JobId) -> Result<JobView> {
    let failed = |source| Error::io("read", path, source);
    // A description of its own: the lock goes with it.
    let dir = fsx::open_dir(path).map_err(failed)?;
    // Where there is no such lock, the rename still lets only one record be.
    drop(lock::exclusive(&dir));
    // Removed while we waited for the lock: there is nothing left to judge.
    if fsx::stat_of(&dir).is_ok_and(|stat| stat.st_nlink == 0) {
        return Err(failed(io::ErrorKind::NotFound.into()));
    }
    // Twice: the second look is at what the judgement made.
    for _ in 0..2 {
        match look(&dir, path, id).map_err(failed)? {
            Look::Settled(view) => return Ok(*view),
            Look::Open => {}
        }
        let Ok(run) = read_run(&dir, id).map_err(failed)? else {
            continue;
        };
        let corrupt = matches!(read_record(&dir).map_err(failed)?, Some(Parsed::Corrupt));
        let mut facts = verdict(&dir, &run, corrupt);
        if corrupt {
            set_aside(&dir);
        }
        if commit(&dir, path, &run.launch, &facts).is_err() {
            // It has ended all the same; the next reader may have room to write it down.
            facts.degraded.push(Degraded::Unrecorded);
            let record = written_by_reader(&dir, path, &run.launch, &facts);
            let mut view = from_record(path, record);
            view.launch = run.launch;
            return Ok(view);
        }
    }
    Err(Error::Failed {
        text: format!("cannot read the record of job '{id}'"),
        hint: None,
    })
}

/// What can be said of a job without an owner.
fn verdict(dir: &OwnedFd, run: &Run, corrupt: bool) -> ExitFacts {
    let stated = (!corrupt).then(|| byname::find(dir)).flatten();
    let (outcome, observed_by, evidence) = if corrupt {
        (
            Outcome::Lost(LostReason::RecordCorrupt),
            Observer::Reconciler,
            Evidence::None,
        )
    } else if let Some(stated) = &stated {
        (
            stated.outcome.clone(),
            Observer::Supervisor,
            Evidence::FileName,
        )
    } else {
        match life(run) {
            Life::Ended(status) => (
                Outcome::from_wait_status(status),
                Observer::Reconciler,
                Evidence::ProcStat,
            ),
            Life::Lost(reason) => (Outcome::Lost(reason), Observer::Reconciler, Evidence::None),
            // It was free a moment ago, and a lease is never taken twice.
            _ => (
                Outcome::Lost(LostReason::SupervisorDied),
                Observer::Reconciler,
                Evidence::None,
            ),
        }
    };
    let mut facts = ExitFacts::new(outcome, observed_by, evidence, moment());
    // Where a record was made, the supervisor saw all of the output.
    facts.output = if corrupt || stated.is_some() {
        transcript::facts_on_disk(dir, run.launch.transcript_cap, run.launch.facts.tty)
    } else {
        abandoned_output(dir, &run.launch)
    };
    match stated.and_then(|stated| stated.more) {
        Some(more) => {
            facts.ended = more.ended;
            facts.output.bytes_total = more.bytes_total.max(facts.output.bytes_kept);
            facts.output.dropped_bytes = more.dropped_bytes;
        }
        // A process that has ended does not say when.
        None => facts.end_unseen = true,
    }
    facts.kill_requested = live::kill_intent(dir, &facts.outcome);
    facts.stopped_seen = fsx::stat_at(dir, "stopped").is_ok();
    if !run.known {
        facts.degraded.push(Degraded::LaunchUnreadable);
    }
    facts
}

/// Keeps a record that cannot be read, under another name.
fn set_aside(dir: &OwnedFd) {
    if fsx::rename_new_at(dir, "exit.json", dir, "exit.json.corrupt").is_err() {
        let name = format!("exit.json.corrupt.{:08x}", fsx::random());
        drop(fsx::rename_new_at(dir, "exit.json", dir, name.as_str()));
    }
}

/// The record that a reader would write.
fn written_by_reader(dir: &OwnedFd, path: &Path, launch: &Launch, facts: &ExitFacts) -> Record {
    let transcript = transcript_path(launch, path);
    let mut launch = launch.clone();
    // Of a launch that could not be read; one without was made by a version that had none.
    if launch.version.is_empty() {
        launch.store = launch.store.or_else(|| ids::store_of(path));
    }
    let writer = live::writer(&transcript.to_string_lossy(), dir);
    record::terminal_event(&launch, facts, &writer)
}

/// The commit of a reader: the same rename as a supervisor's, from a file of its own.
pub(in crate::store) fn commit(
    dir: &OwnedFd,
    path: &Path,
    launch: &Launch,
    facts: &ExitFacts,
) -> io::Result<()> {
    let record = written_by_reader(dir, path, launch, facts);
    let temporary = format!("exit.tmp.{:08x}", fsx::random());
    let written = files::write_new(dir, &temporary, &record.to_bytes());
    match written {
        Ok(_) => {}
        // What the supervisor reserved can hold it where the disk has no room for more.
        Err(error) if files::is_full(&error) => {
            fsx::rename_new_at(dir, "exit.tmp", dir, temporary.as_str()).map_err(|_| error)?;
            let file = fsx::open_rw_at(dir, temporary.as_str())?;
            let bytes = record.slim().to_bytes();
            std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0)?;
            file.set_len(bytes.len() as u64)?;
        }
        Err(error) => return Err(error),
    }
    match fsx::rename_new_at(dir, temporary.as_str(), dir, "exit.json") {
        Ok(()) => {
            untold::note_end(path, launch, &record);
            live::settle_record(dir, record);
            drop(fsx::unlink_at(dir, "exit.tmp"));
            Ok(())
        }
        Err(error) => {
            drop(fsx::unlink_at(dir, temporary.as_str()));
            match error.kind() {
                io::ErrorKind::AlreadyExists => Ok(()),
                _ => Err(error),
            }
        }
    }
}

//! The order of events, so that a reader can go on after the last one it saw.
//!
//! Times cannot give that order: a loss is found late, clocks jump, and two supervisors commit at once.
//! So whoever reads first decides. `events.index` holds one event id a line, in the order in which
//! readers saw them; it only grows at its end, under its lock, and reaches the disk before anything of
//! it is told. A cursor is such an id: what stands after it was not told to its owner, whatever time it
//! bears. A job that writes needs to know nothing of all this.
//!
//! `-id` says that a job was removed: its events are gone, and its id may be used again.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::job::record::{self, Parsed};
use crate::job::{How, JobId};
use crate::store::jobs::files::{self, Content};
use crate::store::jobs::view;
use crate::store::{JobView, Store};
use crate::sys::{fsx, lock};

const INDEX: &str = "events.index";
/// Beyond this size the older half is forgotten, but for jobs that are still there.
const LARGEST: u64 = 1 << 20;
/// No index of ours comes to this size; one that does would fill the memory of whoever reads it.
const UNREADABLE: u64 = 64 << 20;
const START: &str = "start";
const EXIT: &str = "exit";

/// What of a job is in the index.
#[derive(Clone, Debug, Default)]
struct Told {
    start: bool,
    exit: bool,
    more: Vec<String>,
}

/// The events of all stores in their order. The index is in the first store that can be written to.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    lines: Vec<String>,
    told: HashMap<JobId, Told>,
    /// The file that was read, and how far.
    file: Option<(u64, u64)>,
    read: u64,
    /// Why the order cannot be kept.
    pub unkept: Option<String>,
}

/// `7f3k2m.exit` → the job and the rest.
fn parts(event: &str) -> Option<(JobId, &str)> {
    let (job, kind) = event.split_once('.')?;
    Some((job.parse().ok()?, kind))
}

impl Timeline {
    /// Every event id, in order; some may be gone.
    #[must_use]
    pub(crate) fn ids(&self) -> &[String] {
        &self.lines
    }

    /// The place right after an event. `None`: there is no such event.
    #[must_use]
    pub(crate) fn after(&self, event: &str) -> Option<usize> {
        self.lines
            .iter()
            .rposition(|line| line == event)
            .map(|place| place + 1)
    }

    /// The jobs that have not ended yet, as far as was seen.
    pub(crate) fn open_jobs(&self) -> impl Iterator<Item = &JobId> {
        let open = self.told.iter().filter(|(_, told)| !told.exit);
        open.map(|(id, _)| id)
    }

    /// Looks for events that nobody has seen yet and puts them at the end. Reconciles on the way: a
    /// job whose supervisor died yields its loss here. `true`: the index was replaced meanwhile, so
    /// places in it mean something else now.
    pub(crate) fn refresh(&mut self, stores: &[Store]) -> Result<bool> {
        let home = stores
            .iter()
            .find_map(|store| Some((store, store.index()?)));
        let mut replaced = false;
        if let Some((store, file)) = &home {
            replaced = self
                .read_on(file)
                .map_err(|source| Error::io("read", &store.path.join("v1").join(INDEX), source))?;
        }
        let mut found = Vec::new();
        for store in stores {
            self.look_for(store, &mut found)?;
        }
        // An end never stands before the start of its job, whatever the clock did in between.
        found.sort_by(|a, b| (&a.time, a.rank, &a.event).cmp(&(&b.time, b.rank, &b.event)));
        if found.is_empty() {
            return Ok(replaced);
        }
        let text: String = found
            .iter()
            .map(|found| format!("{}\n", found.event))
            .collect();
        self.unkept = match &home {
            Some((_, file)) => append(file, &text)
                .err()
                .map(|error| crate::error::cause(&error)),
            None => Some("no state directory can be written to".to_owned()),
        };
        if self.unkept.is_none() {
            self.read += text.len() as u64;
        }
        for line in text.lines() {
            self.take(line);
        }
        Ok(replaced)
    }

    /// Takes in what others have appended. The file is locked.
    fn read_on(&mut self, file: &File) -> io::Result<bool> {
        let stat = fsx::stat_of(file)?;
        let which = Some((stat.st_dev, stat.st_ino));
        let size = stat.st_size.unsigned_abs();
        if size > UNREADABLE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let replaced = self.file.is_some() && (self.file != which || size < self.read);
        if self.file != which || replaced {
            *self = Self {
                file: which,
                ..Self::default()
            };
        }
        let mut text = Vec::new();
        let mut file = file;
        file.seek(SeekFrom::Start(self.read))?;
        file.take(UNREADABLE).read_to_end(&mut text)?;
        self.read = self.read.saturating_add(text.len() as u64);
        // A line that a crash cut short was never told.
        if text.last().is_some_and(|&byte| byte != b'\n') {
            append(file, "\n")?;
            self.read += 1;
            let whole = text.iter().rposition(|&byte| byte == b'\n');
            text.truncate(whole.map_or(0, |at| at + 1));
        }
        for line in String::from_utf8_lossy(&text).lines() {
            self.take(line);
        }
        Ok(replaced)
    }

    fn take(&mut self, line: &str) {
        if let Some(id) = line.strip_prefix('-').and_then(|id| id.parse().ok()) {
            self.told.remove::<JobId>(&id);
            return;
        }
        let Some((id, kind)) = parts(line) else {
            return;
        };
        let told = self.told.entry(id).or_default();
        match kind {
            START => told.start = true,
            EXIT => told.exit = true,
            more => told.more.push(more.to_owned()),
        }
        self.lines.push(line.to_owned());
    }

    fn look_for(&self, store: &Store, found: &mut Vec<Found>) -> Result<()> {
        let nothing = Told::default();
        for id in store.ids()? {
            let told = self.told.get(&id).unwrap_or(&nothing);
            if told.exit {
                continue;
            }
            // One that cannot be read must not hide the others.
            let Ok(Some(job)) = store.load(&id) else {
                continue;
            };
            let started = job.launch.facts.started_at.clone();
            let mut add = |kind: &str, rank, time: &str| {
                found.push(Found {
                    event: format!("{id}.{kind}"),
                    time: time.to_owned().max(started.clone()),
                    rank,
                });
            };
            // A killed foreground command was never started as a job.
            if !told.start && job.launch_known && job.launch.facts.how != How::Foreground {
                add(START, 0, &started);
            }
            for (kind, time) in more_events(&job) {
                if !told.more.contains(&kind) {
                    add(&kind, 1, &time);
                }
            }
            // A loss that the disk has no room for is told when it is written down.
            let is_written = || fsx::stat_path(&job.dir.join("exit.json")).is_ok();
            if job.state.is_terminal() && is_written() {
                add(EXIT, 2, job.settled_at().unwrap_or(&started));
            }
        }
        Ok(())
    }
}

/// An event that is not in the index yet.
struct Found {
    event: String,
    time: String,
    rank: u8,
}

/// What a job has besides its start and its end: `event.<kind>.json`, each with its time.
fn more_events(job: &JobView) -> Vec<(String, String)> {
    let Ok(dir) = fsx::open_dir(&job.dir) else {
        return Vec::new();
    };
    let names = fsx::names(&dir).unwrap_or_default();
    let kinds = names
        .iter()
        .filter_map(|name| name.to_str()?.strip_prefix("event.")?.strip_suffix(".json"));
    kinds
        .filter_map(|kind| {
            let event = read_value(files::read(&dir, &format!("event.{kind}.json")))?;
            Some((kind.to_owned(), event.get("time")?.as_str()?.to_owned()))
        })
        .collect()
}

fn read_value(content: io::Result<Content>) -> Option<Value> {
    match content.ok()? {
        Content::Bytes(bytes, _) => serde_json::from_slice(&bytes).ok(),
        _ => None,
    }
}

/// Appends and asks the disk to have it: what was told must keep its place.
fn append(mut file: &File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

impl Store {
    /// The index, locked. `None`: it cannot be written here. The lock goes with the file.
    fn index(&self) -> Option<File> {
        for _ in 0..16 {
            let file = fsx::open_append_at(&self.base, INDEX).ok()?;
            lock::exclusive(&file).ok()?;
            // It may have been replaced while we waited for the lock.
            let (ours, now) = (
                fsx::stat_of(&file).ok()?,
                fsx::stat_at(&self.base, INDEX).ok()?,
            );
            if (ours.st_dev, ours.st_ino) == (now.st_dev, now.st_ino) {
                return Some(file);
            }
        }
        None
    }

    /// One event as it is told. `None`: there is none, or it is gone.
    #[must_use]
    pub fn event(&self, event: &str) -> Option<Value> {
        let (id, kind) = parts(event)?;
        let read = |name: &str| files::read_below(&self.jobs, id.as_str(), name);
        match kind {
            EXIT => read_value(read("exit.json")),
            START => match read("run.json").ok()? {
                Content::Bytes(bytes, _) => match record::parse_launch(&bytes) {
                    Parsed::Whole(launch) => {
                        let dir = self.path.join("v1/jobs").join(id.as_str());
                        let transcript = view::transcript_path(&launch, &dir);
                        let transcript = transcript.to_string_lossy();
                        Some(record::started_event(&launch, fsx::euid(), &transcript))
                    }
                    _ => None,
                },
                _ => None,
            },
            kind if kind
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') =>
            {
                read_value(read(&format!("event.{kind}.json")))
            }
            _ => None,
        }
    }

    /// Adds an event to a job, for readers of `events`: whole or not at all, and once. `kind` is a
    /// word of letters, digits and dashes; the event's id must be `<job>.<kind>`.
    pub fn add_event(&self, job: &JobId, kind: &str, event: &Value) -> Result<()> {
        let failed = |source| Error::io("write an event of", &self.path, source);
        let dir = fsx::open_dir_at(&self.jobs, job.as_str()).map_err(failed)?;
        let temporary = format!("event.tmp.{:08x}", fsx::random());
        let bytes = serde_json::to_vec(event).map_err(|error| failed(error.into()))?;
        drop(files::write_new(&dir, &temporary, &bytes).map_err(failed)?);
        let name = format!("event.{kind}.json");
        match fsx::rename_new_at(&dir, temporary.as_str(), &dir, name.as_str()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                drop(fsx::unlink_at(&dir, temporary.as_str()));
                return Ok(());
            }
            other => other.map_err(failed)?,
        }
        // Of a job that has ended nobody looks for more: it goes into the index right here.
        if let Some(file) = self.index() {
            let mut timeline = Timeline::default();
            timeline.read_on(&file).map_err(failed)?;
            let is_told = timeline
                .told
                .get(job)
                .is_some_and(|told| !told.exit || told.more.iter().any(|more| more == kind));
            if !is_told && timeline.told.contains_key(job) {
                append(&file, &format!("{job}.{kind}\n")).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Notes that these jobs are gone, and forgets what is old when the index has grown large.
    pub(in crate::store) fn bury(&self, ids: &[JobId]) -> io::Result<()> {
        let Some(file) = self.index().filter(|_| !ids.is_empty()) else {
            return Ok(());
        };
        let text: String = ids.iter().map(|id| format!("-{id}\n")).collect();
        append(&file, &text)?;
        if fsx::stat_of(&file)?.st_size.unsigned_abs() > LARGEST {
            self.shorten_index(&file)?;
        }
        Ok(())
    }

    fn shorten_index(&self, file: &File) -> io::Result<()> {
        let mut text = String::new();
        let mut reader = file;
        reader.seek(SeekFrom::Start(0))?;
        reader.take(UNREADABLE).read_to_string(&mut text)?;
        let mut left = text.len();
        let kept: String = text
            .split_inclusive('\n')
            .filter(|line| {
                left -= line.len();
                let is_new = left < LARGEST as usize / 2;
                let is_there = parts(line.trim_end())
                    .is_some_and(|(id, _)| fsx::stat_at(&self.jobs, id.as_str()).is_ok());
                is_new || is_there
            })
            .collect();
        let name = format!("{INDEX}.tmp.{:08x}", fsx::random());
        let fresh = files::write_new(&self.base, &name, kept.as_bytes())?;
        fresh.sync_data()?;
        fsx::rename_at(&self.base, name.as_str(), self.base.as_fd(), INDEX)
    }
}

/// Whether a job of this id was there and was removed.
pub(in crate::store) fn was_removed(stores: &[Store], id: &JobId) -> bool {
    let line = format!("-{id}");
    stores.iter().any(|store| {
        let Ok(file) = fsx::open_at(&store.base, INDEX) else {
            return false;
        };
        let mut text = String::new();
        file.take(UNREADABLE).read_to_string(&mut text).is_ok()
            && text.lines().any(|found| found == line)
    })
}

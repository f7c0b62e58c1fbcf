//! Sleeping until something changes: in the kernel, on inotify and on the leases of jobs. The one room
//! for it; each verb takes what it needs. [`Notices`] are word of changes, for a loop of one's own;
//! [`Watch`] sleeps until jobs write or end; [`Lookout`] until a list changes, a signal comes or
//! the reader leaves.
//!
//! Watch first, read afterwards: what happens in between then wakes us.

use std::collections::{HashMap, HashSet};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use crate::error::{Error, Result};
use crate::store::{JobView, Waited};
use crate::sys::signal::SignalFd;

/// A notice of the kernel can be missed (another host wrote, a queue ran over): then we look anyway.
const RESCAN: Duration = Duration::from_secs(2);
/// The same where there are no notices at all.
const RESCAN_BLIND: Duration = Duration::from_millis(250);
/// Enough for a record to be read; the default would be 2 MiB a job.
const STACK: usize = 512 * 1024;

/// Something is written, in a file or in one of a directory.
const OUTPUT: AddWatchFlags = AddWatchFlags::IN_MODIFY
    .union(AddWatchFlags::IN_CREATE)
    .union(AddWatchFlags::IN_MOVED_TO);
/// Something appears in a directory, or leaves it.
const ENTRIES: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_ONLYDIR);

/// Word of changes at paths.
pub(crate) struct Notices {
    /// `None`: the kernel gives none here.
    inotify: Option<Inotify>,
    watched: HashMap<PathBuf, WatchDescriptor>,
    /// Something is to be watched and cannot be: too many watches, or a file system without.
    missing: bool,
}

impl Notices {
    pub(crate) fn new() -> Self {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        Self {
            inotify: Inotify::init(flags).ok(),
            watched: HashMap::new(),
            missing: false,
        }
    }

    /// Of what is written to a job's transcript.
    pub(crate) fn of_transcript(job: &JobView) -> Self {
        let mut notices = Self::new();
        let path = job.transcript_path();
        notices.add(path.parent().unwrap_or(&job.dir), OUTPUT);
        notices
    }

    /// Of what comes to a directory and leaves it, too.
    pub(crate) fn add_entries(&mut self, dir: &Path) {
        self.add(dir, ENTRIES);
    }

    fn add(&mut self, path: &Path, flags: AddWatchFlags) -> Option<WatchDescriptor> {
        if let Some(known) = self.watched.get(path) {
            return Some(*known);
        }
        let added = self.inotify.as_ref()?.add_watch(path, flags);
        self.missing |= added.is_err();
        let descriptor = added.ok()?;
        self.watched.insert(path.to_owned(), descriptor);
        Some(descriptor)
    }

    /// Of what comes to these directories and leaves them, and of nothing else.
    fn only(&mut self, wanted: &HashSet<PathBuf>) {
        let inotify = &self.inotify;
        self.watched.retain(|dir, descriptor| {
            let keep = wanted.contains(dir);
            if let Some(inotify) = inotify.as_ref().filter(|_| !keep) {
                // Of a directory that is gone the kernel has dropped it already.
                inotify.rm_watch(*descriptor).ok();
            }
            keep
        });
        wanted.iter().for_each(|dir| self.add_entries(dir));
    }

    /// Whether one has to look now and then instead of sleeping.
    pub(crate) fn are_missing(&self) -> bool {
        self.missing || self.inotify.is_none()
    }

    /// Readable when there is one.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// What there is by now; it is not told again.
    pub(crate) fn take(&self) -> Vec<InotifyEvent> {
        let mut all = Vec::new();
        while let Some(Ok(events)) = self.inotify.as_ref().map(Inotify::read_events)
            && !events.is_empty()
        {
            all.extend(events);
        }
        all
    }
}

/// Waits for the end of a job in a thread of its own, then does `then`.
fn at_end(job: &JobView, then: impl FnOnce(Result<Waited>) + Send + 'static) -> Result<()> {
    let job = job.clone();
    std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || then(job.wait(None)))
        .map(drop)
        .map_err(|source| Error::sys("start a thread", source))
}

/// A pipe that ends when the job has ended. A wait that failed ends it too: nothing else would ever.
pub(crate) fn ending_of(job: &JobView) -> Result<PipeReader> {
    let (reader, writer) = io::pipe().map_err(|source| Error::sys("wait", source))?;
    at_end(job, move |_| drop(writer))?;
    Ok(reader)
}

/// Blocks until one of these is ready, or the time is over; tells which are.
fn sleep_on(fds: &mut [PollFd<'_>], left: Option<Duration>) -> Vec<bool> {
    // Rounded up, or the last millisecond would be spent spinning.
    let time = left.map_or(PollTimeout::NONE, |left| {
        let ms = left.as_micros().div_ceil(1000).min(i32::MAX as u128);
        PollTimeout::try_from(ms as i32).unwrap_or(PollTimeout::MAX)
    });
    match poll(fds, time) {
        Ok(_) => fds.iter().map(|fd| fd.any().unwrap_or(false)).collect(),
        Err(error) => {
            if error != Errno::EINTR {
                // Cannot happen with descriptors of ours; better slow than busy.
                std::thread::park_timeout(RESCAN_BLIND);
            }
            vec![false; fds.len()]
        }
    }
}

fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::new(fd, PollFlags::POLLIN)
}

/// What happened. The number is the one that the job, or the place, was added with.
pub(crate) enum Event {
    /// There may be more output, or more jobs.
    Changed(usize),
    Ended(usize, Result<Waited>),
}

/// Jobs that write or end.
pub(crate) struct Watch {
    notices: Notices,
    places: Vec<(WatchDescriptor, usize)>,
    /// Whose output is of interest: looked at now and then in any case.
    outputs: Vec<usize>,
    /// The same for places where jobs appear: only where the kernel is silent.
    homes: Vec<usize>,
    scanned: Instant,
    ends: mpsc::Receiver<(usize, Result<Waited>)>,
    sender: mpsc::Sender<(usize, Result<Waited>)>,
    woken: PipeReader,
    waker: Arc<PipeWriter>,
}

impl Watch {
    pub(crate) fn new() -> Result<Self> {
        let (woken, waker) = io::pipe().map_err(|source| Error::sys("wait", source))?;
        let (sender, ends) = mpsc::channel();
        Ok(Self {
            notices: Notices::new(),
            places: Vec::new(),
            outputs: Vec::new(),
            homes: Vec::new(),
            scanned: Instant::now(),
            ends,
            sender,
            woken,
            waker: Arc::new(waker),
        })
    }

    /// Asks to be told when something is written at `path`: a file, or a directory of files.
    pub(crate) fn add_output(&mut self, path: &Path, number: usize) {
        let added = self.notices.add(path, OUTPUT);
        self.places.extend(added.map(|place| (place, number)));
        if !self.outputs.contains(&number) {
            self.outputs.push(number);
        }
    }

    /// Asks to be told when something appears in a directory, or leaves it.
    pub(crate) fn add_entries(&mut self, dir: &Path, number: usize) {
        let added = self.notices.add(dir, ENTRIES);
        self.places.extend(added.map(|place| (place, number)));
        self.homes.push(number);
    }

    /// Asks to be told of the end of a job.
    pub(crate) fn add_end(&mut self, job: &JobView, number: usize) -> Result<()> {
        let (sender, waker) = (self.sender.clone(), Arc::clone(&self.waker));
        at_end(job, move |waited| {
            // Whoever waited may have left.
            if sender.send((number, waited)).is_ok() {
                drop((&*waker).write(&[0]));
            }
        })
    }

    /// Blocks until something happened, or `deadline` is over: then there is nothing in the list.
    pub(crate) fn next(&mut self, deadline: Option<Instant>) -> Vec<Event> {
        loop {
            let rescan = self.rescan();
            let end = [deadline, rescan].into_iter().flatten().min();
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let mut fds = vec![readable(self.woken.as_fd())];
            fds.extend(self.notices.fd().map(readable));
            if sleep_on(&mut fds, left)[0] {
                drop(self.woken.read(&mut [0; 512]));
            }
            let mut events = self.changes(rescan);
            let ends = self.ends.try_iter();
            events.extend(ends.map(|(number, waited)| Event::Ended(number, waited)));
            if !events.is_empty() || deadline.is_some_and(|end| Instant::now() >= end) {
                return events;
            }
        }
    }

    /// When to look without a notice.
    fn rescan(&self) -> Option<Instant> {
        let every = match (self.notices.are_missing(), self.outputs.is_empty()) {
            (true, true) if self.homes.is_empty() => return None,
            (true, true) => RESCAN,
            (true, false) => RESCAN_BLIND,
            (false, true) => return None,
            (false, false) => RESCAN,
        };
        Some(self.scanned + every)
    }

    fn changes(&mut self, rescan: Option<Instant>) -> Vec<Event> {
        let now = Instant::now();
        let events = self.notices.take();
        let mut numbers: Vec<usize> = Vec::new();
        // A directory may be watched for several jobs, so one descriptor may have many numbers.
        for (descriptor, number) in &self.places {
            let told = events.iter().any(|event| event.wd == *descriptor);
            if told && !numbers.contains(number) {
                numbers.push(*number);
            }
        }
        let overflow = |event: &InotifyEvent| event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW);
        if rescan.is_some_and(|due| now >= due) || events.iter().any(overflow) {
            self.scanned = now;
            numbers = [&self.outputs[..], &self.homes].concat();
        }
        numbers.into_iter().map(Event::Changed).collect()
    }
}

/// What ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Something changed, or the time is over.
    Look,
    Signal(i32),
    /// Nobody reads our output any more.
    Alone,
}

/// Lists that change, for somebody who reads our stdout.
pub(crate) struct Lookout {
    notices: Notices,
    signals: Option<SignalFd>,
}

impl Lookout {
    /// These signals wake us instead of striking.
    pub(crate) fn new(signals: &[i32]) -> Self {
        let signals = (!signals.is_empty()).then(|| SignalFd::new(signals).ok());
        Self {
            notices: Notices::new(),
            signals: signals.flatten(),
        }
    }

    /// Asks to be woken when something appears in one of these directories, or leaves it.
    pub(crate) fn watch_only(&mut self, wanted: &HashSet<PathBuf>) {
        self.notices.only(wanted);
    }

    pub(crate) fn sleep(&mut self, limit: Duration) -> Woken {
        let stdout = io::stdout();
        // No event is asked for: a reader that left is told all the same.
        let mut fds = vec![PollFd::new(stdout.as_fd(), PollFlags::empty())];
        fds.extend(self.notices.fd().map(readable));
        fds.extend(
            self.signals
                .as_ref()
                .map(|signals| readable(signals.as_fd())),
        );
        let alone = sleep_on(&mut fds, Some(limit))[0];
        // What happened does not matter, only that it is not told again.
        self.notices.take();
        if let Some(arrived) = self.signals.as_ref().and_then(SignalFd::next) {
            return Woken::Signal(arrived.signal);
        }
        if alone { Woken::Alone } else { Woken::Look }
    }
}

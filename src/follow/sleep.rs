//! Sleeping until something happens to jobs: they write, they end, others appear. In one `poll`, together
//! with whatever else the caller waits for.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InotifyEvent, WatchDescriptor};

use super::changes::{self, Changes};
use super::ends::Ends;
use crate::error::Result;
use crate::store::{JobView, Waited};

/// A write can go unreported (another host wrote, to a file that both have): then we look anyway.
const RESCAN: Duration = Duration::from_secs(2);
/// The same where nothing is reported at all.
const RESCAN_BLIND: Duration = Duration::from_millis(250);

/// What happened. The number is the one that the job, or the place, was added with.
pub(crate) enum Event {
    /// There may be more output, or more jobs.
    Changed(usize),
    Ended(usize, Result<Waited>),
}

/// What one sleeps on.
pub(crate) struct Sleeper {
    changes: Changes,
    places: Vec<Place>,
    ends: Ends,
    scanned: Instant,
}

/// A place that is watched for what appears in it.
struct Place {
    path: PathBuf,
    /// `None`: it cannot be watched, and is looked at now and then.
    watch: Option<WatchDescriptor>,
    what: AddWatchFlags,
    number: usize,
}

impl Sleeper {
    pub(crate) fn new() -> Self {
        Self {
            changes: Changes::default(),
            places: Vec::new(),
            ends: Ends::default(),
            scanned: Instant::now(),
        }
    }

    /// Wakes up when something is written at `path`: a file, or a directory of files.
    pub(crate) fn watch_output(&mut self, path: &Path, number: usize) {
        self.watch(path, changes::OUTPUT, number);
    }

    /// Wakes up when something appears in a directory, or leaves it.
    pub(crate) fn watch_entries(&mut self, dir: &Path, number: usize) {
        self.watch(dir, changes::ENTRIES, number);
    }

    /// The same for these directories and no others.
    pub(crate) fn watch_entries_of_only(&mut self, dirs: &HashSet<PathBuf>, number: usize) {
        self.changes.retain(|known| dirs.contains(known));
        self.places.retain(|place| dirs.contains(&place.path));
        for dir in dirs {
            if self.places.iter().all(|place| place.path != *dir) {
                self.watch(dir, changes::ENTRIES, number);
            }
        }
    }

    /// Does not wake up any more for what was watched under this number.
    pub(crate) fn forget(&mut self, number: usize) {
        self.places.retain(|place| place.number != number);
        let places = &self.places;
        let is_left = |path: &Path| places.iter().any(|place| place.path == path);
        self.changes.retain(is_left);
    }

    fn watch(&mut self, path: &Path, what: AddWatchFlags, number: usize) {
        let watch = self.changes.add(path, what);
        self.places.push(Place {
            path: path.to_owned(),
            watch,
            what,
            number,
        });
    }

    /// Wakes up when the job has ended; at once if it has already.
    pub(crate) fn watch_end(&mut self, job: &JobView, number: usize) {
        self.ends.add(job, number);
    }

    /// Blocks until something happened, or the time is over: then there is nothing in the list.
    pub(crate) fn sleep(&mut self, until: Option<Instant>) -> Vec<Event> {
        self.sleep_with(&[], until).0
    }

    /// The same, or until one of `others` is ready; says which of them are.
    pub(crate) fn sleep_with(
        &mut self,
        others: &[PollFd<'_>],
        until: Option<Instant>,
    ) -> (Vec<Event>, Vec<bool>) {
        if others.is_empty()
            && until.is_none()
            && self.places.is_empty()
            && let Some((number, waited)) = self.ends.wait_for_the_only_one()
        {
            return (vec![Event::Ended(number, waited)], Vec::new());
        }
        self.ends.watch_added();
        loop {
            let rescan = self.rescan();
            let mut end = [until, rescan].into_iter().flatten().min();
            if self.ends.has_found() {
                end = Some(Instant::now());
            }
            let mut others_ready = self.poll(others, end);
            let ends_ready = others_ready.split_off(others.len());
            let reported = self.changes.take();
            let mut events = self.changed(&reported, rescan);
            let ended = self.ends.take(&ends_ready);
            events.extend(
                ended
                    .into_iter()
                    .map(|(number, waited)| Event::Ended(number, waited)),
            );
            let is_over = until.is_some_and(|until| Instant::now() >= until);
            if !events.is_empty() || is_over || others_ready.contains(&true) {
                return (events, others_ready);
            }
        }
    }

    /// One `poll` on everything; says which are ready of `others`, and of the descriptors of the ends.
    fn poll(&self, others: &[PollFd<'_>], end: Option<Instant>) -> Vec<bool> {
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds: Vec<PollFd<'_>> = others.to_vec();
        fds.extend(self.ends.fds().into_iter().map(readable));
        let asked = fds.len();
        fds.extend(self.changes.fd().map(readable));
        // Rounded up, or the last millisecond would be spent spinning.
        let time = end.map_or(PollTimeout::NONE, |end| {
            let left = end.saturating_duration_since(Instant::now());
            let ms = left.as_micros().div_ceil(1000).min(i32::MAX as u128);
            PollTimeout::try_from(ms as i32).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut fds, time) {
            Ok(_) => fds[..asked]
                .iter()
                .map(|fd| fd.any().unwrap_or(true))
                .collect(),
            Err(error) => {
                if error != Errno::EINTR {
                    // Cannot happen with descriptors of ours; better slow than busy.
                    std::thread::park_timeout(RESCAN_BLIND);
                }
                vec![false; asked]
            }
        }
    }

    /// When to look though nothing was reported. Where only ends and lists are waited for, never: the
    /// kernel says when it could not report something.
    fn rescan(&self) -> Option<Instant> {
        let blind = self.changes.is_incomplete();
        let mut outputs = self.places.iter();
        let every = match outputs.any(|place| place.what == changes::OUTPUT) {
            true if blind => RESCAN_BLIND,
            true => RESCAN,
            false if blind && !self.places.is_empty() => RESCAN,
            false => return None,
        };
        Some(self.scanned + every)
    }

    fn changed(&mut self, reported: &[InotifyEvent], rescan: Option<Instant>) -> Vec<Event> {
        let now = Instant::now();
        let all = rescan.is_some_and(|due| now >= due) || changes::overflowed(reported);
        if all {
            self.scanned = now;
        }
        let mut numbers: Vec<usize> = Vec::new();
        for Place {
            watch,
            what,
            number,
            ..
        } in &self.places
        {
            let is_reported = || watch.is_some_and(|at| changes::reports(reported, at, *what));
            if !numbers.contains(number) && (all || is_reported()) {
                numbers.push(*number);
            }
        }
        numbers.into_iter().map(Event::Changed).collect()
    }
}

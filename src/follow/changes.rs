//! Changes of files and directories, as the kernel reports them: the only user of inotify besides the
//! trial of it in `doctor`.
//!
//! Watch first, read afterwards: what happens in between is then reported.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::output;
use crate::store::JobView;

/// Something is written, in a file or in one of a directory.
pub(super) const OUTPUT: AddWatchFlags = AddWatchFlags::IN_MODIFY
    .union(AddWatchFlags::IN_CREATE)
    .union(AddWatchFlags::IN_MOVED_TO);
/// Something appears in a directory, or leaves it.
pub(super) const ENTRIES: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_DELETE);

/// One place may be watched for several reasons: what is asked for is added to what was.
const ADD: AddWatchFlags = AddWatchFlags::from_bits_retain(libc::IN_MASK_ADD);

/// Places that are watched.
///
/// A process that has watched anything ends late: the kernel waits for a grace period of RCU when the last
/// watches go, which takes milliseconds. So nothing is opened before something is watched, and ends of
/// jobs are not waited for in this way.
#[derive(Default)]
pub(crate) struct Changes {
    /// `None`: nothing is watched.
    inotify: Option<Inotify>,
    places: HashMap<PathBuf, WatchDescriptor>,
    /// A place could not be watched: too many watches, or a file system without.
    is_incomplete: bool,
}

impl Changes {
    /// Of a job's transcript.
    pub(crate) fn of_transcript(job: &JobView) -> Self {
        let mut changes = Self::default();
        changes.add(&output::transcript_dir(job), OUTPUT);
        changes
    }

    /// Watches one more place. `None`: it cannot be watched.
    pub(super) fn add(&mut self, path: &Path, what: AddWatchFlags) -> Option<WatchDescriptor> {
        if self.inotify.is_none() {
            let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
            self.inotify = Inotify::init(flags).ok();
        }
        let inotify = self.inotify.as_ref();
        let added = inotify.and_then(|inotify| inotify.add_watch(path, what | ADD).ok());
        match added {
            Some(place) => drop(self.places.insert(path.to_owned(), place)),
            None => self.is_incomplete = true,
        }
        added
    }

    /// Forgets the places that are not to be kept.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Path) -> bool) {
        let inotify = &self.inotify;
        self.places.retain(|path, place| {
            let keep = keep(path);
            if let Some(inotify) = inotify.as_ref().filter(|_| !keep) {
                // Of a directory that is gone the kernel has dropped it already.
                inotify.rm_watch(*place).ok();
            }
            keep
        });
    }

    /// Whether one has to look now and then instead of sleeping.
    pub(super) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Readable when there are some.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// What has changed since the last call.
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

/// Whether one of these events is of this kind, at this place.
pub(super) fn reports(
    events: &[InotifyEvent],
    place: WatchDescriptor,
    what: AddWatchFlags,
) -> bool {
    // A place that is no longer watched (its file system is gone) has changed in every way.
    let what = what | AddWatchFlags::IN_IGNORED;
    let mut events = events.iter();
    events.any(|event| event.wd == place && event.mask.intersects(what))
}

/// Whether so much happened that the kernel could not report all of it.
pub(super) fn overflowed(events: &[InotifyEvent]) -> bool {
    let mut events = events.iter();
    events.any(|event| event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW))
}

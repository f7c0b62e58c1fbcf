//! Sleeping until something happens: a change in a directory, a signal, a reader that left.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use crate::sys::fds;
use crate::sys::signal::SignalFd;

/// What ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Something changed, or the time is over.
    Look,
    Signal(i32),
    /// Nobody reads our output any more.
    Alone,
}

pub(crate) struct Watcher {
    /// `None`: the kernel tells nothing, and only the time limit wakes us.
    inotify: Option<Inotify>,
    watched: HashMap<PathBuf, WatchDescriptor>,
    signals: Option<SignalFd>,
}

impl Watcher {
    /// These signals wake us instead of striking.
    pub(crate) fn new(signals: &[i32]) -> Self {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        Self {
            inotify: Inotify::init(flags).ok(),
            watched: HashMap::new(),
            signals: if signals.is_empty() {
                None
            } else {
                SignalFd::new(signals).ok()
            },
        }
    }

    /// Asks to be woken when something appears in a directory, or leaves it.
    pub(crate) fn watch(&mut self, dir: &Path) {
        let flags = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_ONLYDIR;
        // Where there is no room for a watch, the time limit must do.
        if let Some(inotify) = &self.inotify
            && !self.watched.contains_key(dir)
            && let Ok(number) = inotify.add_watch(dir, flags)
        {
            self.watched.insert(dir.to_owned(), number);
        }
    }

    /// Watches these directories and no others.
    pub(crate) fn watch_only(&mut self, wanted: &HashSet<PathBuf>) {
        let inotify = &self.inotify;
        self.watched.retain(|dir, number| {
            let keep = wanted.contains(dir);
            if let Some(inotify) = inotify.as_ref().filter(|_| !keep) {
                // Of a directory that is gone the kernel has dropped it already.
                inotify.rm_watch(*number).ok();
            }
            keep
        });
        wanted.iter().for_each(|dir| self.watch(dir));
    }

    pub(crate) fn sleep(&mut self, limit: Duration) -> Woken {
        let stdout = io::stdout();
        let signal_fd = self.signals.as_ref().map(AsRawFd::as_raw_fd);
        let wait = |signals: Option<PollFd<'_>>| {
            // No event is asked for: a reader that left is told all the same.
            let mut all = vec![PollFd::new(stdout.as_fd(), PollFlags::empty())];
            all.extend(
                self.inotify
                    .as_ref()
                    .map(|inotify| PollFd::new(inotify.as_fd(), PollFlags::POLLIN)),
            );
            all.extend(signals);
            let ms = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
            let time = PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX);
            match poll(&mut all, time) {
                Ok(_) | Err(Errno::EINTR) => all[0].any().unwrap_or(false),
                Err(_) => true,
            }
        };
        let alone = match signal_fd {
            Some(fd) => fds::with_borrowed(fd, |fd| wait(Some(PollFd::new(fd, PollFlags::POLLIN)))),
            None => wait(None),
        };
        if let Some(inotify) = &self.inotify {
            // What happened does not matter, only that it is not told again.
            drop(inotify.read_events());
        }
        if let Some(arrived) = self.signals.as_ref().and_then(SignalFd::next) {
            return Woken::Signal(arrived.signal);
        }
        if alone { Woken::Alone } else { Woken::Look }
    }
}

//! Lists of jobs that change, for somebody who reads our stdout.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};

use super::sleep::Sleeper;
use crate::sys::signal::SignalFd;

/// What ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Something changed, or the time is over.
    Look,
    Signal(i32),
    /// Nobody reads our output any more.
    ReaderGone,
}

pub(crate) struct ListSleeper {
    sleeper: Sleeper,
    signals: Option<SignalFd>,
}

impl ListSleeper {
    /// These signals wake us up instead of ending us.
    pub(crate) fn new(signals: &[i32]) -> Self {
        let signals = (!signals.is_empty()).then(|| SignalFd::new(signals).ok());
        Self {
            sleeper: Sleeper::new(),
            signals: signals.flatten(),
        }
    }

    /// Wakes up when something appears in one of these directories, or leaves it.
    pub(crate) fn watch_only(&mut self, dirs: &HashSet<PathBuf>) {
        self.sleeper.watch_entries_of_only(dirs, 0);
    }

    pub(crate) fn sleep(&mut self, limit: Duration) -> Woken {
        let stdout = io::stdout();
        // No event is asked for: a hang-up is always reported.
        let mut others = vec![PollFd::new(stdout.as_fd(), PollFlags::empty())];
        let signals = self.signals.as_ref();
        others.extend(signals.map(|signals| PollFd::new(signals.as_fd(), PollFlags::POLLIN)));
        let until = Instant::now().checked_add(limit);
        let (_, ready) = self.sleeper.sleep_with(&others, until);
        if let Some(arrived) = signals.and_then(SignalFd::next) {
            return Woken::Signal(arrived.signal);
        }
        if ready[0] {
            Woken::ReaderGone
        } else {
            Woken::Look
        }
    }
}

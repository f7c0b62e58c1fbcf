//! The call: the shell in the foreground, the front that answers for it, and the output between them.
//!
//! `relay` (output on its way to the harness), `front_link` (the front), `foreground` (signalling the
//! shell and what it started), `record` (a foreground that was ended from outside), `stops` (stopping
//! and continuing with the shell), `deliver` (when the call is over), `promote` (the foreground becomes a
//! job), `announce` (what is said of jobs that live on).

mod announce;
mod deliver;
mod foreground;
mod front_link;
mod promote;
mod record;
mod relay;
mod stops;
mod stream;

use std::os::fd::RawFd;
use std::time::Duration;

use crate::supervisor::state::Phase;
use crate::sys::process::Usage;

pub(super) use announce::{announcement, end_said, time_is_over, unwatched};
pub(super) use foreground::ForegroundKill;
pub(super) use front_link::{Front, PassedOn};
pub(super) use relay::{Flow, Reading, Relay};
pub(super) use stream::{Buffer, Feed, STALLED, Sink};

/// The wait status for a shell that has none: code 125.
const NO_STATUS: i32 = 125 << 8;

/// The real shell, or the program of `agent-sh run`.
pub(super) struct Shell {
    pub(super) pid: i32,
    /// The session it was started in; whoever is in another one left on purpose.
    pub(super) session: i32,
    /// Since boot.
    pub(super) started: Duration,
    /// `Some` iff it has ended.
    status: Option<(i32, Usage)>,
}

impl Shell {
    pub(super) fn new(pid: i32, session: i32, started: Duration) -> Self {
        Self {
            pid,
            session,
            started,
            status: None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.status.is_none()
    }

    pub(super) fn set_status(&mut self, status: i32, usage: Usage) {
        self.status = Some((status, usage));
    }

    /// The first status counts.
    pub(super) fn set_first_status(&mut self, status: i32, usage: Usage) {
        self.status.get_or_insert((status, usage));
    }

    pub(super) fn wait_status(&self) -> i32 {
        self.status.map_or(NO_STATUS, |(status, _)| status)
    }

    fn usage(&self) -> Option<Usage> {
        self.status.map(|(_, usage)| usage)
    }

    fn died_of_signal(&self) -> bool {
        self.status.is_some_and(|(status, _)| status & 0x7f != 0)
    }
}

pub(super) struct Call {
    phase: Phase,
    /// When the shell ended, once it has.
    delivering_since: Duration,
    pub(super) shell: Shell,
    pub(super) front: Front,
    pub(super) relay: Relay,
    pub(super) kill: ForegroundKill,
    /// `Some` iff the front stays: the wait status that it ends with.
    remembered: Option<i32>,
}

impl Call {
    pub(super) fn new(shell: Shell, front: Front, relay: Relay) -> Self {
        Self {
            phase: Phase::Foreground,
            delivering_since: Duration::ZERO,
            shell,
            front,
            relay,
            kill: ForegroundKill::default(),
            remembered: None,
        }
    }

    pub(super) fn remember(&mut self, status: i32) {
        self.remembered = Some(status);
    }

    pub(super) fn remembered(&self) -> i32 {
        self.remembered.unwrap_or(NO_STATUS)
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn enter(&mut self, phase: Phase, now: impl FnOnce() -> Duration) {
        if phase == Phase::Delivering {
            self.delivering_since = now();
        }
        self.phase = phase;
    }

    /// The descriptors that belong to the call.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.front.descriptors().chain(self.relay.descriptors())
    }
}

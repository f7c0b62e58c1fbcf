//! What only makes a call faster: nothing here changes what happens, and all of it can be switched off
//! (`AGENT_SH_WARM=off`; see `sys::affinity::is_warm`).
//!
//! * The front, the supervisor and what they fork stay on the processor where the call began, for the
//!   milliseconds of a start (`sys::affinity`). When a job is expected, the supervisor is sent to another
//!   processor at the moment the shell starts, so that it prepares beside the shell; and when the front has
//!   its answer, the supervisor yields to it.
//! * Terminals for the first job are opened ahead of it, and so is a directory in the store; the name
//!   of the program is looked up. A directory that was not needed is left for the next call (`store`).
//!
//! Two more cannot be switched off, because the way a call starts is built on them: the page that the
//! front shares with the supervisor (`sys::process::shared_numbers`), and the order of the functions in
//! the program (`.cargo/layout.ld`).

use std::time::Duration;

use super::Supervisor;
use super::job::{Opened, open_channel};
use super::timers::{Timer, Timers};
use crate::job::Degraded;
use crate::settings::Capture;
use crate::sys::affinity::{self, Affinity};
use crate::sys::process;
use crate::wire::Work;

/// How long a supervisor stays on the processor where the call began.
const ON_ONE_PROCESSOR: Duration = Duration::from_millis(10);

pub(super) struct Warm {
    is_on: bool,
    /// `Some` while this process is kept on one processor.
    affinity: Option<Affinity>,
    /// Terminals for the next job.
    spares: Vec<Opened>,
}

impl Warm {
    /// `started`: when the shell was, since boot.
    pub(super) fn new(affinity: Option<Affinity>, started: Duration, timers: &mut Timers) -> Self {
        if affinity.is_some() {
            timers.set(Timer::Processors, started + ON_ONE_PROCESSOR);
        }
        Self {
            is_on: affinity::is_warm(),
            affinity,
            spares: Vec::new(),
        }
    }

    /// A channel for a job, made ahead of it if there is one.
    pub(super) fn open(
        &mut self,
        capture: Capture,
        degraded: &mut Vec<Degraded>,
    ) -> Option<Opened> {
        let fits = |opened: &Opened| opened.tty == (capture == Capture::Pty);
        match self.spares.iter().position(fits) {
            Some(at) => Some(self.spares.swap_remove(at)),
            None => open_channel(capture, degraded),
        }
    }

    /// The call is over: what was made ahead of it is not needed any more.
    pub(super) fn drop_spares(&mut self) {
        self.spares.clear();
    }

    /// Whether the next call is to find a directory.
    pub(super) fn leaves_spare(&self) -> bool {
        self.is_on
    }

    /// The front was told to end. On the same processor we would go on, and the front, and the harness
    /// with it, wait.
    pub(super) fn yield_to_front(&self) {
        if self.is_on {
            process::give_way();
        }
    }
}

/// Gives the caller's processors back to what we start. Async-signal-safe.
pub(super) fn child_restore_processors(work: &Work) {
    if let Some(affinity) = &work.affinity {
        affinity.child_restore();
    }
}

/// From the child that becomes the shell: a job will come soon, and the supervisor has to prepare for it
/// beside the shell, not before it. Woken here, it would take the processor from the shell, and no other
/// would take it over. Async-signal-safe.
pub(super) fn child_send_supervisor_away(work: &Work, supervisor: i32) {
    if let Some(affinity) = work.affinity.as_ref().filter(|_| work.has_spots) {
        affinity.child_send_away(supervisor);
    }
}

impl Supervisor {
    /// Does ahead of a job what does not depend on it. Where there are few descriptors, none is taken
    /// before it is needed.
    pub(super) fn prepare_for_jobs(&mut self) {
        if !self.setup.has_spots || !self.warm.is_on {
            return;
        }
        self.setup.program_name();
        if !self.has_plenty() {
            return;
        }
        self.publisher.prepare();
        let capture = self.likely_capture();
        // One for each stream that the harness tells apart.
        for _ in 0..self.call.relay.sink_count().max(1) {
            let opened = open_channel(capture, &mut Vec::new());
            self.warm.spares.extend(opened);
        }
        if let Some(affinity) = &self.warm.affinity {
            affinity.come_home();
        }
    }

    /// Ends being kept on one processor, for us and for what we start.
    pub(super) fn use_all_processors(&mut self) {
        self.timers.cancel(Timer::Processors);
        if let Some(affinity) = self.warm.affinity.take() {
            affinity.child_restore();
        }
    }
}

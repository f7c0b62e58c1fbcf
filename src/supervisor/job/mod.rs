//! Jobs: what is kept of each, from its start to its record.
//!
//! `table` (all of them), `register` (becoming one by asking), `run` (`agent-sh run`), `channel` (what a job
//! writes to), `output` (reading that), `redirected` (output that goes to files), `input` (typing), `end`
//! (how it ended), `exit_record` (writing that down), `scarce` (few descriptors).

mod channel;
mod end;
mod exit_record;
mod input;
mod output;
mod redirected;
mod register;
mod run;
mod scarce;
mod table;

use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollFlags};

use super::event_loop::{TOKEN_ERRORS, TOKEN_TERMINAL};
use super::processes::Ending;
use crate::job::record::{ExitFacts, KillIntent, Moment};
use crate::job::{How, JobId, KillCause};
use crate::store::LiveJob;
use crate::sys::clock;
use crate::text::StripEscapes;
use crate::wire::Registered;

use channel::{Output, STDERR, STDOUT};
use input::Typing;
use output::Mirror;

pub(super) use channel::{Opened, open_channel};
pub(super) use end::{KILLED_LEFTOVER, LEFTOVER};
pub(super) use redirected::redirections;
pub(super) use run::PreparedRun;
pub(super) use scarce::can_begin;
pub(super) use table::Jobs;

/// What ends a job from our side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// It ran for too long (`run --timeout`).
    Time,
    /// It wrote nothing for too long (`run --idle-timeout`).
    Idle,
    /// PID 1 ends everything.
    Drain,
}

impl Limit {
    /// Why the job is ended, as the record says it.
    pub(super) fn cause(self) -> KillCause {
        match self {
            Self::Time => KillCause::Timeout,
            Self::Idle => KillCause::IdleTimeout,
            Self::Drain => KillCause::Drain,
        }
    }
}

pub(super) struct Job {
    pid: i32,
    starttime: u64,
    text: Vec<u8>,
    /// `Some` iff it was a stray whose session had lost its leader: who that was.
    former_leader: Option<i32>,
    /// The record in the making; `None` when nothing can be stored.
    live: Option<LiveJob>,
    /// Nobody asked for it: `text` is what the process says of itself.
    is_stray: bool,
    watch: Watch,
    output: Option<Output>,
    shown: Shown,
    /// The files that stdout and stderr lead to, as far as they are not ours to read.
    redirected: [Option<String>; 2],
    /// `Some` iff its stdin is its terminal.
    typing: Option<Typing>,
    limits: Limits,
    stopped_seen: bool,
    ended: bool,
    /// It ended before its call returned, which is nothing new to whoever made the call.
    ended_in_call: bool,
    /// `Some` iff it has ended: until when what it left may be ending with it.
    ending: Option<Ending>,
    /// The end of it, if no record of that could be written yet.
    unwritten: Option<Box<ExitFacts>>,
    /// `Some` iff it was published before it registered: the answer that it gets then.
    expected: Option<Registered>,
    /// Its place in the table, by which the loop knows it.
    index: usize,
}

/// How its end is found out.
#[derive(Default)]
struct Watch {
    pidfd: Option<OwnedFd>,
    /// The pidfd tells nothing new; to be asked after when something else happens.
    unwatched: bool,
    /// `Some` iff it has ended and its status could not be read yet: when that was.
    end_seen: Option<Moment>,
    /// Nothing reported its end: it was found ended, some time after that.
    found_ended: bool,
}

/// What the call is shown of its output.
#[derive(Default)]
struct Shown {
    /// Where the output also appears, for each channel.
    mirrors: [Option<Mirror>; 2],
    strips: [StripEscapes; 2],
    /// The output waits for the harness.
    is_held: bool,
}

/// Why it may be ended.
#[derive(Default)]
struct Limits {
    /// How long it may write nothing (`run --idle-timeout`). The timer is moved on only when it is due, so
    /// that output costs no more than noting the time.
    idle: Option<Duration>,
    /// Since boot; kept only where there is an idle time.
    last_output: Duration,
    /// `Some` iff its time was over: which of its limits.
    timed_out: Option<Limit>,
    /// Our own wish to end it; that of others is in the store.
    kill_requested: Option<KillIntent>,
}

impl Job {
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn starttime(&self) -> u64 {
        self.starttime
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(super) fn id(&self) -> Option<&JobId> {
        self.live.as_ref().map(LiveJob::id)
    }

    /// Its record in the making, and with it its lease.
    pub(super) fn live(&self) -> Option<&LiveJob> {
        self.live.as_ref()
    }

    pub(super) fn output(&self) -> Option<&Output> {
        self.output.as_ref()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn has_ended_in_call(&self) -> bool {
        self.ended_in_call
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        self.ending
    }

    pub(super) fn is_stray(&self) -> bool {
        self.is_stray
    }

    /// Makes it a stray's. `is_named`: its text is in the command itself, in the caller's own words.
    pub(super) fn set_stray(&mut self, is_named: bool, former_leader: Option<i32>) {
        self.is_stray = !is_named;
        self.former_leader = former_leader;
    }

    pub(super) fn former_leader(&self) -> Option<i32> {
        self.former_leader
    }

    pub(super) fn redirected_to(&self) -> Option<&str> {
        self.redirected[0].as_deref()
    }

    /// Whether its record says that it was adopted.
    pub(super) fn was_adopted(&self) -> bool {
        self.live.as_ref().map(|live| live.launch().facts.how) == Some(How::Stray)
    }

    pub(super) fn kill_requested(&self) -> Option<&KillIntent> {
        self.limits.kill_requested.as_ref()
    }

    /// Notes who wishes its end, unless somebody did before.
    pub(super) fn request_kill(&mut self, intent: Option<KillIntent>) {
        if self.limits.kill_requested.is_none() {
            self.limits.kill_requested = intent;
        }
    }

    pub(super) fn has_timed_out(&self) -> bool {
        self.limits.timed_out.is_some()
    }

    /// Which of its limits was reached, if one was.
    pub(super) fn limit_reached(&self) -> Option<Limit> {
        self.limits.timed_out
    }

    /// Whether it runs and nothing tells of its end.
    pub(super) fn is_unwatchable(&self) -> bool {
        !self.ended && self.watch.pidfd.is_none()
    }

    /// Whether it has to be asked after, because its pidfd tells nothing or there is none.
    pub(super) fn needs_asking(&self) -> bool {
        self.watch.unwatched || self.is_unwatchable()
    }

    pub(super) fn is_held(&self) -> bool {
        self.shown.is_held
    }

    pub(super) fn record_output(&mut self, bytes: &[u8]) {
        if self.limits.idle.is_some() {
            self.limits.last_output = clock::boottime();
        }
        if let Some(live) = &mut self.live {
            live.transcript().write(bytes);
        }
    }

    pub(super) fn note_stop(&mut self, signal: Option<i32>) {
        self.stopped_seen |= signal.is_some();
        if let Some(live) = &mut self.live {
            live.set_stopped(signal);
        }
    }

    /// What can wait until the harness was answered.
    pub(super) fn do_housekeeping(&mut self) {
        if let Some(live) = self.live.as_mut().filter(|_| !self.ended) {
            live.preallocate();
            drop(live.sync());
        }
    }

    /// Whether its output is read.
    pub(super) fn listen(&mut self, epoll: &Epoll, on: bool) {
        for number in [STDOUT, STDERR] {
            self.watch_channel(epoll, number, EpollFlags::EPOLLIN, on);
        }
    }

    /// Whether the loop waits for room for input.
    fn want_room(&mut self, epoll: &Epoll, on: bool) {
        self.watch_channel(epoll, STDOUT, EpollFlags::EPOLLOUT, on);
    }

    fn watch_channel(&mut self, epoll: &Epoll, number: usize, what: EpollFlags, on: bool) {
        let token = self.index as u64 | [TOKEN_TERMINAL, TOKEN_ERRORS][number];
        let output = self.output.as_mut();
        if let Some(channel) = output.and_then(|output| output.channel(number)) {
            channel.watch(epoll, token, what, on);
        }
    }

    /// What it wrote is no longer shown to the call.
    fn stop_mirroring(&mut self, epoll: &Epoll) {
        for mirror in &mut self.shown.mirrors {
            mirror.take_if(|mirror| matches!(mirror, Mirror::Sink(_)));
        }
        self.shown.is_held = false;
        self.listen(epoll, true);
    }

    /// Takes over the terminal of a job that has ended, and where that appears.
    pub(super) fn inherit_output(&mut self, from: &mut Self, epoll: &Epoll) {
        // The loop would go on telling of it under the number of the job that has ended.
        from.listen(epoll, false);
        self.output = from.output.take();
        self.shown.mirrors = from.shown.mirrors;
        self.listen(epoll, true);
    }
}

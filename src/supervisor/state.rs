//! Where the call stands, and what follows from an event. Pure: the loop turns what the kernel tells
//! into events, asks here, carries out the effects in their order, and then enters the new phase.
//!
//! `state/tests.rs` holds the whole table, a line for each case.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// How long short-lived leftovers of the shell may hold the call.
pub(super) const DRAIN: Duration = Duration::from_millis(200);
/// How long the call waits for a forked child of the shell that is about to register.
pub(super) const REGISTRATION: Duration = Duration::from_secs(1);
/// The same once its launcher runs.
pub(super) const LAUNCHING: Duration = Duration::from_secs(5);

/// Where the call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The shell runs.
    Foreground,
    /// The shell has ended; its output is being delivered.
    Delivering,
    /// The front stays although the shell has ended, because everything dies with the call.
    Lingering,
    /// The front has gone; only jobs are left.
    Released,
}

impl Phase {
    /// Whether the call has no more to say of what happens now.
    pub(super) fn is_after_call(self) -> bool {
        matches!(self, Self::Lingering | Self::Released)
    }

    /// Whether the harness still reads what is written now.
    pub(super) fn has_reader(self) -> bool {
        self != Self::Released
    }

    /// Whether the call says how each of its jobs ended.
    pub(super) fn tells_ends(self) -> bool {
        self == Self::Lingering
    }
}

/// What happened to the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The shell, or the command of `run --wait`, has ended.
    ShellEnded,
    /// All that belongs to the call was delivered.
    Delivered,
    /// And what there is to record of it is recorded.
    Recorded,
    /// The front passes a signal on.
    Signal(SignalKind),
    /// The front was killed, or has ended without an answer.
    FrontGone,
    /// The time for the foreground is over (`AGENT_SH_PROMOTE_AFTER`).
    PromotionDue,
    /// The foreground command has become a job.
    Promoted,
    /// `run` without `--wait` has started its job, or failed to.
    RunStarted,
    /// PID 1 wants everything to end.
    DrainRequested,
    /// The last job has ended.
    NoJobsLeft,
    /// Those who were to be notified took too long.
    NotificationsOverdue,
}

/// What a signal for the front is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalKind {
    /// Stops a group, or tells it of a new size.
    JobControl,
    /// Sent by the foreground to the group that it shares with the front: everybody has it already.
    OwnGroup,
    /// By agreement of those who use it, no reason to end.
    Notice,
    Term,
    /// Any other that ends who does not expect it.
    Ending,
}

impl SignalKind {
    pub(super) fn of(signal: i32) -> Self {
        match signal {
            libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU | libc::SIGWINCH => Self::JobControl,
            libc::SIGUSR1 | libc::SIGUSR2 => Self::Notice,
            libc::SIGTERM => Self::Term,
            _ => Self::Ending,
        }
    }
}

/// What else a decision depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    /// The foreground is the job of `run --wait`.
    pub(super) is_run: bool,
    /// TERM makes a job of the foreground (`AGENT_SH_ON_TERM=promote`).
    pub(super) term_promotes: bool,
    /// The foreground is being ended already.
    pub(super) is_killed: bool,
    /// The front has to stay: jobs are left, or somebody is to be notified and could not be later.
    pub(super) stays: bool,
    /// Every process here ends with the call.
    pub(super) dies: bool,
    /// The jobs were told to end with the call.
    pub(super) is_stopped: bool,
    /// Notifications are under way, or a record could not be written yet.
    pub(super) notifies: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Continues a front that was stopped with the shell.
    ContinueFront,
    CancelPromotion,
    /// Passes the signal on to the group that the shell leads.
    SignalGroup,
    /// Notes who ends the foreground, and what was there before.
    NoteKill,
    /// Passes the signal on to the shell and all below it that is no job.
    SignalForeground,
    /// TERM for the foreground, and KILL after a while.
    EndForeground(Cause),
    /// TERM for every job, and KILL when PID 1 says.
    EndJobs,
    /// The same because they end with the call: KILL when the time is over that this place has.
    StopJobs,
    /// Whoever is left of them has no more time.
    HurryJobs,
    /// Passes the signal on to the job of `run --wait`.
    SignalJob,
    Promote,
    /// Notes the strays that are there now: what becomes of them is not the signal's doing.
    NoteBystanders,
    AdoptStrays,
    /// Says on stderr what goes on in the background.
    Announce,
    /// Says that `run --wait` no longer waits.
    SayUnwatched,
    /// Writes a record of a foreground that was ended from outside.
    RecordKill,
    /// Tells the front how to end.
    Answer(Answer),
    /// The front is to end like this, later.
    Remember(Answer),
    /// Waits for notifications, for a while.
    AwaitNotifications,
    /// Lets go of everything that is the harness's.
    Release,
    CloseLink,
    /// Nobody reads the output any more.
    DropOutput,
}

/// Why we end the foreground ourselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    FrontDied,
    Drain,
}

/// How the front ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// As the shell has.
    Shell,
    /// By the signal that it passed on.
    Signal,
    /// With the code that a shell gives to a command which died of that signal.
    SignalCode,
    /// With the code of a command whose time was over.
    TimedOut,
    /// With the code of `run` for a job that started, or did not.
    Started,
    /// As was decided before.
    Remembered,
}

pub(super) type Step = (Phase, &'static [Effect]);

/// What an event leads to.
pub(super) fn step(phase: Phase, event: Event, context: Context) -> Step {
    use Effect::{Announce, CancelPromotion, ContinueFront, EndForeground, EndJobs, Promote};
    use Effect::{RecordKill, Release, Remember};
    use Phase::{Delivering, Foreground, Lingering, Released};
    match (phase, event) {
        (Foreground, Event::ShellEnded) => (Delivering, &[ContinueFront, CancelPromotion]),
        (Delivering, Event::Delivered) if !context.is_run => (phase, &[RecordKill]),
        (Delivering, Event::Recorded) => on_recorded(context),
        (_, Event::Signal(kind)) => on_signal(phase, kind, context),
        (_, Event::FrontGone) => on_front_gone(phase, context),
        (Foreground, Event::PromotionDue) if !context.is_run => (phase, &[Promote]),
        (Foreground, Event::Promoted) => (
            Released,
            &[Announce, Effect::Answer(Answer::TimedOut), Release],
        ),
        (Foreground, Event::RunStarted) if context.stays => {
            (Lingering, &[Remember(Answer::Started), Announce])
        }
        (Foreground, Event::RunStarted) => (Released, &[Effect::Answer(Answer::Started), Release]),
        (Foreground, Event::DrainRequested) if !context.is_run => {
            (phase, &[EndJobs, EndForeground(Cause::Drain)])
        }
        (_, Event::DrainRequested) => (phase, &[EndJobs]),
        (Lingering, Event::NoJobsLeft) if context.notifies => {
            (phase, &[Effect::AwaitNotifications])
        }
        (Lingering, Event::NoJobsLeft | Event::NotificationsOverdue) => {
            (Released, &[Effect::Answer(Answer::Remembered), Release])
        }
        _ => (phase, &[]),
    }
}

/// The call is over, unless the front has to stay.
fn on_recorded(context: Context) -> Step {
    use Effect::{Announce, Release, Remember, StopJobs};
    use Phase::{Lingering, Released};
    match (context.is_run, context.stays) {
        (true, true) => (Lingering, &[Remember(Answer::Shell)]),
        (true, false) => (Released, &[Effect::Answer(Answer::Shell), Release]),
        // Also who became a job since the others were told.
        (false, true) if context.is_stopped => {
            (Lingering, &[Announce, Remember(Answer::Shell), StopJobs])
        }
        (false, true) => (Lingering, &[Announce, Remember(Answer::Shell)]),
        (false, false) => (
            Released,
            &[Announce, Effect::Answer(Answer::Shell), Release],
        ),
    }
}

/// A signal for the front means the foreground, all of it.
fn on_signal(phase: Phase, kind: SignalKind, context: Context) -> Step {
    use Effect::{AdoptStrays, Announce, NoteBystanders, NoteKill, Release, SignalForeground};
    match (phase, kind) {
        (Phase::Released, _) | (_, SignalKind::OwnGroup) => (phase, &[]),
        // Job control means groups, as without us.
        (_, SignalKind::JobControl) => (phase, &[Effect::SignalGroup]),
        _ if context.dies => on_last_signal(phase, kind, context),
        // Whoever stops watching leaves the job alone.
        (Phase::Foreground, _) if context.is_run => (
            Phase::Released,
            &[
                Effect::SayUnwatched,
                Effect::Answer(Answer::SignalCode),
                Release,
            ],
        ),
        (Phase::Foreground, SignalKind::Term) if context.term_promotes => {
            (phase, &[Effect::Promote])
        }
        (Phase::Foreground, SignalKind::Notice) => (phase, &[SignalForeground]),
        (Phase::Foreground, _) => (phase, &[NoteKill, SignalForeground]),
        (_, SignalKind::Notice) => (phase, &[]),
        // The shell has ended and its last output, or a job, holds the front: it may go.
        _ => (
            Phase::Released,
            &[
                NoteBystanders,
                AdoptStrays,
                Announce,
                Effect::Answer(Answer::Signal),
                Release,
            ],
        ),
    }
}

/// The same where everything ends with the call: whoever stops it stops its jobs. They are told to end at
/// once, and the call is over when they have ended.
fn on_last_signal(phase: Phase, kind: SignalKind, context: Context) -> Step {
    use Effect::{AdoptStrays, HurryJobs, NoteBystanders, NoteKill, Remember, SignalForeground};
    use Effect::{SignalJob, StopJobs};
    // Asked for the second time by somebody who does not want to wait.
    let hurries = context.is_stopped && kind == SignalKind::Ending;
    match (phase, kind) {
        // `run --wait`: the job is the call.
        (Phase::Foreground, SignalKind::Term) if context.is_run => (phase, &[StopJobs]),
        (Phase::Foreground, _) if context.is_run => (phase, &[SignalJob]),
        (Phase::Foreground, SignalKind::Term) => (phase, &[StopJobs, NoteKill, SignalForeground]),
        (Phase::Foreground, SignalKind::Notice) => (phase, &[SignalForeground]),
        (Phase::Foreground, _) => (phase, &[NoteKill, SignalForeground]),
        (_, SignalKind::Notice) | (Phase::Released, _) => (phase, &[]),
        (Phase::Delivering, _) if hurries => (
            Phase::Lingering,
            &[
                NoteBystanders,
                AdoptStrays,
                Remember(Answer::Signal),
                HurryJobs,
            ],
        ),
        (Phase::Delivering, _) => (
            Phase::Lingering,
            &[
                NoteBystanders,
                AdoptStrays,
                Remember(Answer::Signal),
                StopJobs,
            ],
        ),
        (Phase::Lingering, _) if hurries => (phase, &[Remember(Answer::Signal), HurryJobs]),
        (Phase::Lingering, _) => (phase, &[Remember(Answer::Signal), StopJobs]),
    }
}

/// The front was killed, or its harness gave up on it: end the foreground, spare the jobs. What was
/// there before a kill began was noted then.
fn on_front_gone(phase: Phase, context: Context) -> Step {
    use Effect::{CloseLink, DropOutput, EndForeground, NoteBystanders, Release};
    match (phase, context.is_killed) {
        (Phase::Foreground, false) if context.is_run => {
            (Phase::Released, &[CloseLink, NoteBystanders, Release])
        }
        (Phase::Foreground, true) if context.is_run => (Phase::Released, &[CloseLink, Release]),
        (Phase::Foreground, false) => (
            phase,
            &[CloseLink, NoteBystanders, EndForeground(Cause::FrontDied)],
        ),
        (Phase::Foreground, true) => (phase, &[CloseLink, EndForeground(Cause::FrontDied)]),
        // Nobody waits for the rest of the output any more.
        (Phase::Delivering, false) => (phase, &[CloseLink, NoteBystanders, DropOutput]),
        (Phase::Delivering, true) => (phase, &[CloseLink, DropOutput]),
        (Phase::Lingering, false) => (Phase::Released, &[CloseLink, NoteBystanders, Release]),
        (Phase::Lingering, true) => (Phase::Released, &[CloseLink, Release]),
        (Phase::Released, _) => (phase, &[]),
    }
}

/// What the shell left that may hold its call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leftovers {
    /// Since the shell's end.
    pub(super) elapsed: Duration,
    /// How long the slowest of those may take that are about to register as jobs.
    pub(super) registration: Option<Duration>,
    /// Somebody may still write to a pipe of the call.
    pub(super) holds_pipe: bool,
    /// Somebody was born just now, or is ending.
    pub(super) is_passing: bool,
}

/// Whether the call waits for what the shell left.
pub(super) fn is_held(left: &Leftovers) -> bool {
    let registers = left.registration.is_some_and(|limit| left.elapsed < limit);
    registers || left.elapsed < DRAIN && (left.holds_pipe || left.is_passing)
}

/// When to check next whether the call is over, `since` being the shell's end. A reader that is behind is
/// checked again soon.
pub(super) fn next_check(since: Duration, now: Duration, is_behind: bool) -> Duration {
    if is_behind {
        return now + DRAIN;
    }
    [since + DRAIN, since + REGISTRATION]
        .into_iter()
        .find(|at| *at > now)
        .unwrap_or(since + LAUNCHING)
}

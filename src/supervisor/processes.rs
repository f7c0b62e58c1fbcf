//! What a child of ours is that nobody registered. Pure: the facts are gathered first (`strays`), the
//! decision is made here.
//!
//! A job leads a session, and whoever is in that session is part of the job, also when its parent has
//! gone and the kernel has handed it to us. Whoever began a session of its own has left its job: it is
//! a stray, to be adopted while it lives, and to have a record when it ends, whatever else ends at that
//! time.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// What is known of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessFacts {
    /// The shell, a job, a helper of ours, or signalled together with one of them.
    pub(super) accounted: bool,
    pub(super) life: Life,
    pub(super) session: Session,
    pub(super) starttime: u64,
    /// It was a stray already when the call was cut short, or when a job died of a signal.
    pub(super) seen: bool,
    /// A launcher that has yet to register its job.
    pub(super) launcher: bool,
    /// Another child of ours goes on in its session, as a daemon's own parent leaves it.
    pub(super) has_successor: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Alive,
    /// A signal is about to end it, or its end is under way.
    Dying,
    Exited(u8),
    Signaled(i32),
}

/// Whose session it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Session {
    /// The shell's, or our own.
    Call,
    /// That of a job which runs.
    Job,
    /// That of a job which has ended.
    EndedJob(Ending),
    /// One that it, or a parent of it, began.
    Other,
}

/// The end of a job, for as long as what it left may still be ending with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    /// Of the job.
    pub(super) starttime: u64,
    pub(super) until: Duration,
    pub(super) reach: Reach,
}

/// What of a job's end may have hit its processes beyond its session as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// It ended by itself, or whoever killed it has named all that die with it.
    Nobody,
    /// It died of this signal, and nobody said who else is to.
    Signal(i32),
    /// Somebody wished its end, and could not say whom that means.
    Everybody,
}

/// What else is known when a decision is made.
#[derive(Clone, Debug)]
pub(super) struct Context<'a> {
    pub(super) now: Duration,
    /// There is no `/proc`: sessions are unknown.
    pub(super) blind: bool,
    /// The shell has ended and was answered for.
    pub(super) after_call: bool,
    /// The last check before the harness is answered: whoever is to be announced is adopted now.
    pub(super) call_ends: bool,
    /// Those dying had their time.
    pub(super) impatient: bool,
    /// Jobs that ended a moment ago.
    pub(super) endings: &'a [Ending],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Somebody knows of it already, or it has handed over to another.
    Ignore,
    /// Part of the call.
    Foreground,
    /// Part of a job, or of its end.
    Job,
    /// To be adopted if it lives; to have a record if it has ended.
    Stray,
}

pub(super) fn classify(facts: &ProcessFacts, context: &Context<'_>) -> Class {
    if facts.accounted {
        return Class::Ignore;
    }
    match facts.life {
        Life::Alive | Life::Dying => classify_living(facts, context),
        Life::Exited(_) | Life::Signaled(_) => classify_ended(facts, context),
    }
}

fn classify_living(facts: &ProcessFacts, context: &Context<'_>) -> Class {
    let ends = facts.life == Life::Dying && !context.impatient;
    match facts.session {
        Session::Job => Class::Job,
        Session::EndedJob(ending) => {
            let waits = context.now < ending.until && !context.call_ends;
            if waits || ends {
                Class::Job
            } else {
                Class::Stray
            }
        }
        Session::Other if is_everybody_meant(context) || ends => Class::Job,
        Session::Call if ends => Class::Foreground,
        Session::Other | Session::Call => Class::Stray,
    }
}

fn classify_ended(facts: &ProcessFacts, context: &Context<'_>) -> Class {
    if context.blind {
        // Whatever outlived its call.
        return if context.after_call {
            Class::Stray
        } else {
            Class::Foreground
        };
    }
    // Whoever hands over has done what it was to do.
    let handed_over = facts.has_successor && facts.life == Life::Exited(0);
    match facts.session {
        Session::Job | Session::EndedJob(_) => Class::Job,
        Session::Call if facts.seen && !facts.launcher && !handed_over => Class::Stray,
        Session::Call => Class::Foreground,
        Session::Other if handed_over => Class::Ignore,
        Session::Other if died_with_a_job(facts, context) => Class::Job,
        Session::Other => Class::Stray,
    }
}

fn is_everybody_meant(context: &Context<'_>) -> bool {
    let mut endings = context.endings.iter();
    endings.any(|ending| ending.reach == Reach::Everybody && context.now < ending.until)
}

/// Whether it died of the same signal as a job that is no younger: of the same signal, at the same time.
fn died_with_a_job(facts: &ProcessFacts, context: &Context<'_>) -> bool {
    let Life::Signaled(signal) = facts.life else {
        return false;
    };
    if facts.seen {
        return false;
    }
    context.endings.iter().any(|ending| {
        let hit = match ending.reach {
            Reach::Nobody => false,
            Reach::Signal(other) => signal == other,
            Reach::Everybody => true,
        };
        hit && ending.starttime <= facts.starttime && context.now < ending.until
    })
}

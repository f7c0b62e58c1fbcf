//! What a child of ours is that nobody registered. Pure: the facts are gathered first (`strays`), the
//! decision is made here.
//!
//! A job leads a session, and whoever is in that session is part of the job, also when its parent has
//! gone and the kernel has handed it to us. Whoever began a session of its own has left its job: it is
//! a stray, to be adopted while it lives, and to have a record when it ends, whatever else ends at that
//! time.

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
    pub(super) has_heir: bool,
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
    /// The last look before the harness is answered: whoever is to be announced is adopted now.
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
    let handed_over = facts.has_heir && facts.life == Life::Exited(0);
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

/// Whether it died of the same blow as a job that is no younger: of the same signal, at the same time.
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

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    const fn ending(until: u64, reach: Reach, starttime: u64) -> Ending {
        Ending {
            starttime,
            until: Duration::from_secs(until),
            reach,
        }
    }

    const fn context(endings: &[Ending]) -> Context<'_> {
        Context {
            now: NOW,
            blind: false,
            after_call: true,
            call_ends: false,
            impatient: false,
            endings,
        }
    }

    const fn process(life: Life, session: Session) -> ProcessFacts {
        ProcessFacts {
            accounted: false,
            life,
            session,
            starttime: 50,
            seen: false,
            launcher: false,
            has_heir: false,
        }
    }

    const LIVES: [Life; 6] = [
        Life::Alive,
        Life::Dying,
        Life::Exited(0),
        Life::Exited(37),
        Life::Signaled(15),
        Life::Signaled(9),
    ];
    const RECENT: Ending = ending(101, Reach::Nobody, 10);
    const OVER: Ending = ending(99, Reach::Nobody, 10);

    /// After the call, with nothing else going on: one line per life, one column per session.
    #[test]
    fn by_life_and_session() {
        use Class::{Foreground, Job, Stray};
        let sessions = [
            Session::Call,
            Session::Job,
            Session::EndedJob(RECENT),
            Session::EndedJob(OVER),
            Session::Other,
        ];
        let table = [
            (Life::Alive, [Stray, Job, Job, Stray, Stray]),
            (Life::Dying, [Foreground, Job, Job, Job, Job]),
            (Life::Exited(0), [Foreground, Job, Job, Job, Stray]),
            (Life::Exited(37), [Foreground, Job, Job, Job, Stray]),
            (Life::Signaled(15), [Foreground, Job, Job, Job, Stray]),
        ];
        for (life, wanted) in table {
            let got = sessions.map(|session| classify(&process(life, session), &context(&[])));
            assert_eq!(got, wanted, "{life:?}");
        }
    }

    /// Which end of a job takes a process with it that has a session of its own.
    #[test]
    fn a_daemon_and_the_end_of_another() {
        use Class::{Job, Stray};
        let table = [
            (Life::Exited(0), RECENT, Stray),
            (Life::Signaled(15), RECENT, Stray),
            (Life::Exited(0), ending(101, Reach::Signal(15), 10), Stray),
            (Life::Exited(143), ending(101, Reach::Signal(15), 10), Stray),
            (Life::Signaled(15), ending(101, Reach::Signal(15), 10), Job),
            (Life::Signaled(15), ending(101, Reach::Signal(15), 50), Job),
            (
                Life::Signaled(15),
                ending(101, Reach::Signal(15), 51),
                Stray,
            ),
            (Life::Signaled(9), ending(101, Reach::Signal(15), 10), Stray),
            (
                Life::Signaled(15),
                ending(100, Reach::Signal(15), 10),
                Stray,
            ),
            (Life::Signaled(9), ending(101, Reach::Everybody, 10), Job),
            (Life::Signaled(9), ending(99, Reach::Everybody, 10), Stray),
            (Life::Exited(0), ending(101, Reach::Everybody, 10), Stray),
            (Life::Alive, ending(101, Reach::Everybody, 10), Job),
            (Life::Alive, ending(99, Reach::Everybody, 10), Stray),
            (Life::Alive, ending(101, Reach::Signal(15), 10), Stray),
        ];
        for (life, end, wanted) in table {
            let got = classify(&process(life, Session::Other), &context(&[OVER, end]));
            assert_eq!(got, wanted, "{life:?} {end:?}");
        }
    }

    #[test]
    fn those_who_hand_over_and_those_who_were_there() {
        use Class::{Foreground, Ignore, Job, Stray};
        for (life, session, seen, launcher, has_heir, wanted) in [
            (Life::Exited(0), Session::Other, false, false, true, Ignore),
            (Life::Exited(1), Session::Other, false, false, true, Stray),
            (Life::Signaled(9), Session::Other, false, false, true, Stray),
            (
                Life::Exited(0),
                Session::Call,
                true,
                false,
                true,
                Foreground,
            ),
            (Life::Exited(0), Session::Call, true, false, false, Stray),
            (Life::Signaled(1), Session::Call, true, false, false, Stray),
            (
                Life::Signaled(1),
                Session::Call,
                true,
                true,
                false,
                Foreground,
            ),
            (
                Life::Exited(0),
                Session::Call,
                false,
                false,
                false,
                Foreground,
            ),
            (
                Life::Signaled(15),
                Session::Other,
                true,
                false,
                false,
                Stray,
            ),
            (Life::Signaled(15), Session::Other, false, false, false, Job),
        ] {
            let facts = ProcessFacts {
                seen,
                launcher,
                has_heir,
                ..process(life, session)
            };
            let endings = [ending(101, Reach::Signal(15), 10)];
            assert_eq!(classify(&facts, &context(&endings)), wanted, "{facts:?}");
        }
    }

    /// Every combination of everything: what holds whatever else is the case.
    #[test]
    fn what_always_holds() {
        let reaches = [Reach::Nobody, Reach::Signal(15), Reach::Everybody];
        let endings: Vec<Ending> = [99, 101]
            .into_iter()
            .flat_map(|until| reaches.map(|reach| ending(until, reach, 10)))
            .collect();
        let mut sessions = vec![Session::Call, Session::Job, Session::Other];
        sessions.extend(endings.iter().map(|&ending| Session::EndedJob(ending)));
        let mut count = 0;
        for (&session, life) in sessions.iter().flat_map(|s| LIVES.map(|life| (s, life))) {
            for end in &endings {
                for bits in 0..256u32 {
                    let bit = |at: u32| bits & (1 << at) != 0;
                    let facts = ProcessFacts {
                        accounted: bit(0),
                        seen: bit(1),
                        launcher: bit(2),
                        has_heir: bit(3),
                        ..process(life, session)
                    };
                    let context = Context {
                        blind: bit(4),
                        after_call: bit(5),
                        call_ends: bit(6),
                        impatient: bit(7),
                        ..context(std::slice::from_ref(end))
                    };
                    check(&facts, &context, end);
                    count += 1;
                }
            }
        }
        assert_eq!(count, 9 * 6 * 6 * 256);
    }

    fn check(facts: &ProcessFacts, context: &Context<'_>, end: &Ending) {
        let class = classify(facts, context);
        let lives = matches!(facts.life, Life::Alive | Life::Dying);
        let in_job = matches!(facts.session, Session::Job | Session::EndedJob(_));
        let said = format!("{class:?}: {facts:?} {context:?}");
        assert_eq!(
            class == Class::Ignore,
            {
                let handed_over = facts.has_heir && facts.life == Life::Exited(0);
                let beside = facts.session == Session::Other && !context.blind;
                facts.accounted || handed_over && beside
            },
            "{said}"
        );
        if facts.accounted {
            return;
        }
        // A job that runs is never taken apart, and what dies in a job's session never is one.
        if facts.session == Session::Job && (lives || !context.blind) {
            assert_eq!(class, Class::Job, "{said}");
        }
        if in_job && !lives && !context.blind {
            assert_eq!(class, Class::Job, "{said}");
        }
        // The end of a daemon vanishes only if it handed over, or died of a job's own death.
        let beside = facts.session == Session::Other && !lives && !context.blind;
        if beside && class != Class::Stray {
            let blow = matches!(facts.life, Life::Signaled(_)) && end.reach != Reach::Nobody;
            assert!(blow && NOW < end.until || facts.has_heir, "{said}");
        }
        // Whoever lives on is found by the look that comes after all had their time.
        let late = end.until <= NOW && context.impatient;
        let own_job_over = match facts.session {
            Session::Job => false,
            Session::EndedJob(own) => own.until <= NOW,
            _ => true,
        };
        if lives && late && own_job_over {
            assert_eq!(class, Class::Stray, "{said}");
        }
        // The call's own processes are never said to be a job's.
        if facts.session == Session::Call {
            assert_ne!(class, Class::Job, "{said}");
        }
    }
}

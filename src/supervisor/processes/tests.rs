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
        has_successor: false,
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
/// At this very moment.
const JUST_OVER: Ending = ending(100, Reach::Nobody, 10);

/// After the call, with nothing else going on: one line per life, one column per session.
#[test]
fn by_life_and_session() {
    use Class::{Foreground, Job, Stray};
    let sessions = [
        Session::Call,
        Session::Job,
        Session::EndedJob(RECENT),
        Session::EndedJob(OVER),
        Session::EndedJob(JUST_OVER),
        Session::Other,
    ];
    let table = [
        (Life::Alive, [Stray, Job, Job, Stray, Stray, Stray]),
        (Life::Dying, [Foreground, Job, Job, Job, Job, Job]),
        (Life::Exited(0), [Foreground, Job, Job, Job, Job, Stray]),
        (Life::Exited(37), [Foreground, Job, Job, Job, Job, Stray]),
        (Life::Signaled(15), [Foreground, Job, Job, Job, Job, Stray]),
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
        (Life::Alive, ending(100, Reach::Everybody, 10), Stray),
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
    for (life, session, seen, launcher, has_successor, wanted) in [
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
            has_successor,
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
                    has_successor: bit(3),
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
            let handed_over = facts.has_successor && facts.life == Life::Exited(0);
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
        let shared = matches!(facts.life, Life::Signaled(_)) && end.reach != Reach::Nobody;
        assert!(shared && NOW < end.until || facts.has_successor, "{said}");
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

use super::*;
use Cause::{Drain, FrontDied};
use Effect::{
    AdoptStrays, Announce, CancelPromotion, CloseLink, ContinueFront, DropOutput, EndForeground,
    EndJobs, NoteBystanders, NoteKill, Promote, RecordKill, Release, SayUnwatched,
    SignalForeground, SignalGroup,
};
use Event::{Delivered, DrainRequested, FrontGone, NoJobsLeft, Promoted, PromotionDue};
use Event::{RunAnswered, ShellEnded, Signal};
use Phase::{Delivering, Foreground, Lingering, Released};
use SignalKind::{Ending, JobControl, Notice, OwnGroup, Term};

const fn answer(answer: Answer) -> Effect {
    Effect::Answer(answer)
}

const PHASES: [Phase; 4] = [Foreground, Delivering, Lingering, Released];

const EVENTS: [Event; 13] = [
    ShellEnded,
    Delivered,
    Signal(JobControl),
    Signal(OwnGroup),
    Signal(Notice),
    Signal(Term),
    Signal(Ending),
    FrontGone,
    PromotionDue,
    Promoted,
    RunAnswered,
    DrainRequested,
    NoJobsLeft,
];

/// Phase, event, when (`is_run`, `term_promotes`, `is_killed`, `stays`: `y`es, `n`o or either), the next
/// phase and the effects. What no line names changes nothing.
type Line = (Phase, Event, &'static str, Phase, &'static [Effect]);

#[rustfmt::skip]
const TABLE: &[Line] = &[
    (Foreground, ShellEnded,         "----", Delivering, &[ContinueFront, CancelPromotion]),
    (Foreground, Signal(JobControl), "----", Foreground, &[SignalGroup]),
    (Foreground, Signal(Notice),     "y---", Released,   &[SayUnwatched, answer(Answer::SignalCode), Release]),
    (Foreground, Signal(Notice),     "n---", Foreground, &[SignalForeground]),
    (Foreground, Signal(Term),       "y---", Released,   &[SayUnwatched, answer(Answer::SignalCode), Release]),
    (Foreground, Signal(Term),       "ny--", Foreground, &[Promote]),
    (Foreground, Signal(Term),       "nn--", Foreground, &[NoteKill, SignalForeground]),
    (Foreground, Signal(Ending),     "y---", Released,   &[SayUnwatched, answer(Answer::SignalCode), Release]),
    (Foreground, Signal(Ending),     "n---", Foreground, &[NoteKill, SignalForeground]),
    (Foreground, FrontGone,          "y-n-", Released,   &[CloseLink, NoteBystanders, Release]),
    (Foreground, FrontGone,          "y-y-", Released,   &[CloseLink, Release]),
    (Foreground, FrontGone,          "n-n-", Foreground, &[CloseLink, NoteBystanders, EndForeground(FrontDied)]),
    (Foreground, FrontGone,          "n-y-", Foreground, &[CloseLink, EndForeground(FrontDied)]),
    (Foreground, PromotionDue,       "n---", Foreground, &[Promote]),
    (Foreground, Promoted,           "----", Released,   &[Announce, answer(Answer::TimedOut), Release]),
    (Foreground, RunAnswered,        "----", Released,   &[Release]),
    (Foreground, DrainRequested,     "n---", Foreground, &[EndJobs, EndForeground(Drain)]),
    (Foreground, DrainRequested,     "y---", Foreground, &[EndJobs]),

    (Delivering, Delivered,          "y---", Released,   &[answer(Answer::Shell), Release]),
    (Delivering, Delivered,          "n--y", Lingering,  &[RecordKill, Announce]),
    (Delivering, Delivered,          "n--n", Released,   &[RecordKill, Announce, answer(Answer::Shell), Release]),
    (Delivering, Signal(JobControl), "----", Delivering, &[SignalGroup]),
    (Delivering, Signal(Term),       "----", Released,   &[NoteBystanders, AdoptStrays, Announce, answer(Answer::Signal), Release]),
    (Delivering, Signal(Ending),     "----", Released,   &[NoteBystanders, AdoptStrays, Announce, answer(Answer::Signal), Release]),
    (Delivering, FrontGone,          "--n-", Delivering, &[CloseLink, NoteBystanders, DropOutput]),
    (Delivering, FrontGone,          "--y-", Delivering, &[CloseLink, DropOutput]),
    (Delivering, DrainRequested,     "----", Delivering, &[EndJobs]),

    (Lingering,  Signal(JobControl), "----", Lingering,  &[SignalGroup]),
    (Lingering,  Signal(Term),       "----", Released,   &[NoteBystanders, AdoptStrays, Announce, answer(Answer::Signal), Release]),
    (Lingering,  Signal(Ending),     "----", Released,   &[NoteBystanders, AdoptStrays, Announce, answer(Answer::Signal), Release]),
    (Lingering,  FrontGone,          "--n-", Released,   &[CloseLink, NoteBystanders, Release]),
    (Lingering,  FrontGone,          "--y-", Released,   &[CloseLink, Release]),
    (Lingering,  DrainRequested,     "----", Lingering,  &[EndJobs]),
    (Lingering,  NoJobsLeft,         "----", Released,   &[answer(Answer::Shell), Release]),

    (Released,   DrainRequested,     "----", Released,   &[EndJobs]),
];

fn covers(when: &str, context: Context) -> bool {
    let is = [
        context.is_run,
        context.term_promotes,
        context.is_killed,
        context.stays,
    ];
    let mut pairs = when.chars().zip(is);
    pairs.all(|(wanted, is)| wanted == '-' || (wanted == 'y') == is)
}

#[test]
fn every_phase_event_and_context() {
    let mut used = vec![false; TABLE.len()];
    for phase in PHASES {
        for event in EVENTS {
            for bits in 0..16 {
                let bit = |at: u32| bits & (1 << at) != 0;
                let context = Context {
                    is_run: bit(0),
                    term_promotes: bit(1),
                    is_killed: bit(2),
                    stays: bit(3),
                };
                let lines: Vec<usize> = (0..TABLE.len())
                    .filter(|&at| {
                        let (from, on, when, ..) = TABLE[at];
                        from == phase && on == event && covers(when, context)
                    })
                    .collect();
                assert!(lines.len() <= 1, "{phase:?} {event:?} {context:?} twice");
                let nothing: Step = (phase, &[]);
                let wanted = lines.first().map_or(nothing, |&at| {
                    used[at] = true;
                    (TABLE[at].3, TABLE[at].4)
                });
                let got = step(phase, event, context);
                assert_eq!(got, wanted, "{phase:?} {event:?} {context:?}");
            }
        }
    }
    assert!(used.iter().all(|used| *used), "a line that covers nothing");
}

/// What holds of every way through the table.
#[test]
fn whoever_is_released_stays_so_and_lets_go_last() {
    for (phase, event, _, next, effects) in TABLE {
        let lets_go = effects.last() == Some(&Release);
        assert_eq!(
            *phase != Released && *next == Released,
            lets_go,
            "{phase:?} {event:?}"
        );
        assert!(*phase != Released || *next == Released, "{event:?}");
        let answers = effects.iter().filter(|e| matches!(e, Effect::Answer(_)));
        assert!(
            answers.count() <= usize::from(lets_go),
            "{phase:?} {event:?}"
        );
    }
}

#[test]
fn phases_and_who_reads() {
    for (phase, is_after_call, has_reader) in [
        (Foreground, false, true),
        (Delivering, false, true),
        (Lingering, true, true),
        (Released, true, false),
    ] {
        assert_eq!(phase.is_after_call(), is_after_call, "{phase:?}");
        assert_eq!(phase.has_reader(), has_reader, "{phase:?}");
    }
}

#[test]
fn what_signals_are_for() {
    for (signal, kind) in [
        (libc::SIGTSTP, JobControl),
        (libc::SIGTTIN, JobControl),
        (libc::SIGTTOU, JobControl),
        (libc::SIGWINCH, JobControl),
        (libc::SIGUSR1, Notice),
        (libc::SIGUSR2, Notice),
        (libc::SIGTERM, Term),
        (libc::SIGINT, Ending),
        (libc::SIGHUP, Ending),
        (libc::SIGQUIT, Ending),
    ] {
        assert_eq!(SignalKind::of(signal), kind, "{signal}");
    }
}

#[test]
fn what_holds_a_call() {
    let ms = Duration::from_millis;
    for (elapsed, registration, holds_pipe, is_passing, wanted) in [
        (ms(0), None, false, false, false),
        (ms(0), None, true, false, true),
        (ms(0), None, false, true, true),
        (ms(199), None, true, true, true),
        (ms(200), None, true, true, false),
        (ms(200), Some(REGISTRATION), false, false, true),
        (ms(999), Some(REGISTRATION), true, true, true),
        (ms(1000), Some(REGISTRATION), true, true, false),
        (ms(4999), Some(LAUNCHING), false, false, true),
        (ms(5000), Some(LAUNCHING), false, false, false),
    ] {
        let left = Leftovers {
            elapsed,
            registration,
            holds_pipe,
            is_passing,
        };
        assert_eq!(is_held(&left), wanted, "{left:?}");
    }
}

#[test]
fn when_to_look_again() {
    let ms = Duration::from_millis;
    let since = ms(10_000);
    for (now, is_behind, wanted) in [
        (10_000, false, 10_200),
        (10_199, false, 10_200),
        (10_200, false, 11_000),
        (11_000, false, 15_000),
        (15_000, false, 15_000),
        (99_000, false, 15_000),
        (10_000, true, 10_200),
        (99_000, true, 99_200),
    ] {
        assert_eq!(next_check(since, ms(now), is_behind), ms(wanted), "{now}");
    }
}

use super::*;
use Cause::{Drain, FrontDied};
use Effect::{
    AdoptStrays, Announce, AwaitNotifications, CancelPromotion, CloseLink, ContinueFront,
    DropOutput, EndForeground, EndJobs, HurryJobs, NoteBystanders, NoteKill, Promote, RecordKill,
    Release, SayUnwatched, SignalForeground, SignalGroup, SignalJob, StopJobs,
};
use Event::{Delivered, DrainRequested, FrontGone, NoJobsLeft, NotificationsOverdue, Promoted};
use Event::{PromotionDue, Recorded, RunStarted, ShellEnded, Signal};
use Phase::{Delivering, Foreground, Lingering, Released};
use SignalKind::{Ending, JobControl, Notice, OwnGroup, Term};

const fn answer(answer: Answer) -> Effect {
    Effect::Answer(answer)
}

const fn remember(answer: Answer) -> Effect {
    Effect::Remember(answer)
}

const PHASES: [Phase; 4] = [Foreground, Delivering, Lingering, Released];

const EVENTS: [Event; 15] = [
    ShellEnded,
    Delivered,
    Recorded,
    Signal(JobControl),
    Signal(OwnGroup),
    Signal(Notice),
    Signal(Term),
    Signal(Ending),
    FrontGone,
    PromotionDue,
    Promoted,
    RunStarted,
    DrainRequested,
    NoJobsLeft,
    NotificationsOverdue,
];

/// Phase, event, when (`is_run`, `term_promotes`, `is_killed`, `stays`, `dies`, `is_stopped`, `notifies`:
/// `y`es, `n`o or either), the next phase and the effects. What no line names changes nothing.
type Line = (Phase, Event, &'static str, Phase, &'static [Effect]);

#[rustfmt::skip]
const TABLE: &[Line] = &[
    (Foreground, ShellEnded,           "-------", Delivering, &[ContinueFront, CancelPromotion]),
    (Foreground, Signal(JobControl),   "-------", Foreground, &[SignalGroup]),
    (Foreground, Signal(Notice),       "y---n--", Released,   &[SayUnwatched, answer(Answer::SignalCode), Release]),
    (Foreground, Signal(Notice),       "y---y--", Foreground, &[SignalJob]),
    (Foreground, Signal(Notice),       "n------", Foreground, &[SignalForeground]),
    (Foreground, Signal(Term),         "y---n--", Released,   &[SayUnwatched, answer(Answer::SignalCode), Release]),
    (Foreground, Signal(Term),         "y---y--", Foreground, &[StopJobs]),
    (Foreground, Signal(Term),         "ny--n--", Foreground, &[Promote]),
    (Foreground, Signal(Term),         "nn--n--", Foreground, &[NoteKill, SignalForeground]),
    (Foreground, Signal(Term),         "n---y--", Foreground, &[StopJobs, NoteKill, SignalForeground]),
    (Foreground, Signal(Ending),       "y---n--", Released,   &[SayUnwatched, answer(Answer::SignalCode), Release]),
    (Foreground, Signal(Ending),       "y---y--", Foreground, &[SignalJob]),
    (Foreground, Signal(Ending),       "n------", Foreground, &[NoteKill, SignalForeground]),
    (Foreground, FrontGone,            "y-n----", Released,   &[CloseLink, NoteBystanders, Release]),
    (Foreground, FrontGone,            "y-y----", Released,   &[CloseLink, Release]),
    (Foreground, FrontGone,            "n-n----", Foreground, &[CloseLink, NoteBystanders, EndForeground(FrontDied)]),
    (Foreground, FrontGone,            "n-y----", Foreground, &[CloseLink, EndForeground(FrontDied)]),
    (Foreground, PromotionDue,         "n------", Foreground, &[Promote]),
    (Foreground, Promoted,             "-------", Released,   &[Announce, answer(Answer::TimedOut), Release]),
    (Foreground, RunStarted,           "---n---", Released,   &[answer(Answer::Started), Release]),
    (Foreground, RunStarted,           "---y---", Lingering,  &[remember(Answer::Started), Announce]),
    (Foreground, DrainRequested,       "n------", Foreground, &[EndJobs, EndForeground(Drain)]),
    (Foreground, DrainRequested,       "y------", Foreground, &[EndJobs]),

    (Delivering, Delivered,            "n------", Delivering, &[RecordKill]),
    (Delivering, Recorded,             "y--n---", Released,   &[answer(Answer::Shell), Release]),
    (Delivering, Recorded,             "y--y---", Lingering,  &[remember(Answer::Shell)]),
    (Delivering, Recorded,             "n--n---", Released,   &[Announce, answer(Answer::Shell), Release]),
    (Delivering, Recorded,             "n--y-n-", Lingering,  &[Announce, remember(Answer::Shell)]),
    (Delivering, Recorded,             "n--y-y-", Lingering,  &[Announce, remember(Answer::Shell), StopJobs]),
    (Delivering, Signal(JobControl),   "-------", Delivering, &[SignalGroup]),
    (Delivering, Signal(Term),         "----n--", Released,   &[NoteBystanders, AdoptStrays, Announce, answer(Answer::Signal), Release]),
    (Delivering, Signal(Term),         "----y--", Lingering,  &[NoteBystanders, AdoptStrays, remember(Answer::Signal), StopJobs]),
    (Delivering, Signal(Ending),       "----n--", Released,   &[NoteBystanders, AdoptStrays, Announce, answer(Answer::Signal), Release]),
    (Delivering, Signal(Ending),       "----yn-", Lingering,  &[NoteBystanders, AdoptStrays, remember(Answer::Signal), StopJobs]),
    (Delivering, Signal(Ending),       "----yy-", Lingering,  &[NoteBystanders, AdoptStrays, remember(Answer::Signal), HurryJobs]),
    (Delivering, FrontGone,            "--n----", Delivering, &[CloseLink, NoteBystanders, DropOutput]),
    (Delivering, FrontGone,            "--y----", Delivering, &[CloseLink, DropOutput]),
    (Delivering, DrainRequested,       "-------", Delivering, &[EndJobs]),

    (Lingering,  Signal(JobControl),   "-------", Lingering,  &[SignalGroup]),
    (Lingering,  Signal(Term),         "----n--", Released,   &[NoteBystanders, AdoptStrays, Announce, answer(Answer::Signal), Release]),
    (Lingering,  Signal(Term),         "----y--", Lingering,  &[remember(Answer::Signal), StopJobs]),
    (Lingering,  Signal(Ending),       "----n--", Released,   &[NoteBystanders, AdoptStrays, Announce, answer(Answer::Signal), Release]),
    (Lingering,  Signal(Ending),       "----yn-", Lingering,  &[remember(Answer::Signal), StopJobs]),
    (Lingering,  Signal(Ending),       "----yy-", Lingering,  &[remember(Answer::Signal), HurryJobs]),
    (Lingering,  FrontGone,            "--n----", Released,   &[CloseLink, NoteBystanders, Release]),
    (Lingering,  FrontGone,            "--y----", Released,   &[CloseLink, Release]),
    (Lingering,  DrainRequested,       "-------", Lingering,  &[EndJobs]),
    (Lingering,  NoJobsLeft,           "------n", Released,   &[answer(Answer::Remembered), Release]),
    (Lingering,  NoJobsLeft,           "------y", Lingering,  &[AwaitNotifications]),
    (Lingering,  NotificationsOverdue, "-------", Released,   &[answer(Answer::Remembered), Release]),

    (Released,   DrainRequested,       "-------", Released,   &[EndJobs]),
];

fn covers(when: &str, context: Context) -> bool {
    let is = [
        context.is_run,
        context.term_promotes,
        context.is_killed,
        context.stays,
        context.dies,
        context.is_stopped,
        context.notifies,
    ];
    let mut pairs = when.chars().zip(is);
    pairs.all(|(wanted, is)| wanted == '-' || (wanted == 'y') == is)
}

#[test]
fn every_phase_event_and_context() {
    let mut used = vec![false; TABLE.len()];
    for phase in PHASES {
        for event in EVENTS {
            for bits in 0..128 {
                let bit = |at: u32| bits & (1 << at) != 0;
                let context = Context {
                    is_run: bit(0),
                    term_promotes: bit(1),
                    is_killed: bit(2),
                    stays: bit(3),
                    dies: bit(4),
                    is_stopped: bit(5),
                    notifies: bit(6),
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
fn whoever_lingers_knows_how_the_front_ends() {
    for (phase, event, _, next, effects) in TABLE {
        let remembers = effects.iter().any(|e| matches!(e, Effect::Remember(_)));
        let enters = *phase != Lingering && *next == Lingering;
        assert!(!enters || remembers, "{phase:?} {event:?}");
        assert!(!remembers || *next == Lingering, "{phase:?} {event:?}");
    }
}

#[test]
fn phases_and_who_reads() {
    for (phase, is_after_call, has_reader, tells_ends) in [
        (Foreground, false, true, false),
        (Delivering, false, true, false),
        (Lingering, true, true, true),
        (Released, true, false, false),
    ] {
        assert_eq!(phase.tells_ends(), tells_ends, "{phase:?}");
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

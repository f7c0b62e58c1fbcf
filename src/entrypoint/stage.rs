//! What becomes of the command, its jobs and its leftovers when it ends or is told to: pure, one table.

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The command runs.
    Serving,
    /// The command has ended; jobs may run on for a while.
    Draining,
    /// Everybody was told to end by whoever stops the container, the command too.
    Stopping,
    /// The command has ended and jobs were told to.
    Grace,
    /// What was left has been killed; records and notifications are on their way.
    Killed,
    /// No job is left; leftovers of the command were told to end.
    Leftovers,
    /// Nothing more to wait for.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The command has ended.
    Ended,
    /// TERM came.
    Stop,
    /// The time of this stage is over.
    Deadline,
    /// The command has ended, and no job or notification is under way.
    Quiet,
    /// The same, and nothing else is left either.
    Empty,
}

/// What to do on the way to the next stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Tell what is neither the command nor a job to end.
    EndLeftovers,
    /// KILL for the command and for jobs.
    Kill,
}

impl Stage {
    /// Whether jobs are told to end, with KILL when this stage is over. Also those that begin in it.
    pub(super) fn ends_jobs(self) -> bool {
        matches!(self, Self::Stopping | Self::Grace | Self::Killed)
    }
}

/// The next stage, and what to do first. `group`: leftovers are told to end too.
pub(super) fn step(stage: Stage, event: Event, group: bool) -> (Stage, &'static [Effect]) {
    use Effect::{EndLeftovers, Kill};
    use Stage::{Done, Draining, Grace, Killed, Leftovers, Serving, Stopping};
    match (stage, event) {
        (Serving, Event::Ended) => (Draining, &[]),
        (Serving | Draining, Event::Stop) if group => (Stopping, &[EndLeftovers]),
        (Serving | Draining, Event::Stop) => (Stopping, &[]),
        (Draining, Event::Deadline) if group => (Grace, &[EndLeftovers]),
        (Draining, Event::Deadline) => (Grace, &[]),
        (Stopping | Grace, Event::Deadline) => (Killed, &[Kill]),
        (Draining | Stopping | Grace | Killed | Leftovers, Event::Empty) => (Done, &[]),
        // Those who were told already have had their time, or still have it.
        (Draining, Event::Quiet) if group => (Leftovers, &[EndLeftovers]),
        (Stopping | Grace, Event::Quiet) if group => (stage, &[]),
        (Draining | Stopping | Grace | Killed, Event::Quiet) => (Done, &[]),
        (Killed | Leftovers, Event::Deadline) => (Done, &[]),
        _ => (stage, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Effect::{EndLeftovers, Kill};
    use Stage::{Done, Draining, Grace, Killed, Leftovers, Serving, Stopping};

    /// The whole product: a row a stage, a column an event, in the order Ended, Stop, Deadline, Quiet,
    /// Empty; first without `group`, then with it.
    #[test]
    fn every_stage_and_event() {
        type Next = (Stage, &'static [Effect]);
        let events = [
            Event::Ended,
            Event::Stop,
            Event::Deadline,
            Event::Quiet,
            Event::Empty,
        ];
        let stay = |stage| -> Next { (stage, &[]) };
        let done: Next = (Done, &[]);
        let rest: &[Effect] = &[EndLeftovers];
        let rows: [(bool, Stage, [Next; 5]); 14] = [
            (
                false,
                Serving,
                [
                    stay(Draining),
                    stay(Stopping),
                    stay(Serving),
                    stay(Serving),
                    stay(Serving),
                ],
            ),
            (
                false,
                Draining,
                [stay(Draining), stay(Stopping), stay(Grace), done, done],
            ),
            (
                false,
                Stopping,
                [
                    stay(Stopping),
                    stay(Stopping),
                    (Killed, &[Kill]),
                    done,
                    done,
                ],
            ),
            (
                false,
                Grace,
                [stay(Grace), stay(Grace), (Killed, &[Kill]), done, done],
            ),
            (
                false,
                Killed,
                [stay(Killed), stay(Killed), done, done, done],
            ),
            (
                false,
                Leftovers,
                [
                    stay(Leftovers),
                    stay(Leftovers),
                    done,
                    stay(Leftovers),
                    done,
                ],
            ),
            (false, Done, [done; 5]),
            (
                true,
                Serving,
                [
                    stay(Draining),
                    (Stopping, rest),
                    stay(Serving),
                    stay(Serving),
                    stay(Serving),
                ],
            ),
            (
                true,
                Draining,
                [
                    stay(Draining),
                    (Stopping, rest),
                    (Grace, rest),
                    (Leftovers, &[EndLeftovers]),
                    done,
                ],
            ),
            (
                true,
                Stopping,
                [
                    stay(Stopping),
                    stay(Stopping),
                    (Killed, &[Kill]),
                    stay(Stopping),
                    done,
                ],
            ),
            (
                true,
                Grace,
                [
                    stay(Grace),
                    stay(Grace),
                    (Killed, &[Kill]),
                    stay(Grace),
                    done,
                ],
            ),
            (true, Killed, [stay(Killed), stay(Killed), done, done, done]),
            (
                true,
                Leftovers,
                [
                    stay(Leftovers),
                    stay(Leftovers),
                    done,
                    stay(Leftovers),
                    done,
                ],
            ),
            (true, Done, [done; 5]),
        ];
        let ends = [Stopping, Grace, Killed];
        for (group, stage, wanted) in rows {
            assert_eq!(stage.ends_jobs(), ends.contains(&stage));
            for (event, next) in events.into_iter().zip(wanted) {
                assert_eq!(
                    step(stage, event, group),
                    next,
                    "{stage:?} {event:?} {group}"
                );
            }
        }
    }
}

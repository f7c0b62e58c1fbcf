//! Deadlines: one ordered list of what is to happen when. What the loop sleeps for and what it finds due
//! come from the same list, so that neither can forget what the other knows.

use std::time::Duration;

/// What is to happen. Each is set at most once; a job is named by its place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// Whether the call is over has to be decided anew.
    CallCheck,
    /// The foreground command becomes a job.
    Promotion,
    /// The foreground had its grace: KILL.
    KillForeground,
    /// The same for what is left of a foreground whose call is over.
    KillRemnants,
    /// Strays are adopted.
    Strays,
    /// The time of a kill is over.
    KillSet,
    /// What could wait until the harness was answered.
    Housekeeping,
    /// The files that jobs write to are looked for.
    OutputFiles,
    /// Records that the disk refused are written again.
    RetryRecords,
    /// Notifications have held the call for long enough.
    Notifications,
    /// This process need not stay on one processor any longer.
    Processors,
    /// A job without a handle is looked for.
    UnwatchedJobs,
    /// A job's output waits for a harness that may have stopped reading.
    StalledReader,
    /// A job has run for too long, or was not ended by TERM.
    JobDeadline(usize),
    /// A job has written nothing for too long.
    JobIdle(usize),
}

/// Sorted by time, the latest first, so that what is due is taken from the end. Times are since boot.
#[derive(Debug, Default)]
pub(super) struct Timers(Vec<(Duration, Timer)>);

impl Timers {
    /// Sets a timer, in place of an earlier setting.
    pub(super) fn set(&mut self, timer: Timer, at: Duration) {
        self.cancel(timer);
        // Of the same time, the one that was set first is the first to come.
        let place = self.0.partition_point(|(other, _)| *other > at);
        self.0.insert(place, (at, timer));
    }

    /// Sets or cancels a timer.
    pub(super) fn set_to(&mut self, timer: Timer, at: Option<Duration>) {
        match at {
            Some(at) => self.set(timer, at),
            None => self.cancel(timer),
        }
    }

    /// Sets a timer unless it comes sooner as it is.
    pub(super) fn set_earlier(&mut self, timer: Timer, at: Duration) {
        if self.at(timer).is_none_or(|before| at < before) {
            self.set(timer, at);
        }
    }

    /// Makes a timer come sooner, if it is set at all.
    pub(super) fn hasten(&mut self, timer: Timer, at: Duration) {
        if self.is_set(timer) {
            self.set_earlier(timer, at);
        }
    }

    pub(super) fn cancel(&mut self, timer: Timer) {
        if let Some(place) = self.0.iter().position(|(_, other)| *other == timer) {
            self.0.remove(place);
        }
    }

    pub(super) fn at(&self, timer: Timer) -> Option<Duration> {
        let found = self.0.iter().find(|(_, other)| *other == timer);
        found.map(|(at, _)| *at)
    }

    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.at(timer).is_some()
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Duration> {
        self.0.last().map(|(at, _)| *at)
    }

    /// Takes the first timer that is due.
    pub(super) fn take_due(&mut self, now: Duration) -> Option<Timer> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop().map(|(_, timer)| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Timer; 17] = [
        Timer::CallCheck,
        Timer::Promotion,
        Timer::KillForeground,
        Timer::KillRemnants,
        Timer::Strays,
        Timer::KillSet,
        Timer::Housekeeping,
        Timer::OutputFiles,
        Timer::RetryRecords,
        Timer::Notifications,
        Timer::Processors,
        Timer::UnwatchedJobs,
        Timer::StalledReader,
        Timer::JobDeadline(0),
        Timer::JobDeadline(1),
        Timer::JobIdle(0),
        Timer::JobIdle(1),
    ];

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn each_timer_is_set_once() {
        let mut timers = Timers::default();
        for timer in ALL {
            timers.set(timer, seconds(9));
            timers.set(timer, seconds(5));
            assert_eq!(timers.at(timer), Some(seconds(5)));
        }
        let due = std::iter::from_fn(|| timers.take_due(seconds(9)));
        assert_eq!(due.collect::<Vec<_>>(), ALL);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn sooner_later_and_not_at_all() {
        let timer = Timer::Strays;
        let mut timers = Timers::default();
        timers.hasten(timer, seconds(1));
        assert!(!timers.is_set(timer), "only what is set comes sooner");
        timers.set_earlier(timer, seconds(5));
        for (at, wanted) in [(7, 5), (5, 5), (4, 4)] {
            timers.set_earlier(timer, seconds(at));
            assert_eq!(timers.at(timer), Some(seconds(wanted)));
        }
        for (at, wanted) in [(6, 4), (3, 3)] {
            timers.hasten(timer, seconds(at));
            assert_eq!(timers.at(timer), Some(seconds(wanted)));
        }
        timers.set_to(timer, Some(seconds(8)));
        assert_eq!(timers.at(timer), Some(seconds(8)));
        assert_eq!(timers.take_due(seconds(7)), None);
        assert!(timers.is_set(timer), "what is not due stays");
        timers.set_to(timer, None);
        assert_eq!(timers.at(timer), None);
        timers.cancel(timer);
        assert_eq!(timers.take_due(seconds(99)), None);
    }

    /// Whatever is set and cancelled in whatever order: a plain list agrees, what is due comes in order
    /// of time, and what `next` names is what `take_due` gives.
    #[test]
    fn what_is_next_is_what_is_due() {
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut draw = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        for _ in 0..500 {
            let mut timers = Timers::default();
            let mut plain: Vec<(Timer, Duration)> = Vec::new();
            for _ in 0..draw(40) {
                let timer = ALL[draw(17) as usize];
                let at = seconds(1 + draw(20));
                plain.retain(|(other, _)| *other != timer);
                if draw(4) == 0 {
                    timers.cancel(timer);
                } else {
                    timers.set(timer, at);
                    plain.push((timer, at));
                }
            }
            // A stable sort: of the same time, the one that was set first.
            plain.sort_by_key(|(_, at)| *at);
            for (timer, at) in plain {
                assert_eq!(timers.next(), Some(at));
                assert_eq!(
                    timers.take_due(at.saturating_sub(Duration::from_nanos(1))),
                    None
                );
                assert_eq!(timers.take_due(at), Some(timer));
            }
            assert_eq!(timers.next(), None);
        }
    }
}

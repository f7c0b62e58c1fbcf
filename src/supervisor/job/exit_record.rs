//! Writing down how a job ended, and trying again where the disk refuses.

use std::time::Duration;

use nix::sys::epoll::Epoll;

use super::Job;
use super::channel::Output;

use crate::job::record::{ExitFacts, KillIntent, LONGEST_TAIL, Moment};
use crate::job::{Evidence, Observer, Outcome};
use crate::screen::clean_tail;
use crate::supervisor::Supervisor;
use crate::supervisor::publisher::usage;
use crate::supervisor::timers::Timer;
use crate::sys::clock;
use crate::sys::process::Usage;
use crate::text;

/// How often a record that the disk refuses is tried again, and for how long.
const RETRY: Duration = Duration::from_secs(1);
const GIVE_UP: Duration = Duration::from_secs(120);
/// What of the transcript is looked at for the tail in the record; more than is kept, for escape
/// sequences do not count.
const TAIL: usize = 8 * 1024;

impl Job {
    /// Who wished its end: we ourselves, or whoever left word in the store.
    pub(super) fn take_kill_intent(&mut self, outcome: &Outcome) -> Option<KillIntent> {
        let live = self.live.as_ref();
        let ours = self.limits.kill_requested.take();
        ours.or_else(|| live.and_then(|live| live.kill_intent(outcome)))
    }

    /// `None` when nothing can be stored.
    pub(super) fn exit_facts(
        &mut self,
        outcome: Outcome,
        used: Option<Usage>,
        evidence: Evidence,
        ended: Moment,
        wish: Option<KillIntent>,
    ) -> Option<ExitFacts> {
        let live = self.live.as_mut()?;
        let mut facts = ExitFacts::new(outcome, Observer::Supervisor, evidence, ended);
        facts.end_unseen = self.watch.found_ended;
        facts.rusage = used.map(usage);
        facts.output = live.transcript().facts();
        facts.stopped_seen = self.stopped_seen;
        facts.kill_requested = wish;
        facts.during_call = self.ended_in_call;
        let tail = live.transcript().tail(TAIL);
        facts.tail = (!tail.is_empty()).then(|| text::redact(&clean_tail(&tail, LONGEST_TAIL)));
        Some(facts)
    }

    /// Lets go of a terminal that nobody else has open, and of the record once it is written.
    pub(super) fn close_abandoned(&mut self, epoll: &Epoll) {
        if self.output.as_ref().is_none_or(Output::is_abandoned) {
            self.listen(epoll, false);
            self.output = None;
            if self.unwritten.is_none() {
                self.live = None;
            }
        }
    }
}

impl Supervisor {
    pub(super) fn write_exit(
        &mut self,
        index: usize,
        facts: impl FnOnce(&mut Job) -> Option<ExitFacts>,
    ) {
        let job = &mut self.jobs[index];
        let (Some(facts), Some(live)) = (facts(job), &mut job.live) else {
            return;
        };
        if live.commit(&facts).is_err() && !live.is_removed() {
            job.unwritten = Some(Box::new(facts));
            let now = clock::boottime();
            if !self.timers.is_set(Timer::RetryRecords) {
                self.timers.set(Timer::RetryRecords, now + RETRY);
            }
            self.jobs.give_up_at.get_or_insert(now + GIVE_UP);
        }
    }

    /// Tries again to write the records that the disk refused; gives up after a while, and then
    /// whoever reads the job next finds the lease free and says `lost`.
    pub(in crate::supervisor) fn retry_records(&mut self) {
        let mut left = false;
        for job in self.jobs.iter_mut() {
            let (Some(facts), Some(live)) = (&job.unwritten, &mut job.live) else {
                continue;
            };
            if live.commit(facts).is_ok() {
                job.unwritten = None;
                self.notifications.note_end();
            } else {
                left = true;
            }
        }
        let now = clock::boottime();
        let goes_on = left && self.jobs.give_up_at.is_some_and(|at| now < at);
        let at = goes_on.then(|| now + RETRY);
        self.timers.set_to(Timer::RetryRecords, at);
    }
}

//! The loop: waits for the kernel, turns what it tells into events, and carries out what follows from
//! them. Nothing is decided here.

use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::Supervisor;
use super::call::{PassedOn, STALLED, announcement, unwatched};
use super::job::{Job, Limit};
use super::state::{self, Answer, Context, Effect, Event, Phase};
use super::strays::is_blind;
use super::timers::Timer;
use crate::sys::clock;
use crate::sys::fds;
use crate::sys::signal::SignalFd;
use crate::wire::{END_JOBS, ToFront};

/// How often a job is looked for that there was no descriptor for.
const UNWATCHED: Duration = Duration::from_secs(1);
/// From the end of the call to the work that the harness need not wait for.
const HOUSEKEEPING: Duration = Duration::from_millis(10);

// What an event of the kernel is about; the lower half is the place of a sink, a feed or a job.
pub(super) const TOKEN_CHILD: u64 = 1;
pub(super) const TOKEN_LINK: u64 = 2;
pub(super) const TOKEN_REQUESTS: u64 = 3;
pub(super) const TOKEN_SINK: u64 = 1 << 32;
pub(super) const TOKEN_FEED: u64 = 2 << 32;
pub(super) const TOKEN_JOB: u64 = 3 << 32;
pub(super) const TOKEN_TERMINAL: u64 = 4 << 32;
pub(super) const TOKEN_ERRORS: u64 = 5 << 32;
const PLACE: u64 = 0xffff_ffff;

/// What the kernel tells us by.
pub(super) struct Poller {
    /// Each part watches its own descriptors with it.
    pub(super) epoll: Epoll,
    /// Signals: changes of our children, and requests of PID 1.
    children: SignalFd,
}

impl Poller {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            children: SignalFd::new(&[libc::SIGCHLD, END_JOBS])?,
        })
    }

    pub(super) fn children(&self) -> &SignalFd {
        &self.children
    }

    pub(super) fn watch_children(&self, token: u64) {
        fds::with_borrowed(self.children.as_raw_fd(), |fd| {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, token);
            let _ = self.epoll.add(fd, event);
        });
    }

    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [self.epoll.0.as_raw_fd(), self.children.as_raw_fd()]
    }
}

impl Supervisor {
    pub(super) fn run(&mut self) {
        // The shell may have ended before the first wait.
        self.subscribe_jobs();
        self.check_children();
        self.end_turn();
        while !self.is_finished() {
            self.wait_and_handle();
        }
        if self.timers.is_set(Timer::Housekeeping) {
            self.do_housekeeping();
        }
    }

    fn is_finished(&self) -> bool {
        self.call.phase() == Phase::Released
            && !self.jobs.any_running()
            && !self.timers.is_set(Timer::RetryRecords)
            && (self.has_no_children()
                || (!self.timers.is_set(Timer::Strays)
                    && !is_blind()
                    && self.has_only_supervisors()))
    }

    // --- what the kernel tells ---

    fn wait_and_handle(&mut self) {
        self.plan_checks();
        let mut events = [EpollEvent::empty(); 64];
        let timeout = self.timeout();
        let count = self.poller.epoll.wait(&mut events, timeout).unwrap_or(0);
        for event in &events[..count] {
            self.handle(event.data(), event.events());
        }
        self.handle_timers();
        self.end_turn();
    }

    /// What may follow from whatever happened.
    fn end_turn(&mut self) {
        self.deliver();
        self.notify();
        self.check_lingering();
    }

    /// What is to be checked in a while even if nothing happens until then.
    fn plan_checks(&mut self) {
        let unwatched = self.jobs.iter().any(Job::is_unwatchable);
        let at = unwatched.then(|| clock::boottime() + UNWATCHED);
        self.timers.set_to(Timer::UnwatchedJobs, at);
        let held = self.jobs.any_held();
        let at = held.then(|| clock::boottime() + STALLED);
        self.timers.set_to(Timer::StalledReader, at);
    }

    /// To the next deadline, and a millisecond more, so that it has passed then.
    fn timeout(&self) -> EpollTimeout {
        let Some(at) = self.timers.next() else {
            return EpollTimeout::NONE;
        };
        let wait = at.saturating_sub(clock::boottime()).as_millis();
        EpollTimeout::from((wait.min(60_000) as u16).saturating_add(1))
    }

    fn handle(&mut self, token: u64, flags: EpollFlags) {
        let place = (token & PLACE) as usize;
        match token & !PLACE {
            TOKEN_SINK => {
                let relay = &mut self.call.relay;
                let flow = relay.sink_ready(place, flags, &self.poller.epoll);
                self.follow_flow(place, flow);
                self.resume_jobs();
            }
            TOKEN_FEED => drop(self.read_feed(place)),
            TOKEN_JOB => self.check_job(place),
            TOKEN_TERMINAL => self.terminal_ready(place, flags),
            TOKEN_ERRORS => self.errors_ready(place),
            _ => match token {
                TOKEN_CHILD => {
                    while let Some(arrived) = self.poller.children.next() {
                        self.take_signal(&arrived);
                    }
                    self.check_children();
                }
                TOKEN_LINK => drop(self.read_front()),
                TOKEN_REQUESTS => self.read_requests(),
                _ => {}
            },
        }
    }

    fn handle_timers(&mut self) {
        // Whatever woke us may be about these, and nothing else tells of them.
        if self.jobs.iter().any(Job::is_unwatchable) {
            self.check_unwatched();
        }
        self.resume_jobs();
        if self.timers.next().is_none() {
            return;
        }
        let now = clock::boottime();
        while let Some(timer) = self.timers.take_due(now) {
            self.handle_timer(timer, now);
        }
    }

    fn handle_timer(&mut self, timer: Timer, now: Duration) {
        match timer {
            // Each turn of the loop ends with `deliver`, and began with these.
            Timer::CallCheck | Timer::UnwatchedJobs | Timer::StalledReader => {}
            Timer::Promotion => self.apply(Event::PromotionDue),
            Timer::KillForeground => self.kill_foreground(),
            Timer::KillRemnants => self.kill_remnants(),
            Timer::Strays => self.adopt_strays(false),
            Timer::KillSet => self.end_kills(now),
            Timer::Housekeeping => self.do_housekeeping(),
            Timer::OutputFiles => self.check_files(),
            Timer::Processors => self.use_all_processors(),
            Timer::RetryRecords => self.retry_records(),
            Timer::Notifications => self.end_notifications(),
            Timer::JobDeadline(index) => self.time_out(index, Limit::Time),
            Timer::JobIdle(index) => self.check_idle(index, now),
        }
    }

    // --- what follows ---

    pub(super) fn apply(&mut self, event: Event) {
        self.apply_signal(event, PassedOn::default());
    }

    /// Has `state` decide what follows from an event, carries that out, and enters the new phase.
    pub(super) fn apply_signal(&mut self, event: Event, passed: PassedOn) {
        let before = self.call.phase();
        let (phase, effects) = state::step(before, event, self.context_of(event));
        for effect in effects {
            self.carry_out(*effect, passed);
        }
        // An effect may have been an event itself.
        if phase != before {
            self.call.enter(phase, clock::boottime);
        }
    }

    fn context_of(&self, event: Event) -> Context {
        // To ask whether the front stays takes time, so only whoever needs the answer asks.
        let stays = match event {
            Event::Recorded => self.has_to_stay(),
            Event::RunStarted => self.stays_with_run(),
            _ => false,
        };
        let is_asked = matches!(event, Event::Signal(_)) && self.call.phase().has_reader();
        Context {
            is_run: self.setup.is_run(),
            term_promotes: self.setup.term_promotes(),
            is_killed: self.call.kill.is_under_way(),
            stays,
            dies: is_asked && self.setup.dies_with_the_call(),
            is_stopped: self.linger.is_stopped(),
            notifies: event == Event::NoJobsLeft && self.is_notifying(),
        }
    }

    fn carry_out(&mut self, effect: Effect, passed: PassedOn) {
        match effect {
            Effect::ContinueFront => self.call.front.wake(),
            Effect::CancelPromotion => self.timers.cancel(Timer::Promotion),
            Effect::SignalGroup => self.call.signal_group(passed.signal, &self.setup),
            Effect::NoteKill => self.note_kill(passed),
            Effect::SignalForeground => self.signal_foreground(passed.signal),
            Effect::EndForeground(cause) => self.end_foreground(cause),
            Effect::EndJobs => self.end_jobs(self.drain.until()),
            Effect::StopJobs => self.stop_jobs(),
            Effect::HurryJobs => self.hurry_jobs(),
            Effect::SignalJob => self.signal_job(0, passed.signal),
            Effect::Promote => self.promote(),
            Effect::NoteBystanders => {
                let strays = self.strays(true);
                self.call.kill.note_bystanders(strays);
            }
            Effect::AdoptStrays => self.adopt_strays(true),
            Effect::Announce => self.announce(),
            Effect::SayUnwatched => {
                let first = self.jobs.iter().next();
                if let Some(id) = first.and_then(Job::id) {
                    let text = unwatched(id, passed.signal);
                    self.call.front.print(text);
                }
                self.announce();
            }
            Effect::RecordKill => self.record_killed_foreground(),
            Effect::Answer(answer) => self.answer(self.status(answer, passed.signal)),
            Effect::Remember(answer) => self.call.remember(self.status(answer, passed.signal)),
            Effect::AwaitNotifications => self.await_notifications(),
            Effect::Release => self.release(),
            Effect::CloseLink => self.call.front.close(&self.poller.epoll),
            Effect::DropOutput => self.call.relay.drop_output(),
        }
    }

    /// The wait status that the front is to end with.
    fn status(&self, answer: Answer, signal: i32) -> i32 {
        match answer {
            Answer::Shell => self.call.shell.wait_status(),
            Answer::Signal => signal,
            Answer::SignalCode => (128 + signal) << 8,
            Answer::TimedOut => 124 << 8,
            Answer::Started => self.jobs.start_status(),
            Answer::Remembered => self.call.remembered(),
        }
    }

    /// Tells the front how to end, once nothing more comes to what it reads.
    fn answer(&mut self, status: i32) {
        self.call.relay.close_sinks(&self.poller.epoll);
        self.call.front.wake();
        if self.call.front.send(&ToFront::Done(status)) {
            self.warm.yield_to_front();
        }
    }

    fn release(&mut self) {
        let epoll = &self.poller.epoll;
        self.call.relay.close_sinks(epoll);
        self.call.front.close(epoll);
        self.call.kill.forget();
        for timer in [
            Timer::CallCheck,
            Timer::KillForeground,
            Timer::Promotion,
            Timer::Notifications,
        ] {
            self.timers.cancel(timer);
        }
        self.plan_file_checks();
        // What is still written to the call's own pipes belongs to a job, or to nobody. Somebody whom we
        // cannot see must not die of writing there.
        let (receiver, unseen) = (self.jobs.receiver(), self.has_unseen());
        let epoll = &self.poller.epoll;
        self.call.relay.give_rest(receiver, unseen, epoll);
        self.warm.drop_spares();
        self.jobs.stop_mirroring(epoll);
        // The front has the processor now: what the disk takes its time for comes after it.
        let at = clock::boottime() + HOUSEKEEPING;
        self.timers.set(Timer::Housekeeping, at);
    }

    fn do_housekeeping(&mut self) {
        self.timers.cancel(Timer::Housekeeping);
        self.jobs.do_housekeeping();
        self.publisher.tidy(self.warm.leaves_spare());
    }

    /// Says what goes on in the background.
    fn announce(&mut self) {
        if !self.setup.settings.announce {
            return;
        }
        let refusal = self.publisher.refusal();
        if let Some(text) = announcement(&self.jobs, self.has_unseen(), refusal, &self.setup) {
            self.call.front.print(text);
        }
    }

    pub(super) fn has_living_jobs(&self) -> bool {
        self.jobs.any_running() || self.has_unseen()
    }
}

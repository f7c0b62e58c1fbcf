//! The supervisor: the detached process, one per top-level command, that owns its jobs.
//!
//! It is an ancestor of the real shell and a child subreaper, so whatever the shell leaves behind
//! is handed to it by the kernel. It relays the foreground's output, registers jobs, writes their
//! transcripts and records, and goes away with the last of them. It never reaches out to a process
//! outside its own tree, and holds nothing of the harness once the call is over.
//!
//! One loop waits on everything; nothing in it blocks and nothing wakes it while all is quiet.

mod announce;
mod call;
mod control;
mod drain;
mod ending;
mod foreground;
mod hearing;
mod jobs;
mod kills;
mod ledger;
mod linger;
mod news;
mod processes;
mod redirected;
mod register;
mod run;
mod scarce;
mod start;
mod stops;
mod strays;
mod stream;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout};

use crate::handoff::{Address, FrontLink, LoneJob, RunJob, Work};
use crate::record::ProcIdentity;
use crate::settings::Settings;
use crate::sys::affinity::Affinity;
use crate::sys::process::{self, ChangeKind, Usage};
use crate::sys::signal::{Saved, SignalFd};
use crate::sys::{clock, proc};

use jobs::Job;
use kills::Kills;
use ledger::Ledger;
use processes::Class;
use stops::StoppedFront;
use stream::{Buffer, Feed, STALLED, Sink};

/// How long short-lived leftovers of the shell may hold the call.
const DRAIN: Duration = Duration::from_millis(200);
/// How long the call waits for a forked child of the shell that is about to register.
const REGISTRATION: Duration = Duration::from_secs(1);
/// The same once its launcher runs.
const LAUNCHING: Duration = Duration::from_secs(5);
/// How long after a signal was passed on an ordinary end of the shell counts as its consequence.
const CONSEQUENCE: Duration = Duration::from_secs(10);
/// From a signal that ended the shell to KILL for what it left: the harness's own KILL finds nobody.
const DOOM: Duration = Duration::from_secs(5);
/// From TERM to KILL for a foreground whose front was killed.
const GRACE: Duration = Duration::from_secs(1);
/// How long the leftovers of an ended job may live before they count as jobs of their own.
const LEFTOVER: Duration = Duration::from_millis(200);
/// The same for what a kill is about to end, and for all that is left if nobody said whom it means.
const KILLED_LEFTOVER: Duration = Duration::from_secs(15);

/// How often a job is looked at that there was no descriptor for.
const UNSEEN: Duration = Duration::from_secs(1);

const TOKEN_CHILD: u64 = 1;
const TOKEN_LINK: u64 = 2;
const TOKEN_REGISTER: u64 = 3;
const TOKEN_SINK: u64 = 1 << 32;
const TOKEN_FEED: u64 = 2 << 32;
const TOKEN_JOB: u64 = 3 << 32;
const TOKEN_TTY: u64 = 4 << 32;
const TOKEN_ERRORS: u64 = 5 << 32;

/// Where the call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The shell runs.
    Foreground,
    /// The shell has ended (at this time); its output is being delivered.
    Settling(Duration),
    /// The front stays although the shell has ended, because everything dies with the call.
    Lingering,
    /// The front has gone; only jobs are left.
    Released,
}

/// The real shell.
struct Shell {
    pid: i32,
    /// The session it was started in; whoever is in another one left on purpose.
    session: i32,
    /// `Some` iff it has ended.
    status: Option<(i32, Usage)>,
    started: Duration,
}

/// Why the foreground is being ended from outside.
#[derive(Clone, Debug)]
struct Killing {
    signal: i32,
    sender: i32,
    program: Option<String>,
    by: &'static str,
    /// When to use KILL; `None`: the signal was only passed on, or KILL was used.
    escalate_at: Option<Duration>,
    /// What was signalled: pids with their start times. These are no strays, whoever their parent is
    /// by now.
    targets: Vec<(i32, u64)>,
    /// When it began, and who the shell was: afterwards nobody can tell.
    at: Duration,
    shell: Option<Identity>,
}

/// Who a process is and where it works.
type Identity = (ProcIdentity, std::path::PathBuf);

/// What is left of a foreground that got a signal and whose shell has died of it.
struct Doomed {
    targets: Vec<(i32, u64)>,
    kill_at: Option<Duration>,
}

pub(crate) struct Supervisor {
    epoll: Epoll,
    children: SignalFd,
    /// `Some` as long as the front is there.
    link: Option<FrontLink>,
    requests: OwnedFd,
    request_bytes: Vec<u8>,
    address: Address,
    shell: Shell,
    phase: Phase,
    killing: Option<Killing>,
    doomed: Option<Doomed>,
    /// Strays that lived when the call was cut short.
    bystanders: Vec<i32>,
    /// The stdin that the shell was started with.
    stdin: Option<crate::sys::fds::Object>,
    sinks: Vec<Sink>,
    feeds: Vec<Option<Feed>>,
    jobs: Vec<Job>,
    ledger: Ledger,
    /// Terminals for the next job, opened ahead of it.
    spares: Vec<jobs::Opened>,
    /// How many descriptors there can be.
    most_files: u64,
    settings: Settings,
    saved: Saved,
    has_spots: bool,
    /// The only job that the text can start.
    lone: Option<LoneJob>,
    has_terminal: bool,
    /// At a terminal, in the group of the front.
    shares_group: bool,
    /// At a terminal, in a group of its own that the front lends the terminal to.
    is_anchored: bool,
    /// `Some` iff the front was stopped with the shell.
    stopped_front: Option<StoppedFront>,
    /// How often the front wanted the shell to go on.
    continues: u8,
    command: Vec<u8>,
    shell_path: std::path::PathBuf,
    shell_argv: Vec<std::ffi::OsString>,
    run: Option<RunJob>,
    promote_at: Option<Duration>,
    /// The process that started the front.
    caller: i32,
    front: i32,
    /// What is known of a call that stays for its jobs.
    staying: linger::Staying,
    /// Whether everything here dies with the call, once asked.
    dies_with_the_call: std::cell::OnceCell<bool>,
    ourselves: std::path::PathBuf,
    /// The last output of feeds that have ended.
    last_tail: Vec<u8>,
    /// When to look for strays next.
    leftovers_at: Option<Duration>,
    /// `Some` while a process is waited for that is ending: until when.
    dying_until: Option<Duration>,
    kills: Kills,
    /// `Some` from the end of the call until what can wait was done.
    settle_down_at: Option<Duration>,
    /// What the announcement calls this program, once asked for.
    program_name: std::cell::OnceCell<String>,
    looks: redirected::Looks,
    /// `Some` while this process is kept on one processor: until when.
    settled_in_at: Option<Duration>,
    affinity: Option<Affinity>,
    /// `Some` iff a record is still to be written.
    retry_at: Option<Duration>,
    give_up_at: Option<Duration>,
    /// How many of the jobs those who want to be told know of.
    introduced: usize,
    /// Something ended that somebody may want to hear of.
    news: bool,
    /// Helpers that carry news; no jobs, no strays.
    helpers: Vec<i32>,
    buffer: Buffer,
}

/// Runs a supervisor in this freshly forked process, to its end.
pub fn supervise(work: Work) -> ! {
    if let Some(mut supervisor) = start::start(work) {
        supervisor.tend();
        supervisor.ledger.clear_up();
    }
    process::exit_now(0)
}

impl Supervisor {
    fn tend(&mut self) {
        // The shell may have ended before the first wait.
        self.introduce_jobs();
        self.look_at_children();
        self.settle();
        self.spread_news();
        while !self.is_finished() {
            self.wait_and_handle();
        }
        if self.settle_down_at.is_some() {
            self.settle_down();
        }
    }

    fn is_finished(&self) -> bool {
        self.phase == Phase::Released
            && self.jobs.iter().all(|job| job.ended)
            && self.retry_at.is_none()
            && (self.has_no_children()
                || (self.leftovers_at.is_none() && !self.is_blind() && self.has_only_supervisors()))
    }

    /// Whether there is no `/proc` to see our children by. That there are some, and how each of them
    /// ended, we know all the same.
    fn is_blind(&self) -> bool {
        !proc::is_ours()
    }

    /// Whether something lives on that cannot be named.
    fn has_unseen(&self) -> bool {
        !self.has_no_children() && self.is_blind()
    }

    /// ECHILD is the kernel's own word that nothing of ours is left.
    fn has_no_children(&self) -> bool {
        process::peek_ended().is_err_and(|error| error.raw_os_error() == Some(libc::ECHILD))
    }

    fn wait_and_handle(&mut self) {
        let mut events = [EpollEvent::empty(); 64];
        let count = self.epoll.wait(&mut events, self.timeout()).unwrap_or(0);
        for event in &events[..count] {
            self.handle(event.data(), event.events());
        }
        self.look_at_clock();
        self.settle();
        self.spread_news();
    }

    fn timeout(&self) -> EpollTimeout {
        let now = clock::boottime();
        let settling = match self.phase {
            // A slow reader is waited for without a limit, as without us.
            Phase::Settling(since) if !self.sinks.iter().any(Sink::is_full) => {
                Some(self.settle_deadline(since))
            }
            _ => None,
        };
        let next = [
            settling,
            self.promote_at.filter(|_| self.phase == Phase::Foreground),
            self.killing
                .as_ref()
                .and_then(|killing| killing.escalate_at),
            self.doomed.as_ref().and_then(|doomed| doomed.kill_at),
            self.leftovers_at,
            self.kills.next(),
            self.settle_down_at,
            self.staying.next(),
            self.looks.map(|(_, at)| at),
            self.retry_at,
            self.settled_in_at,
            self.jobs
                .iter()
                .flat_map(|job| [job.deadline, job.idle.map(|(at, _)| at)])
                .flatten()
                .min(),
            self.jobs.iter().any(Job::is_unseen).then_some(now + UNSEEN),
            self.is_holding().then_some(now + STALLED),
        ]
        .into_iter()
        .flatten()
        .min();
        match next {
            // One more millisecond, so that the deadline has passed when we look.
            Some(at) => {
                let wait = at.saturating_sub(now).as_millis().min(60_000) as u16;
                EpollTimeout::from(wait.saturating_add(1))
            }
            None => EpollTimeout::NONE,
        }
    }

    fn handle(&mut self, token: u64, flags: EpollFlags) {
        let index = (token & 0xffff_ffff) as usize;
        match token & !0xffff_ffff {
            TOKEN_SINK => self.handle_sink(index, flags),
            TOKEN_FEED => drop(self.read_feed(index)),
            TOKEN_JOB => self.check_job(index),
            TOKEN_TTY => self.handle_terminal(index, flags),
            TOKEN_ERRORS => drop(self.read_tty(index, jobs::STDERR)),
            _ => match token {
                TOKEN_CHILD => {
                    while let Some(arrived) = self.children.next() {
                        self.take_signal(&arrived);
                    }
                    self.look_at_children();
                }
                TOKEN_LINK => self.hear_front(),
                TOKEN_REGISTER => self.read_requests(),
                _ => {}
            },
        }
    }

    fn look_at_clock(&mut self) {
        let now = clock::boottime();
        if self.jobs.iter().any(Job::is_unseen) {
            self.check_unwatched();
        }
        self.let_jobs_go_on();
        if self.promote_at.is_some_and(|at| at <= now) && self.phase == Phase::Foreground {
            self.promote();
        }
        let escalate = self
            .killing
            .as_mut()
            .and_then(|k| k.escalate_at.take_if(|at| *at <= now));
        if escalate.is_some() {
            self.kill_foreground();
        }
        let doomed = self
            .doomed
            .as_mut()
            .and_then(|d| d.kill_at.take_if(|at| *at <= now));
        if doomed.is_some() {
            self.kill_doomed();
        }
        if self.leftovers_at.take_if(|at| *at <= now).is_some() {
            self.adopt_strays(false);
        }
        if self.kills.next().is_some_and(|at| at <= now) {
            self.forget_kills(now);
        }
        if self.settle_down_at.is_some_and(|at| at <= now) {
            self.settle_down();
        }
        if self.looks.is_some_and(|(_, at)| at <= now) {
            self.look_for_files();
        }
        if self.settled_in_at.is_some_and(|at| at <= now) {
            self.use_all_processors();
        }
        if self.retry_at.take_if(|at| *at <= now).is_some() {
            self.write_unwritten();
        }
        if self.staying.next().is_some() {
            self.end_lingering();
        }
        for index in 0..self.jobs.len() {
            if self.jobs[index].deadline.take_if(|at| *at <= now).is_some() {
                self.time_out(index, "timeout");
            }
            if self.jobs[index].is_silent(now) {
                self.time_out(index, "idle-timeout");
            }
        }
    }

    /// Ends being kept on one processor, for us and for what we start.
    fn use_all_processors(&mut self) {
        self.settled_in_at = None;
        if let Some(affinity) = self.affinity.take() {
            affinity.child_restore();
        }
    }

    // --- children ---

    fn look_at_children(&mut self) {
        while let Ok(Some(change)) = process::peek_ended() {
            let ChangeKind::Ended(status) = change.kind else {
                break;
            };
            if let Some(index) = self.job_of(change.pid) {
                self.finish(index, status, Some(change.usage), "waitid");
            } else if change.pid == self.shell.pid {
                self.shell.status = Some((status, change.usage));
                self.wake_front();
                if self.phase == Phase::Foreground {
                    self.phase = Phase::Settling(clock::boottime());
                }
            } else {
                self.hear_all();
                if self.class_of_ended(change.pid, status) == Class::Stray {
                    // Whoever ended it with its job has said so before.
                    self.read_requests();
                    if self.job_of(change.pid).is_some() {
                        continue;
                    }
                    if self.class_of_ended(change.pid, status) == Class::Stray {
                        self.record_dead_stray(change.pid, status, change.usage);
                    }
                }
            }
            process::reap(change.pid);
            self.helpers.retain(|helper| *helper != change.pid);
        }
        self.end_lingering();
        self.check_unwatched();
        while let Some(change) = process::take_stop() {
            self.note_stop(change.pid, change.kind);
        }
    }

    /// Looks at the jobs whose pidfd tells nothing, or that have none.
    fn check_unwatched(&mut self) {
        for index in 0..self.jobs.len() {
            if self.jobs[index].unwatched || self.jobs[index].is_unseen() {
                self.check_job(index);
            }
        }
    }

    fn note_stop(&mut self, pid: i32, kind: ChangeKind) {
        let stopped = match kind {
            ChangeKind::Stopped(signal) => Some(signal),
            _ => None,
        };
        if let Some(index) = self.job_of(pid) {
            self.jobs[index].note_stop(stopped);
        } else if pid == self.shell.pid {
            match stopped {
                Some(signal) => self.shell_stopped(signal),
                None => self.continue_front(),
            }
        }
    }

    fn watch(&self, fd: impl AsFd, token: u64) -> bool {
        self.epoll
            .add(fd, EpollEvent::new(EpollFlags::EPOLLIN, token))
            .is_ok()
    }

    fn descriptors(&self) -> Vec<i32> {
        let mut all = vec![
            self.epoll.0.as_raw_fd(),
            self.children.as_raw_fd(),
            self.requests.as_raw_fd(),
        ];
        all.extend(self.link.iter().flat_map(FrontLink::descriptors));
        all.extend(self.sinks.iter().flat_map(Sink::descriptors));
        all.extend(self.feeds.iter().flatten().map(Feed::descriptor));
        all.push(self.address.fd);
        all
    }
}

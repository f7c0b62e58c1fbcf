//! A call that stays for its jobs, because everything here ends with it: the front is PID 1 of its namespace, or
//! a sandbox was made for the call.
//!
//! Whoever stops such a call stops its jobs: they are told to end at once, and the call is over when they have
//! ended, their records are written and their subscribers were notified. How each of them ended is said.

use std::time::Duration;

use super::{Phase, Supervisor};
use crate::caller;
use crate::handoff::{RunJob, ToFront};
use crate::job::{How, Outcome};
use crate::notice;
use crate::settings::Linger;
use crate::sys::clock;
use crate::text;

/// From TERM to KILL for jobs where the front is PID 1: Docker kills after 10 seconds.
const CONTAINER: Duration = Duration::from_secs(8);
/// The same in a sandbox whose harness kills its call soon.
const SANDBOX: Duration = Duration::from_secs(1);
/// How long notifications may hold a call after its last job.
const TELLING: Duration = Duration::from_secs(10);
/// The same when the call was told to end: counted from KILL.
const TELLING_STOPPED: Duration = Duration::from_secs(1);
/// How much of a command a line shows.
const COMMAND: usize = 120;

/// What is known of a call that stays.
#[derive(Default)]
pub(super) struct Staying {
    /// The status that the call ends with, if not the shell's.
    status: Option<i32>,
    /// Who was told to end has until then.
    kill_at: Option<Duration>,
    /// `Some` once all jobs have ended: until when subscribers may take.
    until: Option<Duration>,
}

impl Staying {
    /// When to look again.
    pub(super) fn next(&self) -> Option<Duration> {
        self.until
    }
}

impl Supervisor {
    /// Whether everything here ends with the call.
    pub(super) fn dies_with_the_call(&self) -> bool {
        *self
            .dies_with_the_call
            .get_or_init(|| caller::dies_with_the_call(self.front == 1, self.caller))
    }

    /// Whether the front stays until the jobs have ended.
    pub(super) fn lingers(&self) -> bool {
        match self.settings.linger {
            Linger::Always => true,
            Linger::Never => false,
            Linger::Auto => self.dies_with_the_call(),
        }
    }

    /// Whether `run` stays with its job: where that ends with the call, and nobody asked for that.
    pub(super) fn lingers_for_run(&self, run: &RunJob) -> bool {
        // With a size it was made for a terminal, at which the front attaches to it next.
        let attaches = run.size.is_some();
        !attaches && self.settings.linger != Linger::Never && self.dies_with_the_call()
    }

    /// Whether those who want to hear of jobs are told now: not while the call can still speak for itself.
    pub(super) fn may_tell(&self) -> bool {
        matches!(self.phase, Phase::Released | Phase::Lingering)
    }

    /// Whether the call has to stay although no job lives: somebody is to be told, and could not be later.
    pub(super) fn owes_before_the_end(&self) -> bool {
        self.news
            && self.dies_with_the_call()
            && self.ledger.store().is_some_and(|store| store.may_owe())
    }

    /// Stays, to end with this status.
    pub(super) fn linger_with(&mut self, status: i32) {
        self.staying.status = Some(status);
        self.phase = Phase::Lingering;
    }

    /// A signal for a call that everything ends with. `true`: it is taken care of.
    pub(super) fn stop_with_jobs(&mut self, signal: i32) -> bool {
        if !self.dies_with_the_call() {
            return false;
        }
        let harmless = matches!(signal, libc::SIGUSR1 | libc::SIGUSR2);
        match self.phase {
            Phase::Released => return true,
            // `run --wait`: the job is the call.
            Phase::Foreground if self.run.is_some() => {
                if signal == libc::SIGTERM {
                    self.end_all_jobs();
                } else {
                    self.signal_job(0, signal);
                }
                return true;
            }
            Phase::Foreground => {
                if signal == libc::SIGTERM {
                    self.end_all_jobs();
                }
                return false;
            }
            Phase::Settling(_) | Phase::Lingering if harmless => return true,
            Phase::Settling(_) => {
                self.bystanders = self.strays(true);
                self.adopt_strays(true);
            }
            Phase::Lingering => {}
        }
        // Asked for the second time by somebody who does not want to wait.
        if signal != libc::SIGTERM && self.staying.kill_at.is_some() {
            self.staying.kill_at = Some(clock::boottime());
        }
        self.linger_with(signal);
        self.end_all_jobs();
        self.end_lingering();
        true
    }

    /// Jobs that began after the call was told to end are told, too.
    pub(super) fn end_new_jobs(&mut self) {
        if self.staying.kill_at.is_some() {
            self.end_all_jobs();
        }
    }

    /// TERM for all jobs, and KILL when the time is over that this place has.
    fn end_all_jobs(&mut self) {
        let grace = if self.front == 1 { CONTAINER } else { SANDBOX };
        let now = clock::boottime();
        let kill_at = *self.staying.kill_at.get_or_insert(now + grace);
        self.drain_jobs(kill_at.saturating_sub(now));
    }

    /// Says how a job ended that the call stayed for.
    pub(super) fn say_ending(&mut self, index: usize, outcome: &Outcome, ended: Duration) {
        if self.phase != Phase::Lingering || !self.settings.announce {
            return;
        }
        let job = &self.jobs[index];
        let how = match (outcome, job.timed_out) {
            (_, Some("timeout" | "idle-timeout")) => "timed out".to_owned(),
            (Outcome::Exited(code), _) => format!("finished: exit {code}"),
            (Outcome::Signaled { signal, .. }, _) => {
                format!("was killed by SIG{}", text::signal_name(*signal))
            }
            (Outcome::Lost(_), _) => "is lost".to_owned(),
        };
        let shown = text::redact(&text::sanitize(&job.text));
        let kind = if job.is_stray {
            How::Stray
        } else {
            How::Ampersand
        };
        let command = notice::told_command(kind, &shown, COMMAND);
        let said = match &job.live {
            Some(live) => {
                let began = Duration::from_millis(live.launch().started_boot_ms);
                let after = text::short_duration(ended.saturating_sub(began));
                let (id, program) = (live.id().clone(), self.program_name());
                format!(
                    "[agent-sh] job {id} {how} after {after}: {command}. Output: {program} logs {id}\n"
                )
            }
            None => format!("[agent-sh] {command} (pid {}) {how}\n", job.pid),
        };
        if let Some(link) = &mut self.link {
            link.tell(&ToFront::Say(said.into_bytes()));
        }
    }

    /// A lingering call ends with its last job, once those were told who want to know.
    pub(super) fn end_lingering(&mut self) {
        let over = || self.jobs.iter().all(|job| job.ended) && !self.has_unseen();
        if self.phase != Phase::Lingering || !over() {
            self.staying.until = None;
            return;
        }
        self.spread_news();
        let now = clock::boottime();
        let limit = match self.staying.kill_at {
            Some(kill_at) => kill_at.max(now) + TELLING_STOPPED,
            None => now + TELLING,
        };
        let until = *self.staying.until.get_or_insert(limit);
        let telling = self.dies_with_the_call() && !self.helpers.is_empty();
        if (telling || self.retry_at.is_some()) && now < until {
            return;
        }
        let shell = self.shell.status.map(|(status, _)| status);
        let status = self.staying.status.or(shell).unwrap_or(125 << 8);
        self.staying.until = None;
        self.finish_call(status);
    }
}

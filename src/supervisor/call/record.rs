//! A foreground that was ended from outside leaves a record: which signal, from whom, after how long,
//! and its last output. A harness's limit then does not pass for a program that crashes.

use std::time::Duration;

use super::foreground::{Killing, Reason, is_alive};
use crate::job::record::{self, ExitFacts, KilledBy};
use crate::job::{Evidence, How, Observer, Outcome};
use crate::supervisor::Supervisor;
use crate::supervisor::publisher::{Start, usage};
use crate::supervisor::timers::Timer;
use crate::sys::clock;

/// How long after a signal was passed on an ordinary end of the shell counts as its consequence.
const CONSEQUENCE: Duration = Duration::from_secs(10);
/// From a signal that ended the shell to KILL for what it left: the harness's own KILL finds nobody.
const REMNANTS: Duration = Duration::from_secs(5);

impl Supervisor {
    pub(in crate::supervisor) fn record_killed_foreground(&mut self) {
        let Some(killing) = self.call.kill.take() else {
            return;
        };
        self.timers.cancel(Timer::KillForeground);
        let outcome = Outcome::from_wait_status(self.call.shell.wait_status());
        let now = clock::boottime();
        let late = now.saturating_sub(killing.at) > CONSEQUENCE;
        if late && killing.reason == Reason::Signal && matches!(outcome, Outcome::Exited(_)) {
            // The command took the signal and went on.
            return;
        }
        if killing.targets.iter().any(is_alive) {
            self.call.kill.set_remnants(killing.targets.clone());
            self.timers.set(Timer::KillRemnants, now + REMNANTS);
        }
        let start = Start {
            tty: self.setup.has_terminal,
            was: killing.shell.clone(),
            ..Start::new(How::Foreground, self.call.shell.pid, &self.setup.command)
        };
        let started = self.call.shell.started;
        let Some(mut live) = self.publisher.publish_since(&start, started) else {
            return;
        };
        let tail = self.call.relay.take_tail();
        live.transcript().write(&tail);
        let mut facts = exit_facts(killing, outcome);
        facts.rusage = self.call.shell.usage().map(usage);
        facts.output = live.transcript().facts();
        facts.tail = Some(String::from_utf8_lossy(&tail).into_owned());
        drop(live.commit(&facts));
        self.notifications.note_end();
    }
}

fn exit_facts(killing: Killing, outcome: Outcome) -> ExitFacts {
    let ended = (clock::wall(), clock::boottime());
    let mut facts = ExitFacts::new(outcome, Observer::Supervisor, Evidence::WaitId, ended);
    facts.kill_requested = Some(record::KillIntent {
        by: killing.reason.cause(),
        signal: killing.signal,
        at: record::rfc3339(ended.0),
        session: None,
    });
    facts.killed_by = (killing.sender > 0).then_some(KilledBy {
        signal: killing.signal,
        pid: killing.sender,
        program: killing.program,
    });
    facts.during_call = true;
    facts
}

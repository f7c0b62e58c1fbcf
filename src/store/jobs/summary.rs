//! A job as a row: what `ps` shows of it.

use std::path::Path;

use serde_json::{Value, json};

use crate::job::record::{self, RecordSummary};
use crate::job::{Degraded, How, JobId, LostReason, State};
use crate::store::JobView;

/// What a list shows of a job.
#[derive(Clone, Debug)]
pub struct Summary {
    pub id: JobId,
    pub state: State,
    /// Only if it was observed.
    pub exit_code: Option<u8>,
    pub signal: Option<i32>,
    pub reason: Option<LostReason>,
    pub pid: Option<i32>,
    pub command: Option<String>,
    pub name: Option<String>,
    pub how: Option<How>,
    pub session: Option<String>,
    pub harness: Option<String>,
    pub cwd: Option<String>,
    /// As it sorts; that of a job of which nothing is known is the oldest of all.
    pub started_at: String,
    pub ended_at: Option<String>,
    /// When its end became known: there for every job that ended.
    pub settled_at: Option<String>,
    pub duration_ms: Option<u64>,
    pub transcript: String,
    pub redirected_to: Option<String>,
    pub redirected_stderr: Option<String>,
    pub bytes_total: u64,
    pub tty: Option<bool>,
    pub degraded: Vec<Degraded>,
}

impl Summary {
    /// Of an ended job, as its record tells it.
    pub(in crate::store) fn of_record(dir: &Path, record: RecordSummary) -> Self {
        let data = record.data;
        let own = || dir.join("out").to_string_lossy().into_owned();
        Self {
            id: data.job,
            state: data.state,
            exit_code: data.exit_code,
            signal: data.signal,
            reason: data.reason,
            pid: (data.proc.pid > 0).then_some(data.proc.pid),
            command: Some(data.command.text),
            name: data.name,
            how: Some(data.how),
            session: data.session,
            harness: data.harness,
            cwd: Some(data.cwd),
            started_at: data.started_at,
            ended_at: data.ended_at,
            settled_at: Some(record.time),
            duration_ms: data.duration_ms,
            transcript: data.output.path.unwrap_or_else(own),
            redirected_to: data.redirected_to,
            redirected_stderr: data.redirected_stderr,
            bytes_total: data.output.bytes_total,
            tty: Some(data.tty),
            degraded: data.degraded,
        }
    }

    /// The object of `ps --json`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let nobody_knows = record::rfc3339(std::time::UNIX_EPOCH);
        json!({
            "id": self.id,
            "state": self.state,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "reason": self.reason,
            "pid": self.pid,
            "command": self.command,
            "name": self.name,
            "how": self.how,
            "session": self.session,
            "harness": self.harness,
            "cwd": self.cwd,
            "started_at": (self.started_at != nobody_knows).then_some(&self.started_at),
            "ended_at": self.ended_at,
            "duration_ms": self.duration_ms,
            "transcript": self.transcript,
            "redirected_to": self.redirected_to,
            "redirected_stderr": self.redirected_stderr,
            "bytes_total": self.bytes_total,
            "tty": self.tty,
            "degraded": self.degraded,
        })
    }

    /// It ended otherwise than with exit code 0.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.state.is_terminal() && self.exit_code != Some(0)
    }

    /// It runs, and nobody may ever know how it ends.
    #[must_use]
    pub fn is_unsupervised(&self) -> bool {
        !self.state.is_terminal() && self.degraded.contains(&Degraded::Unsupervised)
    }
}

impl JobView {
    /// The row of this job.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let known = self.launch_known;
        let launch = &self.launch;
        let text = |text: &str| (known || !text.is_empty()).then(|| text.to_owned());
        Summary {
            id: launch.id.clone(),
            state: self.state,
            exit_code: self.exit_code(),
            signal: self.signal(),
            reason: self.reason(),
            pid: (known && launch.facts.proc.pid > 0).then_some(launch.facts.proc.pid),
            command: text(&launch.facts.command.text),
            name: launch.facts.name.clone(),
            how: known.then_some(launch.facts.how),
            session: launch.facts.session.clone(),
            harness: launch.facts.harness.clone(),
            cwd: text(&launch.facts.cwd),
            started_at: launch.facts.started_at.clone(),
            ended_at: self.ended_at().map(str::to_owned),
            settled_at: self.settled_at().map(str::to_owned),
            duration_ms: self.duration_ms(),
            transcript: self.transcript_path().to_string_lossy().into_owned(),
            redirected_to: launch.facts.redirected_to.clone(),
            redirected_stderr: launch.facts.redirected_stderr.clone(),
            bytes_total: self.bytes_total(),
            tty: known.then_some(launch.facts.tty),
            degraded: self.degraded.clone(),
        }
    }

    /// The object of `ps --json`.
    #[must_use]
    pub fn to_row_json(&self) -> Value {
        self.summary().to_json()
    }
}

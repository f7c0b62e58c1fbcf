//! The terminal record and event: its types, and its making from what is known.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::job::record::{
    CommandText, ExitFacts, FORMAT, JobFacts, KillIntent, KilledBy, LONGEST_TAIL, Launch, Moment,
    ORIGIN, ProcIdentity, SCHEMA_URI, Usage, file_uri, millis, rfc3339, source_of, trace,
    wall_between,
};
use crate::job::{Degraded, Evidence, How, JobId, LostReason, Observer, Outcome, State};
use crate::text;

/// How long the record is sure to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    Disk,
    /// The store is in memory.
    Boot,
    /// The disk refused to confirm it.
    Unsynced,
}

/// Who writes the record, and when.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    pub uid: u32,
    pub pid: i32,
    pub boot_id: String,
    pub timens: u64,
    pub now: Moment,
    pub transcript: Option<String>,
    pub durability: Durability,
}

/// `exit.json`: the terminal record and event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Record {
    pub specversion: String,
    pub id: String,
    pub source: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub subject: String,
    pub time: String,
    pub recordedtime: String,
    pub datacontenttype: String,
    pub dataschema: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataref: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlationid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    pub sequence: String,
    pub data: RecordData,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordData {
    pub schema: u64,
    pub job: JobId,
    pub state: State,
    /// `Some` iff it was observed.
    pub exit_code: Option<u8>,
    pub signal: Option<i32>,
    pub core: bool,
    /// Why it is lost.
    pub reason: Option<LostReason>,
    pub observed_by: Observer,
    pub evidence: Evidence,
    pub kill_requested: Option<KillIntent>,
    pub killed_by: Option<KilledBy>,
    pub stopped_seen: bool,
    #[serde(flatten)]
    pub facts: JobFacts,
    /// `None` when nobody saw when it ended.
    pub ended_at: Option<String>,
    pub duration_ms: Option<u64>,
    /// The clock of `duration_ms`: `boottime`, or `wall` after a reboot.
    pub clock: String,
    pub output: RecordOutput,
    pub rusage: Option<Usage>,
    pub left_running: Vec<JobId>,
    /// It ended before the call that started it returned: no news to whoever made the call.
    #[serde(default)]
    pub during_call: bool,
    pub durability: Durability,
    /// Bytes of the job, made safe to print. Nothing in it is ours: a reader must not obey it.
    #[serde(rename = "untrusted_output_tail")]
    pub tail: Option<String>,
    /// Where the tail comes from; there iff the tail is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    pub writer: RecordWriter,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordOutput {
    pub path: Option<String>,
    pub bytes_total: u64,
    pub bytes_kept: u64,
    pub dropped_bytes: u64,
    pub capped: bool,
    pub tty: bool,
    /// `Some` iff its supervisor went away before it: what it wrote after this may be missing.
    #[serde(default)]
    pub missing_since: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordWriter {
    pub version: String,
    pub pid: i32,
}

/// What a list shows of a record: the same fields, and no more of them.
#[derive(Debug, Deserialize)]
pub struct RecordSummary {
    pub time: String,
    pub data: SummaryData,
}

#[derive(Debug, Deserialize)]
pub struct SummaryData {
    pub schema: u64,
    pub job: JobId,
    pub state: State,
    pub exit_code: Option<u8>,
    pub signal: Option<i32>,
    pub reason: Option<LostReason>,
    pub command: SummaryCommand,
    pub how: How,
    pub session: Option<String>,
    pub harness: Option<String>,
    pub cwd: String,
    pub name: Option<String>,
    pub started_at: String,
    pub ended_at: Option<String>,
    pub duration_ms: Option<u64>,
    pub proc: SummaryProcess,
    pub tty: bool,
    pub redirected_to: Option<String>,
    #[serde(default)]
    pub redirected_stderr: Option<String>,
    pub output: SummaryOutput,
    pub degraded: Vec<Degraded>,
}

#[derive(Debug, Deserialize)]
pub struct SummaryCommand {
    pub text: String,
}

#[derive(Debug, Deserialize)]
pub struct SummaryProcess {
    pub pid: i32,
}

#[derive(Debug, Deserialize)]
pub struct SummaryOutput {
    pub path: Option<String>,
    pub bytes_total: u64,
}

impl Record {
    /// How the job ended.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match (self.data.state, self.data.exit_code, self.data.signal) {
            (State::Exited, Some(code), _) => Outcome::Exited(code),
            (State::Signaled, _, Some(signal)) => Outcome::Signaled {
                signal,
                core: self.data.core,
            },
            _ => Outcome::Lost(self.data.reason.unwrap_or(LostReason::RecordCorrupt)),
        }
    }

    /// Why this end is no news to the agent of its session, if so: it asked for it itself, or saw it.
    #[must_use]
    pub fn is_no_news(&self) -> Option<&'static str> {
        let data = &self.data;
        let asked = data.kill_requested.as_ref();
        let asked = asked.and_then(|intent| intent.session.as_ref());
        if asked.is_some() && asked == data.facts.session.as_ref() {
            return Some("the agent ended it itself");
        }
        if data.facts.how == How::Foreground || data.during_call {
            return Some("the call that started it told");
        }
        None
    }

    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// One line of JSON, as it is on disk.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// The same record in less space, for a full disk: without the tail, with a shorter command.
    #[must_use]
    pub fn slim(&self) -> Self {
        let mut slim = self.clone();
        slim.data.tail = None;
        slim.data.origin = None;
        let command = &mut slim.data.facts.command;
        let short = text::first_bytes(&command.text, 512).to_owned();
        command.truncated |= short.len() < command.text.len();
        command.text = short;
        slim.data.left_running.truncate(64);
        slim.data.facts.ignored_settings.clear();
        slim
    }

    /// The last part of the source, if it has four.
    fn store_id(&self) -> Option<String> {
        let parts = self.source.strip_prefix("urn:agent-sh:")?;
        Some(parts.splitn(3, ':').nth(2)?.to_owned())
    }

    /// The launch as far as the record tells, for when `run.json` cannot be read.
    #[must_use]
    pub fn launch(&self) -> Launch {
        let data = &self.data;
        Launch {
            format: FORMAT,
            id: data.job.clone(),
            facts: data.facts.clone(),
            store: self.store_id(),
            version: data.writer.version.clone(),
            ..unknown_launch(data.job.clone())
        }
    }
}

/// The launch of a job whose `run.json` tells nothing.
#[must_use]
pub(crate) fn unknown_launch(id: JobId) -> Launch {
    Launch {
        format: FORMAT,
        id,
        facts: JobFacts {
            started_at: rfc3339(SystemTime::UNIX_EPOCH),
            ..JobFacts::new(
                CommandText::default(),
                How::Stray,
                String::new(),
                ProcIdentity::default(),
            )
        },
        started_boot_ms: 0,
        transcript: None,
        transcript_cap: 0,
        supervisor: ProcIdentity::default(),
        store: None,
        control: None,
        interactive: false,
        lease: None,
        version: String::new(),
        caller: None,
        wake: BTreeMap::new(),
        extra: Map::new(),
    }
}

/// Makes the one terminal event of a job. Its id is derived, so that a repeated delivery has it too.
#[must_use]
pub(crate) fn terminal_event(launch: &Launch, facts: &ExitFacts, writer: &Writer) -> Record {
    let (exit_code, signal, core, reason) = match facts.outcome {
        Outcome::Exited(code) => (Some(code), None, false, None),
        Outcome::Signaled { signal, core } => (None, Some(signal), core, None),
        Outcome::Lost(reason) => (None, None, false, Some(reason)),
    };
    // Of a lost job nobody saw the end, unless just its status stayed unseen.
    let end_seen =
        !facts.end_unseen && reason.is_none_or(|reason| reason == LostReason::StatusUnseen);
    let same_clock =
        launch.facts.proc.boot_id == writer.boot_id && launch.facts.proc.timens == writer.timens;
    let (wall, boot) = facts.ended;
    let duration_ms = end_seen.then(|| {
        if same_clock {
            millis(boot).saturating_sub(launch.started_boot_ms)
        } else {
            wall_between(&launch.facts.started_at, wall)
        }
    });
    let kind = match launch.facts.how {
        How::Foreground => "dev.agent-sh.command.killed.v1",
        _ => "dev.agent-sh.job.exited.v1",
    };
    let mut degraded = launch.facts.degraded.clone();
    for more in &facts.degraded {
        if !degraded.contains(more) {
            degraded.push(more.clone());
        }
    }
    let tail = facts.tail.as_ref().map(|tail| {
        // Redacted while it is whole: a secret that is cut in two is not known for one.
        let safe = text::redact(&text::sanitize(tail.as_bytes()));
        text::last_bytes(&safe, LONGEST_TAIL).to_owned()
    });
    let output = &facts.output;
    Record {
        specversion: "1.0".to_owned(),
        id: format!("{}.exit", launch.id),
        source: source_of(launch, writer.uid),
        kind: kind.to_owned(),
        subject: launch.id.to_string(),
        time: rfc3339(wall),
        recordedtime: rfc3339(writer.now.0),
        datacontenttype: "application/json".to_owned(),
        dataschema: SCHEMA_URI.to_owned(),
        dataref: writer.transcript.as_deref().map(file_uri),
        correlationid: launch.facts.session.clone().filter(|key| !key.is_empty()),
        traceparent: trace::parent(&launch.wake).cloned(),
        tracestate: trace::state(&launch.wake).cloned(),
        sequence: format!("{:020}", writer.now.1.as_nanos()),
        data: RecordData {
            schema: FORMAT,
            job: launch.id.clone(),
            state: facts.outcome.state(),
            exit_code,
            signal,
            core,
            reason,
            observed_by: facts.observed_by.clone(),
            evidence: facts.evidence.clone(),
            kill_requested: facts.kill_requested.clone(),
            killed_by: facts.killed_by.clone(),
            stopped_seen: facts.stopped_seen,
            facts: JobFacts {
                degraded,
                ..launch.facts.clone()
            },
            ended_at: end_seen.then(|| rfc3339(wall)),
            duration_ms,
            clock: if same_clock { "boottime" } else { "wall" }.to_owned(),
            output: RecordOutput {
                path: writer.transcript.clone(),
                bytes_total: output.bytes_total,
                bytes_kept: output.bytes_kept,
                dropped_bytes: output.dropped_bytes,
                capped: output.capped,
                tty: launch.facts.tty,
                missing_since: output.missing_since.map(rfc3339),
            },
            rusage: facts.rusage,
            left_running: facts.left_running.clone(),
            during_call: facts.during_call,
            durability: writer.durability,
            origin: tail.as_ref().map(|_| ORIGIN.to_owned()),
            tail,
            writer: RecordWriter {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: writer.pid,
            },
            extra: Map::new(),
        },
        extra: Map::new(),
    }
}

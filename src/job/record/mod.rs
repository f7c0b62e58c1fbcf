//! The files that state a job's facts: `run.json` at its start, `exit.json` at its end.
//!
//! Pure: types and their making. Only this room knows a field's name. Unknown fields survive a read
//! (`extra`), so that an older agent-sh can pass on what a newer one wrote; `format` rises only when
//! old readers would be wrong, and a newer one is never touched.
//!
//! The terminal record is a CloudEvents 1.0 event, because it is also what every sink is sent. It
//! has no checksum: a rename publishes it whole, JSON that was cut short never parses, and a flipped
//! bit on a disk is the file system's business.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::job::{Degraded, Evidence, How, JobId, KillCause, Observer, Outcome};
use crate::settings::RecordCommand;
use crate::text;

mod event;
#[cfg(test)]
mod schema;
pub(crate) mod trace;

pub(crate) use event::*;
#[cfg(test)]
pub(crate) use schema::SCHEMA;

/// The format of both files that this version writes, and the newest it reads.
pub(crate) const FORMAT: u64 = 1;

/// Names the schema in each record.
pub(crate) const SCHEMA_URI: &str = "urn:agent-sh:schema:job-exited:1";

/// The longest command text that is stored; the hash is of all of it.
const LONGEST_COMMAND: usize = 8 * 1024;
/// The longest tail of output in a record.
pub(crate) const LONGEST_TAIL: usize = 2 * 1024;

/// What the tail says of itself: bytes of the job, not words of ours.
pub(crate) const ORIGIN: &str = "job-output";

/// The same instant on both clocks: wall time for people, boot time for durations.
pub(crate) type Moment = (SystemTime, Duration);

/// A process, beyond doubt. A pid alone is reused; start times differ between time namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ProcIdentity {
    pub pid: i32,
    pub starttime: u64,
    pub pidns: u64,
    pub timens: u64,
    pub boot_id: String,
    pub machine: String,
}

/// A command as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CommandText {
    pub text: String,
    /// Of the whole original text, in hex; keyed, so that it can be compared within one store and tells
    /// nothing beyond that (HMAC-SHA-256, see `store::Own`).
    pub sha256: String,
    pub truncated: bool,
    /// Whether something in it was taken for a secret and replaced.
    pub redacted: bool,
}

impl CommandText {
    #[must_use]
    pub fn new(command: &[u8], mode: RecordCommand, hash: impl Fn(&[u8]) -> String) -> Self {
        let sha256 = hash(command);
        // Twice what is kept is looked through: a command may be 128 KiB, and this is on its way.
        let start = &command[..command.len().min(2 * LONGEST_COMMAND)];
        let whole = String::from_utf8_lossy(start);
        let (safe, redacted) = match mode {
            RecordCommand::Redacted => {
                let safe = text::redact(&whole);
                let redacted = safe != whole;
                (safe, redacted)
            }
            RecordCommand::Full => (whole.into_owned(), false),
        };
        let shown = text::first_bytes(&safe, LONGEST_COMMAND);
        Self {
            truncated: shown.len() < safe.len() || start.len() < command.len(),
            text: shown.to_owned(),
            sha256,
            redacted,
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The file whose lock is the lease. A copy of the directory, or a view of it through another mount,
/// has another file: its lock says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeaseFile {
    pub dev: u64,
    pub ino: u64,
}

/// What is known of a job from its start: the same in `run.json`, in the event of its start and in its
/// record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobFacts {
    pub command: CommandText,
    pub how: How,
    #[serde(default)]
    pub session: Option<String>,
    #[serde(default)]
    pub harness: Option<String>,
    pub cwd: String,
    #[serde(default)]
    pub name: Option<String>,
    /// RFC 3339, UTC, milliseconds: sorts as text.
    pub started_at: String,
    pub proc: ProcIdentity,
    #[serde(default)]
    pub tty: bool,
    /// Where its output goes, if not to the transcript.
    #[serde(default)]
    pub redirected_to: Option<String>,
    /// Where its stderr goes, if neither there nor to the transcript.
    #[serde(default)]
    pub redirected_stderr: Option<String>,
    #[serde(default)]
    pub degraded: Vec<Degraded>,
    #[serde(default)]
    pub ignored_settings: Vec<String>,
}

impl JobFacts {
    /// Of a job with nothing else known, not even when it started.
    #[must_use]
    pub fn new(command: CommandText, how: How, cwd: String, proc: ProcIdentity) -> Self {
        Self {
            command,
            how,
            session: None,
            harness: None,
            cwd,
            name: None,
            started_at: String::new(),
            proc,
            tty: false,
            redirected_to: None,
            redirected_stderr: None,
            degraded: Vec::new(),
            ignored_settings: Vec::new(),
        }
    }
}

/// `run.json`: what was known when the job started. Never changed afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    pub format: u64,
    pub id: JobId,
    #[serde(flatten)]
    pub facts: JobFacts,
    pub started_boot_ms: u64,
    /// The transcript of another job that it shares; `None`: its own.
    #[serde(default)]
    pub transcript: Option<String>,
    #[serde(default)]
    pub transcript_cap: u64,
    pub supervisor: ProcIdentity,
    /// The id of its store, for the source of its events; `None`: made by a version without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Where the supervisor takes requests (`wire::Address` as text); `None`: nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// Whether its stdin is its terminal, so that it can be typed at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interactive: bool,
    /// `None` where the file system has no locks: then `supervisor` says who lives.
    #[serde(default)]
    pub lease: Option<LeaseFile>,
    #[serde(default)]
    pub version: String,
    /// The process that made the call, `PID.START`: whose next command hears of the end where there is no
    /// session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// What its harness can be reached by, beside the session: addresses and directories, no secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub wake: BTreeMap<String, String>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Launch {
    /// Whose next command hears of this job: the session's, else the caller's.
    #[must_use]
    pub fn teller(&self) -> Option<String> {
        let caller = || self.caller.as_deref().map(caller_key);
        self.facts.session.clone().or_else(caller)
    }
}

/// Stands for a session where there is none: the process that makes the calls, `PID.START`. No session's
/// key has a control character.
#[must_use]
pub(crate) fn caller_key(caller: &str) -> String {
    format!("caller\t{caller}")
}

/// Just enough to find a job by its name.
#[derive(Debug, Deserialize)]
pub(crate) struct LaunchLabel {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub session: Option<String>,
    #[serde(default)]
    pub started_at: String,
    #[serde(default)]
    pub proc: ProcIdentity,
    #[serde(default)]
    pub store: Option<String>,
}

/// What a file turned out to be.
#[derive(Debug)]
pub enum Parsed<T> {
    Whole(T),
    Newer(u64),
    Corrupt,
}

/// Reads `run.json`.
#[must_use]
pub fn parse_launch(bytes: &[u8]) -> Parsed<Launch> {
    match serde_json::from_slice::<Launch>(bytes) {
        Ok(launch) if launch.format <= FORMAT => Parsed::Whole(launch),
        Ok(launch) => Parsed::Newer(launch.format),
        Err(_) => newer_or_corrupt(bytes, "/format"),
    }
}

/// Reads `exit.json`.
#[must_use]
pub fn parse_record(bytes: &[u8]) -> Parsed<Record> {
    match serde_json::from_slice::<Record>(bytes) {
        Ok(record) if record.data.schema <= FORMAT => Parsed::Whole(record),
        Ok(record) => Parsed::Newer(record.data.schema),
        Err(_) => newer_or_corrupt(bytes, "/data/schema"),
    }
}

/// Reads of `exit.json` what a list shows. `None`: a closer look is needed.
#[must_use]
pub fn parse_summary(bytes: &[u8]) -> Option<RecordSummary> {
    let summary: RecordSummary = serde_json::from_slice(bytes).ok()?;
    (summary.data.schema <= FORMAT).then_some(summary)
}

fn newer_or_corrupt<T>(bytes: &[u8], pointer: &str) -> Parsed<T> {
    let value: Option<Value> = serde_json::from_slice(bytes).ok();
    let format = value.and_then(|value| value.pointer(pointer)?.as_u64());
    match format {
        Some(format) if format > FORMAT => Parsed::Newer(format),
        _ => Parsed::Corrupt,
    }
}

/// Where an event comes from: `urn:agent-sh:<machine>:<uid>:<store>`. An event of a job that an older
/// version made keeps the shorter one.
#[must_use]
pub(crate) fn source(machine: &str, uid: u32, store: Option<&str>) -> String {
    let plain = |text: &&str| {
        let letters = text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        letters && (1..=64).contains(&text.len())
    };
    let machine = Some(machine).filter(plain).unwrap_or("unknown");
    match store.filter(plain) {
        Some(store) => format!("urn:agent-sh:{machine}:{uid}:{store}"),
        None => format!("urn:agent-sh:{machine}:{uid}"),
    }
}

/// The source of a job's events.
#[must_use]
pub(crate) fn source_of(launch: &Launch, uid: u32) -> String {
    source(&launch.facts.proc.machine, uid, launch.store.as_deref())
}

/// The event of a job's start. Like the record it is derived from what is stored, so it is the same
/// whenever it is told.
#[must_use]
pub fn started_event(launch: &Launch, uid: u32, transcript: &str) -> Value {
    let mut event = serde_json::json!({
        "specversion": "1.0",
        "id": format!("{}.start", launch.id),
        "source": source_of(launch, uid),
        "type": "dev.agent-sh.job.started.v1",
        "subject": launch.id,
        "time": launch.facts.started_at,
        "datacontenttype": "application/json",
        "dataref": file_uri(transcript),
        "data": launch.facts,
    });
    if let Value::Object(map) = &mut event {
        map.extend(trace::attributes(&launch.wake));
    }
    let state = serde_json::json!({
        "schema": FORMAT,
        "job": launch.id,
        "state": crate::job::State::Running,
    });
    if let (Value::Object(data), Value::Object(state)) = (&mut event["data"], state) {
        data.extend(state);
    }
    if let (Some(key), Value::Object(map)) = (launch.facts.session.as_ref(), &mut event) {
        map.insert("correlationid".to_owned(), Value::String(key.clone()));
    }
    event
}

/// Somebody asked for the end of a job. It only asks: the wait status says how the job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KillIntent {
    pub by: KillCause,
    pub signal: i32,
    /// RFC 3339.
    pub at: String,
    /// The session of whoever asked: an end that an agent asked for is no news to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Who sent the signal that ended it, as the kernel told (siginfo).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KilledBy {
    pub signal: i32,
    pub pid: i32,
    pub program: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Usage {
    pub user_ms: u64,
    pub sys_ms: u64,
    pub max_rss_kib: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputFacts {
    /// Every byte that the job wrote to us.
    pub bytes_total: u64,
    /// What of it is on disk.
    pub bytes_kept: u64,
    /// What the disk refused. The cap's loss is not counted here: `bytes_total - bytes_kept` is all.
    pub dropped_bytes: u64,
    pub capped: bool,
    pub tty: bool,
    /// `Some` iff its supervisor went away before it: until when all that it wrote is sure to be here.
    pub missing_since: Option<SystemTime>,
}

/// What an observer knows of a job's end.
#[derive(Clone, Debug)]
pub struct ExitFacts {
    pub outcome: Outcome,
    pub observed_by: Observer,
    pub evidence: Evidence,
    /// When it ended; if nobody saw that, when it was noticed.
    pub ended: Moment,
    /// Whether `ended` is only when it was noticed.
    pub end_unseen: bool,
    pub rusage: Option<Usage>,
    pub output: OutputFacts,
    pub stopped_seen: bool,
    pub left_running: Vec<JobId>,
    pub kill_requested: Option<KillIntent>,
    pub killed_by: Option<KilledBy>,
    /// The end of its output; made safe and cut here.
    pub tail: Option<String>,
    /// Whether the call that started it had not returned yet.
    pub during_call: bool,
    pub degraded: Vec<Degraded>,
}

impl ExitFacts {
    /// The facts of an observed end with nothing else known.
    #[must_use]
    pub fn new(outcome: Outcome, observed_by: Observer, evidence: Evidence, ended: Moment) -> Self {
        Self {
            outcome,
            observed_by,
            evidence,
            ended,
            end_unseen: false,
            rusage: None,
            output: OutputFacts::default(),
            stopped_seen: false,
            left_running: Vec::new(),
            kill_requested: None,
            killed_by: None,
            tail: None,
            during_call: false,
            degraded: Vec::new(),
        }
    }
}

/// Whole milliseconds.
#[must_use]
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// UTC with milliseconds. A clock that is far off gives the nearest time that has a name.
#[must_use]
pub(crate) fn rfc3339(time: SystemTime) -> String {
    // 9999-12-31T23:59:59Z is the last that RFC 3339 can say.
    let latest = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    let time = time.clamp(SystemTime::UNIX_EPOCH, latest);
    humantime::format_rfc3339_millis(time).to_string()
}

/// Wall time since a start, never negative.
#[must_use]
pub(crate) fn wall_between(started_at: &str, now: SystemTime) -> u64 {
    humantime::parse_rfc3339(started_at)
        .ok()
        .and_then(|start| now.duration_since(start).ok())
        .map_or(0, millis)
}

/// `file:///…` with everything but plain characters percent-encoded.
fn file_uri(path: &str) -> String {
    use std::fmt::Write;
    let mut uri = "file://".to_owned();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests;

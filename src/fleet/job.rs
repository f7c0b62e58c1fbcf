//! Jobs of other machines, put together from their events. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::source::Seen;
use crate::notify::beat::LIFETIME;
use crate::notify::broker::machine_of;
use crate::text::{short_duration, signal_name};

/// The word for a job whose machine is silent.
pub(crate) const MAYBE_LOST: &str = "lost?";

/// What is known of one job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    pub(crate) machine: String,
    pub(crate) id: String,
    start: Option<Value>,
    beat: Option<Value>,
    pub(crate) exit: Option<Value>,
    /// When the broker last heard of it.
    heard: Option<SystemTime>,
}

/// All jobs of a stream, by machine and id.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    all: BTreeMap<(String, String), Job>,
}

impl Jobs {
    pub(crate) fn take(&mut self, seen: Vec<Seen>) {
        for Seen { at, event } in seen {
            let text = |name: &str| event[name].as_str().unwrap_or_default();
            let (kind, id) = (text("type"), text("subject").to_owned());
            let kind = kind
                .strip_prefix("dev.agent-sh.")
                .unwrap_or(kind)
                .to_owned();
            if kind == "notify.test.v1" || id.is_empty() {
                continue;
            }
            let machine = machine_of(text("source"));
            let job = self.all.entry((machine.clone(), id.clone())).or_default();
            (job.machine, job.id) = (machine, id);
            job.heard = job.heard.max(Some(at));
            match kind.as_str() {
                "job.started.v1" => job.start = Some(event),
                "job.beat.v1" => job.beat = Some(event),
                "job.exited.v1" | "command.killed.v1" => job.exit = Some(event),
                _ => {}
            }
        }
    }

    /// Those that are known well enough to be listed, in the order in which they started.
    pub(crate) fn list(&self) -> Vec<&Job> {
        let known = |job: &&Job| job.start.is_some() || job.exit.is_some();
        let mut jobs: Vec<&Job> = self.all.values().filter(known).collect();
        jobs.sort_by(|a, b| (a.text("started_at"), &a.id).cmp(&(b.text("started_at"), &b.id)));
        jobs
    }

    /// Those that a word may mean: an id, the beginning of one, a name, or `last`; `MACHINE/WORD` on one machine.
    pub(crate) fn find(&self, word: &str) -> Result<&Job, String> {
        let (machine, word) = match word.split_once('/') {
            Some((machine, word)) => (Some(machine), word),
            None => (None, word),
        };
        let mut jobs = self.list();
        jobs.retain(|job| machine.is_none_or(|machine| job.machine.starts_with(machine)));
        if word == "last" {
            return jobs.pop().ok_or_else(|| "no jobs".to_owned());
        }
        let by = |test: &dyn Fn(&Job) -> bool| -> Vec<&Job> {
            jobs.iter().copied().filter(|job| test(job)).collect()
        };
        let mut found = by(&|job| job.id == word);
        if found.is_empty() {
            found = by(&|job| job.text("name") == Some(word));
            // The newest that runs, else the newest.
            let running = found.iter().rposition(|job| job.exit.is_none());
            found = found
                .get(running.unwrap_or(found.len().saturating_sub(1)))
                .copied()
                .into_iter()
                .collect();
        }
        if found.is_empty() && !word.is_empty() {
            found = by(&|job| job.id.starts_with(word));
        }
        let shown = crate::text::shorten(word, 64);
        match found.as_slice() {
            [one] => Ok(one),
            [] => Err(format!("no job '{shown}'")),
            many => {
                let names: Vec<String> = many
                    .iter()
                    .take(4)
                    .map(|job| format!("{}/{}", job.machine, job.id))
                    .collect();
                Err(format!("'{shown}' may be {}", names.join(", ")))
            }
        }
    }
}

impl Job {
    fn data(&self) -> &Value {
        let event = self.exit.as_ref().or(self.start.as_ref());
        event.map_or(&Value::Null, |event| &event["data"])
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.data()[key].as_str()
    }

    fn beating(&self, key: &str) -> &Value {
        self.beat
            .as_ref()
            .map_or(&Value::Null, |beat| &beat["data"][key])
    }

    pub(crate) fn state(&self, now: SystemTime) -> &str {
        if self.exit.is_some() {
            return self.text("state").unwrap_or("lost");
        }
        let silent = self.heard.and_then(|heard| now.duration_since(heard).ok());
        if silent.is_some_and(|silent| silent > LIFETIME) {
            return MAYBE_LOST;
        }
        self.beating("state").as_str().unwrap_or("running")
    }

    /// When it will be believed to be lost, if nothing more is heard.
    pub(crate) fn silent_for(&self, now: SystemTime) -> Option<Duration> {
        let heard = self.heard.filter(|_| self.exit.is_none())?;
        now.duration_since(heard).ok()
    }

    fn duration(&self, now: SystemTime) -> Option<u64> {
        if self.exit.is_some() {
            return self.data()["duration_ms"].as_u64();
        }
        let until = if self.state(now) == MAYBE_LOST {
            self.heard?
        } else {
            now
        };
        self.text("started_at")
            .map(|start| crate::job::record::wall_between(start, until))
    }

    /// The code that `wait` gives for its end.
    pub(crate) fn code(&self, now: SystemTime) -> Option<u8> {
        let number = |key: &str| self.data()[key].as_u64().and_then(|n| u8::try_from(n).ok());
        match self.state(now) {
            "exited" => Some(number("exit_code").unwrap_or(125)),
            "signaled" => Some(number("signal").map_or(125, |signal| 128u8.saturating_add(signal))),
            "lost" | MAYBE_LOST => Some(125),
            _ => None,
        }
    }

    /// It ended, and not well. One whose machine is silent may still end well.
    pub(crate) fn has_failed(&self, now: SystemTime) -> bool {
        self.exit.is_some() && self.code(now) != Some(0)
    }

    /// The object of `ps --json`, and the machine.
    pub(crate) fn row(&self, now: SystemTime) -> Value {
        let data = self.data();
        let transcript = match &self.exit {
            Some(_) => data["output"]["path"].clone(),
            None => self
                .start
                .as_ref()
                .map_or(Value::Null, |start| path_of(&start["dataref"])),
        };
        let bytes = match &self.exit {
            Some(_) => data["output"]["bytes_total"].clone(),
            None => self.beating("bytes_total").as_u64().unwrap_or(0).into(),
        };
        let degraded = match &self.exit {
            None if self.beat.is_some() => self.beating("degraded").clone(),
            _ => data["degraded"].clone(),
        };
        json!({
            "id": self.id, "machine": self.machine, "state": self.state(now),
            "exit_code": data["exit_code"], "signal": data["signal"], "reason": data["reason"],
            "pid": data["proc"]["pid"].as_u64().filter(|&pid| pid > 0),
            "command": data["command"]["text"], "name": data["name"], "how": data["how"], "session": data["session"],
            "harness": data["harness"], "cwd": data["cwd"], "started_at": data["started_at"], "ended_at": data["ended_at"],
            "duration_ms": self.duration(now), "transcript": transcript, "redirected_to": data["redirected_to"],
            "redirected_stderr": data["redirected_stderr"], "bytes_total": bytes, "tty": data["tty"], "degraded": degraded,
        })
    }

    /// Everything: its record, or what was known at its start.
    pub(crate) fn facts(&self, now: SystemTime) -> Value {
        if let Some(exit) = &self.exit {
            let mut facts = exit.clone();
            facts["machine"] = self.machine.clone().into();
            return facts;
        }
        let mut facts = self.row(now);
        facts["launch"] = self.data().clone();
        facts
    }

    /// `exited with 0 after 4m12s`, without the name of the job.
    pub(crate) fn ending(&self, now: SystemTime) -> String {
        let took = self
            .duration(now)
            .map(|ms| format!(" after {}", short_duration(Duration::from_millis(ms))));
        let took = took.unwrap_or_default();
        let data = self.data();
        match self.state(now) {
            "exited" => format!("exited with {}{took}", data["exit_code"]),
            "signaled" => format!("was signaled ({}){took}", self.exit_word()),
            "lost" => format!(
                "is lost ({}){took}",
                self.text("reason").unwrap_or("nobody knows why")
            ),
            MAYBE_LOST => format!("may be lost: its machine is silent{took}"),
            "stopped" => format!("is stopped{took}"),
            _ => format!("is still running{took}"),
        }
    }

    /// `job 7f3k on abc-s7 exited with 0 after 4m12s: cargo build`
    pub(crate) fn sentence(&self, now: SystemTime) -> String {
        let command = self.data()["command"]["text"].as_str().unwrap_or_default();
        let command = crate::text::shorten(command, 120);
        format!(
            "job {} on {} {}: {command}",
            self.id,
            self.machine,
            self.ending(now)
        )
    }

    pub(crate) fn exit_word(&self) -> String {
        let data = self.data();
        match (data["exit_code"].as_u64(), data["signal"].as_i64()) {
            (Some(code), _) => code.to_string(),
            (None, Some(signal)) => {
                i32::try_from(signal).map_or_else(|_| signal.to_string(), signal_name)
            }
            _ => "-".to_owned(),
        }
    }

    pub(crate) fn took(&self, now: SystemTime) -> String {
        let took = self.duration(now).map(Duration::from_millis);
        took.map_or_else(|| "-".to_owned(), short_duration)
    }

    /// When its end became known.
    pub(crate) fn settled_at(&self) -> Option<&str> {
        self.exit.as_ref()?["time"].as_str()
    }
}

/// The path of a `file://` reference.
fn path_of(reference: &Value) -> Value {
    let Some(rest) = reference
        .as_str()
        .and_then(|text| text.strip_prefix("file://"))
    else {
        return Value::Null;
    };
    let mut bytes = Vec::with_capacity(rest.len());
    let mut letters = rest.bytes();
    while let Some(byte) = letters.next() {
        let hex = |byte: Option<u8>| char::from(byte?).to_digit(16);
        match byte {
            b'%' => match (hex(letters.next()), hex(letters.next())) {
                (Some(high), Some(low)) => {
                    bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                }
                _ => return Value::Null,
            },
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// The facts that people are shown of a job, with a label each.
pub(crate) fn lines(job: &Job, now: SystemTime) -> Vec<(&'static str, String)> {
    let row = job.row(now);
    let Value::Object(row) = row else {
        return Vec::new();
    };
    let text = |row: &Map<String, Value>, key: &str| match row.get(key) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    [
        ("machine", "machine"),
        ("command", "command"),
        ("name", "name"),
        ("how", "how"),
        ("started", "started_at"),
        ("ended", "ended_at"),
        ("lost", "reason"),
        ("directory", "cwd"),
        ("session", "session"),
        ("harness", "harness"),
        ("process", "pid"),
        ("output", "transcript"),
    ]
    .into_iter()
    .filter_map(|(label, key)| Some((label, text(&row, key)?)))
    .collect()
}

//! Who wants to be told, and of what.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::job::record::{self, Moment, Record};
use crate::job::{How, Outcome};

/// The longest name of a subscriber.
const LONGEST_NAME: usize = 64;

/// Which ends are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    Success,
    Failure,
    #[default]
    Always,
}

impl On {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Always => "always",
        }
    }

    fn takes(self, outcome: &Outcome) -> bool {
        match self {
            Self::Always => true,
            Self::Success => *outcome == Outcome::Exited(0),
            Self::Failure => *outcome != Outcome::Exited(0),
        }
    }
}

/// When a subscription began. Within a boot the boot clock decides: the wall clock may jump.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Since {
    pub at: String,
    pub boot_ns: u64,
    pub boot_id: String,
    /// The time namespace of the boot clock; 0 where nobody noted it.
    pub timens: u64,
}

impl Since {
    #[must_use]
    pub fn new((wall, boot): Moment, boot_id: &str, timens: u64) -> Self {
        Self {
            at: record::rfc3339(wall),
            boot_ns: u64::try_from(boot.as_nanos()).unwrap_or(u64::MAX),
            boot_id: boot_id.to_owned(),
            timens,
        }
    }

    /// Whether a record was written after the beginning. Only the boot clock can tell what is in the same
    /// millisecond, and it does not jump. In another boot it begins anew, and in another time namespace
    /// it may be shifted: then either clock will do, because one notice too many beats one too few.
    fn precedes(&self, record: &Record) -> bool {
        let proc = &record.data.facts.proc;
        let after = match record.sequence.parse::<u64>() {
            Ok(written) if proc.boot_id == self.boot_id => {
                let after = written >= self.boot_ns;
                if proc.timens == self.timens {
                    return after;
                }
                after
            }
            _ => false,
        };
        after || record.recordedtime >= self.at
    }
}

/// `sub.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subscription {
    pub format: u64,
    pub name: String,
    /// The text of the sink; only `notify` understands it.
    pub sink: String,
    /// `true`: it wants every end that matches. `false`: only those of jobs that were asked for.
    pub standing: bool,
    /// Only jobs of this session.
    #[serde(default)]
    pub session: Option<String>,
    #[serde(default)]
    pub on: On,
    /// A regular expression: lines of output that are news while the job runs.
    #[serde(default)]
    pub on_output: Option<String>,
    /// How often to say that a job that wrote something is still alive, in milliseconds.
    #[serde(default)]
    pub heartbeat_ms: Option<u64>,
    /// Where the key for signatures is; the key itself is nowhere else.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// Where what proves us to a broker is: a file of NATS, a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creds_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// Words instead of the event, for a webhook whose receiver shows them; which, `notify` knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// It hears of starts too, and every now and then that a job still runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_running: bool,
    /// Addresses of private networks are allowed.
    #[serde(default)]
    pub allow_private: bool,
    pub since: Since,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Subscription {
    /// One that wants everything, from now on.
    #[must_use]
    pub fn new(name: String, sink: String, standing: bool, since: Since) -> Self {
        Self {
            format: record::FORMAT,
            name,
            sink,
            standing,
            session: None,
            on: On::Always,
            on_output: None,
            heartbeat_ms: None,
            secret_file: None,
            creds_file: None,
            password_file: None,
            template: None,
            of_running: false,
            allow_private: false,
            since,
            extra: Map::new(),
        }
    }

    #[must_use]
    pub fn heartbeat(&self) -> Option<Duration> {
        // One that beat all the time would do nothing else.
        let most_often = Duration::from_millis(100);
        let every = self.heartbeat_ms.map(Duration::from_millis);
        every.map(|every| every.max(most_often))
    }

    /// Whether it follows jobs while they run.
    #[must_use]
    pub fn watches(&self) -> bool {
        self.on_output.is_some() || self.heartbeat_ms.is_some()
    }

    /// Whether jobs of this session are its business.
    #[must_use]
    pub fn covers(&self, session: Option<&str>) -> bool {
        self.session.is_none() || self.session.as_deref() == session
    }

    /// Whether a standing subscription wants this end. What ended before its own call returned is no
    /// news: whoever made the call has seen it. A foreground command that was killed from outside is
    /// news, although its call had not returned: nobody else says who killed it.
    #[must_use]
    pub fn wants(&self, record: &Record) -> bool {
        let news = !record.data.during_call || record.data.facts.how == How::Foreground;
        news && self.covers(record.data.facts.session.as_deref())
            && self.on.takes(&record.outcome())
            && self.since.precedes(record)
    }
}

/// Whether a text can name a subscriber: it becomes the name of a directory.
#[must_use]
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !text.is_empty()
        && text.len() <= LONGEST_NAME
        && !text.starts_with(['.', '-'])
        && text.bytes().all(plain)
}

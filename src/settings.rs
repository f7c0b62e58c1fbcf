//! The settings: environment over config file over defaults.
//!
//! Pure: the caller hands in the environment and the text of the file. Reading never fails. Under
//! `-c` a bad value must not keep a command from running, so it is put aside and named in the
//! record; a verb calls `check` and stops at it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Result};

const MIB: u64 = 1 << 20;
const DAY: Duration = Duration::from_secs(86_400);

/// What TERM to the front means for the foreground command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTerm {
    Forward,
    Promote,
}

/// Whether the front stays until its jobs end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linger {
    Auto,
    Always,
    Never,
}

/// What a job writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    Pty,
    Pipe,
}

/// What becomes of a session's jobs when its client says that the session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    Keep,
    Kill,
}

/// How a command's text gets into the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordCommand {
    Redacted,
    Full,
}

/// A value that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSetting {
    /// As the user wrote it: `AGENT_SH_KEEP`, or `keep` from the file.
    pub name: String,
    pub value: String,
    pub why: String,
}

impl From<&BadSetting> for Error {
    fn from(bad: &BadSetting) -> Self {
        Self::Setting {
            name: bad.name.clone(),
            value: bad.value.clone(),
            why: bad.why.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub state: Option<PathBuf>,
    pub shell: Option<PathBuf>,
    pub announce: bool,
    pub promote_after: Option<Duration>,
    pub on_term: OnTerm,
    pub linger: Linger,
    pub session: Option<String>,
    /// In bytes; 0 keeps nothing.
    pub transcript_cap: u64,
    pub keep: Duration,
    pub notify: Vec<String>,
    pub capture: Capture,
    pub record_command: RecordCommand,
    /// How long a hook holds the end of a turn that nothing could wake again.
    pub stop_wait: Duration,
    pub session_end: SessionEnd,
    /// Whether a session that has ended may be resumed to tell it of a job.
    pub resume: bool,
    /// A sentence for each of `bad`, for the record.
    pub ignored: Vec<String>,
    pub bad: Vec<BadSetting>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            state: None,
            shell: None,
            announce: true,
            promote_after: None,
            on_term: OnTerm::Forward,
            linger: Linger::Auto,
            session: None,
            transcript_cap: 64 * MIB,
            keep: 7 * DAY,
            notify: Vec::new(),
            capture: Capture::Pty,
            record_command: RecordCommand::Redacted,
            stop_wait: Duration::from_secs(600),
            session_end: SessionEnd::Keep,
            resume: false,
            ignored: Vec::new(),
            bad: Vec::new(),
        }
    }
}

/// Each name with its variable, so that no string is built for an environment that sets none.
const NAMES: [(&str, &str); 15] = [
    ("state", "AGENT_SH_STATE"),
    ("shell", "AGENT_SH_SHELL"),
    ("announce", "AGENT_SH_ANNOUNCE"),
    ("promote_after", "AGENT_SH_PROMOTE_AFTER"),
    ("on_term", "AGENT_SH_ON_TERM"),
    ("linger", "AGENT_SH_LINGER"),
    ("session", "AGENT_SH_SESSION"),
    ("transcript_cap", "AGENT_SH_TRANSCRIPT_CAP"),
    ("keep", "AGENT_SH_KEEP"),
    ("notify", "AGENT_SH_NOTIFY"),
    ("capture", "AGENT_SH_CAPTURE"),
    ("record_command", "AGENT_SH_RECORD_COMMAND"),
    ("stop_wait", "AGENT_SH_STOP_WAIT"),
    ("session_end", "AGENT_SH_SESSION_END"),
    ("resume", "AGENT_SH_RESUME"),
];

/// The names of all settings, as in the file.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name)
}

/// Where the config file would be.
pub fn config_path(env: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let dir = |name| env(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let base = dir("XDG_CONFIG_HOME").or_else(|| dir("HOME").map(|home| home.join(".config")))?;
    Some(base.join("agent-sh").join("config.toml"))
}

impl Settings {
    /// Reads leniently: a bad value leaves the one below it (file, then default) and is put aside.
    pub fn read(env: impl Fn(&str) -> Option<OsString>, config_text: Option<&str>) -> Self {
        let mut settings = Self::default();
        if let Some(text) = config_text {
            settings.read_file(text);
        }
        for (name, variable) in NAMES {
            // An empty variable is an unset one, as a shell's `${X:-}` has it.
            let Some(value) = env(variable).filter(|value| !value.is_empty()) else {
                continue;
            };
            let result = match value.to_str() {
                Some(text) => settings.set(name, &[text.to_owned()]),
                None => settings.set_raw(name, &value),
            };
            if let Err(why) = result {
                settings.put_aside(variable, &value.to_string_lossy(), why);
            }
        }
        settings
    }

    /// For verbs: the first bad value is an error.
    pub fn check(&self) -> Result<()> {
        self.bad.first().map_or(Ok(()), |bad| Err(bad.into()))
    }

    fn put_aside(&mut self, name: &str, value: &str, why: String) {
        let value = crate::text::shorten(value, 80);
        self.ignored.push(format!("{name}='{value}': {why}"));
        self.bad.push(BadSetting {
            name: name.to_owned(),
            value,
            why,
        });
    }

    fn read_file(&mut self, text: &str) {
        let table = match text.parse::<toml::Table>() {
            Ok(table) => table,
            Err(error) => {
                let why = error.message().to_owned();
                self.put_aside("config.toml", "", why);
                return;
            }
        };
        for (name, value) in &table {
            if !NAMES.iter().any(|(known, _)| known == name) {
                let why = match nearest(name) {
                    Some(known) => format!("unknown setting; did you mean '{known}'?"),
                    None => "unknown setting".to_owned(),
                };
                self.put_aside(name, &texts(value).unwrap_or_default().join(", "), why);
                continue;
            }
            let result = match texts(value) {
                Some(texts) if name == "notify" || texts.len() == 1 => self.set(name, &texts),
                _ => Err("expected one plain value".to_owned()),
            };
            if let Err(why) = result {
                self.put_aside(name, &texts(value).unwrap_or_default().join(", "), why);
            }
        }
    }

    /// A value that is not UTF-8 can only be a path.
    fn set_raw(&mut self, name: &str, value: &OsString) -> std::result::Result<(), String> {
        let path = PathBuf::from(value);
        match name {
            "state" if !path.is_absolute() => Err("expected an absolute path".to_owned()),
            "shell" if !path.is_absolute() && path.components().count() != 1 => {
                Err("expected an absolute path or a name".to_owned())
            }
            "state" => {
                self.state = Some(path);
                Ok(())
            }
            "shell" => {
                self.shell = Some(path);
                Ok(())
            }
            _ => Err("not valid UTF-8".to_owned()),
        }
    }

    fn set(&mut self, name: &str, values: &[String]) -> std::result::Result<(), String> {
        let value = values.first().map_or("", |value| value.trim());
        match name {
            "state" | "shell" => return self.set_raw(name, &OsString::from(value)),
            "announce" => self.announce = boolean(value)?,
            "promote_after" => {
                self.promote_after = match value {
                    "0" | "off" | "never" | "false" => None,
                    _ => Some(duration(value)?).filter(|time| !time.is_zero()),
                }
            }
            "on_term" => {
                self.on_term = one_of(
                    value,
                    &[("forward", OnTerm::Forward), ("promote", OnTerm::Promote)],
                )?;
            }
            "linger" => {
                self.linger = one_of(
                    value,
                    &[
                        ("auto", Linger::Auto),
                        ("always", Linger::Always),
                        ("never", Linger::Never),
                        ("1", Linger::Always),
                        ("0", Linger::Never),
                    ],
                )?;
            }
            "session" => self.session = Some(value.to_owned()).filter(|key| !key.is_empty()),
            "transcript_cap" => self.transcript_cap = size(value)?,
            "keep" => self.keep = duration(value)?,
            "notify" => {
                self.notify = values
                    .iter()
                    .flat_map(|list| list.split([',', ' ', '\t', '\n']))
                    .filter(|sink| !sink.is_empty())
                    .map(str::to_owned)
                    .collect();
            }
            "stop_wait" => {
                self.stop_wait = match value {
                    "off" | "never" | "false" => Duration::ZERO,
                    _ => duration(value)?,
                }
            }
            "session_end" => {
                let choices = [("keep", SessionEnd::Keep), ("kill", SessionEnd::Kill)];
                self.session_end = one_of(value, &choices)?;
            }
            "resume" => self.resume = boolean(value)?,
            "capture" => {
                self.capture = one_of(value, &[("pty", Capture::Pty), ("pipe", Capture::Pipe)])?;
            }
            "record_command" => {
                self.record_command = one_of(
                    value,
                    &[
                        ("redacted", RecordCommand::Redacted),
                        ("full", RecordCommand::Full),
                    ],
                )?;
            }
            _ => return Err("unknown setting".to_owned()),
        }
        Ok(())
    }
}

/// A value of the file as the text that the environment would hold.
fn texts(value: &toml::Value) -> Option<Vec<String>> {
    Some(match value {
        toml::Value::String(text) => vec![text.clone()],
        toml::Value::Integer(number) => vec![number.to_string()],
        toml::Value::Boolean(flag) => vec![flag.to_string()],
        toml::Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<_>>()?,
        _ => return None,
    })
}

/// `100s`, `2m`, `1h 30m`, or plain seconds.
pub fn duration(text: &str) -> std::result::Result<Duration, String> {
    let why = || "expected a duration like '100s', '2m' or '1h 30m'".to_owned();
    // A bound, so that no sum with a clock can overflow.
    let longest = 36_500 * DAY;
    let time = match text.trim().parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| why())?,
        Err(_) => humantime::parse_duration(text.trim()).map_err(|_| why())?,
    };
    if time > longest {
        return Err("more than a hundred years".to_owned());
    }
    Ok(time)
}

/// `64M`, `8 KiB`, `1G`, or plain bytes; the units are powers of 1024.
pub fn size(text: &str) -> std::result::Result<u64, String> {
    let why = || "expected a size like '64M' or '512K'".to_owned();
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().map_err(|_| why())?;
    let unit = text[digits..].trim().to_ascii_lowercase();
    let shift = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" if unit.is_empty() || unit == "b" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(why()),
    };
    number
        .checked_mul(1 << shift)
        .filter(|&bytes| bytes <= i64::MAX as u64)
        .ok_or_else(|| "too large".to_owned())
}

fn boolean(text: &str) -> std::result::Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" => Ok(true),
        "0" | "false" | "off" | "no" => Ok(false),
        _ => Err("expected 1 or 0, true or false, on or off".to_owned()),
    }
}

fn one_of<T: Copy>(text: &str, choices: &[(&str, T)]) -> std::result::Result<T, String> {
    choices
        .iter()
        .find(|(word, _)| text.eq_ignore_ascii_case(word))
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let words: Vec<String> = choices
                .iter()
                .map(|(word, _)| format!("'{word}'"))
                .collect();
            format!("expected {}", words.join(" or "))
        })
}

/// The setting that an unknown name was probably meant to be.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let name = name.strip_prefix("agent_sh_").unwrap_or(&name);
    names()
        .map(|known| (distance(name, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len() / 3 + 1)
        .map(|(_, known)| known)
}

/// Letters to add, drop or change to get from one word to the other.
fn distance(left: &str, right: &str) -> usize {
    // Long input is nobody's misspelling.
    if left.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.bytes().enumerate() {
            let change = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)], file: Option<&str>) -> Settings {
        Settings::read(
            |name| {
                pairs
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| OsString::from(value))
            },
            file,
        )
    }

    #[test]
    fn environment_over_file_over_default() {
        assert_eq!(read(&[], None), Settings::default());
        let file = "announce = false\nkeep = \"2d\"\ntranscript_cap = \"1M\"\nnotify = [\"auto\", \"dir:/x\"]\npromote_after = 100";
        let settings = read(
            &[("AGENT_SH_KEEP", "3h"), ("AGENT_SH_ON_TERM", "promote")],
            Some(file),
        );
        assert!(!settings.announce);
        assert_eq!(settings.keep, Duration::from_secs(3 * 3600));
        assert_eq!(settings.transcript_cap, MIB);
        assert_eq!(settings.notify, ["auto", "dir:/x"]);
        assert_eq!(settings.promote_after, Some(Duration::from_secs(100)));
        assert_eq!(settings.on_term, OnTerm::Promote);
        assert!(settings.check().is_ok() && settings.ignored.is_empty());
    }

    #[test]
    fn a_bad_value_is_put_aside_and_named() {
        for (variable, value) in [
            ("AGENT_SH_STATE", "relative"),
            ("AGENT_SH_SHELL", "bin/bash"),
            ("AGENT_SH_ANNOUNCE", "maybe"),
            ("AGENT_SH_PROMOTE_AFTER", "soon"),
            ("AGENT_SH_PROMOTE_AFTER", "-3"),
            ("AGENT_SH_PROMOTE_AFTER", "1e99"),
            ("AGENT_SH_PROMOTE_AFTER", "NaN"),
            ("AGENT_SH_ON_TERM", "die"),
            ("AGENT_SH_LINGER", "perhaps"),
            ("AGENT_SH_TRANSCRIPT_CAP", "64X"),
            ("AGENT_SH_TRANSCRIPT_CAP", "99999999999T"),
            ("AGENT_SH_KEEP", "99999999999d"),
            ("AGENT_SH_CAPTURE", "tape"),
            ("AGENT_SH_RECORD_COMMAND", "none"),
        ] {
            let settings = read(&[(variable, value)], None);
            assert_eq!(settings.ignored.len(), 1, "{variable}={value}");
            let error = settings.check().unwrap_err().to_string();
            assert!(error.contains(variable) && error.contains(value), "{error}");
            let clean = Settings {
                ignored: Vec::new(),
                bad: Vec::new(),
                ..settings
            };
            assert_eq!(clean, Settings::default(), "{variable}={value}");
        }
    }

    #[test]
    fn unknown_keys_name_the_nearest() {
        for (key, meant) in [
            ("anounce", Some("announce")),
            ("promote-after", Some("promote_after")),
            ("AGENT_SH_KEEP", Some("keep")),
            ("transcriptcap", Some("transcript_cap")),
            ("colour_of_bikeshed", None),
        ] {
            assert_eq!(nearest(key), meant, "{key}");
            let error = read(&[], Some(&format!("{key} = 1"))).check().unwrap_err();
            assert_eq!(
                meant.is_some_and(|meant| error.to_string().contains(meant)),
                meant.is_some()
            );
        }
        assert!(read(&[], Some("this is = = no toml")).check().is_err());
        assert!(read(&[], Some("keep = [\"1d\", \"2d\"]")).check().is_err());
    }

    #[test]
    fn durations_and_sizes() {
        for (text, seconds) in [
            ("100s", 100),
            ("100", 100),
            ("2m", 120),
            ("1h 30m", 5400),
            (" 7d ", 604_800),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        for (text, bytes) in [
            ("0", 0),
            ("64M", 64 * MIB),
            ("64MiB", 64 * MIB),
            ("8 KB", 8192),
            ("1g", 1 << 30),
            ("7b", 7),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "M", "1.5M", "-1", "1x", "1i", "1ib"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_config_file_is_found_by_absolute_paths_only() {
        let path = |pairs: &[(&str, &str)]| {
            config_path(|name| {
                pairs
                    .iter()
                    .find(|(k, _)| *k == name)
                    .map(|(_, v)| OsString::from(v))
            })
        };
        assert_eq!(
            path(&[("HOME", "/h")]),
            Some("/h/.config/agent-sh/config.toml".into())
        );
        assert_eq!(
            path(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]),
            Some("/x/agent-sh/config.toml".into())
        );
        assert_eq!(
            path(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "x")]),
            Some("/h/.config/agent-sh/config.toml".into())
        );
        assert_eq!(path(&[]), None);
    }
}

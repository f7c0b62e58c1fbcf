//! The settings: environment over config file over defaults.
//!
//! Pure: the caller hands in the environment and the text of the file. Reading never fails. Under
//! `-c` a bad value must not keep a command from running, so it is put aside and named in the
//! record; a verb calls `check` and stops at it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};

mod bad;
mod checks;
mod nearest;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use bad::BadSetting;
pub use checks::Checks;
pub use nearest::nearest;
pub use table::SETTINGS;
pub(crate) use table::{OWN_VARIABLES, Setting, markdown};

const CONFIG_FILE: &str = "config.toml";
/// So many values that were not taken are named in a record.
const MOST_IGNORED: usize = 16;
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

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Environment,
    File,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub state: Option<PathBuf>,
    pub shell: Option<PathBuf>,
    pub announce: bool,
    /// Whether an end that nothing else told is told after the next command; `None`: if jobs are announced.
    pub tell: Option<bool>,
    pub promote_after: Option<Duration>,
    pub on_term: OnTerm,
    pub linger: Linger,
    pub session: Option<String>,
    /// In bytes; 0 keeps nothing.
    pub transcript_cap: u64,
    /// How long an ended job is kept.
    pub keep: Duration,
    /// How much all kept jobs together may take.
    pub max_bytes: u64,
    pub notify: Vec<String>,
    pub capture: Capture,
    pub record_command: RecordCommand,
    /// How long a hook holds the end of a turn that nothing could wake again.
    pub stop_wait: Duration,
    pub session_end: SessionEnd,
    /// Whether a session that has ended may be resumed to tell it of a job.
    pub resume: bool,
    /// Which settings are not at their defaults' mercy, and where each was set.
    pub set_by: Vec<(&'static str, Origin)>,
    /// A sentence for each of `bad`, and for a file that was not believed, for the record.
    pub ignored: Vec<String>,
    /// The file that was not believed, and why.
    pub distrusted: Option<(PathBuf, String)>,
    pub bad: Vec<BadSetting>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            state: None,
            shell: None,
            announce: true,
            tell: None,
            promote_after: None,
            on_term: OnTerm::Forward,
            linger: Linger::Auto,
            session: None,
            transcript_cap: 64 * MIB,
            keep: 7 * DAY,
            max_bytes: 2048 * MIB,
            notify: Vec::new(),
            capture: Capture::Pty,
            record_command: RecordCommand::Redacted,
            stop_wait: Duration::from_secs(600),
            session_end: SessionEnd::Keep,
            resume: false,
            set_by: Vec::new(),
            ignored: Vec::new(),
            distrusted: None,
            bad: Vec::new(),
        }
    }
}

impl Settings {
    /// Whether the next command tells ends. Who wants no announcements wants no other lines either, unless
    /// they are asked for.
    #[must_use]
    pub fn tells(&self) -> bool {
        self.tell.unwrap_or(self.announce)
    }
}

/// The names of all settings, as in the file.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name)
}

/// The settings that an environment names wrongly, each with the nearest right name.
pub fn unknown_variables<'a>(
    variables: impl Iterator<Item = &'a str>,
) -> Vec<(&'a str, Option<&'static str>)> {
    let ours = variables.filter(|name| name.starts_with("AGENT_SH_"));
    let known = |name: &str| {
        let setting = SETTINGS.iter().any(|setting| setting.variable == name);
        setting || OWN_VARIABLES.contains(&name)
    };
    ours.filter(|name| !known(name))
        .map(|name| {
            let meant = nearest(name);
            let variable = |key| SETTINGS.iter().find(|setting| Some(setting.name) == key);
            (name, variable(meant).map(|setting| setting.variable))
        })
        .collect()
}

/// Where the config file would be.
pub(crate) fn config_path(env: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let dir = |name| env(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let base = dir("XDG_CONFIG_HOME").or_else(|| dir("HOME").map(|home| home.join(".config")))?;
    Some(base.join("agent-sh").join(CONFIG_FILE))
}

impl Settings {
    /// Reads leniently: a bad value leaves the one below it (file, then default) and is put aside.
    pub fn read(
        env: impl Fn(&str) -> Option<OsString>,
        config_text: Option<&str>,
        checks: Checks<'_>,
    ) -> Self {
        let mut settings = Self::default();
        if let Some(text) = config_text {
            settings.read_file(text, checks);
        }
        for Setting { name, variable, .. } in SETTINGS {
            // An empty variable is an unset one, as a shell's `${X:-}` has it.
            let Some(value) = env(variable).filter(|value| !value.is_empty()) else {
                continue;
            };
            let result = match value.to_str() {
                Some(text) => settings.set(name, &[text.to_owned()], checks),
                None => settings.set_raw(name, &value, checks),
            };
            match result {
                Ok(()) => settings.note(name, Origin::Environment),
                Err(why) => {
                    let value = value.to_string_lossy();
                    settings.put_aside(variable, &value, why, Origin::Environment);
                }
            }
        }
        settings
    }

    /// Notes that there is a file, and that nothing in it was taken.
    pub fn distrust(&mut self, path: &Path, why: &str) {
        self.note_ignored(format!("config.toml: {why}, so nothing in it is taken"));
        self.distrusted = Some((path.to_owned(), why.to_owned()));
    }

    /// A record is not to grow with what somebody wrote into a file.
    fn note_ignored(&mut self, sentence: String) {
        match self.ignored.len() {
            0..MOST_IGNORED => self.ignored.push(crate::text::shorten(&sentence, 400)),
            MOST_IGNORED => self.ignored.push("and more".to_owned()),
            _ => {}
        }
    }

    /// For verbs: the first bad value is an error. `file` is where the config file is.
    pub fn check(&self, file: Option<&Path>) -> Result<()> {
        match self.bad.iter().find(|bad| !bad.is_unknown()) {
            Some(bad) => Err(bad.error(file)),
            None => Ok(()),
        }
    }

    /// For verbs: what the file sets and this version does not know, to be said. It may be of a newer one.
    pub fn unknown(&self, file: Option<&Path>) -> impl Iterator<Item = Error> {
        let unknown = self.bad.iter().filter(|bad| bad.is_unknown());
        unknown.map(move |bad| bad.error(file))
    }

    /// Whether and where a setting was set.
    #[must_use]
    pub fn origin(&self, name: &str) -> Option<Origin> {
        let found = self.set_by.iter().find(|(known, _)| *known == name);
        found.map(|(_, origin)| *origin)
    }

    fn note(&mut self, name: &'static str, origin: Origin) {
        self.set_by.retain(|(known, _)| *known != name);
        self.set_by.push((name, origin));
    }

    fn put_aside(&mut self, name: &str, value: &str, why: String, origin: Origin) {
        // Of a sink only the reason is told: its text may be a password, and goes where the record goes.
        let is_sink = SETTINGS
            .iter()
            .any(|known| known.name == "notify" && [known.name, known.variable].contains(&name));
        let value = if is_sink { "" } else { value };
        let value = crate::text::redact(&crate::text::shorten(value, 80));
        let name = &crate::text::shorten(name, 80);
        self.note_ignored(if value.is_empty() {
            format!("{name}: {why}")
        } else {
            format!("{name}='{value}': {why}")
        });
        self.bad.push(BadSetting {
            name: name.to_owned(),
            value,
            why,
            origin,
        });
    }

    fn read_file(&mut self, text: &str, checks: Checks<'_>) {
        let table = match text.parse::<toml::Table>() {
            Ok(table) => table,
            Err(error) => {
                let line = error.span().map_or(1, |span| {
                    let before = text.get(..span.start).unwrap_or_default();
                    before.matches('\n').count() + 1
                });
                let why = format!("line {line}: {}", error.message());
                self.put_aside(CONFIG_FILE, "", why, Origin::File);
                return;
            }
        };
        for (name, value) in &table {
            let shown = || texts(value).unwrap_or_default().join(", ");
            let Some(known) = names().find(|known| known == name) else {
                let why = match nearest(name) {
                    Some(known) => format!("unknown setting; did you mean '{known}'?"),
                    None => "unknown setting".to_owned(),
                };
                self.put_aside(name, &shown(), why, Origin::File);
                continue;
            };
            let result = match texts(value) {
                Some(texts) if name == "notify" || texts.len() == 1 => {
                    self.set(name, &texts, checks)
                }
                _ => Err("expected one plain value".to_owned()),
            };
            match result {
                Ok(()) => self.note(known, Origin::File),
                Err(why) => self.put_aside(name, &shown(), why, Origin::File),
            }
        }
    }

    /// A value that is not UTF-8 can only be a path.
    fn set_raw(
        &mut self,
        name: &str,
        value: &OsString,
        checks: Checks<'_>,
    ) -> std::result::Result<(), String> {
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
                (checks.shell)(&path)?;
                self.shell = Some(path);
                Ok(())
            }
            _ => Err("not valid UTF-8".to_owned()),
        }
    }

    fn set(
        &mut self,
        name: &str,
        values: &[String],
        checks: Checks<'_>,
    ) -> std::result::Result<(), String> {
        let value = values.first().map_or("", |value| value.trim());
        match name {
            "state" | "shell" => return self.set_raw(name, &OsString::from(value), checks),
            "announce" => self.announce = boolean(value)?,
            "tell" => self.tell = Some(one_of(value, &[("auto", true), ("off", false)])?),
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
            "session" => {
                let key = crate::session::clean_key(value);
                self.session = Some(key).filter(|key| !key.is_empty());
            }
            "transcript_cap" => self.transcript_cap = size(value)?,
            "keep" => self.keep = duration(value)?,
            "max_bytes" => self.max_bytes = size(value)?,
            "notify" => {
                let (good, bad) = checks.sinks(values);
                // What is wrong with one must not keep the others from being told.
                if bad.is_none() || !good.is_empty() {
                    self.notify = good;
                }
                bad.map_or(Ok(()), Err)?;
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
    let too_large = || "too large: at most a hundred years".to_owned();
    let time = match text.trim().parse::<f64>() {
        // What does not fit a duration is no number of seconds, or a large one.
        Ok(seconds) => Duration::try_from_secs_f64(seconds)
            .map_err(|_| if seconds > 0.0 { too_large() } else { why() })?,
        Err(_) => humantime::parse_duration(text.trim()).map_err(|error| match error {
            humantime::DurationError::NumberOverflow => too_large(),
            _ => why(),
        })?,
    };
    if time > longest {
        return Err(too_large());
    }
    Ok(time)
}

/// `64M`, `8 KiB`, `1G`, or plain bytes; the units are powers of 1024.
pub fn size(text: &str) -> std::result::Result<u64, String> {
    let why = || "expected a size like '64M' or '512K'".to_owned();
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = match text[..digits].parse() {
        Ok(number) => number,
        Err(_) if digits > 0 => return Err("too large".to_owned()),
        Err(_) => return Err(why()),
    };
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

//! What a job is: its name, its states, how it was started and how it can end.
//!
//! Pure: no files, no clock, no processes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The characters of an id: lower case letters and digits without look-alikes (`0 1 i l o`).
pub const ID_ALPHABET: &[u8; 31] = b"23456789abcdefghjkmnpqrstuvwxyz";
/// The length of the ids that we mint.
pub const ID_LENGTH: usize = 6;
/// The longest id that any version may mint.
const ID_LONGEST: usize = 8;

/// The short name of a job, unique in its store. Always matches the pattern, so it is safe in a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

impl JobId {
    /// Makes an id of the second of the day and of random bits: ids sort by start within a day, and
    /// two jobs of the same three seconds differ in the random half.
    #[must_use]
    pub fn mint(unix_seconds: u64, random: u32) -> Self {
        let base = ID_ALPHABET.len() as u64;
        let half = base.pow(3);
        let slot = (unix_seconds % 86_400) * half / 86_400;
        let mut number = slot * half + u64::from(random) % half;
        let mut text = [0u8; ID_LENGTH];
        for place in text.iter_mut().rev() {
            *place = ID_ALPHABET[(number % base) as usize];
            number /= base;
        }
        Self(text.iter().map(|&byte| char::from(byte)).collect())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether `text` could begin an id. Checked before any path is built from what a caller typed.
#[must_use]
pub fn is_id_prefix(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= ID_LONGEST
        && text.bytes().all(|byte| ID_ALPHABET.contains(&byte))
}

impl FromStr for JobId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_id_prefix(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("'{text}' is no job id"))
        }
    }
}

impl TryFrom<String> for JobId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The word that `ps`, `show`, records, events and messages use for where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Running,
    Stopped,
    Exited,
    Signaled,
    Lost,
}

impl State {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Exited => "exited",
            Self::Signaled => "signaled",
            Self::Lost => "lost",
        }
    }

    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Exited | Self::Signaled | Self::Lost)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// How a job came to be one. The most explicit way wins: `nohup setsid cmd &` is `Nohup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    Ampersand,
    Nohup,
    Disown,
    Setsid,
    Stray,
    Promoted,
    Run,
    Foreground,
}

impl How {
    pub const ALL: [Self; 8] = [
        Self::Ampersand,
        Self::Nohup,
        Self::Disown,
        Self::Setsid,
        Self::Stray,
        Self::Promoted,
        Self::Run,
        Self::Foreground,
    ];

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ampersand => "ampersand",
            Self::Nohup => "nohup",
            Self::Disown => "disown",
            Self::Setsid => "setsid",
            Self::Stray => "stray",
            Self::Promoted => "promoted",
            Self::Run => "run",
            Self::Foreground => "foreground",
        }
    }

    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|how| how.word() == word)
    }

    /// The more explicit of two ways to ask for a job.
    #[must_use]
    pub fn or_more_explicit(self, other: Option<Self>) -> Self {
        let rank = |how: Self| match how {
            Self::Nohup => 3,
            Self::Setsid => 2,
            Self::Disown => 1,
            _ => 0,
        };
        other.filter(|how| rank(*how) > rank(self)).unwrap_or(self)
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// How a job ended. `Lost` says that nobody can ever observe its status; it is never a guess at one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Exited(u8),
    Signaled { signal: i32, core: bool },
    Lost(LostReason),
}

impl Outcome {
    #[must_use]
    pub fn state(&self) -> State {
        match self {
            Self::Exited(_) => State::Exited,
            Self::Signaled { .. } => State::Signaled,
            Self::Lost(_) => State::Lost,
        }
    }

    /// Reads a wait status as `waitpid` and `/proc/PID/stat` encode it.
    #[must_use]
    pub fn from_wait_status(status: i32) -> Self {
        if status & 0x7f == 0 {
            Self::Exited(((status >> 8) & 0xff) as u8)
        } else {
            Self::Signaled {
                signal: status & 0x7f,
                core: status & 0x80 != 0,
            }
        }
    }

    /// The code a shell gives for it: 128+n after a signal, 125 when lost.
    #[must_use]
    pub fn shell_code(&self) -> u8 {
        match self {
            Self::Exited(code) => *code,
            Self::Signaled { signal, .. } => {
                128u8.saturating_add(u8::try_from(*signal).unwrap_or(127))
            }
            Self::Lost(_) => 125,
        }
    }
}

/// Why a status can no longer be observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LostReason {
    SupervisorDied,
    Reboot,
    LaunchAborted,
    PidnsGone,
    RecordCorrupt,
    /// The job ended, but its parent reaped it where we could not see the status.
    StatusUnseen,
}

impl LostReason {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::SupervisorDied => "supervisor-died",
            Self::Reboot => "reboot",
            Self::LaunchAborted => "launch-aborted",
            Self::PidnsGone => "pidns-gone",
            Self::RecordCorrupt => "record-corrupt",
            Self::StatusUnseen => "status-unseen",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_start_within_a_day_and_match_the_pattern() {
        let mut last = String::new();
        for second in (0..86_400).step_by(97) {
            let id = JobId::mint(1_700_000_000 / 86_400 * 86_400 + second, 12_345);
            assert!(is_id_prefix(id.as_str()), "{id}");
            assert_eq!(id.as_str().len(), ID_LENGTH);
            assert!(*id.as_str() > *last, "{id} after {last}");
            last = String::from(id);
        }
    }

    #[test]
    fn ids_are_checked_before_they_reach_a_path() {
        for bad in [
            "",
            "..",
            "a/b",
            "last",
            "ABC",
            "abcdefghj",
            "a b",
            "é",
            "0",
            "1",
        ] {
            assert!(bad.parse::<JobId>().is_err(), "{bad}");
        }
        for good in ["7f3k", "a", "22222222"] {
            assert!(good.parse::<JobId>().is_ok(), "{good}");
        }
    }

    #[test]
    fn wait_statuses() {
        for code in 0..=255u8 {
            assert_eq!(
                Outcome::from_wait_status(i32::from(code) << 8),
                Outcome::Exited(code)
            );
        }
        for signal in 1..=64 {
            let plain = Outcome::from_wait_status(signal);
            assert_eq!(
                plain,
                Outcome::Signaled {
                    signal,
                    core: false
                }
            );
            assert_eq!(plain.shell_code(), 128 + signal as u8);
            assert_eq!(
                Outcome::from_wait_status(signal | 0x80),
                Outcome::Signaled { signal, core: true }
            );
        }
    }

    #[test]
    fn words_round_trip() {
        for how in How::ALL {
            assert_eq!(How::from_word(how.word()), Some(how));
            assert_eq!(serde_json::to_value(how).unwrap(), how.word());
        }
    }
}

//! What a job is: its id, its states, how it was started and how it can end; its record, and the notice
//! that is made of it.
//!
//! Pure: no files, no clock, no processes.

mod causes;
mod id;
pub mod notice;
pub(crate) mod record;

use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use causes::{Degraded, KillCause};
pub use causes::{Evidence, Observer};
pub use id::JobId;
pub(crate) use id::{Serial, is_id_prefix};

/// The word that `ps`, `show`, records, events and messages use for where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

//! The one error type: a variant per situation, holding what its text needs.
//!
//! `message` turns it into `agent-sh: …` on stderr; nothing else prints it.

use std::path::{Path, PathBuf};
use std::{fmt, io};

pub(crate) type Result<T> = std::result::Result<T, Error>;

#[derive(Debug)]
pub enum Error {
    /// Something the operating system refused: `cannot {what} '{path}': {source}`.
    Io {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The same without a path: `cannot {what}: {source}`.
    Sys {
        what: &'static str,
        source: io::Error,
    },
    /// The real shell, or a job's program, could not be started.
    Start { program: PathBuf, source: io::Error },
    /// No shell could be found to stand in for.
    NoShell { wanted: String },
    /// No directory could hold the state; each candidate with its reason.
    NoState { tried: Vec<(PathBuf, String)> },
    /// No job has that id, prefix or name.
    NoJob { wanted: String },
    /// There is no newest job, though other sessions may have some.
    NoLast { others: bool },
    /// There was such a job; its record was removed.
    Gone { id: String },
    /// More than one job begins like that.
    Ambiguous { wanted: String, ids: Vec<String> },
    /// A newer agent-sh wrote it.
    NewerFormat { id: String, format: u64, reads: u64 },
    /// A setting has a value that makes no sense.
    Setting {
        name: String,
        value: String,
        why: String,
        /// The config file, if it is there.
        file: Option<PathBuf>,
    },
    /// A verb was called wrongly.
    Usage { text: String, hint: Option<String> },
    /// Anything else that a verb could not do, with an optional hint.
    Failed { text: String, hint: Option<String> },
}

impl Error {
    pub fn io(what: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io {
            what,
            path: path.to_owned(),
            source: source.into(),
        }
    }

    pub fn sys(what: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Sys {
            what,
            source: source.into(),
        }
    }

    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } => 2,
            Self::NoShell { .. } => 127,
            Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Start { .. } => 126,
            _ => 125,
        }
    }

    /// What the reader can do about it, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoJob { .. } => Some("'agent-sh ps --all' lists finished jobs".to_owned()),
            Self::NoLast { others: true } => {
                Some("'agent-sh ps --all --all-sessions' lists those of others".to_owned())
            }
            Self::NoLast { others: false } => Some(
                "'agent-sh run COMMAND' starts one, and so does 'COMMAND &' in a command"
                    .to_owned(),
            ),
            Self::Gone { .. } => {
                Some("ended jobs are kept for as long as the setting 'keep' says".to_owned())
            }
            Self::Ambiguous { ids, .. } => Some(one_of(ids)),
            Self::NoState { .. } => {
                Some("set AGENT_SH_STATE to a directory that only you can write".to_owned())
            }
            Self::Setting { .. } => {
                Some("'agent-sh doctor' shows every setting and where it comes from".to_owned())
            }
            Self::NoShell { .. } => Some("set AGENT_SH_SHELL to the shell to run".to_owned()),
            Self::Usage { hint, .. } | Self::Failed { hint, .. } => hint.clone(),
            _ => None,
        }
    }
}

/// A list that stays on its line.
fn one_of(ids: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = match ids.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("one of {}{more}", ids[..ids.len().min(SHOWN)].join(", "))
}

/// The operating system's words in our style: lower case, without the number.
#[must_use]
pub(crate) fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => text.to_owned(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, path, source } => {
                write!(f, "cannot {what} '{}': {}", path.display(), cause(source))
            }
            Self::Sys { what, source } => write!(f, "cannot {what}: {}", cause(source)),
            Self::Start { program, source } => {
                write!(f, "cannot start '{}': {}", program.display(), cause(source))
            }
            Self::NoShell { wanted } => write!(f, "cannot find the real '{wanted}'"),
            Self::NoState { tried } => {
                write!(f, "cannot store anything")?;
                tried
                    .iter()
                    .try_for_each(|(path, why)| write!(f, "; '{}': {why}", path.display()))
            }
            Self::NoJob { wanted } => write!(f, "no job '{wanted}'"),
            Self::NoLast { others: true } => {
                write!(f, "no job 'last': this session has had none")
            }
            Self::NoLast { others: false } => write!(f, "no job 'last': there are no jobs"),
            Self::Gone { id } => write!(
                f,
                "job '{id}' is gone: it ended, and its record was removed"
            ),
            Self::Ambiguous { wanted, ids } => {
                write!(f, "'{wanted}' could be any of {} jobs", ids.len())
            }
            Self::NewerFormat { id, format, reads } => write!(
                f,
                "job '{id}' was written by a newer agent-sh (format {format}, this one reads up to {reads})"
            ),
            Self::Setting {
                name,
                value,
                why,
                file,
            } => {
                write!(f, "setting {name}")?;
                if !value.is_empty() {
                    write!(f, "='{value}'")?;
                }
                if let Some(file) = file {
                    write!(f, " in '{}'", file.display())?;
                }
                write!(f, ": {why}")
            }
            Self::Usage { text, .. } | Self::Failed { text, .. } => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

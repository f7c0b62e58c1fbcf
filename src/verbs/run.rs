//! `run`: what the caller asked for, checked. Starting it is another role's work.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::cli::Run;
use crate::error::{Error, Result};
use crate::handoff::control::Size;

/// A job to be started outright.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRequest {
    /// The program and its arguments. With `is_text` it is one word: text for the real shell.
    pub argv: Vec<OsString>,
    pub is_text: bool,
    pub name: Option<String>,
    /// Absolute, and a directory when it was looked at.
    pub cwd: Option<PathBuf>,
    pub session: Option<String>,
    pub interactive: bool,
    pub timeout: Option<Duration>,
    pub idle_timeout: Option<Duration>,
    /// Of its terminal, if not the usual.
    pub size: Option<Size>,
    pub wait: bool,
    pub json: bool,
}

pub(crate) fn request(run: Run) -> Result<RunRequest> {
    let cwd = match run.cwd {
        None => None,
        Some(dir) => {
            let whole =
                std::path::absolute(&dir).map_err(|source| Error::io("enter", &dir, source))?;
            let meta =
                std::fs::metadata(&whole).map_err(|source| Error::io("enter", &dir, source))?;
            if !meta.is_dir() {
                let source = std::io::Error::from(std::io::ErrorKind::NotADirectory);
                return Err(Error::io("enter", &dir, source));
            }
            Some(whole)
        }
    };
    Ok(RunRequest {
        is_text: is_text(&run.command),
        argv: run.command,
        name: run.name,
        cwd,
        session: run.session,
        interactive: run.interactive,
        timeout: run.timeout,
        idle_timeout: run.idle_timeout,
        size: None,
        wait: run.wait,
        json: run.json,
    })
}

/// One word that no program's name would be.
fn is_text(words: &[OsString]) -> bool {
    let blank = |byte: &u8| byte.is_ascii_whitespace();
    matches!(words, [only] if only.as_bytes().iter().any(blank))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_with_blanks_is_text() {
        for (words, text) in [
            (&["make"][..], false),
            (&["make", "a b"], false),
            (&["make all"], true),
            (&["a\nb"], true),
            (&["a;b"], false),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(is_text(&words), text, "{words:?}");
        }
    }
}

//! Talk and data of the verbs: the only writer of `agent-sh: …` on stderr, and the way to stdout.
//!
//! SIGPIPE has the caller's disposition here, for Rust's own start-up does not run. Where it is
//! ignored, a reader that went away shows as EPIPE; that ends the verb without a word.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::text;

use unicode_width::UnicodeWidthStr;

/// The code that a death by SIGPIPE would have given.
const PIPE_CODE: u8 = 128 + 13;
const STDOUT: &str = "write to stdout";
/// The longest word of talk: more is somebody's mistake, unless it is a path.
const LONGEST_WORD: usize = 100;

/// Whether the caller closed stdout; something else has its number by now.
static STDOUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// To be told before anything is printed.
pub(crate) fn note_closed_stdout(is_closed: bool) {
    STDOUT_IS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Tells the error, and gives its exit code.
pub(crate) fn error(error: &Error) -> u8 {
    if is_closed_pipe(error) {
        return PIPE_CODE;
    }
    talk(&lines(error));
    error.exit_code()
}

/// Tells an error that stops nothing.
pub(crate) fn warn(error: &Error) {
    talk(&lines(error));
}

/// One line of talk: lower case, no final stop.
pub(crate) fn say(text: impl Display) {
    talk(&format!("agent-sh: {}\n", one_line(&text.to_string())));
}

/// A line of talk with what the reader can do.
pub(crate) fn say_with_hint(text: impl Display, hint: impl Display) {
    let text = one_line(&text.to_string());
    let hint = one_line(&hint.to_string());
    talk(&format!("agent-sh: {text}\nhint: {hint}\n"));
}

/// Prints data.
pub(crate) fn out(text: &str) -> Result<()> {
    out_bytes(text.as_bytes())
}

/// Prints data as it is, and lets it go at once: a follower must see it now.
pub(crate) fn out_bytes(bytes: &[u8]) -> Result<()> {
    if !bytes.is_empty() && STDOUT_IS_CLOSED.load(Ordering::Relaxed) {
        return Err(Error::sys(
            STDOUT,
            io::Error::from_raw_os_error(libc::EBADF),
        ));
    }
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(bytes)
        .and_then(|()| stdout.flush())
        .map_err(|source| Error::sys(STDOUT, source))
}

/// Text for a harness that reads our stderr: as it is, and the caller must know whether it went out.
pub(crate) fn err(text: &str) -> Result<()> {
    let mut stderr = io::stderr().lock();
    let written = stderr.write_all(text.as_bytes());
    written.map_err(|source| Error::sys("write to stderr", source))
}

/// One JSON value, on one line.
pub(crate) fn out_json(value: &serde_json::Value) -> Result<()> {
    out(&format!("{}\n", text::escape_json(&value.to_string())))
}

/// A line on the terminal's stderr that the next one replaces. Empty: it goes.
pub(crate) fn progress(line: &str) {
    stderr(&format!("\r{}\u{1b}[K", one_line(line)));
}

/// The width of the terminal on stderr. `None`: it is none that can redraw a line.
#[must_use]
pub(crate) fn stderr_width() -> Option<usize> {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if dumb || !io::stderr().is_terminal() {
        return None;
    }
    // Some terminals do not know their size; this much they have.
    let size = terminal_size::terminal_size_of(io::stderr());
    Some(size.map_or(80, |(terminal_size::Width(columns), _)| columns.into()))
}

fn is_closed_pipe(error: &Error) -> bool {
    matches!(error, Error::Sys { what: STDOUT, source } if source.kind() == io::ErrorKind::BrokenPipe)
}

fn lines(error: &Error) -> String {
    let text = one_line(&error.to_string());
    match error.hint() {
        Some(hint) => format!("agent-sh: {text}\nhint: {}\n", one_line(&hint)),
        None => format!("agent-sh: {text}\n"),
    }
}

/// What others wrote (paths, ids, values) must neither move the cursor nor look like a line of ours.
fn one_line(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        _ if letter.is_control() => letter.escape_default().to_string(),
        _ => letter.to_string(),
    };
    let words = text.split(' ').map(|word| {
        let cut = if word.contains('/') {
            Cow::Borrowed(word)
        } else {
            cut_middle(word)
        };
        cut.chars().map(shown).collect::<String>()
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Both ends of a word that is too long, with the quotes that may be there.
fn cut_middle(word: &str) -> Cow<'_, str> {
    let count = word.chars().count();
    if count <= LONGEST_WORD {
        return Cow::Borrowed(word);
    }
    let start: String = word.chars().take(LONGEST_WORD / 2).collect();
    let end: String = word.chars().skip(count - LONGEST_WORD / 4).collect();
    Cow::Owned(format!("{start}…{end}"))
}

/// One write, so that lines of parallel processes do not mix. Nobody is left to tell if it fails.
fn stderr(text: &str) {
    io::stderr().lock().write_all(text.as_bytes()).ok();
}

/// Lines of talk. A terminal would break those that are too long for it in the middle of a word; a
/// program that reads them has no use for breaks.
fn talk(lines: &str) {
    let columns = terminal_size::terminal_size_of(io::stderr())
        .map(|(terminal_size::Width(columns), _)| usize::from(columns));
    match columns.filter(|columns| *columns > 0) {
        Some(columns) => stderr(&wrapped(lines, columns)),
        None => stderr(lines),
    }
}

/// The lines broken at blanks. A word that fits no line is left to the terminal.
fn wrapped(lines: &str, columns: usize) -> String {
    let mut done = String::with_capacity(lines.len() + 8);
    for line in lines.lines() {
        let mut filled = 0;
        for (place, word) in line.split(' ').enumerate() {
            let width = word.width();
            if place > 0 {
                let fits = filled + 1 + width <= columns;
                done.push(if fits { ' ' } else { '\n' });
                filled = if fits { filled + 1 } else { 0 };
            }
            done.push_str(word);
            filled += width;
        }
        done.push('\n');
    }
    done
}

/// Whether and how to colour what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette {
    on: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Dim,
    Green,
    Yellow,
    Red,
    Blue,
}

impl Palette {
    pub(crate) const OFF: Self = Self { on: false };

    /// Colours only on a terminal that has them, and not where NO_COLOR is set to anything, or
    /// CLICOLOR to 0.
    #[must_use]
    pub(crate) fn of_stdout(env: impl Fn(&str) -> Option<OsString>) -> Self {
        let dumb = env("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let refused = env("NO_COLOR").is_some_and(|value| !value.is_empty())
            || env("CLICOLOR").is_some_and(|value| value == "0");
        Self {
            on: io::stdout().is_terminal() && !dumb && !refused,
        }
    }

    #[must_use]
    pub(crate) fn paint(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Dim => "2",
            Colour::Green => "32",
            Colour::Yellow => "33",
            Colour::Red => "31",
            Colour::Blue => "34",
        };
        if self.on {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Whether a person reads what we say.
#[must_use]
pub(crate) fn is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether a person sees what we print.
#[must_use]
pub(crate) fn is_shown() -> bool {
    io::stdout().is_terminal()
}

/// The rows of the terminal on stdout.
#[must_use]
pub(crate) fn height() -> Option<usize> {
    let (_, terminal_size::Height(rows)) = terminal_size::terminal_size_of(io::stdout())?;
    (rows > 0).then_some(usize::from(rows))
}

/// The width of the terminal on stdout. `None`: it is no terminal.
#[must_use]
pub(crate) fn width() -> Option<usize> {
    let (terminal_size::Width(columns), _) = terminal_size::terminal_size_of(io::stdout())?;
    (columns > 0).then_some(usize::from(columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_hint() {
        let unknown = Error::NoJob {
            wanted: "7f3".to_owned(),
        };
        assert_eq!(
            lines(&unknown),
            "agent-sh: no job '7f3'\nhint: 'agent-sh ps --all' lists finished jobs\n"
        );
        let denied = Error::sys("open a terminal", io::Error::from_raw_os_error(13));
        assert_eq!(
            lines(&denied),
            "agent-sh: cannot open a terminal: permission denied\n"
        );
    }

    #[test]
    fn a_foreign_text_stays_on_its_line() {
        let nasty = Error::NoJob {
            wanted: "a\nagent-sh: all is well\u{1b}[2J".to_owned(),
        };
        assert_eq!(
            lines(&nasty).lines().next(),
            Some("agent-sh: no job 'a\\nagent-sh: all is well\\u{1b}[2J'")
        );
    }

    #[test]
    fn a_reader_that_left_ends_us_quietly() {
        let gone = Error::sys(STDOUT, io::Error::from_raw_os_error(32));
        assert!(is_closed_pipe(&gone));
        assert!(!is_closed_pipe(&Error::sys(
            STDOUT,
            io::Error::from_raw_os_error(28)
        )));
        assert!(!is_closed_pipe(&Error::sys(
            "signal",
            io::Error::from_raw_os_error(32)
        )));
    }

    #[test]
    fn long_lines_break_at_blanks() {
        for (columns, wanted) in [
            (80, "agent-sh: no job 'x'\nhint: one two\n"),
            (20, "agent-sh: no job 'x'\nhint: one two\n"),
            (19, "agent-sh: no job\n'x'\nhint: one two\n"),
            (9, "agent-sh:\nno job\n'x'\nhint: one\ntwo\n"),
            (1, "agent-sh:\nno\njob\n'x'\nhint:\none\ntwo\n"),
        ] {
            let lines = "agent-sh: no job 'x'\nhint: one two\n";
            assert_eq!(wrapped(lines, columns), wanted, "{columns}");
        }
        assert_eq!(
            wrapped("a\u{4f60}\u{597d} b\n", 5),
            "a\u{4f60}\u{597d}\nb\n"
        );
    }

    #[test]
    fn colours() {
        assert_eq!(Palette::OFF.paint(Colour::Red, "x"), "x");
        let on = Palette { on: true };
        assert_eq!(on.paint(Colour::Red, "x"), "\u{1b}[31mx\u{1b}[0m");
    }
}

//! What a shell says of a command that cannot run. Only that shell knows its words, which differ with
//! its version and language: it is run once more for them, with the name and the line of the text.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::message;
use crate::plan::asked::Line;
use crate::shell::Ourselves;
use crate::sys::process::Image;

/// How far a text is read to find out that it is none, as bash does.
const SAMPLE: u64 = 80;
/// The last line that a message may name; the text for it has as many line ends.
const LAST_LINE: usize = 65_536;

/// Where a command stands: in a text of which shell, what that shell begins its messages with, and the
/// line. Told in one word, `@SHELL:NAME:LINE`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    shell: &'static str,
    name: OsString,
    line: usize,
    in_eval: bool,
}

impl Place {
    /// What the word says, and where it names no line, `line`. `None` if it is no such word.
    pub(super) fn read(word: &OsStr, line: Option<Line>) -> Option<Self> {
        let told = word.as_bytes().strip_prefix(b"@")?;
        let shell = told.split(|&byte| byte == b':').next()?;
        let known = ["bash", "zsh", "dash", "sh"];
        let shell = known.into_iter().find(|name| name.as_bytes() == shell)?;
        let told = told.get(shell.len()..)?.strip_prefix(b":")?;
        let colon = memchr::memrchr(b':', told)?;
        let own = std::str::from_utf8(told.get(colon..)?).ok()?;
        let own = own.strip_prefix(':')?.parse().ok();
        Some(Self {
            shell,
            name: OsString::from_vec(told.get(..colon)?.to_vec()),
            line: own.or(line.map(|line| line.number)).unwrap_or(1),
            in_eval: own.is_none() && line.is_some_and(|line| line.in_eval),
        })
    }

    /// The shell that reads a script without a `#!` line.
    pub(super) fn reader(&self) -> Option<PathBuf> {
        match self.shell {
            // It leaves that to another one.
            "zsh" => None,
            name => find(name),
        }
    }

    /// The text whose only command is "$@", on that line.
    fn text(&self) -> String {
        let ends = |count: usize| "\n".repeat(count.min(LAST_LINE));
        let before = ends(self.line.saturating_sub(1));
        match self.shell {
            // A function, because its first line has no number in messages, and a text's has.
            "zsh" => format!(
                "function \"$0\" {{{}\"$@\"; }}; \"$0\" \"$@\"",
                ends(self.line)
            ),
            _ if self.in_eval => format!("eval '{before}\"$@\"'"),
            _ => format!("{before}\"$@\""),
        }
    }

    /// Becomes the shell that says why `words` cannot run, or gives the exit code if there is none.
    pub(super) fn complain(&self, words: &[OsString], extra: &[Vec<u8>]) -> u8 {
        let shell = find(self.shell).unwrap_or_else(|| PathBuf::from("/bin/sh"));
        let option = if self.shell == "zsh" { "-fc" } else { "-c" };
        let mut argv = vec![OsString::from(self.shell), OsString::from(option)];
        argv.push(OsString::from(self.text()));
        argv.push(self.name.clone());
        argv.extend(words.iter().cloned());
        let mut extra = extra.to_vec();
        if std::env::var_os("BASH_ENV").is_some() {
            // It was read once already.
            extra.push(b"BASH_ENV=".to_vec());
        }
        let source = Image::new(&shell, &argv, &extra).child_exec();
        message::error(&Error::Start {
            program: shell,
            source,
        })
    }
}

fn find(name: &str) -> Option<PathBuf> {
    Ourselves::find().look_up(OsStr::new(name), std::env::var_os("PATH").as_deref())
}

/// Whether a file that is no program may be a script.
pub(super) fn is_text(path: &Path) -> bool {
    let mut start = Vec::new();
    std::fs::File::open(path).is_ok_and(|file| {
        let read = file.take(SAMPLE).read_to_end(&mut start);
        read.is_ok() && !start.contains(&0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_or_are_none() {
        let read = |word: &str| {
            Place::read(
                OsStr::new(word),
                Some(Line {
                    number: 7,
                    in_eval: true,
                }),
            )
        };
        let place = |shell, name: &str, line, in_eval| {
            let name = OsString::from(name);
            Some(Place {
                shell,
                name,
                line,
                in_eval,
            })
        };
        assert_eq!(read("@bash:a:b:3"), place("bash", "a:b", 3, false));
        assert_eq!(read("@zsh::0"), place("zsh", "", 0, false));
        assert_eq!(read("@dash:sh:"), place("dash", "sh", 7, true));
        let huge = "@sh:x:18446744073709551616";
        assert_eq!(read(huge), place("sh", "x", 7, true));
        for word in ["", "@", "@bash", "@bash:", "@fish:x:1", "bash:x:1", "echo"] {
            assert_eq!(read(word), None, "{word}");
        }
    }

    #[test]
    fn a_text_has_its_command_on_the_line() {
        let text = |word: &str| Place::read(OsStr::new(word), None).map(|place| place.text());
        assert_eq!(text("@bash:x:3").as_deref(), Some("\n\n\"$@\""));
        assert_eq!(text("@dash:x:0").as_deref(), Some("\"$@\""));
        let last = text("@bash:x:18446744073709551615").expect("a place");
        assert!(last.len() < 100_000);
    }
}

//! The arguments of `entrypoint`. Read by hand, not by clap: this process stays for the life of a
//! container, and must be small.

use std::ffi::OsString;
use std::time::Duration;

use crate::settings;

/// How long jobs may go on after the command has ended.
const DRAIN: Duration = Duration::from_secs(5);
/// From TERM to KILL.
const GRACE: Duration = Duration::from_secs(2);
/// From a stop request to KILL: Docker kills after 10 seconds, and records and notifications are to be
/// out before that.
const BUDGET: Duration = Duration::from_secs(8);

/// The highest signal number (SIGRTMAX).
pub(super) const LAST_SIGNAL: i32 = 64;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Signals go to the command's process group, and whatever it leaves behind gets TERM too.
    pub(super) group: bool,
    /// Orphans are handed to this process although it is not PID 1.
    pub(super) subreaper: bool,
    /// Exit codes that count as success.
    pub(super) ok: Vec<u8>,
    /// The signal that the kernel sends to this process when its parent dies.
    pub(super) parent_death: Option<i32>,
    /// Signals to replace: `(from, to)`; 0 means drop.
    pub(super) rewrites: Vec<(i32, i32)>,
    pub(super) drain: Duration,
    pub(super) grace: Duration,
    /// From a stop request to KILL.
    pub(super) budget: Duration,
    /// What jobs write goes to our stdout, too.
    pub(super) mirror: bool,
    pub(super) command: Vec<OsString>,
}

/// Arguments that ask for no command to be run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Help,
    Wrong(String),
}

impl Options {
    /// Reads the words after `entrypoint`. As for tini, `--` before the command may be left out.
    pub(super) fn read(words: &[OsString]) -> Result<Self, Refused> {
        let mut options = Self {
            group: false,
            subreaper: false,
            ok: Vec::new(),
            parent_death: None,
            rewrites: Vec::new(),
            drain: DRAIN,
            grace: GRACE,
            budget: BUDGET,
            mirror: false,
            command: Vec::new(),
        };
        let mut given = (None, None);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            let (name, attached) = split(&text);
            if name.is_empty() {
                if text != "--" {
                    options.command.push(word.clone());
                }
                options.command.extend(words.cloned());
                break;
            }
            let mut value = || match &attached {
                Some(value) => Ok(value.clone()),
                None => words
                    .next()
                    .map(|value| value.to_string_lossy().into_owned())
                    .ok_or_else(|| Refused::Wrong(format!("option '{name}' needs a value"))),
            };
            let wrong = |why: String| Refused::Wrong(format!("option '{name}': {why}"));
            match name {
                "-h" | "--help" => return Err(Refused::Help),
                "-e" => options.ok.push(code(&value()?).map_err(wrong)?),
                "-p" => options.parent_death = Some(signal(&value()?).map_err(wrong)?),
                "-r" => options.rewrites.push(rewrite(&value()?).map_err(wrong)?),
                "--drain" => given.0 = Some(settings::duration(&value()?).map_err(wrong)?),
                "--mirror" if attached.is_none() => options.mirror = true,
                "--grace" => given.1 = Some(settings::duration(&value()?).map_err(wrong)?),
                _ => options.switches(name, attached.as_deref())?,
            }
        }
        options.drain = given.0.unwrap_or(DRAIN);
        options.grace = given.1.unwrap_or(GRACE);
        if given != (None, None) {
            options.budget = options.drain.saturating_add(options.grace);
        }
        if options.command.is_empty() {
            return Err(Refused::Wrong("no command is given".to_owned()));
        }
        Ok(options)
    }

    /// One or more switches in one word: `-g`, `-sg`.
    fn switches(&mut self, name: &str, attached: Option<&str>) -> Result<(), Refused> {
        let unknown = || {
            let rest = attached.unwrap_or_default();
            Refused::Wrong(format!("unknown option '{name}{rest}'"))
        };
        if name.starts_with("--") {
            return Err(unknown());
        }
        let letters = name.chars().skip(1).chain(attached.unwrap_or("").chars());
        for letter in letters {
            match letter {
                'g' => self.group = true,
                's' => self.subreaper = true,
                _ => return Err(unknown()),
            }
        }
        Ok(())
    }

    /// What a signal becomes for the command; `None`: it is dropped.
    pub(super) fn rewritten(&self, signal: i32) -> Option<i32> {
        let asked = self.rewrites.iter().rev().find(|(from, _)| *from == signal);
        match asked {
            Some((_, to)) => Some(*to).filter(|to| *to != 0),
            // They stop whoever uses the terminal from the background, which is not what this process
            // does with it.
            None => (!matches!(signal, libc::SIGTTIN | libc::SIGTTOU)).then_some(signal),
        }
    }

    /// The exit code for the code of the command.
    pub(super) fn exit_code(&self, code: u8) -> u8 {
        if self.ok.contains(&code) { 0 } else { code }
    }
}

/// An option's name, and the value that is attached to it: `-e143`, `--drain=5s`. An empty name is no
/// option.
fn split(word: &str) -> (&str, Option<String>) {
    if word == "--" || word == "-" || !word.starts_with('-') {
        return ("", None);
    }
    if word.starts_with("--") {
        return match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word, None),
        };
    }
    match word.char_indices().nth(2) {
        Some((at, _)) => (&word[..at], Some(word[at..].to_owned())),
        None => (word, None),
    }
}

fn code(text: &str) -> Result<u8, String> {
    text.parse()
        .map_err(|_| format!("'{text}' is no exit code from 0 to 255"))
}

/// A signal by name, with or without SIG, or by number.
fn signal(text: &str) -> Result<i32, String> {
    let number = match text.parse() {
        Ok(number) => Some(number),
        Err(_) => named(&text.to_ascii_uppercase()),
    };
    number
        .filter(|number| (1..=LAST_SIGNAL).contains(number))
        .ok_or_else(|| format!("'{text}' is no signal"))
}

fn named(name: &str) -> Option<i32> {
    let name = name.strip_prefix("SIG").unwrap_or(name);
    let known = format!("SIG{name}").parse::<nix::sys::signal::Signal>();
    known.ok().map(|signal| signal as i32)
}

/// `FROM:TO`; `TO` may be 0.
fn rewrite(text: &str) -> Result<(i32, i32), String> {
    let (from, to) = text
        .split_once(':')
        .ok_or_else(|| format!("'{text}' is not FROM:TO"))?;
    let to = if to == "0" { 0 } else { signal(to)? };
    Ok((signal(from)?, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Options, Refused> {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        Options::read(&words)
    }

    #[test]
    fn forms() {
        let plain = read("-- sleep 1").unwrap();
        assert_eq!(plain.command, ["sleep", "1"]);
        assert_eq!(
            (plain.drain, plain.grace, plain.budget),
            (DRAIN, GRACE, BUDGET)
        );
        for (words, command) in [
            ("sleep -g", vec!["sleep", "-g"]),
            ("-g -- -x --", vec!["-x", "--"]),
            ("-sg sh -c x", vec!["sh", "-c", "x"]),
            ("-e 143 -e1 -- a", vec!["a"]),
            ("- a", vec!["-", "a"]),
        ] {
            assert_eq!(read(words).unwrap().command, command, "{words}");
        }
        let all =
            read("-g -s -e 143 -e 0 -p SIGTERM -r 15:3 -r usr1:0 --drain 1s --grace=500ms -- a");
        let all = all.unwrap();
        assert!(all.group && all.subreaper);
        assert_eq!(all.ok, [143, 0]);
        assert_eq!(all.parent_death, Some(libc::SIGTERM));
        assert_eq!(all.rewrites, [(15, 3), (10, 0)]);
        assert_eq!(all.budget, Duration::from_millis(1500));
        assert_eq!(
            read("--drain 20s -- a").unwrap().budget,
            Duration::from_secs(22)
        );
    }

    #[test]
    fn mistakes() {
        for (words, why) in [
            ("", "no command is given"),
            ("--", "no command is given"),
            (
                "-e 256 -- a",
                "option '-e': '256' is no exit code from 0 to 255",
            ),
            ("-e", "option '-e' needs a value"),
            ("-r 1 -- a", "option '-r': '1' is not FROM:TO"),
            ("-r 0:1 -- a", "option '-r': '0' is no signal"),
            ("-r 1:65 -- a", "option '-r': '65' is no signal"),
            ("-p nope -- a", "option '-p': 'nope' is no signal"),
            ("-x -- a", "unknown option '-x'"),
            ("-gx -- a", "unknown option '-gx'"),
            ("--nope -- a", "unknown option '--nope'"),
        ] {
            assert_eq!(read(words), Err(Refused::Wrong(why.to_owned())), "{words}");
        }
        assert_eq!(read("-h"), Err(Refused::Help));
    }

    #[test]
    fn signals_and_codes() {
        let options = read("-e 7 -r TERM:QUIT -r HUP:0 -r TTIN:CONT -r 15:INT -- a").unwrap();
        assert_eq!(
            options.rewritten(libc::SIGTERM),
            Some(libc::SIGINT),
            "the last one counts"
        );
        assert_eq!(options.rewritten(libc::SIGHUP), None);
        assert_eq!(options.rewritten(libc::SIGTTIN), Some(libc::SIGCONT));
        assert_eq!(options.rewritten(libc::SIGTTOU), None);
        assert_eq!(options.rewritten(libc::SIGTSTP), Some(libc::SIGTSTP));
        assert_eq!(options.rewritten(LAST_SIGNAL), Some(LAST_SIGNAL));
        for code in 0..=255 {
            assert_eq!(options.exit_code(code), if code == 7 { 0 } else { code });
        }
    }
}

//! A person at an interactive shell. No step relies on time: what comes late is looked at again; a key
//! that may have been typed before the command had the terminal is typed again, and the line is cleared
//! before the next one.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{DEADLINE, Sandbox, Streams, exit_of, holds_within};

pub(crate) const PROMPT: &str = "@@ ";
pub(crate) const STOP: &str = "\x1a";
pub(crate) const INTERRUPT: &str = "\x03";
const CLEAR_LINE: &str = "\x15";

/// An interactive shell on a terminal of its own.
pub(crate) struct Dialogue {
    child: Child,
    terminal: File,
    pub(crate) seen: String,
    /// Up to where it was looked at.
    pub(crate) read: usize,
}

impl Dialogue {
    /// `shell` is bash or zsh, `command` what `$SH` means in it.
    pub(crate) fn new(sandbox: &Sandbox, shell: &str, command: &Path) -> Self {
        let options = match shell {
            "bash" => vec!["--norc", "--noprofile", "-i"],
            _ => vec!["-f", "-i", "+Z"],
        };
        let call = sandbox.real_call(shell).args(options);
        let call = call.env("PS1", PROMPT).env("TERM", "dumb");
        let running = call.env("SH", command).streams(Streams::Terminal).start();
        let (child, terminal) = running.into_stdout();
        let mut dialogue = Self {
            child,
            terminal,
            seen: String::new(),
            read: 0,
        };
        dialogue.expect(PROMPT);
        dialogue
    }

    pub(crate) fn send(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Whether `text` comes within the time.
    pub(crate) fn comes(&mut self, text: &str, limit: Duration) -> bool {
        holds_within(limit, || {
            let mut ready = [PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN)];
            if poll(&mut ready, PollTimeout::ZERO) == Ok(1) {
                let mut buffer = [0; 4096];
                let count = self.terminal.read(&mut buffer).unwrap_or(0);
                self.seen
                    .push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
            match self.seen[self.read..].find(text) {
                Some(at) => {
                    self.read += at + text.len();
                    true
                }
                None => false,
            }
        })
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        let came = self.comes(text, DEADLINE);
        assert!(came, "no {text:?} in {:?}", self.seen);
    }

    /// Types a line at the prompt and gives what came until the next one.
    #[track_caller]
    pub(crate) fn answer(&mut self, line: &str) -> String {
        self.send(&format!("{CLEAR_LINE}{line}\n"));
        self.expect(line);
        let from = self.read;
        self.expect(PROMPT);
        self.seen[from..self.read].to_owned()
    }

    /// Starts a command in the foreground that says `ready`.
    #[track_caller]
    pub(crate) fn start(&mut self, line: &str) {
        self.send(&format!("{line}\n"));
        self.expect("ready");
    }

    /// Types a key until the prompt is there again.
    #[track_caller]
    pub(crate) fn until_prompt(&mut self, key: &str) {
        let back = holds_within(DEADLINE, || {
            self.send(key);
            self.comes(PROMPT, Duration::from_millis(300))
        });
        assert!(back, "no prompt in {:?}", self.seen);
    }

    /// Waits until `jobs` says this of the only job: `stopped`, `running`, or nothing. Before it, a
    /// child is started: bash now and then misses the end of a job that was killed while it was stopped,
    /// until the next child's end makes it look.
    #[track_caller]
    pub(crate) fn state(&mut self, wanted: &str) {
        let mut said = String::new();
        let came = holds_within(DEADLINE, || {
            said = self
                .answer("(:); jobs")
                .to_lowercase()
                .replace("suspended", "stopped");
            let states = ["stopped", "running"];
            let state = states.into_iter().find(|state| said.contains(state));
            // What has just ended is told once more.
            state.unwrap_or_default() == wanted
        });
        assert!(came, "never {wanted:?}, last {said:?} in {:?}", self.seen);
    }

    /// Brings the only job to the foreground. The shell tells which one it is; before that, a key would
    /// throw the typed line away.
    #[track_caller]
    pub(crate) fn foreground(&mut self) {
        self.send(&format!("{CLEAR_LINE}fg\n"));
        self.expect("fg\r\n");
        self.expect("$SH -c");
    }

    #[track_caller]
    pub(crate) fn status(&mut self) -> String {
        let said = self.answer("echo \"is=$?\"");
        let status = said
            .lines()
            .find_map(|line| line.trim().strip_prefix("is="));
        status.unwrap_or_default().to_owned()
    }

    pub(crate) fn leave(mut self) {
        self.send(&format!("{CLEAR_LINE}exit\n"));
        exit_of(&mut self.child);
    }

    /// The interactive shell's own pid.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Closes the window, and waits until the interactive shell has gone of it.
    pub(crate) fn close(mut self) {
        drop(self.terminal);
        exit_of(&mut self.child);
    }
}

//! PID 1 of a container, beside the real tini and dumb-init.

/// Exit codes, and commands that cannot be started.
mod codes;
/// Jobs end, are recorded and told of before PID 1 leaves.
mod drain;
/// What it holds, and what it hands on.
mod hands;
/// What jobs write, on the container's stdout.
mod mirror;
/// Orphans.
mod reaping;
/// Signals, to the command or to its group.
mod signals;
/// A terminal, and job control.
mod terminal;

use std::fs::{self, File};
use std::io::Read;

use crate::support::{Call, DEADLINE, Sandbox, has, holds_within};

/// Who runs a command as PID 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Init {
    Ours,
    Tini,
    Dumb,
}

impl Init {
    /// Ours, and those that are installed.
    fn all() -> Vec<Self> {
        let mut all = vec![Self::Ours];
        all.extend(has("tini").then_some(Self::Tini));
        all.extend(has("dumb-init").then_some(Self::Dumb));
        all
    }

    /// Ours, and tini if it is installed: their options mean the same.
    fn pair() -> Vec<Self> {
        let mut all = Self::all();
        all.retain(|init| *init != Self::Dumb);
        all
    }

    /// The words in front of a command.
    fn words(self, sandbox: &Sandbox, options: &[&str]) -> Vec<String> {
        let program = match self {
            Self::Ours => sandbox.link("agent-sh").to_str().unwrap().to_owned(),
            Self::Tini => "tini".to_owned(),
            Self::Dumb => "dumb-init".to_owned(),
        };
        let mut words = vec![program];
        words.extend((self == Self::Ours).then(|| "entrypoint".to_owned()));
        words.extend(options.iter().map(|option| (*option).to_owned()));
        words.push("--".to_owned());
        words
    }

    /// A command with it as PID 1 of a new pid namespace.
    fn as_pid_1<'a>(self, sandbox: &'a Sandbox, options: &[&str], command: &[&str]) -> Call<'a> {
        let call = sandbox.unshare(&["--pid", "--fork", "--mount-proc"]);
        call.args(self.words(sandbox, options)).args(command)
    }

    /// A command with it as an ordinary process that reaps.
    fn below<'a>(self, sandbox: &'a Sandbox, options: &[&str], command: &[&str]) -> Call<'a> {
        let mut all = vec!["-s"];
        all.extend(options);
        let words = self.words(sandbox, &all);
        let call = match self {
            Self::Ours => sandbox.call("agent-sh"),
            Self::Tini => sandbox.real_call("tini"),
            Self::Dumb => panic!("dumb-init is no subreaper"),
        };
        call.args(&words[1..]).args(command)
    }
}

/// Reads whole lines as they come.
struct Lines {
    file: File,
    rest: String,
}

impl Lines {
    fn new(file: File) -> Self {
        Self {
            file,
            rest: String::new(),
        }
    }

    /// The next line; fails the test at the end.
    #[track_caller]
    fn next(&mut self) -> String {
        loop {
            if let Some((line, rest)) = self.rest.split_once('\n') {
                let line = line.trim_end_matches('\r').to_owned();
                self.rest = rest.to_owned();
                return line;
            }
            let mut bytes = [0; 4096];
            let count = self.file.read(&mut bytes).unwrap();
            assert!(count > 0, "the end after {:?}", self.rest);
            self.rest
                .push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }
}

/// The state of a process, as `ps` shows it.
fn state_of(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[track_caller]
fn wait_for_state(pid: i32, wanted: &[char]) {
    let came = holds_within(DEADLINE, || {
        state_of(pid).is_some_and(|state| wanted.contains(&state))
    });
    assert!(
        came,
        "{pid} is in state {:?}, not {wanted:?}",
        state_of(pid)
    );
}

/// The only child of a process, once it has one.
#[track_caller]
fn child_of(pid: i32) -> i32 {
    let mut found = None;
    let came = holds_within(DEADLINE, || {
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        found = list
            .ok()
            .and_then(|list| list.split_whitespace().next()?.parse().ok());
        found.is_some()
    });
    assert!(came, "{pid} has no child");
    found.unwrap()
}

//! On whose behalf we run: the session and the harness, from the environment, else from the nearest
//! ancestor that is a known harness.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::job::record::trace;
use crate::session as keys;
use crate::settings::Settings;
use crate::sys::{proc, session};
use crate::wire::{CALLER_VARIABLE, SUPERVISOR_VARIABLE};

/// Programs that are harnesses, by the name they run under.
const HARNESS_PROGRAMS: &[(&str, &str)] = &[
    ("claude", "claude-code"),
    ("codex", "codex"),
    ("opencode", "opencode"),
    ("gemini", "gemini"),
    ("hermes", "hermes"),
    ("aider", "aider"),
    ("goose", "goose"),
];

/// How far up a harness is looked for.
const DEPTH: usize = 16;

/// The session key and the harness's name; `from` is the process to look upwards from.
pub(crate) fn on_behalf(
    settings: &Settings,
    env: impl Fn(&str) -> Option<OsString>,
    from: i32,
) -> (Option<String>, Option<String>) {
    let key = settings.session.clone().or_else(|| keys::session_key(&env));
    let name = keys::harness(&env);
    if key.is_some() && name.is_some() {
        return (key, name.map(str::to_owned));
    }
    // A harness that exports its own key is named by it too; else the processes above tell.
    let above = client(&env, from);
    let key = key.or_else(|| above.map(Process::key));
    let name = name.or(above.map(|process| process.name));
    (key, name.map(str::to_owned))
}

/// A process that is a harness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub pid: i32,
    pub starttime: u64,
    name: &'static str,
}

impl Process {
    /// The session key of its jobs, where its commands carry none.
    #[must_use]
    pub(crate) fn key(self) -> String {
        format!("{}-{}-{}", self.name, self.pid, self.starttime)
    }
}

/// The nearest ancestor that is a harness.
pub(crate) fn client(env: impl Fn(&str) -> Option<OsString>, from: i32) -> Option<Process> {
    above(env, from).find_map(|stat| {
        let name = harness_program(&stat)?;
        let (pid, starttime) = (stat.pid, stat.starttime);
        Some(Process {
            pid,
            starttime,
            name,
        })
    })
}

/// A process and those above it. The way up from a command of ours leads over its supervisor, whose
/// parent is init, to the process that made the call.
fn above(env: impl Fn(&str) -> Option<OsString>, from: i32) -> impl Iterator<Item = proc::Stat> {
    let number = |name: &str| {
        let value = env(name)?;
        value.to_str()?.split('.').next()?.parse::<i32>().ok()
    };
    let bridge = number(SUPERVISOR_VARIABLE).zip(number(CALLER_VARIABLE));
    let look = |pid: i32| (pid > 1).then(|| proc::stat(pid))?;
    let next = move |stat: &proc::Stat| match bridge {
        // A younger process has only the number of the one that called.
        Some((supervisor, caller)) if supervisor == stat.pid => {
            look(caller).filter(|caller| caller.starttime <= stat.starttime)
        }
        _ => look(stat.ppid),
    };
    std::iter::successors(look(from), next).take(DEPTH)
}

/// Under this name `wake` keeps the processes above a command: `PID.START`, with blanks between them.
pub(crate) const ABOVE: &str = "ABOVE";

/// What a wake-up will need, kept in the launch: what the environment says of the harness, and where that
/// names a server, who could be the server of this session. An environment can be anybody's words, a file
/// of the directory's for one; the processes above a command are not.
pub(crate) fn wake(env: impl Fn(&str) -> Option<OsString>, from: i32) -> BTreeMap<String, String> {
    let mut known = keys::wake(&env);
    known.extend(trace::kept(&env));
    if known.keys().any(|name| name.starts_with("OPENCODE_")) {
        let who = above(env, from).map(|stat| format!("{}.{}", stat.pid, stat.starttime));
        known.insert(ABOVE.to_owned(), who.collect::<Vec<_>>().join(" "));
    }
    known
}

/// Programs that run no harness as their script: what stands between one and us.
const NO_HARNESS: &[&[u8]] = &[
    b"bash",
    b"sh",
    b"zsh",
    b"dash",
    b"fish",
    b"cargo",
    b"make",
    b"sudo",
    b"su",
    b"env",
    b"timeout",
    b"tmux: server",
    b"sshd",
    b"login",
    b"systemd",
];

/// The harness that a process runs: by its own name, or by the script that node or python runs.
fn harness_program(stat: &proc::Stat) -> Option<&'static str> {
    let known = |word: &str| {
        let base = word.rsplit('/').next().unwrap_or(word);
        let stem = base.split('.').next().unwrap_or(base);
        HARNESS_PROGRAMS
            .iter()
            .find(|(program, _)| *program == stem)
            .map(|(_, name)| *name)
    };
    if let Some(name) = known(&String::from_utf8_lossy(stat.comm())) {
        return Some(name);
    }
    if NO_HARNESS.contains(&stat.comm()) {
        return None;
    }
    let words = proc::cmdline(stat.pid)?;
    words
        .iter()
        .map(|word| word.to_string_lossy())
        .filter(|word| !word.starts_with('-'))
        .take(2)
        .find_map(|word| known(&word))
}

/// Whether every process here dies with the call: the front is the init of its pid namespace, or that
/// init is the helper of a sandbox, which leaves with the command. `caller` is the front's parent; that it
/// is outside of the namespace (0) says nothing: so it is in `docker exec` and `nsenter`, too.
#[must_use]
pub(crate) fn dies_with_the_call(front_is_init: bool, caller: i32) -> bool {
    if proc::pidns() == proc::FIRST_PIDNS {
        return false;
    }
    // A harness that works inside a sandbox itself outlives its calls, and so does the sandbox.
    let harness_inside = || client(|name| std::env::var_os(name), caller).is_some();
    front_is_init || is_in_sandbox_of_call() && !harness_inside()
}

/// Whether a sandbox was made for one command. Codex marks its commands also where it runs them without
/// one; but only those within have given up new privileges.
fn is_in_sandbox_of_call() -> bool {
    let helper = proc::comm(1);
    helper.is_some_and(|name| name == "bwrap" || name.starts_with("codex"))
        || std::env::var_os("CODEX_SANDBOX_NETWORK_DISABLED").is_some() && session::no_new_privs()
}

//! On whose behalf we run: the session and the harness, from the environment, else from the nearest
//! ancestor that is a known harness.

use std::ffi::OsString;

use crate::session;
use crate::settings::Settings;
use crate::sys::proc;

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
pub fn on_behalf(
    settings: &Settings,
    env: impl Fn(&str) -> Option<OsString>,
    from: i32,
) -> (Option<String>, Option<String>) {
    let key = settings
        .session
        .clone()
        .or_else(|| session::session_key(&env));
    let name = session::harness(&env);
    if key.is_some() && name.is_some() {
        return (key, name.map(str::to_owned));
    }
    // A harness that exports its own key is named by it too; else the processes above tell.
    let above = ancestor(from);
    let key =
        key.or_else(|| above.map(|(pid, starttime, name)| format!("{name}-{pid}-{starttime}")));
    let name = name.or(above.map(|(_, _, name)| name));
    (key, name.map(str::to_owned))
}

/// The nearest ancestor that is a harness: pid, start time, name.
fn ancestor(from: i32) -> Option<(i32, u64, &'static str)> {
    let mut pid = from;
    for _ in 0..DEPTH {
        if pid <= 1 {
            return None;
        }
        let stat = proc::stat(pid)?;
        if let Some(name) = harness_program(pid) {
            return Some((pid, stat.starttime, name));
        }
        pid = stat.ppid;
    }
    None
}

/// The harness that `pid` runs: by its own name, or by the script that node or python runs.
fn harness_program(pid: i32) -> Option<&'static str> {
    let known = |word: &str| {
        let base = word.rsplit('/').next().unwrap_or(word);
        let stem = base.split('.').next().unwrap_or(base);
        HARNESS_PROGRAMS
            .iter()
            .find(|(program, _)| *program == stem)
            .map(|(_, name)| *name)
    };
    if let Some(name) = proc::comm(pid).as_deref().and_then(known) {
        return Some(name);
    }
    let words = proc::cmdline(pid)?;
    words
        .iter()
        .take(2)
        .find_map(|word| known(&word.to_string_lossy()))
}

/// Whether every process here dies with the call: the front is the init of its pid namespace, or that
/// init is a sandbox helper which leaves with the command.
#[must_use]
pub fn dies_with_the_call(caller: i32) -> bool {
    if proc::pidns() == proc::FIRST_PIDNS {
        return false;
    }
    // The front's parent is 0 when the front itself is init.
    caller == 0
        || std::env::var_os("CODEX_SANDBOX_NETWORK_DISABLED").is_some()
        || proc::comm(1).is_some_and(|name| name == "bwrap" || name.starts_with("codex"))
}

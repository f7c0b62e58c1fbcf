//! The harnesses: how each is set up, and how each is woken when a job has ended.
//!
//! One file per harness. What is known of a harness lives here and in `shims/`, nowhere else; the verbs
//! `setup` and `hook` and the sinks of `notify` come through these doors. Files of others are changed
//! through `edit` alone.

pub(crate) mod agentapi;
pub(crate) mod claude_code;
pub(crate) mod claude_resume;
pub(crate) mod client;
pub(crate) mod codex;
pub(crate) mod edit;
pub(crate) mod gemini;
mod hooks;
pub(crate) mod json;
pub(crate) mod mcp;
pub(crate) mod opencode;
pub(crate) mod place;
pub(crate) mod run;
mod whole;

use std::path::Path;

use crate::configured::ConfigFile;
use crate::settings::{self, Settings};
use crate::sys::proc;

/// `…/agent-sh-bash` and the like: a link that a setup of ours made.
pub(crate) fn is_our_shell(path: &str) -> bool {
    Path::new(path)
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("agent-sh-"))
}

/// The settings of this process, for what only the user may allow. A bad value counts as not set.
fn settings() -> Settings {
    let file = ConfigFile::read().unwrap_or_default();
    file.settings(settings::Checks::NONE)
}

/// Why a session must be left alone whose id stands on the command line of a process, as that of one which
/// was resumed does.
fn named_by_a_process(session: &str) -> Option<String> {
    let own = std::process::id().cast_signed();
    let named = |pid: i32| {
        let words = proc::cmdline(pid).unwrap_or_default();
        words.iter().any(|word| word == session)
    };
    let mut others = proc::table()
        .into_iter()
        .filter(|stat| stat.pid != own && !stat.is_dead());
    others
        .any(|stat| named(stat.pid))
        .then(|| "a process has the session's id on its command line".to_owned())
}

/// What a harness tells its children of itself. A client that is started anew must not take itself for
/// one of them.
const OF_A_SESSION: [&str; 13] = [
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_PID",
    "CODEX_THREAD_ID",
    "CODEX_SESSION_ID",
    "GEMINI_CLI",
    "GEMINI_CLI_NO_RELAUNCH",
    "GEMINI_SESSION_ID",
];

//! agent-sh stands in for the shell that a coding agent calls.
//!
//! Data flows one way: harness → front → supervisor → real shell → job → transcript and record → notice.
//!
//! ```text
//! harness
//!   └─ front          stands for `sh -c`: waits for the status, forwards signals, announces, exits
//! supervisor          own session, child subreaper; a child of init from birth
//!   ├─ real shell     runs the (rewritten) text
//!   │    └─ job       exec'd in place by the launcher: the pid in `$!` is the job
//!   └─ job            a stray, reparented here by the kernel when its parent went away
//! ```
//!
//! `syntax` `plan` `rewrite` `settings` `session` `job` `text` `screen` do no I/O; `store` owns every path
//! below the state directory; `front`, `supervisor`, `launcher`, `entrypoint` and `cli` are roles, one per
//! kind of process, and know each other only through `wire`; `sys` holds all unsafe code. ARCHITECTURE.md
//! has the code map, and the invariants with their reasons.

mod caller;
mod cli;
mod config;
mod context;
mod entrypoint;
mod error;
#[cfg_attr(
    not(all(feature = "nats", feature = "redis")),
    allow(
        dead_code,
        unused_imports,
        unused_variables,
        reason = "what only the other engine needs"
    )
)]
mod fleet;
mod follow;
mod front;
#[cfg(test)]
mod generated;
mod harness;
mod invocation;
mod job;
mod kill;
mod launcher;
mod mcp;
mod message;
#[cfg_attr(
    not(all(feature = "nats", feature = "redis")),
    allow(
        dead_code,
        unused_imports,
        unused_variables,
        reason = "what only the other engine needs"
    )
)]
mod notify;
mod plan;
mod rewrite;
mod screen;
mod session;
mod settings;
mod shell;
#[cfg(test)]
#[path = "../tests/support/skip.rs"]
mod skip;
mod store;
mod supervisor;
mod syntax;
#[expect(
    unsafe_code,
    reason = "fork, exec, signals, terminals: the only room that may"
)]
mod sys;
#[doc(hidden)]
pub mod testing;
mod text;
mod wire;

#[doc(hidden)]
pub use sys::process::exit_now;
#[doc(hidden)]
pub use sys::session::remember_arguments;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use context::Hooks;
use invocation::Role;
use settings::Settings;
use sys::fds::{self, Kind};
use wire::RunRequest;

/// Runs the program with its arguments, and gives the exit code.
#[must_use]
pub fn run(args: Vec<OsString>) -> u8 {
    sys::session::forget_own_variables("AGENT_SH_");
    let hooks = Hooks {
        run: run_job,
        session: caller_session,
    };
    let stdin_is_terminal = || fds::kind(0) == Kind::Terminal;
    let executed = sys::process::executed_path().map(Path::as_os_str);
    let is_file = |path: &OsStr| Path::new(path).is_file();
    match invocation::read(&args, executed, stdin_is_terminal, is_file) {
        Role::Shell(call) => {
            let word = call.is_bare.then(|| call.args[1].clone());
            let code = front::stand_in(call, supervisor::supervise);
            if let Some(word) = word {
                cli::after_bare_word(&word, code);
            }
            code
        }
        Role::Launch(words) => launcher::launch(&words),
        Role::Adopt(words) => launcher::adopt(&words),
        Role::Interpose(what, words) => launcher::interpose(what, &words),
        Role::Deliver(words) => {
            notify::agent::set_wakes(harness::WAKES);
            notify::deliver::main(&words)
        }
        Role::Mirror(words) => entrypoint::mirror(&words),
        Role::Keep(words) => harness::run::keeper(&words),
        Role::HookProgram(program) => notify::become_hook(&program),
        Role::Verb => {
            notify::agent::set_wakes(harness::WAKES);
            cli::main(args, hooks)
        }
        Role::Entrypoint(words) => entrypoint::run(&words).unwrap_or_else(|| {
            let help = ["agent-sh", "entrypoint", "--help"].map(OsString::from);
            cli::main(help.to_vec(), hooks)
        }),
        Role::Unknown(word) => cli::unknown(&word),
    }
}

fn run_job(request: RunRequest) -> error::Result<(u8, Vec<u8>)> {
    front::run_job(request, supervisor::supervise)
}

fn caller_session(settings: &Settings) -> Option<String> {
    let env = |name: &str| std::env::var_os(name);
    caller::on_behalf(settings, env, sys::session::parent_pid()).0
}

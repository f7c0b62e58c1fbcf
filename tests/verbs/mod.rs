//! The verbs, as somebody at a terminal, an agent or a program meets them.

/// Which jobs are meant, what goes where, and what was typed by mistake.
mod answers;
/// Unknown ids, damaged files, other people's directories, newer versions.
mod bad_input;
/// Ending a job ends its daemons, and nobody else's.
mod daemons;
/// One order for all readers, and cursors that miss nothing.
mod events;
/// Ending jobs, and what the record says of it.
mod killing;
/// What a job has left, and has become a job of its own.
mod left;
/// `ps` and `show`.
mod listing;
/// `gc`.
mod removing;
/// The same command once more.
mod restarting;
/// Values from the environment and the file.
mod settings;
/// `doctor`, `init`, `completions`, `man`, and words that are no verbs.
mod tools;
/// `wait` for the ends of many jobs.
mod waiting;

use crate::support::{Sandbox, Status};

/// A job that has ended with this code; its id.
#[track_caller]
fn ended(sandbox: &Sandbox, code: u8) -> String {
    let text = format!("exit {code}");
    let ran = sandbox.agent_sh(["run", "--", "sh", "-c", &text]);
    assert!(ran.succeeded(), "{ran:?}");
    let id = ran.text().trim().to_owned();
    let wait = sandbox.agent_sh(["wait", &id]);
    assert_eq!(wait.status, Status::Exited(i32::from(code)), "{wait:?}");
    id
}

/// A job that runs until it is ended; its id.
#[track_caller]
fn running(sandbox: &Sandbox, args: &[&str]) -> String {
    let all = ["run"].iter().chain(args).chain(&["--", "sleep", "600"]);
    let ran = sandbox.call("agent-sh").args(all).run();
    assert!(ran.succeeded(), "{ran:?}");
    ran.text().trim().to_owned()
}

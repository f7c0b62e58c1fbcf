//! Cases that run under the real shell and under the program, and are then compared.

/// Over 400 commands, under three shells, over pipes, files and a terminal.
mod corpus;
/// Every argv form, and which shell is picked.
mod forms;
/// What `pgrep` and `pkill` find of a call.
mod found;
/// The exact shapes in which harnesses call their shell.
mod harnesses;
/// A person at an interactive shell.
mod job_control;
/// Sizes and bytes at the edges: large commands and environments, bytes that are no text.
mod limits;
/// Calls within calls, below every kind of shell.
mod nested;
/// Too few descriptors, no `/proc`.
mod scarce;
/// Every exit code and every deadly signal.
mod statuses;
/// Pipes, closed and inherited descriptors, stdin that is left for the next reader.
mod streams;

use crate::support::{Call, Ended, Sandbox};

/// Makes the same call of the real program and of ours, and fails where they differ.
#[track_caller]
fn same(sandbox: &Sandbox, name: &str, make: impl Fn(Call<'_>) -> Call<'_>) -> Ended {
    let native = make(sandbox.real_call(name)).run();
    let ours = make(sandbox.call(name)).run();
    assert_eq!(native, ours, "left is the real {name}, right is ours");
    ours
}

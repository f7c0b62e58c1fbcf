//! agent-sh stands in for the shell that a coding agent calls.
//!
//! Data flows one way: harness → front → supervisor → real shell → job → transcript and record → notice.
//!
//! ```text
//! harness
//!   └─ front          stands for `sh -c`: waits for the status, forwards signals, announces, exits
//! supervisor          double-forked from the front, own session, child subreaper; its parent is init
//!   ├─ real shell     runs the (rewritten) text
//!   │    └─ job       exec'd in place by the launcher: the pid in `$!` is the job
//!   └─ job            a stray, reparented here by the kernel when its parent went away
//! ```
//!
//! Rooms, from the pure ones to the floor: `syntax` `plan` `rewrite` `settings` `session` `job`
//! `record` `text` do no I/O; `store` owns every path below the state directory; `front`,
//! `supervisor`, `launcher` and `verbs` are roles, one per kind of process, and know each other only
//! through `handoff`; `sys` holds all unsafe code. ARCHITECTURE.md has the invariants and their reasons.

pub mod error;
pub mod job;
#[expect(
    unsafe_code,
    reason = "fork, exec, signals, terminals: the only room that may"
)]
pub mod sys;

/// Runs the program with its arguments, and gives the exit code.
#[must_use]
pub fn run(_args: Vec<std::ffi::OsString>) -> u8 {
    0
}

//! The tests of the program as a whole, one module per topic.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is; clippy's own allowance does not reach helpers"
)]

/// Builds: what is reported of their jobs, and what their runners do.
mod ci;
/// PID 1 of a container.
mod entrypoint;
/// Beyond one machine: brokers.
mod fleet;
/// Harnesses: settings changed and restored, hooks.
mod harness;
/// Background jobs: every form, every way to lose one.
mod jobs;
/// Nothing of ours stays behind.
mod litter;
/// The verbs as typed tools.
mod mcp;
/// Telling others of ends: outbox, sinks, exactly once.
mod notify;
/// The drop-in promise: the real shell is the oracle.
mod oracle;
/// The five cases that the project comes from.
mod origins;
/// What a job wrote: `logs`, and what `wait` watches for.
mod output;
/// Little machines, and what a release consists of.
mod packages;
/// Rewritten texts under the real shells, without a supervisor.
mod rewrite;
/// Sandbox, calls, gates: what the topics stand on.
mod support;
/// Typing at jobs, sitting at them, watching them: on real terminals.
mod terminal;
/// The rules of the house, checked by reading the files.
mod tidy;
/// What people, agents and programs ask about jobs.
mod verbs;

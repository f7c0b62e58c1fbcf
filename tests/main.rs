//! The tests of the program as a whole, one module per topic.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is; clippy's own allowance does not reach helpers"
)]

/// Background jobs: every form, every way to lose one.
mod jobs;
/// Nothing of ours stays behind.
mod litter;
/// The drop-in promise: the real shell is the oracle.
mod oracle;
/// The five cases that the project comes from.
mod origins;
/// Rewritten texts under the real shells, without a supervisor.
mod rewrite;
/// Sandbox, calls, gates: what the topics stand on.
mod support;
/// Typing at jobs, sitting at them, watching them: on real terminals.
mod terminal;
/// The rules of the house, checked by reading the files.
mod tidy;

//! The verbs at a job's terminal, and what they share: the caller's own terminal, keys by name, the way to
//! the job's input, its screen as it changes.

pub(super) mod attach;
mod input;
mod keys;
pub(super) mod live;
pub(super) mod raw;
pub(super) mod send;
pub(super) mod top;

//! Following jobs: sleeping until one changes, and reading what it writes.
//!
//! [`sleep::Sleeper`] is the one place where a process of ours waits for jobs: for what they write, for
//! their ends, for new ones. [`output::Source`] is the one way to a job's output, wherever it goes, and
//! [`lines`] makes clean text of it. [`session::SessionJobs`] puts both together for whoever waits for all
//! jobs of a session. Nothing here prints, and nothing here notifies anybody.

mod changes;
mod ends;
pub(crate) mod lines;
pub(crate) mod lists;
pub(crate) mod output;
pub(crate) mod session;
pub(crate) mod sleep;

pub(crate) use changes::Changes;

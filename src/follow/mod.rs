//! Following jobs: sleeping until one changes, and reading what it writes.

pub(crate) mod output;
pub(crate) mod sleep;

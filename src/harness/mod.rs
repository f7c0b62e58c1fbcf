//! The harnesses: how each is set up, and how each is woken when a job has ended.
//!
//! One file per harness. What is known of a harness lives here and in `shims/`, nowhere else; the verbs
//! `setup` and `hook` and the sinks of `notify` come through these doors. Files of others are changed
//! through `edit` alone.

pub(crate) mod claude_code;
pub(crate) mod client;
pub(crate) mod edit;
pub(crate) mod json;
pub(crate) mod opencode;
pub(crate) mod place;

use std::path::Path;

/// `…/agent-sh-bash` and the like: a link that a setup of ours made.
pub(crate) fn is_our_shell(path: &str) -> bool {
    Path::new(path)
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("agent-sh-"))
}

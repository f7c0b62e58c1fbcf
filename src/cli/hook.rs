//! `hook`: what a harness calls at its own events, to hear of jobs.
//!
//! A hook must never be the reason that a session breaks. Whatever goes wrong here ends with 0 and, at
//! most, a line on stderr; only the code that wakes a session is another one.

use crate::context::Context;
use crate::harness;
use crate::message;
use clap::Args;
use std::ffi::OsString;

/// Handle an event of a harness; called by its settings
#[derive(Debug, Args)]
#[command(after_help = "\
Reads the event as JSON from stdin. A failure here never breaks a session: unknown harnesses and events, and a state \
directory that cannot be read, exit with 0.

claude-code: SessionStart, UserPromptSubmit, Stop, SessionEnd, and Wait, which waits until a job ends.
gemini: SessionStart, BeforeAgent, AfterTool, AfterAgent, SessionEnd.
opencode: Wait, which prints every end as a line of JSON and reads 'told' as the answer.

Example:
  echo '{\"session_id\":\"0c6e\"}' | agent-sh hook claude-code SessionStart

Exit codes: 0, or with claude-code 2 to wake the session with the text on stderr.")]
pub(super) struct Hook {
    /// The harness
    pub harness: String,
    /// The event, as the harness names it
    pub event: String,
    /// What later versions may add
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub more: Vec<OsString>,
}

pub(crate) fn hook(context: &Context, hook: &Hook) -> u8 {
    let result = match hook.harness.as_str() {
        harness::claude_code::NAME => {
            harness::claude_code::hook::hook(context, &hook.event, &harness::hook::input())
        }
        harness::gemini::NAME => {
            harness::gemini::hook::hook(context, &hook.event, &harness::hook::input())
        }
        harness::opencode::NAME => harness::opencode::hook::hook(context, &hook.event),
        other => {
            message::say(format!("no hooks are known for '{other}'"));
            return 0;
        }
    };
    result.unwrap_or_else(|error| {
        message::error(&error);
        0
    })
}

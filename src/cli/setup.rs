//! `setup`: makes a harness call us. What each harness needs is in its folder below `harness`.

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Result;
use crate::harness::{claude_code, codex, gemini, opencode, shims, system};

/// Configure a harness to use agent-sh
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  agent-sh setup claude-code
  agent-sh setup shims ~/.local/share/agent-sh/shims

Exit codes: 0 success, 2 wrong usage, 125 agent-sh failed. 'agent-sh help setup claude-code' and so on have details.")]
pub(super) struct Setup {
    #[command(subcommand)]
    pub what: SetupWhat,
}

#[derive(Debug, Subcommand)]
pub(super) enum SetupWhat {
    Shims(shims::Shims),
    #[command(name = "claude-code")]
    ClaudeCode(claude_code::setup::ClaudeCode),
    Opencode(opencode::setup::Opencode),
    Codex(codex::setup::Codex),
    Gemini(gemini::setup::Gemini),
    System(system::System),
}

pub(crate) fn setup(context: &Context, setup: &Setup) -> Result<u8> {
    match &setup.what {
        SetupWhat::Shims(shims) => shims::setup(context, shims, shims::Advice::All),
        SetupWhat::ClaudeCode(given) => claude_code::setup::setup(context, given),
        SetupWhat::Opencode(given) => opencode::setup::setup(context, given),
        SetupWhat::Codex(given) => codex::setup::setup(context, &given.how),
        SetupWhat::Gemini(given) => gemini::setup::setup(context, given),
        SetupWhat::System(given) => system::setup(given),
    }
}

//! `mcp`: the verbs as tools of a model.

use clap::Args;

use crate::context::Context;
use crate::error::Result;

/// Serve the verbs as typed tools, to a client of the Model Context Protocol
#[derive(Debug, Args)]
#[command(after_help = "\
Speaks the protocol on stdin and stdout, and ends when the client closes them. Tools: list_jobs, start_job, job_logs, \
wait_for_job, kill_job, send_input. They see the jobs of one session: the caller's, as for every verb, unless --session \
names another; without a session, all jobs. 'agent-sh setup claude-code --mcp' registers it.

Example:
  agent-sh mcp
  claude mcp add agent-sh -- agent-sh mcp

Exit codes: 0 the client has left, 2 wrong usage, 125 agent-sh failed.")]
pub(super) struct Mcp {
    /// The session whose jobs are meant [default: the caller's]
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
}

pub(super) fn mcp(context: Context, given: Mcp) -> Result<u8> {
    crate::mcp::serve(context, given.session)
}

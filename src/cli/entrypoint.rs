//! `entrypoint` for help, manual page and completions. Its arguments are read in `entrypoint/options.rs`,
//! without clap: that process stays for the life of a container.

use std::ffi::OsString;

use clap::Args;

/// Run a command as PID 1 of a container, and account for its jobs before leaving
#[derive(Debug, Args)]
#[command(after_help = "\
Does what tini and dumb-init do: reaps every orphan, passes every signal on, ends with the command's exit code, or \
128+n after signal n. When the command ends, jobs may run for --drain, then they get TERM, and KILL after --grace. \
On SIGTERM the command and all jobs get TERM at once; whoever is left gets KILL after 8 s, or after --drain plus \
--grace where given. Every job has its record, and its subscribers are notified, before this process leaves.

Also called as docker-init or agent-sh-init.

Example:
  ENTRYPOINT [\"agent-sh\", \"entrypoint\", \"--\"]
  agent-sh entrypoint -g -e 143 -- npm start
  agent-sh entrypoint --drain 20s --grace 8s -- ./serve     for a stop timeout of 30 s

Exit codes: the command's own, 128+n after signal n, 0 for each CODE of -e; 126 or 127 when it cannot be started, \
2 wrong usage, 125 agent-sh failed.")]
pub(super) struct Entrypoint {
    /// Pass signals to the command's process group; what the command leaves behind gets TERM too
    #[arg(short = 'g')]
    pub group: bool,
    /// Become the reaper of orphans although this is not PID 1
    #[arg(short = 's')]
    pub subreaper: bool,
    /// Exit with 0 when the command exits with CODE; may be given more than once
    #[arg(short = 'e', value_name = "CODE")]
    pub ok: Vec<u8>,
    /// The signal to get when the parent process dies
    #[arg(short = 'p', value_name = "SIGNAL")]
    pub parent_death: Option<String>,
    /// Replace a signal for the command; to 0 drops it; may be given more than once
    #[arg(short = 'r', value_name = "FROM:TO")]
    pub rewrite: Vec<String>,
    /// How long jobs may run after the command has ended [default: 5s]
    #[arg(long, value_name = "DURATION")]
    pub drain: Option<String>,
    /// From TERM to KILL for jobs [default: 2s]
    #[arg(long, value_name = "DURATION")]
    pub grace: Option<String>,
    /// Show what jobs write on stdout, too: lines '[ID] text' of at most 4 KiB, up to 8 MiB of a job
    #[arg(long)]
    pub mirror: bool,
    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub command: Vec<OsString>,
}

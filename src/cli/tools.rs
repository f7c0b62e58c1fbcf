//! The verbs around jobs: events, clearing up, the state of this machine, and what shells and readers
//! want of a program.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::settings;

/// Print job events, one CloudEvent per line
#[derive(Debug, Args)]
#[command(after_help = "\
Every job has one event for its start (id JOB.start, type dev.agent-sh.job.started.v1) and exactly one for its end \
(id JOB.exit, type dev.agent-sh.job.exited.v1, even if it was lost); a killed foreground command has one of type \
dev.agent-sh.command.killed.v1. Ids never change. The order is the same for every reader and only grows at its end: \
with --since and the last id you saw, nothing repeats and nothing is missed. \
Events of removed jobs are gone; stderr says how many.

Example:
  agent-sh events --follow
  agent-sh events --follow --since 7f3k2m.exit

Exit codes: 0 success, 2 wrong usage, 125 no event has the id of --since, or agent-sh failed.")]
pub struct Events {
    /// Follow events as they happen, until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Only events after the one with this id
    #[arg(long, value_name = "EVENT")]
    pub since: Option<String>,
    /// Only the last N events; 0 with --follow: only new ones
    #[arg(short = 'n', long = "last", value_name = "N", allow_negative_numbers = true, value_parser = super::values::count)]
    pub last: Option<usize>,
    /// Only events of this session
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// Events are always JSON; taken so that every verb has it
    #[arg(long, hide = true)]
    pub json: bool,
    #[command(flatten)]
    pub fleet: super::Fleet,
}

/// Remove ended jobs that are old or take too much space
#[derive(Debug, Args)]
#[command(after_help = "\
Never removes running jobs. Supervisors do this automatically at their end, at most once an hour, with the settings 'keep' \
and 'max_bytes'; they never remove a job that ended within the last hour.

Example:
  agent-sh gc --dry-run
  agent-sh gc --keep 1d --max-bytes 100M

Exit codes: 0 success, 1 something could not be removed, 2 wrong usage, 125 agent-sh failed.")]
pub struct Gc {
    /// Remove jobs that ended longer ago than this: 12h, 7d, 0 for all [default: the setting 'keep']
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration)]
    pub keep: Option<Duration>,
    /// Then remove the oldest until the rest takes no more than this: 500M, 2G [default: the setting 'max_bytes']
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = settings::size)]
    pub max_bytes: Option<u64>,
    /// Only show what would be removed
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Check that agent-sh works on this machine
#[derive(Debug, Args)]
#[command(after_help = "\
Tests the real thing: opens a terminal, orphans a process, takes a lock, and runs a job from start to end. \
'warn' marks what agent-sh can do without, or a setting that has no effect; 'fail' marks what it needs. \
The line below says what to do.

Example:
  agent-sh doctor
  agent-sh doctor --json

Exit codes: 0 everything needed works, 1 something does not, 2 wrong usage.")]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print the table of settings in the documentation
    #[arg(long, hide = true, conflicts_with = "json")]
    pub settings_table: bool,
}

/// Print a shell completion script
#[derive(Debug, Args)]
#[command(after_help = "\
Completes verbs, options and job ids.

Example:
  agent-sh completions bash > ~/.local/share/bash-completion/completions/agent-sh
  agent-sh completions zsh > ~/.zfunc/_agent-sh      with ~/.zfunc in fpath before compinit
  agent-sh completions fish > ~/.config/fish/completions/agent-sh.fish

Exit codes: 0 success, 2 wrong usage.")]
pub struct Completions {
    pub shell: ShellWord,
}

/// Print a manual page
#[derive(Debug, Args)]
#[command(after_help = "\
Pages are in roff format.

Example:
  agent-sh man wait | man -l -
  agent-sh man notify add | man -l -
  agent-sh man --dir ~/.local/share/man/man1      writes agent-sh.1 and one page for each verb

Exit codes: 0 success, 2 wrong usage, 125 a page cannot be written.")]
pub struct Man {
    /// The verb, and its subcommand; without them the page of agent-sh itself
    #[arg(value_name = "VERB", conflicts_with = "dir")]
    pub words: Vec<String>,
    /// Write all pages into this directory; created if missing
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Print what to configure so that a harness or shell uses agent-sh
#[derive(Debug, Args)]
#[command(after_help = "\
Without an argument: the shortest way for each harness found here. With the name of a shell: lines for its start-up \
file. Changes nothing.

Example:
  agent-sh init
  agent-sh init claude-code
  eval \"$(agent-sh init bash)\"      in ~/.bashrc

Exit codes: 0 success, 2 wrong usage.")]
pub struct Init {
    /// A shell (bash, zsh, fish) or a harness (claude-code, codex, opencode, gemini)
    pub what: Option<InitWord>,
    /// The directory of links that 'agent-sh setup shims' created
    #[arg(long, value_name = "DIR")]
    pub shims: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShellWord {
    Bash,
    Zsh,
    Fish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InitWord {
    Bash,
    Zsh,
    Fish,
    ClaudeCode,
    Codex,
    Opencode,
    Gemini,
}

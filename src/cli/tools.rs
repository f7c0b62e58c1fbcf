//! The verbs around jobs: events, clearing up, the state of this machine, and what shells and readers
//! want of a program.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::settings;

/// Print what happened to jobs, one CloudEvent a line
#[derive(Debug, Args)]
#[command(after_help = "\
Every job has an event of its start (id JOB.start, type dev.agent-sh.job.started.v1) and exactly one of its end \
(id JOB.exit, type dev.agent-sh.job.exited.v1, also when it was lost); a killed foreground command has one of type \
dev.agent-sh.command.killed.v1. Ids never change. The order is the same for every reader and only grows at its end: \
with --since and the last id you saw, nothing is told twice and nothing is missed, also not what was found late. \
Events of jobs that were removed are gone; stderr says how many.

Example:
  agent-sh events --follow
  agent-sh events --follow --since 7f3k2m.exit

Exit codes: 0 printed, 2 wrong usage, 125 no event has the id of --since, or agent-sh failed.")]
pub struct Events {
    /// Go on printing as things happen, until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Only events after the one with this id
    #[arg(long, value_name = "EVENT")]
    pub since: Option<String>,
    /// Only the last N of those there are; 0 with --follow: only new ones
    #[arg(short = 'n', long = "last", value_name = "N", allow_negative_numbers = true, value_parser = super::values::count)]
    pub last: Option<usize>,
    /// Events of this session only; else of all
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// Events are always JSON; taken so that every verb has it
    #[arg(long, hide = true)]
    pub json: bool,
}

/// Remove ended jobs that are old or take too much space
#[derive(Debug, Args)]
#[command(after_help = "\
Jobs that run are never removed. This also happens by itself, at most once an hour, with the settings 'keep' and \
'max_bytes', when a supervisor has ended its last job; it never takes a job that ended within the hour.

Example:
  agent-sh gc --dry-run
  agent-sh gc --keep 1d --max-bytes 100M

Exit codes: 0 done, 1 something could not be removed, 2 wrong usage, 125 agent-sh failed.")]
pub struct Gc {
    /// Remove what ended longer ago than this: 12h, 7d, 0 for all; else the setting 'keep'
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration)]
    pub keep: Option<Duration>,
    /// Then remove the oldest until all together take no more: 500M, 2G; else the setting 'max_bytes'
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = settings::size)]
    pub max_bytes: Option<u64>,
    /// Only say what would be removed
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Try out what agent-sh needs here, and say what is wrong
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is guessed: a terminal is opened, a process is orphaned, a lock is taken, and a job is run from start to \
end. 'warn' is a thing that agent-sh can do without, or a setting that nobody reads; 'fail' is one that it needs. \
The line below says what to do.

Example:
  agent-sh doctor
  agent-sh doctor --json

Exit codes: 0 all that is needed works, 1 something does not, 2 wrong usage.")]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print the settings as the README has them
    #[arg(long, hide = true, conflicts_with = "json")]
    pub settings_table: bool,
}

/// Print what makes a shell complete our words
#[derive(Debug, Args)]
#[command(after_help = "\
Verbs, options and the ids of jobs are completed.

Example:
  agent-sh completions bash > ~/.local/share/bash-completion/completions/agent-sh
  agent-sh completions zsh > ~/.zfunc/_agent-sh      with ~/.zfunc in fpath before compinit
  agent-sh completions fish > ~/.config/fish/completions/agent-sh.fish

Exit codes: 0 printed, 2 wrong usage.")]
pub struct Completions {
    pub shell: ShellWord,
}

/// Print the manual page of a verb, or of agent-sh
#[derive(Debug, Args)]
#[command(after_help = "\
Pages are in the language of man (roff).

Example:
  agent-sh man wait | man -l -
  agent-sh man notify add | man -l -
  agent-sh man --dir ~/.local/share/man/man1      writes agent-sh.1 and one page for each verb

Exit codes: 0 done, 2 wrong usage, 125 a page cannot be written.")]
pub struct Man {
    /// The verb, and a word that it takes; without them the page of agent-sh itself
    #[arg(value_name = "VERB", conflicts_with = "dir")]
    pub words: Vec<String>,
    /// Write all pages into this directory; made if need be
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Say what to put where, so that a harness or a shell uses agent-sh
#[derive(Debug, Args)]
#[command(after_help = "\
Without a word: the shortest way for each harness that is found here. With the name of a shell: lines for its \
start-up file, to be evaluated there. Nothing is changed.

Example:
  agent-sh init
  agent-sh init claude-code
  eval \"$(agent-sh init bash)\"      in ~/.bashrc

Exit codes: 0 printed, 2 wrong usage.")]
pub struct Init {
    /// A shell (bash, zsh, fish) or a harness (claude-code, codex, opencode, gemini)
    pub what: Option<InitWord>,
    /// The directory of the links that 'agent-sh setup shims' makes
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

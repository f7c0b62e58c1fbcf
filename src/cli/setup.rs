//! The command line of `setup` and `hook`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Put agent-sh where it will be called
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  agent-sh setup claude-code
  agent-sh setup shims ~/.local/share/agent-sh/shims

Exit codes: 0 done, 2 wrong usage, 125 agent-sh failed. 'agent-sh help setup claude-code' and the like say more.")]
pub struct Setup {
    #[command(subcommand)]
    pub what: SetupWhat,
}

#[derive(Debug, Subcommand)]
pub enum SetupWhat {
    Shims(Shims),
    #[command(name = "claude-code")]
    ClaudeCode(ClaudeCode),
    Opencode(Opencode),
    Codex(Codex),
    Gemini(Gemini),
}

/// Make a directory of links (sh bash zsh dash nohup setsid agent-sh) for the front of PATH
#[derive(Debug, Args)]
#[command(after_help = "\
With DIR first in PATH, scripts, Makefiles and npm scripts that call a shell, nohup or setsid by name are caught \
too. Only names that this machine has are linked. Files that are not ours are never replaced or removed. \
The settings to make are printed on stdout.

Example:
  agent-sh setup shims ~/.local/share/agent-sh/shims
  agent-sh setup shims ~/.local/share/agent-sh/shims --undo

Exit codes: 0 done (also when nothing was to do), 2 wrong usage, 125 a file is in the way or agent-sh failed.")]
pub struct Shims {
    /// The directory; made if need be
    pub dir: PathBuf,
    /// Remove our links, and the directory if it is empty then
    #[arg(long)]
    pub undo: bool,
    /// Only print what would be done
    #[arg(long)]
    pub print: bool,
}

/// Set up Claude Code and its Agent SDK: the shell, and hooks that tell it when a job has ended
#[derive(Debug, Args)]
#[command(after_help = "\
Merges into a settings file and leaves everything else in it as it is, to the byte. A second run changes nothing. \
--undo restores the file as it was; if you have edited it since, only our parts leave. Sessions that run already \
take it up when they are started again.

Example:
  agent-sh setup claude-code
  agent-sh setup claude-code --project --undo
  claude --settings \"$(agent-sh setup claude-code --print)\"

Exit codes: 0 done (also when nothing was to do), 2 wrong usage, 125 the file cannot be changed or agent-sh failed.")]
pub struct ClaudeCode {
    /// Your own settings: ~/.claude/settings.json, or below CLAUDE_CONFIG_DIR (the default)
    #[arg(long, group = "scope")]
    pub user: bool,
    /// The settings of this project: .claude/settings.json, which others may share
    #[arg(long, group = "scope")]
    pub project: bool,
    /// Your own settings for this project: .claude/settings.local.json
    #[arg(long, group = "scope")]
    pub local: bool,
    /// The shell to stand in for: bash or zsh; else the one in SHELL, else bash
    #[arg(long, value_name = "NAME", value_parser = ["bash", "zsh"])]
    pub shell: Option<String>,
    #[command(flatten)]
    pub how: How,
}

/// Set up OpenCode: the shell, and a plugin that tells a session when a job has ended
#[derive(Debug, Args)]
#[command(after_help = "\
Sets 'shell' in its configuration, which otherwise stays as it is, to the byte, and adds one file to its plugins. \
A second run changes nothing; --undo takes both back.

Example:
  agent-sh setup opencode
  agent-sh setup opencode --project --undo

Exit codes: 0 done (also when nothing was to do), 2 wrong usage, 125 a file cannot be changed or agent-sh failed.")]
pub struct Opencode {
    /// Your own configuration: ~/.config/opencode (the default)
    #[arg(long, group = "place")]
    pub user: bool,
    /// The configuration of this project: opencode.json and .opencode/plugin
    #[arg(long, group = "place")]
    pub project: bool,
    #[command(flatten)]
    pub how: How,
}

/// Set up Codex: bash leads to us, and a thread is told through 'codex queue' when a job has ended
#[derive(Debug, Args)]
#[command(after_help = "\
Codex calls the login shell by its path. Setup lets its bash hand every command to us (BASH_ENV in \
shell_environment_policy of config.toml, which otherwise stays as it is) and adds the subscription 'codex', which \
wakes a thread when its job has ended. In Codex's sandbox bash does not read that file; what to do by hand is said.

Example:
  agent-sh setup codex
  agent-sh setup codex --undo

Exit codes: 0 done (also when nothing was to do), 2 wrong usage, 125 a file cannot be changed or agent-sh failed.")]
pub struct Codex {
    #[command(flatten)]
    pub how: How,
}

/// Set up Gemini CLI: hooks that tell a session when a job has ended, and a directory of links to start it with
#[derive(Debug, Args)]
#[command(after_help = "\
Merges hooks into a settings file and leaves everything else in it as it is, to the byte. Gemini CLI calls the first \
bash on PATH: setup makes a directory of links and prints the line that puts it in front; that line goes into your \
shell's profile by hand, for it changes more than Gemini CLI. A second run changes nothing; --undo takes all of it back.

A session is told of an end in the turn that it is at, at that turn's end, with its next prompt, or when it is \
resumed; 'gemini -p' waits for its jobs for a while (AGENT_SH_STOP_WAIT). One that sits idle cannot be woken.

Example:
  agent-sh setup gemini
  agent-sh setup gemini --undo

Exit codes: 0 done (also when nothing was to do), 2 wrong usage, 125 a file is in the way or agent-sh failed.")]
pub struct Gemini {
    /// Your own settings: ~/.gemini/settings.json, or below GEMINI_CLI_HOME (the default)
    #[arg(long, group = "reach")]
    pub user: bool,
    /// The settings of this project: .gemini/settings.json, which others may share
    #[arg(long, group = "reach")]
    pub project: bool,
    #[command(flatten)]
    pub how: How,
}

/// What every setup of a harness takes.
#[derive(Debug, Args)]
pub struct How {
    /// Write nothing: print the settings to stdout, and say what would be done
    #[arg(long)]
    pub print: bool,
    /// Take back what setup did
    #[arg(long)]
    pub undo: bool,
}

/// Answer an event of a harness; 'setup' puts this into its settings
#[derive(Debug, Args)]
#[command(after_help = "\
What the harness says of the event comes as JSON on stdin. Trouble of ours never ends a session: unknown \
harnesses and events, and a state that cannot be read, end with 0.

claude-code: SessionStart, UserPromptSubmit, Stop, SessionEnd, and Wait, which stays until a job has ended.
gemini: SessionStart, BeforeAgent, AfterTool, AfterAgent, SessionEnd.
opencode: Wait, which tells every end as a line of JSON on stdout and reads 'told' as the answer.

Example:
  echo '{\"session_id\":\"0c6e\"}' | agent-sh hook claude-code SessionStart

Exit codes: 0, or with claude-code 2 where that wakes the session with the text on stderr.")]
pub struct Hook {
    /// Which harness calls
    pub harness: String,
    /// The event, as the harness names it
    pub event: String,
    /// What later versions may add
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub more: Vec<OsString>,
}

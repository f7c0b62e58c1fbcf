//! The command line of `setup` and `hook`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Configure a harness to use agent-sh
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  agent-sh setup claude-code
  agent-sh setup shims ~/.local/share/agent-sh/shims

Exit codes: 0 success, 2 wrong usage, 125 agent-sh failed. 'agent-sh help setup claude-code' and so on have details.")]
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

/// Create a directory of links (sh bash zsh dash nohup setsid agent-sh) to put first in PATH
#[derive(Debug, Args)]
#[command(after_help = "\
With DIR first in PATH, scripts, Makefiles and npm scripts that call a shell, nohup or setsid by name use agent-sh \
too. Links only names that this machine has. Never replaces or removes files that are not its own. \
Prints the settings to make on stdout.

Example:
  agent-sh setup shims ~/.local/share/agent-sh/shims
  agent-sh setup shims ~/.local/share/agent-sh/shims --undo

Exit codes: 0 success, even if nothing had to be done, 2 wrong usage, 125 a file is in the way or agent-sh failed.")]
pub struct Shims {
    /// The directory; created if missing
    pub dir: PathBuf,
    /// Remove the links, and the directory if it is then empty
    #[arg(long)]
    pub undo: bool,
    /// Only show what would be done
    #[arg(long)]
    pub print: bool,
}

/// Set up Claude Code and its Agent SDK: the shell, and hooks that notify it when a job ends
#[derive(Debug, Args)]
#[command(after_help = "\
Merges into a settings file and leaves everything else in it unchanged, byte for byte. A second run changes nothing. \
--undo restores the file; if you have edited it since, it removes only our parts. \
With --mcp the verbs are tools of the model, too ('agent-sh mcp'); --undo always takes that back. Restart open sessions afterwards.

Example:
  agent-sh setup claude-code
  agent-sh setup claude-code --mcp
  agent-sh setup claude-code --project --undo
  claude --settings \"$(agent-sh setup claude-code --print)\"

Exit codes: 0 success, even if nothing had to be done, 2 wrong usage, 125 the file cannot be changed or agent-sh failed.")]
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
    /// Also register 'agent-sh mcp' as an MCP server: in ~/.claude.json, with --project in .mcp.json
    #[arg(long)]
    pub mcp: bool,
    #[command(flatten)]
    pub how: How,
}

/// Set up OpenCode: the shell, and a plugin that notifies a session when a job ends
#[derive(Debug, Args)]
#[command(after_help = "\
Sets 'shell' in its configuration, leaves everything else in it unchanged, byte for byte, and adds one plugin file. \
A second run changes nothing; --undo reverts both.

Example:
  agent-sh setup opencode
  agent-sh setup opencode --project --undo

Exit codes: 0 success, even if nothing had to be done, 2 wrong usage, 125 a file cannot be changed or agent-sh failed.")]
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

/// Set up Codex: its bash calls agent-sh, and 'codex queue' notifies a thread when a job ends
#[derive(Debug, Args)]
#[command(after_help = "\
Codex calls the login shell by its path. Setup makes its bash pass every command to agent-sh (BASH_ENV in \
shell_environment_policy of config.toml, which is otherwise unchanged) and adds the subscription 'codex', which \
wakes a thread when its job ends. In Codex's sandbox bash does not read that file; setup says what to do by hand.

Example:
  agent-sh setup codex
  agent-sh setup codex --undo

Exit codes: 0 success, even if nothing had to be done, 2 wrong usage, 125 a file cannot be changed or agent-sh failed.")]
pub struct Codex {
    #[command(flatten)]
    pub how: How,
}

/// Set up Gemini CLI: hooks that notify a session when a job ends, and a directory of links to start it with
#[derive(Debug, Args)]
#[command(after_help = "\
Merges hooks into a settings file and leaves everything else in it unchanged, byte for byte. Gemini CLI calls the first \
bash on PATH: setup creates a directory of links and prints the line that puts it first. Add that line to your \
shell's profile yourself, because it affects more than Gemini CLI. A second run changes nothing; --undo reverts everything.

A session is notified in its current turn, at the end of that turn, with its next prompt, or when it is resumed; \
'gemini -p' waits for its jobs for a while (AGENT_SH_STOP_WAIT). An idle session cannot be woken.

Example:
  agent-sh setup gemini
  agent-sh setup gemini --undo

Exit codes: 0 success, even if nothing had to be done, 2 wrong usage, 125 a file is in the way or agent-sh failed.")]
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
    /// Change nothing: print the settings to stdout, and say what would be done
    #[arg(long)]
    pub print: bool,
    /// Revert what setup did
    #[arg(long)]
    pub undo: bool,
}

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
pub struct Hook {
    /// The harness
    pub harness: String,
    /// The event, as the harness names it
    pub event: String,
    /// What later versions may add
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub more: Vec<OsString>,
}

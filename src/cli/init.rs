//! `init`: what to put where, so that a shell or a harness uses agent-sh. It only says; `setup` does.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::Result;
use crate::message;
use crate::shell;
use crate::text::quote;
use clap::{Args, ValueEnum};

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
pub(super) struct Init {
    /// A shell (bash, zsh, fish) or a harness (claude-code, codex, opencode, gemini)
    pub what: Option<InitWord>,
    /// The directory of links that 'agent-sh setup shims' created
    #[arg(long, value_name = "DIR")]
    pub shims: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum InitWord {
    Bash,
    Zsh,
    Fish,
    ClaudeCode,
    Codex,
    Opencode,
    Gemini,
}

/// Harnesses: how `init` calls them, their program, their name, what to do.
const HARNESSES: [(InitWord, &str, &str); 4] = [
    (InitWord::ClaudeCode, "claude", "Claude Code"),
    (InitWord::Codex, "codex", "Codex"),
    (InitWord::Opencode, "opencode", "OpenCode"),
    (InitWord::Gemini, "gemini", "Gemini CLI"),
];

pub(crate) fn init(context: &Context, init: &Init) -> Result<u8> {
    let shims = match &init.shims {
        Some(dir) => std::path::absolute(dir).unwrap_or_else(|_| dir.clone()),
        None => usual_shims(context),
    };
    let text = match init.what {
        Some(shell @ (InitWord::Bash | InitWord::Zsh | InitWord::Fish)) => start_up(shell, &shims),
        Some(harness) => first_step(&shims) + &steps(harness, &shims),
        None => overview(&shims),
    };
    message::out(&text).map(|()| 0)
}

/// Where the README puts the links.
fn usual_shims(context: &Context) -> PathBuf {
    let data = context.env("XDG_DATA_HOME").map(PathBuf::from);
    let home = || PathBuf::from(context.env("HOME").unwrap_or_default());
    data.filter(|dir| dir.is_absolute())
        .unwrap_or_else(|| home().join(".local/share"))
        .join("agent-sh/shims")
}

fn quoted(path: &Path) -> String {
    quote(path.as_os_str().as_bytes())
}

/// Lines for a shell's start-up file, right also when evaluated twice.
fn start_up(shell: InitWord, shims: &Path) -> String {
    let dir = quoted(shims);
    match shell {
        InitWord::Fish => format!(
            "if test -d {dir}; fish_add_path --path --prepend {dir}; end\n\
             agent-sh completions fish | source\n"
        ),
        _ => {
            let word = if shell == InitWord::Zsh {
                "zsh"
            } else {
                "bash"
            };
            let completions = match shell {
                // Before compinit there is nothing to complete with.
                InitWord::Zsh => {
                    format!("(( $+functions[compdef] )) && source <(agent-sh completions {word})")
                }
                _ => format!("source <(agent-sh completions {word})"),
            };
            format!(
                "if [ -d {dir} ]; then case \":$PATH:\" in *:{dir}:*) ;; *) export PATH={dir}:\"$PATH\" ;; esac; fi\n\
                 {completions}\n"
            )
        }
    }
}

/// The links that everything else stands on, if they are not there yet.
fn first_step(shims: &Path) -> String {
    if shims.join("agent-sh").exists() {
        return String::new();
    }
    format!("First, once:\n  agent-sh setup shims {}\n\n", quoted(shims))
}

fn steps(harness: InitWord, shims: &Path) -> String {
    let bash = shims.join("bash");
    let bash = bash.display();
    match harness {
        InitWord::ClaudeCode => format!(
            "Claude Code: in ~/.claude/settings.json\n  {{ \"env\": {{ \"CLAUDE_CODE_SHELL\": \"{bash}\" }} }}\n\
             or start it with\n  CLAUDE_CODE_SHELL={bash} claude\n"
        ),
        InitWord::Codex => format!(
            "Codex: it asks the passwd entry, not SHELL\n  chsh -s {bash}\n\
             (the path must be listed in /etc/shells)\n"
        ),
        InitWord::Opencode => format!(
            "OpenCode: in opencode.json\n  {{ \"shell\": \"{bash}\" }}\nor start it with\n  SHELL={bash} opencode\n"
        ),
        InitWord::Gemini => format!(
            "Gemini CLI: it calls bash by name\n  PATH={}:\"$PATH\" gemini\n\
             'agent-sh setup gemini' also has it told when jobs end\n",
            quoted(shims)
        ),
        InitWord::Bash | InitWord::Zsh | InitWord::Fish => String::new(),
    }
}

fn overview(shims: &Path) -> String {
    let mut out = first_step(shims);
    let found: Vec<_> = HARNESSES
        .iter()
        .filter(|(_, program, _)| shell::find_program(program.as_ref()).is_some())
        .collect();
    for (harness, ..) in &found {
        let _ = writeln!(out, "{}", steps(*harness, shims));
    }
    if found.is_empty() {
        let _ = writeln!(
            out,
            "No harness that agent-sh knows is in PATH. For any other, start it with\n  SHELL={} NAME\n\
             or\n  PATH={}:\"$PATH\" NAME\n",
            quoted(&shims.join("bash")),
            quoted(shims)
        );
    }
    let others: Vec<&str> = HARNESSES
        .iter()
        .filter(|known| !found.contains(known))
        .map(|(_, _, name)| *name)
        .collect();
    if !others.is_empty() {
        let _ = writeln!(
            out,
            "Also known: {} ('agent-sh init --help').",
            others.join(", ")
        );
    }
    out.push_str(
        "For your own shell (zsh and fish likewise), in ~/.bashrc:\n  eval \"$(agent-sh init bash)\"\n\
         Then 'agent-sh doctor' says whether it works.\n",
    );
    out
}

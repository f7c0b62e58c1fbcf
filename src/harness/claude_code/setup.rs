//! `setup claude-code`: the shell and the hooks, in one of its settings files.

use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::harness::claude_code::Settings;
use crate::harness::claude_code::mcp::Registration;
use crate::harness::edit::place;
use crate::harness::setup::{How, LINKS, Links, change_file, plan_file};
use crate::message;
use clap::Args;

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
pub(crate) struct ClaudeCode {
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

pub(crate) fn setup(context: &Context, given: &ClaudeCode) -> Result<u8> {
    let links = Links::find(context)?;
    let shell = format!("agent-sh-{}", shell_name(context, given));
    let settings = Settings::new(&links.path(&shell), &links.path("agent-sh"));
    let file = settings_file(context, given)?;
    let how = &given.how;
    let (servers, registration) = servers(context, given, &links)?;
    if how.print && !how.undo {
        message::out(&format!("{:#}\n", settings.alone()))?;
    }
    if how.print && given.mcp && !how.undo {
        message::say(format!(
            "'{}' would hold {}",
            servers.display(),
            registration.alone()
        ));
    }
    let change = plan_file(&links, &file, &settings, how)?;
    let register = match given.mcp || how.undo {
        true => Some(plan_file(&links, &servers, &registration, how)?),
        false => None,
    };
    // The links first: settings that name a missing shell would break the client.
    if !how.undo {
        links.make(&["agent-sh", &shell], how)?;
    }
    change_file(&change, how)?;
    // Where it was never asked for there is nothing to say.
    if let Some(change) = register.filter(|change| given.mcp || change.is_needed()) {
        change_file(&change, how)?;
    }
    if how.undo && !how.print {
        links.remove_unused(&LINKS)?;
    }
    if given.project && !how.undo {
        message::say_with_hint(
            "these settings hold paths of this machine, and others may share them through the project",
            "'--local' writes '.claude/settings.local.json' instead",
        );
    }
    Ok(0)
}

/// Where the client lists its MCP servers, and our entry there.
fn servers(
    context: &Context,
    given: &ClaudeCode,
    links: &Links,
) -> Result<(PathBuf, Registration)> {
    let program = links.path("agent-sh");
    let here = || {
        std::env::current_dir().map_err(|source| Error::sys("find the current directory", source))
    };
    if given.project {
        return Ok((here()?.join(".mcp.json"), Registration::new(&program)));
    }
    let env = |name: &str| context.env(name);
    let dir = match env("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => std::path::absolute(&dir)
            .map_err(|source| Error::io("find", Path::new(&dir), source))?,
        None => place::home(env)?,
    };
    let registration = match given.local {
        true => Registration::of_project(&program, &here()?),
        false => Registration::new(&program),
    };
    Ok((dir.join(".claude.json"), registration))
}

/// The client would take `SHELL` itself, so that one is what its user expects.
fn shell_name(context: &Context, given: &ClaudeCode) -> String {
    if let Some(name) = &given.shell {
        return name.clone();
    }
    let shell = context.env("SHELL").map(PathBuf::from);
    let name = shell.as_deref().and_then(Path::file_name);
    match name.map(|name| name.to_string_lossy()) {
        Some(name) if name.ends_with("zsh") => "zsh".to_owned(),
        _ => "bash".to_owned(),
    }
}

fn settings_file(context: &Context, given: &ClaudeCode) -> Result<PathBuf> {
    let env = |name: &str| context.env(name);
    if given.project || given.local {
        let here = std::env::current_dir()
            .map_err(|source| Error::sys("find the current directory", source))?;
        let name = if given.local {
            "settings.local.json"
        } else {
            "settings.json"
        };
        return Ok(here.join(".claude").join(name));
    }
    let dir = match env("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => std::path::absolute(&dir)
            .map_err(|source| Error::io("find", Path::new(&dir), source))?,
        None => place::home(env)?.join(".claude"),
    };
    Ok(dir.join("settings.json"))
}

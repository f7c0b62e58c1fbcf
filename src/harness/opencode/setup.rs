//! `setup opencode`: the shell in its configuration, and our plugin beside it.

use std::path::PathBuf;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::harness::edit::place;
use crate::harness::opencode::{Config, plugin};
use crate::harness::setup::{How, LINKS, Links, change_file, plan_file};
use crate::message;
use clap::Args;

/// Set up OpenCode: the shell, and a plugin that notifies a session when a job ends
#[derive(Debug, Args)]
#[command(after_help = "\
Sets 'shell' in its configuration, leaves everything else in it unchanged, byte for byte, and adds one plugin file. \
A second run changes nothing; --undo reverts both.

Example:
  agent-sh setup opencode
  agent-sh setup opencode --project --undo

Exit codes: 0 success, even if nothing had to be done, 2 wrong usage, 125 a file cannot be changed or agent-sh failed.")]
pub(crate) struct Opencode {
    /// Your own configuration: ~/.config/opencode (the default)
    #[arg(long, group = "place")]
    pub user: bool,
    /// The configuration of this project: opencode.json and .opencode/plugin
    #[arg(long, group = "place")]
    pub project: bool,
    #[command(flatten)]
    pub how: How,
}

pub(crate) fn setup(context: &Context, given: &Opencode) -> Result<u8> {
    let links = Links::find(context)?;
    let how = &given.how;
    let config = Config::new(&links.path("agent-sh-bash"));
    let plugin = plugin(&links.path("agent-sh"));
    let (config_file, plugin_file) = files(context, given)?;
    if how.print && !how.undo {
        message::out(&format!("{:#}\n", config.alone()))?;
    }
    let changes = [
        plan_file(&links, &config_file, &config, how)?,
        plan_file(&links, &plugin_file, &plugin, how)?,
    ];
    if !how.undo {
        links.make(&["agent-sh", "agent-sh-bash"], how)?;
    }
    for change in &changes {
        change_file(change, how)?;
    }
    if how.undo && !how.print {
        links.remove_unused(&LINKS)?;
    }
    Ok(0)
}

/// The configuration that is there, whichever of its names it has, and the place of plugins.
fn files(context: &Context, given: &Opencode) -> Result<(PathBuf, PathBuf)> {
    let env = |name: &str| context.env(name);
    let (config, plugins) = if given.project {
        let here = std::env::current_dir()
            .map_err(|source| Error::sys("find the current directory", source))?;
        (here.clone(), here.join(".opencode"))
    } else {
        let base = match env("XDG_CONFIG_HOME").map(PathBuf::from) {
            Some(dir) if dir.is_absolute() => dir,
            _ => place::home(env)?.join(".config"),
        };
        let dir = base.join("opencode");
        (dir.clone(), dir)
    };
    let names = ["opencode.json", "opencode.jsonc"].map(|name| config.join(name));
    let [plain, commented] = names;
    let file = if commented.exists() && !plain.exists() {
        commented
    } else {
        plain
    };
    Ok((file, plugins.join("plugin").join("agent-sh.js")))
}

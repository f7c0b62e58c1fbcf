//! `setup gemini`: the hooks in its settings, a directory of links, and the line that puts it in front of PATH.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::harness::edit::Edit;
use crate::harness::edit::place;
use crate::harness::gemini::{Settings, turned_off};
use crate::harness::setup::{How, LINKS, Links, change_file, plan_file};
use crate::harness::shims;
use crate::harness::shims::Shims;
use crate::message;
use crate::text::quote;
use clap::Args;

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
pub(crate) struct Gemini {
    /// Your own settings: ~/.gemini/settings.json, or below GEMINI_CLI_HOME (the default)
    #[arg(long, group = "reach")]
    pub user: bool,
    /// The settings of this project: .gemini/settings.json, which others may share
    #[arg(long, group = "reach")]
    pub project: bool,
    #[command(flatten)]
    pub how: How,
}

pub(crate) fn setup(context: &Context, given: &Gemini) -> Result<u8> {
    let links = Links::find(context)?;
    let how = &given.how;
    let settings = Settings::new(&links.path("agent-sh"));
    let file = settings_file(context, given.project)?;
    if how.print && !how.undo {
        message::out(&format!("{:#}\n", settings.alone()))?;
    }
    let change = plan_file(&links, &file, &settings, how)?;
    // Of its own: a directory of `setup shims` is somebody's shell.
    let dir = links.data.join("gemini");
    let shims = Shims {
        dir: dir.clone(),
        undo: how.undo,
        print: how.print,
    };
    // The links first: hooks that lead nowhere would be warned of at every step.
    if !how.undo {
        links.make(&["agent-sh"], how)?;
    }
    change_file(&change, how)?;
    // Your own settings outlive those of a project, and their hooks are of use with the links alone.
    let user_file = settings_file(context, false)?;
    let is_needed = how.undo && given.project && has_hooks(&user_file, &settings);
    if !is_needed {
        shims::setup(context, &shims, shims::Advice::Path)?;
    }
    if how.undo {
        if !how.print {
            links.remove_unused(&LINKS)?;
            place::remove_empty(&links.data, links.data.parent().unwrap_or(&links.data));
        }
        if !is_needed {
            message::say(format!(
                "if your profile puts '{}' in PATH, take that line out by hand",
                dir.display()
            ));
        }
        return Ok(0);
    }
    say_the_rest(given, &file, change.wanted.as_deref(), &dir);
    Ok(0)
}

/// What setup cannot do.
fn say_the_rest(given: &Gemini, file: &Path, text: Option<&str>, dir: &Path) {
    if let Some(key) = text.and_then(turned_off) {
        message::say_with_hint(
            format!(
                "'{key}' in '{}' keeps our hooks from being run",
                file.display()
            ),
            "without them a session does not hear of its jobs",
        );
    }
    if given.project {
        message::say_with_hint(
            "these settings hold paths of this machine, and Gemini CLI runs them in trusted folders only",
            "'--user' writes your own settings instead",
        );
    }
    let path = format!("PATH={}:\"$PATH\"", quote(dir.as_os_str().as_bytes()));
    let alias = quote(format!("{path} gemini").as_bytes());
    let line = if given.how.print {
        format!("the line 'export {path}'")
    } else {
        "the printed line".to_owned()
    };
    message::say_with_hint(
        "Gemini CLI calls the first bash on PATH, which no setting of its own can change",
        format!("put {line} into your profile by hand; or for it alone: alias gemini={alias}"),
    );
    message::say(
        "a session that sits idle cannot be woken: it hears of an end with its next prompt",
    );
}

/// Whether our hooks are in this file.
fn has_hooks(file: &Path, settings: &Settings) -> bool {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    settings.strip(&text).is_ok_and(|stripped| stripped != text)
}

fn settings_file(context: &Context, is_project: bool) -> Result<PathBuf> {
    let env = |name: &str| context.env(name);
    let base = if is_project {
        std::env::current_dir()
            .map_err(|source| Error::sys("find the current directory", source))?
    } else {
        let named = env("GEMINI_CLI_HOME").map(PathBuf::from);
        match named.filter(|dir| dir.is_absolute()) {
            Some(dir) => dir,
            None => place::home(env)?,
        }
    };
    Ok(base.join(".gemini").join("settings.json"))
}

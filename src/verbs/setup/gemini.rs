//! `setup gemini`: the hooks in its settings, a directory of links, and the line that puts it in front of PATH.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{LINKS, Links, change_file, plan_file, shims};
use crate::cli::{Gemini, Shims};
use crate::error::{Error, Result};
use crate::harness::edit::Edit;
use crate::harness::gemini::{Settings, turned_off};
use crate::harness::place;
use crate::message;
use crate::text::quote;
use crate::verbs::Context;

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

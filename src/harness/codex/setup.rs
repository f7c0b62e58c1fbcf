//! `setup codex`: bash leads to us, and a standing subscription wakes threads.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::context::Context;
use crate::error::Result;
use crate::harness::codex::{BASH_ENV, Config, script};
use crate::harness::edit::place;
use crate::harness::setup::{How, LINKS, Links, change_file, plan_file};
use crate::message;
use crate::notify::{Sink, start};
use crate::store::Store;
use crate::text::quote;
use clap::Args;

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
pub(crate) struct Codex {
    #[command(flatten)]
    pub how: How,
}

/// The subscription's name, and its sink.
const NAME: &str = "codex";
/// Codex takes a login shell only if its file is called so.
const LOGIN_SHELL: &str = "bash";

pub(crate) fn setup(context: &Context, how: &How) -> Result<u8> {
    let links = Links::find(context)?;
    let shell = links.path("agent-sh-bash");
    let bash_env = links.data.join(BASH_ENV);
    let (config, script) = (Config::new(&bash_env), script(&shell));
    let env = |name: &str| context.env(name);
    let home = match env("CODEX_HOME").map(PathBuf::from) {
        Some(dir) if dir.is_absolute() => dir,
        _ => place::home(env)?.join(".codex"),
    };
    if how.print && !how.undo {
        message::out(&config.alone())?;
    }
    let changes = [
        plan_file(&links, &home.join("config.toml"), &config, how)?,
        plan_file(&links, &bash_env, &script, how)?,
    ];
    if !how.undo {
        links.make(&["agent-sh", "agent-sh-bash", LOGIN_SHELL], how)?;
    }
    // Forwards the script comes before the setting that names it, backwards after.
    if how.undo {
        changes
            .iter()
            .try_for_each(|change| change_file(change, how))?;
    } else {
        changes
            .iter()
            .rev()
            .try_for_each(|change| change_file(change, how))?;
    }
    subscription(context, how)?;
    if how.undo {
        if !how.print {
            links.remove_unused(&LINKS)?;
        }
        return Ok(0);
    }
    let quoted = quote(links.path(LOGIN_SHELL).as_os_str().as_bytes());
    message::say_with_hint(
        "in Codex's sandbox only the login shell counts, and nothing can outlive a call there",
        format!(
            "to have calls wait for their jobs there: echo {quoted} | sudo tee -a /etc/shells; chsh -s {quoted}"
        ),
    );
    Ok(0)
}

/// Who is told: a thread that its own harness can wake.
fn subscription(context: &Context, how: &How) -> Result<()> {
    if how.undo {
        for store in context.stores() {
            if store.subscription(NAME).is_none_or(|sub| sub.sink != NAME) {
                continue;
            }
            if how.print {
                message::say(format!("would remove the subscription '{NAME}'"));
            } else if store.unsubscribe(NAME)? {
                message::say(format!("removed the subscription '{NAME}'"));
            }
        }
        return Ok(());
    }
    let there = |store: &Store| store.subscription(NAME).is_some();
    if context.stores().iter().any(there) {
        message::say(format!("the subscription '{NAME}' is there"));
    } else if how.print {
        message::say(format!("would add the subscription '{NAME}'"));
    } else {
        let store = context.open_store()?;
        let sink: Sink = NAME.parse().map_err(start::usage)?;
        start::subscribe(&store, &start::subscription(NAME, &sink, true))?;
        message::say(format!("added the subscription '{NAME}'"));
    }
    Ok(())
}

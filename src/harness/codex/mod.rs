//! Codex: how its shell comes to be ours, and how a thread is woken.
//!
//! It calls the shell of the passwd entry by its path. Without touching that entry, `BASH_ENV` in its
//! `shell_environment_policy` leads every `bash -c` to us; only within its sandbox it is not read.
//! A thread is woken by `codex queue`, which a TUI or an app-server acts on. `codex exec` reads no
//! queue; its thread can be resumed once nothing owns it, if the user allows that.

pub(crate) mod setup;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use toml_edit::{DocumentMut, Item, Table, TableLike, value};

use crate::harness::edit::Edit;
use crate::harness::edit::whole::Whole;
use crate::harness::run;
use crate::notify::agent::{Waking, Woken};
use crate::sys::proc;
use crate::text::quote;

const POLICY: &str = "shell_environment_policy";
const SET: &str = "set";
const VARIABLE: &str = "BASH_ENV";
/// The name of the file that `BASH_ENV` leads to.
pub(crate) const BASH_ENV: &str = "codex.bash_env";
const SCRIPT: &str = include_str!("../../../shims/codex/bash_env.sh");
const MARK: &str = "# agent-sh: made by 'agent-sh setup codex'";

/// How long `codex queue` may take; its start is slow on a busy machine.
const QUEUE_LIMIT: Duration = Duration::from_secs(25);

/// The part of `config.toml` that is ours.
pub(crate) struct Config {
    bash_env: String,
}

impl Config {
    pub(crate) fn new(bash_env: &Path) -> Self {
        Self {
            bash_env: bash_env.to_string_lossy().into_owned(),
        }
    }

    pub(crate) fn alone(&self) -> String {
        let shown = value(self.bash_env.as_str()).to_string();
        format!("[{POLICY}.{SET}]\n{VARIABLE} = {}\n", shown.trim())
    }
}

/// The script that hands commands to us; `shell` is a link that stays.
pub(crate) fn script(shell: &Path) -> Whole {
    use std::os::unix::ffi::OsStrExt;
    let text = SCRIPT.replace("@SHELL@", &quote(shell.as_os_str().as_bytes()));
    Whole::new(MARK, text)
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse::<DocumentMut>().map_err(|error| {
        let lines: Vec<&str> = error.message().lines().collect();
        let at = error.span().map_or_else(String::new, |span| {
            let line = text
                .get(..span.start)
                .unwrap_or_default()
                .matches('\n')
                .count()
                + 1;
            format!("line {line}: ")
        });
        format!("no valid TOML: {at}{}", lines.join(", "))
    })
}

/// A table below another, made if there is none. New ones show only what is in them.
fn below<'a>(
    table: &'a mut dyn TableLike,
    key: &str,
    path: &str,
) -> Result<&'a mut dyn TableLike, String> {
    let made = || {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    };
    table
        .entry(key)
        .or_insert_with(made)
        .as_table_like_mut()
        .ok_or_else(|| format!("'{path}' in it is no table"))
}

fn is_ours(path: &str) -> bool {
    path.ends_with(&format!("/agent-sh/{BASH_ENV}"))
}

impl Edit for Config {
    fn add(&self, text: &str) -> Result<String, String> {
        let mut document = parse(text)?;
        let policy = below(document.as_table_mut(), POLICY, POLICY)?;
        let set = below(policy, SET, &format!("{POLICY}.{SET}"))?;
        match set.get(VARIABLE).and_then(Item::as_str) {
            Some(old) if old == self.bash_env => return Ok(text.to_owned()),
            Some(old) if !is_ours(old) => {
                return Err(format!(
                    "'{POLICY}.{SET}.{VARIABLE}' in it is already '{old}'"
                ));
            }
            _ => {}
        }
        set.insert(VARIABLE, value(self.bash_env.as_str()));
        Ok(document.to_string())
    }

    fn strip(&self, text: &str) -> Result<String, String> {
        let mut document = parse(text)?;
        let Some(policy) = document.get_mut(POLICY).and_then(Item::as_table_like_mut) else {
            return Ok(text.to_owned());
        };
        let Some(set) = policy.get_mut(SET).and_then(Item::as_table_like_mut) else {
            return Ok(text.to_owned());
        };
        if !set
            .get(VARIABLE)
            .and_then(Item::as_str)
            .is_some_and(is_ours)
        {
            return Ok(text.to_owned());
        }
        set.remove(VARIABLE);
        if set.is_empty() {
            policy.remove(SET);
        }
        if policy.is_empty() {
            document.remove(POLICY);
        }
        Ok(document.to_string())
    }

    fn is_blank(&self, text: &str) -> bool {
        text.trim().is_empty()
    }
}

/// What runs of Codex now.
#[derive(Debug, Default)]
struct Running {
    /// A program that reads its queue, and where it is.
    reader: Option<PathBuf>,
    /// One-shot runs, which do not.
    one_shot: bool,
}

/// Codex processes that have a thread, or may have one.
fn running() -> Running {
    let mut found = Running::default();
    for stat in proc::table() {
        if stat.is_dead() || proc::comm(stat.pid).is_none_or(|name| name != "codex") {
            continue;
        }
        let words = proc::cmdline(stat.pid).unwrap_or_default();
        if words.iter().any(|word| word == "queue") {
            continue;
        }
        if words
            .iter()
            .skip(1)
            .any(|word| word == "exec" || word == "e")
        {
            found.one_shot = true;
        } else {
            found.reader = found.reader.or_else(|| proc::exe(stat.pid));
        }
    }
    found
}

/// Wakes a thread.
pub(crate) fn wake(waking: &Waking<'_>) -> Woken {
    let running = running();
    let program = running
        .reader
        .clone()
        .unwrap_or_else(|| PathBuf::from("codex"));
    let text = format!("[agent-sh] {}", waking.notice.trim_end());
    if running.reader.is_none() && running.one_shot {
        return Woken::Later("'codex exec' is still at work and reads no messages".to_owned());
    }
    let resumes = super::settings().resume;
    if running.reader.is_none() && resumes {
        return resume(&program, waking, &text);
    }
    let mut args = vec!["queue", "--thread", waking.session, "--message", &text];
    if resumes {
        // A daemon runs: one that does not have the thread yet may take it up.
        args.push("--resume");
    }
    match run::to_end(command(&program, waking).args(args), QUEUE_LIMIT) {
        Ok(()) => Woken::Told,
        Err(why) => Woken::Failed(format!("codex queue: {why}")),
    }
}

/// Nothing owns the thread: a turn of its own, which outlives us.
fn resume(program: &Path, waking: &Waking<'_>, text: &str) -> Woken {
    let args = [
        "exec",
        "resume",
        "--skip-git-repo-check",
        "--json",
        waking.session,
        text,
    ];
    match run::keep(command(program, waking).args(args), "") {
        Ok(()) => Woken::Told,
        Err(why) => Woken::Failed(format!("codex exec resume: {why}")),
    }
}

fn command(program: &Path, waking: &Waking<'_>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    for name in super::OF_A_SESSION {
        command.env_remove(name);
    }
    if let Some(home) = waking.launch.wake.get("CODEX_HOME") {
        command.env("CODEX_HOME", home);
    }
    if Path::new(&waking.launch.facts.cwd).is_dir() {
        command.current_dir(&waking.launch.facts.cwd);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::new(Path::new("/d/agent-sh/codex.bash_env"))
    }

    #[test]
    fn the_variable_comes_and_goes() {
        for text in [
            "",
            "# mine\nmodel = \"x\"  # the best\n\n[features]\nhooks = true\n",
            "[shell_environment_policy]\ninherit = \"all\"\n\n[shell_environment_policy.set]\nA = \"1\"\n",
            "shell_environment_policy = { inherit = \"all\", set = { A = \"1\" } }\n",
        ] {
            let added = config().add(text).unwrap();
            let parsed: toml::Table = added.parse().unwrap();
            let found = &parsed["shell_environment_policy"]["set"]["BASH_ENV"];
            assert_eq!(
                found.as_str(),
                Some("/d/agent-sh/codex.bash_env"),
                "{added}"
            );
            assert_eq!(config().add(&added).unwrap(), added, "twice");
            let stripped: toml::Table = config().strip(&added).unwrap().parse().unwrap();
            assert_eq!(stripped, text.parse::<toml::Table>().unwrap(), "{text}");
            assert!(
                added.contains(text.lines().next().unwrap_or_default())
                    || text.starts_with("shell_env")
            );
        }
        let parsed: toml::Table = config().alone().parse().unwrap();
        assert!(parsed.contains_key("shell_environment_policy"));
    }

    #[test]
    fn what_cannot_be_changed_is_refused() {
        for (text, why) in [
            ("a = ", "no valid TOML: line 1"),
            (
                "shell_environment_policy = 3",
                "'shell_environment_policy' in it is no table",
            ),
            (
                "[shell_environment_policy.set]\nBASH_ENV = \"/mine\"",
                "'shell_environment_policy.set.BASH_ENV' in it is already '/mine'",
            ),
        ] {
            let error = config().add(text).unwrap_err();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }

    #[test]
    fn the_script_names_the_shell() {
        let script = script(Path::new("/a b/agent-sh-bash")).add("").unwrap();
        assert!(script.starts_with(MARK) && !script.contains("@SHELL@"));
        assert!(script.contains("exec '/a b/agent-sh-bash' -c"), "{script}");
    }
}

//! Resuming a session of Claude Code that has ended, to tell it of a job.
//!
//! A resume of a session that is still open would fork the conversation. So it happens only if the user
//! has allowed it (`resume`), and if nothing owns the session: the client keeps a file for each of its
//! processes, and none of those that live has it; nor has any process its id on its command line.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::run;
use crate::notify::agent::{Waking, Woken};
use crate::sys::{fsx, proc};

/// So much of a transcript is looked at for the directory it belongs to.
const LINES: usize = 200;
/// No file of the client's is read beyond this.
const LONGEST: u64 = 16 << 20;

pub(crate) fn wake(waking: &Waking<'_>) -> Woken {
    let session = waking.session;
    let plain = |letter: char| letter.is_ascii_hexdigit() || letter == '-';
    if !crate::harness::settings().resume {
        return Woken::Later("its hooks tell it when the session goes on".to_owned());
    }
    if session.len() != 36 || !session.chars().all(plain) {
        return Woken::Failed(format!("'{session}' is no session of Claude Code"));
    }
    let Some(config) = config_dir(waking) else {
        return Woken::Failed("HOME is not set".to_owned());
    };
    if let Some(why) = owner(&config, waking) {
        return Woken::Later(why);
    }
    let Some(dir) = directory_of(&config, session) else {
        return Woken::Failed(format!("there is no transcript of session {session}"));
    };
    let mut command = Command::new("claude");
    command.args(["-p", "--resume", session]).current_dir(dir);
    for name in crate::harness::OF_A_SESSION {
        command.env_remove(name);
    }
    // Through its stdin: a command line is for everybody to read.
    match run::keep(
        &command,
        &format!("[agent-sh] {}\n", waking.notice.trim_end()),
    ) {
        Ok(()) => Woken::Told,
        Err(why) => Woken::Failed(format!("claude --resume: {why}")),
    }
}

fn config_dir(waking: &Waking<'_>) -> Option<PathBuf> {
    if let Some(dir) = waking.launch.wake.get("CLAUDE_CONFIG_DIR") {
        return Some(dir.into());
    }
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    home.is_absolute().then(|| home.join(".claude"))
}

/// Why the session must be left alone, if so. What cannot be told counts as an owner.
fn owner(config: &Path, waking: &Waking<'_>) -> Option<String> {
    let Ok(entries) = fs::read_dir(config.join("sessions")) else {
        return Some("it cannot be told whether the session is open".to_owned());
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let known: Option<Value> = fsx::open_regular(&path)
            .ok()
            .and_then(|(file, _)| serde_json::from_reader(file.take(LONGEST)).ok());
        // One that has just gone, or is being written: the next attempt will tell.
        let Some(known) = known else {
            return Some("it cannot be told whether the session is open".to_owned());
        };
        if known["sessionId"] == waking.session && may_live(&known) {
            return Some("the session is open".to_owned());
        }
    }
    let client = waking
        .launch
        .wake
        .get("CLAUDE_PID")
        .and_then(|pid| pid.parse().ok());
    if client.is_some_and(|pid| proc::comm(pid).is_some_and(|name| name == "claude")) {
        return Some("the client that started the job still runs".to_owned());
    }
    crate::harness::named_by_a_process(waking.session)
}

/// Whether the process that wrote this may still be there: same number, same start. One of another
/// namespace cannot be seen from here.
fn may_live(known: &Value) -> bool {
    let domain = known["pidDomain"].as_str().unwrap_or_default();
    if !domain.is_empty() && !domain.ends_with(&format!("pid:[{}]", proc::pidns())) {
        return true;
    }
    let Some(pid) = known["pid"]
        .as_i64()
        .and_then(|pid| i32::try_from(pid).ok())
    else {
        return true;
    };
    let start = known["procStart"]
        .as_str()
        .and_then(|text| text.parse::<u64>().ok());
    match (proc::stat(pid), start) {
        (None, _) => false,
        (Some(stat), Some(start)) => stat.starttime == start && !stat.is_dead(),
        (Some(_), None) => true,
    }
}

/// Where the session was started: a session can only be resumed from there.
fn directory_of(config: &Path, session: &str) -> Option<PathBuf> {
    let projects = fs::read_dir(config.join("projects")).ok()?;
    let name = format!("{session}.jsonl");
    let file = projects
        .flatten()
        .find_map(|dir| fsx::open_regular(&dir.path().join(&name)).ok())?;
    let lines = BufReader::new(file.0.take(LONGEST))
        .lines()
        .map_while(Result::ok)
        .take(LINES);
    let mut found = lines.filter_map(|line| {
        let entry: Value = serde_json::from_str(&line).ok()?;
        Some(PathBuf::from(entry["cwd"].as_str()?))
    });
    found.find(|dir| dir.is_dir())
}

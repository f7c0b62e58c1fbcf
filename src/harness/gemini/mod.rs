//! Gemini CLI: the hooks that let a session hear of its jobs, and the resume of one that has ended.
//!
//! Its shell is the first `bash` on PATH, which no setting can change. Commands carry no session id, so the
//! hooks, which do, note which conversation the client's process is having. The hooks:
//!
//! * `SessionStart` and `BeforeAgent` tell what ended while nobody listened; `AfterTool` what ended in the
//!   middle of a turn (not in ACP mode, which has no such event).
//! * `AfterAgent` gives the session another turn if a job has ended meanwhile. It holds a plain `gemini -p`,
//!   which ends with its turn, until a job has ended, for a limited time.
//! * `SessionEnd` ends the session's jobs, if the user wants it so.
//!
//! Nothing wakes a session that sits idle at its prompt. (With two experimental settings the output of a
//! background command of the client's own can start a turn; but then it stands there as the user's words.)

pub(crate) mod hook;
pub(crate) mod setup;

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::edit::Edit;
use crate::harness::edit::hooks::{self, Group, Hooks};
use crate::harness::edit::json::{self, Document};
use crate::harness::run;
use crate::notify::agent::{Waking, Woken};
use crate::store::Store;
use crate::sys::{fsx, proc};

pub(crate) const NAME: &str = "gemini";
/// What the client calls our hooks, in its lists and while they run.
const HOOK: &str = "agent-sh";
/// Where the conversation was started: it can be resumed only there.
pub(crate) const DIRECTORY: &str = "GEMINI_CWD";
const HOME: &str = "GEMINI_CLI_HOME";

/// In milliseconds: far more than any job takes, and less than the client's timers can hold (2^31).
const WAIT_LIMIT: u32 = 7 * 86_400_000;
/// For what answers at once.
const QUICK_LIMIT: u32 = 20_000;

/// No transcript that is longer is looked into.
const LONGEST_TRANSCRIPT: u64 = 64 << 20;

/// The part of a settings file that is ours.
pub(crate) struct Settings {
    hooks: Hooks,
}

impl Settings {
    /// `program` is a path that stays: a link of ours.
    pub(crate) fn new(program: &Path) -> Self {
        let hook = |event, limit| {
            let command = hooks::command(program, NAME, event);
            let hook =
                json!({ "name": HOOK, "type": "command", "command": command, "timeout": limit });
            Group {
                event,
                value: json!({ "hooks": [hook] }),
            }
        };
        let groups = vec![
            hook("SessionStart", QUICK_LIMIT),
            hook("BeforeAgent", QUICK_LIMIT),
            hook("AfterTool", QUICK_LIMIT),
            hook("AfterAgent", WAIT_LIMIT),
            hook("SessionEnd", QUICK_LIMIT),
        ];
        Self {
            hooks: Hooks::new(NAME, groups),
        }
    }

    /// As a settings file of its own.
    pub(crate) fn alone(&self) -> Value {
        json!({ "hooks": self.hooks.alone() })
    }
}

impl Edit for Settings {
    fn add(&self, text: &str) -> Result<String, String> {
        let document = Document::parse(text)?;
        self.hooks.add(document.object())?;
        Ok(document.text())
    }

    fn strip(&self, text: &str) -> Result<String, String> {
        let document = Document::parse(text)?;
        let changed = self.hooks.strip(document.object());
        Ok(document.stripped(text, changed))
    }

    fn is_blank(&self, text: &str) -> bool {
        json::is_empty_object(text)
    }
}

/// The setting in this file that keeps our hooks from being run, if there is one.
pub(crate) fn turned_off(text: &str) -> Option<&'static str> {
    let document = Document::parse(text).ok()?;
    let config = document.object().get("hooksConfig")?.value()?;
    let config = json::plain(&config)?;
    let disabled = config["disabled"].as_array();
    if config["enabled"] == false {
        Some("hooksConfig.enabled")
    } else if disabled.is_some_and(|names| names.iter().any(|name| name == HOOK)) {
        Some("hooksConfig.disabled")
    } else {
        None
    }
}

/// Whether this client ends with its turn, as a plain `gemini -p` does. Where nothing shows, holding the
/// turn for a while is the smaller harm than a notice that gets lost.
pub(crate) fn ends_with_its_turn(pid: i32) -> bool {
    let words = proc::cmdline(pid).unwrap_or_default();
    stays(&words).map_or_else(|| !is_at_a_terminal(pid), |stays| !stays)
}

/// What its command line says about that.
fn stays(words: &[OsString]) -> Option<bool> {
    words.iter().find_map(|word| {
        let word = word.to_string_lossy();
        match word.split_once('=').map_or(&*word, |(name, _)| name) {
            "--acp" | "--experimental-acp" | "-i" | "--prompt-interactive" => Some(true),
            "-p" | "--prompt" => Some(false),
            _ => None,
        }
    })
}

fn is_at_a_terminal(pid: i32) -> bool {
    ["fd/0", "fd/1"].iter().all(|name| {
        let target = proc::link(pid, name).unwrap_or_default();
        target.starts_with("/dev/pts") || target.to_string_lossy().starts_with("/dev/tty")
    })
}

/// Whether the model has read these words, as the client's transcript has it: one message a line, or all
/// that is left of them. What was only shown to the user does not count. `None`: it cannot be told.
pub(crate) fn is_in_transcript(path: &Path, words: &str) -> Option<bool> {
    let (file, _) = fsx::open_regular(path).ok()?;
    let mut text = Vec::new();
    file.take(LONGEST_TRANSCRIPT).read_to_end(&mut text).ok()?;
    is_in_messages(&String::from_utf8_lossy(&text), words)
}

fn is_in_messages(text: &str, words: &str) -> Option<bool> {
    let mut messages: Vec<Value> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut line: Value = serde_json::from_str(line).ok()?;
        match line["$set"]["messages"].take() {
            Value::Array(left) => messages = left,
            _ if line.get("type").is_some() => messages.push(line),
            _ => {}
        }
    }
    let spoken = |message: &&Value| message["type"] == "user" || message["type"] == "gemini";
    let mut spoken = messages.iter().filter(spoken).peekable();
    spoken.peek()?;
    Some(spoken.any(|message| message.to_string().contains(words)))
}

/// Resumes a session that has ended, to tell it of a job; only if the user has allowed it (`resume`) and
/// nothing owns the session.
pub(crate) fn wake(waking: &Waking<'_>) -> Woken {
    let session = waking.session;
    let plain = |letter: char| letter.is_ascii_hexdigit() || letter == '-';
    if session.len() != 36 || !session.chars().all(plain) {
        return Woken::Later("no hook has told which session this is".to_owned());
    }
    let settings = super::settings();
    if !settings.resume {
        return Woken::Later("its hooks tell it when the session goes on".to_owned());
    }
    let stores = Store::readers(&settings, |name| std::env::var_os(name));
    if let Some(why) = owner(&stores, session) {
        return Woken::Later(why);
    }
    let known = &waking.launch.wake;
    let Some(dir) = known.get(DIRECTORY).map(PathBuf::from) else {
        return Woken::Failed("it is not known where the session was started".to_owned());
    };
    if !dir.is_dir() {
        return Woken::Failed(format!("'{}' is gone", dir.display()));
    }
    let mut command = Command::new("gemini");
    command.args(["--resume", session]).current_dir(dir);
    for name in super::OF_A_SESSION {
        command.env_remove(name);
    }
    if let Some(home) = known.get(HOME) {
        command.env(HOME, home);
    }
    // Through its stdin: a command line is for everybody to read.
    match run::keep(
        &command,
        &format!("[agent-sh] {}\n", waking.notice.trim_end()),
    ) {
        Ok(()) => Woken::Told,
        Err(why) => Woken::Failed(format!("gemini --resume: {why}")),
    }
}

/// Why the session must be left alone, if so.
fn owner(stores: &[Store], session: &str) -> Option<String> {
    let open = stores
        .iter()
        .flat_map(Store::clients)
        .any(|client| client.sessions.iter().any(|served| served == session) && client.may_live());
    if open {
        return Some("the session is open".to_owned());
    }
    super::named_by_a_process(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new(Path::new("/d/bin/agent-sh"))
    }

    #[test]
    fn the_hooks_come_and_go() {
        for text in [
            "",
            "{}\n",
            "{\n  // mine\n  \"ui\": { \"theme\": \"x\" }\n}\n",
            "{\"hooks\": {\"AfterAgent\": [ {\"hooks\": [{\"type\": \"command\", \"command\": \"beep\"}]} ]}}",
        ] {
            let added = settings().add(text).unwrap();
            assert_eq!(added.matches(" hook gemini ").count(), 5, "{added}");
            assert_eq!(settings().add(&added).unwrap(), added, "twice, {text:?}");
            let stripped = settings().strip(&added).unwrap();
            let plain = |text: &str| {
                let document = Document::parse(text).unwrap();
                json::plain(&document.object().clone().into())
            };
            assert_eq!(plain(&stripped), plain(text), "{text:?}: {stripped:?}");
            assert_eq!(settings().strip(text).unwrap(), text);
        }
        let all = settings().alone();
        let hook = &all["hooks"]["AfterAgent"][0]["hooks"][0];
        assert_eq!(hook["command"], "/d/bin/agent-sh hook gemini AfterAgent");
    }

    #[test]
    fn the_example_is_what_setup_writes() {
        let example = Document::parse(include_str!("../../../shims/gemini/settings.json")).unwrap();
        let example = json::plain(&example.object().clone().into()).unwrap();
        assert_eq!(example, Settings::new(Path::new("agent-sh")).alone());
    }

    #[test]
    fn hooks_that_are_off_are_seen() {
        for (text, why) in [
            ("{}", None),
            ("{\"hooksConfig\": {\"enabled\": true}}", None),
            (
                "{\"hooksConfig\": {\"enabled\": false}}",
                Some("hooksConfig.enabled"),
            ),
            (
                "{\"hooksConfig\": {\"disabled\": [\"x\", \"agent-sh\"]}}",
                Some("hooksConfig.disabled"),
            ),
            ("{\"hooksConfig\": 3}", None),
        ] {
            assert_eq!(turned_off(text), why, "{text}");
        }
    }

    #[test]
    fn words_that_left_the_conversation_are_missed() {
        let said = r#"{"type":"user","content":[{"text":"Background job a1 finished"}]}"#;
        let other = r#"{"type":"gemini","content":"well"}"#;
        let shown = r#"{"type":"info","content":"Background job a1 finished"}"#;
        let time = r#"{"$set":{"lastUpdated":"2026-01-01"}}"#;
        let left = format!(r#"{{"$set":{{"messages":[{other}]}}}}"#);
        for (lines, found) in [
            (vec![other, said, time], Some(true)),
            (vec![other, shown], Some(false)),
            (vec![other, said, &left, shown, time], Some(false)),
            (vec![&left, said], Some(true)),
            (vec![time], None),
            (vec!["not JSON"], None),
            (vec![], None),
        ] {
            let text = lines.join("\n");
            assert_eq!(is_in_messages(&text, "job a1 "), found, "{text}");
        }
    }

    #[test]
    fn a_plain_run_is_told_from_one_that_stays() {
        for (line, wanted) in [
            ("node /usr/bin/gemini", None),
            ("node --flag /usr/bin/gemini -p go", Some(false)),
            ("node gemini --prompt=go --yolo", Some(false)),
            ("node gemini -i go", Some(true)),
            ("node gemini --acp", Some(true)),
            ("node gemini --experimental-acp", Some(true)),
            ("node gemini --resume latest", None),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(stays(&words), wanted, "{line}");
        }
    }
}

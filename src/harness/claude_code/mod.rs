//! Claude Code and its Agent SDK: the settings that make it call us.
//!
//! The shell counts only if its path contains `bash` or `zsh`, so it is a link called `agent-sh-bash`.
//! The hooks:
//!
//! * `PostToolUse` and `PostToolUseFailure` of Bash, `Stop` and `SessionStart` start a waiter in the
//!   background, one per session. When a job has ended it prints the notice and exits with 2, which
//!   wakes the session, idle or in the middle of a turn.
//! * `Stop` holds a plain `claude -p`, which nothing can wake, until a job has ended, for a limited time.
//! * `SessionStart` and `UserPromptSubmit` tell what ended while nobody listened.
//! * `SessionEnd` ends the session's jobs, if the user wants it so.

pub(crate) mod hook;
mod mcp;
pub(crate) mod setup;
pub(crate) mod wake;

use std::ffi::OsString;
use std::path::Path;

use jsonc_parser::cst::CstObject;
use serde_json::{Value, json};

use crate::harness::client::Client;
use crate::harness::edit::Edit;
use crate::harness::edit::hooks::{self, Group, Hooks};
use crate::harness::edit::json::{self, Document};
use crate::sys::proc;

pub(crate) const NAME: &str = "claude-code";
const SHELL_KEY: &str = "CLAUDE_CODE_SHELL";

/// Far more than any job takes, and less than the client's timers can hold (2^31 ms).
const WAIT_LIMIT: u32 = 7 * 86_400;
/// For what answers at once.
const QUICK_LIMIT: u32 = 10;

/// What the user is shown, and what the model reads in front of the notice.
const SUMMARY: &str = "agent-sh: background job finished";
const PREFIX: &str = "[agent-sh]";

/// The parts of a settings file that are ours.
pub(crate) struct Settings {
    /// The link that the client takes for its shell.
    shell: String,
    hooks: Hooks,
}

impl Settings {
    /// `shell` and `program` are paths that stay: links of ours.
    pub(crate) fn new(shell: &Path, program: &Path) -> Self {
        let command = |event: &str| hooks::command(program, NAME, event);
        let quick = |event: &str| json!({ "type": "command", "command": command(event), "timeout": QUICK_LIMIT });
        let waiter = || {
            json!({
                "type": "command", "command": command("Wait"), "timeout": WAIT_LIMIT,
                "async": true, "asyncRewake": true, "rewakeMessage": PREFIX, "rewakeSummary": SUMMARY,
            })
        };
        let holding =
            json!({ "type": "command", "command": command("Stop"), "timeout": WAIT_LIMIT });
        let of_bash = || json!({ "matcher": "Bash", "hooks": [waiter()] });
        let group = |event, value| Group { event, value };
        let groups = vec![
            group(
                "SessionStart",
                json!({ "hooks": [quick("SessionStart"), waiter()] }),
            ),
            group(
                "UserPromptSubmit",
                json!({ "hooks": [quick("UserPromptSubmit")] }),
            ),
            group("PostToolUse", of_bash()),
            group("PostToolUseFailure", of_bash()),
            group("Stop", json!({ "hooks": [holding, waiter()] })),
            group("SessionEnd", json!({ "hooks": [quick("SessionEnd")] })),
        ];
        Self {
            shell: shell.to_string_lossy().into_owned(),
            hooks: Hooks::new(NAME, groups),
        }
    }

    /// As a settings file of its own.
    pub(crate) fn alone(&self) -> Value {
        json!({ "env": { SHELL_KEY: self.shell }, "hooks": self.hooks.alone() })
    }

    fn add_shell(&self, root: &CstObject) -> Result<(), String> {
        let env = json::object_at(root, "env", "env")?;
        let taken = json::text_at(&env, SHELL_KEY).filter(|old| !super::is_our_shell(old));
        if let Some(old) = taken {
            return Err(format!("'env.{SHELL_KEY}' in it is already '{old}'"));
        }
        json::set(&env, SHELL_KEY, &Value::String(self.shell.clone()));
        Ok(())
    }
}

impl Edit for Settings {
    fn add(&self, text: &str) -> Result<String, String> {
        let document = Document::parse(text)?;
        let root = document.object();
        self.add_shell(root)?;
        self.hooks.add(root)?;
        Ok(document.text())
    }

    fn strip(&self, text: &str) -> Result<String, String> {
        let document = Document::parse(text)?;
        let root = document.object();
        let mut changed = false;
        if let Some(env) = root.object_value("env")
            && json::text_at(&env, SHELL_KEY).is_some_and(|old| super::is_our_shell(&old))
        {
            changed |= json::unset(&env, SHELL_KEY);
            json::unset_empty(root, "env");
        }
        changed |= self.hooks.strip(root);
        Ok(document.stripped(text, changed))
    }

    fn is_blank(&self, text: &str) -> bool {
        json::is_empty_object(text)
    }
}

/// Whether a hook in the background can wake this session. It can in the TUI, and where a program feeds
/// the session (`--input-format stream-json`, which the SDK uses) as long as it may still feed it. A
/// plain `claude -p` ends with its turn. Where neither shows, holding the turn for a while is the smaller
/// harm than a notice that gets lost.
pub(crate) fn can_be_woken(client: &Client, env: impl Fn(&str) -> Option<OsString>) -> bool {
    let is = |name: &str, value: &str| env(name).is_some_and(|found| found == value);
    let words = proc::cmdline(client.pid).unwrap_or_default();
    if is_fed(&words) {
        return !client.has_lost_its_input();
    }
    match env("CLAUDE_CODE_SESSION_ATTENDED") {
        Some(_) => is("CLAUDE_CODE_SESSION_ATTENDED", "1"),
        None => is("CLAUDE_CODE_ENTRYPOINT", "cli"),
    }
}

/// Whether the client was started to be fed.
fn is_fed(words: &[OsString]) -> bool {
    let mut words = words.iter().map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        match word.strip_prefix("--input-format") {
            Some("") => return words.next().is_some_and(|value| value == "stream-json"),
            Some("=stream-json") => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonc_parser::cst::CstNode;

    fn settings() -> Settings {
        Settings::new(
            Path::new("/d/bin/agent-sh-bash"),
            Path::new("/d/bin/agent-sh"),
        )
    }

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn an_empty_file_gets_all_of_it() {
        for text in ["", "{}", "  \n", "{}\n", "{\n}\n"] {
            let added = settings().add(text).unwrap();
            assert_eq!(value(&added), settings().alone(), "{text:?}");
            assert_eq!(settings().add(&added).unwrap(), added, "twice, {text:?}");
            let stripped = settings().strip(&added).unwrap();
            assert!(settings().is_blank(&stripped), "{text:?}: {stripped:?}");
        }
    }

    #[test]
    fn what_is_there_stays() {
        let text = "{\n    // mine\n    \"model\": \"opus\", /* x */\n    \"hooks\": {\n        \"Stop\": [\n            { \"hooks\": [ { \"type\": \"command\", \"command\": \"say done\" } ] }\n        ]\n    },\n    \"env\": {\n        \"A\": \"1\"\n    },\n    \"unknown\": [1, 2,   3],\n}\n";
        let added = settings().add(text).unwrap();
        for part in [
            "// mine",
            "/* x */",
            "{ \"hooks\": [ { \"type\": \"command\", \"command\": \"say done\" } ] }",
            "[1, 2,   3]",
            "\"A\": \"1\"",
        ] {
            assert!(added.contains(part), "{part}: {added}");
        }
        let parsed = Document::parse(&added).unwrap();
        let all = json::plain(&CstNode::from(parsed.object().clone())).unwrap();
        assert_eq!(all["hooks"]["Stop"].as_array().unwrap().len(), 2);
        assert_eq!(all["env"]["CLAUDE_CODE_SHELL"], "/d/bin/agent-sh-bash");
        assert_eq!(settings().add(&added).unwrap(), added);
        assert_eq!(settings().strip(&added).unwrap(), text);
    }

    #[test]
    fn an_older_or_moved_setup_is_replaced() {
        let moved = Settings::new(
            Path::new("/old place/agent-sh-zsh"),
            Path::new("/old place/agent-sh"),
        );
        let old = moved.add("{\"a\": 1}").unwrap();
        let added = settings().add(&old).unwrap();
        assert!(!added.contains("/old place"), "{added}");
        let mut wanted = settings().alone();
        wanted["a"] = json!(1);
        assert_eq!(value(&added), wanted);
    }

    #[test]
    fn a_hook_of_the_user_in_our_group_stays() {
        let mut all = settings().alone();
        all["hooks"]["Stop"][0]["hooks"]
            .as_array_mut()
            .unwrap()
            .push(json!({"type": "command", "command": "beep"}));
        let stripped = value(&settings().strip(&all.to_string()).unwrap());
        assert_eq!(
            stripped,
            json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "beep"}]}]}})
        );
    }

    #[test]
    fn what_cannot_be_changed_is_refused() {
        for (text, why) in [
            ("{", "no valid JSON: line 1"),
            ("[]", "no JSON object"),
            ("{\"env\": 3}", "'env' in it is no object"),
            ("{\"hooks\": []}", "'hooks' in it is no object"),
            (
                "{\"hooks\": {\"Stop\": {}}}",
                "'hooks.Stop' in it is no list",
            ),
            (
                "{\"env\": {\"CLAUDE_CODE_SHELL\": \"/bin/zsh\"}}",
                "'env.CLAUDE_CODE_SHELL' in it is already '/bin/zsh'",
            ),
        ] {
            let error = settings().add(text).unwrap_err();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }

    #[test]
    fn marks_and_line_ends_stay() {
        let text = "\u{feff}{\r\n\t\"a\": 1\r\n}\r\n";
        let added = settings().add(text).unwrap();
        assert!(added.starts_with('\u{feff}'));
        assert_eq!(
            added.matches('\n').count(),
            added.matches("\r\n").count(),
            "{added:?}"
        );
        assert_eq!(settings().strip(&added).unwrap(), text);
    }

    #[test]
    fn a_fed_client_is_told_from_a_plain_one() {
        for (line, fed) in [
            ("claude", false),
            ("claude -p go", false),
            ("claude -p --input-format stream-json --verbose", true),
            ("claude --input-format=stream-json -p", true),
            ("claude -p --input-format text", false),
            ("claude -p --input-format", false),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(is_fed(&words), fed, "{line}");
        }
    }
}

//! OpenCode: its `shell` setting, and a plugin that gives commands the session's id and tells the session
//! of ends from within, where neither port nor password is needed.

pub(crate) mod hook;
pub(crate) mod setup;

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use serde_json::{Value, json};

use crate::caller::ABOVE;
use crate::harness::edit::Edit;
use crate::harness::edit::json::{self, Document};
use crate::harness::edit::whole::Whole;
use crate::notify::agent::{Waking, Woken};
use crate::notify::http::{Url, post_json};
use crate::sys::{listen, proc, session};

pub(crate) const NAME: &str = "opencode";
const SCHEMA: &str = "https://opencode.ai/config.json";
const PLUGIN: &str = include_str!("../../../shims/opencode/agent-sh.js");
const ATTEMPTS: u32 = 3;
const LIMIT: Duration = Duration::from_secs(4);
/// How our plugin begins, in this version and in others.
const MARK: &str = "// agent-sh: made by 'agent-sh setup opencode'";

/// The part of its configuration that is ours.
pub(crate) struct Config {
    shell: String,
}

impl Config {
    pub(crate) fn new(shell: &Path) -> Self {
        Self {
            shell: shell.to_string_lossy().into_owned(),
        }
    }

    pub(crate) fn alone(&self) -> Value {
        json!({ "$schema": SCHEMA, "shell": self.shell })
    }
}

impl Edit for Config {
    fn add(&self, text: &str) -> Result<String, String> {
        let document = Document::parse(text)?;
        let root = document.object();
        if root.properties().is_empty() {
            json::set(root, "$schema", &json!(SCHEMA));
        }
        match json::text_at(root, "shell") {
            Some(old) if !super::is_our_shell(&old) => {
                return Err(format!("'shell' in it is already '{old}'"));
            }
            _ => json::set(root, "shell", &json!(self.shell)),
        }
        Ok(document.text())
    }

    fn strip(&self, text: &str) -> Result<String, String> {
        let document = Document::parse(text)?;
        let root = document.object();
        if !json::text_at(root, "shell").is_some_and(|old| super::is_our_shell(&old)) {
            return Ok(text.to_owned());
        }
        json::unset(root, "shell");
        Ok(document.text())
    }

    fn is_blank(&self, text: &str) -> bool {
        json::is_empty_object(text)
            || Document::parse(text).is_ok_and(|document| {
                let root = document.object();
                root.properties().len() == 1
                    && json::text_at(root, "$schema").as_deref() == Some(SCHEMA)
            })
    }
}

/// The plugin; `program` is a link that stays.
pub(crate) fn plugin(program: &Path) -> Whole {
    let program = json!(program.to_string_lossy()).to_string();
    Whole::new(MARK, PLUGIN.replace("\"@PROGRAM@\"", &program))
}

/// Wakes a session through the server's own door. The plugin is the better way, and where it waits the
/// sink leaves it to it; this is for servers without it. The first answer of a server can hang, so each
/// attempt is short.
pub(crate) fn wake(waking: &Waking<'_>) -> Woken {
    let known = &waking.launch.wake;
    let address = |name: &str| known.get(name).filter(|value| !value.is_empty()).cloned();
    let base = address("OPENCODE_SERVER_URL")
        .or_else(|| address("OPENCODE_URL"))
        .or_else(|| address("OPENCODE_PORT").map(|port| format!("http://127.0.0.1:{port}")));
    let Some(base) = base else {
        return Woken::Later(
            "the address of its server is not known; 'agent-sh setup opencode' helps".to_owned(),
        );
    };
    let session = address("OPENCODE_SESSION_ID").unwrap_or_else(|| waking.session.to_owned());
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    if session.is_empty() || !session.chars().all(plain) {
        return Woken::Failed(format!("'{session}' is no session of OpenCode"));
    }
    let base = base.trim_end_matches('/');
    let url: Url = match format!("{base}/session/{session}/prompt_async").parse() {
        Ok(url) => url,
        Err(why) => return Woken::Failed(why),
    };
    if let Err(why) = is_own_server(&url, known.get(ABOVE)) {
        return Woken::Later(format!("{} {why}", url.origin()));
    }
    let text = format!("[agent-sh] {}", waking.notice.trim_end());
    let body = json!({ "parts": [{ "type": "text", "text": text }] }).to_string();
    let authorization = authorization();
    let mut why = String::new();
    for _ in 0..ATTEMPTS {
        match post_json(&url, authorization.as_deref(), &body, LIMIT) {
            Ok(200..=299) => return Woken::Told,
            Ok(status) => return Woken::Failed(format!("{} answered {status}", url.origin())),
            Err(reason) => why = reason,
        }
    }
    Woken::Failed(why)
}

/// Whether this is the server of the session itself: on this machine, and everything that listens on its
/// port belongs to processes that were above the command when the job started. An address alone can come
/// from anywhere, and both the notice and the password would go there.
fn is_own_server(url: &Url, above: Option<&String>) -> Result<(), &'static str> {
    let port = url.port_here().ok_or("is not on this machine")?;
    let who = above.map_or("", String::as_str).split_whitespace();
    let above: Vec<i32> = who
        .filter_map(|word| {
            let (pid, starttime) = word.split_once('.')?;
            let pid = pid.parse().ok()?;
            (proc::starttime(pid) == Some(starttime.parse().ok()?)).then_some(pid)
        })
        .collect();
    let listening = listen::sockets(session::pid(), port);
    if listening.is_empty() {
        return Err("does not answer");
    }
    let held: Vec<u64> = above.iter().copied().flat_map(proc::sockets_of).collect();
    if listening.iter().all(|socket| held.contains(socket)) {
        Ok(())
    } else {
        Err("is not the server of the session that started the job")
    }
}

/// The password, which is only ever in the environment.
fn authorization() -> Option<String> {
    let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let password = text("OPENCODE_SERVER_PASSWORD")?;
    let user = text("OPENCODE_SERVER_USERNAME").unwrap_or_else(|| NAME.to_owned());
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    Some(format!("Basic {pair}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::new(Path::new("/d/agent-sh-bash"))
    }

    #[test]
    fn the_shell_comes_and_goes() {
        for (text, blank) in [
            ("", true),
            ("{}", true),
            ("{\n  // mine\n  \"theme\": \"x\"\n}\n", false),
        ] {
            let added = config().add(text).unwrap();
            assert!(added.contains("\"shell\": \"/d/agent-sh-bash\""), "{added}");
            assert_eq!(config().add(&added).unwrap(), added);
            let stripped = config().strip(&added).unwrap();
            assert_eq!(config().is_blank(&stripped), blank, "{stripped}");
            assert!(blank || stripped == text, "{stripped}");
        }
        assert!(
            config()
                .add("{\"shell\": \"/bin/fish\"}")
                .unwrap_err()
                .contains("/bin/fish")
        );
        assert_eq!(
            config().strip("{\"shell\": \"/bin/fish\"}").unwrap(),
            "{\"shell\": \"/bin/fish\"}"
        );
    }

    #[test]
    fn the_plugin_names_the_program_and_is_known_again() {
        let plugin = plugin(Path::new("/a \"b\"/agent-sh"));
        let text = plugin.add("").unwrap();
        assert!(
            text.starts_with(MARK) && text.contains(r#"const PROGRAM = "/a \"b\"/agent-sh""#),
            "{text}"
        );
        assert!(!text.contains("@PROGRAM@"));
        assert_eq!(plugin.strip(&text).unwrap(), "");
        assert!(plugin.add("export const Mine = 1").is_err());
    }
}

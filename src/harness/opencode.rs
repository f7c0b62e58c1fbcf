//! OpenCode: its `shell` setting, and a plugin that gives commands the session's id and tells the session
//! of ends from within, where neither port nor password is needed.

use std::path::Path;

use serde_json::{Value, json};

use super::edit::Edit;
use super::json::{self, Document};

pub(crate) const NAME: &str = "opencode";
const SCHEMA: &str = "https://opencode.ai/config.json";
const PLUGIN: &str = include_str!("../../shims/opencode/agent-sh.js");
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

/// The plugin: a file that is ours as a whole.
pub(crate) struct Plugin {
    text: String,
}

impl Plugin {
    pub(crate) fn new(program: &Path) -> Self {
        let program = json!(program.to_string_lossy()).to_string();
        Self {
            text: PLUGIN.replace("\"@PROGRAM@\"", &program),
        }
    }
}

impl Edit for Plugin {
    fn add(&self, text: &str) -> Result<String, String> {
        if text.is_empty() || text.starts_with(MARK) {
            Ok(self.text.clone())
        } else {
            Err("a file that is not ours is there".to_owned())
        }
    }

    fn strip(&self, text: &str) -> Result<String, String> {
        let ours = text.starts_with(MARK);
        Ok(if ours { String::new() } else { text.to_owned() })
    }

    fn is_blank(&self, text: &str) -> bool {
        text.is_empty()
    }
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
        let plugin = Plugin::new(Path::new("/a \"b\"/agent-sh"));
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

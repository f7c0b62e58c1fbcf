//! Our entry in a client's list of MCP servers.
//!
//! Claude Code keeps those of a project in `.mcp.json`, and a user's own in `~/.claude.json`: for all projects, or below
//! `projects` for one.

use std::path::Path;

use jsonc_parser::cst::CstObject;
use serde_json::{Value, json};

use crate::harness::edit::Edit;
use crate::harness::edit::json::{self, Document};

/// The name that the client knows the server by.
const NAME: &str = "agent-sh";
const LIST: &str = "mcpServers";

pub(crate) struct Registration {
    /// The keys that lead to the object with the list.
    way: Vec<String>,
    server: Value,
}

impl Registration {
    /// For everybody who uses the file.
    pub(crate) fn new(program: &Path) -> Self {
        let program = program.to_string_lossy();
        Self {
            way: Vec::new(),
            server: json!({ "type": "stdio", "command": program, "args": ["mcp"], "env": {} }),
        }
    }

    /// For one project, in a user's file.
    pub(crate) fn of_project(program: &Path, project: &Path) -> Self {
        let project = project.to_string_lossy().into_owned();
        Self {
            way: vec!["projects".to_owned(), project],
            ..Self::new(program)
        }
    }

    /// As a file of its own.
    pub(crate) fn alone(&self) -> Value {
        let list = json!({ LIST: { NAME: self.server } });
        let outwards = self.way.iter().rev();
        outwards.fold(list, |inner, key| json!({ key.as_str(): inner }))
    }
}

/// Whether a server is one that a setup of ours put there: a program of our name, called for this.
fn is_ours(servers: &CstObject) -> bool {
    let server = servers.get(NAME).and_then(|found| found.value());
    let Some(server) = server.as_ref().and_then(json::plain) else {
        return false;
    };
    let command = server["command"].as_str().map(Path::new);
    let named = command.and_then(Path::file_name);
    named.is_some_and(|name| name == NAME) && server["args"] == json!(["mcp"])
}

impl Edit for Registration {
    fn add(&self, text: &str) -> Result<String, String> {
        let document = Document::parse(text)?;
        let mut object = document.object().clone();
        for key in &self.way {
            object = json::object_at(&object, key, key)?;
        }
        let servers = json::object_at(&object, LIST, LIST)?;
        if servers.get(NAME).is_some() && !is_ours(&servers) {
            return Err(format!("'{LIST}.{NAME}' in it is another server already"));
        }
        json::set(&servers, NAME, &self.server);
        Ok(document.text())
    }

    fn strip(&self, text: &str) -> Result<String, String> {
        let document = Document::parse(text)?;
        let mut way = vec![document.object().clone()];
        for key in &self.way {
            let Some(inner) = way.last().and_then(|object| object.object_value(key)) else {
                return Ok(text.to_owned());
            };
            way.push(inner);
        }
        let Some((object, servers)) = way.last().and_then(|object| {
            let servers = object.object_value(LIST)?;
            Some((object, servers))
        }) else {
            return Ok(text.to_owned());
        };
        let changed = is_ours(&servers) && json::unset(&servers, NAME);
        if changed {
            json::unset_empty(object, LIST);
            for (outer, key) in way.iter().zip(&self.way).rev() {
                json::unset_empty(outer, key);
            }
        }
        Ok(document.stripped(text, changed))
    }

    fn is_blank(&self, text: &str) -> bool {
        json::is_empty_object(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [Registration; 2] {
        let program = Path::new("/d/bin/agent-sh");
        [
            Registration::new(program),
            Registration::of_project(program, Path::new("/p/a b")),
        ]
    }

    #[test]
    fn what_is_there_stays() {
        for registration in all() {
            for text in [
                "",
                "{}",
                "{\n  \"mcpServers\": {\n    \"x\": { \"command\":   \"y\" }\n  },\n  \"projects\": {\n    \"/p/a b\": {\n      \"k\": 1\n    }\n  }\n}\n",
            ] {
                let added = registration.add(text).unwrap();
                assert_eq!(registration.add(&added).unwrap(), added);
                let value: Value = serde_json::from_str(&added).unwrap();
                let wanted = registration.alone();
                let pointer = match registration.way.is_empty() {
                    true => "/mcpServers/agent-sh".to_owned(),
                    false => "/projects/~1p~1a b/mcpServers/agent-sh".to_owned(),
                };
                assert_eq!(value.pointer(&pointer), wanted.pointer(&pointer), "{added}");
                let stripped = registration.strip(&added).unwrap();
                match text.len() {
                    0..3 => assert!(registration.is_blank(&stripped), "{stripped}"),
                    _ => assert_eq!(stripped, text),
                }
            }
        }
    }

    #[test]
    fn another_server_of_the_name_is_left_alone() {
        let [registration, _] = all();
        for text in [
            "{\"mcpServers\": {\"agent-sh\": {\"command\": \"/x/other\", \"args\": [\"mcp\"]}}}",
            "{\"mcpServers\": {\"agent-sh\": {\"type\": \"http\", \"url\": \"https://x\"}}}",
        ] {
            assert!(
                registration
                    .add(text)
                    .unwrap_err()
                    .contains("another server")
            );
            assert_eq!(registration.strip(text).unwrap(), text);
        }
        let error = registration.add("{\"mcpServers\": []}").unwrap_err();
        assert!(error.contains("no object"), "{error}");
    }
}

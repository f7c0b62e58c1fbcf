//! Hooks of ours in the settings of a harness: `"hooks": { "EVENT": [ { "hooks": [ … ] } ] }`, a form that
//! Claude Code and Gemini CLI share.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use jsonc_parser::cst::{CstArray, CstNode, CstObject};
use serde_json::{Value, json};

use crate::harness::edit::json;
use crate::text::quote;

const KEY: &str = "hooks";

/// All of ours in one file.
pub(crate) struct Hooks {
    harness: &'static str,
    groups: Vec<Group>,
}

/// One entry of `hooks.EVENT`.
pub(crate) struct Group {
    pub(crate) event: &'static str,
    pub(crate) value: Value,
}

/// The command of a hook; `program` is a path that stays.
pub(crate) fn command(program: &Path, harness: &str, event: &str) -> String {
    let program = quote(program.as_os_str().as_bytes());
    format!("{program} hook {harness} {event}")
}

impl Hooks {
    pub(crate) fn new(harness: &'static str, groups: Vec<Group>) -> Self {
        Self { harness, groups }
    }

    /// As the value of `hooks` in a file that has no others.
    pub(crate) fn alone(&self) -> Value {
        let hooks: serde_json::Map<String, Value> = self
            .groups
            .iter()
            .map(|group| (group.event.to_owned(), json!([group.value])))
            .collect();
        Value::Object(hooks)
    }

    /// Puts them in; what is there of an older setup is replaced.
    pub(crate) fn add(&self, root: &CstObject) -> Result<(), String> {
        let hooks = json::object_at(root, KEY, KEY)?;
        for group in &self.groups {
            let path = format!("{KEY}.{}", group.event);
            let groups = json::array_at(&hooks, group.event, &path)?;
            let mut found = false;
            for node in self.ours_in(&groups) {
                if !found && json::plain(&node).as_ref() == Some(&group.value) {
                    found = true;
                } else {
                    self.strip_group(node);
                }
            }
            if !found {
                groups.append(json::input(&group.value));
            }
        }
        Ok(())
    }

    /// Takes them out, with whatever is empty then. `false`: there were none.
    pub(crate) fn strip(&self, root: &CstObject) -> bool {
        let Some(hooks) = root.object_value(KEY) else {
            return false;
        };
        let mut changed = false;
        let events: Vec<String> = hooks
            .properties()
            .iter()
            .filter_map(|property| property.decoded_name())
            .collect();
        for event in events {
            let Some(groups) = hooks.array_value(&event) else {
                continue;
            };
            let ours = self.ours_in(&groups);
            if ours.is_empty() {
                continue;
            }
            changed = true;
            ours.into_iter().for_each(|node| self.strip_group(node));
            json::unset_empty(&hooks, &event);
        }
        if changed {
            json::unset_empty(root, KEY);
        }
        changed
    }

    /// Whether a hook's command calls us, whatever the path.
    fn is_ours(&self, hook: &Value) -> bool {
        let command = hook["command"].as_str().unwrap_or_default();
        let call = format!(" hook {} ", self.harness);
        command
            .split_once(&call)
            .is_some_and(|(program, _)| program.trim_matches(['\'', '"']).ends_with("agent-sh"))
    }

    /// The groups of one event in which we have a hook.
    fn ours_in(&self, groups: &CstArray) -> Vec<CstNode> {
        let ours = |node: &CstNode| {
            let value = json::plain(node);
            let hooks = value.as_ref().and_then(|value| value[KEY].as_array());
            hooks.is_some_and(|hooks| hooks.iter().any(|hook| self.is_ours(hook)))
        };
        groups.elements().into_iter().filter(ours).collect()
    }

    /// Takes our hooks out of a group, and the group if nothing else is in it.
    fn strip_group(&self, node: CstNode) {
        let hooks = node.as_object().and_then(|group| group.array_value(KEY));
        let Some(hooks) = hooks else { return };
        let is_ours = |hook: &CstNode| json::plain(hook).is_some_and(|hook| self.is_ours(&hook));
        let (ours, others): (Vec<_>, Vec<_>) = hooks.elements().into_iter().partition(is_ours);
        if others.is_empty() {
            node.remove();
        } else {
            ours.into_iter().for_each(CstNode::remove);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_commands_are_known_again() {
        let hooks = Hooks::new("claude-code", Vec::new());
        for (command, ours) in [
            ("/x/agent-sh hook claude-code Stop", true),
            ("'/a b/agent-sh' hook claude-code Wait", true),
            ("/x/other hook claude-code Stop", false),
            ("/x/agent-sh hook codex Stop", false),
            ("echo agent-sh", false),
        ] {
            assert_eq!(
                hooks.is_ours(&json!({ "command": command })),
                ours,
                "{command}"
            );
        }
    }
}

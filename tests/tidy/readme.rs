//! The README's commands exist.

use std::fs;

use super::root;
use crate::support::{Sandbox, stands_in};

/// The lines of the README's code blocks.
fn commands() -> Vec<String> {
    let text = fs::read_to_string(root().join("README.md")).expect("there is a README.md");
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if inside {
            found.push(line.trim_start_matches("$ ").to_owned());
        }
    }
    found
}

#[test]
fn the_test_command_is_named() {
    let commands = commands();
    assert!(
        commands.iter().any(|line| line.starts_with("tests/run")),
        "{commands:#?}"
    );
}

/// Every `agent-sh VERB` of a code block is a verb that has help.
#[test]
fn every_verb_exists() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut checked = 0;
    for line in commands() {
        let mut words = line
            .split_whitespace()
            .skip_while(|word| !word.ends_with("agent-sh"));
        let verb = words.nth(1).unwrap_or("-");
        let word = verb.chars().all(|c| c.is_ascii_lowercase());
        if !word {
            continue;
        }
        let help = sandbox.agent_sh([verb, "--help"]);
        assert!(help.succeeded(), "{line}: {help:?}");
        checked += 1;
    }
    assert!(checked > 0, "the README shows no verb");
}

//! `setup claude-code --mcp`: registered, and taken back byte for byte.

use std::fs;

use serde_json::{Value, json};

use super::sandbox;
use crate::support::Sandbox;

#[track_caller]
fn setup(sandbox: &Sandbox, args: &[&str]) -> String {
    let words = ["setup", "claude-code"].iter().chain(args);
    let ended = sandbox.call("agent-sh").args(words).run();
    assert!(ended.succeeded(), "{ended:?}");
    ended.errors()
}

#[test]
fn each_scope_has_its_file() {
    let text = "{ \"mcpServers\": {\"x\": {\"command\":\"y\"}} ,\r\n\t\"numStartups\": 3}";
    for (scope, file) in [
        (None, "home/.claude.json"),
        (Some("--local"), "home/.claude.json"),
        (Some("--project"), "work/.mcp.json"),
    ] {
        let Some(sandbox) = sandbox() else { return };
        let path = sandbox.path(file);
        fs::write(&path, text).unwrap();
        let args = |more: &[&'static str]| -> Vec<&str> {
            scope.iter().copied().chain(more.to_vec()).collect()
        };
        // Only on request.
        setup(&sandbox, &args(&[]));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        setup(&sandbox, &args(&["--mcp", "--print"]));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        setup(&sandbox, &args(&["--mcp"]));
        let added: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let servers = match scope {
            Some("--local") => &added["projects"][sandbox.work().to_str().unwrap()]["mcpServers"],
            _ => &added["mcpServers"],
        };
        let server = &servers["agent-sh"];
        assert_eq!(server["args"], json!(["mcp"]), "{added}");
        let help = sandbox
            .real_call("sh")
            .c(format!("{} mcp --help", server["command"]))
            .run();
        assert!(help.text().contains("list_jobs"), "{help:?}");
        assert_eq!(added["mcpServers"]["x"]["command"], "y");
        setup(&sandbox, &args(&["--mcp"]));
        setup(&sandbox, &args(&["--undo"]));
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{scope:?}");
    }
}

#[test]
fn a_file_that_was_not_there_is_gone_again() {
    let Some(sandbox) = sandbox() else { return };
    for (args, file) in [
        (&["--mcp"][..], "home/.claude.json"),
        (&["--mcp", "--project"], "work/.mcp.json"),
    ] {
        setup(&sandbox, args);
        assert!(sandbox.path(file).exists());
        let args: Vec<&str> = args[1..].iter().copied().chain(["--undo"]).collect();
        setup(&sandbox, &args);
        assert!(!sandbox.path(file).exists(), "{file}");
    }
}

/// The client writes its own file all the time: only our entry leaves.
#[test]
fn of_an_edited_file_our_entry_leaves() {
    let Some(sandbox) = sandbox() else { return };
    let path = sandbox.path("home/.claude.json");
    fs::write(&path, "{\n  \"numStartups\": 1\n}\n").unwrap();
    setup(&sandbox, &["--mcp"]);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace("\"numStartups\": 1", "\"numStartups\": 2"),
    )
    .unwrap();
    setup(&sandbox, &["--undo"]);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\n  \"numStartups\": 2\n}\n"
    );
}

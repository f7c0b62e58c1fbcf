//! `shims/claude-code/reconcile.py` on transcripts as the client writes them.

use serde_json::{Value, json};

use crate::support::{Sandbox, has_on_path, program};

/// What the script says of a transcript, by id.
fn reconciled(sandbox: &Sandbox, lines: &[Value]) -> Vec<(String, String, String)> {
    let path = sandbox.path("0c6e.jsonl");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, text).unwrap();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/shims/claude-code/reconcile.py"
    );
    let ran = sandbox
        .real_call("python3")
        .arg(script)
        .arg(&path)
        .env("AGENT_SH", program("agent-sh"))
        .run();
    assert!(ran.succeeded(), "{ran:?}");
    let text = ran.text();
    let said = text.lines().map(|line| {
        let said: Value = serde_json::from_str(line).unwrap();
        let word = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        (word("id"), word("kind"), word("state"))
    });
    said.collect()
}

fn call(id: &str, command: &str) -> Value {
    json!({ "message": { "content": [
        { "type": "tool_use", "id": id, "name": "Bash", "input": { "command": command } },
    ] } })
}

fn result(id: &str, text: &str) -> Value {
    json!({ "message": { "content": [
        { "type": "tool_result", "tool_use_id": id, "content": text },
    ] } })
}

fn notified(text: &str) -> Value {
    json!({ "message": { "content": text } })
}

#[test]
fn tasks_are_found_however_they_went_to_the_background() {
    if !has_on_path("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let lines = [
        call("t1", "make"),
        result("t1", "Command running in background with ID: b1"),
        call("t2", "make test"),
        result(
            "t2",
            "Command was moved to the background (ID: b2) after 120s",
        ),
    ];
    let unknown = |id: &str| (id.to_owned(), "task".to_owned(), "unknown".to_owned());
    assert_eq!(reconciled(&sandbox, &lines), [unknown("b1"), unknown("b2")]);
}

#[test]
fn one_notification_closes_all_tasks_that_it_names() {
    if !has_on_path("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    let started = |id: &str| {
        [
            call(id, "make"),
            result(id, &format!("Command running in background with ID: {id}")),
        ]
    };
    let mut lines: Vec<Value> = ["a1", "a2", "a3", "a4"]
        .iter()
        .flat_map(|id| started(id))
        .collect();
    lines.push(notified(
        "<task-notification><task-id>a1</task-id><task-id>a2</task-id><status>completed</status></task-notification>",
    ));
    lines.push(notified(
        "<task-notification><task-id>a4</task-id><status>failed</status></task-notification>",
    ));
    let left: Vec<String> = reconciled(&sandbox, &lines)
        .into_iter()
        .map(|(id, ..)| id)
        .collect();
    assert_eq!(left, ["a3"]);
}

//! What clients get wrong, and what they leave behind.

use std::io::Read;

use serde_json::json;

use super::{Client, sandbox};
use crate::support::{Status, exit_of};

#[test]
fn wrong_arguments_are_explained() {
    let Some(sandbox) = sandbox() else { return };
    let mut client = Client::new(&sandbox, None);
    client.call("start_job", &json!({"command": "sleep 600", "name": "x"}));
    for (tool, arguments, said) in [
        ("start_job", json!({}), "'command' is missing"),
        (
            "start_job",
            json!({"command": "true", "shell": "zsh"}),
            "unknown argument 'shell'",
        ),
        (
            "start_job",
            json!({"command": "true", "name": "a b"}),
            "name",
        ),
        (
            "start_job",
            json!({"command": "true", "cwd": "/nowhere/at/all"}),
            "/nowhere/at/all",
        ),
        (
            "start_job",
            json!({"command": "true", "timeout": "soon"}),
            "soon",
        ),
        ("list_jobs", json!({"all": true}), "this tool takes none"),
        ("job_logs", json!({"id": 7}), "'id' must be a string"),
        ("job_logs", json!({"id": "nope"}), "nope"),
        (
            "job_logs",
            json!({"id": "x", "cursor": "nonsense"}),
            "no cursor",
        ),
        ("job_logs", json!({"id": "x", "lines": -1}), "'lines'"),
        (
            "wait_for_job",
            json!({"id": "x", "for_output": "("}),
            "unclosed group",
        ),
        (
            "wait_for_job",
            json!({"id": "x", "for_port": 70000}),
            "port",
        ),
        (
            "wait_for_job",
            json!({"id": "x", "timeout": "never"}),
            "'timeout'",
        ),
        (
            "wait_for_job",
            json!({"id": "x", "for_port": 1, "idle": 1}),
            "cannot be used with",
        ),
        ("kill_job", json!({"id": "x", "signal": "BANG"}), "signal"),
        ("send_input", json!({"id": "x"}), "nothing to send"),
        (
            "send_input",
            json!({"id": "x", "keys": ["warp"]}),
            "no such key",
        ),
        ("send_input", json!({"id": "--all"}), "--all"),
    ] {
        let text = client.fail(tool, &arguments);
        assert!(text.contains(said), "{tool} {arguments}: {text}");
        assert!(!text.starts_with("agent-sh:"), "{text}");
    }
    let unknown = client.request("tools/call", &json!({"name": "rm_rf", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let unknown = client.request("jobs/list", &json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    assert_eq!(client.call("kill_job", &json!({"id": "x"}))["ended"], true);
    client.leave();
}

/// A wait is given up when the client says so, others are served meanwhile, and nothing of it stays.
#[test]
fn a_wait_can_be_cancelled() {
    let Some(sandbox) = sandbox() else { return };
    let mut client = Client::new(&sandbox, None);
    client.call("start_job", &json!({"command": "sleep 600", "name": "x"}));
    let wait = json!({"name": "wait_for_job", "arguments": {"id": "x", "timeout": 500}});
    let id = client.begin("tools/call", &wait);
    // Answered although the other call has not been.
    let listed = client.call("list_jobs", &json!({}));
    assert_eq!(listed["jobs"][0]["state"], "running");
    client.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "enough"},
    }));
    assert_eq!(client.call("kill_job", &json!({"id": "x"}))["ended"], true);
    client.leave();
    sandbox.assert_no_survivors();
}

/// A client that leaves in the middle of a wait takes the wait with it.
#[test]
fn nothing_waits_for_a_client_that_left() {
    let Some(sandbox) = sandbox() else { return };
    let mut client = Client::new(&sandbox, None);
    client.call("start_job", &json!({"command": "sleep 600", "name": "x"}));
    let wait = json!({"name": "wait_for_job", "arguments": {"id": "x", "timeout": 500}});
    client.begin("tools/call", &wait);
    client.call("list_jobs", &json!({}));
    client.leave();
    sandbox.agent_sh(["kill", "x"]);
    sandbox.assert_no_survivors();
}

#[test]
fn nonsense_ends_nothing() {
    let Some(sandbox) = sandbox() else { return };
    let mut client = Client::new(&sandbox, None);
    client.write("this is no JSON\n{\"jsonrpc\":\"2.0\"}\n[]\n\n\u{1b}[31m\n");
    let id = client.begin("tools/call", &json!({"name": "list_jobs", "arguments": {}}));
    // Whatever is said of the nonsense, the question is answered.
    let answer = loop {
        let message = client.next();
        if message["id"] == id {
            break message;
        }
    };
    assert_eq!(answer["result"]["structuredContent"]["jobs"], json!([]));
    client.leave();
}

/// Nothing but messages is on stdout, and a client that never speaks is no error.
#[test]
fn a_silent_client_gets_silence() {
    let Some(sandbox) = sandbox() else { return };
    let mut client = Client::silent(&sandbox, None);
    drop(client.to.take());
    assert_eq!(exit_of(&mut client.child), Status::Exited(0));
    let mut rest = String::new();
    client.from.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

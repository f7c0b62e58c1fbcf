//! What the hooks of Gemini CLI say, with a stand-in for the client: a shell of its name, which runs what it
//! is told to, hooks and commands, through the `bash` on its PATH, ours.

use serde_json::{Value, json};

use crate::support::{
    Call, Ended, Gate, Input, Sandbox, Status, job_dirs, ps_json, real, stands_in,
    wait_for_records, wait_until,
};

const SESSION: &str = "0c6e2f0a-1111-2222-3333-444455556666";
const OTHER: &str = "0c6e2f0a-7777-8888-9999-444455556666";
const EVENTS: [&str; 5] = [
    "SessionStart",
    "BeforeAgent",
    "AfterTool",
    "AfterAgent",
    "SessionEnd",
];

/// The stand-in. `words` are what the client's own command line would have. No script: one that was just
/// written cannot be run while another test forks.
fn client<'a>(sandbox: &'a Sandbox, todo: &str, words: &[&str]) -> Call<'a> {
    let program = sandbox.path("gemini");
    if !program.is_symlink() {
        std::os::unix::fs::symlink(real("bash"), &program).unwrap();
    }
    let path = format!(
        "{}:{}:/usr/bin:/bin",
        sandbox.link("").display(),
        sandbox.path("bin").display()
    );
    sandbox
        .real_call("env")
        .arg(program)
        // The last command of a text may take the shell's place; this one cannot.
        .args(["-c", &format!("{todo}:"), "gemini"])
        .args(words)
        .env("PATH", path)
        .env("GEMINI_CLI", "1")
}

/// What the stand-in does to call a hook, as the client does.
fn hook_of(session: &str, event: &str, more: &Value) -> String {
    let mut input = json!({ "session_id": session, "hook_event_name": event, "cwd": "/" });
    if let (Some(input), Some(more)) = (input.as_object_mut(), more.as_object()) {
        input.extend(more.clone());
    }
    format!("echo '{input}' | GEMINI_SESSION_ID={session} bash -c 'agent-sh hook gemini {event}'; ")
}

fn hook(event: &str) -> String {
    hook_of(SESSION, event, &Value::Null)
}

/// The same event in a client of its own.
fn call_hook(sandbox: &Sandbox, event: &str) -> Ended {
    client(sandbox, &hook(event), &["-p", "go"]).run()
}

/// What the stand-in does to start a job that waits at a gate.
fn job(gate: &Gate) -> String {
    format!(
        "bash -c '{{ read -r x < {}; echo built; exit 4; }} &'; ",
        gate.path()
    )
}

/// Starts a job in the session, and gives its id.
fn started(sandbox: &Sandbox, gate: &Gate) -> String {
    let before = ps_json(sandbox);
    let todo = hook("BeforeAgent") + &job(gate);
    let ended = client(sandbox, &todo, &[]).run();
    assert!(ended.succeeded(), "{ended:?}");
    let new = ps_json(sandbox)
        .into_iter()
        .find(|job| before.iter().all(|old| old["id"] != job["id"]));
    new.unwrap()["id"].as_str().unwrap().to_owned()
}

fn has_ended(sandbox: &Sandbox, id: &str) {
    wait_until("it has its record", || {
        ps_json(sandbox)
            .iter()
            .any(|job| job["id"] == id && job["state"] != "running")
    });
}

#[track_caller]
fn said(ended: &Ended) -> Value {
    assert!(ended.succeeded(), "{ended:?}");
    if ended.stdout.is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

fn context(ended: &Ended) -> String {
    let said = said(ended);
    let text = &said["hookSpecificOutput"]["additionalContext"];
    text.as_str().unwrap_or_default().to_owned()
}

fn fact(id: &str) -> String {
    format!("Background job {id} finished: exit 4")
}

fn clients(sandbox: &Sandbox) -> usize {
    std::fs::read_dir(sandbox.state().join("v1/clients")).map_or(0, Iterator::count)
}

/// Nothing to say, nonsense as input, a state that cannot be used: the session goes on.
#[test]
fn no_session_breaks() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    for event in EVENTS.iter().chain(&["NoSuchEvent"]) {
        let ended = call_hook(&sandbox, event);
        assert_eq!(said(&ended), Value::Null, "{event}: {ended:?}");
        assert_eq!(ended.errors(), "", "{event}");
        for input in ["not JSON", "[]", "{\"session_id\": 3}", ""] {
            let direct = sandbox
                .call("agent-sh")
                .args(["hook", "gemini", event])
                .input(Input::Text(input.as_bytes().to_vec()))
                .run();
            assert_eq!(said(&direct), Value::Null, "{event}, {input:?}: {direct:?}");
        }
        let bad = client(&sandbox, &hook(event), &[]).env("AGENT_SH_KEEP", "nonsense");
        assert_eq!(said(&bad.run()), Value::Null, "{event}");
    }
    let broken = Sandbox::new();
    std::fs::write(broken.state(), "no directory").unwrap();
    for event in EVENTS {
        assert_eq!(said(&call_hook(&broken, event)), Value::Null, "{event}");
    }
}

/// Commands do not say which conversation they belong to; the hooks do, and everybody knows then.
#[test]
fn a_job_belongs_to_the_conversation() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let (one, two, three) = (sandbox.gate(), sandbox.gate(), sandbox.gate());
    let verb = "bash -c 'agent-sh ps --json'; ";
    let todo = job(&one)
        + &hook("SessionStart")
        + &job(&two)
        + verb
        + &hook_of(OTHER, "BeforeAgent", &Value::Null)
        + &job(&three)
        + "bash -c 'agent-sh run --name direct -- true' >/dev/null; ";
    let ended = client(&sandbox, &todo, &[]).run();
    assert!(ended.succeeded(), "{ended:?}");
    let in_the_shell: Vec<Value> = serde_json::from_str(&ended.text()).unwrap();
    let sessions = |jobs: &[Value]| -> Vec<String> {
        let session = |job: &Value| job["session"].as_str().unwrap().to_owned();
        jobs.iter().map(session).collect()
    };
    assert_eq!(sessions(&in_the_shell), [SESSION], "{in_the_shell:?}");
    wait_until("all are there", || ps_json(&sandbox).len() == 4);
    let all = sessions(&ps_json(&sandbox));
    let of = |key: &str| all.iter().filter(|session| *session == key).count();
    assert_eq!((of(SESSION), of(OTHER)), (1, 2), "{all:?}");
    // Before any hook the process itself is the key.
    assert!(all.iter().any(|key| key.starts_with("gemini-")), "{all:?}");
    // A client that was killed leaves its note; one that ends does not.
    assert_eq!(clients(&sandbox), 1);
    let ends = hook("BeforeAgent") + &hook("SessionEnd");
    assert!(client(&sandbox, &ends, &[]).run().succeeded());
    assert_eq!(clients(&sandbox), 1);
    for gate in [one, two, three] {
        gate.release(1);
    }
    wait_for_records(&sandbox, 4);
}

/// Without hooks the client cannot be told, which `doctor` says in its shell.
#[test]
fn the_doctor_asks_for_hooks() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let look = "bash -c 'agent-sh doctor --json'; ";
    let session = |todo: &str| -> Value {
        let ended = client(&sandbox, todo, &[]).run();
        let all: Value = serde_json::from_slice(&ended.stdout).unwrap();
        let found = all.as_array().unwrap().iter();
        found
            .filter(|check| check["check"] == "session")
            .cloned()
            .collect()
    };
    let without = session(look)[0].to_string();
    assert!(
        without.contains("no hook has said") && without.contains("agent-sh setup gemini"),
        "{without}"
    );
    let with = session(&(hook("BeforeAgent") + look))[0].to_string();
    assert!(
        with.contains(SESSION) && with.contains("from a hook"),
        "{with}"
    );
}

/// Whoever is first tells it, and nobody again: with the prompt, a result, the start, at the turn's end.
#[test]
fn an_end_is_told_once() {
    if !stands_in() {
        return;
    }
    for first in ["SessionStart", "BeforeAgent", "AfterTool", "AfterAgent"] {
        let sandbox = Sandbox::new();
        let (gate, stays) = (sandbox.gate(), sandbox.gate());
        let id = started(&sandbox, &gate);
        let running = started(&sandbox, &stays);
        gate.release(1);
        has_ended(&sandbox, &id);
        let mut answer = said(&call_hook(&sandbox, first));
        if first == "AfterAgent" {
            // It only brings a turn, which begins with the notice. Where it did not, the next one has it.
            assert_eq!(answer["decision"], "deny", "{answer}");
            assert!(
                !answer["reason"].as_str().unwrap().contains(&id),
                "{answer}"
            );
            let todo = hook_of(SESSION, first, &json!({ "stop_hook_active": true }));
            answer = said(&client(&sandbox, &todo, &["--acp"]).run());
        }
        let text = if first == "AfterAgent" {
            assert_eq!(answer["decision"], "deny", "{answer}");
            let shown = answer["systemMessage"].as_str().unwrap();
            assert!(
                shown.starts_with(&fact(&id)) && !shown.contains('\n'),
                "{shown}"
            );
            answer["reason"].as_str().unwrap()
        } else {
            let specific = &answer["hookSpecificOutput"];
            assert_eq!(specific["hookEventName"], first, "{answer}");
            specific["additionalContext"].as_str().unwrap()
        };
        assert_eq!(text.matches(&fact(&id)).count(), 1, "{first}: {text}");
        assert_eq!(
            text.contains(&format!("- {running} (pid ")),
            first == "SessionStart",
            "{first}: {text}"
        );
        for again in ["SessionStart", "BeforeAgent", "AfterTool"] {
            let text = context(&call_hook(&sandbox, again));
            assert!(!text.contains(&id), "{first}, then {again}: {text}");
        }
        stays.release(1);
        wait_for_records(&sandbox, 2);
    }
}

/// What would be thrown away is not told: the result of a cancelled call, the context of a cleared session.
#[test]
fn nothing_is_told_to_nobody() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let id = started(&sandbox, &gate);
    gate.release(1);
    has_ended(&sandbox, &id);
    let cancelled = "Command was cancelled by user before it could complete.";
    for (event, more) in [
        (
            "AfterTool",
            json!({ "tool_response": { "llmContent": cancelled } }),
        ),
        ("SessionStart", json!({ "source": "clear" })),
    ] {
        let todo = hook_of(SESSION, event, &more);
        let ended = client(&sandbox, &todo, &[]).run();
        assert_eq!(said(&ended), Value::Null, "{event}");
    }
    let foreign = hook_of(OTHER, "BeforeAgent", &Value::Null);
    assert_eq!(said(&client(&sandbox, &foreign, &[]).run()), Value::Null);
    let text = context(&call_hook(&sandbox, "BeforeAgent"));
    assert!(text.starts_with(&fact(&id)), "{text}");
}

/// A prompt that the user cancels leaves the conversation with its notice: then it is told once more.
#[test]
fn a_notice_that_was_cancelled_comes_again() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let (gate, done) = (sandbox.gate(), sandbox.gate());
    let transcript = sandbox.path("transcript.jsonl");
    let prompt = hook_of(
        SESSION,
        "BeforeAgent",
        &json!({ "transcript_path": transcript }),
    );
    let ended = format!("read -r x < {}; ", done.path());
    // The first turn starts a job; its end goes out with the second, and the third looks for it.
    let todo =
        prompt.clone() + &job(&gate) + &ended + &prompt + "echo; " + &prompt + "echo; " + &prompt;
    for (left, times) in [("well", 2), ("Background job ID finished", 1)] {
        let running = client(&sandbox, &todo, &[]).start();
        wait_until("the job runs", || {
            ps_json(&sandbox)
                .iter()
                .any(|job| job["state"] == "running")
        });
        let jobs = ps_json(&sandbox);
        let job = jobs.iter().find(|job| job["state"] == "running").unwrap();
        let id = job["id"].as_str().unwrap();
        let message = json!({ "type": "user", "content": left.replace("ID", id) });
        std::fs::write(&transcript, format!("{message}\n")).unwrap();
        gate.release(1);
        has_ended(&sandbox, id);
        done.release(1);
        let said = running.finish();
        assert_eq!(
            said.text().matches(&fact(id)).count(),
            times,
            "{left}: {said:?}"
        );
    }
}

/// `gemini -p` is held at the end of its turn for a limited time; a client that stays is not.
#[test]
fn only_a_plain_run_is_held() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let id = started(&sandbox, &gate);
    for words in [&["--acp"][..], &["-i", "go"]] {
        let ended = client(&sandbox, &hook("AfterAgent"), words).run();
        assert_eq!(said(&ended), Value::Null, "{words:?}");
    }
    let plain = || client(&sandbox, &hook("AfterAgent"), &["-p", "go"]);
    // Its shell is ours, and must not make a job of the hook that waits.
    for limit in ["AGENT_SH_STOP_WAIT", "AGENT_SH_PROMOTE_AFTER"] {
        let ended = plain().env(limit, "400ms").run();
        assert_eq!(said(&ended), Value::Null, "{limit}");
        assert_eq!(ps_json(&sandbox).len(), 1, "{limit}");
    }
    let held = plain().start();
    wait_until("it waits", || {
        std::fs::read_dir(sandbox.state().join("v1/waiters")).is_ok_and(|dir| dir.count() > 0)
    });
    gate.release(1);
    let answer = said(&held.finish());
    assert_eq!(answer["decision"], "deny", "{answer}");
    assert!(
        answer["reason"]
            .as_str()
            .unwrap()
            .starts_with("[agent-sh] "),
        "{answer}"
    );
    let shown = answer["systemMessage"].as_str().unwrap();
    assert!(shown.starts_with(&fact(&id)), "{shown}");
    let told = context(&call_hook(&sandbox, "BeforeAgent"));
    assert!(told.starts_with(&fact(&id)), "{told}");
    let again = call_hook(&sandbox, "AfterAgent");
    assert_eq!(said(&again), Value::Null, "nothing is left to wait for");
}

/// The end of a client spares its jobs, unless the user wants it otherwise.
#[test]
fn the_end_of_a_client_is_a_policy() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gates = [(); 2].map(|()| sandbox.gate());
    // In ACP mode the session that is named at the end is none that was used.
    let ends = hook_of(OTHER, "SessionEnd", &json!({ "reason": "exit" }));
    let todo = hook("BeforeAgent") + &job(&gates[0]) + &ends;
    assert!(client(&sandbox, &todo, &["--acp"]).run().succeeded());
    assert_eq!(ps_json(&sandbox)[0]["state"], "running");
    let todo = hook("BeforeAgent") + &job(&gates[1]) + &ends;
    let kill = client(&sandbox, &todo, &["--acp"]).env("AGENT_SH_SESSION_END", "kill");
    assert!(kill.run().succeeded());
    // Both belong to the session, whose last client has ended.
    let found = wait_for_records(&sandbox, 2);
    assert!(found.iter().all(|record| record.state() == "signaled"));
    let text = context(&call_hook(&sandbox, "BeforeAgent"));
    assert_eq!(text, "", "it asked for that itself");
}

/// A session that has ended is resumed where the user allows it, with the notice on stdin; `auto` leads there.
#[test]
fn a_session_that_has_ended_is_resumed_once() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("bin")).unwrap();
    sandbox.script(
        "bin/gemini",
        "#!/bin/bash
{ echo \"$*\"; pwd; env | grep -c '^GEMINI_CLI='; cat; } > \"$HOME/resumed.tmp\"
mv \"$HOME/resumed.tmp\" \"$HOME/resumed\"
",
    );
    let refused = sandbox.agent_sh(["notify", "add", "gemini"]);
    assert_eq!(refused.status, Status::Exited(2), "{refused:?}");
    assert!(
        sandbox
            .agent_sh(["notify", "add", "auto", "--as", "wake"])
            .succeeded()
    );
    let gate = sandbox.gate();
    let todo = hook("BeforeAgent") + &job(&gate);
    let call = client(&sandbox, &todo, &[]).env("AGENT_SH_RESUME", "1");
    assert!(call.run().succeeded());
    // A verb would have it delivered too, and knows neither the client nor the setting.
    let dir = job_dirs(&sandbox).remove(0);
    let id = dir.file_name().unwrap().to_str().unwrap().to_owned();
    gate.release(1);
    let resumed = sandbox.path("home/resumed");
    wait_until("it is resumed", || resumed.exists());
    let text = std::fs::read_to_string(&resumed).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..3],
        [&format!("--resume {SESSION}"), "/", "0"],
        "{text}"
    );
    assert!(
        lines[3].starts_with(&format!("[agent-sh] {}", fact(&id))),
        "{text}"
    );
    wait_until("it is told", || dir.join("told").exists());
    assert_eq!(said(&call_hook(&sandbox, "SessionStart")), Value::Null);
}

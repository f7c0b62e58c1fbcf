use super::{dir_sink, events, verb, wait_for_events};
use crate::support::{Sandbox, ps_json, stands_in, wait_until};

/// A standing subscription hears of a line while the job runs; a flood makes one notice, not many.
#[test]
fn lines_that_match_are_told_while_the_job_runs() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let (sink, dir) = dir_sink(&sandbox);
    verb(
        &sandbox,
        [
            "notify",
            "add",
            &sink,
            "--as",
            "d",
            "--on-output",
            "ready on :[0-9]+",
        ],
    );
    let gate = sandbox.gate();
    let text = format!(
        "echo starting; read x < {0}; printf '\\033[32mready\\033[0m on :3000\\n'; \
         read x < {0}; i=0; while [ $i -lt 2000 ]; do echo ready on :$i; i=$((i+1)); done; \
         echo '```'; echo flooded; read x < {0}",
        gate.path()
    );
    let id = verb(&sandbox, ["run", "--", "sh", "-c", &text])
        .trim()
        .to_owned();
    gate.release(1);
    let told = wait_for_events(&dir, 1);
    let event = &told[0];
    assert_eq!(event["type"], "dev.agent-sh.job.output-matched.v1");
    assert_eq!(event["id"], format!("{id}.output.1"));
    assert_eq!(event["data"]["untrusted_output_tail"], "ready on :3000\n");
    assert_eq!(event["data"]["origin"], "job-output");
    assert_eq!(event["data"]["state"], "running");
    gate.release(1);
    wait_until("it flooded", || {
        verb(&sandbox, ["logs", &id]).contains("flooded")
    });
    assert_eq!(events(&dir).len(), 1, "not yet: one in 15 seconds");
    gate.release(1);
    let told = wait_for_events(&dir, 2);
    let kinds: Vec<&str> = told
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"dev.agent-sh.job.exited.v1"), "{kinds:?}");
    sandbox.assert_no_survivors();
}

/// Whoever waits can watch too, and a sign of life is silent when nothing new came.
#[test]
fn a_wait_can_watch() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let (sink, dir) = dir_sink(&sandbox);
    let gate = sandbox.gate();
    let text = format!(
        "echo begin; read x < {0}; echo error: it broke; read x < {0}; exit 6",
        gate.path()
    );
    let id = verb(&sandbox, ["run", "--", "sh", "-c", &text])
        .trim()
        .to_owned();
    let args = [
        "wait",
        &id,
        "--notify",
        &sink,
        "--on-output",
        "^error:",
        "--heartbeat",
        "0.2",
    ];
    let waiting = sandbox.call("agent-sh").args(args).start();
    wait_until("a first sign of life came", || !events(&dir).is_empty());
    gate.release(1);
    let kind = |event: &serde_json::Value| event["type"].as_str().unwrap().to_owned();
    let of = |wanted: &str| {
        events(&dir)
            .iter()
            .filter(|event| kind(event).contains(wanted))
            .count()
    };
    wait_until("the line was told", || of("output-matched") == 1);
    wait_until("a second sign of life came", || of("heartbeat") == 2);
    gate.release(1);
    assert_eq!(waiting.finish().status, crate::support::Status::Exited(6));
    assert_eq!(
        (of("heartbeat"), of("exited")),
        (2, 1),
        "{:#?}",
        events(&dir)
    );
}

/// A subscription that is made late follows what runs already, from that moment on: a transcript, a file
/// that a job writes to, a job whose call still lasts. Jobs of other sessions are not its business, and
/// nobody is told twice.
#[test]
fn a_late_subscription_follows_what_runs() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let (sink, dir) = dir_sink(&sandbox);
    let (gate, end, call) = (sandbox.gate(), sandbox.gate(), sandbox.gate());
    let job = sandbox.script(
        "work/job",
        &format!(
            "#!/bin/sh\necho ready before; echo up; read x < {}; echo ready now; read x < {}\n",
            gate.path(),
            end.path()
        ),
    );
    let run = |session: &str| verb(&sandbox, ["run", "--session", session, "--", &job]);
    let mine = run("mine").trim().to_owned();
    let other = run("other").trim().to_owned();
    let text = format!("./job > log & ./job & read x < {}", call.path());
    let lasting = sandbox
        .call("bash")
        .c(&text)
        .env("AGENT_SH_SESSION", "mine")
        .start();
    wait_until("all have written", || {
        let log = std::fs::read_to_string(sandbox.path("work/log")).unwrap_or_default();
        let jobs = ps_json(&sandbox);
        let wrote = |job: &serde_json::Value| {
            let id = job["id"].as_str().unwrap();
            verb(&sandbox, ["logs", id]).contains("up")
        };
        log.contains("up") && jobs.len() == 4 && jobs.iter().all(wrote)
    });
    let args = ["notify", "add", &sink, "--as", "d", "--session", "mine"];
    let added = sandbox.call("agent-sh").args(args);
    let added = added.args(["--on-output", "ready"]).run();
    assert!(added.succeeded(), "{added:?}");
    call.release(1);
    assert!(lasting.finish().succeeded());
    gate.release(4);
    let told = wait_for_events(&dir, 3);
    for event in &told {
        assert_eq!(event["type"], "dev.agent-sh.job.output-matched.v1");
        assert_eq!(event["data"]["untrusted_output_tail"], "ready now\n");
        assert_ne!(event["data"]["job"], other.as_str());
    }
    assert!(
        told.iter()
            .any(|event| event["data"]["job"] == mine.as_str())
    );
    end.release(4);
    let told = wait_for_events(&dir, 6);
    sandbox.assert_no_survivors();
    assert_eq!(events(&dir).len(), 6, "{told:#?}");
    // Nothing is left of the following.
    let claims = sandbox.state().join("v1/subs/d/claim");
    assert_eq!(std::fs::read_dir(claims).unwrap().count(), 0);
}

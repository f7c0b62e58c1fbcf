use super::{dir_sink, events, verb, wait_for_events};
use crate::support::{Sandbox, stands_in, wait_until};

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

//! An always-on orchestrator starts one process per turn, and the turn's end takes its group with it.

use nix::sys::signal::Signal;

use super::{started, worker};
use crate::support::{
    Sandbox, Status, group_kill, ps_json, records, signal, stands_in, tree_kill, wait_for_records,
    wait_until,
};

/// The turn is a real shell in its own session that calls its Bash tool and then goes on thinking.
#[test]
fn case_a_background_work_outlives_the_turn_and_the_orchestrator() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let (gate, thinking) = (sandbox.gate(), sandbox.gate());
    let build = worker(&sandbox, &gate, "build", 3);
    let turn = format!(
        "{} -c '{build} && echo not reached &' >tool.out 2>&1; read -r x < {}",
        sandbox.link("bash").display(),
        thinking.path()
    );
    // The first turn ends by its group being killed, and then whatever is below it by parent.
    let running = sandbox.real_call("bash").c(turn).start();
    let job = started(&sandbox, "build");
    group_kill(running.pid());
    tree_kill(running.pid());
    assert_eq!(running.finish().status, Status::Signaled(9));
    assert!(job.lives(), "the turn's end took the job");
    // The orchestrator restarts: another process, which has only the state directory to look at.
    let jobs = ps_json(&sandbox);
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert_eq!(jobs[0]["state"], "running");
    let id = jobs[0]["id"].as_str().unwrap().to_owned();
    let waiting = sandbox.call("agent-sh").args(["wait", &id]).start();
    gate.release(1);
    assert_eq!(
        waiting.finish().status,
        Status::Exited(3),
        "the true code, from another process"
    );
    let logs = sandbox.agent_sh(["logs", &id]);
    assert!(logs.text().contains("build done"), "{logs:?}");
    let found = wait_for_records(&sandbox, 1);
    assert_eq!(
        (found[0].state(), found[0].exit_code()),
        ("exited", Some(3))
    );
}

/// The stall limit kills a foreground command; the program fails by itself at the same step. The records
/// tell the two apart: only the first has one, and it names the killer.
#[test]
fn case_a_a_kill_by_the_harness_is_no_failure_of_the_program() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let step = worker(&sandbox, &gate, "step", 1);
    let running = sandbox
        .call("bash")
        .c(format!("{step}; echo not reached"))
        .start();
    started(&sandbox, "step");
    signal(running.pid(), Signal::SIGTERM);
    assert_eq!(running.finish().status, Status::Signaled(15));
    wait_until("there is a record", || !records(&sandbox).is_empty());
    let killed = records(&sandbox);
    assert_eq!(killed.len(), 1, "{killed:#?}");
    assert_eq!(killed[0].how(), "foreground");
    assert_eq!(killed[0].state(), "signaled");
    let text = killed[0].event.to_string();
    assert!(
        text.contains(&std::process::id().to_string()),
        "the killer's pid: {text}"
    );
    // The same program fails by itself: the code is its own, and there is nothing to record.
    gate.release(2);
    let failed = sandbox.call("bash").c(&step).run();
    assert_eq!(failed.status, Status::Exited(1), "{failed:?}");
    sandbox.assert_no_survivors();
    assert_eq!(records(&sandbox).len(), 1);
}

/// A long foreground command becomes a job instead of being killed.
#[test]
fn case_a_a_long_foreground_command_is_promoted() {
    if !stands_in() {
        return;
    }
    for (setting, value) in [
        ("AGENT_SH_PROMOTE_AFTER", "300ms"),
        ("AGENT_SH_ON_TERM", "promote"),
    ] {
        let sandbox = Sandbox::new();
        let gate = sandbox.gate();
        let long = worker(&sandbox, &gate, "long", 37);
        let call = sandbox.call("bash").c(format!("{long}; exit $?"));
        let running = call
            .env(setting, value)
            .env("AGENT_SH_ANNOUNCE", "1")
            .start();
        let job = started(&sandbox, "long");
        if setting == "AGENT_SH_ON_TERM" {
            signal(running.pid(), Signal::SIGTERM);
        }
        let ended = running.finish();
        assert_eq!(
            ended.status,
            Status::Exited(124),
            "no script takes it for success: {ended:?}"
        );
        assert!(ended.errors().contains("[agent-sh] job "), "{ended:?}");
        assert!(job.lives());
        gate.release(1);
        let found = wait_for_records(&sandbox, 1);
        assert_eq!(found[0].how(), "promoted", "{:#}", found[0].event);
        assert_eq!(
            (found[0].state(), found[0].exit_code()),
            ("exited", Some(37))
        );
    }
}

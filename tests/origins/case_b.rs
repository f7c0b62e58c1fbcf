//! A transcript says "running in background"; the process died; nobody ever says so.

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{started, worker};
use crate::support::{Sandbox, Status, parent_of, ps_json, records, signal, stands_in, wait_until};

fn job<'a>(jobs: &'a [Value], word: &str) -> &'a Value {
    let has = |job: &&Value| {
        job["command"]
            .as_str()
            .is_some_and(|text| text.contains(word))
    };
    jobs.iter()
        .find(has)
        .unwrap_or_else(|| panic!("no '{word}' in {jobs:#?}"))
}

/// Two jobs with redirected output: both have written nothing that a transcript would show. One dies with
/// its supervisor, unseen; the other is only quiet.
#[test]
fn case_b_every_launch_ends_in_a_terminal_record() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let doomed = worker(&sandbox, &gate, "doomed", 0);
    let quiet = worker(&sandbox, &gate, "quiet", 37);
    for (script, log) in [(&doomed, "doomed.log"), (&quiet, "quiet.log")] {
        let text = format!("{script} > {log} 2>&1 &");
        assert!(sandbox.call("bash").c(text).run().succeeded());
    }
    let (dead, alive) = (started(&sandbox, "doomed"), started(&sandbox, "quiet"));
    let supervisor = parent_of(dead.pid).unwrap();
    assert_ne!(
        supervisor,
        parent_of(alive.pid).unwrap(),
        "one supervisor for each command"
    );
    // Stopped first, so that it cannot see its job end: the worst instant to die at.
    signal(supervisor, Signal::SIGSTOP);
    signal(dead.pid, Signal::SIGKILL);
    let state = ps_json(&sandbox);
    assert_eq!(job(&state, "quiet")["state"], "running");
    signal(supervisor, Signal::SIGKILL);
    // As long as init has not reaped the job, its status can still be read.
    wait_until("the supervisor is gone, and its job too", || {
        parent_of(supervisor).is_none() && parent_of(dead.pid).is_none()
    });
    // Whoever looks next finds out, and every later look says the same.
    let told: Vec<Value> = (0..3)
        .map(|_| job(&ps_json(&sandbox), "doomed").clone())
        .collect();
    assert_eq!(told[0]["state"], "lost", "{:#}", told[0]);
    assert_eq!(told[0]["exit_code"], Value::Null, "never an invented code");
    assert!(told.iter().all(|next| *next == told[0]), "{told:#?}");
    let log = sandbox.work().join("doomed.log");
    assert_eq!(told[0]["redirected_to"], log.to_str().unwrap());
    let lost = sandbox.agent_sh(["wait", told[0]["id"].as_str().unwrap()]);
    assert_eq!(lost.status, Status::Exited(125), "{lost:?}");
    // The quiet one is not called dead for its silence, and ends as it should.
    let state = ps_json(&sandbox);
    assert_eq!(job(&state, "quiet")["state"], "running");
    assert!(alive.lives());
    gate.release(1);
    let waited = sandbox.agent_sh(["wait", job(&state, "quiet")["id"].as_str().unwrap()]);
    assert_eq!(waited.status, Status::Exited(37), "{waited:?}");
    sandbox.assert_no_survivors();
    let states: Vec<String> = records(&sandbox)
        .iter()
        .map(|r| r.state().to_owned())
        .collect();
    assert_eq!(states.len(), 2, "{states:?}");
}

/// The supervisor dies, the job does not: it is running, and said to be without supervision. When it
/// ends there is one record, and no code that nobody saw.
#[test]
fn case_b_a_job_without_its_supervisor_is_not_called_dead() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let script = worker(&sandbox, &gate, "orphan", 37);
    let text = format!("nohup {script} > orphan.log 2>&1 &");
    assert!(sandbox.call("bash").c(text).run().succeeded());
    let orphan = started(&sandbox, "orphan");
    let supervisor = parent_of(orphan.pid).unwrap();
    signal(supervisor, Signal::SIGKILL);
    wait_until("the supervisor is gone", || {
        parent_of(orphan.pid) != Some(supervisor)
    });
    let jobs = ps_json(&sandbox);
    assert_eq!(jobs[0]["state"], "running", "{:#}", jobs[0]);
    let degraded = jobs[0]["degraded"].to_string();
    assert!(degraded.contains("unsupervised"), "{degraded}");
    assert!(orphan.lives() && records(&sandbox).is_empty());
    gate.release(1);
    wait_until("the orphan has ended", || !orphan.lives());
    let jobs = ps_json(&sandbox);
    let found = (
        jobs[0]["state"].as_str().unwrap(),
        jobs[0]["exit_code"].as_i64(),
    );
    assert!(
        found == ("lost", None) || found == ("exited", Some(37)),
        "{:#}",
        jobs[0]
    );
    assert_eq!(records(&sandbox).len(), 1);
    sandbox.assert_no_survivors();
}

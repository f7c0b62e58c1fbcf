//! The end of the dispatching sub-agent's session kills the job that was meant to outlive it; and once
//! jobs are spared, what they needed stays behind for ever.

use nix::sys::signal::Signal;

use super::{started, worker};
use crate::support::{
    Sandbox, Status, ps_json, records, signal, stands_in, tree_kill, wait_for_records,
};

#[test]
fn case_d_the_end_of_a_session_spares_its_jobs_and_leaves_nothing_behind() {
    if !stands_in() {
        return;
    }
    let before = crate::litter::shared();
    let sandbox = Sandbox::new();
    let (gate, front_gate) = (sandbox.gate(), sandbox.gate());
    let review = worker(&sandbox, &gate, "review", 5);
    let lint = worker(&sandbox, &front_gate, "lint", 0);
    // The sub-agent dispatches a review, then works in the foreground.
    let sub_agent = |text: String| {
        sandbox
            .call("bash")
            .c(text)
            .env("CLAUDE_CODE_SESSION_ID", "sub-agent")
    };
    assert!(sub_agent(format!("{review} &")).run().succeeded());
    let background = started(&sandbox, "review");
    let running = sub_agent(lint).start();
    let foreground = started(&sandbox, "lint");
    // SessionEnd: the hook kills what the session still runs.
    signal(running.pid(), Signal::SIGTERM);
    tree_kill(running.pid());
    running.finish();
    crate::support::wait_until("the foreground is cleaned up", || !foreground.lives());
    assert!(background.lives(), "the session's end took the job");
    // Another session of the same workspace polls it: by session it sees none, of all sessions this one.
    let jobs = ps_json(&sandbox);
    let job = jobs.iter().find(|job| job["state"] == "running").unwrap();
    assert_eq!(job["session"], "sub-agent");
    let id = job["id"].as_str().unwrap();
    let other = |args: &[&str]| {
        sandbox
            .call("agent-sh")
            .args(args)
            .env("CLAUDE_CODE_SESSION_ID", "other")
    };
    let own = other(&["ps", "--json"]).run();
    assert!(!own.text().contains(id), "{own:?}");
    let waiting = other(&["wait", id]).start();
    gate.release(1);
    assert_eq!(waiting.finish().status, Status::Exited(5));
    let logs = other(&["logs", id]).run();
    assert!(logs.text().contains("review done"), "{logs:?}");
    // The supervisor leaves by itself, with everything it had.
    let found = wait_for_records(&sandbox, 1);
    assert_eq!(
        (found[0].state(), found[0].exit_code()),
        ("exited", Some(5))
    );
    let litter = crate::litter::litter(&sandbox, &before);
    assert!(litter.is_empty(), "{litter:#?}");
    assert!(!records(&sandbox).is_empty());
}

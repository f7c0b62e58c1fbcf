//! `run --wait`: what its caller is told when the watching ends before the job, or the job by its limit.

use nix::sys::signal::Signal;

use super::seat::Seat;
use super::wrote;
use crate::support::{Sandbox, Status, ps_json, records, signal, stands_in, wait_until};

#[test]
fn a_limit_that_is_over_is_said() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let ended = sandbox.agent_sh(["run", "--wait", "--timeout", "500ms", "echo x; sleep 600"]);
    assert_eq!(ended.status, Status::Exited(124), "{ended:?}");
    let id = &records(&sandbox)[0].job;
    let said = format!("agent-sh: job {id} took longer than 500ms (--timeout) and was ended\n");
    assert_eq!(ended.errors(), said);
    assert_eq!(ended.text(), "x\n");
    // One that ends in time is not commented on.
    let ended = sandbox.agent_sh(["run", "--wait", "--timeout", "600s", "exit 4"]);
    assert_eq!(ended.status, Status::Exited(4), "{ended:?}");
    assert!(ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn a_signal_ends_the_watching_and_not_the_job() {
    if !stands_in() {
        return;
    }
    for (number, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGINT, 130),
        (Signal::SIGHUP, 129),
    ] {
        let sandbox = Sandbox::new();
        let call = sandbox.call("agent-sh").args(["run", "--wait"]);
        let running = call.arg("echo up; exec sleep 600").start();
        wait_until("the job writes", || {
            ps_json(&sandbox).len() == 1 && wrote(&sandbox, "last").contains("up")
        });
        let id = ps_json(&sandbox)[0]["id"].as_str().unwrap().to_owned();
        signal(running.pid(), number);
        let ended = running.finish();
        assert_eq!(ended.status, Status::Exited(code), "{ended:?}");
        let said = format!("agent-sh: got {number} and no longer waits; job {id} goes on\n");
        assert_eq!(ended.errors(), said);
        assert_eq!(ps_json(&sandbox)[0]["state"], "running");
        assert!(sandbox.agent_sh(["kill", &id]).succeeded());
        sandbox.assert_no_survivors();
    }
}

/// A person's terminal breaks no word; a program gets every message on one line.
#[test]
fn messages_fit_the_terminal() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let call = || sandbox.call("agent-sh").args(["wait", "--timeout", "soon"]);
    let whole = "agent-sh: invalid value 'soon' for '--timeout <DURATION>': expected a duration like \
                 '100s', '2m' or '1h 30m'\nhint: 'agent-sh wait --help' shows an example\n";
    assert_eq!(call().run().errors(), whole);
    let text = "stty rows 24 cols 80; exec \"$0\" wait --timeout soon";
    let sized = sandbox
        .real_call("sh")
        .c(text)
        .arg(sandbox.link("agent-sh"));
    let mut seat = Seat::start(sized);
    assert_eq!(seat.ended(), Status::Exited(2));
    seat.sees("shows an example");
    let text = seat.text();
    let lines: Vec<&str> = text.trim_end().lines().collect();
    assert_eq!(
        lines,
        [
            "agent-sh: invalid value 'soon' for '--timeout <DURATION>': expected a duration",
            "like '100s', '2m' or '1h 30m'",
            "hint: 'agent-sh wait --help' shows an example",
        ]
    );
}

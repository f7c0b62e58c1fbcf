//! `wait` for the ends of many jobs, whatever becomes of their supervisors.

use std::fs;

use nix::sys::signal::Signal;

use crate::support::{Gate, Sandbox, Status, ps_json, signal, stands_in, wait_until};

/// Starts a job that waits at the gate, and gives its id.
fn start(sandbox: &Sandbox, gate: &Gate, session: &str, then: &str) -> String {
    let text = format!("read x < {}; {then}", gate.path());
    let call = sandbox
        .call("agent-sh")
        .args(["run", "--", "sh", "-c", &text]);
    let ended = call.env("AGENT_SH_SESSION", session).run();
    assert!(ended.succeeded(), "{ended:?}");
    ended.text().trim().to_owned()
}

fn threads(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// How many descriptors of a process are of this kind.
fn held(pid: i32, kind: &str) -> usize {
    let open = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let targets = open
        .flatten()
        .filter_map(|fd| fs::read_link(fd.path()).ok());
    targets
        .filter(|target| target.to_string_lossy().contains(kind))
        .count()
}

/// However many jobs are waited for, one thread sleeps, and it sleeps until something happens.
#[test]
fn many_jobs_and_one_thread() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gates: Vec<Gate> = (0..8).map(|_| sandbox.gate()).collect();
    let codes = [0, 3, 0, 0, 5, 0, 0, 0];
    let ids: Vec<String> = gates
        .iter()
        .zip(codes)
        .map(|(gate, code)| start(&sandbox, gate, "s", &format!("exit {code}")))
        .collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let wait = |more: &[&str]| {
        let call = sandbox.call("agent-sh").args(["wait", "--timeout", "600"]);
        call.args(ids.iter()).args(more).start()
    };
    let (all, any, one) = (wait(&[]), wait(&["--any"]), {
        let call = sandbox.call("agent-sh").args(["wait", ids[7]]);
        call.start()
    });
    // The processes of the jobs and their supervisors; a single job's lease.
    for (waiting, kind, count) in [
        (&all, "pidfd", 16),
        (&any, "pidfd", 16),
        (&one, "run.json", 1),
    ] {
        let pid = waiting.pid();
        wait_until("all are waited for", || held(pid, kind) == count);
        assert_eq!((threads(pid), held(pid, "inotify")), (1, 0));
    }
    gates[4].release(1);
    assert_eq!(any.finish().status, Status::Exited(5));
    for gate in gates.iter().rev() {
        gate.release(1);
    }
    let ended = all.finish();
    assert_eq!(ended.status, Status::Exited(3), "the first that is not 0");
    assert_eq!(ended.text().lines().count(), 8, "{ended:?}");
    assert_eq!(one.finish().status, Status::Exited(0));
}

/// A supervisor that is killed while somebody waits: the job lives on, and its end is noticed by whoever
/// waited, alone or for several jobs.
#[test]
fn a_supervisor_that_is_killed() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let (first, second) = (sandbox.gate(), sandbox.gate());
    let orphan = start(&sandbox, &first, "s", "exit 4");
    let supervisors = sandbox.supervisors();
    let other = start(&sandbox, &second, "s", "exit 0");
    let wait = |ids: &[&str]| sandbox.call("agent-sh").arg("wait").args(ids).start();
    let (both, alone) = (wait(&[&orphan, &other]), wait(&[&orphan]));
    wait_until("both are waited for", || held(both.pid(), "pidfd") == 4);
    wait_until("one is waited for", || held(alone.pid(), "run.json") == 1);
    assert_eq!(supervisors.len(), 1);
    signal(supervisors[0], Signal::SIGKILL);
    wait_until("nobody supervises it", || {
        let jobs = ps_json(&sandbox);
        let mut jobs = jobs.iter().filter(|job| job["id"] == orphan.as_str());
        jobs.any(|job| job["degraded"].to_string().contains("unsupervised"))
    });
    // From now on its process itself is waited for.
    wait_until("one is waited for", || held(alone.pid(), "pidfd") == 1);
    wait_until("both are waited for", || {
        (threads(both.pid()), held(both.pid(), "pidfd")) == (2, 3)
    });
    first.release(1);
    // What is known of it depends on the kernel; a waiter that watched it may know its code.
    let code = alone.finish().status;
    assert!([4, 125].map(Status::Exited).contains(&code), "{code:?}");
    second.release(1);
    assert_eq!(both.finish().status, code);
}

/// Without ids, the session that is named is the one that counts, with and without a sink.
#[test]
fn the_session_that_is_named() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let id = start(&sandbox, &gate, "mine", "exit 6");
    let other = start(&sandbox, &sandbox.gate(), "other", "exit 7");
    gate.release(1);
    let call = sandbox.call("agent-sh").args(["wait", "--session", "mine"]);
    let ended = call.env("AGENT_SH_SESSION", "other").run();
    assert_eq!(ended.status, Status::Exited(6), "{ended:?}");
    assert!(ended.text().contains(&id), "{ended:?}");
    let killed = sandbox.agent_sh(["kill", &other]);
    assert!(killed.succeeded(), "{killed:?}");
}

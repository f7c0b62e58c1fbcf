//! Typing at jobs, sitting at them, watching them: on real terminals.

/// Sitting down, resizing, leaving, being killed.
mod attach;
/// What reaches a supervisor, sense and nonsense.
mod control;
/// No supervisor stays when its work is over.
mod leaving;
/// A terminal with a person at it.
mod seat;
/// Text, keys and the end of input.
mod send;
/// The full screen.
mod top;
/// Watching a job that was started with `run --wait`, and no longer watching it.
mod watched;

use serde_json::Value;

use crate::support::{Sandbox, Status, wait_until};

/// Starts an interactive job, and gives its id.
#[track_caller]
fn interactive(sandbox: &Sandbox, command: &[&str]) -> String {
    let ended = sandbox
        .call("agent-sh")
        .args(["run", "-i", "--"])
        .args(command)
        .run();
    assert!(ended.succeeded(), "{ended:?}");
    ended.text().trim().to_owned()
}

/// The bytes that a job wrote so far.
fn wrote(sandbox: &Sandbox, id: &str) -> String {
    sandbox.agent_sh(["logs", id, "--raw"]).text()
}

#[track_caller]
fn writes(sandbox: &Sandbox, id: &str, what: &str) {
    wait_until(&format!("job {id} writes '{what}'"), || {
        wrote(sandbox, id).contains(what)
    });
}

#[track_caller]
fn send(sandbox: &Sandbox, args: &[&str]) {
    let ended = sandbox.call("agent-sh").arg("send").args(args).run();
    assert!(ended.succeeded(), "send {args:?}: {ended:?}");
}

#[track_caller]
fn ends_with(sandbox: &Sandbox, id: &str, code: i32) {
    let ended = sandbox.agent_sh(["wait", id]);
    assert_eq!(ended.status, Status::Exited(code), "{ended:?}");
}

/// What was written down at the job's start.
fn launch(sandbox: &Sandbox, id: &str) -> Value {
    let path = sandbox.state().join("v1/jobs").join(id).join("run.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A program that prints every byte it reads, in a terminal without line editing.
const ECHO_BYTES: &str = "
import os, sys, tty
tty.setraw(0)
os.write(1, (sys.argv[1].encode().decode('unicode_escape') + 'ready\\r\\n').encode())
while True:
    got = os.read(0, 100)
    os.write(1, (' '.join('%02x' % b for b in got) + '.\\r\\n').encode())
    if b'q' in got: break
";

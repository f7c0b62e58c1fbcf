//! What a job wrote, as `logs` shows it and as `wait` watches it.

/// Many waiters, many jobs, no busy processor.
mod crowds;
/// `--cursor`: in portions.
mod cursor;
/// `-f`: also files, also what is drawn again.
mod follow;
/// Hostile bytes: nothing but text reaches whoever looks.
mod injection;
/// Clean text, from the end, since when, as JSON, as a recording.
mod logs;
/// Programs that draw: cargo, npm, curl, vim and their like.
mod noisy;
/// Two streams: their order, files of their own, terminals that keep nothing.
mod streams;
/// `wait --for-output`, `--for-port`, `--idle`.
mod wait;

use crate::support::{Ended, Sandbox, Status, stands_in};

/// `None` where the real shells take the place of the program: they have no verbs.
fn sandbox() -> Option<Sandbox> {
    stands_in().then(Sandbox::new)
}

/// Starts a job with a name.
#[track_caller]
fn job(sandbox: &Sandbox, name: &str, text: &str) {
    let started = sandbox.agent_sh(["run", "--name", name, text]);
    assert!(started.succeeded(), "{started:?}");
}

/// Runs a job to its end.
#[track_caller]
fn ended_job(sandbox: &Sandbox, name: &str, text: &str) {
    job(sandbox, name, text);
    let waited = sandbox.agent_sh(["wait", name, "--timeout", "60s"]);
    assert!(waited.status != Status::Exited(124), "{waited:?}");
}

/// Runs a job that writes exactly these bytes to its terminal.
#[track_caller]
fn job_that_writes(sandbox: &Sandbox, name: &str, bytes: &[u8]) {
    let path = sandbox.path(format!("{name}.bytes"));
    std::fs::write(&path, bytes).unwrap();
    ended_job(sandbox, name, &format!("cat '{}'", path.display()));
}

#[track_caller]
fn text_of(ended: &Ended) -> String {
    assert!(ended.succeeded(), "{ended:?}");
    String::from_utf8(ended.stdout.clone()).unwrap()
}

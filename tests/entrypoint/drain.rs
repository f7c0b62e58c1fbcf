//! Jobs end, are recorded and told of before PID 1 leaves.

use std::fs;

use nix::sys::signal::Signal;

use super::{Init, child_of};
use crate::support::{Call, Record, Sandbox, Status, job_records, ps_json, signal, wait_until};

/// With a subscription: a file for each event.
fn sandbox() -> Option<Sandbox> {
    let sandbox = Sandbox::with_namespaces()?;
    let sink = format!("dir:{}", sandbox.path("told").display());
    let added = sandbox.agent_sh(["notify", "add", &sink]);
    assert!(added.succeeded(), "{added:?}");
    Some(sandbox)
}

/// How many ends of jobs somebody was told of.
fn told(sandbox: &Sandbox) -> usize {
    let files = fs::read_dir(sandbox.path("told")).into_iter().flatten();
    let read = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    read.filter(|event| event.contains("dev.agent-sh.job.exited.v1"))
        .count()
}

fn agent_sh(sandbox: &Sandbox) -> String {
    sandbox.link("agent-sh").to_str().unwrap().to_owned()
}

fn running(sandbox: &Sandbox, count: usize) {
    wait_until("the jobs run", || {
        let jobs = ps_json(sandbox);
        jobs.iter().filter(|job| job["state"] == "running").count() == count
    });
}

/// Stops a container as `docker stop` does, once `count` jobs run in it.
fn stop(sandbox: &Sandbox, call: Call<'_>, count: usize) -> Status {
    let call = call.start();
    running(sandbox, count);
    signal(child_of(call.pid()), Signal::SIGTERM);
    call.finish().status
}

fn by(record: &Record) -> &str {
    record.data("kill_requested")["by"]
        .as_str()
        .unwrap_or("nobody")
}

#[test]
fn a_job_may_end_after_its_command() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let text = format!("{{ read -r x <{}; exit 3; }} & exit 5", gate.path());
    let options = ["--drain", "50s"];
    let call = Init::Ours.as_pid_1(&sandbox, &options, &[&agent_sh(&sandbox), "-c", &text]);
    let call = call.start();
    running(&sandbox, 1);
    gate.release(1);
    assert_eq!(call.finish().status, Status::Exited(5));
    // Nobody is left who could write or tell anything later.
    let records = job_records(&sandbox);
    assert_eq!(records.len(), 1);
    assert_eq!(
        (records[0].exit_code(), by(&records[0])),
        (Some(3), "nobody")
    );
    assert_eq!(told(&sandbox), 1);
}

#[test]
fn a_job_that_does_not_end_is_ended() {
    let Some(sandbox) = sandbox() else { return };
    for (trap, grace, wanted) in [
        ("trap 'exit 3' TERM", "50s", (Some(3), None)),
        ("trap '' TERM", "10ms", (None, Some(9))),
        (":", "50s", (None, Some(15))),
    ] {
        let before = job_records(&sandbox).len();
        let gate = sandbox.gate();
        let text = format!(
            "{{ {trap}; echo >{}; while :; do sleep 0.05; done; }} & read -r x <{}; exit 5",
            gate.path(),
            gate.path()
        );
        let options = ["--drain", "0s", "--grace", grace];
        let call = Init::Ours.as_pid_1(&sandbox, &options, &[&agent_sh(&sandbox), "-c", &text]);
        assert_eq!(call.run().status, Status::Exited(5), "{trap}");
        let records = job_records(&sandbox);
        assert_eq!(records.len(), before + 1, "{trap}");
        assert_eq!(told(&sandbox), before + 1, "{trap}");
        let new = records
            .iter()
            .max_by_key(|record| record.data("started_at").to_string());
        let new = new.unwrap();
        let signal = new.data("signal").as_i64();
        assert_eq!((new.exit_code(), signal), wanted, "{trap}: {records:#?}");
        assert_eq!(by(new), "drain", "{trap}");
    }
}

#[test]
fn twenty_jobs_and_a_stop() {
    let Some(sandbox) = sandbox() else { return };
    let text = "for i in $(seq 20); do sh -c 'trap \"\" TERM; while :; do sleep 1; done' & done; sleep 1000";
    let options = ["--drain", "100ms", "--grace", "100ms"];
    let call = Init::Ours.as_pid_1(&sandbox, &options, &[&agent_sh(&sandbox), "-c", text]);
    // The command obeys, unless it is so slow that its time is over, too.
    let status = stop(&sandbox, call, 20);
    assert!(matches!(status, Status::Exited(143 | 137)), "{status:?}");
    let records = job_records(&sandbox);
    assert_eq!(records.len(), 20);
    assert!(
        records
            .iter()
            .all(|record| record.state() == "signaled" && by(record) == "drain")
    );
    assert_eq!(told(&sandbox), 20);
}

#[test]
fn a_helper_and_a_main_program() {
    let Some(sandbox) = sandbox() else { return };
    let ready = sandbox.path("ready");
    let text = format!(
        "{{ trap 'exit 4' TERM; : >{}; while :; do sleep 0.05; done; }} & exec sleep 1000",
        ready.display()
    );
    let call = Init::Ours.as_pid_1(&sandbox, &[], &[&agent_sh(&sandbox), "-c", &text]);
    let call = call.start();
    wait_until("the helper has its trap", || ready.exists());
    signal(child_of(call.pid()), Signal::SIGTERM);
    assert_eq!(call.finish().status, Status::Exited(143));
    let records = job_records(&sandbox);
    assert_eq!(records.len(), 1);
    assert_eq!(
        (records[0].exit_code(), by(&records[0])),
        (Some(4), "drain")
    );
    assert_eq!(told(&sandbox), 1);
}

/// With `-g` what a plain shell left gets a chance to end, too.
#[test]
fn leftovers_are_told_to_end() {
    let Some(sandbox) = sandbox() else { return };
    for (options, wanted) in [(&["-g", "--grace", "50s"][..], true), (&[][..], false)] {
        let (gate, said) = (sandbox.gate(), sandbox.path("said"));
        let text = format!(
            "setsid sh -c 'trap \"echo bye >{}; exit\" TERM; echo >{}; while :; do sleep 0.05; done' & read -r x <{}",
            said.display(),
            gate.path(),
            gate.path()
        );
        let call = Init::Ours.as_pid_1(&sandbox, options, &["sh", "-c", &text]);
        assert_eq!(call.run().status, Status::Exited(0), "{options:?}");
        assert_eq!(said.exists(), wanted, "{options:?}");
        drop(fs::remove_file(said));
    }
}

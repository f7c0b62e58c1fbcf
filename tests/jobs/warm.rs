//! What only makes a call faster, on and off: everything happens the same way.

use std::path::Path;

use super::{FORMS, Form, Stage};
use crate::support::{
    Status, Streams, in_parallel, job_records, records, stands_in, wait_for_records, wait_until,
};

fn cases() -> Vec<(&'static Form, Streams, &'static str)> {
    let streams = [Streams::Pipe, Streams::Truncated, Streams::Terminal];
    let forms = FORMS.iter();
    forms
        .flat_map(|form| streams.map(|streams| (form, streams)))
        .flat_map(|(form, streams)| ["on", "off"].map(|switch| (form, streams, switch)))
        .collect()
}

/// Every form outlives its call, is announced as what it is, keeps its output and has its record.
#[test]
fn jobs_are_the_same_on_and_off() {
    if !stands_in() {
        return;
    }
    in_parallel(&cases(), |_, _, &(form, streams, switch)| {
        let what = format!("{} over {streams:?}, {switch}", form.name);
        let stage = Stage::new();
        let call = stage.sandbox.call("bash").c(stage.text(form));
        let call = call.env("AGENT_SH_WARM", switch).streams(streams);
        let (ended, terminal) = call.start().returned();
        assert_eq!(ended.status, Status::Exited(0), "{what}: {ended:?}");
        let workers = stage.workers(form.jobs);
        assert!(workers.iter().all(|worker| worker.lives()), "{what}");
        assert!(job_records(&stage.sandbox).is_empty(), "{what}");
        stage.gate.release(form.jobs);
        for record in wait_for_records(&stage.sandbox, form.jobs) {
            let found = (record.state(), record.exit_code(), record.how());
            assert_eq!(found, ("exited", Some(37), form.how), "{what}");
        }
        drop(terminal);
        if form.how == "stray" {
            return;
        }
        for record in records(&stage.sandbox) {
            let logs = stage.sandbox.agent_sh(["logs", &record.job]).text();
            assert!(logs.contains("speaks") && logs.contains("ends"), "{what}");
        }
    });
}

/// A directory for the next job is made ahead of it, unless that is switched off.
#[test]
fn a_directory_is_left_for_the_next_call() {
    if !stands_in() {
        return;
    }
    for (switch, wanted) in [("on", true), ("off", false)] {
        let stage = Stage::new();
        let call = stage.sandbox.call("bash").c(stage.text(&FORMS[0]));
        let ended = call.env("AGENT_SH_WARM", switch).run();
        assert_eq!(ended.status, Status::Exited(0), "{ended:?}");
        stage.gate.release(1);
        wait_for_records(&stage.sandbox, 1);
        wait_until("no supervisor is left", || {
            stage.sandbox.supervisors().is_empty()
        });
        let found = has_spare(&stage.sandbox.state());
        assert_eq!(found, wanted, "{switch}");
    }
}

fn has_spare(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap()).any(|entry| {
        let is_dir = entry.file_type().unwrap().is_dir();
        is_dir && (entry.file_name() == "spare" || has_spare(&entry.path()))
    })
}

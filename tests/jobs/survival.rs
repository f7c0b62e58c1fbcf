//! Eleven forms, over every kind of stream, through every kind of kill.
//!
//! No time is measured: a job waits at its gate, so a call that returns has returned while its job runs,
//! and a job that is alive after the kill can only have survived it.

use std::time::{Duration, Instant};

use super::{FORMS, Form, Stage};
use crate::support::{
    Identity, Status, Streams, group_kill, holds_within, in_parallel, job_records, records,
    stands_in, tree_kill, wait_for_records,
};

const STREAMS: [Streams; 6] = [
    Streams::Pipe,
    Streams::Socket,
    Streams::Truncated,
    Streams::Appended,
    Streams::Terminal,
    Streams::Screen,
];

fn each_form_and_stream() -> Vec<(&'static Form, Streams)> {
    let forms = FORMS.iter();
    forms
        .flat_map(|form| STREAMS.map(|streams| (form, streams)))
        .collect()
}

/// Lets the workers go and checks that each of them has exactly one record, with the true code.
#[track_caller]
fn ends_well(stage: &Stage, form: &Form, streams: Streams) {
    stage.gate.release(form.jobs);
    let told = holds_within(crate::support::DEADLINE, || {
        job_records(&stage.sandbox).len() >= form.jobs
    });
    assert!(told, "{} over {streams:?} has no record", form.name);
    for record in wait_for_records(&stage.sandbox, form.jobs) {
        let found = (record.state(), record.exit_code(), record.how());
        let what = format!("{} over {streams:?}: {:#}", form.name, record.event);
        assert_eq!(found, ("exited", Some(37), form.how), "{what}");
    }
}

#[test]
fn every_form_outlives_its_call() {
    if !stands_in() {
        return;
    }
    in_parallel(&each_form_and_stream(), |_, _, &(form, streams)| {
        let stage = Stage::new();
        let call = stage
            .sandbox
            .call("bash")
            .c(stage.text(form))
            .streams(streams);
        let (ended, terminal) = call.start().returned();
        assert_eq!(
            ended.status,
            Status::Exited(0),
            "{} over {streams:?}: {ended:?}",
            form.name
        );
        let workers = stage.workers(form.jobs);
        assert!(workers.iter().all(|worker| worker.lives()), "{}", form.name);
        assert!(job_records(&stage.sandbox).is_empty(), "{}", form.name);
        ends_well(&stage, form, streams);
        drop(terminal);
        if form.how == "stray" {
            return;
        }
        for record in records(&stage.sandbox) {
            let logs = stage.sandbox.agent_sh(["logs", &record.job]).text();
            for word in ["speaks", "ends"] {
                assert!(
                    logs.contains(word),
                    "{} over {streams:?}: {logs}",
                    form.name
                );
            }
        }
    });
}

/// The terminal of a call that is over closes, and its jobs do not mind.
#[test]
fn every_form_outlives_its_terminal() {
    if !stands_in() {
        return;
    }
    in_parallel(&FORMS, |_, _, form| {
        // A stray has the terminal itself for its stdout: its last words cannot be written any more.
        let stage = Stage::new();
        let call = stage
            .sandbox
            .call("bash")
            .c(stage.text(form))
            .streams(Streams::Terminal);
        let (ended, terminal) = call.start().returned();
        assert_eq!(ended.status, Status::Exited(0), "{}", form.name);
        let workers = stage.workers(form.jobs);
        drop(terminal);
        assert!(workers.iter().all(|worker| worker.lives()), "{}", form.name);
        stage.gate.release(form.jobs);
        for record in wait_for_records(&stage.sandbox, form.jobs) {
            let found = (record.state(), record.exit_code());
            assert_eq!(
                found,
                ("exited", Some(37)),
                "{}: {:#}",
                form.name,
                record.event
            );
        }
    });
}

/// Whether the kernel itself ends the worker with the killed session's terminal: one that was forked
/// behind the parser's back and never left that session. Without us it would be the same.
fn hangs_up(form: &Form, streams: Streams) -> bool {
    form.name == "python" && matches!(streams, Streams::Terminal)
}

/// The form, then a foreground that waits at a gate of its own, so that the call is still running.
fn held(stage: &Stage, form: &Form) -> (String, crate::support::Gate) {
    let hold = stage.sandbox.gate();
    let text = format!("{}\nread -r x < {}", stage.text(form), hold.path());
    (text, hold)
}

#[test]
fn every_form_outlives_a_kill_of_the_group() {
    if !stands_in() {
        return;
    }
    let mut cases = each_form_and_stream();
    cases.retain(|&(form, streams)| !hangs_up(form, streams));
    in_parallel(&cases, |_, _, &(form, streams)| {
        let stage = Stage::new();
        let (text, _hold) = held(&stage, form);
        let running = stage.sandbox.call("bash").c(text).streams(streams).start();
        let workers = stage.workers(form.jobs);
        group_kill(running.pid());
        let (ended, terminal) = running.returned();
        assert_eq!(ended.status, Status::Signaled(9), "{}", form.name);
        let alive = workers.iter().all(|worker| worker.lives());
        assert!(
            alive,
            "{} over {streams:?}: {:#?}",
            form.name,
            records(&stage.sandbox)
        );
        ends_well(&stage, form, streams);
        drop(terminal);
    });
}

const INSTANTS: u32 = 20;

/// Kills the tree below the front at 20 instants: spread over the start of the call, then while it waits,
/// then while it returns. A worker that ran before the kill must live; whatever was marked must have
/// exactly one terminal record.
#[test]
fn every_form_outlives_a_kill_of_the_tree() {
    if !stands_in() {
        return;
    }
    let instants: Vec<(&Form, u32)> = FORMS
        .iter()
        .flat_map(|form| (0..INSTANTS).map(move |instant| (form, instant)))
        .collect();
    // How long a call takes to get its jobs going here and now: only the spread depends on it.
    let start = Instant::now();
    let stage = Stage::new();
    let running = stage.sandbox.call("bash").c(stage.text(&FORMS[0])).start();
    stage.workers(1);
    let usual = start.elapsed();
    stage.gate.release(1);
    running.finish();
    in_parallel(&instants, |_, index, &(form, instant)| {
        kill_tree_at(form, instant, STREAMS[index % STREAMS.len()], usual);
    });
}

fn kill_tree_at(form: &Form, instant: u32, streams: Streams, usual: Duration) {
    if hangs_up(form, streams) {
        return;
    }
    let stage = Stage::new();
    let (text, hold) = held(&stage, form);
    let running = stage.sandbox.call("bash").c(text).streams(streams).start();
    match instant {
        0..12 => spin(usual * instant / 8),
        12..16 => drop(stage.workers(form.jobs)),
        _ => {
            stage.workers(form.jobs);
            hold.release(1);
            spin(usual * (instant - 16) / 16);
        }
    }
    let before = stage.marked();
    tree_kill(running.pid());
    let (_, terminal) = running.returned();
    let what = format!("{} at instant {instant} over {streams:?}", form.name);
    for pid in &before {
        let worker = Identity::of(*pid);
        assert!(
            worker.is_some_and(|worker| worker.lives()),
            "{what}: {pid} died"
        );
    }
    // Those that were not under way yet may come or not; let all that do come through.
    stage.gate.release(form.jobs);
    stage.sandbox.assert_no_survivors();
    // What was still part of the foreground at the kill, forked by a program of its own and not yet
    // left by its parent, is ended with the foreground and needs no record of its own.
    let due = match form.how {
        "stray" => before.len(),
        _ => stage.marked().len(),
    };
    let told = holds_within(crate::support::DEADLINE, || {
        job_records(&stage.sandbox).len() >= due
    });
    let found = job_records(&stage.sandbox);
    assert!(told, "{what}: {due} marks, records {found:#?}");
    let whole = found
        .iter()
        .filter(|record| record.exit_code() == Some(37))
        .count();
    assert!(whole >= before.len(), "{what}: {found:#?}");
    assert!(found.len() <= form.jobs, "{what}: {found:#?}");
    drop(terminal);
}

/// Lets time go by without giving up the core for long.
fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::yield_now();
    }
}

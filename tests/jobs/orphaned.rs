//! The supervisor itself is killed. The front ends what runs in the foreground and says so; jobs run on,
//! and nobody claims to know how they end.

use std::fs;

use nix::sys::signal::Signal;

use super::Stage;
use crate::support::{
    Identity, Status, Streams, in_parallel, parent_of, ps_json, signal, stands_in, wait_until,
};

/// A foreground that TERM does not end, two levels below the shell, beside two jobs: a program and a
/// forked subshell.
const TEXT: &str = "{worker} & { true; {worker}; } & sh stubborn.sh; echo never";
const STUBBORN: &str = "trap '' TERM\n\
    sh -c 'trap \"\" TERM; echo $$ > .inner; mv .inner inner; while :; do sleep 0.05; done'\n:\n";

#[test]
fn the_foreground_ends_and_jobs_go_on() {
    if !stands_in() {
        return;
    }
    let streams = [Streams::Pipe, Streams::Truncated, Streams::Terminal];
    in_parallel(&streams, |_, _, &streams| {
        let stage = Stage::new();
        let work = stage.sandbox.work();
        fs::write(work.join("stubborn.sh"), STUBBORN).unwrap();
        let text = TEXT.replace("{worker}", &stage.worker);
        let running = stage.sandbox.call("bash").c(text).streams(streams).start();
        let workers = stage.workers(2);
        let inner = work.join("inner");
        wait_until("the foreground runs", || inner.exists());
        let inner =
            Identity::of(fs::read_to_string(inner).unwrap().trim().parse().unwrap()).unwrap();
        let outer = Identity::of(parent_of(inner.pid).unwrap()).unwrap();
        let shell = Identity::of(parent_of(outer.pid).unwrap()).unwrap();
        let supervisor = parent_of(shell.pid).unwrap();
        signal(supervisor, Signal::SIGKILL);
        let (ended, terminal) = running.returned();
        assert_eq!(ended.status, Status::Exited(125), "{streams:?}: {ended:?}");
        if streams != Streams::Terminal {
            assert!(
                ended
                    .errors()
                    .contains("supervisor of this command was killed"),
                "{ended:?}"
            );
            assert!(!ended.text().contains("never"), "{ended:?}");
        }
        for process in [inner, outer, shell] {
            assert!(!process.lives(), "{streams:?}: {process:?}");
        }
        assert!(workers.iter().all(|worker| worker.lives()), "{streams:?}");
        let jobs = ps_json(&stage.sandbox);
        assert_eq!(jobs.len(), 2, "{jobs:#?}");
        for job in &jobs {
            assert_eq!(job["state"], "running", "{job:#}");
            assert!(
                job["degraded"].to_string().contains("unsupervised"),
                "{job:#}"
            );
        }
        stage.gate.release(2);
        stage.sandbox.assert_no_survivors();
        // A status that init has not taken yet can still be read; else nobody knows it.
        for job in ps_json(&stage.sandbox) {
            let end = (job["state"].as_str().unwrap(), job["exit_code"].as_i64());
            assert!(
                [("lost", None), ("exited", Some(37))].contains(&end),
                "{job:#}"
            );
        }
        drop(terminal);
    });
}

/// `run --wait` only watches: its job is no foreground.
#[test]
fn a_watched_job_goes_on() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let mut words = vec!["run", "--wait", "--"];
    words.extend(stage.worker.split(' '));
    let running = stage.sandbox.call("agent-sh").args(words).start();
    let worker = stage.workers(1)[0];
    signal(parent_of(worker.pid).unwrap(), Signal::SIGKILL);
    let ended = running.finish();
    assert_eq!(ended.status, Status::Exited(125), "{ended:?}");
    assert!(
        ended.errors().contains("was killed; nobody can tell"),
        "{ended:?}"
    );
    assert!(worker.lives());
    let jobs = ps_json(&stage.sandbox);
    assert!(
        jobs[0]["degraded"].to_string().contains("unsupervised"),
        "{jobs:#?}"
    );
    stage.gate.release(1);
    stage.sandbox.assert_no_survivors();
}

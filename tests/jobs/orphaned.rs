//! The supervisor itself is killed. The front ends what runs in the foreground and says so; jobs run on,
//! and nobody claims to know how they end.

use std::fs;

use nix::sys::signal::Signal;

use super::Stage;
use crate::support::{
    Identity, Status, Streams, in_parallel, parent_of, ps_json, signal, stands_in, tree, wait_until,
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

/// What `show` says under a heading.
fn shown(stage: &Stage, id: &str, heading: &str) -> Option<String> {
    let show = stage.sandbox.agent_sh(["show", id]);
    assert!(show.succeeded(), "{show:?}");
    let text = show.text();
    let mut lines = text.lines().map(str::trim_start);
    let line = lines.find_map(|line| line.strip_prefix(heading))?;
    Some(line.trim_start().to_owned())
}

fn show_json(stage: &Stage, id: &str) -> serde_json::Value {
    let show = stage.sandbox.agent_sh(["show", "--json", id]);
    serde_json::from_str(&show.text()).unwrap_or_else(|error| panic!("{error}: {show:?}"))
}

/// It is said until when its output was kept: while it runs, and when it is lost.
#[test]
fn a_lost_job_says_what_is_missing() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let call = stage.sandbox.call("bash").c(format!("{} &", stage.worker));
    assert!(call.run().succeeded());
    let worker = stage.workers(1)[0];
    let id = ps_json(&stage.sandbox)[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let log = stage.sandbox.state().join("v1/jobs").join(&id).join("out");
    wait_until("its first words are kept", || {
        fs::metadata(&log).is_ok_and(|log| log.len() > 0)
    });
    let supervisor = Identity::of(parent_of(worker.pid).unwrap()).unwrap();
    assert_eq!(
        show_json(&stage, &id)["output"]["missing_since"],
        serde_json::Value::Null
    );
    assert_eq!(shown(&stage, &id, "missing"), None);
    signal(supervisor.pid, Signal::SIGKILL);
    wait_until("its supervisor is gone", || {
        !supervisor.lives() && ps_json(&stage.sandbox)[0]["degraded"][0] == "unsupervised"
    });
    let running = show_json(&stage, &id);
    let since = running["output"]["missing_since"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        since.as_str() >= running["started_at"].as_str().unwrap(),
        "{running:#}"
    );
    let gone = shown(&stage, &id, "supervisor").unwrap();
    assert!(gone.contains(&format!("last seen at {since}")), "{gone}");
    signal(worker.pid, Signal::SIGKILL);
    wait_until("it has gone without a trace", || {
        parent_of(worker.pid).is_none() || !worker.lives()
    });
    wait_until("its end is judged", || {
        ps_json(&stage.sandbox)[0]["state"] != "running"
    });
    let record = show_json(&stage, &id);
    let data = &record["data"];
    assert_eq!(
        data["output"]["missing_since"],
        since.as_str(),
        "{record:#}"
    );
    assert_eq!(data["ended_at"], serde_json::Value::Null, "{record:#}");
    assert_eq!(data["duration_ms"], serde_json::Value::Null, "{record:#}");
    assert!(
        data["output"]["bytes_kept"].as_u64() > Some(0),
        "{record:#}"
    );
    let missing = shown(&stage, &id, "missing").unwrap();
    assert!(
        missing.starts_with(&format!("output after {since} may be")),
        "{missing}"
    );
    let ended = shown(&stage, &id, "ended").unwrap();
    let noticed = record["time"].as_str().unwrap();
    assert_eq!(ended, format!("nobody saw when; noticed at {noticed}"));
    // A status that init has not taken yet can still be read.
    if data["state"] == "lost" {
        let lost = shown(&stage, &id, "lost").unwrap();
        assert!(lost.contains("supervisor was killed"), "{lost}");
    }
}

/// The status of a zombie can be read, the time of its end cannot: none is made up.
#[test]
fn an_end_that_is_read_from_a_zombie_has_no_time() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let hold = stage.sandbox.gate();
    let text = format!("{} & read -r x < {}", stage.worker, hold.path());
    let running = stage.sandbox.call("bash").c(text).start();
    let worker = stage.workers(1)[0];
    let shell = Identity::of(parent_of(worker.pid).unwrap()).unwrap();
    let supervisor = parent_of(shell.pid).unwrap();
    assert_eq!(tree(supervisor)[1], shell.pid);
    // A shell that is stopped reaps nobody, and whoever would end it is gone.
    signal(shell.pid, Signal::SIGSTOP);
    signal(running.pid(), Signal::SIGSTOP);
    signal(supervisor, Signal::SIGKILL);
    signal(running.pid(), Signal::SIGKILL);
    wait_until("nobody supervises it", || {
        parent_of(shell.pid) != Some(supervisor)
    });
    stage.gate.release(1);
    wait_until("the job has ended", || !worker.lives());
    let job = ps_json(&stage.sandbox).remove(0);
    signal(shell.pid, Signal::SIGKILL);
    assert_eq!(
        (&job["state"], &job["exit_code"]),
        (&"exited".into(), &37.into()),
        "{job:#}"
    );
    for name in ["ended_at", "duration_ms"] {
        assert_eq!(job[name], serde_json::Value::Null, "{job:#}");
    }
    let id = job["id"].as_str().unwrap();
    let ended = shown(&stage, id, "ended").unwrap();
    assert!(ended.starts_with("nobody saw when; noticed at "), "{ended}");
    let wait = stage.sandbox.agent_sh(["wait", id]);
    assert_eq!(wait.status, Status::Exited(37), "{wait:?}");
    drop(running);
    stage.sandbox.assert_no_survivors();
}

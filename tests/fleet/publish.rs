//! What is published, and that it is there once.

use std::fs;

use serde_json::{Value, json};

use super::server::{self, Nats};
use super::{agent_sh, count, sandbox, standing};
use crate::support::{Sandbox, wait_until};

/// Runs a job in a session, and gives its id when its end was delivered to this subscriber.
fn job(sandbox: &Sandbox, name: &str) -> String {
    let started = sandbox
        .call("agent-sh")
        .env("AGENT_SH_SESSION", "a.b")
        .args(["run", "echo out; exit 4"])
        .run();
    let id = started.text().trim().to_owned();
    wait_until("its end is delivered", || {
        let standing = standing(sandbox, name);
        let done = standing["delivered"].as_array().unwrap().clone();
        done.iter()
            .any(|event| event["event"] == format!("{id}.exit"))
    });
    id
}

/// Takes back what says that the events of a job were delivered, as if the helper had died before it noted it.
fn forget(sandbox: &Sandbox, name: &str, id: &str) {
    for kind in ["start", "exit"] {
        fs::remove_file(
            sandbox
                .state()
                .join(format!("v1/subs/{name}/done/{id}.{kind}")),
        )
        .unwrap();
    }
}

#[test]
fn nats_has_each_event_once() {
    let Some(sandbox) = sandbox() else { return };
    let Some(server) = server::nats(&sandbox, "") else {
        return;
    };
    let url = format!("nats://127.0.0.1:{}/JOBS", server.port);
    agent_sh(&sandbox, &["notify", "add", &url, "--as", "n"]);
    let id = job(&sandbox, "n");
    let mut client = Nats::new(&server, &json!({}));
    let single = |client: &mut Nats| {
        let mut all = client.all("JOBS");
        all.retain(|kept| !kept.subject.ends_with(".beat"));
        all
    };
    let all = single(&mut client);
    assert_eq!(all.len(), 2, "{all:#?}");
    for (kept, kind) in all.iter().zip(["start", "exit"]) {
        let source = kept.event["source"].as_str().unwrap();
        let parts: Vec<&str> = source.split(':').collect();
        let wanted = format!("JOBS.{}-{}.a=2Eb.{id}.{kind}", parts[2], parts[4]);
        assert_eq!(kept.subject, wanted);
        for header in [
            format!("Nats-Msg-Id: {source}/{id}.{kind}\r\n"),
            "Nats-Expected-Last-Subject-Sequence: 0\r\n".to_owned(),
            "content-type: application/cloudevents+json\r\n".to_owned(),
            format!("ce-id: {id}.{kind}\r\n"),
            format!("ce-source: {source}\r\n"),
        ] {
            assert!(
                kept.headers.contains(&header),
                "{header:?}: {}",
                kept.headers
            );
        }
    }
    assert_eq!(all[1].event["data"]["exit_code"], 4);
    // Sent again, and again long after the server's window of ids: the subject itself says that it is there.
    forget(&sandbox, "n", &id);
    wait_until("it is delivered again", || {
        agent_sh(&sandbox, &["ps"]);
        count(&standing(&sandbox, "n"), "delivered") == 2
    });
    assert_eq!(single(&mut client).len(), 2);
    let config = client.api("STREAM.INFO.JOBS", &json!({}))["config"].clone();
    assert_eq!(
        (&config["subjects"], &config["discard"]),
        (&json!(["JOBS.>"]), &json!("new"))
    );
}

#[test]
fn redis_has_each_event_once() {
    let Some(sandbox) = sandbox() else { return };
    let Some(server) = server::redis(&sandbox, &[]) else {
        return;
    };
    let url = format!("redis://127.0.0.1:{}/0/jobs", server.port);
    agent_sh(&sandbox, &["notify", "add", &url, "--as", "r"]);
    let id = job(&sandbox, "r");
    let single = || -> Vec<Value> {
        let mut all = server::redis_events(&server, "jobs");
        all.retain(|event| event["type"] != "dev.agent-sh.job.beat.v1");
        all
    };
    let ids: Vec<Value> = single().iter().map(|event| event["id"].clone()).collect();
    assert_eq!(ids, [format!("{id}.start"), format!("{id}.exit")]);
    let entries = server::redis_cli(&server, &["xrange", "jobs", "-", "+"]);
    let source = single()[0]["source"].as_str().unwrap().to_owned();
    assert!(entries.contains(&format!(
        "id\n{source}/{id}.exit\ntype\ndev.agent-sh.job.exited.v1\nevent\n{{"
    )));
    forget(&sandbox, "r", &id);
    wait_until("it is delivered again", || {
        agent_sh(&sandbox, &["ps"]);
        count(&standing(&sandbox, "r"), "delivered") == 2
    });
    assert_eq!(single().len(), 2);
}

/// A running job says that it lives, one helper for all of them, and nothing of that stays when the last has ended.
#[test]
fn running_jobs_beat() {
    let Some(sandbox) = sandbox() else { return };
    let Some(nats) = server::nats(&sandbox, "") else {
        return;
    };
    let Some(redis) = server::redis(&sandbox, &[]) else {
        return;
    };
    let gate = sandbox.gate();
    let run = || agent_sh(&sandbox, &["run", &format!("read -r x <{}", gate.path())]).text();
    // One that runs before anybody wants to know is told of as well.
    let first = run();
    let urls = [
        format!("nats://127.0.0.1:{}/JOBS", nats.port),
        format!("redis://127.0.0.1:{}/2/jobs", redis.port),
    ];
    for url in &urls {
        agent_sh(&sandbox, &["notify", "add", url]);
    }
    let second = run();
    let beats = |job: &str| -> (usize, usize) {
        let beat = |event: &Value| {
            event["type"] == "dev.agent-sh.job.beat.v1" && event["subject"] == job.trim()
        };
        let mut client = Nats::new(&nats, &json!({}));
        let all = client.all("JOBS");
        let text = server::redis_cli(&redis, &["-n", "2", "xrange", "jobs", "-", "+"]);
        let events = text.lines().filter(|line| line.starts_with('{'));
        let events = events.map(|line| serde_json::from_str::<Value>(line).unwrap());
        (
            all.iter().filter(|kept| beat(&kept.event)).count(),
            events.filter(beat).count(),
        )
    };
    for job in [&first, &second] {
        wait_until("it beats", || beats(job) == (1, 1));
    }
    let started = |kind: &str| {
        let all = Nats::new(&nats, &json!({})).all("JOBS");
        all.iter()
            .filter(|kept| kept.subject.ends_with(kind))
            .count()
    };
    assert_eq!(started(".start"), 2);
    gate.release(2);
    wait_until("both ends are there", || started(".exit") == 2);
    wait_until("the helpers have left", || sandbox.deliverers().is_empty());
}

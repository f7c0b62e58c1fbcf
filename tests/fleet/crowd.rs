//! Many publishers at once, a broker that is killed in the middle, helpers that are killed at random: each event is there
//! once.
//!
//! `AGENT_SH_TEST_CROWD` says how many publishers there are.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::sandbox;
use super::server::{self, Nats, Server};
use crate::support::{Sandbox, in_parallel, signal, wait_until};

fn size() -> usize {
    let given = std::env::var("AGENT_SH_TEST_CROWD").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(12)
}

/// Publishes from so many stores, with all that goes wrong; gives how often each start and end is in the stream.
fn publish(
    sandbox: &Sandbox,
    server: &mut Server,
    url: &str,
    read: impl Fn(&Server) -> Vec<Value>,
) {
    let publishers: Vec<usize> = (0..size()).collect();
    let call = |number: usize| {
        let state = sandbox.path(format!("store{number}"));
        sandbox.call("agent-sh").env("AGENT_SH_STATE", state)
    };
    in_parallel(&publishers, |_, _, &number| {
        assert!(call(number).args(["notify", "add", url]).run().succeeded());
        assert!(call(number).args(["run", "exit 0"]).run().succeeded());
        if number % 3 == 0 {
            for pid in sandbox.deliverers().into_iter().take(1) {
                signal(pid, Signal::SIGKILL);
            }
        }
    });
    server.kill();
    in_parallel(&publishers, |_, _, &number| {
        assert!(call(number).args(["run", "exit 1"]).run().succeeded());
    });
    server.again();
    let wanted = publishers.len() * 4;
    wait_until("every event is there", || {
        // Whoever comes next delivers what stayed behind.
        in_parallel(&publishers, |_, _, &number| {
            call(number).args(["ps", "-q"]).run();
        });
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for event in read(server) {
            if event["type"] != "dev.agent-sh.job.beat.v1" {
                *found
                    .entry(format!("{}/{}", event["source"], event["id"]))
                    .or_default() += 1;
            }
        }
        assert!(found.values().all(|&count| count == 1), "{found:#?}");
        found.len() == wanted
    });
    wait_until("nothing is pending", || {
        publishers.iter().all(|&number| {
            let listed = call(number).args(["notify", "list", "--json"]).run().text();
            let listed: Value = serde_json::from_str(&listed).unwrap();
            listed[0]["pending"] == json!([])
        })
    });
}

#[test]
fn nats_keeps_each_event_once() {
    let Some(sandbox) = sandbox() else { return };
    let Some(mut server) = server::nats(&sandbox, "") else {
        return;
    };
    let url = format!("nats://127.0.0.1:{}/JOBS", server.port);
    publish(&sandbox, &mut server, &url, |server| {
        let all = Nats::new(server, &json!({})).all("JOBS");
        all.into_iter().map(|kept| kept.event).collect()
    });
}

#[test]
fn redis_keeps_each_event_once() {
    let Some(sandbox) = sandbox() else { return };
    let Some(mut server) = server::redis(&sandbox, &[]) else {
        return;
    };
    let url = format!("redis://127.0.0.1:{}/0/jobs", server.port);
    publish(&sandbox, &mut server, &url, |server| {
        server::redis_events(server, "jobs")
    });
}

//! `--from`: the same answers as on the machine itself, from either engine.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::server::{self, Nats, Server};
use super::{agent_sh, count, sandbox, standing};
use crate::support::{Ended, Sandbox, Status, signal, wait_until};

/// Each engine with the address of a stream; a name says which is tried.
fn engines(sandbox: &Sandbox) -> Vec<(&'static str, Server, String)> {
    let nats = server::nats(sandbox, "").map(|server| {
        let url = format!("nats://127.0.0.1:{}/JOBS", server.port);
        ("nats", server, url)
    });
    let redis = server::redis(sandbox, &[]).map(|server| {
        let url = format!("redis://127.0.0.1:{}/0/jobs", server.port);
        ("redis", server, url)
    });
    nats.into_iter().chain(redis).collect()
}

fn json_of(ended: &Ended) -> Value {
    assert!(ended.succeeded(), "{ended:?}");
    serde_json::from_str(&ended.text()).unwrap()
}

/// Another place, without jobs of its own: what it answers comes from the stream.
fn elsewhere(sandbox: &Sandbox, args: &[&str]) -> Ended {
    let call = sandbox
        .call("agent-sh")
        .env("AGENT_SH_STATE", sandbox.path("elsewhere"));
    call.args(args).run()
}

#[test]
fn the_same_answers_as_on_the_machine() {
    let Some(sandbox) = sandbox() else { return };
    for (name, _server, url) in engines(&sandbox) {
        agent_sh(&sandbox, &["notify", "add", &url, "--as", name]);
        let gate = sandbox.gate();
        let wait_at = format!("read -r x <{}", gate.path());
        let run = |name: &str, text: &str| {
            let call = sandbox.call("agent-sh").env("AGENT_SH_SESSION", "se");
            let started = call.args(["run", "--name", name, text]).run();
            assert!(started.succeeded(), "{started:?}");
            started.text().trim().to_owned()
        };
        let ids = [
            run("good", "exit 0"),
            run("bad", "exit 3"),
            run("killed", "kill -9 $$"),
            run("runs", &wait_at),
            run("stopped", "kill -STOP $$; exit 5"),
            run("gone", &wait_at),
        ];
        wait_until("the stopped one has stopped", || {
            json_of(&agent_sh(&sandbox, &["show", "stopped", "--json"]))["state"] == "stopped"
        });
        // The supervisor of the last one dies with it: nobody may have seen its end.
        let facts = json_of(&agent_sh(&sandbox, &["show", "gone", "--json"]));
        let pid = |key: &str| i32::try_from(facts["launch"][key]["pid"].as_i64().unwrap()).unwrap();
        signal(pid("supervisor"), Signal::SIGKILL);
        signal(pid("proc"), Signal::SIGKILL);
        wait_until("its end is known, and told", || {
            agent_sh(&sandbox, &["ps", "-A"]);
            count(&standing(&sandbox, name), "delivered") >= 10
        });
        let local = json_of(&agent_sh(&sandbox, &["ps", "-A", "--json"]));
        let mut far = json_of(&elsewhere(&sandbox, &["ps", "--json", "--from", &url]));
        let mut rows = 0;
        for (here, there) in local
            .as_array()
            .unwrap()
            .iter()
            .zip(far.as_array_mut().unwrap())
        {
            let there = there.as_object_mut().unwrap();
            assert!(
                there
                    .remove("machine")
                    .unwrap()
                    .as_str()
                    .unwrap()
                    .contains('-')
            );
            let mut here = here.as_object().unwrap().clone();
            if here["exit_code"].is_null() && here["ended_at"].is_null() {
                // How long it has run is another number a moment later; a stop is told with the next sign of life.
                for key in ["duration_ms", "state", "bytes_total", "degraded"] {
                    here.remove(key);
                    there.remove(key);
                }
            }
            assert_eq!(&here, there, "{name}");
            rows += 1;
        }
        assert_eq!(rows, ids.len(), "{name}: {far}");
        for (id, wanted) in ids.iter().zip([0, 3, 137]) {
            let waited = elsewhere(&sandbox, &["wait", id, "--from", &url]);
            assert_eq!(waited.status, Status::Exited(wanted), "{waited:?}");
        }
        let here = sandbox.agent_sh(["wait", "gone"]);
        let there = elsewhere(&sandbox, &["wait", "gone", "--from", &url]);
        assert_eq!(there.status, here.status, "{there:?}");
        let record = json_of(&agent_sh(&sandbox, &["show", "bad", "--json"]));
        let mut far = json_of(&elsewhere(
            &sandbox,
            &["show", "bad", "--json", "--from", &url],
        ));
        far.as_object_mut().unwrap().remove("machine").unwrap();
        assert_eq!(record, far);
        let shown = elsewhere(&sandbox, &["show", "bad", "--from", &url]).text();
        assert!(
            shown.contains("exited with 3") && shown.contains("machine"),
            "{shown}"
        );
        let listed_ids = |listed: &Value| -> Vec<String> {
            let rows = listed.as_array().unwrap().iter();
            rows.map(|row| row["id"].to_string()).collect()
        };
        let here = json_of(&agent_sh(&sandbox, &["ps", "-A", "--failed", "--json"]));
        let there = json_of(&elsewhere(
            &sandbox,
            &["ps", "--failed", "--json", "--from", &url],
        ));
        assert_eq!(listed_ids(&there), listed_ids(&here));
        assert!(listed_ids(&here).len() < rows, "{here}");
        let table = elsewhere(&sandbox, &["ps", "--from", &url]).text();
        assert!(
            table.starts_with("STATE ") && table.contains("MACHINE"),
            "{table}"
        );
        let over = elsewhere(
            &sandbox,
            &["wait", "runs", "--from", &url, "--timeout", "0.2s"],
        );
        assert_eq!(over.status, Status::Exited(124), "{over:?}");
        // A wait that has begun hears of the end.
        let call = sandbox
            .call("agent-sh")
            .env("AGENT_SH_STATE", sandbox.path("elsewhere"));
        let waiting = call.args(["wait", "runs", "--from", &url]).start();
        gate.release(1);
        assert_eq!(waiting.finish().status, Status::Exited(0));
        agent_sh(&sandbox, &["kill", "stopped"]);
        let unknown = elsewhere(&sandbox, &["wait", "nothing", "--from", &url]);
        assert_eq!(unknown.status, Status::Exited(125), "{unknown:?}");
        agent_sh(&sandbox, &["notify", "remove", name]);
        agent_sh(&sandbox, &["gc", "--keep", "0"]);
        fs::remove_dir_all(sandbox.state().join("v1/jobs")).unwrap();
    }
}

#[test]
fn events_of_all_machines() {
    let Some(sandbox) = sandbox() else { return };
    for (name, _server, url) in engines(&sandbox) {
        // Two stores are two machines to a reader.
        let states = ["one", "two"].map(|place| sandbox.path(format!("{name}-{place}")));
        for state in &states {
            let call = || sandbox.call("agent-sh").env("AGENT_SH_STATE", state);
            assert!(call().args(["notify", "add", &url]).run().succeeded());
            assert!(call().args(["run", "true"]).run().succeeded());
        }
        let ids = |more: &[&str]| -> Vec<(String, String)> {
            let args = [&["events", "--from", &url], more].concat();
            let printed = elsewhere(&sandbox, &args);
            let lines = printed.text();
            let events = lines
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap());
            let text = |event: &Value, key: &str| event[key].as_str().unwrap().to_owned();
            events
                .map(|event| (text(&event, "source"), text(&event, "id")))
                .collect()
        };
        wait_until("all four are there", || ids(&[]).len() == 4);
        let all = ids(&[]);
        let sources: std::collections::BTreeSet<_> = all.iter().map(|(source, _)| source).collect();
        assert_eq!(sources.len(), 2);
        assert_eq!(ids(&["--since", &all[1].1]), all[2..]);
        assert_eq!(ids(&["-n", "1"]), all[3..]);
        let none = elsewhere(
            &sandbox,
            &["events", "--from", &url, "--since", "nothing.exit"],
        );
        assert_eq!(none.status, Status::Exited(125));
    }
}

/// A machine that vanishes is silent; after its time its jobs are `lost?`. The time is the broker's: an entry can be made old.
#[test]
fn a_silent_machine_may_be_lost() {
    let Some(sandbox) = sandbox() else { return };
    let Some(server) = server::redis(&sandbox, &[]) else {
        return;
    };
    let event = |kind: &str, what: &str| {
        json!({
            "specversion": "1.0", "id": format!("2345ab.{what}"), "source": "urn:agent-sh:abc:0:s7", "subject": "2345ab",
            "type": format!("dev.agent-sh.job.{kind}.v1"), "time": "2026-01-01T00:00:00.000Z",
            "data": {"job": "2345ab", "state": "running", "started_at": "2026-01-01T00:00:00.000Z",
                "command": {"text": "make"}, "how": "run"},
        })
        .to_string()
    };
    let now: u64 = server::redis_cli(&server, &["time"])
        .lines()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let add = |age: u64, kind: &str, what: &str| {
        let id = format!("{}000-0", now - age);
        let event = event(kind, what);
        server::redis_cli(
            &server,
            &["xadd", "jobs", &id, "id", "x", "type", "t", "event", &event],
        );
    };
    let url = format!("redis://127.0.0.1:{}/0/jobs", server.port);
    let state = || {
        let listed = json_of(&elsewhere(&sandbox, &["ps", "--json", "--from", &url]));
        assert_eq!(listed[0]["machine"], "abc-s7");
        listed[0]["state"].as_str().unwrap().to_owned()
    };
    add(600, "started", "start");
    assert_eq!(state(), "lost?");
    let waited = elsewhere(&sandbox, &["wait", "2345ab", "--from", &url]);
    assert_eq!(waited.status, Status::Exited(125), "{waited:?}");
    assert!(waited.text().contains("may be lost"), "{waited:?}");
    add(5, "beat", "beat.1");
    assert_eq!(state(), "running");
}

/// Three readers share the ends; whichever is killed, each is told once, and once more at most for the one it held.
#[test]
fn readers_share_a_group() {
    let Some(sandbox) = sandbox() else { return };
    for (name, server, url) in engines(&sandbox) {
        let log = sandbox.path(format!("{name}.woken"));
        let hook = format!(
            "#!/bin/sh\nsed 's/.*\"id\":\"\\([^\"]*\\)\".*/\\1/' >> {}\n",
            log.display()
        );
        let hook = format!("exec:{}", sandbox.script(&format!("{name}-hook"), &hook));
        agent_sh(&sandbox, &["notify", "add", &url, "--as", name]);
        agent_sh(&sandbox, &["notify", "test", name]);
        let reader = || {
            let call = sandbox
                .call("agent-sh")
                .env("AGENT_SH_STATE", sandbox.path("elsewhere"));
            call.args([
                "wait", "--follow", "--from", &url, "--group", "wakers", "--notify", &hook,
            ])
            .start()
        };
        let mut readers: Vec<_> = (0..3).map(|_| reader()).collect();
        let joined = || match name {
            "nats" => {
                let info =
                    Nats::new(&server, &json!({})).api("CONSUMER.INFO.JOBS.wakers", &json!({}));
                info["num_waiting"].as_u64() >= Some(3)
            }
            _ => {
                let clients = server::redis_cli(&server, &["info", "clients"]);
                clients.contains("blocked_clients:3")
            }
        };
        wait_until("all have joined", joined);
        let jobs = 12;
        let mut ids: Vec<String> = Vec::new();
        for number in 0..jobs {
            ids.push(
                agent_sh(&sandbox, &["run", "true"])
                    .text()
                    .trim()
                    .to_owned(),
            );
            if number == 4 {
                signal(readers[0].pid(), Signal::SIGKILL);
                readers[0] = reader();
            }
        }
        let woken = || -> Vec<String> {
            let text = fs::read_to_string(&log).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        };
        wait_until("each was told", || {
            ids.iter().all(|id| woken().contains(&format!("{id}.exit")))
        });
        assert!(woken().len() <= jobs + 1, "{:?}", woken());
        let pending = || match name {
            "nats" => {
                let info =
                    Nats::new(&server, &json!({})).api("CONSUMER.INFO.JOBS.wakers", &json!({}));
                info["num_ack_pending"].as_u64().unwrap() + info["num_pending"].as_u64().unwrap()
            }
            _ => {
                let text = server::redis_cli(&server, &["xpending", "jobs", "wakers"]);
                text.lines().next().unwrap().parse().unwrap()
            }
        };
        wait_until("nothing is left pending", || pending() == 0);
        for reader in readers {
            signal(reader.pid(), Signal::SIGTERM);
            reader.finish();
        }
        agent_sh(&sandbox, &["notify", "remove", name]);
    }
}

#[test]
fn what_cannot_be_read_is_said() {
    let Some(sandbox) = sandbox() else { return };
    for (_, _server, url) in engines(&sandbox) {
        let ended = elsewhere(&sandbox, &["ps", "--from", &url]);
        assert_eq!(ended.status, Status::Exited(125));
        assert!(ended.errors().contains("there is no stream"), "{ended:?}");
        for (args, said) in [
            (
                &["wait", "--follow", "--from", &url, "--notify", "stdout"][..],
                "--group",
            ),
            (
                &["wait", "--follow", "--from", &url, "--group", "g"],
                "--notify",
            ),
            (
                &[
                    "wait", "--follow", "--from", &url, "--group", "g", "--notify", "codex",
                ],
                "own machine",
            ),
            (
                &["wait", "x", "--from", &url, "--for-output", "x"],
                "own machine",
            ),
            (&["ps", "--from", "https://example.com/"], "broker"),
        ] {
            let ended = elsewhere(&sandbox, args);
            assert_eq!(ended.status, Status::Exited(2), "{ended:?}");
            assert!(ended.errors().contains(said), "{ended:?}");
        }
    }
}

//! One order for all readers, and cursors that miss nothing.

use std::io::{BufRead, BufReader};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{ended, running};
use crate::support::{Identity, Sandbox, Status, exit_of, signal};

fn events(sandbox: &Sandbox, args: &[&str]) -> Vec<Value> {
    let ended = sandbox.call("agent-sh").args(["events"]).args(args).run();
    assert!(ended.succeeded(), "{ended:?}");
    let text = ended.text();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn ids(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["id"].as_str().unwrap())
        .collect()
}

/// A follower whose lines are read one by one.
struct Follower {
    child: std::process::Child,
    lines: BufReader<std::fs::File>,
}

impl Follower {
    fn new(sandbox: &Sandbox, args: &[&str]) -> Self {
        let call = sandbox
            .call("agent-sh")
            .args(["events", "--follow"])
            .args(args);
        let (child, out) = call.start().into_stdout();
        Self {
            child,
            lines: BufReader::new(out),
        }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        let count = self.lines.read_line(&mut line).unwrap();
        assert!(count > 0, "the follower ended");
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[test]
fn each_launch_has_a_start_and_an_end() {
    let sandbox = Sandbox::new();
    assert_eq!(events(&sandbox, &[]), [Value::Null; 0]);
    let first = ended(&sandbox, 3);
    let runs = running(&sandbox, &["--session", "mine"]);
    let all = events(&sandbox, &[]);
    assert_eq!(
        ids(&all),
        [
            format!("{first}.start"),
            format!("{first}.exit"),
            format!("{runs}.start")
        ]
    );
    let kinds: Vec<&Value> = all.iter().map(|event| &event["type"]).collect();
    assert_eq!(
        kinds,
        [
            "dev.agent-sh.job.started.v1",
            "dev.agent-sh.job.exited.v1",
            "dev.agent-sh.job.started.v1"
        ]
    );
    for event in &all {
        for key in [
            "specversion",
            "id",
            "source",
            "type",
            "subject",
            "time",
            "data",
        ] {
            assert!(event.get(key).is_some(), "{key}: {event:#}");
        }
    }
    // The terminal event is the record.
    let record = sandbox.agent_sh(["show", &first, "--json"]);
    assert_eq!(
        all[1],
        serde_json::from_slice::<Value>(&record.stdout).unwrap()
    );
    assert_eq!(
        ids(&events(&sandbox, &["--since", &format!("{first}.start")])).len(),
        2
    );
    assert_eq!(
        ids(&events(&sandbox, &["--last", "1"])),
        [format!("{runs}.start")]
    );
    assert_eq!(
        ids(&events(&sandbox, &["--session", "mine"])),
        [format!("{runs}.start")]
    );
    sandbox.agent_sh(["kill", &runs]);
    let more = events(&sandbox, &["--since", &format!("{runs}.start")]);
    assert_eq!(ids(&more), [format!("{runs}.exit")]);
    for unknown in ["zzzzzz.exit", &first, "../../x", ""] {
        let since = sandbox.agent_sh(["events", "--since", unknown]);
        assert_eq!(since.status, Status::Exited(125), "{since:?}");
        assert!(since.errors().contains("no event '"), "{since:?}");
    }
}

/// A reader that is restarted again and again, with only its last id, sees every event once.
#[test]
fn restarts_of_a_reader() {
    let sandbox = Sandbox::new();
    let mut seen: Vec<String> = Vec::new();
    let mut started = Vec::new();
    for turn in 0..12 {
        started.push(match turn % 3 {
            0 => running(&sandbox, &[]),
            _ => ended(&sandbox, 0),
        });
        if turn % 4 == 3 {
            sandbox.agent_sh(["kill", &started[turn - 3]]);
        }
        let args = match seen.last() {
            None => vec!["events".to_owned()],
            Some(last) => vec!["events".to_owned(), "--since".to_owned(), last.clone()],
        };
        let told = sandbox.call("agent-sh").args(args).run();
        let text = told.text();
        seen.extend(text.lines().map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            event["id"].as_str().unwrap().to_owned()
        }));
    }
    let all = events(&sandbox, &[]);
    assert_eq!(seen, ids(&all));
    for id in &started {
        assert!(seen.contains(&format!("{id}.start")));
    }
    let mut unique = seen.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), seen.len());
    sandbox.call("agent-sh").args(["kill"]).args(&started).run();
}

/// Nobody else looks: the follower itself finds out that a supervisor was killed.
#[test]
fn a_loss_is_told_by_itself() {
    let sandbox = Sandbox::new();
    let mut follower = Follower::new(&sandbox, &[]);
    let id = running(&sandbox, &[]);
    let start = follower.next();
    assert_eq!(start["id"], format!("{id}.start"));
    let path = sandbox.state().join("v1/jobs").join(&id).join("run.json");
    let launch: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let pid = |who: &str| i32::try_from(launch[who]["pid"].as_i64().unwrap()).unwrap();
    let job = Identity::of(pid("proc")).unwrap();
    signal(pid("supervisor"), Signal::SIGKILL);
    signal(job.pid, Signal::SIGKILL);
    let end = follower.next();
    assert_eq!(end["id"], format!("{id}.exit"));
    // Whoever is its parent now may not have reaped it yet: then its status can still be read.
    match end["data"]["state"].as_str() {
        Some("lost") => assert!(end["data"]["exit_code"].is_null()),
        _ => assert_eq!(end["data"]["signal"], 9, "{end:#}"),
    }
    drop(follower);
    assert_eq!(
        events(&sandbox, &["--since", &format!("{id}.exit")]),
        [Value::Null; 0]
    );
}

/// Started before there is anything, it sees the first job; it goes on after a cursor; and it ends with
/// its reader, also while nothing happens.
#[test]
fn following() {
    let sandbox = Sandbox::new();
    let mut early = Follower::new(&sandbox, &[]);
    let id = ended(&sandbox, 5);
    assert_eq!(early.next()["id"], format!("{id}.start"));
    let end = early.next();
    assert_eq!(
        (&end["id"], &end["data"]["exit_code"]),
        (&format!("{id}.exit").into(), &5.into())
    );
    let mut late = Follower::new(&sandbox, &["--since", &format!("{id}.exit")]);
    let only_new = Follower::new(&sandbox, &["-n", "0"]);
    let next = ended(&sandbox, 0);
    for follower in [&mut early, &mut late] {
        assert_eq!(follower.next()["id"], format!("{next}.start"));
        assert_eq!(follower.next()["id"], format!("{next}.exit"));
    }
    for follower in [early, late, only_new] {
        let mut follower = std::mem::ManuallyDrop::new(follower);
        let lines = std::mem::replace(
            &mut follower.lines,
            BufReader::new(tempfile::tempfile().unwrap()),
        );
        drop(lines);
        let status = exit_of(&mut follower.child);
        assert!(
            matches!(status, Status::Exited(0) | Status::Signaled(13)),
            "{status:?}"
        );
    }
}

/// A killed foreground command has an event of its own kind, and no start.
#[test]
fn a_killed_command() {
    let sandbox = Sandbox::new();
    let mark = sandbox.path("runs");
    let call = sandbox
        .call("bash")
        .c(format!("echo > {}; sleep 600", mark.display()))
        .start();
    crate::support::wait_until("it runs", || mark.exists());
    signal(call.pid(), Signal::SIGTERM);
    assert_eq!(call.finish().status, Status::Signaled(15));
    crate::support::wait_until("the event is there", || !events(&sandbox, &[]).is_empty());
    let all = events(&sandbox, &[]);
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!(all[0]["type"], "dev.agent-sh.command.killed.v1");
}

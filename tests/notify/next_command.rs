//! An end that nothing else told is told after the next command of the same session: on its stderr, once.

use std::path::Path;

use crate::support::{Ended, Sandbox, wait_for_records, wait_until};

/// A command of this session; of nobody's, it belongs to the process that makes the calls: this one.
fn call(sandbox: &Sandbox, text: &str, env: &[(&str, &str)]) -> Ended {
    let mut call = sandbox.call("bash").args(["-c", text]);
    for (name, value) in [("AGENT_SH_TELL", "auto")].iter().chain(env) {
        call = call.env(name, value);
    }
    call.run()
}

fn told(ended: &Ended) -> Vec<String> {
    let errors = ended.errors();
    let lines = errors.lines().filter(|line| line.starts_with("[agent-sh]"));
    lines.map(str::to_owned).collect()
}

/// Starts a job and waits for its record.
fn ended_job(sandbox: &Sandbox, text: &str, env: &[(&str, &str)], number: usize) -> String {
    let gate = sandbox.gate();
    let text = format!("(read -r x < {}; {text}) &", gate.path());
    let started = call(sandbox, &text, env);
    assert!(told(&started).is_empty(), "{started:?}");
    gate.release(1);
    let found = wait_for_records(sandbox, number);
    let id = found.last().unwrap().job.clone();
    // It is noted for the next command right after the record is there.
    wait_until("its end is noted", || {
        noted(&sandbox.path("state")).contains(&id)
    });
    id
}

/// The names of all that is noted for next commands.
fn noted(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for entry in entries.filter(|entry| entry.path().is_dir()) {
        let in_tell = dir.file_name().is_some_and(|name| name == "tell");
        if in_tell {
            let names = std::fs::read_dir(entry.path()).into_iter().flatten();
            found.extend(
                names
                    .flatten()
                    .filter_map(|name| name.file_name().into_string().ok()),
            );
        } else {
            found.extend(noted(&entry.path()));
        }
    }
    found
}

#[test]
fn an_end_is_told_once_after_the_next_command() {
    let sandbox = Sandbox::new();
    let id = ended_job(&sandbox, "exit 3", &[], 1);
    let next = call(&sandbox, "echo out; echo err >&2; exit 4", &[]);
    assert_eq!(next.text(), "out\n", "{next:?}");
    let errors = next.errors();
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{next:?}");
    assert_eq!(lines[0], "err", "after the command's own output");
    let begins = format!("[agent-sh] job {id} finished: exit 3 after ");
    let ends = format!(". Output: agent-sh logs {id}");
    assert!(
        lines[1].starts_with(&begins) && lines[1].ends_with(&ends),
        "{next:?}"
    );
    let again = call(&sandbox, "true", &[]);
    assert!(told(&again).is_empty(), "{again:?}");
    sandbox.assert_no_survivors();
}

#[test]
fn sessions_hear_of_their_own_jobs() {
    let sandbox = Sandbox::new();
    let (ours, theirs) = ([("AGENT_SH_SESSION", "a")], [("AGENT_SH_SESSION", "b")]);
    let id = ended_job(&sandbox, "kill -KILL $BASHPID", &ours, 1);
    for env in [&theirs[..], &[]] {
        let other = call(&sandbox, "true", env);
        assert!(told(&other).is_empty(), "{other:?}");
    }
    let next = told(&call(&sandbox, "true", &ours));
    let begins = format!("[agent-sh] job {id} was killed by KILL after ");
    assert!(next.len() == 1 && next[0].starts_with(&begins), "{next:?}");
}

#[test]
fn nothing_is_told_that_is_known_or_not_wanted() {
    let sandbox = Sandbox::new();
    let session = [("AGENT_SH_SESSION", "a")];
    // It is off.
    ended_job(&sandbox, "true", &session, 1);
    let off = call(&sandbox, "true", &[session[0], ("AGENT_SH_TELL", "off")]);
    assert!(told(&off).is_empty(), "{off:?}");
    // Who wants no announcements (as every sandbox here) wants no other lines either.
    let quiet = sandbox.call("bash").args(["-c", "true"]);
    let quiet = quiet.env("AGENT_SH_SESSION", "a").run();
    assert!(told(&quiet).is_empty(), "{quiet:?}");
    assert_eq!(told(&call(&sandbox, "true", &session)).len(), 1);
    // A wait has told it.
    let id = ended_job(&sandbox, "true", &session, 2);
    let waited = sandbox
        .call("agent-sh")
        .args(["wait", &id])
        .env("AGENT_SH_SESSION", "a")
        .run();
    assert!(waited.succeeded(), "{waited:?}");
    let next = call(&sandbox, "true", &session);
    assert!(told(&next).is_empty(), "{next:?}");
    // The agent ended it itself.
    let started = call(&sandbox, "sleep 600 & echo started", &session);
    assert_eq!(started.text(), "started\n");
    let killed = sandbox
        .call("agent-sh")
        .args(["kill", "last"])
        .env("AGENT_SH_SESSION", "a")
        .run();
    assert!(killed.succeeded(), "{killed:?}");
    let next = call(&sandbox, "true", &session);
    assert!(told(&next).is_empty(), "{next:?}");
}

#[test]
fn of_many_ends_the_rest_is_counted() {
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let text = format!(
        "for i in 1 2 3 4 5 6 7 8 9 10; do read -r x < {} & done",
        gate.path()
    );
    let started = call(&sandbox, &text, &[]);
    assert!(started.succeeded(), "{started:?}");
    gate.release(10);
    wait_for_records(&sandbox, 10);
    wait_until("they are noted", || {
        noted(&sandbox.path("state")).len() == 10
    });
    let lines = told(&call(&sandbox, "true", &[]));
    assert_eq!(lines.len(), 9, "{lines:?}");
    assert!(lines[8].contains("2 more jobs ended"), "{lines:?}");
    assert!(told(&call(&sandbox, "true", &[])).is_empty());
}

/// A command that has nothing to tell must find nothing to look into.
#[test]
fn nothing_is_left_behind() {
    let sandbox = Sandbox::new();
    ended_job(&sandbox, "true", &[], 1);
    assert_eq!(told(&call(&sandbox, "true", &[])).len(), 1);
    let state = sandbox.path("state");
    let mut left = vec![state];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            assert_ne!(entry.file_name(), "tell", "{}", dir.display());
            if entry.path().is_dir() {
                left.push(entry.path());
            }
        }
    }
}

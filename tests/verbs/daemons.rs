//! The daemons of a job: they end with it, and whoever does not gets a record. Nobody else is hit.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::support::{
    Gate, Identity, Sandbox, Status, holds_within, in_parallel, parent_of, ps_json, real, records,
    stands_in, wait_for_records, wait_until,
};

/// Leaves its parent, session and group as daemons do, and then becomes `sys.argv[1:]`.
const DAEMON: &str = "
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.execv(sys.argv[1], sys.argv[1:])
";

/// The same without ever becoming another program.
const PYTHON: &str = "
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
with open(sys.argv[1] + '.new', 'w') as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + '.new', sys.argv[1])
time.sleep(600)
";

/// A script that does something as its own process, and says who it is once `before` was done.
pub(super) fn script(sandbox: &Sandbox, name: &str, before: &str, after: &str) -> String {
    let pid = sandbox.path(format!("{name}.pid"));
    let pid = pid.display();
    sandbox.script(
        name,
        &format!("#!/bin/sh\n{before}\necho $$ > {pid}.new\nmv {pid}.new {pid}\n{after}\n"),
    )
}

/// Who the script, or PYTHON, is.
#[track_caller]
pub(super) fn daemon(sandbox: &Sandbox, name: &str) -> Identity {
    let path = sandbox.path(format!("{name}.pid"));
    wait_until("the daemon runs, and nobody above it does", || {
        let parent = read(&path).and_then(parent_of);
        parent.is_some_and(|pid| comm(pid).starts_with("agent-sh"))
    });
    read(&path).and_then(Identity::of).unwrap()
}

fn read(path: &Path) -> Option<i32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn comm(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default()
}

/// A script that starts a daemon: what is in a file of its own, no parser has seen.
fn starter(sandbox: &Sandbox, name: &str, daemon: &str) -> String {
    sandbox.script(name, &format!("#!/bin/sh\n(setsid {daemon} &)\n"))
}

/// A job of `run` with this text; its id.
#[track_caller]
pub(super) fn run(sandbox: &Sandbox, args: &[&str], text: &str) -> String {
    let ran = sandbox.call("agent-sh").arg("run").args(args);
    let ran = ran.args(["--", "sh", "-c", text]).run();
    assert!(ran.succeeded(), "{ran:?}");
    ran.text().trim().to_owned()
}

#[track_caller]
fn kill(sandbox: &Sandbox, id: &str) {
    let kill = sandbox.agent_sh(["kill", id, "--grace", "0.5"]);
    assert!(
        kill.succeeded() && kill.text().contains("was signaled (TERM)"),
        "{kill:?}"
    );
}

#[track_caller]
fn gone(who: Identity) {
    assert!(!who.lives(), "{who:?} outlived the kill of its job");
}

/// However it left, and however it takes the signal: it is gone when `kill` returns, and the record of the
/// job is the only one.
#[test]
fn daemons_end_with_their_job() {
    if !stands_in() {
        return;
    }
    let python = real("python3");
    let python = python.display();
    let forms = [
        (
            "setsid",
            "(setsid {daemon} &)".to_owned(),
            "",
            "exec sleep 600",
        ),
        (
            "handler",
            "(setsid {daemon} &)".to_owned(),
            "trap 'exit 0' TERM",
            "while :; do sleep 0.1; done",
        ),
        (
            "stubborn",
            "(setsid {daemon} &)".to_owned(),
            "trap '' TERM",
            "while :; do sleep 0.1; done",
        ),
        (
            "with children",
            "(setsid {daemon} &)".to_owned(),
            "(setsid sleep 600 &)",
            "sleep 600; true",
        ),
        (
            "double fork",
            format!("{python} daemon.py {{daemon}}"),
            "",
            "sleep 600",
        ),
    ];
    in_parallel(&forms, |_, _, (name, text, before, after)| {
        let sandbox = Sandbox::new();
        fs::write(sandbox.work().join("daemon.py"), DAEMON).unwrap();
        let program = script(&sandbox, "daemon", before, after);
        let text = format!("{}; sleep 600", text.replace("{daemon}", &program));
        let id = run(&sandbox, &[], &text);
        let who = daemon(&sandbox, "daemon");
        kill(&sandbox, &id);
        assert!(!who.lives(), "{name}: it outlived the kill of its job");
        let found = wait_for_records(&sandbox, 1);
        assert_eq!(found[0].job, id, "{name}: {found:#?}");
    });
}

#[test]
fn a_daemon_that_is_still_the_same_program() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    fs::write(sandbox.work().join("python.py"), PYTHON).unwrap();
    let text = format!(
        "{} python.py {}; sleep 600",
        real("python3").display(),
        sandbox.path("daemon.pid").display()
    );
    let id = run(&sandbox, &[], &text);
    let who = daemon(&sandbox, "daemon");
    kill(&sandbox, &id);
    gone(who);
    wait_for_records(&sandbox, 1);
}

/// A forked subshell is told its id after its start: what it starts carries that all the same.
#[test]
fn daemons_of_a_subshell() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let program = script(&sandbox, "daemon", "", "exec sleep 600");
    let start = starter(&sandbox, "start", &program);
    let text = format!(
        "{{ read -r x < {}; {start}; sleep 600; true; }} &",
        gate.path()
    );
    let call = sandbox.call("bash").c(text).run();
    assert!(call.succeeded(), "{call:?}");
    gate.release(1);
    let who = daemon(&sandbox, "daemon");
    kill(&sandbox, "last");
    gone(who);
    wait_for_records(&sandbox, 1);
}

/// Also one that ignores TERM, while its job has gone at the first word.
#[test]
fn daemons_of_a_job_whose_time_is_over() {
    if !stands_in() {
        return;
    }
    let limits = [["--timeout", "5"], ["--idle-timeout", "5"]];
    in_parallel(&limits, |_, _, limit| {
        let sandbox = Sandbox::new();
        let easy = script(&sandbox, "easy", "", "exec sleep 600");
        let hard = script(&sandbox, "hard", "trap '' TERM", "exec sleep 600");
        let text = format!("(setsid {easy} &); (setsid {hard} &); sleep 600");
        let id = run(&sandbox, limit, &text);
        let all = ["easy", "hard"].map(|name| daemon(&sandbox, name));
        let wait = sandbox.agent_sh(["wait", &id]);
        assert_eq!(wait.status, Status::Exited(143), "{wait:?}");
        wait_until("both are gone", || all.iter().all(|who| !who.lives()));
        let found = wait_for_records(&sandbox, 1);
        assert_eq!(found[0].job, id, "{found:#?}");
    });
}

/// One that nothing marks is not found, and is a job of its own as soon as its job has gone; one that ends
/// before that, by itself, has its record too.
#[test]
fn an_unmarked_daemon_has_its_record() {
    if !stands_in() {
        return;
    }
    let ways = [
        ("kill", false),
        ("kill", true),
        ("timeout", false),
        ("watched", false),
    ];
    in_parallel(&ways, |_, _, &(way, at_once)| {
        let sandbox = Sandbox::new();
        let gate: Gate = sandbox.gate();
        let after = format!("read -r x < {}\nexit 37", gate.path());
        let program = script(&sandbox, "daemon", "", &after);
        let text = format!("(env -i setsid {program} &); sleep 600");
        let limit = ["--timeout", "5", "--wait"];
        match way {
            "kill" => {
                let id = run(&sandbox, &[], &text);
                daemon(&sandbox, "daemon");
                if at_once {
                    // It ends while the kill is under way, or right after it.
                    gate.release(1);
                }
                kill(&sandbox, &id);
            }
            "timeout" => drop(run(&sandbox, &limit[..2], &text)),
            _ => {
                let ran = sandbox.call("agent-sh").arg("run").args(limit);
                let ran = ran.args(["--", "sh", "-c", &text]).run();
                assert_eq!(ran.status, Status::Exited(124), "{ran:?}");
            }
        }
        if !at_once {
            let stray = |job: &Value| job["how"] == "stray" && job["state"] == "running";
            wait_until("it is listed", || ps_json(&sandbox).iter().any(stray));
            gate.release(1);
        }
        let found = wait_for_records(&sandbox, 2);
        let strays: Vec<_> = found
            .iter()
            .filter(|record| record.how() == "stray")
            .collect();
        assert_eq!(strays.len(), 1, "{way}: {found:#?}");
        assert_eq!(strays[0].exit_code(), Some(37), "{way}: {found:#?}");
    });
}

/// A signal that the job lives through may be the end of its daemon, which is no part of any kill then.
#[test]
fn a_signal_that_the_job_outlives() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let ready = sandbox.path("ready");
    let program = script(&sandbox, "daemon", "", "exec sleep 600");
    let text = format!(
        "trap : USR1; (setsid {program} &); : > {}; while :; do sleep 0.1; done",
        ready.display()
    );
    let id = run(&sandbox, &[], &text);
    let who = daemon(&sandbox, "daemon");
    wait_until("its trap is set", || ready.exists());
    let sent = sandbox.agent_sh(["kill", "-USR1", &id]);
    assert!(
        sent.succeeded() && sent.errors().contains("got USR1"),
        "{sent:?}"
    );
    wait_until("the daemon has ended", || !who.lives());
    wait_until("it has its record", || records(&sandbox).len() == 1);
    kill(&sandbox, &id);
    let found = wait_for_records(&sandbox, 2);
    let stray = found.iter().find(|record| record.how() == "stray").unwrap();
    assert_eq!(stray.data("signal"), 10, "{found:#?}");
}

/// Another job of the same call, its daemon, and what a job has started through us.
#[test]
fn nobody_else_is_hit() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let program = |name| script(&sandbox, name, "", "exec sleep 600");
    let mine = starter(&sandbox, "start-mine", &program("mine"));
    let others = starter(&sandbox, "start-others", &program("others"));
    let nested = program("nested");
    let agent_sh = sandbox.link("agent-sh");
    let agent_sh = agent_sh.display();
    let text = format!(
        "sh -c 'read -r x < {0}; {agent_sh} run -- {nested}; {mine}; sleep 600' &
        sh -c 'read -r x < {0}; {others}; sleep 601' &",
        gate.path()
    );
    let call = sandbox.call("bash").c(text).run();
    assert!(call.succeeded(), "{call:?}");
    gate.release(2);
    let mine = daemon(&sandbox, "mine");
    let spared = ["others", "nested"].map(|name| daemon(&sandbox, name));
    let jobs = ps_json(&sandbox);
    let job = |word: &str| {
        let found = jobs
            .iter()
            .find(|job| job["command"].as_str().unwrap().contains(word));
        let found = found.unwrap_or_else(|| panic!("no job with {word}: {jobs:#?}"));
        let pid = found["pid"].as_i64().unwrap();
        let id = found["id"].as_str().unwrap().to_owned();
        (id, Identity::of(i32::try_from(pid).unwrap()).unwrap())
    };
    let (killed, _) = job("sleep 600");
    let (_, other) = job("sleep 601");
    kill(&sandbox, &killed);
    gone(mine);
    // As long as what a kill leaves may take to be found.
    let hit = holds_within(Duration::from_secs(1), || {
        !other.lives() || spared.iter().any(|who| !who.lives())
    });
    assert!(!hit, "{other:?} {spared:?}");
    let running = || {
        let jobs = ps_json(&sandbox);
        let running = jobs.into_iter().filter(|job| job["state"] == "running");
        running
            .map(|job| job["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    wait_until("all of them are gone", || {
        for id in running() {
            // One may have ended with another before its turn.
            let kill = sandbox.agent_sh(["kill", &id]);
            assert!(kill.succeeded(), "{kill:?}");
        }
        running().is_empty()
    });
    sandbox.assert_no_survivors();
}

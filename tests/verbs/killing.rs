//! Ending jobs, and what the record says of it.

use super::{ended, running};
use crate::support::{Identity, Sandbox, Status, records};

/// The record of a job.
fn record(sandbox: &Sandbox, id: &str) -> serde_json::Value {
    let found = records(sandbox);
    let found = found.into_iter().find(|record| record.job == id);
    found.unwrap_or_else(|| panic!("no record of {id}")).event
}

#[test]
fn every_way_to_name_a_signal() {
    let sandbox = Sandbox::new();
    for (args, number, name) in [
        (&["-9"][..], 9, "KILL"),
        (&["-KILL"], 9, "KILL"),
        (&["-SIGTERM"], 15, "TERM"),
        (&["-s", "int"], 2, "INT"),
        (&["--signal", "3"], 3, "QUIT"),
        (&["-s", "HUP"], 1, "HUP"),
        (&["-USR1"], 10, "USR1"),
        (&[], 15, "TERM"),
    ] {
        let id = running(&sandbox, &[]);
        let kill = sandbox
            .call("agent-sh")
            .args(["kill"])
            .args(args)
            .args([&id])
            .run();
        assert!(kill.succeeded(), "{args:?}: {kill:?}");
        assert!(
            kill.text().contains(&format!("was signaled ({name})")),
            "{kill:?}"
        );
        let record = record(&sandbox, &id);
        let data = &record["data"];
        assert_eq!(
            (&data["state"], &data["signal"]),
            (&"signaled".into(), &number.into())
        );
        assert_eq!(data["kill_requested"]["by"], "user", "{args:?}: {record:#}");
        assert_eq!(data["kill_requested"]["signal"], number, "{args:?}");
    }
    for wrong in ["-NONE", "-99", "-s"] {
        let kill = sandbox.agent_sh(["kill", wrong, "x"]);
        assert_eq!(kill.status, Status::Exited(2), "{wrong}: {kill:?}");
        assert!(kill.errors().contains("hint: "), "{wrong}: {kill:?}");
    }
}

/// A signal that a job lived through is not the cause of its end.
#[test]
fn a_reload_is_no_cause() {
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let text = format!(
        "trap 'echo reloaded' HUP; echo ready; while :; do read -r x < {}; done",
        gate.path()
    );
    let ran = sandbox.agent_sh(["run", "--", "bash", "-c", &text]);
    let id = ran.text().trim().to_owned();
    crate::support::wait_until("it is ready", || {
        sandbox.agent_sh(["logs", &id]).text().contains("ready")
    });
    let hup = sandbox.agent_sh(["kill", "-s", "HUP", &id]);
    assert!(
        hup.succeeded() && hup.errors().contains("got HUP"),
        "{hup:?}"
    );
    gate.release(1);
    crate::support::wait_until("it has reloaded", || {
        gate.release(1);
        sandbox.agent_sh(["logs", &id]).text().contains("reloaded")
    });
    let kill = sandbox.agent_sh(["kill", &id]);
    assert!(kill.succeeded(), "{kill:?}");
    assert_eq!(
        record(&sandbox, &id)["data"]["kill_requested"]["signal"],
        15
    );
}

#[test]
fn the_whole_tree_and_by_force() {
    let sandbox = Sandbox::new();
    let pids = sandbox.path("pids");
    let stubborn = format!(
        "trap '' TERM; (trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ >> {0}; exec sleep 600' & wait) & echo $$ >> {0}; wait; sleep 600",
        pids.display()
    );
    let ran = sandbox.agent_sh(["run", "--", "bash", "-c", &stubborn]);
    let id = ran.text().trim().to_owned();
    let read = || {
        let text = std::fs::read_to_string(&pids).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.parse().ok())
            .collect::<Vec<i32>>()
    };
    crate::support::wait_until("both run", || read().len() == 2);
    let all: Vec<Identity> = read().into_iter().filter_map(Identity::of).collect();
    assert_eq!(all.len(), 2);
    let kill = sandbox.agent_sh(["kill", &id, "--grace", "0.2"]);
    assert!(
        kill.succeeded() && kill.text().contains("(KILL)"),
        "{kill:?}"
    );
    assert!(all.iter().all(|who| !who.lives()), "{all:?}");
}

#[test]
fn honest_reports() {
    let sandbox = Sandbox::new();
    let done = ended(&sandbox, 0);
    let kill = sandbox.agent_sh(["kill", &done]);
    assert!(
        kill.succeeded() && kill.text().contains("already exited with 0"),
        "{kill:?}"
    );
    let runs = running(&sandbox, &[]);
    // One that is unknown does not protect the others.
    let kill = sandbox.agent_sh(["kill", "nonesuch", &runs]);
    assert_eq!(kill.status, Status::Exited(125), "{kill:?}");
    assert!(
        kill.errors().contains("no job 'nonesuch'") && kill.text().contains(&runs),
        "{kill:?}"
    );
    let kill = sandbox.agent_sh(["kill"]);
    assert_eq!(kill.status, Status::Exited(2), "{kill:?}");
}

#[test]
fn a_session_at_once() {
    let sandbox = Sandbox::new();
    let mine = [
        running(&sandbox, &["--session", "mine"]),
        running(&sandbox, &["--session", "mine"]),
    ];
    let other = running(&sandbox, &["--session", "other"]);
    let kill = sandbox.agent_sh(["kill", "--session", "mine"]);
    assert!(kill.succeeded(), "{kill:?}");
    assert!(mine.iter().all(|id| kill.text().contains(id)), "{kill:?}");
    let left = sandbox.agent_sh(["ps", "-q", "--state", "running"]);
    assert_eq!(left.text(), format!("{other}\n"));
    let again = sandbox.agent_sh(["kill", "--session", "mine"]);
    assert!(
        again.succeeded()
            && again
                .errors()
                .contains("no job is running in session 'mine'"),
        "{again:?}"
    );
    let last = sandbox.agent_sh(["kill", "last", "--session", "other"]);
    assert!(last.succeeded() && last.text().contains(&other), "{last:?}");
}

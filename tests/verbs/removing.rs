//! `gc`.

use serde_json::Value;

use super::{ended, running};
use crate::support::{Sandbox, Status, in_parallel};

#[test]
fn what_and_how_much() {
    let sandbox = Sandbox::new();
    let done = ended(&sandbox, 0);
    let runs = running(&sandbox, &[]);
    let nothing = sandbox.agent_sh(["gc"]);
    assert!(
        nothing.succeeded()
            && nothing
                .text()
                .starts_with("removed 0 jobs (0 B), kept 2 jobs"),
        "{nothing:?}"
    );
    let dry = sandbox.agent_sh(["gc", "--keep", "0", "--dry-run"]);
    assert!(
        dry.text()
            .contains(&format!("would remove {done} (old, ended ")),
        "{dry:?}"
    );
    assert!(dry.text().ends_with(", 1 running\n"), "{dry:?}");
    assert!(sandbox.agent_sh(["show", &done]).succeeded());
    let json = sandbox.agent_sh(["gc", "--keep", "0", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&json["removed"][0]["id"], &json["removed"][0]["why"]),
        (&done.clone().into(), &"old".into())
    );
    assert!(json["removed_bytes"].as_u64().unwrap() > 0, "{json:#}");
    assert_eq!((&json["kept"], &json["running"]), (&1.into(), &1.into()));
    // Gone is told from unknown.
    for (id, word) in [(done.as_str(), "is gone"), ("zzzzzz", "no job 'zzzzzz'")] {
        for verb in ["show", "wait", "logs", "kill"] {
            let told = sandbox.agent_sh([verb, id]);
            assert_eq!(told.status, Status::Exited(125), "{verb}: {told:?}");
            assert!(told.errors().contains(word), "{verb}: {told:?}");
        }
    }
    let none = sandbox.agent_sh(["gc", "--max-bytes", "0"]);
    assert!(
        none.succeeded() && none.text().contains("removed 0 jobs"),
        "{none:?}"
    );
    assert!(sandbox.agent_sh(["kill", &runs]).succeeded());
    let large = sandbox.agent_sh(["gc", "--max-bytes", "0"]);
    assert!(
        large
            .text()
            .contains(&format!("removed {runs} (too much in all")),
        "{large:?}"
    );
}

/// Waiters in other processes while everything that ended is removed again and again.
#[test]
fn waiters_and_removal() {
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let ids: Vec<String> = (0..25)
        .map(|code| {
            let text = format!("read -r x < {}; exit {}", gate.path(), code + 1);
            let ran = sandbox.agent_sh(["run", "--", "sh", "-c", &text]);
            ran.text().trim().to_owned()
        })
        .collect();
    let waits: Vec<_> = ids
        .iter()
        .flat_map(|id| [id, id])
        .map(|id| {
            sandbox
                .call("agent-sh")
                .args(["wait", id, "--timeout", "50"])
                .start()
        })
        .collect();
    gate.release(ids.len());
    let turns: Vec<usize> = (0..20).collect();
    in_parallel(&turns, |_, _, _| {
        let gc = sandbox.agent_sh(["gc", "--keep", "0"]);
        assert!(gc.succeeded(), "{gc:?}");
    });
    for (place, wait) in waits.into_iter().enumerate() {
        let ended = wait.finish();
        let code = i32::try_from(place / 2).unwrap() + 1;
        match ended.status {
            Status::Exited(found) if found == code => {}
            // It came too late, or its job was removed under its hands; it says so.
            Status::Exited(125) => {
                let text = ended.errors();
                assert!(
                    text.contains("is gone") || text.contains("was removed"),
                    "{ended:?}"
                );
            }
            _ => panic!("{code}: {ended:?}"),
        }
    }
}

/// A supervisor clears up at its end, not more than once an hour.
#[test]
fn by_itself() {
    let sandbox = Sandbox::new();
    let start = || {
        let call = sandbox.call("bash").c("sh -c 'exit 0' &");
        assert!(call.env("AGENT_SH_KEEP", "0").run().succeeded());
        sandbox.assert_no_survivors();
        crate::support::job_dirs(&sandbox).len()
    };
    // What ended just now stays, whatever the setting.
    assert_eq!(start(), 1);
    for dir in crate::support::job_dirs(&sandbox) {
        let path = dir.join("exit.json");
        let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        record["recordedtime"] = "2020-01-01T00:00:00.000Z".into();
        record["sequence"] = "unknown".into();
        std::fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
    }
    assert_eq!(start(), 2);
    let mark = sandbox.state().join("v1/gc.last");
    let mark = std::fs::File::options().write(true).open(mark).unwrap();
    mark.set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    assert_eq!(start(), 2);
}

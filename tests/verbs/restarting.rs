//! `restart`, `rm`, `kill --all`, `ps --failed` and `run --env`: what people do with jobs they have.

use serde_json::Value;

use super::running;
use crate::support::{Sandbox, Status, wait_until};

fn job(sandbox: &Sandbox, id: &str) -> Value {
    let shown = sandbox.agent_sh(["ps", "-aA", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&shown.text()).unwrap();
    let found = rows.into_iter().find(|row| row["id"] == id);
    found.unwrap_or_else(|| panic!("no job {id}: {shown:?}"))
}

/// A job that ran this text to its end; its id.
fn ended(sandbox: &Sandbox, text: &str) -> String {
    let ran = sandbox.agent_sh(["run", "--", "sh", "-c", text]);
    let id = ran.text().trim().to_owned();
    assert!(matches!(
        sandbox.agent_sh(["wait", &id]).status,
        Status::Exited(_)
    ));
    id
}

#[test]
fn a_running_job_is_ended_and_started_again() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("elsewhere");
    std::fs::create_dir(&dir).unwrap();
    let text = "echo \"$PWD $COLOUR\"; exec sleep 1000";
    let first = sandbox
        .call("agent-sh")
        .args(["run", "--name", "web", "--session", "s1", "--cwd"])
        .arg(&dir)
        .args(["--", "bash", "-c", text])
        .env("COLOUR", "red")
        .run();
    let first = first.text().trim().to_owned();
    let again = sandbox
        .call("agent-sh")
        .args(["restart", "web"])
        .env("COLOUR", "blue")
        .run();
    assert!(again.succeeded(), "{again:?}");
    let second = again.text().trim().to_owned();
    assert_ne!(first, second);
    let (old, new) = (job(&sandbox, &first), job(&sandbox, &second));
    assert_eq!(old["state"], "signaled", "{old:#}");
    assert_eq!(new["state"], "running", "{new:#}");
    for key in ["name", "session", "cwd"] {
        assert_eq!(old[key], new[key], "{key}");
    }
    // The caller's environment, not the one of before.
    let wanted = format!("{} blue", dir.display());
    wait_until("it says where it is", || {
        sandbox.agent_sh(["logs", &second]).text().contains(&wanted)
    });
    assert!(sandbox.agent_sh(["kill", &second]).succeeded());
}

#[test]
fn an_ended_job_is_started_again() {
    let sandbox = Sandbox::new();
    let id = ended(&sandbox, "echo 'a  b'; exit 3");
    let again = sandbox.agent_sh(["restart", &id, "--json"]);
    assert!(again.succeeded(), "{again:?}");
    let new: Value = serde_json::from_str(&again.text()).unwrap();
    let new = new["id"].as_str().unwrap();
    let waited = sandbox.agent_sh(["wait", new]);
    assert_eq!(waited.status, Status::Exited(3), "{waited:?}");
    assert_eq!(sandbox.agent_sh(["logs", new]).text(), "a  b\n");
}

#[test]
fn half_a_command_is_not_started_again() {
    let sandbox = Sandbox::new();
    let secret = ended(
        &sandbox,
        "TOKEN=ghp_0123456789abcdefghijABCDEFGHIJ456789 true",
    );
    let long = ended(&sandbox, &format!("true {}", "x".repeat(9000)));
    for id in [&secret, &long] {
        let again = sandbox.agent_sh(["restart", id]);
        assert_eq!(again.status, Status::Exited(125), "{again:?}");
        assert!(again.errors().contains("cannot restart"), "{again:?}");
    }
    let unknown = sandbox.agent_sh(["restart", "nobody"]);
    assert_eq!(unknown.status, Status::Exited(125), "{unknown:?}");
}

#[test]
fn ended_jobs_are_removed_and_running_ones_are_not() {
    let sandbox = Sandbox::new();
    let (done, runs) = (ended(&sandbox, "true"), running(&sandbox, &[]));
    let both = sandbox.agent_sh(["rm", &done, &runs]);
    assert_eq!(both.status, Status::Exited(1), "{both:?}");
    assert!(
        both.text().contains(&format!("removed job {done}")),
        "{both:?}"
    );
    assert!(both.errors().contains("is running"), "{both:?}");
    let gone = sandbox.agent_sh(["show", &done]);
    assert_eq!(gone.status, Status::Exited(125), "{gone:?}");
    assert_eq!(job(&sandbox, &runs)["state"], "running");
    let unknown = sandbox.agent_sh(["rm", "nobody"]);
    assert_eq!(unknown.status, Status::Exited(125), "{unknown:?}");
    assert_eq!(sandbox.agent_sh(["rm"]).status, Status::Exited(2));
    assert!(sandbox.agent_sh(["kill", &runs]).succeeded());
    let removed = sandbox.agent_sh(["rm", "--json", &runs]);
    let row: Value = serde_json::from_str(&removed.text()).unwrap();
    assert_eq!(
        (&row["id"], &row["state"]),
        (&runs.as_str().into(), &"signaled".into())
    );
}

/// Somebody who cannot be reached now is still to hear of it.
#[test]
fn what_is_still_to_be_delivered_is_not_removed() {
    let sandbox = Sandbox::new();
    let nobody = format!("unix:{}", sandbox.path("nobody.sock").display());
    let added = sandbox.agent_sh(["notify", "add", &nobody, "--as", "later"]);
    assert!(added.succeeded(), "{added:?}");
    let id = ended(&sandbox, "true");
    let kept = sandbox.agent_sh(["rm", &id]);
    assert_eq!(kept.status, Status::Exited(1), "{kept:?}");
    assert!(kept.errors().contains("still to be notified"), "{kept:?}");
    let forced = sandbox.agent_sh(["rm", "--force", &id]);
    assert!(forced.succeeded(), "{forced:?}");
    assert!(sandbox.agent_sh(["notify", "remove", "later"]).succeeded());
}

#[test]
fn all_of_one_session_and_of_no_other() {
    let sandbox = Sandbox::new();
    let ours = [
        running(&sandbox, &["--session", "a"]),
        running(&sandbox, &["--session", "a"]),
    ];
    let (theirs, nobodys) = (
        running(&sandbox, &["--session", "b"]),
        running(&sandbox, &[]),
    );
    let kill = sandbox
        .call("agent-sh")
        .args(["kill", "--all"])
        .env("AGENT_SH_SESSION", "a")
        .run();
    assert!(kill.succeeded(), "{kill:?}");
    for id in &ours {
        assert_eq!(job(&sandbox, id)["state"], "signaled");
    }
    for id in [&theirs, &nobodys] {
        assert_eq!(job(&sandbox, id)["state"], "running");
    }
    // Without a session: those of no session.
    assert!(sandbox.agent_sh(["kill", "--all"]).succeeded());
    assert_eq!(job(&sandbox, &nobodys)["state"], "signaled");
    assert_eq!(job(&sandbox, &theirs)["state"], "running");
    let none = sandbox.agent_sh(["kill", "--all"]);
    assert!(
        none.succeeded() && none.errors().contains("no job"),
        "{none:?}"
    );
    assert!(sandbox.agent_sh(["kill", "--session", "b"]).succeeded());
    assert_eq!(
        sandbox.agent_sh(["kill", "--all", "x"]).status,
        Status::Exited(2)
    );
}

#[test]
fn failed_jobs_alone() {
    let sandbox = Sandbox::new();
    let (_fine, wrong) = (ended(&sandbox, "true"), ended(&sandbox, "exit 7"));
    let runs = running(&sandbox, &[]);
    let listed = sandbox.agent_sh(["ps", "--failed", "-q"]);
    assert_eq!(listed.text().trim(), wrong, "{listed:?}");
    assert!(sandbox.agent_sh(["kill", &runs]).succeeded());
    let listed = sandbox.agent_sh(["ps", "--failed", "-q"]);
    assert_eq!(listed.text().lines().count(), 2, "{listed:?}");
}

#[test]
fn variables_of_a_job() {
    let sandbox = Sandbox::new();
    let ran = sandbox
        .call("agent-sh")
        .args([
            "run", "--wait", "--env", "A=1", "--env", "B=x=y", "--env", "C=",
        ])
        .args(["--", "sh", "-c", "echo \"$A|$B|${C-unset}\""])
        .env("A", "0")
        .run();
    assert_eq!(ran.text(), "1|x=y|\n", "{ran:?}");
    // The program is looked for where the job would.
    std::fs::create_dir(sandbox.path("here")).unwrap();
    sandbox.script("here/greet", "#!/bin/sh\necho \"hello from $0\"\n");
    let path = format!("PATH={}:/usr/bin:/bin", sandbox.path("here").display());
    let ran = sandbox.agent_sh(["run", "--wait", "--env", &path, "--", "greet"]);
    assert!(ran.text().starts_with("hello from"), "{ran:?}");
    for wrong in ["A", "=1", ""] {
        let ran = sandbox.agent_sh(["run", "--env", wrong, "--", "true"]);
        assert_eq!(ran.status, Status::Exited(2), "{wrong}: {ran:?}");
    }
}

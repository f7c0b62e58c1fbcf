//! A clear message, the right exit code, nothing lost.

use std::fs;

use serde_json::Value;

use super::ended;
use crate::support::{Ended, Sandbox, Status};

#[track_caller]
fn refused(told: &Ended, code: i32, words: &[&str]) {
    assert_eq!(told.status, Status::Exited(code), "{told:?}");
    for word in words {
        assert!(
            told.errors().contains(word),
            "'{word}' is missing in {told:?}"
        );
    }
    assert!(!told.errors().contains("panicked"), "{told:?}");
}

#[test]
fn ids_that_mean_nothing_or_too_much() {
    let sandbox = Sandbox::new();
    let ids: Vec<String> = (0..12).map(|_| ended(&sandbox, 0)).collect();
    // Within a few seconds ids begin alike.
    let first = &ids[0][..1];
    if ids.iter().filter(|id| id.starts_with(first)).count() > 1 {
        refused(
            &sandbox.agent_sh(["show", first]),
            125,
            &["could be any of", "hint: one of "],
        );
        refused(
            &sandbox.agent_sh(["wait", first]),
            125,
            &["could be any of"],
        );
    }
    let long = "x".repeat(5000);
    for unknown in [
        "zz",
        "nonesuch",
        "../../etc",
        "",
        "-",
        "LAST",
        "é",
        "\u{1b}[2J",
        "a/b",
        &long,
    ] {
        for verb in ["show", "wait", "logs"] {
            let told = sandbox.call("agent-sh").args([verb, "--", unknown]).run();
            refused(&told, 125, &["no job '"]);
            assert!(!told.errors().contains('\u{1b}'), "{told:?}");
            assert!(told.errors().len() < 400, "{told:?}");
        }
    }
    let empty = Sandbox::new();
    refused(
        &empty.agent_sh(["show", "last"]),
        125,
        &["no job 'last': there are no jobs", "starts one"],
    );
    let told = sandbox
        .call("agent-sh")
        .args(["show", "last"])
        .env("AGENT_SH_SESSION", "another")
        .run();
    refused(
        &told,
        125,
        &["no job 'last': this session has had none", "--all-sessions"],
    );
}

fn change(sandbox: &Sandbox, id: &str, file: &str, change: impl Fn(&mut Value)) {
    let path = sandbox.state().join("v1/jobs").join(id).join(file);
    let mut value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(&path, serde_json::to_vec(&value).unwrap()).unwrap();
}

#[test]
fn a_newer_version_wrote_it() {
    let sandbox = Sandbox::new();
    let id = ended(&sandbox, 6);
    change(&sandbox, &id, "run.json", |run| run["format"] = 9.into());
    change(&sandbox, &id, "exit.json", |exit| {
        exit["data"]["schema"] = 9.into();
        exit["data"]["state"] = "exited".into();
        exit["data"]["exit_code"] = Value::from(vec![6]);
    });
    let before = fs::read(sandbox.state().join("v1/jobs").join(&id).join("exit.json")).unwrap();
    for verb in ["show", "wait", "logs", "kill"] {
        refused(
            &sandbox.agent_sh([verb, &id]),
            125,
            &["was written by a newer agent-sh (format 9"],
        );
    }
    let row = &crate::support::ps_json(&sandbox)[0];
    assert_eq!(
        (&row["id"], &row["state"]),
        (&id.clone().into(), &"exited".into())
    );
    assert!(sandbox.agent_sh(["gc", "--keep", "0"]).succeeded());
    // Events are passed on as they are.
    let events = sandbox.agent_sh(["events"]).text();
    assert!(events.contains(&format!("{id}.exit")), "{events}");
    let after = fs::read(sandbox.state().join("v1/jobs").join(&id).join("exit.json")).unwrap();
    assert_eq!(before, after);
}

#[test]
fn a_record_that_was_cut_short() {
    let sandbox = Sandbox::new();
    let id = ended(&sandbox, 0);
    let dir = sandbox.state().join("v1/jobs").join(&id);
    let whole = fs::read(dir.join("exit.json")).unwrap();
    fs::write(dir.join("exit.json"), &whole[..whole.len() / 2]).unwrap();
    let wait = sandbox.agent_sh(["wait", &id]);
    assert_eq!(wait.status, Status::Exited(125), "{wait:?}");
    assert!(wait.text().contains("is lost (record-corrupt)"), "{wait:?}");
    let show = sandbox.agent_sh(["show", &id]);
    assert!(
        show.succeeded() && show.text().contains("damaged"),
        "{show:?}"
    );
    // What was there is kept, and the launch is still known.
    assert_eq!(
        fs::read(dir.join("exit.json.corrupt")).unwrap(),
        &whole[..whole.len() / 2]
    );
    assert!(show.text().contains("exit 0"), "{show:?}");
}

/// Directories and files that are not ours, or not what they should be.
#[test]
fn a_state_directory_of_somebody_else() {
    let sandbox = Sandbox::new();
    let theirs = sandbox.path("theirs");
    fs::create_dir(&theirs).unwrap();
    let foreign = if nix::unistd::Uid::effective().is_root() {
        nix::unistd::chown(&theirs, Some(nix::unistd::Uid::from_raw(65534)), None).unwrap();
        theirs.to_str().unwrap().to_owned()
    } else {
        "/usr".to_owned()
    };
    let ps = sandbox
        .call("agent-sh")
        .args(["ps"])
        .env("AGENT_SH_STATE", &foreign)
        .run();
    refused(
        &ps,
        0,
        &[
            "cannot use the state directory",
            "belongs to another user",
            "no jobs",
        ],
    );
    // The command runs, and its job is kept elsewhere and found there.
    let call = sandbox
        .call("bash")
        .c("sh -c 'exit 3' &")
        .env("AGENT_SH_STATE", &foreign);
    assert!(call.run().succeeded());
    let wait = sandbox
        .call("agent-sh")
        .args(["wait", "last"])
        .env("AGENT_SH_STATE", &foreign)
        .run();
    refused(&wait, 3, &["belongs to another user"]);
    let doctor = sandbox
        .call("agent-sh")
        .args(["doctor"])
        .env("AGENT_SH_STATE", &foreign)
        .run();
    // It breaks its lines where the name of the directory leaves room.
    let told = doctor.text();
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("belongs to another user"), "{doctor:?}");
    let file = sandbox.path("plain-file");
    fs::write(&file, "").unwrap();
    let ps = sandbox
        .call("agent-sh")
        .args(["ps"])
        .env("AGENT_SH_STATE", file.to_str().unwrap())
        .run();
    refused(&ps, 0, &["is a symlink or no directory"]);
}

#[test]
fn wrong_usage() {
    let sandbox = Sandbox::new();
    for (args, word) in [
        (&["ps", "--stat", "x"][..], "did you mean '--state'?"),
        (&["wait", "--timeout", "soon", "x"], "expected a duration"),
        (&["kill", "-s", "NONE", "x"], "not a signal"),
        (&["gc", "--max-bytes", "lots"], "expected a size"),
        (&["man", "nonesuch"], "no verb 'nonesuch'"),
        (&["completions", "tcsh"], "possible values: bash, zsh, fish"),
        (&["show"], "required"),
        (&["wiat", "7f3k"], "did you mean 'wait'?"),
    ] {
        let told = sandbox.call("agent-sh").args(args).run();
        refused(&told, 2, &[word, "agent-sh: "]);
    }
}

#[test]
fn words_that_are_wrong_are_answered_in_our_own() {
    let sandbox = Sandbox::new();
    for (args, wanted) in [
        (&["help", "wiat"][..], "did you mean 'wait'?"),
        (&["completions", "tcsh"], "bash, zsh, fish"),
        (&["logs", "x", "-n", "x"], "expected a whole number"),
        (&["logs", "x", "-n", "-5"], "expected a whole number"),
        (&["events", "-n", "-1"], "expected a whole number"),
        (&["wait", "--timeout", "-1"], "expected a duration like"),
        (&["kill"], "--session KEY"),
        (
            &["run", "--nmae", "x", "--", "true"],
            "did you mean '--name'?",
        ),
        (&["setup", "claude"], "did you mean 'claude-code'?"),
        (&["setup"], "there is shims"),
    ] {
        let told = sandbox.call("agent-sh").args(args).run();
        refused(&told, 2, &[wanted, "\nhint: "]);
        assert!(!told.errors().contains("digit found"), "{told:?}");
        assert!(!told.errors().contains("'zsh'?"), "{told:?}");
    }
}

//! Exit codes, and commands that cannot be started.

use super::Init;
use crate::support::{Sandbox, Status, in_parallel};

#[test]
fn every_exit_code_and_its_remapping() {
    let sandbox = Sandbox::new();
    let codes: Vec<i32> = (0..=255).collect();
    for init in Init::pair() {
        in_parallel(&codes, |_, _, &code| {
            let text = format!("exit {code}");
            let command = ["sh", "-c", &text];
            let plain = init.below(&sandbox, &[], &command).run();
            assert_eq!(plain.status, Status::Exited(code), "{init:?}");
            let word = code.to_string();
            let mapped = init.below(&sandbox, &["-e", &word], &command).run();
            assert_eq!(mapped.status, Status::Exited(0), "{init:?} -e {code}");
            let other = ((code + 1) % 256).to_string();
            let unmapped = init.below(&sandbox, &["-e", &other], &command).run();
            assert_eq!(unmapped.status, Status::Exited(code), "{init:?} -e {other}");
        });
    }
}

#[test]
fn the_same_as_pid_1() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    for init in Init::all() {
        for code in [0, 1, 42, 126, 127, 128, 143, 255] {
            let text = format!("exit {code}");
            let ended = init.as_pid_1(&sandbox, &[], &["sh", "-c", &text]).run();
            assert_eq!(ended.status, Status::Exited(code), "{init:?}");
        }
    }
}

#[test]
fn death_by_a_signal() {
    let sandbox = Sandbox::new();
    for init in Init::pair() {
        for signal in [1, 2, 3, 6, 8, 9, 10, 11, 12, 13, 14, 15, 24, 31, 34, 64] {
            let text = format!("ulimit -c 0; kill -{signal} $$");
            let ended = init.below(&sandbox, &[], &["sh", "-c", &text]).run();
            assert_eq!(ended.status, Status::Exited(128 + signal), "{init:?}");
        }
        let ended = init.below(&sandbox, &["-e", "143"], &["sh", "-c", "kill -TERM $$"]);
        assert_eq!(ended.run().status, Status::Exited(0), "{init:?}");
    }
}

#[test]
fn what_cannot_be_started() {
    let sandbox = Sandbox::new();
    let script = sandbox.script("plain", "echo read by sh: $1\n");
    for init in Init::pair() {
        for (command, code) in [("no-such-program", 127), ("/etc/passwd", 126), ("/", 126)] {
            let ended = init.below(&sandbox, &[], &[command]).run();
            assert_eq!(ended.status, Status::Exited(code), "{init:?} {command}");
            assert!(ended.errors().contains(command), "{init:?}: {ended:?}");
        }
        let ended = init.below(&sandbox, &[], &[&script, "x"]).run();
        assert_eq!(ended.text(), "read by sh: x\n", "{init:?}: {ended:?}");
    }
}

#[test]
fn mistakes_are_explained() {
    let sandbox = Sandbox::new();
    for (words, why) in [
        (vec![], "no command is given"),
        (
            vec!["-e", "999", "--", "true"],
            "option '-e': '999' is no exit code from 0 to 255",
        ),
        (vec!["--wait", "--", "true"], "unknown option '--wait'"),
    ] {
        let ended = sandbox
            .call("agent-sh")
            .arg("entrypoint")
            .args(&words)
            .run();
        assert_eq!(ended.status, Status::Exited(2), "{ended:?}");
        assert!(
            ended.errors().starts_with(&format!("agent-sh: {why}\n")),
            "{ended:?}"
        );
    }
    let help = sandbox.agent_sh(["entrypoint", "--help"]);
    assert!(
        help.succeeded() && help.text().contains("--drain <DURATION>"),
        "{help:?}"
    );
}

/// What `docker run --init` calls.
#[test]
fn by_the_names_of_an_init() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    for name in ["docker-init", "agent-sh-init"] {
        let link = sandbox.path(name);
        std::os::unix::fs::symlink(sandbox.link("agent-sh"), &link).unwrap();
        let call = sandbox.unshare(&["--pid", "--fork", "--mount-proc"]);
        let ended = call
            .arg(&link)
            .args(["--", "sh", "-c", "echo $PPID; exit 3"])
            .run();
        assert_eq!(
            (ended.status, ended.text().as_str()),
            (Status::Exited(3), "1\n"),
            "{ended:?}"
        );
    }
}

//! What it holds, and what it hands on.

use std::io::Read;

use super::Init;
use crate::support::{Sandbox, Status, exit_of};

#[test]
fn no_directory_and_no_stream_is_held() {
    let sandbox = Sandbox::new();
    // It lets go when the command has begun.
    let text = "until [ \"$(readlink /proc/$PPID/cwd)\" = / ]; do sleep 0.01; done; \
                until [ \"$(readlink /proc/$PPID/fd/2)\" = /dev/null ]; do sleep 0.01; done; for fd in /proc/$PPID/fd/*; do readlink $fd; done";
    let ended = Init::Ours.below(&sandbox, &[], &["sh", "-c", text]).run();
    assert_eq!(
        ended.text(),
        "/dev/null\n/dev/null\n/dev/null\n",
        "{ended:?}"
    );
}

/// Whoever reads a stream that the command has closed is at its end, though the command runs.
#[test]
fn a_closed_stream_is_closed() {
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let text = format!(
        "echo out; exec >&- 2>&-; read -r x <{}; exit 4",
        gate.path()
    );
    let call = Init::Ours
        .below(&sandbox, &[], &["sh", "-c", &text])
        .start();
    let (mut child, mut stdout) = call.into_stdout();
    let mut said = String::new();
    stdout.read_to_string(&mut said).unwrap();
    assert_eq!(said, "out\n");
    gate.release(1);
    assert_eq!(exit_of(&mut child), Status::Exited(4));
}

#[test]
fn sockets_are_for_the_command() {
    let sandbox = Sandbox::new();
    let words = Init::Ours.words(&sandbox, &["-s"]);
    let text = r#"LISTEN_PID=$$ LISTEN_FDS=1; export LISTEN_PID LISTEN_FDS; exec "$@""#;
    let call = sandbox
        .real_call("sh")
        .args(["-c", text, "sh"])
        .args(&words);
    let ended = call
        .args(["sh", "-c", "[ $LISTEN_PID = $$ ] && echo ours $LISTEN_FDS"])
        .run();
    assert_eq!(ended.text(), "ours 1\n", "{ended:?}");
    // Those of somebody else stay somebody else's.
    let call = Init::Ours.below(&sandbox, &[], &["sh", "-c", "echo $LISTEN_PID"]);
    assert_eq!(call.env("LISTEN_PID", "1").run().text(), "1\n");
}

/// An agent that cleans up by name means the program, not PID 1.
#[test]
fn the_commands_words_are_not_its_own() {
    let sandbox = Sandbox::new();
    let text = "tr '\\0' ' ' </proc/$PPID/cmdline; cat /proc/$PPID/comm";
    let ended = Init::Ours.below(&sandbox, &[], &["sh", "-c", text]).run();
    assert_eq!(
        ended.text().split_whitespace().collect::<Vec<_>>(),
        ["agent-sh", "entrypoint", "agent-sh", "entryp"],
        "{ended:?}"
    );
}

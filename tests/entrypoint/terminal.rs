//! A terminal, and job control.

use std::io::Write;

use super::{Init, Lines, child_of, wait_for_state};
use crate::support::{Sandbox, Status, Streams, exit_of};

const WAITS: &str = "trap 'exit 9' INT; echo ready; while :; do sleep 0.1; done";

/// The exit code, and Ctrl-C, which is the command's.
#[test]
fn ctrl_c_reaches_the_command() {
    let sandbox = Sandbox::new();
    for init in Init::pair() {
        let call = init
            .below(&sandbox, &[], &["sh", "-c", WAITS])
            .streams(Streams::Terminal);
        let (mut child, mut files) = call.start().into_files();
        let mut keyboard = files.pop().unwrap();
        let mut lines = Lines::new(keyboard.try_clone().unwrap());
        assert_eq!(lines.next(), "ready", "{init:?}");
        keyboard.write_all(b"\x03").unwrap();
        assert_eq!(exit_of(&mut child), Status::Exited(9), "{init:?}");
    }
}

/// Ctrl-Z stops the command, and us with it: the shell that started us must see it.
#[test]
fn ctrl_z_stops_both() {
    let sandbox = Sandbox::new();
    let call = Init::Ours.below(&sandbox, &[], &["sh", "-c", "echo ready; exec sleep 1000"]);
    let call = call.streams(Streams::Terminal).start();
    let pid = call.pid();
    let (mut child, mut files) = call.into_files();
    let mut keyboard = files.pop().unwrap();
    let mut lines = Lines::new(keyboard.try_clone().unwrap());
    assert_eq!(lines.next(), "ready");
    let command = child_of(pid);
    keyboard.write_all(b"\x1a").unwrap();
    wait_for_state(command, &['T']);
    wait_for_state(pid, &['T']);
    crate::support::signal(pid, nix::sys::signal::Signal::SIGCONT);
    wait_for_state(command, &['S']);
    keyboard.write_all(b"\x03").unwrap();
    assert_eq!(exit_of(&mut child), Status::Exited(130));
}

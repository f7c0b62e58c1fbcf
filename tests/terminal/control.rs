//! What reaches a supervisor, sense and nonsense.

use std::fs::OpenOptions;
use std::io::Write;

use nix::sys::signal::Signal;

use super::{ends_with, interactive, launch, send, writes};
use crate::support::{Sandbox, Status, signal, stands_in, wait_until};

/// The supervisor's pid, and its request pipe.
fn supervisor(sandbox: &Sandbox, id: &str) -> (i32, String) {
    let control = launch(sandbox, id)["control"].as_str().unwrap().to_owned();
    let parts: Vec<&str> = control.split('.').collect();
    let path = format!("/proc/{}/fd/{}", parts[0], parts[1]);
    (parts[0].parse().unwrap(), path)
}

/// Any process of the user can write there: it must not cost others their requests.
#[test]
fn nonsense_in_the_pipe() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let id = interactive(&sandbox, &["cat"]);
    let (_, path) = supervisor(&sandbox, &id);
    let mut pipe = OpenOptions::new().write(true).open(path).unwrap();
    let frame = |kind: u8, content: &[u8]| {
        let length = u16::try_from(content.len()).unwrap().to_le_bytes();
        [&[1, b'a', b's', kind, length[0], length[1]], content].concat()
    };
    for (number, nonsense) in [
        b"hello\n".to_vec(),
        vec![0; 4096],
        vec![0xff; 3000],
        b"\x01as".to_vec(),
        b"\x01asi\x00\x0f".to_vec(),
        b"\x01asi\xff\xff".to_vec(),
        frame(b'?', b"x"),
        frame(b'i', format!("{id}\x001\x001\x00-1\0typed").as_bytes()),
        // An answer to a descriptor that is no pipe, and to one of a process that is not there.
        frame(
            b'i',
            format!("{id}\x001\x00{}\x000\0typed", std::process::id()).as_bytes(),
        ),
        frame(b'e', format!("{id}\x001\x002147483647\x0099\0").as_bytes()),
        frame(b'w', format!("{id}\x001\x001\x001\x000 0").as_bytes()),
        frame(b'r', b"ampersand\x00-1\x001\x001\0text"),
    ]
    .into_iter()
    .enumerate()
    {
        pipe.write_all(&nonsense).unwrap();
        let text = format!("still {number}");
        send(&sandbox, &[&id, &text]);
        writes(&sandbox, &id, &format!("\n{text}\r\n"));
    }
    assert!(!super::wrote(&sandbox, &id).contains("typed"));
    send(&sandbox, &[&id, "--eof"]);
    ends_with(&sandbox, &id, 0);
    sandbox.assert_no_survivors();
}

/// An idle job with a terminal costs nothing: its supervisor sleeps until somebody types.
#[test]
fn nobody_wakes_an_idle_supervisor() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let id = interactive(&sandbox, &["cat"]);
    send(&sandbox, &[&id, "hello"]);
    writes(&sandbox, &id, "hello\r\nhello\r\n");
    let (pid, _) = supervisor(&sandbox, &id);
    let switches = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("voluntary_ctxt"));
        line.unwrap().to_owned()
    };
    // What follows a start (a sync, an end of being kept on one processor) is over after a while.
    let mut before = switches();
    wait_until("the supervisor is at rest", || {
        let was = std::mem::take(&mut before);
        crate::support::holds_within(std::time::Duration::from_secs(1), || false);
        before = switches();
        before == was
    });
    send(&sandbox, &[&id, "--eof"]);
    ends_with(&sandbox, &id, 0);
}

#[test]
fn a_supervisor_that_is_gone_or_stopped() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    // Without its supervisor's end the terminal hangs up, and most jobs die of that.
    let deaf = "trap '' HUP; echo deaf; exec sleep 600";
    let id = interactive(&sandbox, &["sh", "-c", deaf]);
    writes(&sandbox, &id, "deaf");
    let (pid, _) = supervisor(&sandbox, &id);
    signal(pid, Signal::SIGSTOP);
    let ended = sandbox.agent_sh(["send", &id, "x"]);
    assert_eq!(ended.status, Status::Exited(125), "{ended:?}");
    assert!(ended.errors().contains("does not answer"), "{ended:?}");
    signal(pid, Signal::SIGKILL);
    wait_until("the supervisor is gone", || {
        sandbox.agent_sh(["ps"]).text().contains("running*")
    });
    let ended = sandbox.agent_sh(["send", &id, "x"]);
    assert_eq!(ended.status, Status::Exited(125), "{ended:?}");
    let said = ended.errors();
    assert!(said.contains("is gone: nobody can type"), "{ended:?}");
    let killed = sandbox.agent_sh(["kill", &id]);
    assert!(killed.succeeded(), "{killed:?}");
}

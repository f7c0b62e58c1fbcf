//! Sitting down, resizing, leaving, being killed.

use nix::sys::signal::Signal;

use super::seat::Seat;
use super::{ECHO_BYTES, ends_with, interactive, send, writes};
use crate::support::{Sandbox, Status, real, stands_in};

const DETACH: &str = "\x1d";

fn sit(sandbox: &Sandbox, id: &str) -> Seat {
    Seat::start(sandbox.call("agent-sh").args(["attach", id]))
}

fn shell(sandbox: &Sandbox) -> String {
    let bash = real("bash");
    let args = [
        "run",
        "-i",
        "--",
        bash.to_str().unwrap(),
        "--norc",
        "--noprofile",
    ];
    let call = sandbox
        .call("agent-sh")
        .args(args)
        .env("PS1", "$ ")
        .env("TERM", "xterm");
    call.run().text().trim().to_owned()
}

#[test]
fn two_people_at_one_job() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let id = shell(&sandbox);
    send(&sandbox, &[&id, "echo bef''ore"]);
    writes(&sandbox, &id, "before");
    let mut one = sit(&sandbox, &id);
    // What was written before is drawn first, and how to leave is said.
    one.sees("before");
    one.sees("Ctrl-] detaches");
    let mut two = sit(&sandbox, &id);
    two.sees("before");
    two.keys("echo from-$((1+1))\r");
    one.sees("from-2");
    two.sees("from-2");
    one.keys("echo also-$((2+2))\r");
    two.sees("also-4");
    // The last to resize decides, and the job is told.
    one.resize(30, 100);
    one.keys("stty size\r");
    one.sees("30 100");
    two.resize(20, 60);
    two.keys("stty size\r");
    two.sees("20 60");
    one.keys(DETACH);
    assert_eq!(one.ended(), Status::Exited(0));
    one.sees("detached from job");
    assert!(one.is_cooked() && one.is_left_clean());
    two.keys("exit 5\r");
    assert_eq!(two.ended(), Status::Exited(5));
    two.sees("exited with 5");
    assert!(two.is_cooked() && two.is_left_clean());
    ends_with(&sandbox, &id, 5);
    sandbox.assert_no_survivors();
}

#[test]
fn killed_it_leaves_the_terminal_as_it_was() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let python = real("python3");
    let full = "import sys; sys.stdout.write('\\x1b[?1049h\\x1b[?25l\\x1b[?1h\\x1b[?1000hfull'); \
                sys.stdout.flush(); sys.stdin.read()";
    let id = interactive(&sandbox, &[python.to_str().unwrap(), "-c", full]);
    writes(&sandbox, &id, "full");
    for (number, code) in [
        (Signal::SIGTERM, 15),
        (Signal::SIGHUP, 1),
        (Signal::SIGINT, 2),
    ] {
        let mut seat = sit(&sandbox, &id);
        seat.sees("full");
        assert!(!seat.is_cooked());
        let before = seat.stty(&["-g"]);
        seat.signal(number);
        assert_eq!(seat.ended(), Status::Signaled(code));
        assert!(seat.is_cooked() && seat.is_left_clean(), "{number}");
        assert_ne!(seat.stty(&["-g"]), before);
    }
    let mut seat = sit(&sandbox, &id);
    seat.sees("full");
    seat.keys(DETACH);
    assert_eq!(seat.ended(), Status::Exited(0));
    assert!(seat.is_cooked() && seat.is_left_clean());
    sandbox.agent_sh(["kill", &id]);
}

/// Every byte that is typed reaches the job, but the one key; also keyboards that name it at length.
#[test]
fn keys_reach_the_job() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let python = real("python3");
    let id = interactive(&sandbox, &[python.to_str().unwrap(), "-c", ECHO_BYTES, ""]);
    writes(&sandbox, &id, "ready");
    let mut seat = sit(&sandbox, &id);
    seat.sees("ready");
    for (keys, wanted) in [
        ("\x03", "03."),
        ("\x1a", "1a."),
        ("\x1c", "1c."),
        ("\x1b[A", "1b 5b 41."),
        ("\u{e9}", "c3 a9."),
        ("\r", "0d."),
        ("\0", "00."),
    ] {
        seat.keys(keys);
        writes(&sandbox, &id, &format!("\n{wanted}"));
    }
    seat.keys("\x1b[93;5u");
    assert_eq!(seat.ended(), Status::Exited(0));
    send(&sandbox, &[&id, "-n", "q"]);
    ends_with(&sandbox, &id, 0);
}

/// However much waits for a job that does not read, the one key works.
#[test]
fn leaving_a_job_that_does_not_read() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let deaf = "stty raw -echo; echo ready; exec sleep 600";
    let id = interactive(&sandbox, &[deaf]);
    writes(&sandbox, &id, "ready");
    let (mut one, mut two) = (sit(&sandbox, &id), sit(&sandbox, &id));
    for seat in [&mut one, &mut two] {
        seat.sees("ready");
        seat.keys(&"lost on it ".repeat(10_000));
        seat.keys(DETACH);
    }
    for seat in [&mut one, &mut two] {
        assert_eq!(seat.ended(), Status::Exited(0));
        assert!(seat.is_cooked() && seat.is_left_clean());
    }
    let killed = sandbox.agent_sh(["kill", &id]);
    assert!(killed.succeeded(), "{killed:?}");
    sandbox.assert_no_survivors();
}

/// `run -i --wait` at a terminal is sitting down at once; elsewhere it shows the output.
#[test]
fn run_and_sit_down() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let run = |args: &[&str]| {
        sandbox
            .call("agent-sh")
            .args(["run", "-i", "--wait"])
            .args(args)
    };
    let mut seat = Seat::start(run(&["stty size; read -r x; echo \"<$x>\"; exit 6"]));
    seat.sees("24 80");
    seat.keys("typed\r");
    assert_eq!(seat.ended(), Status::Exited(6));
    seat.sees("<typed>");
    seat.sees("exited with 6");
    assert!(seat.is_cooked() && seat.is_left_clean());
    // Over before anybody could sit down: its output and its code all the same.
    let mut seat = Seat::start(run(&["echo quick; exit 3"]));
    assert_eq!(seat.ended(), Status::Exited(3));
    seat.sees("quick");
    let mut seat = Seat::start(run(&["--timeout", "1s", "--", "sleep", "600"]));
    assert_eq!(seat.ended(), Status::Exited(124));
    seat.sees("timed out (--timeout)");
    let ended = run(&["echo streamed; exit 4"]).run();
    assert_eq!(ended.status, Status::Exited(4), "{ended:?}");
    assert_eq!(ended.text().trim_end(), "streamed", "{ended:?}");
    sandbox.assert_no_survivors();
}

#[test]
fn what_cannot_be_attached_to_is_explained() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    sandbox.agent_sh([
        "run",
        "--name",
        "plain",
        &format!("read -r x < {}", gate.path()),
    ]);
    let id = interactive(&sandbox, &["cat"]);
    for (wanted, job) in [
        ("'agent-sh run -i -- COMMAND'", "plain"),
        ("agent-sh logs -f", id.as_str()),
        ("no job 'nosuch'", "nosuch"),
    ] {
        let ended = sandbox.agent_sh(["attach", job]);
        assert_eq!(ended.status, Status::Exited(125), "{ended:?}");
        assert!(ended.errors().contains(wanted), "{ended:?}");
    }
    let mut seat = sit(&sandbox, "plain");
    assert_eq!(seat.ended(), Status::Exited(125));
    assert!(seat.is_cooked());
    send(&sandbox, &[&id, "--eof"]);
    ends_with(&sandbox, &id, 0);
    gate.release(1);
    ends_with(&sandbox, "plain", 0);
}

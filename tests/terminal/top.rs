//! The full screen.

use nix::sys::signal::Signal;

use super::seat::Seat;
use super::{interactive, writes};
use crate::support::{Sandbox, Status, records, stands_in, wait_until};

fn top(sandbox: &Sandbox) -> Seat {
    Seat::start(sandbox.call("agent-sh").args(["top"]))
}

/// A failed job, a server that has written, and a shell-like one.
fn stage(sandbox: &Sandbox) -> String {
    let failed = sandbox.agent_sh(["run", "--wait", "--name", "failing", "echo oops; exit 3"]);
    assert_eq!(failed.status, Status::Exited(3));
    let text = "printf '\\033[31mserver\\033[m is up\\n\\033]0;title\\007'; exec sleep 600";
    sandbox.agent_sh(["run", "--name", "web", text]);
    writes(sandbox, "web", "is up");
    interactive(sandbox, &["cat"])
}

#[test]
fn watching_choosing_killing() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let id = stage(&sandbox);
    let mut seat = top(&sandbox);
    seat.sees("3 jobs");
    seat.sees("(web)");
    seat.sees("(failing)");
    seat.sees("q quit");
    // The newest is chosen; its screen is live.
    seat.sees(&format!("{id} is still running"));
    sandbox.agent_sh(["send", &id, "typed elsewhere"]);
    seat.sees("typed elsewhere");
    seat.keys("j");
    seat.sees("server is up");
    // Narrow and wide, high and flat.
    for (rows, columns) in [(50, 160), (8, 40), (2, 5), (1, 1), (24, 80)] {
        seat.resize(rows, columns);
    }
    seat.sees("server is up");
    seat.sees("q quit");
    // A new job appears by itself.
    sandbox.agent_sh(["run", "--name", "newcomer", "--", "sleep", "600"]);
    seat.sees("(newcomer)");
    seat.sees("4 jobs");
    // The log, help, a filter.
    seat.keys("l");
    seat.sees("log of job");
    seat.sees("server is up");
    seat.keys("q");
    seat.sees("4 jobs");
    seat.keys("?");
    seat.sees("choose a job");
    seat.keys(" ");
    seat.sees_no("choose a job");
    seat.keys("/newc");
    seat.sees("1 job ");
    seat.keys("\r");
    // Killing asks first.
    seat.keys("x");
    seat.sees("kill job");
    seat.keys("n");
    seat.sees("not killed");
    seat.keys("x");
    seat.sees("kill job");
    seat.keys("y");
    wait_until("the job was killed", || {
        records(&sandbox)
            .iter()
            .any(|record| record.data("name") == "newcomer" && record.state() == "signaled")
    });
    seat.sees("TERM");
    seat.keys("q");
    assert_eq!(seat.ended(), Status::Exited(0));
    assert!(seat.is_cooked() && seat.is_left_clean());
    sandbox.agent_sh(["kill", "web", &id]);
}

#[test]
fn sitting_down_from_the_list() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let id = stage(&sandbox);
    let mut seat = top(&sandbox);
    seat.sees(&format!("{id} is still running"));
    seat.keys("\r");
    seat.sees("Ctrl-] detaches");
    seat.keys("typed here\r");
    seat.sees("typed here");
    seat.keys("\x1d");
    seat.sees("3 jobs");
    seat.sees("detached from job");
    // A job that cannot be sat at says so.
    seat.keys("ja");
    seat.sees("was not started with 'run -i'");
    seat.keys("\x03");
    assert_eq!(seat.ended(), Status::Exited(0));
    assert!(seat.is_cooked() && seat.is_left_clean());
    sandbox.agent_sh(["kill", "web", &id]);
}

#[test]
fn killed_it_leaves_the_terminal_as_it_was() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let id = stage(&sandbox);
    for (number, code) in [
        (Signal::SIGTERM, 15),
        (Signal::SIGHUP, 1),
        (Signal::SIGINT, 2),
    ] {
        let mut seat = top(&sandbox);
        seat.sees("3 jobs");
        assert!(!seat.is_cooked());
        seat.signal(number);
        assert_eq!(seat.ended(), Status::Signaled(code));
        assert!(seat.is_cooked() && seat.is_left_clean(), "{number}");
    }
    sandbox.agent_sh(["kill", "web", &id]);
}

#[test]
fn colours_and_terminals() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let id = stage(&sandbox);
    let coloured = |seat: &mut Seat| {
        seat.keys("j");
        seat.sees("server is up");
        seat.keys("q");
        assert_eq!(seat.ended(), Status::Exited(0));
        let text = String::from_utf8_lossy(&seat.bytes).into_owned();
        assert!(!text.contains("title"), "a title got through");
        // The server's red, by number or by index.
        text.contains("\x1b[31m") || text.contains("38;5;1m") || text.contains("38;5;4")
    };
    assert!(coloured(&mut top(&sandbox)));
    let call = sandbox.call("agent-sh").args(["top"]).env("NO_COLOR", "1");
    assert!(!coloured(&mut Seat::start(call)));
    let ended = sandbox.agent_sh(["top"]);
    assert_eq!(ended.status, Status::Exited(125), "{ended:?}");
    assert!(ended.errors().contains("'agent-sh ps'"), "{ended:?}");
    sandbox.agent_sh(["kill", "web", &id]);
}

//! No supervisor stays when its work is over, however that came: a stopped command that is continued,
//! killed or loses its terminal; a job whose program ended, whose input ended, whose starter was killed.
//!
//! Every case first sees its supervisor, by the same look that must find none at the end.

use nix::sys::signal::Signal;

use super::seat::Seat;
use super::{ends_with, interactive, send, writes};
use crate::support::{
    Dialogue, Identity, PROMPT, Pause, STOP, Sandbox, Status, exit_of, has_pauses, holds_within,
    in_parallel, ps_json, signal, stands_in, wait_until,
};

/// What a text may begin with: nothing, or something that makes it one with jobs, for which the shell has
/// a process group of its own.
const BEGINNINGS: [&str; 2] = ["", "true & "];

#[track_caller]
fn sees_supervisors(sandbox: &Sandbox, count: usize) {
    wait_until(&format!("there are {count} supervisors"), || {
        sandbox.supervisors().len() == count
    });
}

/// The processes whose parent this one is.
fn children(pid: i32) -> Vec<i32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let pids = text.split_whitespace();
    pids.map(|pid| pid.parse().unwrap()).collect()
}

fn is_stopped(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.contains("\nState:\tT")
}

/// Has a command stopped by Ctrl-Z in bash and in zsh, and lets `then` end it.
fn stopped(then: impl Fn(&Sandbox, Dialogue) + Sync) {
    if !stands_in() {
        return;
    }
    let cases: Vec<(&str, &str)> = ["bash", "zsh"]
        .into_iter()
        .flat_map(|shell| BEGINNINGS.map(|text| (shell, text)))
        .collect();
    in_parallel(&cases, |_, _, (shell, text)| {
        let sandbox = Sandbox::new();
        let mut person = Dialogue::new(&sandbox, shell, &sandbox.link("bash"));
        person.start(&format!("$SH -c '{text}echo re\"\"ady; read -r x; exit 3'"));
        sees_supervisors(&sandbox, 1);
        // A key that stops the job too, before it has left the group, makes another case of it.
        let supervisor = sandbox.supervisors()[0];
        let shell = children(supervisor)[0];
        wait_until("the shell is alone", || {
            children(supervisor) == [shell] && children(shell).is_empty()
        });
        person.until_prompt(STOP);
        // The front may be stopped first; what is typed then could still be read by the command.
        wait_until("the shell is stopped", || is_stopped(shell));
        person.state("stopped");
        then(&sandbox, person);
        sandbox.assert_no_survivors();
    });
}

#[test]
fn stopped_continued_and_ended() {
    stopped(|sandbox, mut person| {
        person.foreground();
        person.send("word\n");
        person.expect(PROMPT);
        assert_eq!(person.status(), "3");
        // Before the person leaves: nothing hangs on the interactive shell's end.
        sees_supervisors(sandbox, 0);
        person.leave();
    });
}

#[test]
fn stopped_and_killed() {
    for number in ["TERM", "KILL", "HUP"] {
        stopped(|sandbox, mut person| {
            person.answer(&format!("kill -{number} %1"));
            person.state("");
            sees_supervisors(sandbox, 0);
            person.leave();
        });
    }
}

#[test]
fn stopped_and_the_terminal_closed() {
    stopped(|_, person| person.close());
}

#[test]
fn stopped_and_the_interactive_shell_killed() {
    stopped(|_, person| {
        signal(person.pid(), Signal::SIGKILL);
        person.close();
    });
}

/// The command itself is killed, not the front.
#[test]
fn stopped_and_the_real_shell_killed() {
    stopped(|sandbox, mut person| {
        let supervisor = sandbox.supervisors()[0];
        signal(children(supervisor)[0], Signal::SIGKILL);
        sees_supervisors(sandbox, 0);
        // The front was stopped, and was woken to be told.
        person.state("");
        person.leave();
    });
}

#[test]
fn an_interactive_job_ended_in_every_way() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    // Its program.
    let id = interactive(&sandbox, &["read -r x; exit 4"]);
    sees_supervisors(&sandbox, 1);
    send(&sandbox, &[&id, "go"]);
    ends_with(&sandbox, &id, 4);
    sees_supervisors(&sandbox, 0);
    // The end of its input.
    let id = interactive(&sandbox, &["cat"]);
    sees_supervisors(&sandbox, 1);
    send(&sandbox, &[&id, "--eof"]);
    ends_with(&sandbox, &id, 0);
    sees_supervisors(&sandbox, 0);
    // A kill, also of one that is stopped and of one that does not hear it.
    for text in [
        "echo ready; exec cat",
        "echo ready; kill -STOP $$; exec cat",
        "trap '' TERM HUP INT; echo ready; while :; do read -r x; done",
    ] {
        let id = interactive(&sandbox, &["sh", "-c", text]);
        writes(&sandbox, &id, "ready");
        sees_supervisors(&sandbox, 1);
        let killed = sandbox.agent_sh(["kill", "--grace", "300ms", &id]);
        assert!(killed.succeeded(), "{killed:?}");
        sees_supervisors(&sandbox, 0);
    }
    sandbox.assert_no_survivors();
}

#[test]
fn the_starter_of_a_job_killed() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    for options in [&["-i", "--wait"][..], &["--wait"]] {
        let call = || sandbox.call("agent-sh").arg("run").args(options);
        // At a terminal, and at pipes that nobody reads any more.
        let mut seat = Seat::start(call().arg("echo re''ady; exec sleep 600"));
        seat.sees("ready");
        seat.signal(Signal::SIGKILL);
        assert_eq!(seat.ended(), Status::Signaled(9));
        drop(seat);
        let running = call().arg("echo ready; exec sleep 600").start();
        sees_supervisors(&sandbox, 2);
        signal(running.pid(), Signal::SIGKILL);
        let (mut child, streams) = running.into_files();
        drop(streams);
        assert_eq!(exit_of(&mut child), Status::Signaled(9));
        kill_all(&sandbox);
        sees_supervisors(&sandbox, 0);
    }
    sandbox.assert_no_survivors();
}

/// Ends every job that is listed as running, and waits until none is.
fn kill_all(sandbox: &Sandbox) {
    wait_until("no job runs", || {
        let jobs = ps_json(sandbox);
        let running: Vec<&str> = jobs
            .iter()
            .filter(|job| job["state"] == "running")
            .map(|job| job["id"].as_str().unwrap())
            .collect();
        for id in &running {
            sandbox.agent_sh(["kill", "--grace", "300ms", id]);
        }
        running.is_empty()
    });
}

/// At each step of a start, held there: whatever was started by then is a job that can be ended, or has gone.
#[test]
fn the_starter_killed_at_each_step() {
    if !stands_in() || !has_pauses() {
        return;
    }
    let points = [
        "middle-started",
        "starter-orphaned",
        "supervisor-started",
        "front-handed-off",
    ];
    let options = [&["-i"][..], &["-i", "--wait"], &["--wait"], &[]];
    let cases: Vec<(&'static str, &[&str])> = points
        .into_iter()
        .flat_map(|point| options.map(|options| (point, options)))
        .collect();
    in_parallel(&cases, |_, _, (point, options)| {
        let sandbox = Sandbox::new();
        let pause = Pause::new(&sandbox, point);
        let call = sandbox.call("agent-sh").arg("run").args(*options);
        let call = pause.hold(call.args(["--", "sleep", "600"]));
        let running = call.start();
        pause.reached(1);
        signal(running.pid(), Signal::SIGKILL);
        let (mut child, streams) = running.into_files();
        drop(streams);
        assert_eq!(exit_of(&mut child), Status::Signaled(9));
        pause.go();
        let gone = holds_within(crate::support::DEADLINE, || {
            kill_all(&sandbox);
            sandbox.supervisors().is_empty()
        });
        assert!(gone, "{options:?} at {point}: {:?}", sandbox.supervisors());
        sandbox.assert_no_survivors();
    });
}

/// At every moment of a start: whatever was started by then is a job that can be ended, or has gone.
#[test]
fn the_starter_killed_while_it_starts() {
    if !stands_in() {
        return;
    }
    let turns: Vec<u64> = (0..40).collect();
    in_parallel(&turns, |_, _, turn| {
        let sandbox = Sandbox::new();
        let options = [&["-i"][..], &["-i", "--wait"], &["--wait"], &[]][*turn as usize % 4];
        let call = sandbox.call("agent-sh").arg("run").args(options);
        let running = call.args(["--", "sleep", "600"]).start();
        let starter = Identity::of(running.pid()).unwrap();
        // Half a millisecond apart; the whole start takes some.
        let moment = std::time::Duration::from_micros(turn * 500);
        holds_within(moment, || !starter.lives());
        signal(starter.pid, Signal::SIGKILL);
        let (mut child, streams) = running.into_files();
        drop(streams);
        exit_of(&mut child);
        // A supervisor that is on its way publishes its job, or finds its starter gone.
        let gone = holds_within(crate::support::DEADLINE, || {
            kill_all(&sandbox);
            sandbox.supervisors().is_empty()
        });
        assert!(gone, "turn {turn}: {:?}", sandbox.supervisors());
        sandbox.assert_no_survivors();
    });
}

#[test]
fn a_seat_that_was_left() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let attach = |id: &str| Seat::start(sandbox.call("agent-sh").args(["attach", id]));
    let id = interactive(&sandbox, &["cat"]);
    let mut seat = attach(&id);
    seat.sees("Ctrl-] detaches");
    seat.keys("\x1d");
    assert_eq!(seat.ended(), Status::Exited(0));
    sees_supervisors(&sandbox, 1);
    // Killed while it sits there, and with its terminal closed.
    let mut seat = attach(&id);
    seat.sees("Ctrl-] detaches");
    seat.signal(Signal::SIGKILL);
    assert_eq!(seat.ended(), Status::Signaled(9));
    let mut seat = attach(&id);
    seat.sees("Ctrl-] detaches");
    seat.close();
    sees_supervisors(&sandbox, 1);
    send(&sandbox, &[&id, "--eof"]);
    ends_with(&sandbox, &id, 0);
    sandbox.assert_no_survivors();
}

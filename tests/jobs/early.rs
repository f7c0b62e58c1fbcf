//! The first moments of a job, and the last ones of a call.

use std::fs;
use std::io::Read;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::Stage;
use crate::support::{
    Input, Status, exit_of, group_kill, in_parallel, signal, stands_in, terminal, wait_for_records,
    wait_until,
};

type Kill = fn(i32);

/// The text is past its `&`, the job has yet to become one: a copy of the shell, or our launcher. Who
/// ends the call in this moment must not end the job with it, however he does it.
#[test]
fn a_kill_in_the_moment_of_the_start_spares_the_job() {
    if !stands_in() {
        return;
    }
    let texts = [
        (
            "bash",
            "{worker} & {worker} & : > started; read -r x < {hold}",
        ),
        (
            "dash",
            "{worker} & { true; {worker}; } & : > started; read -r x < {hold}",
        ),
        (
            "zsh",
            "{worker} & {worker} & : > started; read -r x < {hold}",
        ),
        // The inner shell becomes its last command.
        (
            "bash",
            "bash -c '{worker} & {worker} & : > started; cat {hold}'",
        ),
    ];
    let kills: [Kill; 4] = [
        |pid| signal(pid, Signal::SIGKILL),
        group_kill,
        |pid| signal(pid, Signal::SIGTERM),
        |pid| signal(pid, Signal::SIGHUP),
    ];
    let cases: Vec<(&str, &str, Kill)> = texts
        .into_iter()
        .flat_map(|(shell, text)| kills.map(|kill| (shell, text, kill)))
        .collect();
    // One kill may come too late by chance.
    let cases = [cases.clone(), cases.clone(), cases].concat();
    in_parallel(&cases, |_, _, &(shell, text, kill)| {
        let stage = Stage::new();
        let hold = stage.sandbox.gate();
        let whole = text
            .replace("{worker}", &stage.worker)
            .replace("{hold}", hold.path());
        let running = stage.sandbox.call(shell).c(&whole).start();
        let started = stage.sandbox.work().join("started");
        while !started.exists() {
            std::thread::yield_now();
        }
        kill(running.pid());
        let (ended, _) = running.returned();
        assert_ne!(ended.status, Status::Exited(0), "{ended:?}");
        stage.workers(2);
        stage.gate.release(2);
        for record in wait_for_records(&stage.sandbox, 2) {
            let found = (record.state(), record.exit_code());
            let event = &record.event;
            assert_eq!(found, ("exited", Some(37)), "{shell}: {text}: {event:#}");
        }
        stage.sandbox.assert_no_survivors();
    });
}

/// bash opens the terminal that its stdin is. If it led a session, it would thereby get it for its own,
/// and hang up its subshells with its end.
#[test]
fn a_terminal_that_controls_nobody_hangs_up_no_job() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let text = format!(
        "{{ true; {}; }} & ps -o tty= -p $$; {{ : > /dev/tty; }} 2>/dev/null || echo none",
        stage.worker
    );
    let (_leader, follower) = terminal();
    let call = stage.sandbox.call("bash").c(text);
    let ended = call.input(Input::Fd(follower.into())).run();
    let text = ended.text();
    // The job may have spoken by then.
    let found: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("worker"))
        .collect();
    assert_eq!(found, ["?", "none"], "{ended:?}");
    let workers = stage.workers(1);
    assert!(workers[0].lives());
    stage.gate.release(1);
    let records = wait_for_records(&stage.sandbox, 1);
    assert_eq!(records[0].exit_code(), Some(37), "{:#}", records[0].event);
    stage.sandbox.assert_no_survivors();
}

/// When it is told to go, it waits for its parent's end, and a moment later has something to say.
const LAST_WORDS: &str = "
import os, signal, time
parent = os.getppid()
def go(*_):
    while os.getppid() == parent:
        os.sched_yield()
    time.sleep(.05)
    os.write(1, b'last words\\n')
    os._exit(3)
signal.signal(signal.SIGTERM, go)
open('ready', 'w').close()
while True:
    signal.pause()
";

/// A foreground that is told to end may say something before it does, also if its shell is faster.
#[test]
fn last_words_are_heard() {
    if !stands_in() {
        return;
    }
    let python = crate::support::real("python3");
    // It is given a moment, not for ever: on a busy machine that may be too short.
    let heard = (0..20).any(|_| {
        let stage = Stage::new();
        fs::write(stage.sandbox.work().join("words.py"), LAST_WORDS).unwrap();
        let text = format!("{} words.py; echo never", python.display());
        let running = stage.sandbox.call("bash").c(text).start();
        let ready = stage.sandbox.work().join("ready");
        wait_until("it is ready", || ready.exists());
        signal(running.pid(), Signal::SIGTERM);
        let (mut child, mut streams) = running.into_files();
        let mut text = String::new();
        streams[0].read_to_string(&mut text).unwrap();
        exit_of(&mut child);
        stage.sandbox.assert_no_survivors();
        assert!(!text.contains("never"), "{text}");
        text == "last words\n"
    });
    assert!(heard);
}

/// A subshell that was started behind the parser's back is at work and will not register: nobody waits
/// a second for that.
#[test]
fn a_subshell_at_work_does_not_hold_the_call() {
    if !stands_in() {
        return;
    }
    let fastest = (0..10).map(|_| {
        let stage = Stage::new();
        let text = format!(
            "work='({}; :) >/dev/null 2>&1 &'; /bin/true & eval \"$work\"; cd /",
            stage.worker
        );
        let start = Instant::now();
        let ended = stage.sandbox.call("bash").c(text).run();
        let time = start.elapsed();
        assert_eq!(ended.status, Status::Exited(0));
        stage.workers(1);
        stage.gate.release(1);
        stage.sandbox.assert_no_survivors();
        time
    });
    let second = Duration::from_secs(1);
    assert!(fastest.into_iter().any(|time| time < second));
}

//! Every exit code and every deadly signal, as the parent sees them.

use crate::support::{Sandbox, Status, Streams, in_parallel};

/// Those that do not end a process by default, or that nothing can be told from: CHLD, CONT, STOP, TSTP,
/// TTIN, TTOU, URG, WINCH.
const NOT_DEADLY: [i32; 8] = [17, 18, 19, 20, 21, 22, 23, 28];

#[test]
fn every_exit_code_comes_through() {
    let sandbox = Sandbox::new();
    let codes: Vec<i32> = (0..=255).collect();
    in_parallel(&codes, |_, _, &code| {
        let ended = sandbox.call("bash").c(format!("exit {code}")).run();
        assert_eq!(ended.status, Status::Exited(code));
    });
    sandbox.assert_no_survivors();
}

#[test]
fn every_deadly_signal_comes_through() {
    let sandbox = Sandbox::new();
    let signals: Vec<i32> = (1..=31).filter(|n| !NOT_DEADLY.contains(n)).collect();
    in_parallel(&signals, |_, _, &signal| {
        for shell in ["bash", "dash", "zsh"] {
            // Shells treat some signals to themselves in their own ways: bash ignores QUIT, zsh exits
            // on HUP. What they exec'd does not.
            let own = format!("kill -{signal} $$");
            let ended = sandbox.call(shell).c(&own).run();
            let real = sandbox.real_call(shell).c(&own).run();
            assert_eq!(ended.status, real.status, "{shell}, signal {signal}");
            let ended = sandbox.call(shell).c(format!("exec dash -c '{own}'")).run();
            assert_eq!(ended.status, Status::Signaled(signal), "{shell}");
        }
    });
    sandbox.assert_no_survivors();
}

/// A program that the shell exec'd in place and that dies of a signal, over every kind of stream.
#[test]
fn a_signal_kills_over_every_kind_of_stream() {
    let sandbox = Sandbox::new();
    for streams in [
        Streams::Pipe,
        Streams::Socket,
        Streams::Truncated,
        Streams::Appended,
        Streams::Terminal,
        Streams::Null,
    ] {
        for signal in [2, 9, 11, 15] {
            let text = format!("exec sh -c 'echo last words; kill -{signal} $$'");
            let ended = sandbox.call("bash").c(text).streams(streams).run();
            assert_eq!(ended.status, Status::Signaled(signal), "{streams:?}");
            let empty = streams == Streams::Null;
            assert_eq!(ended.text().contains("last words"), !empty, "{streams:?}");
        }
    }
}

/// The parent shell prints "Terminated" only for a child that really died of the signal.
#[test]
fn a_parent_shell_sees_the_signal() {
    let sandbox = Sandbox::new();
    let inner = sandbox.link("bash");
    let text = format!("{} -c 'kill -TERM $$'; echo $?", inner.display());
    let ended = sandbox.real_call("bash").c(text).run();
    assert_eq!(ended.text(), "143\n");
    assert!(ended.errors().contains("Terminated"), "{ended:?}");
}

/// What the caller sends to the front reaches the shell, whose trap decides.
#[test]
fn signals_to_the_front_reach_the_shell() {
    let sandbox = Sandbox::new();
    for (name, number, code) in [
        ("TERM", 15, 41),
        ("INT", 2, 42),
        ("HUP", 1, 43),
        ("QUIT", 3, 44),
        ("USR1", 10, 45),
        ("USR2", 12, 46),
    ] {
        let ready = sandbox.work().join(name);
        // Short naps: a trap that comes between two commands runs before the next one, while one that
        // comes just before a blocking builtin would wait for it, natively too.
        let text = format!(
            "trap 'echo trapped; exit {code}' {name}; : > {name}; while :; do sleep 0.05; done"
        );
        let running = sandbox.call("bash").c(text).start();
        crate::support::wait_until("the trap is set", || ready.exists());
        crate::support::signal(
            running.pid(),
            nix::sys::signal::Signal::try_from(number).unwrap(),
        );
        let ended = running.finish();
        assert_eq!(ended.status, Status::Exited(code), "{name}: {ended:?}");
        assert_eq!(ended.text(), "trapped\n", "{name}");
    }
    sandbox.assert_no_survivors();
}

/// Without a trap, the front dies of the same signal as its shell.
#[test]
fn an_untrapped_signal_to_the_front_ends_both() {
    let sandbox = Sandbox::new();
    for number in [15, 1, 10] {
        let gate = sandbox.gate();
        let ready = sandbox.work().join(number.to_string());
        let text = format!(
            ": > {number}; read -r x < {}; echo not reached",
            gate.path()
        );
        let running = sandbox.call("bash").c(text).start();
        crate::support::wait_until("the shell runs", || ready.exists());
        crate::support::signal(
            running.pid(),
            nix::sys::signal::Signal::try_from(number).unwrap(),
        );
        let ended = running.finish();
        assert_eq!(ended.status, Status::Signaled(number), "{ended:?}");
        assert_eq!(ended.text(), "");
    }
    sandbox.assert_no_survivors();
}

//! A shell that stops itself, or is stopped: whoever waits for the call sees it, and who continues the call
//! continues the shell. With job control and without, on pipes and at a terminal.

use nix::sys::signal::Signal;

use crate::support::{
    Call, Dialogue, PROMPT, Running, Sandbox, Status, Streams, holds_within, in_parallel, real,
    signal, wait_until,
};

/// The state letter of a process.
fn state(pid: i32) -> Option<u8> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = text.iter().rposition(|&byte| byte == b')')?;
    text.get(end + 2).copied()
}

fn is_stopped(pid: i32) -> bool {
    state(pid) == Some(b'T')
}

/// Texts of a shell that calls `$SH`, which stops. `@` waits until that is seen.
const CALLERS: [&str; 4] = [
    "\"$SH\" -c 'kill -s STOP $$; echo resumed; exit 3' & p=$!; @; kill -s CONT $p; wait $p; echo \"is $?\"",
    "\"$SH\" -c 'kill -s STOP $$; echo resumed; kill -s STOP $$; exit 3' & p=$!; @; kill -s CONT $p; @@; kill -s CONT $p; wait $p; echo \"is $?\"",
    "\"$SH\" -c 'trap \"echo trapped\" TERM; kill -s STOP $$; exit 3' & p=$!; @; kill -s TERM $p; kill -s CONT $p; wait $p; echo \"is $?\"",
    "\"$SH\" -c 'kill -s STOP $$; exit 3' & p=$!; @; kill -s KILL $p; wait $p 2>/dev/null; echo \"is $?\"",
];

/// A caller without job control that looks for itself. (zsh's `wait` continues what is stopped.)
#[test]
fn a_caller_without_job_control() {
    let sandbox = Sandbox::new();
    in_parallel(&["bash", "dash", "zsh"], |_, _, &caller| {
        let seen = "until grep -q '^State.*T' /proc/$p/status; do :; done";
        for text in CALLERS {
            // The second stop is another one once the first has been left.
            let again = format!("until [ -s again-{caller} ]; do :; done; {seen}");
            let text = text.replace("@@", &again).replace('@', seen);
            let text = text.replace(
                "echo resumed; kill",
                &format!("echo x >again-{caller}; kill"),
            );
            let run = |shell: &str| {
                let outcome = |sh: std::path::PathBuf| {
                    drop(std::fs::remove_file(
                        sandbox.work().join(format!("again-{caller}")),
                    ));
                    let call = sandbox.real_call(caller).c(&text).env("SH", sh);
                    let ended = call.run();
                    (ended.status, ended.text())
                };
                assert_eq!(
                    outcome(real(shell)),
                    outcome(sandbox.link(shell)),
                    "{caller}, then {shell}: {text}"
                );
            };
            ["bash", "dash", "zsh"].into_iter().for_each(run);
        }
    });
    let text = format!(
        "\"$SH\" -c 'kill -s STOP $$; echo resumed; exit 3' & p=$!; {}; wait $p; echo \"is $?\"",
        "until grep -q '^State.*T' /proc/$p/status; do :; done"
    );
    for options in [&["-f"][..], &["-f", "-m"]] {
        let run = |sh: std::path::PathBuf| {
            let call = sandbox.real_call("zsh").args(options).c(&text);
            call.env("SH", sh).run()
        };
        assert_eq!(
            run(real("bash")),
            run(sandbox.link("bash")),
            "zsh {options:?}"
        );
    }
    sandbox.assert_no_survivors();
}

/// A caller with job control that has no terminal.
#[test]
fn a_caller_with_job_control() {
    let sandbox = Sandbox::new();
    for text in [
        "\"$SH\" -c 'kill -s STOP $$; echo resumed; exit 3'; echo \"is $?\"; fg >/dev/null; echo \"is $?\"",
        "\"$SH\" -c 'kill -s STOP $$; echo resumed; exit 3'; echo \"is $?\"; bg >/dev/null; wait; echo \"is $?\"",
        "\"$SH\" -c 'kill -s STOP $$; kill -s STOP $$; exit 3'; echo \"is $?\"; fg >/dev/null; echo \"is $?\"; kill -s CONT %1; wait %1; echo \"is $?\"",
        "\"$SH\" -c 'trap \"echo went on\" CONT; kill -s STOP $$; exit 3'; echo \"is $?\"; fg >/dev/null; echo \"is $?\"",
    ] {
        let run = |sh: std::path::PathBuf| {
            let call = sandbox.real_call("bash").c(format!("set -m; {text}"));
            let ended = call.env("SH", sh).run();
            (ended.status, ended.text())
        };
        assert_eq!(run(real("bash")), run(sandbox.link("bash")), "{text}");
    }
    sandbox.assert_no_survivors();
}

/// A call of a shell that has stopped itself, seen as its caller sees it, and the shell's pid.
fn stopped<'a>(sandbox: &Sandbox, call: Call<'a>, streams: Streams) -> (Running, i32) {
    let file = sandbox.work().join("pid");
    drop(std::fs::remove_file(&file));
    let text = "echo $$ >new; mv new pid; kill -s STOP $$; echo resumed; exit 3";
    let running = call.c(text).streams(streams).start();
    wait_until("the call is stopped", || is_stopped(running.pid()));
    let shell = std::fs::read_to_string(file).unwrap();
    (running, shell.trim().parse().unwrap())
}

/// One who knows the shell's pid, or the caller's child: both are woken, and end alike.
#[test]
fn continued_or_ended_by_anybody() {
    let sandbox = Sandbox::new();
    type Ends = fn(i32, i32);
    let ways: [(Ends, Status); 6] = [
        (|front, _| signal(front, Signal::SIGCONT), Status::Exited(3)),
        (|_, shell| signal(shell, Signal::SIGCONT), Status::Exited(3)),
        (
            |_, shell| signal(shell, Signal::SIGKILL),
            Status::Signaled(9),
        ),
        (
            |front, _| {
                signal(front, Signal::SIGTERM);
                signal(front, Signal::SIGCONT);
            },
            Status::Signaled(15),
        ),
        (
            |front, shell| {
                signal(front, Signal::SIGCONT);
                signal(shell, Signal::SIGCONT);
            },
            Status::Exited(3),
        ),
        (
            |front, _| signal(front, Signal::SIGKILL),
            Status::Signaled(9),
        ),
    ];
    for streams in [
        Streams::Pipe,
        Streams::Socket,
        Streams::Appended,
        Streams::Null,
        Streams::Terminal,
    ] {
        for (index, (way, expected)) in ways.iter().enumerate() {
            for call in [sandbox.real_call("bash"), sandbox.call("bash")] {
                let (running, shell) = stopped(&sandbox, call, streams);
                way(running.pid(), shell);
                let ended = running.finish();
                assert_eq!(
                    ended.status, *expected,
                    "{streams:?}, way {index}: {ended:?}"
                );
                let spoke = *expected == Status::Exited(3) && streams != Streams::Null;
                assert_eq!(ended.text().contains("resumed"), spoke, "{ended:?}");
            }
        }
    }
    sandbox.assert_no_survivors();
}

/// A shell that stops again and again, and somebody who continues it, or the call, or both, whenever he
/// sees it stopped, however early. Nobody is left behind.
#[test]
fn in_any_order() {
    let sandbox = Sandbox::new();
    let text = "echo $$ >new; mv new pid; i=0; while [ $i -lt 100 ]; do kill -s STOP $$; i=$((i+1)); done; exit 3";
    for streams in [Streams::Pipe, Streams::Terminal] {
        for who in ["shell", "front", "both"] {
            let file = sandbox.work().join("pid");
            drop(std::fs::remove_file(&file));
            let running = sandbox.call("bash").c(text).streams(streams).start();
            let front = running.pid();
            let mut shell = None;
            let over = holds_within(crate::support::DEADLINE, || {
                let number = || std::fs::read_to_string(&file).ok()?.trim().parse().ok();
                shell = shell.or_else(number);
                let Some(shell) = shell else { return false };
                if who != "front" && is_stopped(shell) {
                    signal(shell, Signal::SIGCONT);
                }
                if who != "shell" && is_stopped(front) {
                    signal(front, Signal::SIGCONT);
                }
                matches!(state(front), None | Some(b'Z'))
            });
            assert!(over, "{streams:?}: left behind when the {who} went on");
            assert_eq!(running.finish().status, Status::Exited(3));
        }
    }
    sandbox.assert_no_survivors();
}

/// A person at an interactive shell.
#[test]
fn at_a_persons_terminal() {
    in_parallel(&["bash", "zsh"], |_, _, shell| {
        let sandbox = Sandbox::new();
        for beginning in ["", "true & "] {
            let seen = [real("bash"), sandbox.link("bash")].map(|command| {
                let mut person = Dialogue::new(&sandbox, shell, &command);
                let text = format!("{beginning}echo $$ >pid; kill -s STOP $$; exit 4");
                let line = format!("$SH -c '{text}'");
                person.answer(&line);
                let first = person.status();
                person.state("stopped");
                person.foreground();
                person.expect(PROMPT);
                let second = person.status();
                // Continued by somebody else, and by the shell's own hand.
                for by in ["kill -CONT $(cat pid)", "kill -CONT %1"] {
                    person.answer(&line);
                    person.state("stopped");
                    person.answer(by);
                    person.state("");
                }
                person.leave();
                (first, second)
            });
            assert_eq!(seen[0], seen[1], "{shell}, {beginning:?}");
        }
        sandbox.assert_no_survivors();
    });
}

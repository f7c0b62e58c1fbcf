//! `wait --for-output`, `--for-port`, `--idle`.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{ended_job, job, sandbox};
use crate::support::Status;

#[test]
fn until_a_line_matches() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    job(
        &sandbox,
        "x",
        &format!(
            "echo started; printf '\\033[1mready\\033[m\\r\\033[K'; read x < {0}; printf 'Continue? '; read x < {0}; exit 3",
            gate.path()
        ),
    );
    // Written before the wait, and already overdrawn.
    for wanted in ["^started$", "^ready$"] {
        let waited = sandbox.agent_sh(["wait", "x", "--for-output", wanted]);
        assert_eq!(waited.status, Status::Exited(0), "{waited:?}");
        assert!(waited.text().contains(" wrote: "), "{waited:?}");
    }
    let waiting = sandbox
        .call("agent-sh")
        .args(["wait", "x", "--for-output", r"\? $", "--json"])
        .start();
    let in_vain = sandbox
        .call("agent-sh")
        .args(["wait", "x", "--for-output", "never"])
        .start();
    let over = sandbox.agent_sh(["wait", "x", "--for-output", "never", "--timeout", "0.2"]);
    assert_eq!(over.status, Status::Exited(124), "{over:?}");
    gate.release(1);
    let waited = waiting.finish();
    assert_eq!(waited.status, Status::Exited(0), "{waited:?}");
    let told: Value = serde_json::from_slice(&waited.stdout).unwrap();
    assert_eq!(
        (&told["matched"], &told["state"]),
        (&"Continue? ".into(), &"running".into())
    );
    gate.release(1);
    let in_vain = in_vain.finish();
    assert_eq!(in_vain.status, Status::Exited(1), "{in_vain:?}");
    assert!(
        in_vain.errors().contains("before the condition was met"),
        "{in_vain:?}"
    );
    // What was written is still there.
    assert_eq!(
        sandbox
            .agent_sh(["wait", "x", "--for-output", "started"])
            .status,
        Status::Exited(0)
    );
    assert_eq!(sandbox.agent_sh(["wait", "x"]).status, Status::Exited(3));
}

#[test]
fn a_line_in_a_file_that_stdout_went_to() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let script = sandbox.script(
        "s",
        &format!(
            "#!/bin/sh\nread x < {0}\necho listening\nread x < {0}\n",
            gate.path()
        ),
    );
    sandbox
        .call("bash")
        .c(format!("{script} > file.txt &"))
        .run();
    let waiting = sandbox
        .call("agent-sh")
        .args(["wait", "last", "--for-output", "listen"])
        .start();
    gate.release(1);
    assert_eq!(waiting.finish().status, Status::Exited(0));
    gate.release(1);
    sandbox.agent_sh(["wait", "last"]);
}

const SERVER: &str = "import socket, sys\n\
s = socket.socket(socket.AF_INET6 if sys.argv[1] == '6' else socket.AF_INET)\n\
s.bind(('::1' if sys.argv[1] == '6' else '127.0.0.1', 0))\n\
open('port', 'w').write(str(s.getsockname()[1]))\n\
open(sys.argv[2]).readline()\n\
s.listen()\n\
open(sys.argv[2]).readline()\n";

#[test]
fn until_it_listens() {
    let Some(sandbox) = sandbox() else { return };
    for family in ["4", "6"] {
        let gate = sandbox.gate();
        let port = sandbox.work().join("port");
        let _none_yet = std::fs::remove_file(&port);
        std::fs::write(sandbox.work().join("server.py"), SERVER).unwrap();
        let name = format!("server{family}");
        // A child of the job listens, not the job's first process.
        job(
            &sandbox,
            &name,
            &format!("python3 server.py {family} {}; exit 4", gate.path()),
        );
        crate::support::wait_until("the port is known", || {
            std::fs::read_to_string(&port).is_ok_and(|text| !text.is_empty())
        });
        let port = std::fs::read_to_string(&port).unwrap();
        let early = sandbox.agent_sh(["wait", &name, "--for-port", &port, "--timeout", "0.3"]);
        assert_eq!(
            early.status,
            Status::Exited(124),
            "bound is not listening: {early:?}"
        );
        let waiting = sandbox
            .call("agent-sh")
            .args(["wait", &name, "--for-port", &port])
            .start();
        gate.release(1);
        let waited = waiting.finish();
        assert_eq!(waited.status, Status::Exited(0), "{waited:?}");
        assert!(
            waited
                .text()
                .ends_with(&format!("listens on port {port}\n")),
            "{waited:?}"
        );
        gate.release(1);
        assert_eq!(sandbox.agent_sh(["wait", &name]).status, Status::Exited(4));
        let gone = sandbox.agent_sh(["wait", &name, "--for-port", &port]);
        assert_eq!(gone.status, Status::Exited(1), "{gone:?}");
    }
}

/// A port that somebody else listens on is not the job's.
#[test]
fn the_port_of_a_stranger() {
    let Some(sandbox) = sandbox() else { return };
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port().to_string();
    let gate = sandbox.gate();
    job(&sandbox, "x", &format!("read x < {}", gate.path()));
    let waited = sandbox.agent_sh(["wait", "x", "--for-port", &port, "--timeout", "1"]);
    assert_eq!(waited.status, Status::Exited(124), "{waited:?}");
    gate.release(1);
    sandbox.agent_sh(["wait", "x"]);
}

#[test]
fn until_it_is_silent() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    job(
        &sandbox,
        "x",
        &format!(
            "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.25; done; read x < {}",
            gate.path()
        ),
    );
    let start = Instant::now();
    let waited = sandbox.agent_sh(["wait", "x", "--idle", "1.2s"]);
    assert_eq!(waited.status, Status::Exited(0), "{waited:?}");
    // Seven pauses, and then the silence.
    assert!(
        start.elapsed() > Duration::from_millis(2000),
        "{:?}",
        start.elapsed()
    );
    assert!(sandbox.agent_sh(["logs", "x"]).text().contains('8'));
    // It has been silent for long: said at once.
    let again = sandbox.agent_sh(["wait", "x", "--idle", "0.5s", "--timeout", "30s"]);
    assert_eq!(again.status, Status::Exited(0), "{again:?}");
    gate.release(1);
    sandbox.agent_sh(["wait", "x"]);
    let over = sandbox.agent_sh(["wait", "x", "--idle", "1s"]);
    assert_eq!(over.status, Status::Exited(1), "{over:?}");
}

#[test]
fn several_jobs_and_a_condition() {
    let Some(sandbox) = sandbox() else { return };
    ended_job(&sandbox, "quiet", "true");
    let gate = sandbox.gate();
    job(
        &sandbox,
        "loud",
        &format!("read x < {}; echo hello", gate.path()),
    );
    let any = sandbox
        .call("agent-sh")
        .args(["wait", "quiet", "loud", "--any", "--for-output", "hello"])
        .start();
    let all = sandbox
        .call("agent-sh")
        .args(["wait", "quiet", "loud", "--for-output", "hello"])
        .start();
    gate.release(1);
    assert_eq!(any.finish().status, Status::Exited(0));
    assert_eq!(all.finish().status, Status::Exited(1));
}

/// On a terminal a line tells how it goes, and is gone at the end; in a pipe there is none.
#[test]
fn the_line_on_a_terminal() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    job(
        &sandbox,
        "x",
        &format!(
            "printf 'step one\\n\\033]0;t\\007step \\033[31mtwo\\n'; read x < {}",
            gate.path()
        ),
    );
    let waiting = sandbox
        .call("agent-sh")
        .args(["wait", "x"])
        .env("TERM", "xterm")
        .streams(crate::support::Streams::Terminal)
        .start();
    let piped = sandbox.call("agent-sh").args(["wait", "x"]).start();
    let start = Instant::now();
    crate::support::wait_until("the line has been drawn", || {
        start.elapsed() > Duration::from_millis(1500)
    });
    gate.release(1);
    let (status, shown) = {
        let ended = waiting.finish();
        (ended.status, ended.text())
    };
    assert_eq!(status, Status::Exited(0));
    assert!(shown.contains("  step two\u{1b}[K"), "{shown:?}");
    // Cleared before the last word.
    let last = shown.rfind("\r\u{1b}[K").unwrap();
    assert!(shown[last..].contains("exited with 0"), "{shown:?}");
    let inner = shown.replace("\u{1b}[K", "");
    assert!(!inner.contains('\u{1b}'), "{shown:?}");
    assert_eq!(piped.finish().errors(), "");
}

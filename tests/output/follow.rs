//! `-f`: also files, also what is drawn again.

use std::io::Read;

use super::{job, sandbox};
use crate::support::{Sandbox, Status, exit_of};

/// A follower whose lines are read one by one.
struct Follower {
    child: std::process::Child,
    stdout: std::fs::File,
    /// Held open: what is said there must not end it.
    _stderr: std::fs::File,
    seen: Vec<u8>,
}

impl Follower {
    fn start<const N: usize>(sandbox: &Sandbox, args: [&str; N]) -> Self {
        let running = sandbox.call("agent-sh").args(args).start();
        let (child, files) = running.into_files();
        let [stdout, stderr] = files.try_into().unwrap();
        Self {
            child,
            stdout,
            _stderr: stderr,
            seen: Vec::new(),
        }
    }

    /// Reads until this stands in what was read.
    #[track_caller]
    fn expect(&mut self, wanted: &str) {
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&self.seen).contains(wanted) {
            let read = self.stdout.read(&mut buffer).unwrap();
            let seen = String::from_utf8_lossy(&self.seen);
            assert!(read > 0, "ended before {wanted:?}: {seen:?}");
            self.seen.extend(&buffer[..read]);
        }
    }

    fn finish(mut self) -> (Status, String) {
        self.stdout.read_to_end(&mut self.seen).unwrap();
        let text = String::from_utf8(self.seen).unwrap();
        (exit_of(&mut self.child), text)
    }
}

#[test]
fn line_by_line_until_the_end() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let text = format!(
        "echo one; read x < {0}; echo two; read x < {0}; printf 'Name? '; read x < {0}; echo joe",
        gate.path()
    );
    job(&sandbox, "x", &text);
    let mut follower = Follower::start(&sandbox, ["logs", "x", "-f"]);
    let mut filtered = Follower::start(&sandbox, ["logs", "x", "-f", "--grep", "tw", "--json"]);
    follower.expect("one\n");
    gate.release(1);
    follower.expect("two\n");
    filtered.expect("{\"line\":\"two\"}\n");
    gate.release(1);
    // A prompt has no newline and is shown all the same.
    follower.expect("Name? ");
    gate.release(1);
    assert_eq!(
        follower.finish(),
        (Status::Exited(0), "one\ntwo\nName? joe\n".to_owned())
    );
    assert_eq!(filtered.finish().1, "{\"line\":\"two\"}\n");
}

#[test]
fn rows_drawn_again_are_told_when_they_rest() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let text = format!(
        "printf 'a: waiting\\nb: waiting\\n'; for i in 1 2 3 4 5 6 7 8 9; do printf '\\033[2Aa: %s0%%   \\nb: %s0%%   \\n' $i $i; done; read x < {}; printf '\\033[2Aa: done   \\nb: done   \\n'",
        gate.path()
    );
    job(&sandbox, "x", &text);
    let mut follower = Follower::start(&sandbox, ["logs", "x", "-f"]);
    follower.expect("b: 90%");
    gate.release(1);
    let (status, seen) = follower.finish();
    assert_eq!(status, Status::Exited(0));
    assert!(seen.ends_with("a: done\nb: done\n"), "{seen:?}");
    // The frames in between were never at rest.
    assert!(seen.lines().count() <= 8, "{seen:?}");
}

/// stdout in a file, stderr in the transcript: both are followed, and stderr says so.
#[test]
fn a_file_that_stdout_went_to() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let script = sandbox.script(
        "both",
        &format!("#!/bin/sh\necho out1; echo err1 >&2; read x < {0}; echo out2; echo err2 >&2; read x < {0}\n", gate.path()),
    );
    let call = sandbox
        .call("bash")
        .c(format!("{script} > file.txt &"))
        .run();
    assert!(call.succeeded(), "{call:?}");
    let mut follower = Follower::start(&sandbox, ["logs", "last", "-f"]);
    follower.expect("out1\n");
    follower.expect("err1\n");
    gate.release(1);
    follower.expect("out2\n");
    follower.expect("err2\n");
    gate.release(1);
    let (status, seen) = follower.finish();
    assert_eq!(status, Status::Exited(0));
    assert_eq!(seen.lines().count(), 4, "{seen:?}");
    let shown = sandbox.agent_sh(["logs", "last", "-n", "1"]);
    assert_eq!(shown.text(), "out2\nerr2\n");
    let file = sandbox.work().join("file.txt");
    let said = format!("writes to '{}': showing that file", file.display());
    assert!(shown.errors().contains(&said), "{shown:?}");
}

#[test]
fn only_what_is_new() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let text = format!(
        "seq 1 5000; read x < {0}; echo new; read x < {0}",
        gate.path()
    );
    job(&sandbox, "x", &text);
    let waited = sandbox.agent_sh(["wait", "x", "--for-output", "^5000$"]);
    assert!(waited.succeeded(), "{waited:?}");
    let mut follower = Follower::start(&sandbox, ["logs", "x", "-f", "-n", "2"]);
    follower.expect("5000\n");
    gate.release(1);
    follower.expect("new\n");
    gate.release(1);
    assert_eq!(follower.finish().1, "4999\n5000\nnew\n");
}

/// A log that is rotated by copying and truncating: what was begun there is finished, and the new text
/// begins a line of its own.
#[test]
fn a_file_that_is_truncated() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let script = sandbox.script(
        "rotated",
        &format!(
            "#!/bin/sh\nprintf '%s\\nhalf' \"$(seq 1 500)\"; read x < {0}; echo new; read x < {0}\n",
            gate.path()
        ),
    );
    let call = sandbox.call("bash").c(format!("{script} >> log &")).run();
    assert!(call.succeeded(), "{call:?}");
    let mut follower = Follower::start(&sandbox, ["logs", "last", "-f", "--grep", "."]);
    follower.expect("500\n");
    let log = std::fs::OpenOptions::new()
        .write(true)
        .open(sandbox.work().join("log"));
    log.unwrap().set_len(0).unwrap();
    gate.release(1);
    follower.expect("new\n");
    gate.release(1);
    let (status, seen) = follower.finish();
    assert_eq!(status, Status::Exited(0));
    assert!(seen.ends_with("\n500\nhalf\nnew\n"), "{seen:?}");
}

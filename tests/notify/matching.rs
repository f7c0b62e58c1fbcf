//! What a pattern is held against: the same clean text for `notify --on-output` and `wait --for-output`.

use std::fs::OpenOptions;
use std::path::PathBuf;

use serde_json::Value;

use super::{events, verb};
use crate::support::{Sandbox, Status, stands_in, wait_until};

/// One pattern with a directory of its own for what it matched.
struct Subscribed {
    pattern: &'static str,
    dir: PathBuf,
}

impl Subscribed {
    fn new(sandbox: &Sandbox, number: usize, pattern: &'static str) -> Self {
        let dir = sandbox.path(format!("events{number}"));
        let sink = format!("dir:{}", dir.display());
        let name = format!("s{number}");
        verb(
            sandbox,
            [
                "notify",
                "add",
                &sink,
                "--as",
                &name,
                "--on-output",
                pattern,
            ],
        );
        Self { pattern, dir }
    }

    /// The events of lines that matched.
    fn matched(&self) -> Vec<Value> {
        let mut all = events(&self.dir);
        all.retain(|event| event["type"] == "dev.agent-sh.job.output-matched.v1");
        all
    }

    #[track_caller]
    fn wait(&self) -> Value {
        wait_until(&format!("'{}' was matched", self.pattern), || {
            !self.matched().is_empty()
        });
        self.matched().remove(0)
    }
}

fn subscribe(sandbox: &Sandbox, patterns: &[&'static str]) -> Vec<Subscribed> {
    let numbered = patterns.iter().enumerate();
    let all = numbered.map(|(number, pattern)| Subscribed::new(sandbox, number, pattern));
    all.collect()
}

/// A log that is rotated by copying and truncating goes on at its beginning.
#[test]
fn a_truncated_file_is_followed_from_its_beginning() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let patterns = subscribe(&sandbox, &["^500$", "^ready$", "ready.|.ready"]);
    let gate = sandbox.gate();
    let job = sandbox.script(
        "work/job",
        &format!(
            "#!/bin/sh\nprintf '%s\\nhalf' \"$(seq 1 500)\"; read x < {0}; echo ready; read x < {0}\n",
            gate.path()
        ),
    );
    let call = sandbox.call("bash").c(format!("{job} >> log &")).run();
    assert!(call.succeeded(), "{call:?}");
    // All that is there has been read: from now on only what is new can match.
    patterns[0].wait();
    let file = OpenOptions::new()
        .write(true)
        .open(sandbox.path("work/log"));
    file.unwrap().set_len(0).unwrap();
    gate.release(1);
    let event = patterns[1].wait();
    assert_eq!(event["data"]["untrusted_output_tail"], "ready\n");
    gate.release(1);
    sandbox.assert_no_survivors();
    assert!(patterns[2].matched().is_empty(), "what was cut goes on");
}

/// What is written; `GATE` is a pause.
const WRITTEN: &str = r"printf 'caf\303'; GATE; printf '\251\n';
    printf 're\033[31mad\033[0my one\033[K\n'; printf '10%%\r 50%%\r100%% built\n';
    printf 'helqo\b\blo two\n'; printf 'a\033[3Cb\n'; printf 'first\nlast\n\033[2Athird\n\n';
    printf 'gone\r\033[Kshort\n'; printf '\033]0;title\007\033Pq#1~~\033\\plain\n';
    printf 'Name? '; GATE";

/// Each is in the clean text, or in a state that a line of it had for a while.
const SEEN: [&str; 12] = [
    "^caf",
    "^café$",
    "^ready one$",
    "^10%$",
    "^ 50%$",
    "^100% built$",
    "^hello two$",
    "^a   b$",
    "^third$",
    "^gone$",
    "^plain$",
    r"^Name\? $",
];

/// These are in the bytes, or in pieces of them that nobody saw together.
const NEVER_SEEN: [&str; 6] = [
    r"\x{FFFD}",
    r"\x1b|\x08|\[31m",
    "10%.*50%",
    "title",
    "goneshort",
    "^ab$",
];

#[test]
fn both_ways_to_wait_for_a_line_see_the_same_text() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let seen = subscribe(&sandbox, &SEEN);
    let numbered = NEVER_SEEN.into_iter().zip(SEEN.len()..);
    let never: Vec<Subscribed> = numbered
        .map(|(pattern, number)| Subscribed::new(&sandbox, number, pattern))
        .collect();
    let gate = sandbox.gate();
    let text = WRITTEN.replace("GATE", &format!("read x < {}", gate.path()));
    let id = verb(&sandbox, ["run", "--", "bash", "-c", &text]);
    let id = id.trim();
    // The letter is cut between two reads.
    seen[0].wait();
    gate.release(1);
    for subscribed in &seen {
        subscribed.wait();
        let waited = sandbox.agent_sh(["wait", id, "--for-output", subscribed.pattern]);
        assert_eq!(waited.status, Status::Exited(0), "{waited:?}");
    }
    let prompt = seen[SEEN.len() - 1].wait();
    assert_eq!(prompt["data"]["untrusted_output_tail"], "Name? \n");
    gate.release(1);
    sandbox.assert_no_survivors();
    for subscribed in &never {
        let waited = sandbox.agent_sh(["wait", id, "--for-output", subscribed.pattern]);
        assert_eq!(waited.status, Status::Exited(1), "{waited:?}");
        let matched = subscribed.matched();
        assert!(matched.is_empty(), "{}: {matched:?}", subscribed.pattern);
    }
}

/// stdout in a file, stderr in the transcript: a line may come from either.
#[test]
fn every_stream_is_looked_at() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let before = subscribe(&sandbox, &["^out1$", "^err1$"]);
    let gate = sandbox.gate();
    let job = sandbox.script(
        "work/both",
        &format!(
            "#!/bin/sh\necho out1; echo err1 >&2; read x < {0}; echo out2; echo err2 >&2; read x < {0}\n",
            gate.path()
        ),
    );
    let call = sandbox.call("bash").c(format!("{job} > file.txt &")).run();
    assert!(call.succeeded(), "{call:?}");
    before.iter().for_each(|subscribed| drop(subscribed.wait()));
    // Subscribed late: what was written before is not matched, in any of the streams.
    let late = Subscribed::new(&sandbox, 2, "^(out|err)1$");
    let new = [(3, "^out2$"), (4, "^err2$")]
        .map(|(number, pattern)| Subscribed::new(&sandbox, number, pattern));
    gate.release(1);
    new.iter().for_each(|subscribed| drop(subscribed.wait()));
    gate.release(1);
    sandbox.assert_no_survivors();
    assert!(late.matched().is_empty(), "{:?}", late.matched());
}

//! Models write `cmd &` whatever the tool's description says.

use super::{started, worker};
use crate::support::{
    Identity, Sandbox, Status, job_dirs, ps_json, records, stands_in, wait_for_records, wait_until,
};

/// Texts with an ampersand that starts nothing, though its last character or its looks may say so.
const NOTHING: &[&str] = &[
    "true && true",
    "true 2>&1",
    "true >&2",
    "true &>/dev/null",
    "echo 'a &'",
    "echo \"a &\"",
    "echo a \\&",
    "true # a comment &",
    "cat <<'E'\na &\nE",
    "echo $((6 & 3))",
    "[[ a == a && b == b ]]",
    "x='&'; echo \"${x}&\"",
    "case '&' in '&') true;; esac",
    "echo \"$(echo '&')\"",
    "sleep 0 & wait",
];

/// Texts that start one job, none of which a look at the last character finds (but the first).
const ONE_JOB: &[&str] = &[
    "{worker} &",
    "{worker} & echo 'in the middle'",
    "{worker} &\necho next line",
    "true && {worker} & true",
    "if true; then {worker} & fi",
    "{ {worker} & } 2>/dev/null",
    "eval '{worker} &'",
    "bash -c '{worker} & exit 0'",
    "timeout 60 sh -c \"{worker} &\"",
    "for i in 1; do {worker} & done; echo 'not & here'",
    "f() { {worker} & }; f",
    "{worker} & # a comment",
    "({worker}) & echo \"&&\"",
    "cd / && ({worker} &)",
];

#[test]
fn case_c_ampersands_are_found_by_grammar() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    for text in NOTHING {
        let ended = sandbox
            .call("bash")
            .c(text)
            .env("AGENT_SH_ANNOUNCE", "1")
            .run();
        assert!(
            ended.succeeded() && !ended.errors().contains("[agent-sh]"),
            "{text}: {ended:?}"
        );
    }
    sandbox.assert_no_survivors();
    assert!(job_dirs(&sandbox).is_empty(), "{:?}", job_dirs(&sandbox));
    for text in ONE_JOB {
        let sandbox = Sandbox::new();
        let gate = sandbox.gate();
        let script = worker(&sandbox, &gate, "server", 37);
        let text = text.replace("{worker}", &script);
        let ended = sandbox
            .call("bash")
            .c(&text)
            .env("AGENT_SH_ANNOUNCE", "1")
            .run();
        assert!(ended.succeeded(), "{text}: {ended:?}");
        let server = started(&sandbox, "server");
        assert_eq!(
            ended.errors().matches("[agent-sh] job ").count(),
            1,
            "{text}: {ended:?}"
        );
        assert!(server.lives(), "{text}");
        gate.release(1);
        let found = wait_for_records(&sandbox, 1);
        assert_eq!(
            found[0].exit_code(),
            Some(37),
            "{text}: {:#}",
            found[0].event
        );
        assert_eq!(found[0].how(), "ampersand", "{text}");
    }
}

/// A signal reaches the whole tree of a job, not only its top, and the job is in a group of its own.
#[test]
fn case_c_signals_reach_the_whole_tree() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let leaf = worker(&sandbox, &gate, "leaf", 0);
    let stubborn = worker(&sandbox, &gate, "stubborn", 0);
    // One child in a session of its own, one that ignores TERM: a kill of the group misses the first.
    let top = sandbox.script(
        "top",
        &format!("#!/bin/sh\nsetsid {leaf} &\n(trap '' TERM; {stubborn}) &\nwait\n"),
    );
    assert!(sandbox.call("bash").c(format!("{top} &")).run().succeeded());
    let tree: Vec<Identity> = ["leaf", "stubborn"]
        .map(|name| started(&sandbox, name))
        .into();
    let jobs = ps_json(&sandbox);
    assert_eq!(jobs.len(), 1, "{jobs:#?}");
    let id = jobs[0]["id"].as_str().unwrap();
    let pid = i32::try_from(jobs[0]["pid"].as_i64().unwrap()).unwrap();
    let group = nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(pid))).unwrap();
    assert_eq!(group.as_raw(), pid, "the job leads its own group");
    let killed = sandbox.agent_sh(["kill", "--grace", "1s", id]);
    assert_eq!(killed.status, Status::Exited(0), "{killed:?}");
    wait_until("the whole tree is gone", || {
        !tree.iter().any(|process| process.lives())
    });
    // Those that lost their parent while the tree went down may have become strays with records of
    // their own; none was let through the gate, so none may be said to have ended by itself.
    sandbox.assert_no_survivors();
    let found = records(&sandbox);
    assert!(found.iter().any(|record| record.job == id), "{found:#?}");
    assert!(
        found.iter().all(|record| record.state() == "signaled"),
        "{found:#?}"
    );
}

//! What a list of jobs says: in which order they started, where their output goes, what they inherited.

use std::fs;

use super::Stage;
use crate::support::{Streams, in_parallel, ps_json, stands_in, wait_for_records, wait_until};

/// Jobs come to register in any order; they are announced and listed as they were started.
#[test]
fn jobs_are_listed_as_they_started() {
    if !stands_in() {
        return;
    }
    let rounds: Vec<usize> = (0..6).collect();
    in_parallel(&rounds, |_, round, _| {
        let stage = Stage::new();
        let shell = ["bash", "dash", "zsh"][round % 3];
        let text = format!("for i in 1 2 3 4 5 6 7 8; do {} $i & done", stage.worker);
        let call = stage.sandbox.call(shell).c(text);
        let ended = call.env("AGENT_SH_ANNOUNCE", "1").run();
        let numbers = |lines: Vec<String>| -> Vec<String> {
            let last = |line: &String| line.split_whitespace().last().unwrap().to_owned();
            lines.iter().map(last).collect()
        };
        let expected: Vec<String> = (1..=8).map(|i| i.to_string()).collect();
        let said = ended.errors();
        let said = said.lines().map(|line| line.split(" (pid").next().unwrap());
        assert_eq!(
            numbers(said.map(str::to_owned).collect()),
            expected,
            "{ended:?}"
        );
        let listed = ps_json(&stage.sandbox);
        let listed = listed
            .iter()
            .map(|job| job["command"].as_str().unwrap().to_owned());
        assert_eq!(numbers(listed.collect()), expected, "{shell}");
        let last = stage.sandbox.agent_sh(["show", "last", "--json"]).text();
        assert!(last.contains(" 8\""), "{last}");
        stage.gate.release(8);
        wait_for_records(&stage.sandbox, 8);
    });
}

/// On its way to a job the shell's copy sends its streams elsewhere for a step or two, and stays there for
/// a while here, when the call is about to return.
#[test]
fn a_copy_of_the_shell_is_not_taken_at_its_word() {
    if !stands_in() {
        return;
    }
    let streams = [Streams::Truncated, Streams::Screen, Streams::Pipe];
    in_parallel(&streams.repeat(3), |_, _, &streams| {
        let stage = Stage::new();
        let text = format!("{} &", stage.worker);
        let call = stage.slowed("?dup2,?dup3:delay_exit=50000", &text);
        let running = call.streams(streams).start();
        stage.workers(1);
        stage.gate.release(1);
        let job = &wait_for_records(&stage.sandbox, 1)[0].job;
        drop(running.returned());
        let logs = stage.sandbox.agent_sh(["logs", job]).text();
        assert!(logs.contains("speaks"), "{streams:?}: {logs}");
    });
}

/// The redirection stands inside the list: the file shows once the program runs.
#[test]
fn a_file_named_inside_a_list() {
    if !stands_in() {
        return;
    }
    let texts = [
        "cd sub && {worker} > \"a$((1 + 1)).log\" &",
        "{ cd sub; {worker} 2>&1 >> a2.log; } &",
        "(cd sub && {worker} > a2.log) &",
    ];
    let mut cases = Vec::new();
    for shell in ["bash", "dash", "zsh"] {
        cases.extend(texts.map(|text| (shell, text)));
    }
    in_parallel(&cases, |_, _, &(shell, text)| {
        let stage = Stage::new();
        let sub = stage.sandbox.work().join("sub");
        fs::create_dir(&sub).unwrap();
        let call = stage
            .sandbox
            .call(shell)
            .c(text.replace("{worker}", &stage.worker));
        assert!(call.run().succeeded(), "{shell}: {text}");
        stage.workers(1);
        let file = sub.join("a2.log");
        wait_until("the record names the file", || {
            let jobs = ps_json(&stage.sandbox);
            jobs.len() == 1 && jobs[0]["redirected_to"] == file.to_str().unwrap()
        });
        let id = ps_json(&stage.sandbox)[0]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let logs = stage.sandbox.agent_sh(["logs", &id]);
        assert!(logs.text().contains("speaks"), "{logs:?}");
        stage.gate.release(1);
        let records = wait_for_records(&stage.sandbox, 1);
        assert_eq!(
            records[0].data("redirected_to"),
            file.to_str().unwrap(),
            "{text}"
        );
    });
}

/// Nothing of the caller's but what is asked for goes to a job of `run`.
#[test]
fn a_job_of_run_inherits_no_descriptor() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let own = stage.sandbox.link("agent-sh");
    let text = format!(
        "exec 5<&0 9>held; {} run --wait -- sh -c 'ls /proc/$$/fd'",
        own.display()
    );
    let ended = stage.sandbox.real_call("bash").c(text).run();
    let open: Vec<String> = ended.text().split_whitespace().map(str::to_owned).collect();
    assert_eq!(open, ["0", "1", "2"], "{ended:?}");
    wait_for_records(&stage.sandbox, 1);
}

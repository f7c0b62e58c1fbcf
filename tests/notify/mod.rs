//! Telling others: every subscriber hears of every end, once, whatever is killed in between.

/// Programs as sinks: that hang, fork, fail, or should not be run.
mod hooks;
/// What patterns are held against.
mod matching;
/// Events, subscribers, and notifiers that are killed at random.
/// Ends that the next command tells.
mod next_command;
mod outbox;
mod server;
/// `wait --notify`, `--follow`, and who was told already.
mod waiting;
/// Lines that match, while a job runs.
mod watching;
/// Webhooks: servers of every mood.
mod web;
/// Webhooks in words, traces, collectors.
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Ended, Sandbox, wait_until};

/// Runs a verb that must succeed, and gives its stdout.
#[track_caller]
fn verb<const N: usize>(sandbox: &Sandbox, args: [&str; N]) -> String {
    let ended = sandbox.agent_sh(args);
    assert!(ended.succeeded(), "{args:?}: {ended:?}");
    ended.text()
}

/// A directory sink and its path.
fn dir_sink(sandbox: &Sandbox) -> (String, PathBuf) {
    let path = sandbox.path("events");
    (format!("dir:{}", path.display()), path)
}

/// The events that are in a directory sink, by id.
fn events(dir: &Path) -> Vec<Value> {
    let mut names: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.file_name().unwrap().to_str().unwrap().starts_with('.'))
        .collect();
    names.sort();
    let read = |path: &PathBuf| -> Value {
        let event: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(name, format!("{}.json", event["id"].as_str().unwrap()));
        event
    };
    names.iter().map(read).collect()
}

/// Waits for so many events, and gives them.
#[track_caller]
fn wait_for_events(dir: &Path, count: usize) -> Vec<Value> {
    wait_until(&format!("{count} events are there"), || {
        events(dir).len() >= count
    });
    let found = events(dir);
    assert_eq!(found.len(), count, "{found:#?}");
    found
}

/// The object of `notify list --json` for one subscriber.
fn listed(sandbox: &Sandbox, name: &str) -> Value {
    let all: Value = serde_json::from_str(&verb(sandbox, ["notify", "list", "--json"])).unwrap();
    let mut all = all.as_array().unwrap().iter();
    let found = all.find(|sub| sub["name"] == name);
    found.unwrap_or_else(|| panic!("no '{name}'")).clone()
}

fn count(sub: &Value, state: &str) -> usize {
    sub[state].as_array().unwrap().len()
}

/// Starts a job that exits at once with `code`, after its call has returned, and gives its id.
fn finished_job(sandbox: &Sandbox, code: i32) -> String {
    let started = sandbox.agent_sh(["run", "--", "sh", "-c", &format!("echo said; exit {code}")]);
    assert!(started.succeeded(), "{started:?}");
    let id = started.text().trim().to_owned();
    let ended = sandbox.call("agent-sh").args(["wait", &id]).run();
    assert!(!ended.text().is_empty(), "{ended:?}");
    id
}

/// Standing subscriptions: no waiter is alive when the job ends.
#[test]
fn a_supervisor_tells_by_itself() {
    if !crate::support::stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let (sink, dir) = dir_sink(&sandbox);
    let name = verb(&sandbox, ["notify", "add", &sink]).trim().to_owned();
    let failing = format!("dir:{}", sandbox.path("failing").display());
    verb(
        &sandbox,
        [
            "notify", "add", &failing, "--as", "failing", "--on", "failure",
        ],
    );
    let other = format!("dir:{}", sandbox.path("other").display());
    verb(
        &sandbox,
        [
            "notify",
            "add",
            &other,
            "--as",
            "other",
            "--session",
            "nobody",
        ],
    );
    let gate = sandbox.gate();
    let text = format!(
        "(read x < {0}; echo good) & (read x < {0}; echo bad; exit 3) &",
        gate.path()
    );
    assert!(sandbox.call("bash").c(text).run().succeeded());
    assert!(events(&dir).is_empty());
    gate.release(2);
    let told = wait_for_events(&dir, 2);
    for event in &told {
        let job = event["subject"].as_str().unwrap();
        let shown: Value = serde_json::from_str(&verb(&sandbox, ["show", job, "--json"])).unwrap();
        assert_eq!(*event, shown, "the event is the record");
        let said = event["data"]["untrusted_output_tail"].as_str().unwrap();
        let wanted = if event["data"]["exit_code"] == 0 {
            "good\n"
        } else {
            "bad\n"
        };
        assert_eq!(said, wanted);
    }
    let failed = wait_for_events(&sandbox.path("failing"), 1);
    assert_eq!(failed[0]["data"]["exit_code"], 3);
    wait_until("the markers are there", || {
        count(&listed(&sandbox, &name), "delivered") == 2
    });
    assert!(
        events(&sandbox.path("other")).is_empty(),
        "another session's jobs"
    );
    // Nothing is left: no process, no temporary file, and no marker once the subscription goes.
    verb(&sandbox, ["notify", "remove", &name]);
    verb(&sandbox, ["notify", "remove", "failing"]);
    verb(&sandbox, ["notify", "remove", "other"]);
    sandbox.assert_no_survivors();
    assert_eq!(
        fs::read_dir(sandbox.state().join("v1/subs"))
            .unwrap()
            .count(),
        0
    );
    assert_eq!(
        fs::read_dir(&dir).unwrap().count(),
        2,
        "no temporary file is left"
    );
}

/// What ended before its call returned is no news; it has its record.
#[test]
fn what_the_call_saw_is_no_news() {
    if !crate::support::stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let (sink, dir) = dir_sink(&sandbox);
    verb(&sandbox, ["notify", "add", &sink, "--as", "d"]);
    let mark = sandbox.path("mark");
    let text = format!(
        "(exit 4) & while ! grep -q exited {}/v1/jobs/*/exit.json 2>/dev/null; do :; done; touch {}",
        sandbox.state().display(),
        mark.display()
    );
    assert!(sandbox.call("bash").c(text).run().succeeded());
    assert!(mark.exists());
    let later = finished_job(&sandbox, 0);
    let told = wait_for_events(&dir, 1);
    assert_eq!(told[0]["subject"], later.as_str());
    let records = crate::support::records(&sandbox);
    let seen = records
        .iter()
        .find(|record| record.exit_code() == Some(4))
        .unwrap();
    assert_eq!(seen.data("during_call"), true, "{:#}", seen.event);
    let d = listed(&sandbox, "d");
    assert_eq!((count(&d, "pending"), count(&d, "dead")), (0, 0));
}

/// The setting is a subscription for the jobs of whoever has it.
#[test]
fn the_setting_names_sinks_for_its_own_jobs() {
    if !crate::support::stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let (sink, dir) = dir_sink(&sandbox);
    let without = finished_job(&sandbox, 0);
    let call = sandbox
        .call("agent-sh")
        .args(["run", "--", "sh", "-c", "exit 5"]);
    let started = call.env("AGENT_SH_NOTIFY", &sink).run();
    let with = started.text().trim().to_owned();
    let told = wait_for_events(&dir, 1);
    assert_eq!(told[0]["subject"], with.as_str());
    finished_job(&sandbox, 0);
    sandbox.assert_no_survivors();
    assert_eq!(events(&dir).len(), 1, "and not {without}");
}

#[track_caller]
fn refused(ended: &Ended, code: i32, words: &str) {
    assert_eq!(
        ended.status,
        crate::support::Status::Exited(code),
        "{ended:?}"
    );
    assert!(ended.errors().contains(words), "{ended:?}");
}

#[test]
fn mistakes_are_explained() {
    if !crate::support::stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let add = |sink: &str| sandbox.agent_sh(["notify", "add", sink]);
    refused(
        &add("nonsense"),
        2,
        "no sink 'nonsense': a sink is exec:/PROGRAM",
    );
    refused(&add("dir:relative"), 2, "needs an absolute path");
    for name in ["..", ".", ".hidden", "-x", "a/b", ""] {
        let named = sandbox.agent_sh(["notify", "add", "auto", &format!("--as={name}")]);
        refused(&named, 2, "name");
    }
    refused(&add("stdout"), 2, "wait --follow");
    refused(&add("http://example.com/"), 2, "is not encrypted");
    refused(
        &add("https://me:hunter2@example.com/"),
        2,
        "user or password",
    );
    assert!(
        !add("https://me:hunter2@example.com/")
            .errors()
            .contains("hunter2")
    );
    refused(&add("exec:/nonexistent"), 125, "no such file");
    refused(
        &sandbox.agent_sh(["notify", "remove", "x"]),
        125,
        "no subscription 'x'",
    );
    refused(
        &sandbox.agent_sh(["notify", "test", "x"]),
        125,
        "notify list",
    );
    let (sink, _) = dir_sink(&sandbox);
    verb(&sandbox, ["notify", "add", &sink, "--as", "d"]);
    let again = sandbox.agent_sh(["notify", "add", &sink, "--as", "d"]);
    refused(&again, 125, "there is a subscription 'd' already");
    let pattern = sandbox.agent_sh(["notify", "add", &sink, "--as", "e", "--on-output", "("]);
    refused(&pattern, 2, "unclosed group");
    assert_eq!(verb(&sandbox, ["notify", "list"]).lines().count(), 2);
}

/// Two stores whose jobs have the same id, told to one directory: neither event is lost.
#[test]
fn stores_that_share_a_directory_do_not_swallow_each_other() {
    if !crate::support::stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let shared = sandbox.path("shared");
    let sink = format!("dir:{}", shared.display());
    let state = |name: &str| sandbox.path(name);
    let call = |name: &str, words: &[&str]| {
        let call = sandbox.call("agent-sh").args(words);
        call.env("AGENT_SH_STATE", state(name)).run()
    };
    let started = call("one", &["run", "--wait", "--", "sh", "-c", "exit 3"]);
    assert_eq!(started.status, crate::support::Status::Exited(3));
    // The second store comes to have a job of the same id.
    let jobs = state("one").join("v1/jobs");
    let id = fs::read_dir(&jobs)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .file_name();
    let id = id.to_str().unwrap().to_owned();
    let ran = call("two", &["run", "--wait", "--", "sh", "-c", "exit 4"]);
    assert_eq!(ran.status, crate::support::Status::Exited(4));
    // Its supervisor clears up before it leaves, and must not find half a record.
    sandbox.assert_no_survivors();
    let jobs = state("two").join("v1/jobs");
    let other = fs::read_dir(&jobs).unwrap().next().unwrap().unwrap();
    for name in ["run.json", "exit.json"] {
        let path = other.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        let old = other.file_name().to_str().unwrap().to_owned();
        fs::write(&path, text.replace(&old, &id)).unwrap();
    }
    fs::rename(other.path(), jobs.join(&id)).unwrap();
    for name in ["one", "two", "one"] {
        let waited = call(name, &["wait", &id, "--notify", &sink]);
        assert!(!waited.text().is_empty(), "{waited:?}");
    }
    let mut codes = Vec::new();
    let mut sources = std::collections::HashSet::new();
    for entry in fs::read_dir(&shared).unwrap() {
        let event: Value =
            serde_json::from_slice(&fs::read(entry.unwrap().path()).unwrap()).unwrap();
        assert_eq!(event["id"], format!("{id}.exit"));
        codes.push(event["data"]["exit_code"].as_i64().unwrap());
        sources.insert(event["source"].as_str().unwrap().to_owned());
    }
    codes.sort_unstable();
    assert_eq!((codes, sources.len()), (vec![3, 4], 2), "{sources:?}");
    assert!(shared.join(format!("{id}.exit.json")).exists());
}

/// The source of every event names the store; a job that was removed does not give its id away.
#[test]
fn source_and_id_together_never_recur() {
    if !crate::support::stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let (sink, dir) = dir_sink(&sandbox);
    verb(&sandbox, ["notify", "add", &sink]);
    let mut ids = std::collections::HashSet::new();
    for _ in 0..12 {
        let job = finished_job(&sandbox, 0);
        assert!(ids.insert(job.clone()), "{job} came twice");
        assert!((1..=8).contains(&job.len()), "{job}");
        wait_until("it was told", || {
            dir.join(format!("{job}.exit.json")).exists()
        });
        wait_until("it can be removed", || {
            verb(&sandbox, ["gc", "--keep", "0"]).contains("removed 1 job")
        });
    }
    let machine = events(&dir)[0]["source"].as_str().unwrap().to_owned();
    let parts: Vec<&str> = machine.split(':').collect();
    let uid = nix::unistd::geteuid().to_string();
    assert_eq!(
        (parts.len(), parts[1], parts[3]),
        (5, "agent-sh", uid.as_str())
    );
    assert!(parts[4].len() >= 16, "{machine}");
    assert!(events(&dir).iter().all(|event| event["source"] == machine));
    let other = Sandbox::new();
    finished_job(&other, 0);
    let listed = verb(&other, ["events"]);
    assert!(!listed.contains(parts[4]) && listed.contains("\"source\":\"urn:agent-sh:"));
}

/// Two subscriptions that watch one job tell different things, under different ids.
#[test]
fn notices_of_output_have_ids_of_their_own() {
    if !crate::support::stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let (sink, dir) = dir_sink(&sandbox);
    for (name, pattern) in [("a", "apple"), ("b", "pear")] {
        let add = ["notify", "add", &sink, "--as", name, "--on-output", pattern];
        verb(&sandbox, add);
    }
    let gate = sandbox.gate();
    let text = format!("echo apple; echo pear; read x < {}", gate.path());
    let started = sandbox.agent_sh(["run", "--", "sh", "-c", &text]);
    let id = started.text().trim().to_owned();
    let told = wait_for_events(&dir, 2);
    let mut said: Vec<&str> = told
        .iter()
        .map(|event| {
            event["data"]["untrusted_output_tail"]
                .as_str()
                .unwrap()
                .trim()
        })
        .collect();
    said.sort_unstable();
    assert_eq!(said, ["apple", "pear"]);
    let mut names: Vec<&str> = told
        .iter()
        .map(|event| event["id"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, [format!("{id}.output.1"), format!("{id}.output.2")]);
    gate.release(1);
    wait_for_events(&dir, 3);
}

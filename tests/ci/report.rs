//! What is reported, where to, and the exit codes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use nix::sys::signal::Signal;

use crate::support::{Ended, Sandbox, Status, has, ps_json, signal, wait_until};

const GITHUB: [(&str, &str); 4] = [
    ("GITHUB_RUN_ID", "17"),
    ("GITHUB_JOB", "test"),
    ("GITHUB_RUN_ATTEMPT", "2"),
    ("RUNNER_NAME", "linux 3"),
];

/// A verb within this build.
fn in_build(sandbox: &Sandbox, args: &[&str]) -> Ended {
    let call = sandbox.call("agent-sh").args(args);
    let call = GITHUB
        .iter()
        .fold(call, |call, (name, value)| call.env(*name, *value));
    call.run()
}

/// A job of this build that has ended; its id.
fn ended(sandbox: &Sandbox, script: &str) -> String {
    let ran = in_build(sandbox, &["run", "--", "sh", "-c", script]);
    assert!(ran.succeeded(), "{ran:?}");
    let id = ran.text().trim().to_owned();
    in_build(sandbox, &["wait", &id]);
    id
}

fn running(sandbox: &Sandbox) -> String {
    let ran = in_build(sandbox, &["run", "--", "sleep", "600"]);
    assert!(ran.succeeded(), "{ran:?}");
    ran.text().trim().to_owned()
}

fn code(sandbox: &Sandbox, fail_on: &str) -> i32 {
    let ended = in_build(sandbox, &["ci", "report", "--fail-on", fail_on]);
    match ended.status {
        Status::Exited(code) => code,
        Status::Signaled(_) => panic!("{ended:?}"),
    }
}

#[test]
fn exit_codes_follow_the_policy() {
    let sandbox = Sandbox::new();
    let codes = |wanted: [i32; 4]| {
        let found = ["failed", "running", "any", "none"].map(|fail_on| code(&sandbox, fail_on));
        assert_eq!(found, wanted);
    };
    codes([0, 0, 0, 0]);
    ended(&sandbox, "exit 0");
    codes([0, 0, 0, 0]);
    let alive = running(&sandbox);
    codes([0, 1, 1, 0]);
    ended(&sandbox, "exit 3");
    codes([1, 1, 1, 0]);
    assert!(in_build(&sandbox, &["kill", &alive]).succeeded());
    codes([1, 0, 1, 0]);
    // `failed` is what counts unless something else is asked for.
    let plain = in_build(&sandbox, &["ci", "report"]);
    assert_eq!(plain.status, Status::Exited(1), "{plain:?}");
    let wrong = in_build(&sandbox, &["ci", "report", "--fail-on", "nothing"]);
    assert_eq!(wrong.status, Status::Exited(2), "{wrong:?}");
}

#[test]
fn a_signal_and_a_loss_are_failures() {
    let sandbox = Sandbox::new();
    ended(&sandbox, "kill -KILL $$");
    assert_eq!(code(&sandbox, "failed"), 1);
    let sandbox = Sandbox::new();
    let id = running(&sandbox);
    // Supervisor and job end, and are gone before anybody looks.
    let pid = ps_json(&sandbox)[0]["pid"].as_i64().unwrap();
    let job = i32::try_from(pid).unwrap();
    for pid in sandbox.supervisors().into_iter().chain([job]) {
        signal(pid, Signal::SIGKILL);
        let dir = format!("/proc/{pid}");
        wait_until("it is gone", || !Path::new(&dir).exists());
    }
    let report = in_build(&sandbox, &["ci", "report"]);
    assert_eq!(report.status, Status::Exited(1), "{report:?}");
    assert!(
        report.text().contains(&format!("Job {id} is lost")),
        "{report:?}"
    );
}

#[test]
fn jobs_of_this_build_are_reported() {
    let sandbox = Sandbox::new();
    let ours = ended(&sandbox, "exit 3");
    let theirs = sandbox.agent_sh(["run", "--session", "gitlab-9", "--", "false"]);
    let theirs = theirs.text().trim().to_owned();
    sandbox.agent_sh(["wait", &theirs]);
    let row = |id: &str| {
        let rows = ps_json(&sandbox);
        rows.into_iter().find(|row| row["id"] == id).unwrap()
    };
    assert_eq!(row(&ours)["session"], "github-17-test-2-linux 3");
    let has = |ended: &Ended| [&ours, &theirs].map(|id| ended.text().contains(id.as_str()));
    let report = in_build(&sandbox, &["ci", "report"]);
    assert_eq!(has(&report), [true, false], "{report:?}");
    let report = in_build(&sandbox, &["ci", "report", "--session", "gitlab-9"]);
    assert_eq!(has(&report), [false, true], "{report:?}");
    // Whoever has no session sees all.
    let report = sandbox.agent_sh(["ci", "report"]);
    assert_eq!(has(&report), [true, true], "{report:?}");
    assert_eq!(report.errors(), "agent-sh: 2 background jobs: 2 failed\n");
}

#[test]
fn the_summary_is_appended_and_the_others_replace() {
    let sandbox = Sandbox::new();
    let id = ended(&sandbox, "echo '::error::x'; exit 3");
    let path = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
    let (summary, step, junit) = (path("summary.md"), path("step.md"), path("junit.xml"));
    let report = |args: &[&str]| {
        let call = sandbox.call("agent-sh").args(["ci", "report"]).args(args);
        let ended = call.env("GITHUB_STEP_SUMMARY", &step).run();
        assert_eq!(ended.status, Status::Exited(1), "{ended:?}");
        ended.text()
    };
    fs::write(&summary, "before").unwrap();
    symlink(sandbox.path("real.xml"), &junit).unwrap();
    fs::write(sandbox.path("real.xml"), "before").unwrap();
    for round in 1..=2 {
        let out = report(&["--summary", &summary, "--junit", &junit, "--annotations"]);
        assert_eq!(out.lines().count(), 1, "{out}");
        assert!(out.starts_with("::error title="), "{out}");
        let text = fs::read_to_string(&summary).unwrap();
        assert!(text.starts_with("before\n"), "{text}");
        assert_eq!(text.matches(&format!("Job {id}")).count(), round, "{text}");
        let xml = fs::read_to_string(sandbox.path("real.xml")).unwrap();
        assert_eq!(xml.matches("<?xml").count(), 1, "{xml}");
        assert!(fs::symlink_metadata(&junit).unwrap().is_symlink());
    }
    assert!(!sandbox.path("step.md").exists());
    // Without a file of its own the summary goes to that of the step.
    assert_eq!(report(&[]), "");
    assert!(fs::read_to_string(&step).unwrap().contains(&id));
    report(&["--junit", &junit]);
    assert_eq!(fs::read_to_string(&step).unwrap().matches(&id).count(), 2);
    // On stdout no line of the job's is a command for the runner.
    let out = report(&["--summary", "-"]);
    assert!(out.contains("\n\\::error::x\n"), "{out}");
    let left: Vec<_> = fs::read_dir(sandbox.path("")).unwrap().collect();
    assert!(
        !left
            .iter()
            .any(|entry| entry.as_ref().unwrap().path().extension() == Some("tmp".as_ref())),
        "{left:?}"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let sandbox = Sandbox::new();
    ended(&sandbox, "exit 3");
    let nowhere = sandbox.path("no/such/dir");
    let nowhere = nowhere.to_str().unwrap();
    let junit = sandbox.path("junit.xml");
    let junit = junit.to_str().unwrap();
    for args in [
        &["--summary", nowhere, "--junit", junit, "--annotations"][..],
        &["--junit", nowhere],
        &["--junit", "/dev/full"],
        &["--summary", "/dev/full"],
    ] {
        let ended = in_build(&sandbox, &[&["ci", "report"], args].concat());
        assert_eq!(ended.status, Status::Exited(125), "{args:?}: {ended:?}");
        assert!(ended.errors().contains("cannot write '"), "{ended:?}");
    }
    // The others are written all the same.
    assert!(fs::read_to_string(junit).unwrap().contains("<failure"));
}

/// Whatever a job writes, the files can be read.
#[test]
fn hostile_output_stays_output() {
    let sandbox = Sandbox::new();
    if !has("python3") {
        return;
    }
    let job =
        "printf '```\\n# EVIL\\n<script>\\n]]>\\001\\033[31m\\377\\r\\n&\\n::error::x\\n'; exit 3";
    ended(&sandbox, job);
    let junit = sandbox.path("junit.xml");
    let report = ["ci", "report", "--annotations", "--junit"];
    let out = in_build(
        &sandbox,
        &[&report[..], &[junit.to_str().unwrap()]].concat(),
    );
    assert_eq!(out.text().lines().count(), 1, "{out:?}");
    let found = super::elements(&sandbox, &junit);
    let wanted = [
        "testsuites",
        "testsuite",
        "testcase",
        "failure",
        "system-out",
    ];
    assert_eq!(found, wanted);
    let summary = in_build(&sandbox, &["ci", "report"]).text();
    assert!(summary.contains("\n````text\n```\n# EVIL\n"), "{summary}");
}

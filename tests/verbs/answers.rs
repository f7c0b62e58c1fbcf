//! What is answered where the first guess would be wrong: which jobs are meant, what went where, and what was
//! typed by mistake.

use std::fs;

use super::{ended, running};
use crate::support::{Call, Ended, Input, Sandbox, Status, ps_json, stands_in, wait_until};

/// Starts a job that ends with this code, and waits for its end without a `wait`; its id.
fn over(sandbox: &Sandbox, session: &str, code: u8) -> String {
    let text = format!("exit {code}");
    let call = sandbox.call("agent-sh").env("AGENT_SH_SESSION", session);
    let ran = call.args(["run", "--", "sh", "-c", &text]).run();
    assert!(ran.succeeded(), "{ran:?}");
    let id = ran.text().trim().to_owned();
    wait_until("the job has ended", || {
        let jobs = ps_json(sandbox);
        jobs.iter()
            .any(|job| job["id"] == id.as_str() && job["state"] == "exited")
    });
    id
}

/// `wait` without ids means what ended before it, too, until a `wait` has told it.
#[test]
fn wait_without_ids_takes_what_ended_unreported() {
    let sandbox = Sandbox::new();
    let wait = |session: &str, args: &[&str]| -> Ended {
        let call = sandbox.call("agent-sh").env("AGENT_SH_SESSION", session);
        call.arg("wait").args(args).run()
    };
    let good = over(&sandbox, "a", 0);
    let bad = over(&sandbox, "a", 3);
    let worse = over(&sandbox, "a", 4);
    over(&sandbox, "b", 5);
    // Something that happens can only be waited for where something runs.
    assert!(wait("a", &["--for-output", "x"]).succeeded());
    let told = wait("a", &[]);
    assert_eq!(told.status, Status::Exited(3), "the first: {told:?}");
    for id in [&good, &bad, &worse] {
        assert!(told.text().contains(id.as_str()), "{told:?}");
    }
    assert_eq!(told.text().lines().count(), 3, "{told:?}");
    let again = wait("a", &[]);
    assert!(again.succeeded() && again.stdout.is_empty(), "{again:?}");
    assert!(again.errors().contains("nothing to wait for"), "{again:?}");
    // One that was told by its id is told; so is one whose starter waited for it.
    let known = over(&sandbox, "a", 6);
    assert_eq!(wait("a", &[&known]).status, Status::Exited(6));
    let call = sandbox.call("agent-sh").env("AGENT_SH_SESSION", "a");
    let ran = call
        .args(["run", "--wait", "--", "sh", "-c", "exit 7"])
        .run();
    assert_eq!(ran.status, Status::Exited(7), "{ran:?}");
    assert!(wait("a", &[]).succeeded());
    // With one that runs, in the order in which they started.
    let first = sandbox.gate();
    let text = format!("read x < {}; exit 8", first.path());
    let call = sandbox.call("agent-sh").env("AGENT_SH_SESSION", "a");
    assert!(
        call.args(["run", "--", "sh", "-c", &text])
            .run()
            .succeeded()
    );
    over(&sandbox, "a", 9);
    first.release(1);
    assert_eq!(wait("a", &[]).status, Status::Exited(8));
    // Whoever has no session means the jobs that have none.
    let none = sandbox.agent_sh(["run", "--", "sh", "-c", "exit 11"]);
    assert!(none.succeeded(), "{none:?}");
    assert_eq!(sandbox.agent_sh(["wait"]).status, Status::Exited(11));
    assert_eq!(wait("b", &["--json"]).status, Status::Exited(5));
}

/// The same for one who has the ends delivered.
#[test]
fn wait_and_notify_without_ids_takes_what_ended_unreported() {
    let sandbox = Sandbox::new();
    let id = over(&sandbox, "a", 3);
    let events = sandbox.path("events");
    let sink = format!("dir:{}", events.display());
    let wait = || {
        let call = sandbox.call("agent-sh").env("AGENT_SH_SESSION", "a");
        call.args(["wait", "--notify", &sink]).run()
    };
    assert_eq!(wait().status, Status::Exited(3));
    assert!(events.join(format!("{id}.exit.json")).exists());
    assert!(wait().succeeded(), "told twice");
}

/// A name means its newest running job, else its newest.
#[test]
fn a_name_means_the_job_that_runs() {
    let sandbox = Sandbox::new();
    let live = running(&sandbox, &["--name", "web"]);
    let ran = sandbox.agent_sh(["run", "--name", "web", "--wait", "--", "true"]);
    assert!(ran.succeeded(), "{ran:?}");
    let shown = sandbox.agent_sh(["show", "web", "--json"]);
    assert!(shown.text().contains(&live), "{shown:?}");
    let killed = sandbox.agent_sh(["kill", "web", "--grace", "60s"]);
    assert!(killed.succeeded(), "{killed:?}");
    assert!(
        killed.text().contains(&live) || killed.errors().contains(&live),
        "{killed:?}"
    );
    // None runs: the newest. A beginning of an id is no name.
    let newest = sandbox.agent_sh(["show", "web", "--json"]);
    assert!(!newest.text().contains(&live), "{newest:?}");
    let two = [
        running(&sandbox, &["--name", "web"]),
        running(&sandbox, &["--name", "web"]),
    ];
    let shown = sandbox.agent_sh(["show", "web", "--json"]);
    assert!(shown.text().contains(&two[1]), "{shown:?}");
    for id in two {
        assert!(sandbox.agent_sh(["kill", &id]).succeeded());
    }
}

/// Whoever starts a job learns its id, on whichever stream there is.
#[test]
fn a_job_whose_id_cannot_be_printed() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let full = |args: &str| {
        let line = format!("{} {args} > /dev/full", sandbox.link("agent-sh").display());
        sandbox.real_call("bash").c(line).run()
    };
    let closed = |args: &[&str]| sandbox.call("agent-sh").args(args).closed(1).run();
    let gone = |args: &str| {
        let line = format!(
            "set -o pipefail; {{ read x < started; {} {args}; }} | : > started",
            sandbox.link("agent-sh").display()
        );
        sandbox
            .real_call("bash")
            .c(format!("mkfifo started; {line}"))
            .run()
    };
    let all = [
        full("run -- true"),
        full("run --json -- true"),
        closed(&["run", "--", "true"]),
        gone("run -- true"),
    ];
    let jobs = ps_json(&sandbox);
    assert_eq!(jobs.len(), all.len());
    // In the order in which they started.
    for (told, job) in all.iter().zip(&jobs) {
        assert_eq!(told.status, Status::Exited(125), "{told:?}");
        let id = job["id"].as_str().unwrap();
        assert!(told.errors().contains(id), "'{id}' is missing in {told:?}");
        assert!(told.errors().contains("cannot write to stdout"), "{told:?}");
    }
    // Data that nobody gets is a failure for every verb.
    for told in [full("ps"), closed(&["ps"]), closed(&["--version"])] {
        assert_eq!(told.status, Status::Exited(125), "{told:?}");
    }
}

/// `run --wait` stands where the command would, with its stdin.
#[test]
fn stdin_of_one_that_is_waited_for() {
    let sandbox = Sandbox::new();
    let run = |input: Input, args: &[&str]| -> Ended {
        let call = sandbox.call("agent-sh").arg("run").args(args);
        call.args(["--", "sh", "-c", "cat; echo end"])
            .input(input)
            .run()
    };
    let told = run(Input::Text(b"a\nb\n".to_vec()), &["--wait"]);
    assert_eq!(told.text().replace('\r', ""), "a\nb\nend\n", "{told:?}");
    let file = sandbox.path("input");
    fs::write(&file, "of a file\n").unwrap();
    let told = run(Input::File(file.clone()), &["--wait"]);
    assert_eq!(
        told.text().replace('\r', ""),
        "of a file\nend\n",
        "{told:?}"
    );
    let told = run(Input::Null, &["--wait"]);
    assert_eq!(told.text().replace('\r', ""), "end\n", "{told:?}");
    // Nobody waits: a job's stdin is empty, and the caller's next reader finds everything.
    let line = format!(
        "{{ {} run --name late -- cat; cat; }} < {}",
        sandbox.link("agent-sh").display(),
        file.display()
    );
    let told = sandbox.real_call("bash").c(line).run();
    assert!(told.text().ends_with("of a file\n"), "{told:?}");
    assert!(sandbox.agent_sh(["wait", "late"]).succeeded());
    assert!(sandbox.agent_sh(["logs", "late"]).stdout.is_empty());
}

/// A setting of a newer version, or a misspelt one: it is said, and everything works.
#[test]
fn a_setting_that_nobody_knows() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("home/.config/agent-sh");
    fs::create_dir_all(&dir).unwrap();
    fs::write(
        dir.join("config.toml"),
        "anounce = 1\nkeep = \"3d\"\nfrobnicate = [1]\n",
    )
    .unwrap();
    let id = ended(&sandbox, 0);
    let ps = sandbox.agent_sh(["ps", "-q"]);
    assert!(ps.succeeded() && ps.text().trim() == id, "{ps:?}");
    for words in [
        "anounce='1'",
        "did you mean 'announce'?",
        "frobnicate",
        "config.toml",
    ] {
        assert!(ps.errors().contains(words), "{ps:?}");
    }
    // A value that is wrong is another matter.
    fs::write(dir.join("config.toml"), "anounce = 1\nkeep = \"soon\"\n").unwrap();
    let ps = sandbox.agent_sh(["ps"]);
    assert_eq!(ps.status, Status::Exited(125), "{ps:?}");
    assert!(ps.errors().contains("keep='soon'"), "{ps:?}");
}

/// A path is a script, as for the real shell, which says what is wrong with it.
#[test]
fn a_script_that_is_not_there() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.work().join("dir")).unwrap();
    for script in ["./nope.sh", "/no/such/script", "dir/", "./dir"] {
        let run = |call: Call<'_>| call.args([script, "x"]).run();
        let native = run(sandbox.real_call("bash"));
        let ours = run(sandbox.call("agent-sh"));
        assert_eq!(ours.status, native.status, "{script}: {ours:?}");
        assert!(
            ours.errors().contains(script.trim_end_matches('/')),
            "{ours:?}"
        );
    }
}

/// Words of other tools, with more words behind them.
#[test]
fn other_words_for_verbs() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    for (words, verb) in [
        (&["stop", "bad"][..], "kill"),
        (&["tail", "x"], "logs"),
        (&["start", "--", "true"], "run"),
        (&["list", "--all"], "ps"),
        (&["inspect", "x"], "show"),
        (&["lgos", "x"], "logs"),
    ] {
        let told = sandbox.call("agent-sh").args(words).run();
        assert_eq!(told.status, Status::Exited(2), "{told:?}");
        assert!(
            told.errors().contains(&format!("did you mean '{verb}'?")),
            "{told:?}"
        );
    }
}

#[test]
fn numbers_that_are_too_large() {
    let sandbox = Sandbox::new();
    let twenty = "99999999999999999999";
    for words in [
        &["wait", "x", "--timeout", twenty][..],
        &["wait", "x", "--timeout", "99999999999999999999s"],
        &["wait", "x", "--timeout", "200y"],
        &["run", "--timeout", twenty, "--", "true"],
        &["logs", "x", "-n", twenty],
        &["gc", "--max-bytes", twenty],
        &["gc", "--max-bytes", "99999999999999999999G"],
    ] {
        let told = sandbox.call("agent-sh").args(words).run();
        assert_eq!(told.status, Status::Exited(2), "{told:?}");
        assert!(told.errors().contains("too large"), "{words:?}: {told:?}");
    }
}

/// What somebody typed or pasted does not fill the screen.
#[test]
fn long_names_are_cut() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(5000);
    let option = format!("--{long}");
    for words in [
        &["run", "--name", &long, "--", "true"][..],
        &[&long, "x"],
        &["kill", &long],
        &["show", &option],
        &["run", &option, "--", "true"],
        &["ps", "--state", &long],
        &["notify", &long],
        &["notify", "remove", &long],
        &["notify", "add", &long],
        &["kill", "-s", &long, "x"],
        &["events", "--since", &long],
        &["run", "--", &long],
    ] {
        let told = sandbox.call("agent-sh").args(words).run();
        assert!(!told.succeeded(), "{told:?}");
        let said = told.errors();
        assert!(
            said.contains("xxxx") && said.len() < 600,
            "{}: {told:?}",
            said.len()
        );
    }
}

/// A record says that something was taken out of a command only where something was.
#[test]
fn redacted_means_that_something_was() {
    let sandbox = Sandbox::new();
    for (command, redacted) in [("true", false), ("TOKEN=abc true", true)] {
        let ran = sandbox.agent_sh(["run", "--name", "x", "--wait", "--", "sh", "-c", command]);
        assert!(ran.succeeded(), "{ran:?}");
        let shown = sandbox.agent_sh(["show", "x", "--json"]);
        let record: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
        assert_eq!(record["data"]["command"]["redacted"], redacted, "{command}");
    }
}

//! Two streams: their order, files of their own, terminals that keep nothing.

use serde_json::Value;

use super::{sandbox, text_of};
use crate::support::{Sandbox, Streams, job_dirs, ps_json, wait_for_records, wait_until};

/// The one job that runs or ran.
#[track_caller]
fn only(sandbox: &Sandbox) -> Value {
    let mut jobs = ps_json(sandbox);
    assert_eq!(jobs.len(), 1, "{jobs:#?}");
    jobs.remove(0)
}

/// What is told apart for the call is one text in the transcript, in the order in which it came.
#[test]
fn a_transcript_keeps_the_order_of_two_streams() {
    let Some(sandbox) = sandbox() else { return };
    let (gate, end) = (sandbox.gate(), sandbox.gate());
    let path = gate.path();
    let text = format!(
        "sh -c 'for i in 1 2 3; do echo out $i; read -r x < {path}; echo err $i >&2; read -r x < {path}; done' & \
         read -r x < {}",
        end.path()
    );
    for streams in [
        Streams::Pipe,
        Streams::Socket,
        Streams::Truncated,
        Streams::Appended,
    ] {
        let running = sandbox.call("bash").c(&text).streams(streams).start();
        let dirs = || job_dirs(&sandbox);
        wait_until("the job is published", || dirs().len() == 1);
        let transcript = dirs().remove(0).join("out");
        let mut expected = String::new();
        for line in ["out 1", "err 1", "out 2", "err 2", "out 3", "err 3"] {
            expected += line;
            expected.push('\n');
            wait_until(line, || {
                std::fs::read_to_string(&transcript).is_ok_and(|text| text == expected)
            });
            gate.release(1);
        }
        end.release(1);
        let ended = running.finish();
        if streams == Streams::Appended {
            assert_eq!(ended.text(), expected);
        } else {
            assert_eq!(ended.text(), "out 1\nout 2\nout 3\n", "{streams:?}");
            assert_eq!(ended.errors(), "err 1\nerr 2\nerr 3\n", "{streams:?}");
        }
        wait_for_records(&sandbox, 1);
        let shown = sandbox.agent_sh(["logs", "last"]);
        assert_eq!(text_of(&shown), expected, "{streams:?}");
        std::fs::remove_dir_all(sandbox.state()).unwrap();
    }
}

/// Both streams of a job are terminals, also where they are told apart.
#[test]
fn both_streams_are_terminals() {
    let Some(sandbox) = sandbox() else { return };
    let text = "sh -c 'test -t 1 && test -t 2 && echo both; : > done' & until [ -e done ]; do sleep 0.01; done";
    let ended = sandbox.call("bash").c(text).run();
    assert_eq!(ended.text(), "both\n", "{ended:?}");
    let piped = sandbox.call("bash").env("AGENT_SH_CAPTURE", "pipe");
    std::fs::remove_file(sandbox.work().join("done")).unwrap();
    let ended = piped
        .c(text.replace("&& echo both", "|| echo neither >&2"))
        .run();
    assert_eq!(
        (ended.text(), ended.errors()),
        (String::new(), "neither\n".to_owned())
    );
    sandbox.assert_no_survivors();
}

/// What stays of a job that has ended gets its terminal: what it writes from then on is kept too.
#[test]
fn what_a_job_left_goes_on_writing() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let fork = "import os; os.fork() and os._exit(0); os.execvp(\"sh\", [\"sh\", \"-c\", \"{}\"])";
    let write = "read -r x < {}; echo late; echo late error >&2; read -r x < {}; exit 3";
    let fork = fork.replace("{}", &write.replace("{}", gate.path()));
    let text = format!("python3 -c '{fork}' &");
    let ended = sandbox.call("bash").c(text).run();
    assert!(ended.succeeded(), "{ended:?}");
    let stray = || {
        ps_json(&sandbox)
            .into_iter()
            .find(|job| job["how"] == "stray")
    };
    wait_until("the rest is a job", || stray().is_some());
    gate.release(1);
    wait_until("it has written", || {
        stray().is_some_and(|job| job["bytes_total"] == 16)
    });
    gate.release(1);
    let records = wait_for_records(&sandbox, 2);
    let rest = records
        .iter()
        .find(|record| record.how() == "stray")
        .unwrap();
    assert_eq!(rest.exit_code(), Some(3));
    let shown = text_of(&sandbox.agent_sh(["logs", &rest.job]));
    let mut lines: Vec<&str> = shown.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["late", "late error"]);
}

/// Each stream that went to a file of its own is named, shown, and can be chosen.
#[test]
fn stderr_in_a_file_of_its_own() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let write = format!("echo result; echo trouble >&2; read -r x < {}", gate.path());
    let file = |name: &str| Value::from(sandbox.work().join(name).to_str().unwrap());
    let (out, err) = (file("out.log"), file("err.log"));
    for (form, stdout, stderr) in [
        ("sh -c '{}' > out.log 2> err.log &", &out, &err),
        ("nohup sh -c '{}' > out.log 2> err.log &", &out, &err),
        ("{ {}; } > out.log 2> err.log &", &out, &err),
        ("(cd . && sh -c '{}' > out.log 2> err.log) &", &out, &err),
        ("cd . && sh -c '{}' > out.log 2> err.log &", &out, &err),
        ("sh -c '{}' 2> err.log &", &Value::Null, &err),
        ("cd . && sh -c '{}' 2> err.log &", &Value::Null, &err),
        (
            "python3 -c 'import os; os.fork() and os._exit(0); os.execvp(\"sh\", [\"sh\", \"-c\", \"{}\"])' > out.log 2> err.log",
            &out,
            &err,
        ),
        // One place is named once.
        ("sh -c '{}' > out.log 2>&1 &", &out, &Value::Null),
        ("cd . && sh -c '{}' > out.log 2>&1 &", &out, &Value::Null),
        ("sh -c '{}' &", &Value::Null, &Value::Null),
    ] {
        let ended = sandbox.call("bash").c(form.replace("{}", &write)).run();
        assert!(ended.succeeded(), "{form}: {ended:?}");
        let known = || {
            let job = only(&sandbox);
            (
                job["redirected_to"].clone(),
                job["redirected_stderr"].clone(),
            )
        };
        wait_until(form, || known() == (stdout.clone(), stderr.clone()));
        let id = only(&sandbox)["id"].as_str().unwrap().to_owned();
        let shown = || sandbox.agent_sh(["logs", &id]);
        wait_until("all is written", || {
            let text = shown().text();
            text.contains("result") && text.contains("trouble")
        });
        let facts: Value =
            serde_json::from_slice(&sandbox.agent_sh(["show", &id, "--json"]).stdout).unwrap();
        assert_eq!(facts["redirected_stderr"], *stderr, "{form}: {facts:#}");
        let said = shown().errors();
        for path in [stdout, stderr] {
            let Some(path) = path.as_str() else { continue };
            assert!(said.contains(path), "{form}: {said}");
            let show = sandbox.agent_sh(["show", &id]).text();
            assert!(show.contains(path), "{form}: {show}");
        }
        let chosen = sandbox.agent_sh(["logs", &id, "--stderr"]);
        assert!(chosen.text().contains("trouble"), "{form}: {chosen:?}");
        let alone = !chosen.text().contains("result");
        assert_eq!(alone, !stderr.is_null(), "{form}: {chosen:?}");
        gate.release(1);
        let records = wait_for_records(&sandbox, 1);
        assert_eq!(records[0].data("redirected_to"), stdout, "{form}");
        assert_eq!(records[0].data("redirected_stderr"), stderr, "{form}");
        assert_eq!(only(&sandbox)["redirected_stderr"], *stderr, "{form}");
        std::fs::remove_dir_all(sandbox.state()).unwrap();
    }
}

/// `wait` looks at every file that a job writes to.
#[test]
fn a_wait_for_what_stderr_says() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let text = format!(
        "sh -c 'echo ready to serve >&2; read -r x < {}' > out.log 2> err.log &",
        gate.path()
    );
    assert!(sandbox.call("bash").c(text).run().succeeded());
    let waited = sandbox.agent_sh(["wait", "last", "--for-output", "ready", "--timeout", "60s"]);
    assert!(waited.succeeded(), "{waited:?}");
    gate.release(1);
    wait_for_records(&sandbox, 1);
}

/// At a terminal, what was started behind the parser's back has the terminal itself: nothing of it is
/// kept, and `logs` says so, also when the terminal is gone.
#[test]
fn a_stray_at_a_terminal_is_explained() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let fork = "import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.fork() and os._exit(0); os.setsid(); os.execvp(\"sh\", [\"sh\", \"-c\", \"read -r x < {}\"])";
    let text = format!("python3 -c '{}'", fork.replace("{}", gate.path()));
    for streams in [Streams::Terminal, Streams::Screen] {
        let running = sandbox.call("bash").c(&text).streams(streams).start();
        let (ended, terminal) = running.returned();
        assert!(ended.succeeded(), "{ended:?}");
        let explained = || {
            let shown = sandbox.agent_sh(["logs", "last"]);
            assert!(shown.succeeded(), "{streams:?}: {shown:?}");
            assert_eq!(shown.text(), "", "{streams:?}");
            let said = shown.errors();
            assert!(
                said.contains("terminal") && said.contains("not kept"),
                "{streams:?}: {said}"
            );
        };
        wait_until("the stray is a job", || ps_json(&sandbox).len() == 1);
        explained();
        drop(terminal);
        explained();
        gate.release(1);
        wait_for_records(&sandbox, 1);
        explained();
        std::fs::remove_dir_all(sandbox.state()).unwrap();
    }
}

//! A job's text, what the announcement says, what a verb shows.

use std::io::Read;

use super::Stage;
use crate::support::{
    Status, Streams, job_records, parent_of, ps_json, records, signal, stands_in, tree,
    wait_for_records, wait_until,
};
use nix::sys::signal::Signal;

/// Short, where the program is on PATH: two rows of an ordinary terminal.
#[test]
fn the_announcement_of_a_short_command() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let links = stage.sandbox.link("bash");
    let links = links.parent().unwrap().display();
    let call = stage.sandbox.call("bash").c("sleep 1000 & echo $!");
    let ended = call
        .env("PATH", format!("/usr/bin:/bin:{links}"))
        .env("AGENT_SH_ANNOUNCE", "1")
        .run();
    let line = ended.errors();
    let line = line.trim_end();
    assert!(line.contains("Output: agent-sh logs "), "{ended:?}");
    assert!(line.chars().count() <= 160, "{}: {line}", line.len());
    signal(ended.text().trim().parse().unwrap(), Signal::SIGTERM);
}

/// One line on stderr for each job that outlives the call; none when told not to.
#[test]
fn the_announcement() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let text = format!("{0} &\n{0} & echo done", stage.worker);
    let ended = stage
        .sandbox
        .call("bash")
        .c(&text)
        .env("AGENT_SH_ANNOUNCE", "1")
        .run();
    let errors = ended.errors();
    let lines: Vec<&str> = errors
        .lines()
        .filter(|line| line.starts_with("[agent-sh] job "))
        .collect();
    assert_eq!(lines.len(), 2, "{ended:?}");
    for line in lines {
        let id = line.split(' ').nth(2).unwrap();
        for part in [
            "still running",
            "worker",
            "pid ",
            "agent-sh logs",
            "agent-sh kill",
        ] {
            assert!(line.contains(part), "no '{part}' in {line}");
        }
        assert!(
            ps_json(&stage.sandbox).iter().any(|job| job["id"] == id),
            "{line}"
        );
    }
    stage.workers(2);
    stage.gate.release(2);
    wait_for_records(&stage.sandbox, 2);
}

/// A job that ends before its call returns has its record and is no news.
#[test]
fn a_job_that_is_over_is_not_announced() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    stage.gate.release(1);
    let text = format!(
        "{} & while kill -0 $! 2>/dev/null; do :; done; echo done",
        stage.worker
    );
    let ended = stage
        .sandbox
        .call("bash")
        .c(text)
        .env("AGENT_SH_ANNOUNCE", "1")
        .run();
    assert!(
        ended.succeeded() && !ended.errors().contains("[agent-sh]"),
        "{ended:?}"
    );
    let found = wait_for_records(&stage.sandbox, 1);
    assert_eq!(found[0].exit_code(), Some(37));
}

/// While the shell lives, what its job says appears on the command's own stdout, without a terminal's line
/// ends.
#[test]
fn output_appears_while_the_shell_lives() {
    if !stands_in() {
        return;
    }
    for streams in [Streams::Pipe, Streams::Socket] {
        let stage = Stage::new();
        let hold = stage.sandbox.gate();
        let text = format!(
            "{} & read -r x < {}; echo shell ends",
            stage.worker,
            hold.path()
        );
        let running = stage.sandbox.call("bash").c(text).streams(streams).start();
        let (mut child, mut stdout) = running.into_stdout();
        let mut seen = Vec::new();
        let mut buffer = [0; 512];
        while !seen.ends_with(b"speaks\n") {
            let count = stdout.read(&mut buffer).unwrap();
            assert!(count > 0, "{streams:?}: {}", seen.escape_ascii());
            seen.extend_from_slice(&buffer[..count]);
        }
        hold.release(1);
        stdout.read_to_end(&mut seen).unwrap();
        assert!(
            seen.ends_with(b"shell ends\n") && !seen.contains(&b'\r'),
            "{streams:?}"
        );
        assert!(child.wait().unwrap().success());
        stage.gate.release(1);
        wait_for_records(&stage.sandbox, 1);
    }
}

/// A redirected stream stays redirected, and the record names its target.
#[test]
fn redirected_output_is_named() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let text = format!("nohup {} > app.log 2>&1 &", stage.worker);
    assert!(stage.sandbox.call("bash").c(text).run().succeeded());
    stage.workers(1);
    let jobs = ps_json(&stage.sandbox);
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert_eq!(
        (&jobs[0]["state"], &jobs[0]["exit_code"]),
        (&"running".into(), &().into())
    );
    stage.gate.release(1);
    let found = wait_for_records(&stage.sandbox, 1);
    let log = stage.sandbox.work().join("app.log");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("speaks") && text.contains("ends"), "{text}");
    assert!(!text.contains("nohup"), "{text}");
    assert!(!stage.sandbox.work().join("nohup.out").exists());
    let jobs = ps_json(&stage.sandbox);
    assert_eq!(
        jobs[0]["redirected_to"],
        log.to_str().unwrap(),
        "{:#}",
        found[0].event
    );
}

/// The supervisor's title hides the command from `pkill -f`, and TERM, INT and HUP do not end it.
#[test]
fn the_supervisor_is_hard_to_hit() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    assert!(
        stage
            .sandbox
            .call("bash")
            .c(format!("{} &", stage.worker))
            .run()
            .succeeded()
    );
    let worker = stage.workers(1)[0];
    let supervisor = parent_of(worker.pid).unwrap();
    assert!(supervisor > 1, "the worker has a supervisor");
    let line = std::fs::read_to_string(format!("/proc/{supervisor}/cmdline")).unwrap();
    assert!(!line.contains("worker"), "{line}");
    for number in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signal(supervisor, number);
    }
    stage.gate.release(1);
    let found = wait_for_records(&stage.sandbox, 1);
    assert_eq!(found[0].exit_code(), Some(37));
}

/// A death by a signal from a stranger is recorded as just that.
#[test]
fn a_signal_is_recorded() {
    if !stands_in() {
        return;
    }
    for number in [
        Signal::SIGTERM,
        Signal::SIGKILL,
        Signal::SIGINT,
        Signal::SIGQUIT,
    ] {
        let stage = Stage::new();
        assert!(
            stage
                .sandbox
                .call("bash")
                .c(format!("{} &", stage.worker))
                .run()
                .succeeded()
        );
        let worker = stage.workers(1)[0];
        signal(worker.pid, number);
        let found = wait_for_records(&stage.sandbox, 1);
        assert_eq!(found[0].state(), "signaled", "{:#}", found[0].event);
        assert_eq!(
            found[0].data("signal"),
            number as i32,
            "{:#}",
            found[0].event
        );
        assert_eq!(found[0].exit_code(), None);
        let waited = stage.sandbox.agent_sh(["wait", &found[0].job]);
        assert_eq!(
            waited.status,
            Status::Exited(128 + number as i32),
            "{waited:?}"
        );
    }
}

/// TERM to the front ends the foreground, and leaves a record of it; the job lives on.
#[test]
fn a_killed_foreground_leaves_a_record() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let hold = stage.sandbox.gate();
    let text = format!(
        "{} &\necho working; read -r x < {}",
        stage.worker,
        hold.path()
    );
    let running = stage.sandbox.call("bash").c(text).start();
    let worker = stage.workers(1)[0];
    signal(running.pid(), Signal::SIGTERM);
    let ended = running.finish();
    assert_eq!(ended.status, Status::Signaled(15), "{ended:?}");
    assert!(worker.lives());
    wait_until("the foreground has its record", || {
        !records(&stage.sandbox).is_empty()
    });
    let foreground = records(&stage.sandbox);
    assert_eq!(foreground[0].how(), "foreground", "{foreground:#?}");
    assert_eq!(
        (foreground[0].state(), foreground[0].data("signal").as_i64()),
        ("signaled", Some(15))
    );
    stage.gate.release(1);
    assert_eq!(wait_for_records(&stage.sandbox, 1)[0].exit_code(), Some(37));
    assert_eq!(records(&stage.sandbox).len(), 2);
}

/// When the front is killed, its foreground goes: at once if it can, after a grace if it will not.
#[test]
fn the_foreground_ends_with_its_front() {
    if !stands_in() {
        return;
    }
    for stubborn in ["", "trap '' TERM; "] {
        let stage = Stage::new();
        let text = format!("{stubborn}{}", stage.worker);
        let running = stage.sandbox.call("bash").c(text).start();
        let worker = stage.workers(1)[0];
        signal(running.pid(), Signal::SIGKILL);
        assert_eq!(running.finish().status, Status::Signaled(9));
        wait_until("the foreground is gone", || !worker.lives());
        stage.sandbox.assert_no_survivors();
        assert!(job_records(&stage.sandbox).is_empty());
    }
}

/// While a command runs, its front is one process: no child of it is left, dead or alive, for whoever looks
/// at it or kills by parents.
#[test]
fn the_front_stands_alone() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let running = stage.sandbox.call("bash").c(&stage.worker).start();
    let worker = stage.workers(1)[0];
    let front = running.pid();
    wait_until("the front has no child", || tree(front) == [front]);
    assert!(worker.lives());
    stage.gate.release(1);
    assert_eq!(running.finish().status, Status::Exited(37));
}

//! What a job has left, and has become a job of its own: `kill` ends it with the job, or names it.

use serde_json::Value;

use super::daemons::{daemon, run, script};
use crate::support::{
    Gate, Identity, Sandbox, Status, in_parallel, ps_json, real, stands_in, wait_for_records,
    wait_until,
};

/// The only job with this word in its command.
#[track_caller]
fn job(sandbox: &Sandbox, word: &str) -> Value {
    let jobs = ps_json(sandbox);
    let has = |job: &&Value| job["command"].as_str().unwrap().contains(word);
    let found: Vec<&Value> = jobs.iter().filter(has).collect();
    assert_eq!(found.len(), 1, "{word}: {jobs:#?}");
    found[0].clone()
}

fn id(job: &Value) -> String {
    job["id"].as_str().unwrap().to_owned()
}

/// A job that made a daemon while its call lasted; both are jobs when that is over.
struct Left {
    sandbox: Sandbox,
    daemon: Identity,
    maker: String,
    stray: String,
    /// Lets the maker end.
    end: Gate,
}

impl Left {
    /// `how`: what comes before the daemon's name.
    fn new(how: &str, after: &str) -> Self {
        let sandbox = Sandbox::new();
        let [hold, end] = [sandbox.gate(), sandbox.gate()];
        let program = script(&sandbox, "daemon", "", after);
        let start = format!(
            "#!/bin/sh\n({how} {} {program} &)\nread -r x < {}\nexit 6\n",
            real("setsid").display(),
            end.path()
        );
        let maker = sandbox.script("maker", &start);
        let text = format!("{maker} & read -r x < {}", hold.path());
        let running = sandbox.call("bash").c(text).start();
        let who = daemon(&sandbox, "daemon");
        hold.release(1);
        let (ended, _) = running.returned();
        assert!(ended.succeeded(), "{ended:?}");
        let jobs = ps_json(&sandbox);
        assert_eq!(jobs.len(), 2, "{jobs:#?}");
        let stray = jobs.iter().find(|job| job["how"] == "stray").unwrap();
        assert_eq!(stray["pid"], who.pid, "{stray:#}");
        let maker = jobs.iter().find(|job| job["how"] != "stray").unwrap();
        Self {
            maker: id(maker),
            stray: id(stray),
            daemon: who,
            end,
            sandbox,
        }
    }

    fn end_maker(&self) {
        self.end.release(1);
        let wait = self.sandbox.agent_sh(["wait", &self.maker]);
        assert_eq!(wait.status, Status::Exited(6), "{wait:?}");
    }
}

#[test]
fn daemons_that_were_made_during_the_call_end_with_their_job() {
    if !stands_in() {
        return;
    }
    // Whether the job has ended by itself before, and how the daemon takes TERM.
    let ways = [
        (false, "exec sleep 600", 15),
        (true, "exec sleep 600", 15),
        (false, "trap '' TERM; while :; do sleep 0.05; done", 9),
        (true, "trap '' TERM; while :; do sleep 0.05; done", 9),
    ];
    in_parallel(&ways, |_, _, &(ended, after, signal)| {
        let left = Left::new("", after);
        if ended {
            left.end_maker();
        }
        let kill = left
            .sandbox
            .agent_sh(["kill", &left.maker, "--grace", "0.5"]);
        assert!(kill.succeeded(), "{kill:?}");
        assert!(!left.daemon.lives(), "it outlived the kill: {kill:?}");
        let lines = kill.text();
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines.len(), 2, "{kill:?}");
        let first = if ended {
            "already exited with 6"
        } else {
            "was signaled (TERM)"
        };
        assert!(
            lines[0].starts_with(&format!("job {} {first}", left.maker)),
            "{kill:?}"
        );
        let name = if signal == 15 { "TERM" } else { "KILL" };
        let wanted = format!(
            "job {}, a daemon of job {}, was signaled ({name})",
            left.stray, left.maker
        );
        assert!(lines[1].starts_with(&wanted), "{kill:?}");
        let found = wait_for_records(&left.sandbox, 2);
        let record = found.iter().find(|r| r.job == left.stray).unwrap();
        assert_eq!(record.data("signal"), signal, "{record:#?}");
        assert_eq!(
            record.data("kill_requested")["by"],
            "user",
            "it is written who asked: {record:#?}"
        );
    });
}

#[test]
fn records_of_both_as_json() {
    if !stands_in() {
        return;
    }
    let left = Left::new("", "exec sleep 600");
    let kill = left.sandbox.agent_sh(["kill", "--json", &left.maker]);
    assert!(kill.succeeded(), "{kill:?}");
    let text = kill.text();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let jobs: Vec<Value> = lines.collect();
    let subjects: Vec<&str> = jobs
        .iter()
        .map(|j| j["subject"].as_str().unwrap())
        .collect();
    assert_eq!(subjects, [&left.maker, &left.stray]);
}

/// A signal that does not mean an end is for the job alone, and both named at once are killed once.
#[test]
fn not_more_than_was_asked_for() {
    if !stands_in() {
        return;
    }
    let left = Left::new("", "exec sleep 600");
    let sent = left.sandbox.agent_sh(["kill", "-CONT", &left.maker]);
    assert!(sent.succeeded() && left.daemon.lives(), "{sent:?}");
    left.end_maker();
    let sent = left.sandbox.agent_sh(["kill", "-USR1", &left.maker]);
    assert!(sent.succeeded() && left.daemon.lives(), "{sent:?}");
    let kill = left.sandbox.agent_sh(["kill", &left.stray, &left.maker]);
    assert!(kill.succeeded() && !left.daemon.lives(), "{kill:?}");
    assert_eq!(kill.text().lines().count(), 2, "{kill:?}");
    wait_for_records(&left.sandbox, 2);
}

/// One that nothing marks is not hit on a guess. It is named, with what ends it.
#[test]
fn what_lives_on_is_named() {
    if !stands_in() {
        return;
    }
    in_parallel(&[false, true], |_, _, &ended| {
        let left = Left::new("env -i", "exec sleep 600");
        if ended {
            left.end_maker();
        }
        let kill = left.sandbox.agent_sh(["kill", &left.maker]);
        assert!(kill.succeeded(), "{kill:?}");
        assert!(left.daemon.lives(), "{kill:?}");
        let said = kill.errors();
        for wanted in [
            format!("job {} (pid {}) lives on", left.stray, left.daemon.pid),
            "sleep 600".to_owned(),
            format!("hint: 'agent-sh kill {}' ends it", left.stray),
        ] {
            assert!(said.contains(&wanted), "{wanted}: {kill:?}");
        }
        let kill = left.sandbox.agent_sh(["kill", &left.stray]);
        assert!(kill.succeeded() && !left.daemon.lives(), "{kill:?}");
        assert_eq!(kill.errors(), "", "{kill:?}");
        wait_for_records(&left.sandbox, 2);
    });
}

/// The same before the supervisor had any reason to list it.
#[test]
fn what_lives_on_is_listed_first() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let program = script(&sandbox, "daemon", "", "exec sleep 600");
    let maker = run(
        &sandbox,
        &[],
        &format!("(env -i setsid {program} &); sleep 601"),
    );
    let who = daemon(&sandbox, "daemon");
    let kill = sandbox.agent_sh(["kill", &maker]);
    assert!(kill.succeeded() && who.lives(), "{kill:?}");
    let stray = id(&job(&sandbox, "sleep 600"));
    let wanted = format!("job {stray} (pid {}) lives on", who.pid);
    assert!(kill.errors().contains(&wanted), "{kill:?}");
    let kill = sandbox.agent_sh(["kill", &stray]);
    assert!(kill.succeeded() && !who.lives(), "{kill:?}");
    wait_for_records(&sandbox, 2);
}

/// What the command itself left is nobody's daemon, and neither is that of another job.
#[test]
fn others_are_neither_ended_nor_named() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let [hold, end] = [sandbox.gate(), sandbox.gate()];
    let setsid = real("setsid");
    let setsid = setsid.display();
    let start = |name: &str, seconds: u32| {
        let program = script(&sandbox, name, "", &format!("exec sleep {seconds}"));
        let text = format!(
            "#!/bin/sh\n({setsid} {program} &)\n[ $1 ] || read -r x < {}\n",
            end.path()
        );
        sandbox.script(&format!("{name}-maker"), &text)
    };
    let [mine, others, calls] = [("mine", 700), ("others", 701), ("calls", 702)]
        .map(|(name, seconds)| start(name, seconds));
    let text = format!(
        "{calls} now; {mine} & {others} & read -r x < {}",
        hold.path()
    );
    let running = sandbox.call("bash").c(text).start();
    let [mine, others, calls] = ["mine", "others", "calls"].map(|name| daemon(&sandbox, name));
    hold.release(1);
    let (ended, _) = running.returned();
    assert!(ended.succeeded(), "{ended:?}");
    let kill = sandbox.agent_sh(["kill", &id(&job(&sandbox, "mine-maker"))]);
    assert!(kill.succeeded() && !mine.lives(), "{kill:?}");
    assert!(others.lives() && calls.lives(), "{kill:?}");
    assert_eq!(kill.errors(), "", "{kill:?}");
    for word in ["others-maker", "sleep 702"] {
        let kill = sandbox.agent_sh(["kill", &id(&job(&sandbox, word))]);
        assert!(kill.succeeded(), "{kill:?}");
    }
    wait_for_records(&sandbox, 5);
}

/// The supervisor was killed: its jobs and their daemons are with init.
#[test]
fn daemons_whose_supervisor_is_gone() {
    if !stands_in() {
        return;
    }
    let left = Left::new("", "exec sleep 600");
    let supervisor = crate::support::parent_of(left.daemon.pid).unwrap();
    crate::support::signal(supervisor, nix::sys::signal::Signal::SIGKILL);
    wait_until("nobody supervises them", || {
        crate::support::parent_of(left.daemon.pid) != Some(supervisor)
    });
    let kill = left.sandbox.agent_sh(["kill", &left.maker]);
    assert!(kill.succeeded() && !left.daemon.lives(), "{kill:?}");
    left.sandbox.assert_no_survivors();
}

/// Also one that has become a job meanwhile, and ignores TERM.
#[test]
fn a_limit_means_the_daemons_too() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let hard = script(&sandbox, "hard", "trap '' TERM", "exec sleep 600");
    let brief = script(&sandbox, "brief", "", "exit 0");
    let text = format!("(setsid {hard} &); sleep 0.5; (setsid {brief} &); sleep 601");
    let maker = run(&sandbox, &["--timeout", "8"], &text);
    let who = daemon(&sandbox, "hard");
    wait_until("it is a job", || {
        ps_json(&sandbox)
            .iter()
            .any(|job| job["pid"] == who.pid && job["how"] == "stray")
    });
    let wait = sandbox.agent_sh(["wait", &maker]);
    assert_eq!(wait.status, Status::Exited(143), "{wait:?}");
    wait_until("the daemon is gone", || !who.lives());
    let found = wait_for_records(&sandbox, 3);
    let hard = found.iter().find(|r| r.data("signal") == 9);
    let hard = hard.unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!(hard.data("kill_requested")["by"], "timeout", "{hard:#?}");
}

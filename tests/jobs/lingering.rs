//! Calls that everything ends with: as PID 1 of a namespace they stay for their jobs, end them when they are told
//! to, and leave only when the records are written and the subscribers notified.

use std::fs;
use std::io::Read;

use nix::sys::signal::Signal;

use crate::support::{
    Call, Ended, Input, Record, Running, Sandbox, Status, exit_of, job_records, ps_json, signal,
    wait_until,
};

/// With a subscription: a file for each event.
fn sandbox() -> Option<Sandbox> {
    let sandbox = Sandbox::with_namespaces()?;
    let sink = format!("dir:{}", sandbox.path("told").display());
    let added = sandbox.agent_sh(["notify", "add", &sink]);
    assert!(added.succeeded(), "{added:?}");
    Some(sandbox)
}

/// The ends that somebody was told of.
fn told(sandbox: &Sandbox) -> usize {
    let files = fs::read_dir(sandbox.path("told")).into_iter().flatten();
    let names = files.map(|file| file.unwrap().file_name());
    names
        .filter(|name| name.to_str().unwrap().ends_with(".exit.json"))
        .count()
}

/// The program as PID 1, with these words.
fn as_pid_1<'a>(sandbox: &'a Sandbox, words: &[&str]) -> Call<'a> {
    let call = sandbox.unshare(&["--pid", "--fork", "--mount-proc"]);
    call.arg(sandbox.link("agent-sh"))
        .args(words)
        .env("AGENT_SH_ANNOUNCE", "1")
}

/// PID 1 of the namespace that a call of `unshare` made.
fn init_of(call: &Running) -> i32 {
    let pid = call.pid();
    let list = format!("/proc/{pid}/task/{pid}/children");
    let read = || fs::read_to_string(&list).ok()?.trim().parse().ok();
    wait_until("there is a PID 1", || {
        read().is_some_and(|pid: i32| pid > 0)
    });
    read().unwrap()
}

fn by(record: &Record) -> &str {
    record.data("kill_requested")["by"]
        .as_str()
        .unwrap_or("nobody")
}

/// The lines of ours, each without its id and with its time as `T`.
fn said(sandbox: &Sandbox, ended: &Ended) -> Vec<String> {
    let mut text = ended.errors();
    for job in ps_json(sandbox) {
        text = text.replace(job["id"].as_str().unwrap(), "ID");
    }
    let lines = text.lines().filter(|line| line.starts_with("[agent-sh] "));
    let words = lines.map(|line| {
        let words = line.split(' ').map(|word| {
            let time = word.trim_end_matches([':', '.']);
            let is_time = time.ends_with('s') && time.as_bytes()[0].is_ascii_digit();
            if is_time {
                word.replace(time, "T")
            } else {
                word.to_owned()
            }
        });
        words.collect::<Vec<_>>().join(" ")
    });
    words.collect()
}

#[test]
fn ends_are_said_recorded_and_told_before_the_call_is_over() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let text = format!(
        "sh -c 'read -r x <{0}; exit 3' & sh -c 'read -r x <{0}; kill -9 $$' & exit 5",
        gate.path()
    );
    let call = as_pid_1(&sandbox, &["-c", &text]).start();
    wait_until("both jobs run", || ps_json(&sandbox).len() == 2);
    gate.release(2);
    let ended = call.finish();
    assert_eq!(ended.status, Status::Exited(5), "{ended:?}");
    // Nobody is left who could write or tell anything later.
    assert_eq!(job_records(&sandbox).len(), 2);
    assert_eq!(told(&sandbox), 2, "{ended:?}");
    let lines = said(&sandbox, &ended);
    assert_eq!(lines.len(), 5, "{lines:#?}");
    let count = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
    assert_eq!(
        count("job ID is still running in the background"),
        2,
        "{lines:#?}"
    );
    assert_eq!(count("stays until the jobs have ended"), 1, "{lines:#?}");
    assert_eq!(
        count("job ID finished: exit 3 after T: sh -c"),
        1,
        "{lines:#?}"
    );
    assert_eq!(
        count("job ID was killed by SIGKILL after T: sh -c"),
        1,
        "{lines:#?}"
    );
}

/// As `docker stop` does it, while the call stays for its jobs.
#[test]
fn a_stop_while_it_stays_ends_the_jobs() {
    let Some(sandbox) = sandbox() else { return };
    let ready = sandbox.path("ready");
    let text = format!(
        "{{ trap 'exit 4' TERM; : >{}; while :; do sleep 0.05; done; }} & :",
        ready.display()
    );
    let call = as_pid_1(&sandbox, &["-c", &text]).start();
    wait_until("the job has its trap", || ready.exists());
    signal(init_of(&call), Signal::SIGTERM);
    let ended = call.finish();
    assert_eq!(ended.status, Status::Exited(143), "{ended:?}");
    let records = job_records(&sandbox);
    assert_eq!(records.len(), 1, "{records:#?}");
    assert_eq!(
        (records[0].exit_code(), by(&records[0])),
        (Some(4), "drain")
    );
    assert_eq!(told(&sandbox), 1, "{ended:?}");
    let lines = said(&sandbox, &ended);
    let count = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
    assert_eq!(count("finished: exit 4"), 1, "{lines:#?}");
    assert!(count("is still running") <= 1, "{lines:#?}");
}

/// `helper & main`: both get TERM at once.
#[test]
fn a_stop_while_the_command_runs_ends_all() {
    let Some(sandbox) = sandbox() else { return };
    let ready = sandbox.path("ready");
    let text = format!(
        "{{ trap 'exit 4' TERM; : >{}; while :; do sleep 0.05; done; }} & exec sleep 1000",
        ready.display()
    );
    let call = as_pid_1(&sandbox, &["-c", &text]).start();
    wait_until("the job has its trap", || ready.exists());
    signal(init_of(&call), Signal::SIGTERM);
    let ended = call.finish();
    assert_eq!(ended.status, Status::Exited(143), "{ended:?}");
    let records = job_records(&sandbox);
    assert_eq!(records.len(), 1, "{records:#?}");
    assert_eq!(
        (records[0].exit_code(), by(&records[0])),
        (Some(4), "drain")
    );
    // The job's end, and that of the command that was stopped.
    assert_eq!(told(&sandbox), 2, "{ended:?}");
}

/// No job is there: the record of the command itself is written and delivered before the call is over. To make a
/// job of the command would save nothing.
#[test]
fn a_stop_of_the_command_alone_is_told() {
    let Some(sandbox) = sandbox() else { return };
    for on_term in ["forward", "promote"] {
        let before = told(&sandbox);
        let ready = sandbox.path(on_term);
        let text = format!(": >{}; exec sleep 1000", ready.display());
        let call = as_pid_1(&sandbox, &["-c", &text]);
        let call = call.env("AGENT_SH_ON_TERM", on_term).start();
        wait_until("the command runs", || ready.exists());
        signal(init_of(&call), Signal::SIGTERM);
        let ended = call.finish();
        assert_eq!(ended.status, Status::Exited(143), "{on_term}: {ended:?}");
        assert_eq!(job_records(&sandbox).len(), 0, "{on_term}");
        assert_eq!(told(&sandbox), before + 1, "{on_term}: {ended:?}");
    }
}

/// A sandbox that was made for the call, as bubblewrap makes it: the call is not PID 1 there, but ends with it.
#[test]
fn a_stop_of_a_call_in_a_sandbox_ends_its_jobs() {
    let Some(sandbox) = sandbox() else { return };
    let helper = sandbox.path("bwrap");
    fs::copy(crate::support::real("dash"), &helper).unwrap();
    let ready = sandbox.path("ready");
    let job = format!(
        "{{ trap 'exit 4' TERM; : >{}; while :; do sleep 0.05; done; }} & :",
        ready.display()
    );
    let text = format!("{} -c \"{job}\"; exit $?", sandbox.link("bash").display());
    let call = sandbox.unshare(&["--pid", "--fork", "--mount-proc"]);
    let call = call.arg(&helper).args(["-c", &text]).start();
    wait_until("the job has its trap", || ready.exists());
    let init = init_of(&call);
    let children = fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap();
    let front = children.split_whitespace().next().unwrap();
    signal(front.parse().unwrap(), Signal::SIGTERM);
    let ended = call.finish();
    assert_eq!(ended.status, Status::Exited(143), "{ended:?}");
    let records = job_records(&sandbox);
    assert_eq!(records.len(), 1, "{records:#?}");
    assert_eq!(
        (records[0].exit_code(), by(&records[0])),
        (Some(4), "drain")
    );
    assert_eq!(told(&sandbox), 1, "{ended:?}");
}

/// Somebody who does not want to wait says so twice.
#[test]
fn a_second_interrupt_does_not_wait() {
    let Some(sandbox) = sandbox() else { return };
    let ready = sandbox.path("ready");
    let text = format!(
        "{{ trap '' TERM INT; : >{}; while :; do sleep 0.05; done; }} & :",
        ready.display()
    );
    let call = as_pid_1(&sandbox, &["-c", &text]).start();
    wait_until("the job runs", || ready.exists());
    let init = init_of(&call);
    signal(init, Signal::SIGINT);
    wait_until("it has been heard", || {
        let jobs = ps_json(&sandbox);
        // The first one ends the staying; a second one of the same number would be one.
        signal(init, Signal::SIGINT);
        jobs.iter().all(|job| job["state"] != "running")
    });
    let ended = call.finish();
    assert_eq!(ended.status, Status::Exited(130), "{ended:?}");
    let records = job_records(&sandbox);
    assert_eq!(records[0].data("signal"), 9, "{records:#?}");
    assert_eq!(told(&sandbox), 1, "{ended:?}");
}

#[test]
fn run_stays_with_its_job() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let job = format!("read -r x <{}; exit 3", gate.path());
    let call = as_pid_1(&sandbox, &["run", "--", "sh", "-c", &job]).start();
    wait_until("the job runs", || ps_json(&sandbox).len() == 1);
    gate.release(1);
    let ended = call.finish();
    assert_eq!(ended.status, Status::Exited(0), "{ended:?}");
    let records = job_records(&sandbox);
    assert_eq!(records[0].exit_code(), Some(3), "{records:#?}");
    assert_eq!(ended.text().trim(), records[0].job);
    assert_eq!(told(&sandbox), 1, "{ended:?}");
    let lines = said(&sandbox, &ended);
    assert!(
        lines.last().unwrap().contains("job ID finished: exit 3"),
        "{lines:#?}"
    );
    // Whoever forbids that is refused, and nothing is started.
    for words in [&["run", "--", "true"][..], &["restart", &records[0].job]] {
        let call = as_pid_1(&sandbox, words);
        let refused = call.env("AGENT_SH_LINGER", "never").run();
        assert_eq!(refused.status, Status::Exited(125), "{refused:?}");
        assert!(
            refused.errors().contains("ends with this call"),
            "{refused:?}"
        );
        assert_eq!(ps_json(&sandbox).len(), 1);
    }
}

#[test]
fn run_and_wait_passes_signals_on() {
    let Some(sandbox) = sandbox() else { return };
    for (name, number, trap, code) in [
        ("TERM", Signal::SIGTERM, "exit 4", 4),
        ("INT", Signal::SIGINT, "exit 5", 5),
        ("USR1", Signal::SIGUSR1, "exit 6", 6),
    ] {
        let ready = sandbox.path(format!("ready-{name}"));
        let job = format!(
            "trap '{trap}' {name}; : >{}; while :; do sleep 0.05; done",
            ready.display()
        );
        let before = (job_records(&sandbox).len(), told(&sandbox));
        let call = as_pid_1(&sandbox, &["run", "--wait", "--", "sh", "-c", &job]).start();
        wait_until("the job has its trap", || ready.exists());
        signal(init_of(&call), number);
        let ended = call.finish();
        assert_eq!(ended.status, Status::Exited(code), "{name}: {ended:?}");
        assert_eq!(job_records(&sandbox).len(), before.0 + 1, "{name}");
        // Of the others the caller knows: it has waited.
        let more = usize::from(name == "TERM");
        assert_eq!(told(&sandbox), before.1 + more, "{name}");
    }
}

/// A subscriber that takes nothing does not hold the call for ever.
#[test]
fn a_subscriber_that_is_deaf_does_not_hold_the_end() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let script = sandbox.script("deaf", "#!/bin/sh\nexec sleep 1000\n");
    let added = sandbox.agent_sh(["notify", "add", &format!("exec:{script}")]);
    assert!(added.succeeded(), "{added:?}");
    let gate = sandbox.gate();
    let text = format!("sh -c 'read -r x <{}; exit 3' & exit 5", gate.path());
    let call = as_pid_1(&sandbox, &["-c", &text]).start();
    wait_until("the job runs", || ps_json(&sandbox).len() == 1);
    gate.release(1);
    let ended = call.finish();
    assert_eq!(ended.status, Status::Exited(5), "{ended:?}");
    assert_eq!(job_records(&sandbox)[0].exit_code(), Some(3));
}

/// A container with nothing: a root that cannot be written, no home, no `/proc`, a user without a name.
#[test]
fn in_a_bare_container_the_code_is_right_and_nothing_is_invented() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let program = sandbox.link("agent-sh");
    let program = fs::canonicalize(program).unwrap();
    let setup = "mount -o bind,remount,ro /; umount -l /proc; exec \"$@\"";
    // Held by the call's stdin: nothing else reaches into that container.
    let job = "exec 3<&0; sh -c 'read -r x <&3; exit 3' & exit 5";
    let (stdin, gate) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let as_user: &[&str] = if nix::unistd::geteuid().is_root() {
        &[
            "setpriv",
            "--reuid",
            "54321",
            "--regid",
            "54321",
            "--clear-groups",
        ]
    } else {
        &[]
    };
    let call = sandbox
        .unshare(&["--pid", "--mount", "--fork"])
        .args(["sh", "-c", setup, "sh"])
        .args(as_user)
        .arg(&program)
        .args(["-c", job])
        .env("AGENT_SH_ANNOUNCE", "1")
        .env_remove("HOME")
        .env_remove("AGENT_SH_STATE")
        .env_remove("XDG_RUNTIME_DIR")
        .env("TMPDIR", "/nowhere")
        .input(Input::Fd(stdin))
        .cwd("/");
    let (mut child, mut streams) = call.start().into_files();
    let mut said = Vec::new();
    // Word by word, until it says that it stays.
    while !String::from_utf8_lossy(&said).contains("stays until") {
        let mut byte = [0];
        assert_eq!(streams[1].read(&mut byte).unwrap(), 1, "{said:?}");
        said.push(byte[0]);
    }
    drop(gate);
    assert_eq!(exit_of(&mut child), Status::Exited(5));
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("cannot be named"), "{said}");
}

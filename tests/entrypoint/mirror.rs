//! `--mirror`: what jobs write is on the container's stdout, too.

use std::fs::File;
use std::io::Read;

use nix::sys::signal::Signal;

use super::{Init, Lines, child_of};
use crate::support::{
    Call, Sandbox, Status, exit_of, job_records, ps_json, signal, wait_for_records, wait_until,
};

/// A text for a shell of ours as the command of a container.
fn container<'a>(sandbox: &'a Sandbox, options: &[&str], text: &str) -> Call<'a> {
    let program = sandbox.link("agent-sh");
    let options = [&["--mirror"], options].concat();
    Init::Ours.as_pid_1(sandbox, &options, &[program.to_str().unwrap(), "-c", text])
}

/// The lines of the only job, without their labels; the others as they are.
fn parted(sandbox: &Sandbox, text: &str) -> (Vec<String>, Vec<String>) {
    let records = job_records(sandbox);
    assert_eq!(records.len(), 1, "{records:#?}");
    let label = format!("[{}] ", records[0].job);
    let own = |line: &&str| line.starts_with(&label);
    let (ours, others): (Vec<&str>, Vec<&str>) = text.lines().partition(own);
    let ours = ours.iter().map(|line| line[label.len()..].to_owned());
    (
        ours.collect(),
        others.iter().map(|&line| line.to_owned()).collect(),
    )
}

#[test]
fn each_line_of_a_job_comes_once_and_labelled() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let gate = sandbox.gate();
    // Before and after the end of its call, on both streams, in colour, and without a last newline.
    let text = format!(
        "{{ echo one; echo two >&2; read -r x <{}; printf '\\033[31mthree\\033[0m\\n%5000s\\nlast' x; }} & echo main",
        gate.path()
    );
    let call = container(&sandbox, &["--drain", "50s"], &text).start();
    wait_until("the call is over", || {
        let jobs = ps_json(&sandbox);
        jobs.len() == 1 && jobs[0]["bytes_total"].as_u64() >= Some(8)
    });
    gate.release(1);
    let ended = call.finish();
    assert_eq!(ended.status, Status::Exited(0), "{ended:?}");
    let (ours, others) = parted(&sandbox, &ended.text());
    assert_eq!(ours.len(), 5, "{ended:?}");
    let mut first = [ours[0].as_str(), ours[1].as_str()];
    first.sort_unstable();
    assert_eq!(first, ["one", "two"]);
    assert_eq!([ours[2].as_str(), ours[4].as_str()], ["three", "last"]);
    assert!(
        ours[3].len() < 4096 && ours[3].len() > 4000,
        "{}",
        ours[3].len()
    );
    assert_eq!(others, ["main"]);
    assert_eq!(ended.errors(), "");
}

/// Lines come while the job runs, and PID 1 stays small.
#[test]
fn lines_come_as_they_are_written() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let gate = sandbox.gate();
    let text = format!("{{ echo now; read -r x <{}; }} & :", gate.path());
    let call = container(&sandbox, &["--drain", "50s"], &text).start();
    let pid = child_of(call.pid());
    let (mut child, out) = call.into_stdout();
    let mut lines = Lines::new(out);
    assert!(lines.next().ends_with("] now"));
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let anonymous = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = anonymous
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse::<u32>();
    // A program with debug information has more pages that were written to at its start.
    let most = if cfg!(debug_assertions) { 1024 } else { 256 };
    assert!(kib.clone().unwrap() <= most, "{kib:?}");
    gate.release(1);
    assert_eq!(exit_of(&mut child), Status::Exited(0));
}

/// Much is cut, with a word of where the rest is.
#[test]
fn a_job_that_writes_too_much_is_cut() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let text = "{ yes 0123456789012345678901234567890123456789 | head -c 12000000; } & :";
    let ended = container(&sandbox, &["--drain", "50s"], text).run();
    assert_eq!(ended.status, Status::Exited(0));
    let most = 8 * 1024 * 1024;
    assert!(
        (most - 100..=most).contains(&ended.stdout.len()),
        "{}",
        ended.stdout.len()
    );
    let text = ended.text();
    assert!(
        text.lines()
            .last()
            .unwrap()
            .contains("longer: agent-sh logs ")
    );
}

/// Whoever does not read the container's output holds neither a job nor the end.
#[test]
fn a_reader_that_reads_nothing_holds_nobody() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let text = "{ yes | head -c 3000000; exit 7; } & :";
    let call = container(&sandbox, &["--drain", "50s"], text).start();
    let (mut child, mut unread) = call.into_stdout();
    assert_eq!(exit_of(&mut child), Status::Exited(0));
    let records = wait_for_records(&sandbox, 1);
    assert_eq!(records[0].exit_code(), Some(7));
    assert_eq!(records[0].data("output")["bytes_total"], 3_000_000);
    read_rest(&mut unread);
}

fn read_rest(file: &mut File) {
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"\n"), "no line is cut in two");
}

/// A reader that has gone is no reason to end, nor one that never was.
#[test]
fn nobody_reads() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let gate = sandbox.gate();
    let text = format!(
        "{{ echo x; read -r x <{}; echo y; exit 7; }} & :",
        gate.path()
    );
    let call = container(&sandbox, &["--drain", "50s"], &text).start();
    wait_until("the job runs", || ps_json(&sandbox).len() == 1);
    let (mut child, out) = call.into_stdout();
    drop(out);
    gate.release(1);
    assert_eq!(exit_of(&mut child), Status::Exited(0));
    assert_eq!(wait_for_records(&sandbox, 1)[0].exit_code(), Some(7));
    // Without a stdout there is nothing to show, and it is said.
    let ended = container(&sandbox, &[], "sleep 0 & :").closed(1).run();
    assert_eq!(ended.status, Status::Exited(0), "{ended:?}");
    assert!(
        ended.errors().contains("cannot show the output of jobs"),
        "{ended:?}"
    );
}

#[test]
fn a_stop_lets_the_last_lines_out() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let ready = sandbox.path("ready");
    let text = format!(
        "{{ trap 'echo bye; exit 4' TERM; : >{}; while :; do sleep 0.05; done; }} & exec sleep 1000",
        ready.display()
    );
    let call = container(&sandbox, &[], &text).start();
    wait_until("the job has its trap", || ready.exists());
    signal(child_of(call.pid()), Signal::SIGTERM);
    let ended = call.finish();
    assert_eq!(ended.status, Status::Exited(143), "{ended:?}");
    let (ours, _) = parted(&sandbox, &ended.text());
    assert!(ours.iter().any(|line| line == "bye"), "{ours:?}");
}

/// Below another init it leaves with its entrypoint, and shows nobody else's jobs.
#[test]
fn below_another_init() {
    let sandbox = Sandbox::new();
    let before = sandbox.agent_sh(["run", "--", "sh", "-c", "echo before"]);
    sandbox.agent_sh(["wait", before.text().trim()]);
    let program = sandbox.link("agent-sh");
    let command = [program.to_str().unwrap(), "-c", "echo mine & :"];
    let ended = Init::Ours.below(&sandbox, &["--mirror"], &command).run();
    assert_eq!(ended.status, Status::Exited(0), "{ended:?}");
    let text = ended.text();
    assert!(
        text.starts_with('[') && text.ends_with("] mine\n"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
    let missing = Init::Ours
        .below(&sandbox, &["--mirror"], &["/no/such/program"])
        .run();
    assert_eq!(missing.status, Status::Exited(127), "{missing:?}");
    sandbox.assert_no_survivors();
}

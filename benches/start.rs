//! What a call costs: a plain command and one with a job, against bash, interleaved in one run.
//!
//! `cargo bench --bench start` takes medians of 300 rounds, `-- --quick` of 60. It exits with 1 when a ratio is
//! over its bound three times in a row: a neighbour who is busy for a while spoils a measurement, a slow
//! program all of them.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run should stop where it is"
)]

use std::fs;
use std::io::{PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

struct Subject {
    program: &'static str,
    text: &'static str,
    times: Vec<Duration>,
}

const AGENT_SH: &str = env!("CARGO_BIN_EXE_agent-sh");
const BASH: &str = "/bin/bash";

/// Pairs of bash and us, with the ratio that is allowed.
const BOUNDS: [(usize, usize, f64); 2] = [(0, 1, 2.0), (2, 3, 2.5)];

const TRIES: usize = 3;

fn main() -> ExitCode {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let rounds = if quick { 60 } else { 300 };
    let home = tempfile::Builder::new()
        .prefix("ash-bench-")
        .tempdir()
        .unwrap();
    let within = (0..TRIES).any(|_| is_within_bounds(rounds, home.path()));
    ExitCode::from(u8::from(!within))
}

/// Measures, prints the table, and tells whether every ratio is within its bound.
fn is_within_bounds(rounds: usize, home: &Path) -> bool {
    let subject = |program, text| Subject {
        program,
        text,
        times: Vec::with_capacity(rounds),
    };
    let mut subjects = [
        subject(BASH, "true"),
        subject(AGENT_SH, "true"),
        subject(BASH, "sleep 60 >/dev/null 2>&1 &"),
        subject(AGENT_SH, "sleep 60 &"),
    ];
    for round in 0..rounds + 5 {
        for turn in 0..subjects.len() {
            // Another order in each round, so that no one always follows the same one.
            let subject = &mut subjects[(turn + round) % 4];
            let time = measure(subject, home);
            if round >= 5 {
                subject.times.push(time);
            }
        }
    }
    let medians: Vec<f64> = subjects.iter_mut().map(median).collect();
    println!("{:<10} {:<28} {:>10}", "program", "command", "median");
    for (subject, median) in subjects.iter().zip(&medians) {
        let name = Path::new(subject.program)
            .file_name()
            .unwrap()
            .to_string_lossy();
        println!("{name:<10} {:<28} {median:>7.3} ms", subject.text);
    }
    let mut within = true;
    for (bash, ours, bound) in BOUNDS {
        let ratio = medians[ours] / medians[bash];
        let verdict = if ratio <= bound { "ok" } else { "TOO SLOW" };
        within &= ratio <= bound;
        println!(
            "agent-sh -c '{}': {ratio:.2} x bash, at most {bound:.1}: {verdict}",
            subjects[ours].text
        );
    }
    within
}

fn median(subject: &mut Subject) -> f64 {
    subject.times.sort_unstable();
    subject.times[subject.times.len() / 2].as_secs_f64() * 1000.0
}

/// From the start until both streams have ended and the process is reaped, as a harness waits. The child
/// gets a process group and no code of ours between fork and exec, so that std can use `posix_spawn`.
fn measure(subject: &Subject, home: &Path) -> Duration {
    let (mut out, out_end) = std::io::pipe().unwrap();
    let (mut err, err_end) = std::io::pipe().unwrap();
    let mut command = Command::new(subject.program);
    command
        .args(["-c", subject.text])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", home)
        .env("AGENT_SH_STATE", home.join("state"))
        .env("AGENT_SH_ANNOUNCE", "1")
        // What a call costs that has nothing to tell. Each round ends a job, which the next call would
        // otherwise report, and write down that it did.
        .env("AGENT_SH_TELL", "off")
        .stdin(Stdio::null())
        .stdout(out_end)
        .stderr(err_end)
        .process_group(0);
    let start = Instant::now();
    let mut child = command.spawn().unwrap();
    drop(command);
    drain(&mut out);
    drain(&mut err);
    let status = child.wait().unwrap();
    let time = start.elapsed();
    assert!(
        status.success(),
        "{} -c '{}': {status}",
        subject.program,
        subject.text
    );
    clean_up(
        i32::try_from(child.id()).unwrap(),
        home,
        subject.text.contains('&'),
    );
    time
}

fn drain(pipe: &mut PipeReader) {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
}

/// Ends the sleeps of this round and waits until nothing of it runs: bash's is in the child's group, ours is
/// found by the state directory in its environment.
fn clean_up(group: i32, home: &Path, job: bool) {
    let start = Instant::now();
    if job {
        let _none = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    loop {
        let left = processes_of(home);
        for &pid in &left {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if name.trim() == "sleep" {
                let _gone = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        if left.is_empty() {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "still running: {left:?}"
        );
        std::thread::yield_now();
    }
}

fn processes_of(home: &Path) -> Vec<i32> {
    let mark = home.as_os_str().as_encoded_bytes();
    let names = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .filter(|pid| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.windows(mark.len()).any(|window| window == mark)
        })
        .collect()
}

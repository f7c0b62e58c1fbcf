//! What verbs cost in a store of ten thousand ended jobs.
//!
//! `cargo bench --bench verbs` prints medians and exits with 1 when one is over its bound. `-- --keep DIR` leaves
//! the store there, to be looked at or measured otherwise.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run should stop where it is"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const AGENT_SH: &str = env!("CARGO_BIN_EXE_agent-sh");
const JOBS: usize = 10_000;
const ROUNDS: usize = 15;
const ALPHABET: &[u8] = b"23456789abcdefghjkmnpqrstuvwxyz";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let kept = args.iter().position(|arg| arg == "--keep");
    let home = tempfile::Builder::new()
        .prefix("ash-verbs-")
        .tempdir()
        .unwrap();
    let state = match kept {
        Some(place) => PathBuf::from(&args[place + 1]),
        None => home.path().join("state"),
    };
    let id = fill(&state);
    println!(
        "{:<34} {:>9} {:>9}",
        "with 10,000 ended jobs", "median", "at most"
    );
    let prefix = &id[..5];
    let cases: [(&[&str], Option<u64>); 9] = [
        (&["ps"], Some(150)),
        (&["ps", "-a"], Some(150)),
        (&["ps", "-a", "--json"], None),
        (&["show", &id], Some(20)),
        (&["show", prefix], Some(20)),
        (&["show", "last"], None),
        (&["wait", &id], Some(20)),
        (&["events", "-n", "1"], None),
        (&["gc", "--dry-run"], None),
    ];
    let mut within = true;
    for (args, bound) in cases {
        let time = median(&state, args);
        let text = bound.map_or(String::new(), |bound| format!("{bound} ms"));
        let slow = bound.is_some_and(|bound| time > Duration::from_millis(bound));
        let verdict = if slow { "  TOO SLOW" } else { "" };
        within &= !slow;
        let millis = time.as_secs_f64() * 1000.0;
        println!(
            "agent-sh {:<25} {millis:>6.1} ms {text:>9}{verdict}",
            args.join(" ")
        );
    }
    ExitCode::from(u8::from(!within))
}

/// A real job, copied until there are enough. Gives the id of one in the middle.
fn fill(state: &Path) -> String {
    let run = [
        "run",
        "--wait",
        "--",
        "sh",
        "-c",
        "echo a line of output; exit 3",
    ];
    call(state, &run);
    let jobs = state.join("v1/jobs");
    let model = fs::read_dir(&jobs).unwrap().next().unwrap().unwrap();
    let name = model.file_name().into_string().unwrap();
    let files: Vec<(PathBuf, String)> = fs::read_dir(model.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name().into(),
                fs::read_to_string(entry.path()).unwrap(),
            )
        })
        .collect();
    let mut middle = name.clone();
    for number in 0..JOBS - 1 {
        let mut left = number;
        let id: String = (0..6)
            .map(|_| {
                let letter = ALPHABET[left % ALPHABET.len()];
                left /= ALPHABET.len();
                char::from(letter)
            })
            .collect();
        let dir = jobs.join(&id);
        if fs::create_dir(&dir).is_err() {
            continue;
        }
        for (file, text) in &files {
            fs::write(dir.join(file), text.replace(&name, &id)).unwrap();
        }
        if number == JOBS / 2 {
            middle = id;
        }
    }
    middle
}

fn call(state: &Path, args: &[&str]) {
    let status = Command::new(AGENT_SH)
        .args(args)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("AGENT_SH_STATE", state)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(matches!(status.code(), Some(0 | 3)), "{args:?}: {status}");
}

fn median(state: &Path, args: &[&str]) -> Duration {
    // Once for the caches.
    call(state, args);
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            call(state, args);
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

//! Many waiters, many jobs, no busy processor.

use std::time::{Duration, Instant};

use super::{job, sandbox};
use crate::support::{Status, ps_json, wait_until};

/// Processor time of a process so far, in hundredths of a second.
fn ticks(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text[text.rfind(')').unwrap() + 2..].split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// What they use together while nothing happens, in hundredths of a second per second.
fn idle_load(pids: &[i32]) -> f64 {
    let all = || pids.iter().map(|&pid| ticks(pid)).sum::<u64>();
    let settle = Instant::now();
    // Until they are past their start.
    let mut last = (all(), Instant::now());
    wait_until("they sleep", || {
        let now = all();
        if now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() > Duration::from_millis(500) || settle.elapsed() > Duration::from_secs(20)
    });
    let (before, start) = (all(), Instant::now());
    wait_until("two seconds are over", || {
        start.elapsed() > Duration::from_secs(2)
    });
    (all() - before) as f64 / start.elapsed().as_secs_f64()
}

#[test]
fn two_hundred_jobs_at_once() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let text = format!(
        "for i in $(seq 200); do (read x < {}; exit $((i == 77 ? 5 : 0))) & done",
        gate.path()
    );
    let call = sandbox.call("bash").c(text).run();
    assert!(call.succeeded(), "{call:?}");
    let running = ps_json(&sandbox).len();
    assert_eq!(running, 200);
    let waiting = sandbox.call("agent-sh").args(["wait"]).start();
    let watching = sandbox
        .call("agent-sh")
        .args(["wait", "--for-output", "never"])
        .start();
    let load = idle_load(&[waiting.pid(), watching.pid()]);
    assert!(load < 20.0, "{load}% of a processor while nothing happens");
    gate.release(200);
    let ended = waiting.finish();
    assert_eq!(ended.status, Status::Exited(5), "{ended:?}");
    assert_eq!(ended.text().lines().count(), 200, "{ended:?}");
    assert_eq!(
        ended.text().matches("exited with 0 ").count(),
        199,
        "{ended:?}"
    );
    let watched = watching.finish();
    assert_eq!(watched.status, Status::Exited(1), "{watched:?}");
    assert_eq!(watched.text().lines().count(), 200, "{watched:?}");
    sandbox.assert_no_survivors();
}

#[test]
fn a_hundred_waiters_for_one_job() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    job(
        &sandbox,
        "x",
        &format!("read x < {0}; echo said; read x < {0}; exit 7", gate.path()),
    );
    let wait = |more: &[&str]| {
        let args = ["wait", "x"].iter().chain(more);
        sandbox.call("agent-sh").args(args).start()
    };
    let ends: Vec<_> = (0..50).map(|_| wait(&[])).collect();
    let lines: Vec<_> = (0..50).map(|_| wait(&["--for-output", "said"])).collect();
    let pids: Vec<i32> = ends
        .iter()
        .chain(&lines)
        .map(|running| running.pid())
        .collect();
    let load = idle_load(&pids);
    assert!(load < 30.0, "{load}% of a processor while nothing happens");
    gate.release(1);
    for line in lines {
        let ended = line.finish();
        assert_eq!(ended.status, Status::Exited(0), "{ended:?}");
        assert_eq!(ended.text().lines().count(), 1, "{ended:?}");
    }
    gate.release(1);
    for end in ends {
        let ended = end.finish();
        assert_eq!(ended.status, Status::Exited(7), "{ended:?}");
        assert_eq!(ended.text().lines().count(), 1, "{ended:?}");
    }
    sandbox.assert_no_survivors();
}

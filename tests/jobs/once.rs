//! One record per job and no more, whatever else came by on the way.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{FORMS, Stage};
use crate::support::{
    Identity, Status, in_parallel, job_records, parent_of, ps_json, real, signal, stands_in, tree,
    wait_for_records, wait_until,
};

/// A daemon's own parent is left to us only when the daemon has ended, been recorded and forgotten.
const LATE: &str = "
import os, sys
child = os.fork()
if child == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.argv[2], sys.argv[2:])
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
open(sys.argv[1]).readline()
";

#[test]
fn the_parent_of_an_ended_daemon_is_none() {
    if !stands_in() {
        return;
    }
    in_parallel(&[true, false].repeat(5), |_, _, &at_once| {
        leaves_the_parent_of_a_daemon(at_once);
    });
}

/// `at_once`: the supervisor hears of the daemon's end and of its parent's in one go.
fn leaves_the_parent_of_a_daemon(at_once: bool) {
    let stage = Stage::new();
    fs::write(stage.sandbox.work().join("late.py"), LATE).unwrap();
    let end = stage.sandbox.gate();
    let python = real("python3");
    let text = format!(
        "{} late.py {} {}; true",
        python.display(),
        end.path(),
        stage.worker
    );
    let running = stage.sandbox.call("bash").c(text).start();
    let worker = stage.workers(1)[0];
    let supervisor = parent_of(worker.pid).unwrap();
    if at_once {
        signal(supervisor, Signal::SIGSTOP);
    }
    stage.gate.release(1);
    wait_until("the daemon has its record, or nobody writes one", || {
        !worker.lives() && (at_once || !job_records(&stage.sandbox).is_empty())
    });
    end.release(1);
    if at_once {
        let children = || tree(supervisor).len() - 1;
        wait_until("the shell, the daemon and its parent are left", || {
            children() == 3
        });
        signal(supervisor, Signal::SIGCONT);
    }
    let (ended, _) = running.returned();
    assert_eq!(ended.status, Status::Exited(0), "{ended:?}");
    let found = wait_for_records(&stage.sandbox, 1);
    assert_eq!(found[0].exit_code(), Some(37), "{found:#?}");
}

/// What is left of the only job of a text is not that job once more, though it looks like the helper that
/// registers one.
#[test]
fn the_rest_of_a_job_is_not_the_job_again() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let helper = format!("{}\n", stage.worker);
    fs::write(stage.sandbox.work().join("@agent-sh-adopt"), helper).unwrap();
    let hold = stage.sandbox.gate();
    let text = format!(
        "{{ sh @agent-sh-adopt; true; }} & read -r x < {}",
        hold.path()
    );
    let running = stage.sandbox.call("bash").c(text).start();
    let worker = stage.workers(1)[0];
    let script = parent_of(worker.pid).unwrap();
    signal(parent_of(script).unwrap(), Signal::SIGKILL);
    hold.release(1);
    let (ended, _) = running.returned();
    assert!(ended.succeeded(), "{ended:?}");
    // Left alone for a while, it becomes a job of its own.
    let runs = |job: &serde_json::Value| job["state"] == "running" && job["how"] == "stray";
    wait_until("the rest is a job", || {
        ps_json(&stage.sandbox).iter().any(runs)
    });
    stage.gate.release(1);
    let found = wait_for_records(&stage.sandbox, 2);
    let mut ends: Vec<_> = found
        .iter()
        .map(|record| (record.how(), record.exit_code()))
        .collect();
    ends.sort();
    assert_eq!(
        ends,
        [("ampersand", None), ("stray", Some(37))],
        "{found:#?}"
    );
}

/// The shell, a stray and a signal for the call: the supervisor hears of all three at once, and the
/// stray, though it has ended by then, was there when the call was cut short.
#[test]
fn a_stray_that_ends_while_the_call_is_cut_short_has_one() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let hold = stage.sandbox.gate();
    let form = FORMS.iter().find(|form| form.name == "python").unwrap();
    let text = format!("{}\nread -r x < {}", stage.text(form), hold.path());
    let running = stage.sandbox.call("bash").c(text).start();
    let worker = stage.workers(1)[0];
    let supervisor = parent_of(worker.pid).unwrap();
    let shell = tree(supervisor)
        .into_iter()
        .find(|&pid| pid != supervisor && pid != worker.pid)
        .and_then(Identity::of)
        .unwrap();
    signal(supervisor, Signal::SIGSTOP);
    hold.release(1);
    stage.gate.release(1);
    wait_until("both have ended", || !shell.lives() && !worker.lives());
    signal(running.pid(), Signal::SIGTERM);
    wait_until("the front has passed it on", || {
        let status = fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
        let says = |line: &str| status.lines().any(|found| found == line);
        says("ShdPnd:\t0000000000000000") && says("State:\tS (sleeping)")
    });
    signal(supervisor, Signal::SIGCONT);
    let (ended, _) = running.returned();
    assert_eq!(ended.status, Status::Signaled(15), "{ended:?}");
    let found = wait_for_records(&stage.sandbox, 1);
    assert_eq!((found[0].how(), found[0].exit_code()), ("stray", Some(37)));
}

/// Two in one session that a third had started: each of them meant to stay.
const TWO: &str = "
import os, sys
if os.fork() == 0:
    os.setsid()
    for number in range(2):
        if os.fork() == 0:
            while os.getppid() == os.getsid(0):
                os.sched_yield()
            os.execv(sys.argv[1], sys.argv[1:])
    os._exit(0)
";

#[test]
fn two_daemons_of_one_session_have_one_each() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    fs::write(stage.sandbox.work().join("two.py"), TWO).unwrap();
    let hold = stage.sandbox.gate();
    let python = real("python3");
    let text = format!(
        "{} two.py {}; read -r x < {}",
        python.display(),
        stage.worker,
        hold.path()
    );
    let running = stage.sandbox.call("bash").c(text).start();
    stage.workers(2);
    // Long enough to be told from one that hands over to another.
    let since = Instant::now();
    wait_until("they have lived for a while", || {
        since.elapsed() > Duration::from_millis(300)
    });
    for count in 1..=2 {
        stage.gate.release(1);
        wait_until("one more record", || {
            job_records(&stage.sandbox).len() == count
        });
    }
    hold.release(1);
    let (ended, _) = running.returned();
    assert!(ended.succeeded(), "{ended:?}");
    wait_for_records(&stage.sandbox, 2);
}

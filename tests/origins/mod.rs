//! The five cases that the project comes from, played with real processes, kills and restarts. Of notices
//! only case E is here; the others need a harness.

/// Background work reaped at the turn boundary.
mod case_a;
/// A spinner that never stops.
mod case_b;
/// Models write `cmd &` whatever the tool's description says.
mod case_c;
/// A session's end kills the job that was meant to outlive it, or leaves its broker behind.
mod case_d;
/// Kill and natural exit race; recovered jobs are lied about; pids of a sandbox are trusted on the host.
mod case_e;

use std::fs;

use crate::support::{Gate, Identity, Sandbox, wait_until};

/// A program that leaves its pid in `name`, says a line, waits at the gate and exits with `code`.
fn worker(sandbox: &Sandbox, gate: &Gate, name: &str, code: i32) -> String {
    sandbox.script(
        name,
        &format!(
            "#!/bin/sh\necho {name} started\necho $$ > {0}.tmp; mv {0}.tmp {0}\nread -r x < {1}\necho {name} done\nexit {code}\n",
            mark(sandbox, name),
            gate.path()
        ),
    )
}

fn mark(sandbox: &Sandbox, name: &str) -> String {
    sandbox
        .path(format!("{name}.pid"))
        .to_str()
        .unwrap()
        .to_owned()
}

/// Waits until the worker runs, and gives its identity.
#[track_caller]
fn started(sandbox: &Sandbox, name: &str) -> Identity {
    let mark = mark(sandbox, name);
    wait_until(&format!("{name} runs"), || fs::exists(&mark).unwrap());
    let pid = fs::read_to_string(&mark).unwrap().trim().parse().unwrap();
    Identity::of(pid).expect("it waits at its gate")
}

//! The demonstration of the README shows what it says, and notices where it does not.

use super::root;
use crate::support::{Ended, Sandbox, Status, has_on_path, program, stands_in};

/// Runs `shims/demo` with this text as the program `agent-sh`, built by a cargo that has nothing to do.
fn demo(sandbox: &Sandbox, agent_sh: &str, args: &[&str]) -> Ended {
    let target = sandbox.path("target");
    std::fs::create_dir_all(target.join("release")).unwrap();
    sandbox.script("target/release/agent-sh", agent_sh);
    std::fs::create_dir_all(sandbox.path("bin")).unwrap();
    sandbox.script("bin/cargo", "#!/bin/sh\n");
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let mut call = sandbox.real_call("dash").arg(root().join("shims/demo"));
    call = call.args(args).env("CARGO_TARGET_DIR", &target);
    let path = format!("{}:{}", sandbox.path("bin").display(), var("PATH"));
    call = call.env("PATH", path);
    // A rustc of rustup's looks there for itself.
    let rustup = format!("{}/.rustup", var("HOME"));
    let rustup = std::env::var("RUSTUP_HOME").unwrap_or(rustup);
    call.env("RUSTUP_HOME", rustup).run()
}

#[test]
fn the_demo_tells_its_story() {
    if !stands_in() || !has_on_path("rustc") {
        return;
    }
    let sandbox = Sandbox::new();
    let real = format!("#!/bin/sh\nexec {} \"$@\"\n", program("agent-sh").display());
    let told = demo(&sandbox, &real, &["--json"]);
    assert!(told.succeeded(), "{told:?}");
    let text = told.text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() < 21, "{text}");
    let [.., called, event] = lines.as_slice() else {
        panic!("{text}")
    };
    assert!(called.contains("Called back: job "), "{text}");
    let event: serde_json::Value = serde_json::from_str(event).unwrap();
    assert_eq!(event["data"]["exit_code"], 0);
    sandbox.assert_no_survivors();
    let left = std::fs::read_dir(sandbox.path("target")).unwrap();
    assert_eq!(left.count(), 1, "more than the program is left");
}

/// A shell whose jobs die with their call must not pass.
#[test]
fn the_demo_notices_a_shell_that_loses_jobs() {
    if !stands_in() || !has_on_path("rustc") {
        return;
    }
    let sandbox = Sandbox::new();
    let plain = format!(
        "#!/bin/sh\n[ \"$1\" != -c ] || exec bash \"$@\"\nexec {} \"$@\"\n",
        program("agent-sh").display()
    );
    let told = demo(&sandbox, &plain, &[]);
    assert_eq!(told.status, Status::Exited(1), "{told:?}");
    assert!(told.errors().contains("shims/demo: "), "{told:?}");
    sandbox.assert_no_survivors();
}

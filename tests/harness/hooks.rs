//! What the hooks of Claude Code say, without the client: this test process is the client.

use serde_json::{Value, json};

use crate::support::{
    Call, Ended, Gate, Input, Sandbox, Status, ps_json, stands_in, wait_for_records, wait_until,
};

const SESSION: &str = "0c6e2f0a-1111-2222-3333-444455556666";

/// A hook as the client calls it. `live`: the session can be woken.
fn hook<'a>(sandbox: &'a Sandbox, event: &str, live: bool) -> Call<'a> {
    let name = if event == "Wait" {
        "PostToolUse"
    } else {
        event
    };
    let input = json!({ "session_id": SESSION, "hook_event_name": name }).to_string();
    sandbox
        .call("agent-sh")
        .args(["hook", "claude-code", event])
        .env("CLAUDE_PID", std::process::id().to_string())
        .env("CLAUDE_CODE_SESSION_ID", SESSION)
        .env("CLAUDE_CODE_SESSION_ATTENDED", if live { "1" } else { "0" })
        .input(Input::Text(input.into_bytes()))
}

/// Starts a job of the session that waits at a gate, and gives its id.
fn job(sandbox: &Sandbox, gate: &Gate, text: &str) -> String {
    let before: Vec<Value> = ps_json(sandbox);
    let command = format!("{{ read -r x < {}; echo {text}; exit 4; }} &", gate.path());
    let ended = sandbox
        .call("bash")
        .c(command)
        .env("CLAUDE_CODE_SESSION_ID", SESSION)
        .run();
    assert!(ended.succeeded(), "{ended:?}");
    let after = ps_json(sandbox);
    let new = after
        .iter()
        .find(|job| before.iter().all(|old| old["id"] != job["id"]));
    new.unwrap()["id"].as_str().unwrap().to_owned()
}

/// Whether a waiter has its lock: the file alone is there a moment before.
fn is_waited_for(sandbox: &Sandbox) -> bool {
    let Ok(entries) = std::fs::read_dir(sandbox.state().join("v1/waiters")) else {
        return false;
    };
    let locked = |path: std::path::PathBuf| {
        let Ok(file) = std::fs::File::open(path) else {
            return false;
        };
        let mut lock = libc::flock {
            l_type: libc::F_RDLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_OFD_GETLK(&mut lock)).unwrap();
        i32::from(lock.l_type) != libc::F_UNLCK
    };
    entries.flatten().any(|entry| locked(entry.path()))
}

fn context(ended: &Ended) -> String {
    assert!(ended.succeeded(), "{ended:?}");
    if ended.stdout.is_empty() {
        return String::new();
    }
    let said: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let text = &said["hookSpecificOutput"]["additionalContext"];
    text.as_str().unwrap().to_owned()
}

#[test]
fn nothing_to_say_is_said_at_once() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    for event in [
        "SessionStart",
        "UserPromptSubmit",
        "Stop",
        "Wait",
        "SessionEnd",
        "NoSuchEvent",
    ] {
        for live in [true, false] {
            let ended = hook(&sandbox, event, live).run();
            assert_eq!(
                (ended.status, ended.stdout.len()),
                (Status::Exited(0), 0),
                "{event}: {ended:?}"
            );
        }
    }
    assert!(!sandbox.state().exists(), "a look makes no state");
}

/// Whatever is wrong with us, the session goes on.
#[test]
fn a_broken_state_breaks_no_session() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.state(), "no directory").unwrap();
    for event in ["SessionStart", "Stop", "Wait"] {
        assert_eq!(
            hook(&sandbox, event, true).run().status,
            Status::Exited(0),
            "{event}"
        );
        let bad = hook(&sandbox, event, true).env("AGENT_SH_KEEP", "nonsense");
        assert_eq!(bad.run().status, Status::Exited(0), "{event}");
        let garbage = hook(&sandbox, event, true).input(Input::Text(b"not JSON".to_vec()));
        assert_eq!(garbage.run().status, Status::Exited(0), "{event}");
    }
    let unknown = sandbox
        .call("agent-sh")
        .args(["hook", "future-client", "Start", "--new-option"])
        .run();
    assert_eq!(unknown.status, Status::Exited(0), "{unknown:?}");
}

/// A waiter per session: the second leaves, the first wakes the session, once, with all that ended.
#[test]
fn one_waiter_wakes_the_session_once() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let (first, second, later) = (sandbox.gate(), sandbox.gate(), sandbox.gate());
    let ids = [job(&sandbox, &first, "one"), job(&sandbox, &second, "two")];
    let waiter = hook(&sandbox, "Wait", true).start();
    wait_until("the waiter waits", || is_waited_for(&sandbox));
    let other = hook(&sandbox, "Wait", true).run();
    assert_eq!(
        (other.status, other.errors().as_str()),
        (Status::Exited(0), ""),
        "{other:?}"
    );
    // A job that starts while it waits is waited for too; both that end now are told together.
    let third = job(&sandbox, &later, "three");
    first.release(1);
    second.release(1);
    let woken = waiter.finish();
    assert_eq!(woken.status, Status::Exited(2), "{woken:?}");
    let mut told = woken.errors();
    if ids.iter().any(|id| !told.contains(id.as_str())) {
        let rest = hook(&sandbox, "Wait", true).run();
        assert_eq!(rest.status, Status::Exited(2), "{rest:?}");
        told += &rest.errors();
    }
    for id in &ids {
        let fact = format!("Background job {id} finished: exit 4");
        assert_eq!(told.matches(&fact).count(), 1, "{told}");
    }
    // Nobody tells it again: not a hook for the next prompt, not the end of the turn.
    assert_eq!(context(&hook(&sandbox, "UserPromptSubmit", true).run()), "");
    let waiter = hook(&sandbox, "Wait", true).start();
    later.release(1);
    let woken = waiter.finish();
    assert_eq!(woken.status, Status::Exited(2));
    assert!(woken.errors().contains(&third), "{woken:?}");
    wait_for_records(&sandbox, 3);
    let left = std::fs::read_dir(sandbox.state().join("v1/waiters"))
        .unwrap()
        .count();
    assert_eq!(left, 0, "a waiter leaves no file");
}

/// A session that cannot be woken is held at its stop, until a job has ended or the time is over.
#[test]
fn a_plain_run_is_held_at_its_stop() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let id = job(&sandbox, &gate, "built");
    let at_once = hook(&sandbox, "Wait", false).run();
    assert_eq!(
        at_once.status,
        Status::Exited(0),
        "nothing can wake it: {at_once:?}"
    );
    let live = hook(&sandbox, "Stop", true).run();
    assert_eq!(
        live.status,
        Status::Exited(0),
        "it can be woken later: {live:?}"
    );
    let over = hook(&sandbox, "Stop", false)
        .env("AGENT_SH_STOP_WAIT", "100ms")
        .run();
    assert_eq!(
        (over.status, over.errors().as_str()),
        (Status::Exited(0), ""),
        "{over:?}"
    );
    let held = hook(&sandbox, "Stop", false).start();
    gate.release(1);
    let told = held.finish();
    assert_eq!(told.status, Status::Exited(2), "{told:?}");
    assert!(
        told.errors()
            .starts_with(&format!("Background job {id} finished: exit 4")),
        "{told:?}"
    );
    let again = hook(&sandbox, "Stop", false).run();
    assert_eq!(
        (again.status, again.errors().as_str()),
        (Status::Exited(0), ""),
        "{again:?}"
    );
    wait_for_records(&sandbox, 1);
}

/// The start of a session lists what runs and tells what ended meanwhile.
#[test]
fn a_session_that_goes_on_hears_what_happened() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let (gone, stays) = (sandbox.gate(), sandbox.gate());
    let (ended, running) = (job(&sandbox, &gone, "x"), job(&sandbox, &stays, "y"));
    gone.release(1);
    wait_until("it has its record", || {
        ps_json(&sandbox).iter().any(|job| job["state"] == "exited")
    });
    let told = context(&hook(&sandbox, "SessionStart", true).run());
    assert!(
        told.starts_with("1 background job of this session is still running:"),
        "{told}"
    );
    assert!(told.contains(&format!("- {running} (pid ")), "{told}");
    assert_eq!(
        told.matches(&format!("Background job {ended} finished: exit 4"))
            .count(),
        1,
        "{told}"
    );
    let again = context(&hook(&sandbox, "SessionStart", true).run());
    assert!(
        again.contains(&running) && !again.contains(&ended),
        "{again}"
    );
    // What the agent waited for itself is no news.
    stays.release(1);
    let waited = sandbox
        .call("agent-sh")
        .args(["wait", &running])
        .env("CLAUDE_CODE_SESSION_ID", SESSION)
        .run();
    assert_eq!(waited.status, Status::Exited(4));
    assert_eq!(context(&hook(&sandbox, "SessionStart", true).run()), "");
    wait_for_records(&sandbox, 2);
}

/// Case D: the end of a session spares its jobs, unless the user wants it otherwise.
#[test]
fn case_d_the_end_of_a_session_is_a_policy() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let id = job(&sandbox, &gate, "x");
    assert_eq!(
        hook(&sandbox, "SessionEnd", true).run().status,
        Status::Exited(0)
    );
    assert_eq!(ps_json(&sandbox)[0]["state"], "running");
    let other = hook(&sandbox, "SessionEnd", true).env("AGENT_SH_SESSION_END", "kill");
    let foreign = json!({ "session_id": "another" }).to_string();
    assert!(
        other
            .input(Input::Text(foreign.into_bytes()))
            .run()
            .succeeded()
    );
    assert_eq!(
        ps_json(&sandbox)[0]["state"],
        "running",
        "another session's end"
    );
    let end = hook(&sandbox, "SessionEnd", true)
        .env("AGENT_SH_SESSION_END", "kill")
        .run();
    assert!(end.succeeded(), "{end:?}");
    let found = wait_for_records(&sandbox, 1);
    assert_eq!(
        (found[0].job.as_str(), found[0].state()),
        (id.as_str(), "signaled")
    );
    assert_eq!(
        context(&hook(&sandbox, "SessionStart", true).run()),
        "",
        "it asked for that itself"
    );
}

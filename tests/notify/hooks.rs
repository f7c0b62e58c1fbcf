use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{count, finished_job, listed, refused, verb};
use crate::support::{Identity, Sandbox, stands_in, wait_until};

fn hook(sandbox: &Sandbox, text: &str) -> String {
    let script = sandbox.script("hook", &format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    verb(
        sandbox,
        ["notify", "add", &format!("exec:{script}"), "--as", "hook"],
    );
    script
}

#[test]
fn the_event_is_on_stdin_and_nothing_else_is_there() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let out = sandbox.path("out").to_str().unwrap().to_owned();
    hook(
        &sandbox,
        &format!(
            "cat > {out}.event; env > {out}.env; pwd > {out}.pwd; ls -l /proc/self/fd > {out}.fds\n\
             ps -o pid=,sid= -p $$ > {out}.sid; mv {out}.event {out}"
        ),
    );
    let id = {
        let call = sandbox
            .call("agent-sh")
            .args(["run", "--", "sh", "-c", "exit 9"]);
        let started = call.env("SECRET_TOKEN", "hunter2").run();
        started.text().trim().to_owned()
    };
    wait_until("the hook ran", || fs::exists(&out).unwrap());
    let event: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    assert_eq!(
        (&event["id"], &event["data"]["exit_code"]),
        (&Value::from(format!("{id}.exit")), &Value::from(9))
    );
    let read = |name: &str| fs::read_to_string(format!("{out}.{name}")).unwrap();
    let env = read("env");
    let names: Vec<&str> = env
        .lines()
        .filter_map(|l| Some(l.split_once('=')?.0))
        .collect();
    assert!(
        names
            .iter()
            .all(|n| ["PATH", "PWD", "SHLVL", "_", "OLDPWD"].contains(n)),
        "{names:?}"
    );
    assert_eq!(read("pwd").trim(), "/");
    let inherited: Vec<String> = read("fds")
        .lines()
        .filter(|l| l.contains("state"))
        .map(str::to_owned)
        .collect();
    assert!(inherited.is_empty(), "{inherited:?}");
    let sid = read("sid");
    let ids: Vec<&str> = sid.split_whitespace().collect();
    assert_eq!(ids[0], ids[1], "a session of its own");
    wait_until("it is marked", || {
        count(&listed(&sandbox, "hook"), "delivered") == 1
    });
}

#[test]
fn a_hook_that_hangs_is_ended_with_its_group() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let mark = sandbox.path("child").to_str().unwrap().to_owned();
    hook(
        &sandbox,
        &format!("sleep 1000 & echo $! > {mark}.tmp; mv {mark}.tmp {mark}; wait"),
    );
    let begun = Instant::now();
    let ended = sandbox.agent_sh(["notify", "test", "hook"]);
    refused(&ended, 125, "still ran after 10s");
    assert!(begun.elapsed() >= Duration::from_secs(10));
    let child = fs::read_to_string(&mark).unwrap().trim().parse().unwrap();
    wait_until("its child is gone too", || {
        Identity::of(child).is_none_or(|child| !child.lives())
    });
}

#[test]
fn a_hook_that_leaves_a_child_behind_does_not_hold_us() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    // The child keeps the hook's stdout open.
    hook(&sandbox, "sleep 1000 &\nexit 0");
    let begun = Instant::now();
    verb(&sandbox, ["notify", "test", "hook"]);
    assert!(begun.elapsed() < Duration::from_secs(9));
    sandbox.assert_no_survivors();
}

#[test]
fn a_hook_that_fails_is_tried_again() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let tries = sandbox.path("tries").to_str().unwrap().to_owned();
    hook(
        &sandbox,
        &format!(
            "echo x >> {tries}\n[ $(wc -l < {tries}) -ge 3 ] || {{ echo \"no: TOKEN=hunter2\" >&2; yes | head -c 300000; exit 3; }}"
        ),
    );
    let job = finished_job(&sandbox, 0);
    let waited = sandbox.agent_sh(["wait", &job, "--notify", "hook"]);
    assert!(waited.succeeded(), "{waited:?}");
    let hook = listed(&sandbox, "hook");
    assert_eq!(hook["delivered"][0]["event"], format!("{job}.exit"));
    assert_eq!(hook["delivered"][0]["attempts"], 3, "{hook:#}");
    let log = fs::read_to_string(
        sandbox
            .state()
            .join(format!("v1/subs/hook/done/{job}.exit")),
    )
    .unwrap();
    assert!(
        log.contains("exit 3: no: TOKEN=***") && !log.contains("hunter2"),
        "{log}"
    );
    assert_eq!(fs::read_to_string(&tries).unwrap().lines().count(), 3);
}

#[test]
fn a_program_that_others_can_change_is_not_run() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let mark = sandbox.path("ran").to_str().unwrap().to_owned();
    let script = hook(&sandbox, &format!("touch {mark}"));
    for (mode, words) in [
        (0o775, "others can write"),
        (0o757, "others can write"),
        (0o644, "not executable"),
    ] {
        fs::set_permissions(&script, fs::Permissions::from_mode(mode)).unwrap();
        refused(&sandbox.agent_sh(["notify", "test", "hook"]), 125, words);
        let add = ["notify", "add", &format!("exec:{script}"), "--as", "two"];
        refused(&sandbox.agent_sh(add), 125, words);
    }
    assert!(!fs::exists(&mark).unwrap());
}

/// A listener whose queue is full, so that connecting would wait for ever, and one that accepts and never
/// reads: both cost their time. The end stays pending, and nobody hangs about.
#[test]
fn a_socket_that_takes_nothing_keeps_nobody() {
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket,
    };
    use std::os::fd::AsRawFd;
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let path = sandbox.path("deaf");
    let address = UnixAddr::new(&path).unwrap();
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let dial = || socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
    let listener = dial();
    bind(listener.as_raw_fd(), &address).unwrap();
    listen(&listener, Backlog::new(0).unwrap()).unwrap();
    let mut waiting = Vec::new();
    loop {
        let caller = dial();
        if connect(caller.as_raw_fd(), &address).is_err() {
            break;
        }
        waiting.push(caller);
    }
    let sink = format!("unix:{}", path.display());
    verb(&sandbox, ["notify", "add", &sink, "--as", "deaf"]);
    let begun = Instant::now();
    let tested = sandbox.agent_sh(["notify", "test", "deaf"]);
    refused(&tested, 125, "took nothing within 10s");
    assert!(begun.elapsed() >= Duration::from_secs(10));
    finished_job(&sandbox, 0);
    // Also those that the supervisor and the verbs left behind to try again.
    sandbox.assert_no_survivors();
    assert_eq!(count(&listed(&sandbox, "deaf"), "pending"), 1);
    sandbox.assert_no_survivors();
    drop(waiting);
}

/// A hook that talks without end is ended as one that hangs is.
#[test]
fn a_hook_that_never_stops_talking_is_ended() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    hook(&sandbox, "exec yes");
    let ended = sandbox.agent_sh(["notify", "test", "hook"]);
    refused(&ended, 125, "still ran after 10s");
    sandbox.assert_no_survivors();
}

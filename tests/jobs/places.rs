//! Where jobs are kept when the first choice cannot be written, and that all verbs look there.

use std::fs;

use serde_json::Value;

use crate::support::{Call, Sandbox, Status, stands_in, wait_until};

/// A call in a mount namespace in which the home is read-only, as in the sandbox of a harness.
fn confined(sandbox: &Sandbox) -> Call<'_> {
    let enter =
        "mount --bind \"$HOME\" \"$HOME\" && mount -o remount,bind,ro \"$HOME\" && exec \"$@\"";
    let call = sandbox.unshare(&["--mount"]);
    call.args(["bash", "-c", enter, "x"])
}

/// A session that nobody else has: what this user really keeps in /tmp is looked at, too.
fn alone<'a>(call: Call<'a>, sandbox: &Sandbox) -> Call<'a> {
    call.env("AGENT_SH_SESSION", sandbox.work())
}

/// How the state directory comes to be in the home: by default, or because somebody named it.
fn with_state<'a>(call: Call<'a>, sandbox: &Sandbox, named: Option<&str>) -> Call<'a> {
    let call = alone(call, sandbox);
    match named {
        Some(path) => call.env("AGENT_SH_STATE", path),
        None => call.env_remove("AGENT_SH_STATE"),
    }
}

/// An agent's sandbox has the home read-only, where jobs from outside are kept already. Those from
/// within go to the next place, and every verb finds both.
#[test]
fn a_state_directory_that_is_there_and_read_only() {
    if !stands_in() {
        return;
    }
    let home_state = |sandbox: &Sandbox| sandbox.path("home/mine").display().to_string();
    for (is_named, runtime) in [(false, true), (false, false), (true, true)] {
        let Some(sandbox) = Sandbox::with_namespaces() else {
            return;
        };
        let named = is_named.then(|| home_state(&sandbox));
        let outside = |call| with_state(call, &sandbox, named.as_deref());
        let inside = |words: &[&str]| {
            let call = with_state(confined(&sandbox), &sandbox, named.as_deref());
            let call = call.arg(sandbox.link(words[0])).args(&words[1..]);
            let call = call.env("AGENT_SH_LINGER", "0");
            if runtime {
                call
            } else {
                call.env_remove("XDG_RUNTIME_DIR")
            }
        };
        let rows = |call: Call<'_>| -> Vec<Value> {
            let ended = call.run();
            assert!(ended.succeeded(), "{ended:?}");
            serde_json::from_slice(&ended.stdout).unwrap()
        };
        let first = outside(
            sandbox
                .call("agent-sh")
                .args(["run", "--wait", "--", "true"]),
        )
        .run();
        assert!(first.succeeded(), "{first:?}");
        let call = inside(&["bash", "-c", "sh -c 'echo said; exit 4' & echo hi"])
            .env("AGENT_SH_ANNOUNCE", "1");
        let call = call.run();
        assert!(call.succeeded(), "{call:?}");
        assert!(call.text().contains("hi\n"), "{call:?}");
        assert!(!call.errors().contains("no record"), "{call:?}");
        let wait = inside(&["agent-sh", "wait", "last"]).run();
        assert_eq!(wait.status, Status::Exited(4), "{wait:?}");
        let ran = inside(&["agent-sh", "run", "--wait", "--", "sh", "-c", "exit 5"]).run();
        assert_eq!(ran.status, Status::Exited(5), "{ran:?}");
        let listed = rows(inside(&["agent-sh", "ps", "-a", "--json"]));
        let codes: Vec<&Value> = listed.iter().map(|row| &row["exit_code"]).collect();
        assert_eq!(codes, [0, 4, 5], "{listed:#?}");
        let logs = inside(&["agent-sh", "logs", listed[1]["id"].as_str().unwrap()]).run();
        assert_eq!(logs.text(), "said\n", "{logs:?}");
        let place = if runtime { "run/agent-sh" } else { "tmp" };
        let path = listed[2]["transcript"].as_str().unwrap_or_default();
        let place = sandbox.path(place);
        assert!(
            path.is_empty() || path.starts_with(place.to_str().unwrap()),
            "{path}"
        );
        assert!(fs::read_dir(&place).unwrap().next().is_some());
        // Whoever named the directory is told; the default is nobody's wish.
        assert_eq!(
            wait.errors().contains("cannot use the state directory"),
            is_named,
            "{wait:?}"
        );
        assert_eq!(
            listed[1]["degraded"].to_string().contains("read-only"),
            is_named,
            "{listed:#?}"
        );
        // Somebody can be told of ends, too.
        let events = sandbox.path("work/events");
        let sink = format!("dir:{}", events.display());
        let add = inside(&["agent-sh", "notify", "add", &sink, "--as", "e"]).run();
        assert!(add.succeeded(), "{add:?}");
        // What ends before its own call is no news.
        let gate = sandbox.gate();
        let text = format!("read x < {}; exit 6", gate.path());
        let ran = inside(&["agent-sh", "run", "--", "sh", "-c", &text]).run();
        assert!(ran.succeeded(), "{ran:?}");
        gate.release(1);
        wait_until("the end was told", || {
            fs::read_dir(&events).is_ok_and(|mut found| found.next().is_some())
        });
        // Outside, the directory can be written again. By default jobs of both are seen there; whoever
        // names one means that one.
        let call = sandbox.call("agent-sh").args(["ps", "-a", "--json"]);
        let call = if runtime {
            call
        } else {
            call.env_remove("XDG_RUNTIME_DIR")
        };
        assert_eq!(rows(outside(call)).len(), if is_named { 1 } else { 4 });
        sandbox.assert_no_survivors();
    }
}

/// A directory that cannot be made: the job is kept elsewhere, and found by those who name the same one.
#[test]
fn a_state_directory_that_cannot_be_made() {
    if !stands_in() {
        return;
    }
    for path in [
        "/proc/nope",
        "/proc/no/pe",
        "/sys/nope",
        "/sys/no/pe",
        "/dev/null/x",
    ] {
        let sandbox = Sandbox::new();
        let name = |call| alone(call, &sandbox).env("AGENT_SH_STATE", path).run();
        let call = name(
            sandbox
                .call("bash")
                .c("sh -c 'echo said; exit 4' & echo hi"),
        );
        assert!(call.text().contains("hi\n"), "{path}: {call:?}");
        let wait = name(sandbox.call("agent-sh").args(["wait", "last"]));
        assert_eq!(wait.status, Status::Exited(4), "{path}: {wait:?}");
        assert!(
            wait.errors().contains("cannot use the state directory"),
            "{path}: {wait:?}"
        );
        let logs = name(sandbox.call("agent-sh").args(["logs", "last"]));
        assert_eq!(logs.text(), "said\n", "{path}: {logs:?}");
        let ps = name(sandbox.call("agent-sh").args(["ps", "--json"]));
        let rows: Vec<Value> = serde_json::from_slice(&ps.stdout).unwrap();
        assert_eq!(rows.len(), 1, "{path}: {rows:#?}");
        assert!(rows[0]["degraded"].to_string().contains(path), "{rows:#?}");
        sandbox.assert_no_survivors();
    }
}

/// One that is only missing stands alone, however many directories have to be made for it.
#[test]
fn a_state_directory_that_will_be_made() {
    let sandbox = Sandbox::new();
    let kept = sandbox
        .call("agent-sh")
        .args(["run", "--wait", "--", "true"]);
    assert!(kept.env_remove("AGENT_SH_STATE").run().succeeded() || !stands_in());
    if !stands_in() {
        return;
    }
    let path = sandbox.path("work/some/where/else");
    let ps = || {
        let call = sandbox.call("agent-sh").args(["ps", "-a", "--json"]);
        let ended = call.env("AGENT_SH_STATE", &path).run();
        assert!(ended.errors().is_empty(), "{ended:?}");
        serde_json::from_slice::<Vec<Value>>(&ended.stdout)
            .unwrap()
            .len()
    };
    assert_eq!(ps(), 0);
    assert!(
        !sandbox.path("work/some").exists(),
        "a look made a directory"
    );
    let ran = sandbox
        .call("agent-sh")
        .args(["run", "--wait", "--", "true"]);
    assert!(ran.env("AGENT_SH_STATE", &path).run().succeeded());
    assert_eq!(ps(), 1);
}

/// A disk that its own command filled to the last byte: the end is told all the same, with true times and
/// byte counts, and the same by every verb.
#[test]
fn an_end_on_a_full_disk() {
    if !stands_in() {
        return;
    }
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let script = r#"
        mkdir "$AGENT_SH_STATE" && mount -t tmpfs -o size=256k,mode=0700 none "$AGENT_SH_STATE" || exit 99
        mkfifo gate
        "$1/bash" -c 'sh -c ": > mark; read x < gate; echo 12345678; exit 7" &
            until [ -e mark ]; do :; done; cat /dev/zero > "$AGENT_SH_STATE/fill" 2> errors; echo called' > said
        id=$("$1/agent-sh" ps --json | sed 's/.*"id":"\([^"]*\)".*/\1/')
        # What the supervisor left, if anything: a byte at a time.
        until ! printf x >> "$AGENT_SH_STATE/fill" 2>> errors; do :; done
        echo go > gate
        "$1/agent-sh" wait "$id" 2> waited; echo $? > status
        "$1/agent-sh" ps --json > ps
        "$1/agent-sh" show --json "$id" > show
        rm "$AGENT_SH_STATE/fill"
        "$1/agent-sh" show --json "$id" > later
    "#;
    let call = sandbox.unshare(&["--mount"]);
    let call = call.args(["bash", "-c", script, "x"]);
    let ended = call.arg(sandbox.path("links")).run();
    assert!(ended.succeeded(), "{ended:?}");
    let file = |name: &str| fs::read_to_string(sandbox.path("work").join(name)).unwrap();
    let json = |name: &str| serde_json::from_str::<Value>(&file(name)).unwrap();
    assert_eq!(
        (file("said"), file("status")),
        ("called\n".to_owned(), "7\n".to_owned())
    );
    let (row, show, later) = (
        &json("ps")[0],
        &json("show")["data"],
        &json("later")["data"],
    );
    assert_eq!(
        (&row["exit_code"], &show["exit_code"]),
        (&7.into(), &7.into())
    );
    assert_eq!(row["degraded"], show["degraded"], "{row:#} {show:#}");
    assert_eq!(
        (&row["bytes_total"], &show["output"]["bytes_total"]),
        (&9.into(), &9.into())
    );
    let output = &show["output"];
    let lost = output["bytes_total"].as_u64().unwrap() - output["bytes_kept"].as_u64().unwrap();
    assert_eq!(output["dropped_bytes"], lost, "{output}");
    // Who looks later, or when there is room again, does not see another end.
    for key in ["exit_code", "ended_at", "duration_ms", "output"] {
        assert_eq!(show[key], later[key], "{key}");
    }
    assert_eq!(row["ended_at"], show["ended_at"]);
    sandbox.assert_no_survivors();
}

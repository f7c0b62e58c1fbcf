//! `ps` and `show`.

use std::io::{Read, Write};

use nix::sys::signal::Signal;

use super::{ended, running};
use crate::support::{Sandbox, Status, Streams, ps_json, signal, wait_until};

#[test]
fn one_session_or_all_and_the_newest_last() {
    let sandbox = Sandbox::new();
    let first = running(&sandbox, &["--session", "one"]);
    let second = running(&sandbox, &["--session", "two", "--name", "web"]);
    let ids = |args: &[&str]| {
        let call = sandbox.call("agent-sh").args(["ps", "--quiet"]).args(args);
        let ended = call.run();
        assert!(ended.succeeded(), "{ended:?}");
        let text = ended.text();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), [first.clone(), second.clone()]);
    assert_eq!(ids(&["--session", "two"]).concat(), second);
    assert_eq!(ids(&["--session", "none"]), [""; 0]);
    let own = sandbox
        .call("agent-sh")
        .args(["ps", "-q"])
        .env("AGENT_SH_SESSION", "one");
    assert_eq!(own.run().text(), format!("{first}\n"));
    let own = sandbox
        .call("agent-sh")
        .args(["ps", "-A", "-q"])
        .env("AGENT_SH_SESSION", "one");
    assert_eq!(own.run().text(), format!("{first}\n{second}\n"));
    let table = sandbox.agent_sh(["ps"]).text();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("STATE ") && lines[0].contains(" SESSION "));
    assert!(lines[1].contains(&first) && lines[2].contains("(web) sleep 600"));
    assert!(!table.contains('\u{1b}'), "{table:?}");
    sandbox.agent_sh(["kill", "web", &first]);
}

#[test]
fn old_ends_are_shown_only_with_all() {
    let sandbox = Sandbox::new();
    let id = ended(&sandbox, 0);
    // Two hours ago, in the record and on the file.
    let path = sandbox.state().join("v1/jobs").join(&id).join("exit.json");
    let mut record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let time = record["time"].as_str().unwrap().to_owned();
    let then = humantime::parse_rfc3339(&time).unwrap() - std::time::Duration::from_secs(7200);
    record["time"] = humantime::format_rfc3339_millis(then).to_string().into();
    record["data"]["ended_at"] = record["time"].clone();
    std::fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
    let ps = |args: &[&str]| sandbox.call("agent-sh").args(["ps", "-q"]).args(args).run();
    assert_eq!(ps(&[]).text(), "");
    assert_eq!(ps(&["-a"]).text(), format!("{id}\n"));
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(then).unwrap();
    assert_eq!(ps(&[]).text(), "");
    assert_eq!(ps(&["-a"]).text(), format!("{id}\n"));
    let none = sandbox.agent_sh(["ps"]);
    assert!(
        none.succeeded() && none.errors().contains("ps --all"),
        "{none:?}"
    );
    let json = sandbox.agent_sh(["ps", "--json"]);
    assert_eq!((json.succeeded(), json.text().as_str()), (true, "[]\n"));
}

/// Every key of the contract, for a job that runs and for one that ended.
#[test]
fn json_has_every_key() {
    let sandbox = Sandbox::new();
    let done = ended(&sandbox, 7);
    let runs = running(&sandbox, &[]);
    let rows = ps_json(&sandbox);
    let keys = "id state exit_code signal pid command how session harness cwd started_at ended_at duration_ms \
        transcript redirected_to redirected_stderr bytes_total degraded";
    for row in &rows {
        for key in keys.split_whitespace() {
            assert!(row.get(key).is_some(), "{key} is missing: {row:#}");
        }
    }
    assert_eq!((rows.len(), &rows[0]["id"]), (2, &done.clone().into()));
    assert_eq!(
        (&rows[0]["exit_code"], &rows[0]["state"]),
        (&7.into(), &"exited".into())
    );
    assert!(rows[1]["exit_code"].is_null() && rows[1]["ended_at"].is_null());
    // A list and a single look must say the same.
    let record = sandbox.agent_sh(["show", &done, "--json"]);
    let record: serde_json::Value = serde_json::from_slice(&record.stdout).unwrap();
    for key in [
        "command",
        "cwd",
        "how",
        "session",
        "started_at",
        "ended_at",
        "duration_ms",
    ] {
        let wanted = match key {
            "command" => &record["data"]["command"]["text"],
            key => &record["data"][key],
        };
        assert_eq!(&rows[0][key], wanted, "{key}");
    }
    assert_eq!(record["data"]["output"]["path"], rows[0]["transcript"]);
    let launch = sandbox.agent_sh(["show", &runs, "--json"]);
    let launch: serde_json::Value = serde_json::from_slice(&launch.stdout).unwrap();
    assert_eq!(launch["launch"]["id"], runs.as_str());
    sandbox.agent_sh(["kill", &runs]);
}

#[test]
fn colours_only_where_they_are_wanted() {
    let sandbox = Sandbox::new();
    ended(&sandbox, 0);
    let ps = |pairs: &[(&str, &str)]| {
        let call = sandbox
            .call("agent-sh")
            .args(["ps"])
            .streams(Streams::Terminal);
        let call = pairs
            .iter()
            .fold(call, |call, (name, value)| call.env(*name, *value));
        let ended = call.run();
        assert!(ended.succeeded(), "{ended:?}");
        ended.text().contains("\u{1b}[32mexited")
    };
    assert!(ps(&[("TERM", "xterm")]));
    assert!(!ps(&[("TERM", "dumb")]));
    assert!(!ps(&[]));
    assert!(!ps(&[("TERM", "xterm"), ("NO_COLOR", "1")]));
    assert!(!ps(&[("TERM", "xterm"), ("CLICOLOR", "0")]));
}

/// In place on a terminal, and out by Ctrl-C with the screen as it was.
#[test]
fn watching_on_a_terminal() {
    let sandbox = Sandbox::new();
    let id = running(&sandbox, &[]);
    let call = sandbox
        .call("agent-sh")
        .args(["ps", "--watch"])
        .env("TERM", "xterm")
        .streams(Streams::Terminal)
        .start();
    let (mut child, mut screen) = call.into_stdout();
    let mut seen = Vec::new();
    let mut read_until = |what: &str| {
        wait_until(what, || {
            let mut bytes = [0; 4096];
            let count = screen.read(&mut bytes).unwrap_or(0);
            seen.extend_from_slice(&bytes[..count]);
            String::from_utf8_lossy(&seen).contains(what)
        });
    };
    read_until(&format!("running\u{1b}[0m  {id}"));
    let other = ended(&sandbox, 4);
    read_until(&other);
    sandbox.agent_sh(["kill", &id]);
    read_until("signaled");
    screen.write_all(b"\x03").unwrap();
    let status = crate::support::exit_of(&mut child);
    assert_eq!(status, Status::Exited(0));
    let mut rest = Vec::new();
    // The end of a terminal is an error.
    let _hung_up = screen.read_to_end(&mut rest);
    seen.extend(rest);
    let text = String::from_utf8_lossy(&seen);
    assert!(text.starts_with("\u{1b}[?1049h"), "{text:?}");
    assert!(text.trim_end().ends_with("\u{1b}[?1049l"), "{text:?}");
}

/// Where there is no terminal the list is printed again when it changed, and a reader that leaves ends it.
#[test]
fn watching_through_a_pipe() {
    let sandbox = Sandbox::new();
    let first = ended(&sandbox, 0);
    let call = sandbox
        .call("agent-sh")
        .args(["ps", "--watch", "--json"])
        .start();
    let pid = call.pid();
    let (mut child, out) = call.into_stdout();
    let mut lines = std::io::BufReader::new(out);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
    assert!(line.contains(&first), "{line}");
    let second = ended(&sandbox, 1);
    while !line.contains(&second) || !line.contains("\"exit_code\":1") {
        line.clear();
        let count = std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
        assert!(count > 0, "it ended");
        let rows: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(rows[0]["id"], first.as_str());
    }
    drop(lines);
    let status = crate::support::exit_of(&mut child);
    assert!(
        matches!(status, Status::Exited(0) | Status::Signaled(13)),
        "{status:?}"
    );
    signal(pid, Signal::SIGKILL);
}

//! Clean text, from the end, since when, as JSON, as a recording.

use serde_json::Value;

use super::{ended_job, job_that_writes, sandbox, text_of};
use crate::support::{Status, holds_within};

#[test]
fn what_a_person_saw() {
    let Some(sandbox) = sandbox() else { return };
    let bar: String = (0..=100)
        .map(|n| format!("\r{n:3}% [{:<50}]", "#".repeat(n / 2)))
        .collect();
    let long = "a long line that no terminal breaks, ".repeat(30);
    let bytes = format!(
        "begin\n{bar}\n{long}\n\ttab and trail  \n\x1b[32mgreen\x1b[m\na: 1\nb: 1\n\x1b[2Aa: 2\x1b[K\nb: 2\x1b[K\nend"
    );
    job_that_writes(&sandbox, "x", bytes.as_bytes());
    let full = format!("100% [{}]", "#".repeat(50));
    let wanted = [
        "begin",
        &full,
        &long,
        "\ttab and trail  ",
        "green",
        "a: 2",
        "b: 2",
        "end",
    ];
    let shown = text_of(&sandbox.agent_sh(["logs", "x"]));
    assert_eq!(shown.lines().collect::<Vec<_>>(), wanted);
    assert_eq!(
        sandbox.agent_sh(["logs", "x", "--raw"]).stdout,
        bytes.as_bytes()
    );
    let last = text_of(&sandbox.agent_sh(["logs", "x", "-n", "2"]));
    assert_eq!(last, "b: 2\nend\n");
    let found = text_of(&sandbox.agent_sh(["logs", "x", "--grep", "^[ab]: "]));
    assert_eq!(found, "a: 2\nb: 2\n");
    let found = text_of(&sandbox.agent_sh(["logs", "x", "--grep", ": ", "-n", "1"]));
    assert_eq!(found, "b: 2\n");
    let json = text_of(&sandbox.agent_sh(["logs", "x", "--json"]));
    let lines: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let lines: Vec<&str> = lines
        .iter()
        .map(|line| line["line"].as_str().unwrap())
        .collect();
    assert_eq!(lines, wanted);
    let screen = text_of(&sandbox.agent_sh(["logs", "x", "--screen"]));
    assert!(screen.ends_with("a: 2\nb: 2\nend\n"), "{screen:?}");
}

/// The last lines are the same however they are found, and are found without reading it all.
#[test]
fn the_last_lines_of_much() {
    let Some(sandbox) = sandbox() else { return };
    let many: String = (0..200_000).map(|n| format!("line {n}\n")).collect();
    job_that_writes(&sandbox, "x", many.as_bytes());
    for (count, first) in [("1", 199_999), ("10", 199_990), ("3000", 197_000)] {
        let last = text_of(&sandbox.agent_sh(["logs", "x", "-n", count]));
        assert_eq!(last.lines().next(), Some(format!("line {first}").as_str()));
        assert_eq!(last.lines().count().to_string(), count);
    }
    let all = text_of(&sandbox.agent_sh(["logs", "x", "-n", "300000"]));
    assert!(all == many);
    assert_eq!(text_of(&sandbox.agent_sh(["logs", "x", "-n", "0"])), "");
    let raw = sandbox.agent_sh(["logs", "x", "--raw", "-n", "2"]);
    assert_eq!(raw.stdout, b"line 199998\nline 199999\n");
}

/// What a full-screen program drew before the last bytes is not taken for text.
#[test]
fn the_last_lines_after_a_full_screen_program() {
    let Some(sandbox) = sandbox() else { return };
    let drawn: String = (0..20_000)
        .map(|n| format!("\x1b[{};1Hrow {n}\r\n", n % 24 + 1))
        .collect();
    let bytes = format!("before\n\x1b[?1049h{drawn}\x1b[?1049lafter\n");
    job_that_writes(&sandbox, "x", bytes.as_bytes());
    assert_eq!(text_of(&sandbox.agent_sh(["logs", "x"])), "before\nafter\n");
    assert_eq!(
        text_of(&sandbox.agent_sh(["logs", "x", "-n", "5"])),
        "before\nafter\n"
    );
}

#[test]
fn a_gap_is_one_line() {
    let Some(sandbox) = sandbox() else { return };
    let text = "seq -f 'number %.0f of many' 200000";
    let started = sandbox
        .call("agent-sh")
        .args(["run", "--name", "x", text])
        .env("AGENT_SH_TRANSCRIPT_CAP", "512K")
        .run();
    assert!(started.succeeded(), "{started:?}");
    sandbox.agent_sh(["wait", "x"]);
    let shown = text_of(&sandbox.agent_sh(["logs", "x"]));
    let gaps: Vec<&str> = shown
        .lines()
        .filter(|line| line.starts_with("[... "))
        .collect();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!(gaps[0].ends_with(" MiB left out ...]"), "{gaps:?}");
    assert!(shown.starts_with("number 1 of many\n"));
    assert!(shown.ends_with("number 200000 of many\n"));
    let raw = sandbox.agent_sh(["logs", "x", "--raw"]);
    assert!(!raw.text().contains("left out"));
    let json = text_of(&sandbox.agent_sh(["logs", "x", "--json"]));
    assert_eq!(
        json.lines()
            .filter(|line| line.contains("\"left_out\":"))
            .count(),
        1
    );
}

#[test]
fn since_when() {
    let Some(sandbox) = sandbox() else { return };
    ended_job(&sandbox, "x", "echo early; sleep 3; echo late");
    let shown = text_of(&sandbox.agent_sh(["logs", "x", "--since", "1h"]));
    assert_eq!(shown, "early\nlate\n");
    let started = std::time::Instant::now();
    let shown = text_of(&sandbox.agent_sh(["logs", "x", "--since", "2s"]));
    // On a machine that stood still for a second even the late line is old.
    assert!(
        shown == "late\n" || started.elapsed().as_secs() > 0,
        "{shown:?}"
    );
    holds_within(std::time::Duration::from_secs(3), || {
        sandbox
            .agent_sh(["logs", "x", "--since", "1s"])
            .stdout
            .is_empty()
    });
    assert_eq!(
        text_of(&sandbox.agent_sh(["logs", "x", "--since", "0"])),
        ""
    );
    assert_eq!(
        sandbox
            .agent_sh(["logs", "x", "--raw", "--since", "1h"])
            .stdout,
        b"early\nlate\n"
    );
}

#[test]
fn a_recording_for_players() {
    let Some(sandbox) = sandbox() else { return };
    ended_job(
        &sandbox,
        "x",
        "printf 'one\\n'; sleep 1; printf 'zw\\303'; sleep 1; printf '\\266lf\\377\\n'",
    );
    let cast = text_of(&sandbox.agent_sh(["logs", "x", "--cast"]));
    let mut lines = cast
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    assert_eq!(
        (&header["version"], &header["width"]),
        (&2.into(), &120.into())
    );
    assert!(
        header["timestamp"].as_u64().unwrap() > 1_600_000_000,
        "{header}"
    );
    assert!(
        header["command"].as_str().unwrap().starts_with("printf"),
        "{header}"
    );
    let events: Vec<Value> = lines.collect();
    let mut before = 0.0;
    let mut all = String::new();
    for event in &events {
        let time = event[0].as_f64().unwrap();
        assert!(time >= before, "{events:?}");
        before = time;
        assert_eq!(event[1], "o");
        all.push_str(event[2].as_str().unwrap());
    }
    assert_eq!(all, "one\r\nzwölf\u{fffd}\r\n");
    assert!(before >= 1.5, "the pauses are kept: {events:?}");
}

#[test]
fn contradictions_are_wrong_usage() {
    let Some(sandbox) = sandbox() else { return };
    for args in [
        ["logs", "x", "--raw", "--json"],
        ["logs", "x", "--raw", "--screen"],
        ["logs", "x", "--raw", "--cast"],
        ["logs", "x", "--screen", "--follow"],
        ["logs", "x", "--cast", "--follow"],
        ["logs", "x", "--raw", "--grep=a"],
        ["logs", "x", "--screen", "-n1"],
        ["logs", "x", "--cast", "--since=1s"],
        ["logs", "x", "--grep", "("],
        ["logs", "x", "--since", "soon"],
        ["wait", "x", "--any", "--all"],
        ["wait", "x", "--for-output=a", "--for-port=1"],
        ["wait", "x", "--idle=1s", "--for-port=1"],
        ["wait", "x", "--for-port", "0"],
        ["wait", "x", "--for-output", "*"],
    ] {
        let ended = sandbox.agent_sh(args);
        assert_eq!(ended.status, Status::Exited(2), "{args:?} {ended:?}");
        assert!(ended.errors().starts_with("agent-sh: "), "{ended:?}");
        assert!(ended.errors().contains("hint: "), "{ended:?}");
    }
    let unknown = sandbox.agent_sh(["logs", "x"]);
    assert_eq!(unknown.status, Status::Exited(125), "{unknown:?}");
    let unknown = sandbox.agent_sh(["wait", "x", "--for-output", "a"]);
    assert_eq!(unknown.status, Status::Exited(125), "{unknown:?}");
}

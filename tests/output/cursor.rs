//! `logs --cursor`: in portions, nothing twice and nothing left out.

use serde_json::Value;

use super::{ended_job, job, job_that_writes, sandbox, text_of};
use crate::support::{Ended, Sandbox, Status, wait_until};

/// The text of a portion, and where the next one begins.
#[track_caller]
fn portion(ended: &Ended) -> (String, String) {
    let text = text_of(ended);
    let talk = String::from_utf8(ended.stderr.clone()).unwrap();
    let last = talk.lines().last().unwrap_or_default();
    let cursor = last.strip_prefix("cursor: ");
    (
        text,
        cursor.unwrap_or_else(|| panic!("{ended:?}")).to_owned(),
    )
}

#[track_caller]
fn read(sandbox: &Sandbox, name: &str, cursor: &str) -> (String, String) {
    portion(&sandbox.agent_sh(["logs", name, "--cursor", cursor]))
}

/// Reads on until the text so far is what is wanted; gives the last cursor.
#[track_caller]
fn read_until(sandbox: &Sandbox, name: &str, cursor: &str, wanted: &str) -> String {
    let mut cursor = cursor.to_owned();
    let mut all = String::new();
    wait_until(&format!("{wanted:?} is read"), || {
        let (text, next) = read(sandbox, name, &cursor);
        all.push_str(&text);
        cursor = next;
        assert!(wanted.starts_with(&all), "{all:?}");
        all == wanted
    });
    cursor
}

#[test]
fn a_line_that_was_begun_is_continued() {
    let Some(sandbox) = sandbox() else { return };
    let (first, second) = (sandbox.gate(), sandbox.gate());
    let text = format!(
        "printf 'one\\ntwo\\nName? '; read -r x <{}; printf 'joe\\n\\033[1mbold\\033[0m\\n'; read -r x <{}; printf last",
        first.path(),
        second.path()
    );
    job(&sandbox, "x", &text);
    let cursor = read_until(&sandbox, "x", "0", "one\ntwo\nName? ");
    assert_eq!(
        read(&sandbox, "x", &cursor),
        (String::new(), cursor.clone())
    );
    first.release(1);
    let cursor = read_until(&sandbox, "x", &cursor, "joe\nbold\n");
    second.release(1);
    sandbox.agent_sh(["wait", "x"]);
    let (text, end) = read(&sandbox, "x", &cursor);
    assert_eq!(text, "last\n");
    assert_eq!(read(&sandbox, "x", &end), (String::new(), end.clone()));
    // Another question to the same portion has the same answer.
    assert_eq!(read(&sandbox, "x", &cursor), (text, end));
    let (all, _) = read(&sandbox, "x", "0");
    assert_eq!(all, text_of(&sandbox.agent_sh(["logs", "x"])));
}

#[test]
fn what_is_drawn_again_is_told_as_it_stands() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let text = format!(
        "printf 'a: 1\\nb: 1\\n 10%%'; read -r x <{}; printf '\\r100%%\\n\\033[3Aa: 2\\033[K\\033[3B'",
        gate.path()
    );
    job(&sandbox, "x", &text);
    let cursor = read_until(&sandbox, "x", "0", "a: 1\nb: 1\n 10%");
    gate.release(1);
    sandbox.agent_sh(["wait", "x"]);
    let (text, _) = read(&sandbox, "x", &cursor);
    // The bar has another line, and of the two above only the one that changed.
    assert!(
        text.contains("100%\n") && text.contains("a: 2\n"),
        "{text:?}"
    );
    assert!(!text.contains("b: 1"), "{text:?}");
}

#[test]
fn bounded_portions_add_up() {
    let Some(sandbox) = sandbox() else { return };
    let many: String = (0..2000).map(|n| format!("line {n} é\n")).collect();
    job_that_writes(
        &sandbox,
        "x",
        format!("{many}{}", "y".repeat(5000)).as_bytes(),
    );
    let whole = text_of(&sandbox.agent_sh(["logs", "x"]));
    let (mut all, mut cursor, mut portions) = (String::new(), "start".to_owned(), 0);
    loop {
        let ended = sandbox.agent_sh(["logs", "x", "--cursor", &cursor, "--limit", "1K"]);
        let (text, next) = portion(&ended);
        assert!(text.len() <= 1025, "{}", text.len());
        if text.is_empty() {
            assert_eq!(next, cursor);
            break;
        }
        all.push_str(&text);
        cursor = next;
        portions += 1;
    }
    assert_eq!(all, whole);
    assert!(portions > 20, "{portions}");
    let ended = sandbox.agent_sh(["logs", "x", "--cursor", "0", "--limit", "1K", "--raw"]);
    let (text, _) = portion(&ended);
    assert!(text.ends_with('\n') && many.starts_with(&text), "{text:?}");
}

#[test]
fn json_says_what_is_complete_and_what_is_left() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let text = format!("printf 'one\\n> '; read -r x <{}; echo go", gate.path());
    job(&sandbox, "x", &text);
    let objects = |cursor: &str, limit: &str| -> Vec<Value> {
        let ended = sandbox.agent_sh(["logs", "x", "--json", "--cursor", cursor, "--limit", limit]);
        let text = text_of(&ended);
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    wait_until("the prompt is there", || objects("0", "1M").len() == 3);
    let all = objects("0", "1M");
    assert_eq!(all[0], serde_json::json!({"line": "one"}));
    assert_eq!(
        all[1],
        serde_json::json!({"line": "> ", "unfinished": true})
    );
    assert_eq!(all[2]["more"], false);
    let again = objects(all[2]["cursor"].as_str().unwrap(), "1M");
    assert_eq!(again, [all[2].clone()]);
    let first = objects("0", "5");
    assert_eq!((first.len(), &first[1]["more"]), (2, &Value::Bool(true)));
    gate.release(1);
    sandbox.agent_sh(["wait", "x"]);
    let rest = objects(all[2]["cursor"].as_str().unwrap(), "1M");
    assert_eq!(
        rest[0],
        serde_json::json!({"line": "go", "continued": true})
    );
}

#[test]
fn redirected_streams_have_their_own_places() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let text = format!(
        "exec >out.log 2>err.log; echo o1; echo e1 >&2; read -r x <{}; echo o2; echo e2 >&2",
        gate.path()
    );
    let started = sandbox
        .call("bash")
        .args([
            "-c",
            &format!("nohup sh -c '{text}' >out.log 2>err.log </dev/null &"),
        ])
        .run();
    assert!(started.succeeded(), "{started:?}");
    let cursor = read_until(&sandbox, "last", "0", "o1\ne1\n");
    gate.release(1);
    sandbox.agent_sh(["wait", "last"]);
    let (text, _) = read(&sandbox, "last", &cursor);
    assert_eq!(text, "o2\ne2\n");
}

/// A log that was rotated away has other bytes at the offset that was read up to.
#[test]
fn a_file_that_was_truncated_is_read_from_its_beginning() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let text = format!(
        "echo long before; read -r x <{}; : >out.log; echo new",
        gate.path()
    );
    let started = sandbox
        .call("bash")
        .args([
            "-c",
            &format!("nohup sh -c '{text}' >>out.log 2>&1 </dev/null &"),
        ])
        .run();
    assert!(started.succeeded(), "{started:?}");
    let cursor = read_until(&sandbox, "last", "0", "long before\n");
    gate.release(1);
    sandbox.agent_sh(["wait", "last"]);
    let (text, cursor) = read(&sandbox, "last", &cursor);
    assert_eq!(text, "new\n");
    assert_eq!(read(&sandbox, "last", &cursor).0, "");
}

/// What the transcript no longer holds is a gap, not silence.
#[test]
fn what_was_dropped_meanwhile_is_told() {
    let Some(sandbox) = sandbox() else { return };
    let gate = sandbox.gate();
    let text = format!(
        "echo begin; read -r x <{}; seq 1 200000; echo end",
        gate.path()
    );
    let started = sandbox
        .call("agent-sh")
        .env("AGENT_SH_TRANSCRIPT_CAP", "64K")
        .args(["run", "--name", "x", &text])
        .run();
    assert!(started.succeeded(), "{started:?}");
    let cursor = read_until(&sandbox, "x", "0", "begin\n");
    gate.release(1);
    sandbox.agent_sh(["wait", "x"]);
    let (text, _) = read(&sandbox, "x", &cursor);
    assert!(
        text.contains("left out") && text.ends_with("end\n"),
        "{text}"
    );
    let middle = format!("{}.t60000", cursor.split('.').next().unwrap());
    let (text, _) = read(&sandbox, "x", &middle);
    assert!(
        text.starts_with("[... ") && text.ends_with("end\n"),
        "{text}"
    );
}

#[test]
fn wrong_cursors_are_refused() {
    let Some(sandbox) = sandbox() else { return };
    ended_job(&sandbox, "x", "echo one");
    ended_job(&sandbox, "y", "echo two");
    let (_, cursor) = read(&sandbox, "x", "0");
    for (job, wrong, said) in [
        ("y", cursor.as_str(), "belongs to job"),
        ("x", "zz", "no cursor"),
        ("x", "", "no cursor"),
        ("x", "-1", "cursor"),
    ] {
        let ended = sandbox.agent_sh(["logs", job, "--cursor", wrong]);
        assert_eq!(ended.status, Status::Exited(2), "{ended:?}");
        let talk = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(talk.contains(said), "{wrong}: {talk}");
    }
    let ended = sandbox.agent_sh(["logs", "x", "--limit", "1K"]);
    assert_eq!(ended.status, Status::Exited(2), "{ended:?}");
}

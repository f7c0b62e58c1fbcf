use super::*;
use crate::job::{Evidence, LostReason, Observer};

fn facts(outcome: Outcome, ended: Moment) -> ExitFacts {
    ExitFacts::new(outcome, Observer::Supervisor, Evidence::WaitId, ended)
}

fn writer(boot_id: &str) -> Writer {
    Writer {
        uid: 1000,
        pid: 1,
        boot_id: boot_id.to_owned(),
        timens: 0,
        now: (SystemTime::UNIX_EPOCH, Duration::ZERO),
        transcript: Some("/a b/ü".to_owned()),
        durability: Durability::Disk,
    }
}

fn launch() -> Launch {
    let mut launch = unknown_launch("7f3k".parse().unwrap());
    launch.facts.started_at = "2026-01-01T00:00:10.000Z".to_owned();
    launch.started_boot_ms = 5_000;
    launch.facts.proc.boot_id = "b".to_owned();
    launch
}

#[test]
fn durations_never_are_negative_and_use_the_clock_that_can_tell() {
    let at = |text: &str| humantime::parse_rfc3339(text).unwrap();
    let early = at("2025-01-01T00:00:00Z");
    let late = at("2026-01-01T00:00:11Z");
    for (boot_id, wall, boot_ms, clock, duration) in [
        ("b", early, 6_500, "boottime", 1_500),
        ("b", late, 4_000, "boottime", 0),
        ("other", late, 4_000, "wall", 1_000),
        ("other", early, 9_000, "wall", 0),
    ] {
        let ended = (wall, Duration::from_millis(boot_ms));
        let record = terminal_event(
            &launch(),
            &facts(Outcome::Exited(0), ended),
            &writer(boot_id),
        );
        assert_eq!(
            (record.data.clock.as_str(), record.data.duration_ms),
            (clock, Some(duration))
        );
    }
}

#[test]
fn an_end_that_nobody_saw_has_no_time() {
    let noticed = (SystemTime::UNIX_EPOCH, Duration::from_secs(9));
    let mut facts = facts(Outcome::Exited(7), noticed);
    facts.end_unseen = true;
    facts.output.missing_since = Some(SystemTime::UNIX_EPOCH);
    let record = terminal_event(&launch(), &facts, &writer("b"));
    let data = &record.data;
    assert_eq!((data.exit_code, &data.ended_at), (Some(7), &None));
    assert_eq!(data.duration_ms, None);
    assert_eq!(record.time, "1970-01-01T00:00:00.000Z");
    let since = data.output.missing_since.as_deref();
    assert_eq!(since, Some("1970-01-01T00:00:00.000Z"));
}

#[test]
fn an_event_by_the_contract() {
    let mut launch = launch();
    let ended = (SystemTime::UNIX_EPOCH, Duration::ZERO);
    let lost = Outcome::Lost(LostReason::Reboot);
    let record = terminal_event(&launch, &facts(lost.clone(), ended), &writer("c"));
    assert_eq!(record.id, "7f3k.exit");
    assert_eq!(record.kind, "dev.agent-sh.job.exited.v1");
    assert_eq!(record.dataref.as_deref(), Some("file:///a%20b/%C3%BC"));
    assert_eq!(
        (record.data.exit_code, record.data.ended_at.as_ref()),
        (None, None)
    );
    assert_eq!(record.outcome(), lost);
    launch.facts.how = How::Foreground;
    let killed = Outcome::Signaled {
        signal: 15,
        core: false,
    };
    let record = terminal_event(&launch, &facts(killed.clone(), ended), &writer("b"));
    assert_eq!(record.kind, "dev.agent-sh.command.killed.v1");
    assert_eq!((record.data.exit_code, record.outcome()), (None, killed));
    assert_eq!(record.slim().id, record.id);
}

#[test]
fn commands_are_bounded_and_redacted() {
    let hash = |text: &[u8]| format!("{:02}", text.len());
    let full = CommandText::new(b"TOKEN=abc run", RecordCommand::Full, hash);
    assert_eq!(
        (full.text.as_str(), full.redacted),
        ("TOKEN=abc run", false)
    );
    let safe = CommandText::new(b"TOKEN=abc run", RecordCommand::Redacted, hash);
    assert_eq!(
        (safe.text.as_str(), safe.redacted, safe.truncated),
        ("TOKEN=*** run", true, false)
    );
    assert_eq!(safe.sha256, full.sha256);
    let long = CommandText::new(&[0xff; 200_000], RecordCommand::Redacted, hash);
    assert!(long.truncated && long.text.len() <= LONGEST_COMMAND);
    assert_eq!(
        CommandText::new(b"x", RecordCommand::Full, hash).sha256,
        "01"
    );
}

#[test]
fn any_time_has_a_name() {
    let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
    assert_eq!(rfc3339(far), "9999-12-31T23:59:59.000Z");
    assert_eq!(
        rfc3339(SystemTime::UNIX_EPOCH - Duration::from_secs(9)),
        "1970-01-01T00:00:00.000Z"
    );
}

/// Other programs may rely on the schema to refuse what is none of our records.
#[test]
fn what_is_no_record_does_not_fit_the_schema() {
    let schema = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let ended = (SystemTime::UNIX_EPOCH, Duration::ZERO);
    let record = terminal_event(&launch(), &facts(Outcome::Exited(0), ended), &writer("b"));
    let record = record.to_value();
    assert!(validator.is_valid(&record), "{record:#}");
    for (pointer, wrong) in [
        ("/specversion", Value::from("2.0")),
        ("/id", "7f3k".into()),
        ("/id", "7F3K.exit".into()),
        ("/source", "urn:other:x:1".into()),
        ("/type", "dev.agent-sh.job.started.v1".into()),
        ("/subject", "../7f3k".into()),
        ("/time", "2026-01-01T00:00:10Z".into()),
        ("/recordedtime", Value::Null),
        ("/dataref", "/a".into()),
        ("/dataref", Value::Null),
        ("/sequence", "12".into()),
        ("/data/schema", 2.into()),
        ("/data/job", "".into()),
        ("/data/state", "running".into()),
        ("/data/state", "signaled".into()),
        ("/data/exit_code", 256.into()),
        ("/data/exit_code", Value::Null),
        ("/data/signal", 9.into()),
        ("/data/core", true.into()),
        ("/data/reason", "reboot".into()),
        ("/data/evidence", Value::Null),
        ("/data/kill_requested", serde_json::json!({ "by": "cli" })),
        (
            "/data/killed_by",
            serde_json::json!({ "signal": 9, "pid": 1 }),
        ),
        ("/data/command", "text".into()),
        ("/data/command/sha256", "0".into()),
        ("/data/how", "fork".into()),
        ("/data/session", 1.into()),
        ("/data/cwd", Value::Null),
        ("/data/started_at", "now".into()),
        ("/data/ended_at", "now".into()),
        ("/data/duration_ms", (-1).into()),
        ("/data/clock", "sundial".into()),
        ("/data/proc/pid", "1".into()),
        ("/data/output/bytes_total", (-1).into()),
        ("/data/output/missing_since", "then".into()),
        ("/data/rusage", serde_json::json!({})),
        ("/data/left_running", serde_json::json!(["no id"])),
        ("/data/degraded", serde_json::json!([1])),
        ("/data/durability", "none".into()),
        (
            "/data/untrusted_output_tail",
            "x".repeat(LONGEST_TAIL + 1).into(),
        ),
        ("/data/writer/pid", Value::Null),
    ] {
        let mut changed = record.clone();
        *changed.pointer_mut(pointer).unwrap() = wrong;
        assert!(!validator.is_valid(&changed), "{pointer}: {changed:#}");
    }
    for (place, later) in [
        ("", &["dataref"][..]),
        ("/data", &["redirected_stderr", "during_call"]),
        ("/data/output", &["missing_since"]),
        ("/data/command", &[]),
        ("/data/proc", &[]),
        ("/data/writer", &[]),
    ] {
        let names = record.pointer(place).unwrap().as_object().unwrap().keys();
        for name in names {
            let mut changed = record.clone();
            let object = changed.pointer_mut(place).unwrap().as_object_mut();
            object.unwrap().shift_remove(name);
            let fits = validator.is_valid(&changed);
            assert_eq!(
                fits,
                later.contains(&name.as_str()),
                "without {place}/{name}"
            );
        }
    }
}

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

//! A job from its start to its record; what the record and the rows hold.

use super::*;
use crate::job::{Degraded, Evidence, KillCause, Observer};

#[test]
fn a_job_from_start_to_end() {
    let (_keep, store) = store();
    let mut job = store.create_job(draft()).unwrap();
    let id = job.id().clone();
    let running = view(&store, &id);
    assert_eq!(
        (running.state, running.record.is_none()),
        (State::Running, true)
    );
    assert!(running.degraded.is_empty());
    assert_eq!(running.exit_code(), None);
    job.preallocate();
    job.sync().unwrap();
    job.transcript().write(b"hello\n");
    job.set_stopped(Some(libc::SIGTTIN));
    assert_eq!(view(&store, &id).state, State::Stopped);
    job.set_stopped(None);
    assert_eq!(view(&store, &id).state, State::Running);
    assert_eq!(view(&store, &id).bytes_total(), 6);
    let mut facts = exited(3);
    facts.output = job.transcript().facts();
    facts.tail = Some("hello\n\u{1b}[31m".to_owned());
    job.commit(&facts).unwrap();
    let ended = view(&store, &id);
    assert_eq!((ended.state, ended.exit_code()), (State::Exited, Some(3)));
    let record = ended.record.as_ref().unwrap();
    assert_eq!(record.id, format!("{id}.exit"));
    assert_eq!(record.data.tail.as_deref(), Some("hello\n"));
    assert_eq!(records(&store, &id), ["exit.json"]);
    assert_eq!(ended.tail(3), b"lo\n");
    // A second commit of the same owner changes nothing.
    job.commit(&exited(9)).unwrap();
    assert_eq!(view(&store, &id).exit_code(), Some(3));
}

#[test]
fn every_record_fits_the_schema() {
    let schema = serde_json::from_str(crate::job::record::SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let (_keep, store) = store();
    let mut seen = Vec::new();
    let outcomes = [
        Outcome::Exited(0),
        Outcome::Exited(255),
        Outcome::Signaled {
            signal: 9,
            core: false,
        },
        Outcome::Signaled {
            signal: 11,
            core: true,
        },
        Outcome::Lost(LostReason::StatusUnseen),
    ];
    for (how, outcome) in How::ALL
        .iter()
        .flat_map(|how| outcomes.iter().map(move |o| (*how, o)))
    {
        let mut draft = draft();
        draft.facts.how = how;
        draft.facts.session = Some("s 1".to_owned());
        draft.facts.name = Some("web".to_owned());
        draft.facts.redirected_to = Some("/tmp/log".to_owned());
        draft.facts.degraded = vec![Degraded::NoPty];
        let mut job = store.create_job(draft).unwrap();
        let mut facts = ExitFacts::new(
            outcome.clone(),
            Observer::Supervisor,
            Evidence::WaitId,
            moment(),
        );
        facts.rusage = Some(Usage {
            user_ms: 1,
            sys_ms: 2,
            max_rss_kib: 3,
        });
        facts.tail = Some("x\"\\\u{202e}é".repeat(1000));
        facts.killed_by = Some(KilledBy {
            signal: 9,
            pid: 1,
            program: None,
        });
        facts.kill_requested = Some(KillIntent {
            by: KillCause::User,
            signal: 15,
            at: "now".to_owned(),
            session: None,
        });
        facts.left_running = vec![job.id().clone()];
        job.commit(&facts).unwrap();
        seen.push(job.id().clone());
    }
    seen.push(abandoned(&store, draft()));
    let rebooted = abandoned(&store, draft());
    edit_run(&store, &rebooted, |run| run["proc"]["boot_id"] = "x".into());
    seen.push(rebooted);
    let unreadable = abandoned(&store, draft());
    std::fs::write(job_dir(&store, &unreadable).join("run.json"), "{").unwrap();
    seen.push(unreadable);
    for id in seen {
        let view = view(&store, &id);
        let bytes = std::fs::read(view.dir.join("exit.json")).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        if let Err(error) = validator.validate(&value) {
            panic!("{error}\n{value:#}");
        }
        assert_eq!(view.record.as_ref().unwrap().to_value(), value);
    }
    assert!(validator.validate(&serde_json::json!({})).is_err());
}

#[test]
fn unknown_fields_survive() {
    let (_keep, store) = store();
    let id = abandoned(&store, draft());
    edit_run(&store, &id, |run| run["colour"] = "blue".into());
    let view = view(&store, &id);
    assert_eq!(view.launch.extra["colour"], "blue");
    let path = view.dir.join("exit.json");
    let mut value: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    value["data"]["mood"] = "fine".into();
    value["extension"] = 1.into();
    std::fs::write(&path, value.to_string()).unwrap();
    assert_eq!(
        store.load(&id).unwrap().unwrap().record.unwrap().to_value(),
        value
    );
}

#[test]
fn a_row_has_every_key_of_the_contract() {
    let (_keep, store) = store();
    let mut job = store.create_job(draft()).unwrap();
    let id = job.id().clone();
    let keys = "id state exit_code signal pid command how session harness cwd started_at ended_at \
        duration_ms transcript redirected_to bytes_total degraded";
    let check = |row: &serde_json::Value| {
        for key in keys.split_whitespace() {
            assert!(row.get(key).is_some(), "{key}");
        }
    };
    let row = view(&store, &id).to_row_json();
    check(&row);
    assert_eq!(
        (&row["state"], &row["exit_code"], &row["ended_at"]),
        (
            &"running".into(),
            &serde_json::Value::Null,
            &serde_json::Value::Null
        )
    );
    assert!(row["duration_ms"].is_u64() && row["pid"].is_i64());
    assert_eq!(row["command"], "npm run dev");
    job.commit(&exited(4)).unwrap();
    let row = view(&store, &id).to_row_json();
    check(&row);
    assert_eq!(
        (&row["state"], &row["exit_code"]),
        (&"exited".into(), &4.into())
    );
    assert!(row["ended_at"].is_string() && Path::new(row["transcript"].as_str().unwrap()).exists());
    let lost = abandoned(&store, draft());
    std::fs::write(job_dir(&store, &lost).join("run.json"), "no json").unwrap();
    check(&view(&store, &lost).to_row_json());
}

#[test]
fn ids_that_are_taken_are_not_used_twice() {
    let (_keep, store) = store();
    let mut ids = std::collections::HashSet::new();
    let mut draft = draft();
    // All in the same three seconds: the birthday paradox makes collisions in the random half likely.
    draft.started = Some((std::time::UNIX_EPOCH, Duration::ZERO));
    for _ in 0..400 {
        assert!(ids.insert(abandoned(&store, draft.clone())));
    }
    assert_eq!(store.ids().unwrap().len(), 400);
    assert!(fsx::names(store.tmp.as_ref().unwrap()).unwrap().is_empty());
}

#[test]
fn the_first_wish_to_kill_is_the_cause() {
    let (_keep, store) = store();
    let mut job = store.create_job(draft()).unwrap();
    assert_eq!(job.kill_intent(&Outcome::Exited(0)), None);
    let seen = view(&store, job.id());
    let wish = |by: KillCause| KillIntent {
        by,
        signal: 15,
        at: "2026-01-01T00:00:00.000Z".to_owned(),
        session: None,
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| seen.request_kill(&wish(KillCause::User)).unwrap());
        }
    });
    seen.request_kill(&wish(KillCause::Agent)).unwrap();
    assert_eq!(
        job.kill_intent(&Outcome::Exited(0)),
        Some(wish(KillCause::User))
    );
    std::fs::write(job.dir().join("kill.1.json"), "{").unwrap();
    assert_eq!(
        job.kill_intent(&Outcome::Exited(0)),
        Some(wish(KillCause::User))
    );
    for _ in 0..100 {
        seen.request_kill(&wish(KillCause::User)).unwrap();
    }
    job.commit(&exited(0)).unwrap();
    drop(job);
    let other = store.create_job(draft()).unwrap();
    let id = other.id().clone();
    view(&store, &id)
        .request_kill(&wish(KillCause::User))
        .unwrap();
    give_up(other);
    assert_eq!(
        view(&store, &id).record.unwrap().data.kill_requested,
        Some(wish(KillCause::User))
    );
}

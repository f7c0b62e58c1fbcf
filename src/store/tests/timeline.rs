//! The order of events.

use super::*;

fn ended(store: &Store, code: u8) -> JobId {
    let mut job = store.create_job(draft()).unwrap();
    job.commit(&exited(code)).unwrap();
    job.id().clone()
}

/// What a reader with this cursor is told, and its next cursor.
fn told(stores: &[Store], cursor: Option<&str>) -> Vec<String> {
    let mut timeline = Timeline::default();
    timeline.refresh(stores).unwrap();
    assert_eq!(timeline.unkept, None);
    let from = cursor.map_or(0, |cursor| timeline.after(cursor).unwrap());
    timeline.ids()[from..].to_vec()
}

#[test]
fn a_cursor_misses_nothing_and_repeats_nothing() {
    let (_keep, store) = store();
    let stores = [store];
    let store = &stores[0];
    let mut slow = store.create_job(draft()).unwrap();
    let first = ended(store, 0);
    let seen = told(&stores, None);
    let start = format!("{}.start", slow.id());
    assert_eq!(
        seen,
        [start, format!("{first}.start"), format!("{first}.exit")]
    );
    // The clock goes back, and an end is found late: both come after the cursor all the same.
    let mut early = exited(1);
    early.ended.0 = std::time::SystemTime::UNIX_EPOCH;
    slow.commit(&early).unwrap();
    let lost = abandoned(store, draft());
    let cursor = seen.last().unwrap();
    let more = told(&stores, Some(cursor));
    let mut wanted = vec![
        format!("{}.exit", slow.id()),
        format!("{lost}.start"),
        format!("{lost}.exit"),
    ];
    assert_eq!(more.len(), 3, "{more:?}");
    let exit = more.iter().position(|id| *id == wanted[2]).unwrap();
    assert!(more[..exit].contains(&wanted[1]), "{more:?}");
    wanted.sort();
    let mut sorted = more.clone();
    sorted.sort();
    assert_eq!(sorted, wanted);
    assert!(told(&stores, more.last().map(String::as_str)).is_empty());
    // Each has its body, with the same id.
    for id in told(&stores, None) {
        let event = store.event(&id).unwrap();
        assert_eq!(event["id"], id.as_str());
        assert_eq!(event["specversion"], "1.0");
    }
    assert_eq!(store.event("../x.exit"), None);
    assert_eq!(store.event(&format!("{lost}.../run")), None);
}

/// Readers at once, while jobs start, end and are abandoned: each sees every event once, all in one order.
#[test]
fn readers_agree() {
    let (_keep, store) = store();
    let stores = [store];
    let store = &stores[0];
    let enough = 120;
    let lists: Vec<Vec<String>> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut all: Vec<String> = Vec::new();
                    while all.len() < enough {
                        all.extend(told(&stores, all.last().map(String::as_str)));
                    }
                    all
                })
            })
            .collect();
        scope.spawn(|| {
            for turn in 0..enough / 2 {
                if turn % 5 == 0 {
                    abandoned(store, draft());
                } else {
                    ended(store, 0);
                }
            }
        });
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .collect()
    });
    for list in &lists {
        assert_eq!(list, &lists[0]);
        let mut unique = list.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), enough);
    }
}

#[test]
fn more_events_of_a_job() {
    let (_keep, store) = store();
    let stores = [store];
    let store = &stores[0];
    let mut job = store.create_job(draft()).unwrap();
    let id = job.id().clone();
    let event = |kind: &str| serde_json::json!({"id": format!("{id}.{kind}"), "time": "2026-01-01T00:00:00.000Z", "data": {}});
    store.add_event(&id, "match-1", &event("match-1")).unwrap();
    let seen = told(&stores, None);
    assert_eq!(seen, [format!("{id}.start"), format!("{id}.match-1")]);
    job.commit(&exited(0)).unwrap();
    assert_eq!(told(&stores, Some(&seen[1])), [format!("{id}.exit")]);
    // Late, and twice.
    for _ in 0..2 {
        store.add_event(&id, "match-2", &event("match-2")).unwrap();
    }
    let more = told(&stores, Some(&format!("{id}.exit")));
    assert_eq!(more, [format!("{id}.match-2")]);
    assert_eq!(store.event(&more[0]).unwrap()["id"], more[0].as_str());
}

#[test]
fn an_index_that_was_cut_or_scribbled_on() {
    let (_keep, store) = store();
    let stores = [store];
    let store = &stores[0];
    let id = ended(store, 0);
    let before = told(&stores, None);
    let path = store.path().join("v1/events.index");
    let mut text = std::fs::read(&path).unwrap();
    text.extend(b"\xff\xfe nonsense\n-\n..\nhalf-a-li");
    std::fs::write(&path, &text).unwrap();
    assert_eq!(told(&stores, None), before);
    let next = ended(store, 0);
    let after = told(&stores, Some(&format!("{id}.exit")));
    assert_eq!(after, [format!("{next}.start"), format!("{next}.exit")]);
}

#[test]
fn removed_jobs_leave_their_place() {
    let (_keep, store) = store();
    let stores = [store];
    let store = &stores[0];
    let first = ended(store, 0);
    let all = told(&stores, None);
    let policy = Policy {
        keep: Duration::ZERO,
        max_bytes: 0,
        fresh: Duration::ZERO,
        dry_run: false,
    };
    assert_eq!(store.collect(&policy).unwrap().removed.len(), 1);
    let second = ended(store, 0);
    let after = told(&stores, all.last().map(String::as_str));
    assert_eq!(after, [format!("{second}.start"), format!("{second}.exit")]);
    assert_eq!(store.event(&format!("{first}.exit")), None);
    // A long history is cut, and a reader with an old place in it notices.
    let mut reader = Timeline::default();
    reader.refresh(&stores).unwrap();
    let many: Vec<JobId> = (0..160_000)
        .map(|n| crate::job::Serial::from_number(n).unwrap().id(7))
        .collect();
    store.bury(&many).unwrap();
    let size = std::fs::metadata(store.path().join("v1/events.index")).unwrap();
    assert!(size.len() < 600_000, "{}", size.len());
    assert!(reader.refresh(&stores).unwrap());
    assert_eq!(
        reader.after(&format!("{second}.exit")),
        Some(reader.ids().len())
    );
}

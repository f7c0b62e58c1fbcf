//! Taking jobs away.

use super::*;

#[test]
fn removal_and_sweeping() {
    let (_keep, store) = store();
    let mut job = store.create_job(draft()).unwrap();
    let id = job.id().clone();
    job.transcript().write(b"x");
    assert!(!store.remove(&id).unwrap());
    job.commit(&exited(0)).unwrap();
    assert!(store.remove(&id).unwrap());
    assert!(!store.remove(&id).unwrap());
    assert!(store.load(&id).unwrap().is_none());
    // The record stays a while for those who had the job open, and then goes too.
    let trash = || fsx::names(root::inner(&store.base, ".trash", false).unwrap()).unwrap();
    let [left] = &trash()[..] else {
        panic!("{:?}", trash())
    };
    let left = store.path().join("v1/.trash").join(left);
    let mut files: Vec<_> = std::fs::read_dir(left)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    files.sort();
    assert_eq!(files, ["exit.json", "run.json"]);
    // Young litter stays: it may be a job that is being made.
    std::fs::create_dir(store.path().join("v1/tmp/abc")).unwrap();
    assert_eq!((store.sweep().unwrap(), trash().len()), (0, 1));
    let hour = Duration::from_secs(3600);
    assert_eq!(store.sweep_after(hour, Duration::ZERO).unwrap(), 1);
    assert!(trash().is_empty());
    assert_eq!(
        store.sweep_after(Duration::ZERO, Duration::ZERO).unwrap(),
        1
    );
    let unjudged = abandoned(&store, draft());
    assert!(!store.remove(&unjudged).unwrap());
}

#[test]
fn waiters_and_removal_at_once() {
    let (_keep, store) = store();
    for _ in 0..20 {
        let mut job = store.create_job(draft()).unwrap();
        let id = job.id().clone();
        let seen = view(&store, &id);
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..10)
                .map(|_| scope.spawn(|| seen.wait(None).unwrap()))
                .collect();
            scope.spawn(|| while !store.remove(&id).unwrap() {});
            job.commit(&exited(2)).unwrap();
            for waiter in waiters {
                match waiter.join().unwrap() {
                    Waited::Ended(view) => assert_eq!(view.exit_code(), Some(2)),
                    Waited::Gone => {}
                    Waited::TimedOut => panic!("no deadline was given"),
                }
            }
        });
        assert!(store.load(&id).unwrap().is_none());
    }
}

#[test]
fn ten_thousand_jobs() {
    let dir = tempfile::tempdir_in(if Path::new("/dev/shm").exists() {
        "/dev/shm"
    } else {
        "/tmp"
    })
    .unwrap();
    let store = store_in(&dir.path().join("state"));
    let draft = draft();
    let start = Instant::now();
    for _ in 0..10_000 {
        let mut job = store.create_job(draft.clone()).unwrap();
        job.publish_exit(&exited(0)).unwrap();
    }
    let made = start.elapsed();
    let start = Instant::now();
    assert_eq!(store.jobs().unwrap().len(), 10_000);
    eprintln!(
        "10,000 jobs: made in {made:?}, listed in {:?}",
        start.elapsed()
    );
}

const FOR_EVER: Duration = Duration::from_secs(1 << 30);

fn policy(keep: Duration, max_bytes: u64) -> Policy {
    Policy {
        keep,
        max_bytes,
        fresh: Duration::ZERO,
        dry_run: false,
    }
}

/// An ended job that wrote this much.
fn ended(store: &Store, bytes: usize) -> JobId {
    let mut job = store.create_job(draft()).unwrap();
    job.transcript().write(&vec![b'x'; bytes]);
    job.commit(&exited(0)).unwrap();
    job.id().clone()
}

#[test]
fn only_what_ended_and_is_old_or_too_much_is_removed() {
    let (_keep, store) = store();
    let running = store.create_job(draft()).unwrap();
    let first = ended(&store, 200_000);
    let second = ended(&store, 200_000);
    let third = ended(&store, 200_000);
    // Nothing is old, nothing is too much.
    let done = store.collect(&policy(FOR_EVER, u64::MAX)).unwrap();
    assert_eq!((done.removed.len(), done.kept, done.running), (0, 4, 1));
    assert!(done.kept_bytes >= 600_000, "{}", done.kept_bytes);
    // The oldest goes first, and no more than needed.
    let mut trial = policy(FOR_EVER, 450_000);
    trial.dry_run = true;
    for dry in [true, false] {
        trial.dry_run = dry;
        let done = store.collect(&trial).unwrap();
        let removed: Vec<_> = done
            .removed
            .iter()
            .map(|removed| (removed.job.id().clone(), removed.why))
            .collect();
        assert_eq!(removed, [(first.clone(), Why::Large)], "dry: {dry}");
        assert_eq!(store.load(&first).unwrap().is_some(), dry);
    }
    // What is fresh is not removed for its size.
    let mut fresh = policy(FOR_EVER, 0);
    fresh.fresh = FOR_EVER;
    assert!(store.collect(&fresh).unwrap().removed.is_empty());
    // All that ended, and never what runs.
    let done = store.collect(&policy(Duration::ZERO, u64::MAX)).unwrap();
    assert_eq!((done.removed.len(), done.kept, done.running), (2, 1, 1));
    assert_eq!(store.jobs().unwrap()[0].id(), running.id());
    // Gone is not unknown.
    let stores = [store];
    for id in [&first, &second, &third] {
        let error = find(&stores, id.as_str(), None).unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error:?}");
    }
    let unknown = find(&stores, "zzzzzz", None).unwrap_err();
    assert!(matches!(unknown, Error::NoJob { .. }), "{unknown:?}");
}

#[test]
fn clearing_up_takes_turns() {
    let (_keep, store) = store();
    // Two hours ago, as far as its record tells.
    let old = |store: &Store| {
        let id = ended(store, 10);
        let path = job_dir(store, &id).join("exit.json");
        let mut record: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let then = moment().0 - Duration::from_secs(7200);
        record["recordedtime"] = crate::job::record::rfc3339(then).into();
        record["sequence"] = "unknown".into();
        std::fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
        id
    };
    let id = old(&store);
    let fresh = ended(&store, 10);
    let settings = Settings {
        keep: Duration::ZERO,
        ..Settings::default()
    };
    store.collect_if_due(&settings);
    assert!(store.load(&id).unwrap().is_none());
    assert!(store.load(&fresh).unwrap().is_some());
    // Within the hour nothing is looked at.
    let id = old(&store);
    store.collect_if_due(&settings);
    assert!(store.load(&id).unwrap().is_some());
    let mark = std::fs::File::options()
        .write(true)
        .open(store.path().join("v1/gc.last"))
        .unwrap();
    mark.set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    store.collect_if_due(&settings);
    assert!(store.load(&id).unwrap().is_none());
}

#[test]
fn those_who_wait_are_never_told_wrongly_while_all_is_removed() {
    let (_keep, store) = store();
    for code in 0..10 {
        let mut job = store.create_job(draft()).unwrap();
        let id = job.id().clone();
        let seen = view(&store, &id);
        let all_wait = std::sync::Barrier::new(51);
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..50)
                .map(|_| {
                    scope.spawn(|| {
                        all_wait.wait();
                        seen.wait(None).unwrap()
                    })
                })
                .collect();
            all_wait.wait();
            scope.spawn(|| {
                while store.load(&id).unwrap().is_some() {
                    store.collect(&policy(Duration::ZERO, 0)).unwrap();
                }
            });
            job.commit(&exited(code)).unwrap();
            for waiter in waiters {
                match waiter.join().unwrap() {
                    Waited::Ended(view) => assert_eq!(view.exit_code(), Some(code)),
                    Waited::Gone => {}
                    Waited::TimedOut => panic!("no deadline was given"),
                }
            }
        });
    }
}

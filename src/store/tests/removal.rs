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
    assert!(
        fsx::names(root::inner(&store.base, ".trash", false).unwrap())
            .unwrap()
            .is_empty()
    );
    // Young litter stays: it may be a job that is being made.
    std::fs::create_dir(store.path().join("v1/tmp/abc")).unwrap();
    assert_eq!(store.sweep().unwrap(), 0);
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

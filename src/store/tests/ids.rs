//! Ids that are used once, and who a store is.

use super::*;
use crate::job::Serial;

fn removed(store: &Store, id: &JobId) {
    assert!(store.remove(id).unwrap(), "{id}");
}

fn made(store: &Store) -> JobId {
    let mut job = store.create_job(draft()).unwrap();
    job.commit(&exited(0)).unwrap();
    job.id().clone()
}

#[test]
fn a_removed_id_never_comes_again() {
    let (_keep, store) = store();
    let mut seen = std::collections::HashSet::new();
    // Faster than the clock: without the floor the next one would get the same.
    for _ in 0..200 {
        let id = made(&store);
        assert!(seen.insert(id.clone()), "{id} came twice");
        removed(&store, &id);
    }
    // Another process reads the floor from the disk.
    let again = store_in(store.path());
    for _ in 0..50 {
        let id = made(&again);
        assert!(seen.insert(id.clone()), "{id} came twice");
        removed(&again, &id);
    }
}

#[test]
fn a_clock_that_went_back_gives_no_id_twice() {
    let (_keep, store) = store();
    let first = made(&store);
    // The clock was two days ahead when this one was made.
    let ahead = store.floor_for_tests(&first, 2 * 86_400);
    for _ in 0..20 {
        let id = made(&store);
        let serial = store.serial_for_tests(&id);
        assert!(serial > ahead, "{id}");
        removed(&store, &id);
    }
    // A floor that is no number, or beyond all numbers, is none.
    for bad in [
        "",
        "x",
        "99999999999999999999 99999999999999999999\n",
        "1 2\n",
    ] {
        std::fs::write(store.path().join("v1/floor"), bad).unwrap();
        made(&store);
    }
}

#[test]
fn what_an_older_version_gave_out_does_not_use_up_the_future() {
    let (_keep, store) = store();
    let id = made(&store);
    // As an older one would have made it: letters that read as a day to come, and no store in its launch.
    let future = store.serial_for_tests(&id).number() + 1000 * 29_791 * 362;
    let future = Serial::from_number(future - future % 362).unwrap();
    let old = future.id(store.own().shift());
    let jobs = store.path().join("v1/jobs");
    std::fs::rename(jobs.join(id.as_str()), jobs.join(old.as_str())).unwrap();
    for name in ["run.json", "exit.json"] {
        let path = jobs.join(old.as_str()).join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace(id.as_str(), old.as_str());
        let own = format!("\"store\":\"{}\",", store.own().id());
        std::fs::write(&path, text.replace(&own, "")).unwrap();
    }
    let view = view(&store, &old);
    assert_eq!(
        (view.state, view.launch.store.as_deref()),
        (State::Exited, None)
    );
    let event = store.event(&format!("{old}.start")).unwrap();
    let source = event["source"].as_str().unwrap();
    assert_eq!(source.matches(':').count(), 3, "the old source: {source}");
    removed(&store, &old);
    let next = made(&store);
    assert!(store.serial_for_tests(&next) < store.serial_for_tests(&old));
}

#[test]
fn a_thousand_at_once_get_a_thousand_ids() {
    let (_keep, store) = store();
    let all: Vec<JobId> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    // Each as a process of its own would: nothing is shared but the directory.
                    let mine = store_in(store.path());
                    let make = |_| mine.create_job(draft()).unwrap().id().clone();
                    (0..125).map(make).collect::<Vec<_>>()
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    let different: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!((all.len(), different.len()), (1000, 1000));
    assert!(all.iter().all(|id| (6..=8).contains(&id.as_str().len())));
}

#[test]
fn a_store_is_made_once_and_says_so_in_every_source() {
    let (_keep, store) = store();
    let path = store.path().join("v1/store");
    assert!(!path.exists(), "a reader makes nothing");
    let ids: std::collections::HashSet<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| store_in(store.path()).own().id().to_owned()))
            .collect();
        workers.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 1, "{ids:?}");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let id = made(&store);
    let source = format!(":{}", store.own().id());
    for event in [format!("{id}.start"), format!("{id}.exit")] {
        let event = store.event(&event).unwrap();
        let found = event["source"].as_str().unwrap();
        assert!(
            found.ends_with(&source) && found.matches(':').count() == 4,
            "{found}"
        );
    }
    // One whose launch cannot be read has the source all the same.
    let lost = abandoned(&store, draft());
    std::fs::write(job_dir(&store, &lost).join("run.json"), "{").unwrap();
    let record = view(&store, &lost).record.unwrap();
    assert!(record.source.ends_with(&source), "{}", record.source);
    let (_other_keep, other) = super::store();
    assert_ne!(other.own().id(), store.own().id());
    // What cannot be read is set aside, not taken for an id.
    std::fs::write(&path, "{\"format\":1,\"id\":\"../x\",\"key\":\"\"}").unwrap();
    let fresh = store_in(store.path());
    assert_ne!(fresh.own().id(), store.own().id());
    assert_eq!(store_in(store.path()).own().id(), fresh.own().id());
}

#[test]
fn the_hash_of_a_command_can_be_compared_and_not_guessed() {
    let ((_one, one), (_two, two)) = (store(), store());
    let plain = crate::job::record::hex(&<sha2::Sha256 as sha2::Digest>::digest(b"make"));
    let hash = one.own().hash(b"make");
    assert_eq!(hash.len(), 64);
    assert_eq!(hash, store_in(one.path()).own().hash(b"make"));
    assert_ne!(hash, one.own().hash(b"make "));
    assert_ne!(hash, plain);
    assert_ne!(hash, two.own().hash(b"make"));
    assert!(!format!("{:?}", one.own()).contains("key"));
}

#[test]
fn notices_of_output_are_numbered_for_all_who_are_told() {
    let (_keep, store) = store();
    let job = store.create_job(draft()).unwrap();
    let number = |whose: &str| store.notice_number(job.id(), whose).unwrap();
    assert_eq!((number("a 1"), number("b 1"), number("a 2")), (1, 2, 3));
    assert_eq!((number("b 1"), number("a 1")), (2, 1), "tried again");
}

impl Store {
    fn serial_for_tests(&self, id: &JobId) -> Serial {
        Serial::of(id, self.own().shift()).unwrap()
    }

    /// Raises the floor to so many seconds after the time of an id.
    fn floor_for_tests(&self, id: &JobId, seconds: u64) -> Serial {
        let ahead = self.serial_for_tests(id).number() + seconds / 3 * 362;
        let ahead = Serial::from_number(ahead).unwrap();
        self.write_floor(Some(ahead)).unwrap();
        ahead
    }
}

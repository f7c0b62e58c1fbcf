use std::path::Path;

use super::*;
use crate::job::record::{CommandText, ExitFacts};
use crate::job::{Evidence, How, Observer, Outcome};
use crate::settings::{RecordCommand, Settings};
use crate::store::outbox::acknowledged;
use crate::store::{Draft, identity, moment};
use crate::sys::proc;

fn store(dir: &Path) -> Store {
    let settings = Settings {
        state: Some(dir.join("state")),
        ..Settings::default()
    };
    Store::open(&settings, |_| None).unwrap()
}

fn job(store: &Store, session: Option<&str>, code: u8, during_call: bool) -> JobView {
    let command = CommandText::new(b"make", RecordCommand::Full, |_| String::new());
    let who = identity(std::process::id() as i32).unwrap();
    let mut draft = Draft::new(command, How::Ampersand, "/".to_owned(), who);
    draft.facts.session = session.map(str::to_owned);
    let mut live = store.create_job(draft).unwrap();
    let mut facts = ExitFacts::new(
        Outcome::Exited(code),
        Observer::Supervisor,
        Evidence::WaitId,
        moment(),
    );
    facts.during_call = during_call;
    live.commit(&facts).unwrap();
    store.load(live.id()).unwrap().unwrap()
}

fn now() -> Since {
    Since::new(moment(), proc::boot_id(), proc::timens())
}

fn standing(name: &str) -> Subscription {
    Subscription::new(name.to_owned(), "dir:/x".to_owned(), true, now())
}

fn pending(store: &Store, sub: &Subscription) -> Vec<String> {
    let jobs = store.pending(sub).unwrap();
    jobs.iter().map(|job| job.id().to_string()).collect()
}

#[test]
fn a_claim_is_one_at_a_time_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let sub = standing("one");
    store.subscribe(&sub, None).unwrap();
    assert!(store.has_subscriptions());
    let job = job(&store, None, 0, false);
    let eid = exit_event(job.id());
    assert_eq!(pending(&store, &sub), [job.id().to_string()]);
    assert!(store.has_undelivered(&job) && store.undelivered().contains(job.id()));

    let claim = store.claim("one", &eid).unwrap().unwrap();
    assert_eq!(
        store.claim("one", &eid).unwrap().unwrap_err(),
        NoClaim::Busy
    );
    drop(claim);
    let claim = store.claim("one", &eid).unwrap().unwrap();
    assert_eq!((claim.attempts(), claim.pause()), (0, None));
    let asked = Duration::from_secs(100);
    assert_eq!(claim.failed("refused", Some(asked)).unwrap(), asked);
    let claim = store.claim("one", &eid).unwrap().unwrap();
    assert_eq!(claim.attempts(), 1);
    assert!(claim.pause().unwrap() > asked - Duration::from_secs(60));
    let standing = &store.standings("one").unwrap()[0];
    assert_eq!((standing.state, standing.attempts), ("pending", 1));
    assert_eq!(standing.last.as_ref().unwrap().why, "refused");
    claim.done().unwrap();
    let settled = store.claim("one", &eid).unwrap().unwrap_err();
    assert_eq!(settled, NoClaim::Settled);
    assert!(pending(&store, &sub).is_empty() && !store.has_undelivered(&job));
    assert_eq!(store.standings("one").unwrap()[0].state, "done");
    // Nothing of the claim is left.
    let claims = dir.path().join("state/v1/subs/one/claim");
    assert_eq!(std::fs::read_dir(claims).unwrap().count(), 0);
}

#[test]
fn a_killed_claimer_leaves_nothing_stale() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    store.subscribe(&standing("one"), None).unwrap();
    let job = job(&store, None, 0, false);
    let eid = exit_event(job.id());
    let claim = store.claim("one", &eid).unwrap().unwrap();
    // What the kernel does to a killed process: the descriptor is closed, nothing else happens.
    drop(claim);
    assert!(
        dir.path()
            .join("state/v1/subs/one/claim")
            .join(&eid)
            .exists()
    );
    store
        .claim("one", &eid)
        .unwrap()
        .unwrap()
        .dead("gone")
        .unwrap();
    assert_eq!(store.standings("one").unwrap()[0].state, "dead");
}

#[test]
fn what_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let before = job(&store, Some("s"), 0, false);
    let all = standing("all");
    let mut session = standing("session");
    session.session = Some("s".to_owned());
    let mut failures = standing("failures");
    failures.on = On::Failure;
    let mut asked = standing("asked");
    asked.standing = false;
    for sub in [&all, &session, &failures, &asked] {
        store.subscribe(sub, None).unwrap();
    }
    let ours = job(&store, Some("s"), 0, false);
    let other = job(&store, Some("t"), 3, false);
    let seen = job(&store, Some("s"), 0, true);
    let ids = |jobs: &[&JobView]| {
        let mut ids: Vec<String> = jobs.iter().map(|job| job.id().to_string()).collect();
        ids.sort();
        ids
    };
    let sorted = |sub| {
        let mut ids = pending(&store, sub);
        ids.sort();
        ids
    };
    assert_eq!(
        sorted(&all),
        ids(&[&ours, &other]),
        "before and seen are no news"
    );
    assert_eq!(sorted(&session), ids(&[&ours]));
    assert_eq!(sorted(&failures), ids(&[&other]));
    assert!(sorted(&asked).is_empty());
    // Asked for by name, anything counts.
    store.want("asked", before.id()).unwrap();
    store.want("asked", seen.id()).unwrap();
    assert_eq!(sorted(&asked), ids(&[&before, &seen]));
    store.disable("all", "410").unwrap();
    assert!(sorted(&all).is_empty());
    assert_eq!(store.disabled("all").as_deref(), Some("410"));
}

#[test]
fn subscriptions_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    assert!(!store.has_subscriptions() && store.subscriptions().is_empty());
    let mut sub = standing("a");
    sub.standing = false;
    store.subscribe(&sub, None).unwrap();
    store.subscribe(&sub, None).unwrap();
    let job = job(&store, None, 0, false);
    store.want("a", job.id()).unwrap();
    let eid = exit_event(job.id());
    store.claim("a", &eid).unwrap().unwrap().done().unwrap();
    sub.standing = true;
    store.subscribe(&sub, None).unwrap();
    assert!(store.subscription("a").unwrap().standing);
    assert!(pending(&store, &sub).is_empty(), "the markers stay");
    assert!(store.subscribe(&sub, None).is_err(), "twice");
    for bad in ["", ".x", "-x", "a/b", "..", "a b", "é"] {
        assert!(store.subscribe(&standing(bad), None).is_err(), "{bad}");
        assert!(!store.unsubscribe(bad).unwrap(), "{bad}");
    }
    store
        .subscribe(&standing("keyed"), Some("whsec_x"))
        .unwrap();
    let path = store.subscription("keyed").unwrap().secret_file.unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "whsec_x\n");
    assert!(store.unsubscribe("keyed").unwrap());
    assert!(store.unsubscribe("a").unwrap() && !store.unsubscribe("a").unwrap());
    let subs = dir.path().join("state/v1/subs");
    assert_eq!(std::fs::read_dir(subs).unwrap().count(), 0);
}

#[test]
fn markers_go_with_their_job() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    store.subscribe(&standing("a"), None).unwrap();
    let (removed, kept) = (job(&store, None, 0, false), job(&store, None, 0, false));
    for job in [&removed, &kept] {
        let eid = exit_event(job.id());
        store.claim("a", &eid).unwrap().unwrap().done().unwrap();
        store.want("a", job.id()).unwrap();
    }
    assert!(store.remove(removed.id()).unwrap());
    let marks = store.marks("a").unwrap();
    assert!(!marks.wants(removed.id()) && !marks.is_settled(&exit_event(removed.id())));
    assert!(marks.wants(kept.id()) && marks.is_settled(&exit_event(kept.id())));
    // A crash between the two steps leaves them to the next sweep.
    std::fs::remove_dir_all(&kept.dir).unwrap();
    assert!(store.sweep().unwrap() >= 2);
    assert!(!store.marks("a").unwrap().wants(kept.id()));
    // A subscriber of jobs by name goes with the last of them, but not while it may be about to ask.
    let mut asked = standing("asked");
    asked.standing = false;
    store.subscribe(&asked, None).unwrap();
    assert!(store.sweep().unwrap() == 0 && store.subscription("asked").is_some());
    assert!(store.subscription("a").is_some() && store.may_owe());
}

#[test]
fn two_racers_tell_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    for _ in 0..50 {
        let job = job(&store, Some("s"), 0, false);
        let barrier = std::sync::Barrier::new(4);
        let told: usize = std::thread::scope(|scope| {
            let race = || {
                barrier.wait();
                // Each keeps at it until somebody was told.
                let mut told = 0;
                while !acknowledged::is_told(&job) {
                    if let Some(claim) = acknowledged::claim(&job) {
                        told += 1;
                        claim.done().unwrap();
                    }
                }
                told
            };
            let racers: Vec<_> = (0..4).map(|_| scope.spawn(race)).collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).sum()
        });
        assert_eq!(told, 1);
    }
}

#[test]
fn a_telling_that_failed_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let job = job(&store, Some("s"), 0, false);
    let claim = acknowledged::claim(&job).unwrap();
    assert_eq!(
        acknowledged::try_claim(&job).unwrap_err(),
        acknowledged::Told::Now
    );
    drop(claim);
    assert!(!acknowledged::is_told(&job) && !job.dir.join("telling").exists());
    // Whoever has told it all the same waits for somebody who found no way.
    let claim = acknowledged::claim(&job).unwrap();
    std::thread::scope(|scope| {
        let patient = scope.spawn(|| acknowledged::claim_patiently(&job));
        drop(claim);
        patient.join().unwrap().unwrap().done().unwrap();
    });
    assert_eq!(
        acknowledged::try_claim(&job).unwrap_err(),
        acknowledged::Told::Done
    );
    assert!(acknowledged::claim_patiently(&job).is_none());
}

#[test]
fn times_before_and_after() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let record = job(&store, None, 0, false).record.unwrap();
    let mut sub = standing("a");
    assert!(!sub.wants(&record), "it had ended before");
    // In the same millisecond, or with a wall clock that was set back since: the boot clock knows.
    sub.since.at = record.recordedtime.clone();
    assert!(!sub.wants(&record));
    sub.since.at = "2001-01-01T00:00:00.000Z".to_owned();
    assert!(!sub.wants(&record));
    // Unless the two were read in different time namespaces.
    let ours = std::mem::replace(&mut sub.since.timens, 1);
    assert!(sub.wants(&record));
    sub.since.timens = ours;
    // The other way round: the wall clock was set back between the subscription and the end.
    sub.since.boot_ns = 0;
    sub.since.at = "2999-01-01T00:00:00.000Z".to_owned();
    assert!(sub.wants(&record));
    // Another boot: only the wall clock can tell.
    sub.since.boot_id = "other".to_owned();
    assert!(!sub.wants(&record));
    sub.since.at = "2001-01-01T00:00:00.000Z".to_owned();
    assert!(sub.wants(&record));
}

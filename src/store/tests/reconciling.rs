//! Who is running, ended or lost, and that only one says so.

use super::*;
use crate::job::Degraded;

#[test]
fn a_free_lease_without_a_record_is_a_loss() {
    let (_keep, store) = store();
    let id = abandoned(&store, draft());
    let lost = view(&store, &id);
    assert_eq!(reason(&lost), Some(LostReason::SupervisorDied));
    assert_eq!(
        (lost.state, lost.ended_at(), lost.duration_ms()),
        (State::Lost, None, None)
    );
    assert!(lost.settled_at().is_some() && lost.settled_age().is_some());
    assert!(lost.output().missing_since.is_some());
    let again = view(&store, &id);
    assert_eq!(again.record, lost.record);
}

#[test]
fn judged_only_where_it_can_be() {
    let (_keep, store) = store();
    let case = |change: &dyn Fn(&mut serde_json::Value)| {
        let id = abandoned(&store, draft());
        edit_run(&store, &id, change);
        view(&store, &id)
    };
    let reboot = case(&|run| run["proc"]["boot_id"] = "other".into());
    assert_eq!(reason(&reboot), Some(LostReason::Reboot));
    let namespace = case(&|run| run["proc"]["pidns"] = 1.into());
    assert_eq!(reason(&namespace), Some(LostReason::PidnsGone));
    let machine = case(&|run| {
        run["proc"]["machine"] = "other".into();
        run["proc"]["boot_id"] = "other".into();
    });
    if proc::machine().is_empty() {
        crate::skip::skipped_in_part("machine-id: this machine has none");
    } else {
        assert_eq!(
            (machine.state, machine.degraded),
            (State::Running, vec![Degraded::Foreign])
        );
        assert!(!machine.dir.join("exit.json").exists());
    }
    // A copy: its lock says nothing, and the supervisor that it names is this living process.
    let copy = case(&|run| run["lease"]["ino"] = 1.into());
    assert_eq!(copy.state, State::Running);
    let copy = case(&|run| {
        run["lease"]["ino"] = 1.into();
        run["supervisor"]["starttime"] = 1.into();
    });
    assert_eq!(reason(&copy), Some(LostReason::SupervisorDied));
    let no_locks = case(&|run| run["lease"] = serde_json::Value::Null);
    assert_eq!(no_locks.state, State::Running);
}

#[test]
fn a_job_that_outlives_its_supervisor_runs_unsupervised() {
    let (_keep, store) = store();
    let mut child = sleeper();
    let id = abandoned(&store, draft_of(&child));
    let orphan = view(&store, &id);
    assert_eq!(
        (orphan.state, orphan.degraded.clone()),
        (State::Running, vec![Degraded::Unsupervised])
    );
    assert!(matches!(
        orphan.wait(Some(Instant::now())).unwrap(),
        Waited::TimedOut
    ));
    // A process of the same pid that started at another time is somebody else.
    let stranger = abandoned(&store, draft_of(&child));
    edit_run(&store, &stranger, |run| run["proc"]["starttime"] = 1.into());
    assert_eq!(
        reason(&view(&store, &stranger)),
        Some(LostReason::SupervisorDied)
    );
    let waiter = {
        let orphan = orphan.clone();
        std::thread::spawn(move || orphan.wait(None).unwrap())
    };
    drop(child.stdin.take());
    let Waited::Ended(ended) = waiter.join().unwrap() else {
        panic!("not ended");
    };
    assert_eq!((ended.state, ended.exit_code()), (State::Exited, Some(7)));
    // Whoever waited was there, if the child did not come first.
    let by = ended.record.as_ref().map(|record| &record.data.observed_by);
    let waited = by.is_some_and(|by| *by == Observer::Waiter);
    assert_eq!(ended.ended_at().is_some(), waited);
    assert_eq!(ended.duration_ms().is_some(), waited);
    assert!(ended.output().missing_since.is_some());
    child.wait().unwrap();
    assert_eq!(view(&store, &id).exit_code(), Some(7));
}

#[test]
fn the_status_of_a_zombie_is_read_and_that_of_a_reaped_process_is_lost() {
    let (_keep, store) = store();
    let mut child = sleeper();
    let (first, second) = (
        abandoned(&store, draft_of(&child)),
        abandoned(&store, draft_of(&child)),
    );
    let handle = proc::pidfd_open(child.id() as i32).unwrap();
    drop(child.stdin.take());
    assert!(proc::pidfd_wait(&handle, None).unwrap());
    let seen = view(&store, &first);
    // How it ended can be read, when cannot.
    assert_eq!((seen.ended_at(), seen.duration_ms()), (None, None));
    assert!(seen.settled_at().is_some());
    assert_eq!(
        (seen.exit_code(), seen.record.unwrap().data.evidence),
        (Some(7), Evidence::ProcStat)
    );
    child.wait().unwrap();
    assert_eq!(
        reason(&view(&store, &second)),
        Some(LostReason::SupervisorDied)
    );
}

/// The last that is known of a supervisor is what it wrote last.
#[test]
fn output_may_be_missing_since_the_last_sign_of_a_supervisor() {
    let (_keep, store) = store();
    let lost = |draft: Draft, written: &[u8]| {
        let mut job = store.create_job(draft).unwrap();
        job.transcript().write(written);
        let id = job.id().clone();
        give_up(job);
        let view = view(&store, &id);
        assert_eq!(reason(&view), Some(LostReason::SupervisorDied));
        view
    };
    let changed = |view: &JobView, name: &str| {
        let file = std::fs::metadata(view.dir.join(name)).unwrap();
        crate::job::record::rfc3339(file.modified().unwrap())
    };
    let since = |view: &JobView| {
        let record = view.record.as_ref().unwrap();
        record.data.output.missing_since.clone()
    };
    let spoke = lost(draft(), b"up\n");
    assert_eq!(spoke.output().bytes_kept, 3);
    let signs = ["run.json", "out", "times"].map(|name| changed(&spoke, name));
    assert_eq!(since(&spoke).as_ref(), signs.iter().max());
    let silent = lost(draft(), b"");
    assert_eq!(since(&silent), Some(changed(&silent, "run.json")));
    // What goes to a file of its own needs no supervisor, unless stderr does not.
    let mut apart = draft();
    apart.facts.redirected_to = Some("/tmp/log".to_owned());
    assert_eq!(since(&lost(apart.clone(), b"")), None);
    assert!(since(&lost(apart.clone(), b"oops")).is_some());
    apart.facts.tty = true;
    assert!(since(&lost(apart, b"")).is_some());
    // Nor does a job that somebody saw to its end.
    let mut job = store.create_job(draft()).unwrap();
    job.commit(&exited(0)).unwrap();
    assert_eq!(since(&view(&store, job.id())), None);
    let path = job.dir().join("exit.json");
    std::fs::write(&path, "{").unwrap();
    let damaged = view(&store, job.id());
    assert_eq!(reason(&damaged), Some(LostReason::RecordCorrupt));
    assert_eq!(since(&damaged), None);
}

#[test]
fn one_committer_and_two_reconcilers_make_one_record() {
    let dir = tempfile::tempdir_in(if Path::new("/dev/shm").exists() {
        "/dev/shm"
    } else {
        "/tmp"
    })
    .unwrap();
    let root = dir.path().join("state");
    let store = store_in(&root);
    let draft = draft();
    let (mut committed, mut lost) = (0, 0);
    for round in 0..600u32 {
        let mut job = store.create_job(draft.clone()).unwrap();
        let id = job.id().clone();
        if round % 3 != 0 {
            job.preallocate();
        }
        let barrier = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    barrier.wait();
                    while !view(&store, &id).state.is_terminal() {}
                });
            }
            barrier.wait();
            if round % 2 == 0 {
                job.commit(&exited(5)).unwrap();
            }
            drop(job);
        });
        let view = view(&store, &id);
        match view.outcome().unwrap() {
            Outcome::Exited(5) if round % 2 == 0 => committed += 1,
            Outcome::Lost(LostReason::SupervisorDied) if round % 2 == 1 => lost += 1,
            other => panic!("round {round}: {other:?}"),
        }
        let mut names = records(&store, &id);
        names.retain(|name| name != "exit.tmp");
        assert_eq!(names, ["exit.json"], "round {round}");
    }
    assert_eq!((committed, lost), (300, 300));
}

//! Files that were cut, or that a newer version wrote.

use super::*;

#[test]
fn a_record_cut_at_any_byte_is_set_aside_and_lost() {
    let dir = tempfile::tempdir_in(if Path::new("/dev/shm").exists() {
        "/dev/shm"
    } else {
        "/tmp"
    })
    .unwrap();
    let store = store_in(&dir.path().join("state"));
    let mut job = store.create_job(draft()).unwrap();
    job.commit(&exited(0)).unwrap();
    let path = job.dir().join("exit.json");
    let whole = std::fs::read(&path).unwrap();
    let clear = || drop(std::fs::remove_file(path.with_extension("json.corrupt")));
    for length in 0..whole.len() - 1 {
        std::fs::write(&path, &whole[..length]).unwrap();
        let view = view(&store, job.id());
        assert_eq!(reason(&view), Some(LostReason::RecordCorrupt), "{length}");
        assert_eq!(view.record.unwrap().id, format!("{}.exit", job.id()));
        assert_eq!(
            std::fs::read(job.dir().join("exit.json.corrupt")).unwrap(),
            whole[..length]
        );
        clear();
    }
    // A flipped bit must never turn into a panic, nor leave a job without a record.
    for bit in (0..whole.len() * 8).step_by(5) {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &flipped).unwrap();
        let view = view(&store, job.id());
        assert!(view.state.is_terminal() || view.format > 1, "{bit}");
        clear();
    }
}

#[test]
fn a_launch_cut_at_any_byte_is_lost_with_what_is_known() {
    let (_keep, store) = store();
    let id = abandoned(&store, draft());
    let path = job_dir(&store, &id).join("run.json");
    let whole = std::fs::read(&path).unwrap();
    for length in (0..whole.len() - 1).step_by(13) {
        std::fs::write(&path, &whole[..length]).unwrap();
        drop(std::fs::remove_file(path.with_file_name("exit.json")));
        let view = view(&store, &id);
        assert_eq!(
            (view.state, reason(&view)),
            (State::Lost, Some(LostReason::RecordCorrupt))
        );
        assert_eq!(view.id(), &id);
    }
    // With a record the launch is known from there.
    let mut job = store.create_job(draft()).unwrap();
    job.commit(&exited(6)).unwrap();
    std::fs::write(job.dir().join("run.json"), [0xff; 100]).unwrap();
    let ended = view(&store, job.id());
    assert_eq!(
        (ended.exit_code(), ended.launch.command.text.as_str()),
        (Some(6), "npm run dev")
    );
    // While it is owned, nothing is judged.
    let job = store.create_job(draft()).unwrap();
    std::fs::write(job.dir().join("run.json"), "").unwrap();
    assert_eq!(view(&store, job.id()).state, State::Running);
    assert_eq!(store.jobs().unwrap().len(), 3);
}

#[test]
fn a_newer_format_is_shown_and_not_touched() {
    let (_keep, store) = store();
    let id = abandoned(&store, draft());
    edit_run(&store, &id, |run| {
        run["format"] = 2.into();
        run["how"] = "teleported".into();
    });
    let row = &store.jobs().unwrap()[0];
    assert_eq!(
        (row.format, row.degraded.as_slice()),
        (2, ["newer-format".to_owned()].as_slice())
    );
    assert_eq!(row.to_row_json()["command"], "npm run dev");
    let Err(error) = find(std::slice::from_ref(&store), id.as_str(), None) else {
        panic!("found");
    };
    assert!(matches!(
        error,
        Error::NewerFormat {
            format: 2,
            reads: 1,
            ..
        }
    ));
    assert!(records(&store, &id).is_empty());
}

/// Any flipped bit: the job is still told, by its record or as lost, and what was there is kept.
#[test]
fn a_record_with_a_flipped_bit() {
    let (_keep, store) = store();
    let mut job = store.create_job(draft()).unwrap();
    let id = job.id().clone();
    job.commit(&exited(4)).unwrap();
    drop(job);
    let dir = job_dir(&store, &id);
    let whole = std::fs::read(dir.join("exit.json")).unwrap();
    for (place, bit) in (0..whole.len()).map(|place| (place, place % 8)) {
        let mut flipped = whole.clone();
        flipped[place] ^= 1 << bit;
        std::fs::write(dir.join("exit.json"), &flipped).unwrap();
        let seen = view(&store, &id);
        assert!(seen.state.is_terminal(), "byte {place}: {:?}", seen.state);
        let listed = store.jobs().unwrap();
        assert_eq!(listed.len(), 1, "byte {place}");
        assert_eq!(listed[0].state, seen.state, "byte {place}");
        let kept = std::fs::read_dir(&dir)
            .unwrap()
            .any(|entry| std::fs::read(entry.unwrap().path()).is_ok_and(|bytes| bytes == flipped));
        assert!(kept, "byte {place}");
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.to_str().unwrap().contains("corrupt") {
                std::fs::remove_file(path).unwrap();
            }
        }
    }
}

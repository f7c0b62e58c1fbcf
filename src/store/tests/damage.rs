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
        (ended.exit_code(), ended.launch.facts.command.text.as_str()),
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
        (2, [Degraded::NewerFormat].as_slice())
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

/// Names and sizes that no writer of ours made: whoever can put a file into the directory of a job must
/// not end every reader of it.
#[test]
fn strange_segments_are_passed_over_and_sums_do_not_overflow() {
    let (_keep, store) = store();
    let mut job = store.create_job(draft()).unwrap();
    job.transcript().write(b"said\n");
    let dir = job.dir().to_owned();
    for name in [
        "out.18446744073709551615",
        "out.18446744073709551616",
        "out.9223372036854775808",
        "out.+1",
        "out.01",
        "out.0",
        "out.-1",
    ] {
        std::fs::write(dir.join(name), "stranger").unwrap();
    }
    let read = |job: &JobView| {
        let mut bytes = Vec::new();
        let mut reader = job.read_transcript(Reading::Raw).unwrap();
        reader.read_to_end(&mut bytes).unwrap();
        let mut end = job.read_transcript(Reading::Marked).unwrap();
        end.skip_to_last(3);
        end.skip_to(u64::MAX);
        end.skip_to(0);
        bytes
    };
    let running = view(&store, job.id());
    assert_eq!(running.output().bytes_total, 5);
    assert_eq!(read(&running), b"said\n");
    // The largest numbers that are taken, in a launch that names the largest cap.
    for (name, size) in [
        ("out.1125899906842624", i64::MAX as u64),
        ("out.3", 1 << 62),
    ] {
        let file = std::fs::File::create(dir.join(name)).unwrap();
        drop(file.set_len(size).or_else(|_| file.set_len(1 << 40)));
    }
    let run = dir.join("run.json");
    let text = std::fs::read_to_string(&run).unwrap();
    let cap = format!("\"transcript_cap\":{}", u64::MAX);
    let text = text.replace("\"transcript_cap\":67108864", &cap);
    assert!(text.contains(&cap), "{text}");
    std::fs::write(&run, text).unwrap();
    let large = view(&store, job.id());
    assert!(large.output().bytes_total >= large.output().bytes_kept);
    let mut reader = large.read_transcript(Reading::Marked).unwrap();
    reader.skip_to_last(u64::MAX);
    let mut buffer = [0; 16];
    assert_eq!(reader.next(&mut buffer).unwrap(), Chunk::Bytes(5));
    reader.skip_to(u64::MAX);
    assert!(matches!(reader.next(&mut buffer), Ok(Chunk::End)));
    assert!(reader.offset() > 0);
    // `gc` and `doctor` add up what is there.
    let policy = Policy {
        keep: Duration::ZERO,
        max_bytes: 0,
        fresh: Duration::ZERO,
        dry_run: true,
    };
    assert_eq!(store.collect(&policy).unwrap().kept, 1);
}

#[test]
fn times_of_files_that_no_clock_can_name_are_no_reason_to_stop() {
    // A file system in memory takes any time; others take the nearest that they can write down.
    let shm = Path::new("/dev/shm");
    let place = if shm.exists() { shm } else { Path::new("/tmp") };
    let dir = tempfile::tempdir_in(place).unwrap();
    let store = store_in(&dir.path().join("state"));
    let mut job = store.create_job(draft()).unwrap();
    job.commit(&exited(0)).unwrap();
    let sub = crate::store::outbox::Subscription::new(
        "x".to_owned(),
        "stdout".to_owned(),
        true,
        crate::store::outbox::Since::new(moment(), "other boot", 0),
    );
    store.subscribe(&sub, None).unwrap();
    for time in [i64::MAX, i64::MIN, i64::MAX - 3599, -1] {
        for name in ["exit.json", "run.json"] {
            let file = std::fs::File::open(job.dir().join(name)).unwrap();
            let time = nix::sys::time::TimeSpec::new(time, 0);
            nix::sys::stat::futimens(&file, &time, &time).unwrap();
        }
        assert!(store.pending(&sub).is_ok(), "{time}");
        assert!(find(std::slice::from_ref(&store), "last", None).is_ok());
    }
}

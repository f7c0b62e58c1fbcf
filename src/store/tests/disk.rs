//! Full disks.

use super::*;

/// A file system of its own, gone with the value.
struct Mounted(PathBuf);

impl Mounted {
    fn new(keep: &Path, options: &str) -> Option<Self> {
        let path = keep.join("mnt");
        std::fs::create_dir(&path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(&path)
            .stderr(Stdio::null())
            .status();
        match mounted {
            Ok(status) if status.success() => Some(Self(path)),
            _ => {
                crate::skip::skipped("mount: needs root");
                None
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

fn fill(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path.join("fill")).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    while file.write_all(&[1; 1]).is_ok() {}
}

#[test]
fn a_full_disk_keeps_the_end() {
    let keep = tempfile::tempdir().unwrap();
    let Some(disk) = Mounted::new(keep.path(), "size=512k,mode=0700") else {
        return;
    };
    let store = store_in(&disk.0.join("state"));
    // With space reserved.
    let mut reserved = store.create_job(draft()).unwrap();
    reserved.preallocate();
    // With output that can be given up.
    let mut talker = store.create_job(draft()).unwrap();
    talker.transcript().write(&[b'x'; 100_000]);
    // With nothing at all, and one whose owner dies.
    let mut poor = store.create_job(draft()).unwrap();
    let mut orphan = store.create_job(draft()).unwrap();
    orphan.preallocate();
    let orphan_id = orphan.id().clone();
    fill(&disk.0);
    reserved.transcript().write(b"lost to the full disk");
    assert_eq!(reserved.transcript().facts().dropped_bytes, 21);
    assert_eq!(reserved.transcript().bytes_total(), 21);
    let mut facts = exited(11);
    facts.tail = Some("t".repeat(5000));
    facts.output = reserved.transcript().facts();
    reserved.commit(&facts).unwrap();
    assert_eq!(view(&store, reserved.id()).exit_code(), Some(11));
    assert_eq!(
        view(&store, reserved.id()).record.unwrap().data.durability,
        crate::job::record::Durability::Boot
    );
    give_up(orphan);
    let lost = view(&store, &orphan_id);
    assert_eq!(reason(&lost), Some(LostReason::SupervisorDied));
    assert!(lost.dir.join("exit.json").exists());
    fill(&disk.0);
    assert!(store.create_job(draft()).is_err());
    match poor.commit(&exited(13)) {
        Ok(()) => assert_eq!(view(&store, poor.id()).exit_code(), Some(13)),
        Err(_) => assert_eq!(view(&store, poor.id()).state, State::Running),
    }
    talker.commit(&exited(12)).unwrap();
    assert_eq!(view(&store, talker.id()).exit_code(), Some(12));
    std::fs::remove_file(disk.0.join("fill")).unwrap();
    poor.commit(&exited(13)).unwrap();
    assert_eq!(view(&store, poor.id()).exit_code(), Some(13));
}

#[test]
fn a_disk_without_inodes_keeps_the_end() {
    let keep = tempfile::tempdir().unwrap();
    let Some(disk) = Mounted::new(keep.path(), "size=4m,nr_inodes=16,mode=0700") else {
        return;
    };
    let store = store_in(&disk.0.join("state"));
    let mut reserved = store.create_job(draft()).unwrap();
    reserved.preallocate();
    let mut number = 0;
    while std::fs::write(disk.0.join(format!("f{number}")), "").is_ok() {
        number += 1;
    }
    assert!(store.create_job(draft()).is_err());
    reserved.commit(&exited(21)).unwrap();
    assert_eq!(view(&store, reserved.id()).exit_code(), Some(21));
}

#[test]
fn an_end_that_only_a_file_name_states() {
    let (_keep, store) = store();
    for (name, outcome) in [
        ("exit.is.exited-3", Outcome::Exited(3)),
        (
            "exit.is.signaled-11-core",
            Outcome::Signaled {
                signal: 11,
                core: true,
            },
        ),
        (
            "exit.is.signaled-9",
            Outcome::Signaled {
                signal: 9,
                core: false,
            },
        ),
        ("exit.is.exited-3.5.6", Outcome::Exited(3)),
        (
            "exit.is.signaled-9.1794849857699.48997752.9.9",
            Outcome::Signaled {
                signal: 9,
                core: false,
            },
        ),
        ("exit.is.lost", Outcome::Lost(LostReason::StatusUnseen)),
        (
            "exit.is.exited-999",
            Outcome::Lost(LostReason::SupervisorDied),
        ),
    ] {
        let mut job = store.create_job(draft()).unwrap();
        job.preallocate();
        let id = job.id().clone();
        std::fs::rename(job.dir().join("exit.tmp"), job.dir().join(name)).unwrap();
        // While it is owned nothing is judged.
        assert_eq!(view(&store, &id).state, State::Running);
        give_up(job);
        assert_eq!(view(&store, &id).outcome(), Some(outcome), "{name}");
    }
}

/// What the supervisor knew is in the name: a reader does not make up when the job ended, nor what it wrote.
#[test]
fn a_file_name_states_times_and_bytes() {
    let (_keep, store) = store();
    let mut job = store.create_job(draft()).unwrap();
    job.preallocate();
    let mut facts = exited(3);
    let later = Duration::from_secs(90);
    facts.ended = (facts.ended.0 + later, facts.ended.1 + later);
    facts.output.bytes_total = 1234;
    facts.output.dropped_bytes = 1000;
    let name = crate::store::jobs::byname::name(&facts);
    std::fs::rename(job.dir().join("exit.tmp"), job.dir().join(name)).unwrap();
    let id = job.id().clone();
    give_up(job);
    // The first look makes the record, the second reads it.
    for _ in 0..2 {
        let data = view(&store, &id).record.unwrap().data;
        assert_eq!(
            (data.exit_code, data.evidence),
            (Some(3), Evidence::FileName)
        );
        assert_eq!(
            data.ended_at,
            Some(crate::job::record::rfc3339(facts.ended.0))
        );
        assert!(data.duration_ms.unwrap() >= 90_000 - 1);
        let output = &data.output;
        assert_eq!(
            (output.bytes_total, output.bytes_kept, output.dropped_bytes),
            (1234, 0, 1000)
        );
    }
}

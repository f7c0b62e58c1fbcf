//! Which directories are used, and their modes.

use std::os::unix::fs::MetadataExt;

use super::*;
use crate::job::KillCause;

#[test]
fn only_directories_of_our_own_are_used() {
    let keep = tempfile::tempdir().unwrap();
    let good = keep.path().join("good");
    let env = |name: &str| (name == "XDG_STATE_HOME").then(|| good.clone().into_os_string());
    let make = |name: &str, mode: u32| {
        let path = keep.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let real = make("real", 0o700);
    let link = keep.path().join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let file = keep.path().join("file");
    std::fs::write(&file, "").unwrap();
    let mut refused = vec![
        make("open", 0o777),
        make("group", 0o770),
        link,
        file.clone(),
        file.join("below"),
    ];
    if fsx::euid() == 0 {
        let foreign = make("foreign", 0o700);
        std::os::unix::fs::chown(&foreign, Some(12_345), None).unwrap();
        refused.push(foreign);
        let inner = make("inner", 0o700);
        std::fs::create_dir(inner.join("v1")).unwrap();
        std::os::unix::fs::chown(inner.join("v1"), Some(12_345), None).unwrap();
        refused.push(inner);
    } else {
        crate::skip::skipped_in_part("chown: needs root");
    }
    let readable = make("planted", 0o700);
    std::fs::create_dir(readable.join("v1")).unwrap();
    std::fs::set_permissions(readable.join("v1"), std::fs::Permissions::from_mode(0o755)).unwrap();
    refused.push(readable);
    for path in refused {
        let before = std::fs::symlink_metadata(&path)
            .map(|meta| meta.permissions().mode())
            .ok();
        let store = Store::open(&settings(&path), env).unwrap();
        assert_eq!(store.path(), good.join("agent-sh"), "{}", path.display());
        assert_eq!(store.degraded().len(), 1);
        let job = store.create_job(draft()).unwrap();
        assert!(
            job.launch().facts.degraded[0]
                .word()
                .contains(&*path.to_string_lossy())
        );
        let after = std::fs::symlink_metadata(&path)
            .map(|meta| meta.permissions().mode())
            .ok();
        assert_eq!(before, after, "the mode was changed");
        let readers = Store::readers(&settings(&path), env);
        let found = readers.iter().any(|reader| reader.path() == store.path());
        assert!(found, "readers look elsewhere: {}", path.display());
        assert!(Store::refusal(&settings(&path)).is_some());
    }
    // Readable by others is the user's choice; what is ours below it is not.
    let shown = make("shown", 0o755);
    let store = store_in(&shown);
    assert_eq!(
        std::fs::metadata(store.path().join("v1"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o700
    );
    let read_by = |settings: &Settings| {
        let readers = Store::readers(settings, env);
        let mut paths: Vec<_> = readers
            .iter()
            .map(|store| store.path().to_owned())
            .collect();
        // What this user really has in /tmp may be there too.
        paths.retain(|path| path.starts_with(keep.path()));
        paths
    };
    // A directory that was named and can be written to stands alone.
    assert_eq!(read_by(&settings(&shown)), std::slice::from_ref(&shown));
    assert_eq!(read_by(&Settings::default()), [good.join("agent-sh")]);
}

/// What fails when something is made in a place says whether the next one is to be tried.
#[test]
fn a_place_that_is_closed() {
    let keep = tempfile::tempdir().unwrap();
    let (first, second) = (keep.path().join("first"), keep.path().join("second"));
    let env = |name: &str| match name {
        "XDG_STATE_HOME" => Some(second.clone().into_os_string()),
        "TMPDIR" => Some(keep.path().as_os_str().to_owned()),
        _ => None,
    };
    let store = Store::open(&settings(&first), env).unwrap();
    let error = |errno| Error::io("make", &first, std::io::Error::from_raw_os_error(errno));
    // A full disk may have room for the next job, and a process without descriptors has them nowhere.
    for errno in [libc::ENOSPC, libc::EDQUOT, libc::EMFILE, libc::ENOENT] {
        assert!(store.closed_by(&error(errno)).is_none(), "{errno}");
    }
    let closed = store.closed_by(&error(libc::EROFS)).unwrap();
    let next = Store::open_but(&settings(&first), env, &[closed]).unwrap();
    assert_eq!(next.path(), second.join("agent-sh"));
    let why = format!("state: '{}' read-only file system", first.display());
    assert_eq!(next.degraded(), [Degraded::Other(why)]);
    let closed = (next.path().to_owned(), "x".to_owned());
    let last = Store::open_but(&Settings::default(), env, &[closed]).unwrap();
    let name = format!("agent-sh-{}", fsx::euid());
    assert_eq!(last.path(), keep.path().join(name));
    assert!(last.degraded().is_empty());
}

#[test]
fn the_directory_for_everybody() {
    let keep = tempfile::tempdir().unwrap();
    let tmp = keep.path().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    std::fs::set_permissions(&tmp, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let env = |name: &str| (name == "TMPDIR").then(|| tmp.clone().into_os_string());
    let plain = tmp.join(format!("agent-sh-{}", fsx::euid()));
    // Somebody took the name: that is no failure, and both later calls find the same place.
    std::fs::write(&plain, "").unwrap();
    let first = Store::open(&Settings::default(), env).unwrap();
    assert_ne!(first.path(), plain);
    assert!(first.path().starts_with(&tmp));
    let second = Store::open(&Settings::default(), env).unwrap();
    assert_eq!(first.path(), second.path());
    assert!(
        Store::readers(&Settings::default(), env)
            .iter()
            .any(|store| store.path() == first.path())
    );
    std::fs::remove_file(&plain).unwrap();
    // Not sticky: others could swap what is in it.
    std::fs::set_permissions(&tmp, std::fs::Permissions::from_mode(0o777)).unwrap();
    match Store::open(&Settings::default(), env) {
        Ok(store) => assert!(!store.path().starts_with(&tmp)),
        Err(error) => assert!(matches!(error, Error::NoState { .. })),
    }
}

/// Walks a tree and checks every mode.
fn check_modes(path: &Path) -> usize {
    let mut seen = 0;
    for entry in std::fs::read_dir(path)
        .unwrap()
        .map(std::result::Result::unwrap)
    {
        let meta = entry.metadata().unwrap();
        let wanted = if meta.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(
            meta.permissions().mode() & 0o7777,
            wanted,
            "{}",
            entry.path().display()
        );
        seen += 1;
        if meta.is_dir() {
            seen += check_modes(&entry.path());
        }
    }
    seen
}

/// The umask belongs to the whole process, so each one is tried in a process of its own.
#[test]
fn modes_do_not_depend_on_the_umask() {
    const VARIABLE: &str = "AGENT_SH_TEST_UMASK_ROOT";
    if let Some(root) = std::env::var_os(VARIABLE) {
        let store = store_in(Path::new(&root));
        let mut job = store.create_job(draft()).unwrap();
        job.preallocate();
        job.transcript().write(b"x");
        job.set_stopped(Some(19));
        view(&store, job.id())
            .request_kill(&KillIntent {
                by: KillCause::User,
                signal: 15,
                at: String::new(),
                session: None,
            })
            .unwrap();
        let other = store.create_job(draft()).unwrap();
        let id = other.id().clone();
        give_up(other);
        assert_eq!(view(&store, &id).state, State::Lost);
        return;
    }
    for umask in ["000", "777", "022"] {
        let keep = tempfile::tempdir().unwrap();
        let root = keep.path().join("state");
        let status = Command::new("sh")
            .args(["-c", &format!("umask {umask}; exec \"$0\" --exact store::tests::places::modes_do_not_depend_on_the_umask")])
            .arg(std::env::current_exe().unwrap())
            .env(VARIABLE, &root)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{umask}");
        assert_eq!(
            std::fs::metadata(&root).unwrap().permissions().mode() & 0o7777,
            0o700
        );
        assert!(check_modes(&root) > 8, "{umask}");
    }
}

#[test]
fn planted_files_are_not_read() {
    let (_keep, store) = store();
    let id = abandoned(&store, draft());
    let dir = job_dir(&store, &id);
    let target = store.path().join("target");
    std::fs::write(&target, "{}").unwrap();
    std::os::unix::fs::symlink(&target, dir.join("exit.json")).unwrap();
    assert_eq!(reason(&view(&store, &id)), Some(LostReason::RecordCorrupt));
    assert_eq!(std::fs::read(&target).unwrap(), b"{}");
    // A FIFO must not block, a huge file must not be read.
    let id = abandoned(&store, draft());
    let status = Command::new("mkfifo")
        .arg(job_dir(&store, &id).join("exit.json"))
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(reason(&view(&store, &id)), Some(LostReason::RecordCorrupt));
    let id = abandoned(&store, draft());
    std::fs::File::create(job_dir(&store, &id).join("exit.json"))
        .unwrap()
        .set_len(2 << 30)
        .unwrap();
    assert_eq!(reason(&view(&store, &id)), Some(LostReason::RecordCorrupt));
}

/// The place that one supervisor leaves is the next one's, once, and nobody lists it.
#[test]
fn a_place_for_the_next_job() {
    let (_keep, store) = store();
    let spare = store.path().join("v1/spare");
    store.leave_spare();
    let place = std::fs::metadata(&spare).unwrap().ino();
    store.leave_spare();
    assert_eq!(std::fs::metadata(&spare).unwrap().ino(), place);
    assert!(store.ids().unwrap().is_empty());
    let taken = store.prepare().unwrap();
    assert!(!spare.exists());
    let other = store.prepare().unwrap();
    store.give_back(&other);
    assert!(spare.exists());
    let job = store.create_prepared(taken, draft()).unwrap();
    assert_eq!(std::fs::metadata(job.dir()).unwrap().ino(), place);
    assert!(job.launch().lease.is_some());
    let run = std::fs::File::open(job.dir().join("run.json")).unwrap();
    assert!(lock::is_written(&run).unwrap());
    assert_eq!(
        std::fs::read_dir(store.path().join("v1/tmp"))
            .unwrap()
            .count(),
        0
    );
}

/// What lies where the place should be and is none is not used.
#[test]
fn a_place_that_is_none() {
    for spoil in [
        (|dir: &Path| std::fs::write(dir.join("run.json"), "{}").unwrap()) as fn(&Path),
        |dir| std::fs::remove_file(dir.join("run.json")).unwrap(),
        |dir| std::fs::hard_link(dir.join("run.json"), dir.join("more")).unwrap(),
        |dir| {
            std::fs::remove_file(dir.join("run.json")).unwrap();
            std::os::unix::fs::symlink("/dev/null", dir.join("run.json")).unwrap();
        },
    ] {
        let (_keep, store) = store();
        store.leave_spare();
        spoil(&store.path().join("v1/spare"));
        let job = store.create_job(draft()).unwrap();
        let run = std::fs::read_to_string(job.dir().join("run.json")).unwrap();
        assert!(run.contains(job.id().as_str()), "{run}");
        assert_eq!(std::fs::read_dir(job.dir()).unwrap().count(), 1);
    }
}

//! The store with real files, real locks and real processes.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;
use crate::job::{How, LostReason, Outcome, State};
use crate::record::{CommandText, ExitFacts, KillIntent, KilledBy, Usage};
use crate::settings::RecordCommand;
use crate::sys::lock;

fn settings(root: &Path) -> Settings {
    Settings {
        state: Some(root.to_owned()),
        ..Settings::default()
    }
}

fn no_env(_: &str) -> Option<OsString> {
    None
}

fn store_in(root: &Path) -> Store {
    let store = Store::open(&settings(root), no_env).unwrap();
    assert_eq!(store.path(), root);
    store
}

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(&dir.path().join("state"));
    (dir, store)
}

/// A process that has ended, so that nobody can take it for alive.
fn dead() -> crate::record::ProcIdentity {
    let mut child = Command::new("true").spawn().unwrap();
    let who = identity(child.id() as i32).unwrap();
    child.wait().unwrap();
    who
}

fn draft() -> Draft {
    let command = CommandText::new(b"npm run dev", RecordCommand::Redacted);
    Draft::new(command, How::Ampersand, "/work".to_owned(), dead())
}

fn exited(code: u8) -> ExitFacts {
    ExitFacts::new(Outcome::Exited(code), "supervisor", "waitid", moment())
}

/// Gives a job up and waits until its lease is free: a child that another test's thread forks at this
/// very moment holds it until its exec.
fn give_up(job: LiveJob) {
    let run = std::fs::File::open(job.dir().join("run.json")).unwrap();
    drop(job);
    while lock::is_written(&run).unwrap_or(false) {
        std::thread::yield_now();
    }
}

fn view(store: &Store, id: &JobId) -> JobView {
    store.load(id).unwrap().unwrap()
}

fn records(store: &Store, id: &JobId) -> Vec<String> {
    let dir = store.path().join("v1/jobs").join(id.as_str());
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("exit"))
        .collect()
}

#[test]
fn a_job_from_start_to_end() {
    let (_keep, store) = store();
    let mut job = store.create_job(draft()).unwrap();
    let id = job.id().clone();
    let running = view(&store, &id);
    assert_eq!(
        (running.state, running.record.is_none()),
        (State::Running, true)
    );
    assert!(running.degraded.is_empty());
    assert_eq!(running.exit_code(), None);
    job.preallocate();
    job.sync().unwrap();
    job.transcript().write(b"hello\n");
    job.set_stopped(Some(libc::SIGTTIN));
    assert_eq!(view(&store, &id).state, State::Stopped);
    job.set_stopped(None);
    assert_eq!(view(&store, &id).state, State::Running);
    assert_eq!(view(&store, &id).bytes_total(), 6);
    let mut facts = exited(3);
    facts.output = job.transcript().facts();
    facts.tail = Some("hello\n\u{1b}[31m".to_owned());
    job.commit(&facts).unwrap();
    let ended = view(&store, &id);
    assert_eq!((ended.state, ended.exit_code()), (State::Exited, Some(3)));
    let record = ended.record.as_ref().unwrap();
    assert_eq!(record.id, format!("{id}.exit"));
    assert_eq!(record.data.tail.as_deref(), Some("hello\n"));
    assert_eq!(records(&store, &id), ["exit.json"]);
    assert_eq!(ended.tail(3), b"lo\n");
    // A second commit of the same owner changes nothing.
    job.commit(&exited(9)).unwrap();
    assert_eq!(view(&store, &id).exit_code(), Some(3));
}

/// Changes `run.json` behind everybody's back.
fn edit_run(store: &Store, id: &JobId, change: impl Fn(&mut serde_json::Value)) {
    let path = store
        .path()
        .join("v1/jobs")
        .join(id.as_str())
        .join("run.json");
    let mut value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(&path, serde_json::to_vec(&value).unwrap()).unwrap();
}

/// A job whose supervisor is gone.
fn abandoned(store: &Store, draft: Draft) -> JobId {
    let job = store.create_job(draft).unwrap();
    let id = job.id().clone();
    give_up(job);
    id
}

fn reason(view: &JobView) -> Option<LostReason> {
    assert_eq!(view.exit_code(), None);
    view.reason()
}

fn sleeper() -> Child {
    let script = "read x; exit 7";
    Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

fn draft_of(child: &Child) -> Draft {
    let mut draft = draft();
    draft.proc = identity(child.id() as i32).unwrap();
    draft
}

fn job_dir(store: &Store, id: &JobId) -> PathBuf {
    store.path().join("v1/jobs").join(id.as_str())
}

#[test]
fn every_record_fits_the_schema() {
    let schema = serde_json::from_str(crate::record::SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let (_keep, store) = store();
    let mut seen = Vec::new();
    let outcomes = [
        Outcome::Exited(0),
        Outcome::Exited(255),
        Outcome::Signaled {
            signal: 9,
            core: false,
        },
        Outcome::Signaled {
            signal: 11,
            core: true,
        },
        Outcome::Lost(LostReason::StatusUnseen),
    ];
    for (how, outcome) in How::ALL
        .iter()
        .flat_map(|how| outcomes.iter().map(move |o| (*how, o)))
    {
        let mut draft = draft();
        draft.how = how;
        draft.session = Some("s 1".to_owned());
        draft.name = Some("web".to_owned());
        draft.redirected_to = Some("/tmp/log".to_owned());
        draft.degraded = vec!["no-pty".to_owned()];
        let mut job = store.create_job(draft).unwrap();
        let mut facts = ExitFacts::new(outcome.clone(), "supervisor", "waitid", moment());
        facts.rusage = Some(Usage {
            user_ms: 1,
            sys_ms: 2,
            max_rss_kib: 3,
        });
        facts.tail = Some("x\"\\\u{202e}é".repeat(1000));
        facts.killed_by = Some(KilledBy {
            signal: 9,
            pid: 1,
            program: None,
        });
        facts.kill_requested = Some(KillIntent {
            by: "cli".to_owned(),
            signal: 15,
            at: "now".to_owned(),
            session: None,
        });
        facts.left_running = vec![job.id().clone()];
        job.commit(&facts).unwrap();
        seen.push(job.id().clone());
    }
    seen.push(abandoned(&store, draft()));
    let rebooted = abandoned(&store, draft());
    edit_run(&store, &rebooted, |run| run["proc"]["boot_id"] = "x".into());
    seen.push(rebooted);
    let unreadable = abandoned(&store, draft());
    std::fs::write(job_dir(&store, &unreadable).join("run.json"), "{").unwrap();
    seen.push(unreadable);
    for id in seen {
        let view = view(&store, &id);
        let bytes = std::fs::read(view.dir.join("exit.json")).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        if let Err(error) = validator.validate(&value) {
            panic!("{error}\n{value:#}");
        }
        assert_eq!(view.record.as_ref().unwrap().to_value(), value);
    }
    assert!(validator.validate(&serde_json::json!({})).is_err());
}

#[test]
fn unknown_fields_survive() {
    let (_keep, store) = store();
    let id = abandoned(&store, draft());
    edit_run(&store, &id, |run| run["colour"] = "blue".into());
    let view = view(&store, &id);
    assert_eq!(view.launch.extra["colour"], "blue");
    let path = view.dir.join("exit.json");
    let mut value: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    value["data"]["mood"] = "fine".into();
    value["extension"] = 1.into();
    std::fs::write(&path, value.to_string()).unwrap();
    assert_eq!(
        store.load(&id).unwrap().unwrap().record.unwrap().to_value(),
        value
    );
}

#[test]
fn a_row_has_every_key_of_the_contract() {
    let (_keep, store) = store();
    let mut job = store.create_job(draft()).unwrap();
    let id = job.id().clone();
    let keys = "id state exit_code signal pid command how session harness cwd started_at ended_at \
        duration_ms transcript redirected_to bytes_total degraded";
    let check = |row: &serde_json::Value| {
        for key in keys.split_whitespace() {
            assert!(row.get(key).is_some(), "{key}");
        }
    };
    let row = view(&store, &id).to_row_json();
    check(&row);
    assert_eq!(
        (&row["state"], &row["exit_code"], &row["ended_at"]),
        (
            &"running".into(),
            &serde_json::Value::Null,
            &serde_json::Value::Null
        )
    );
    assert!(row["duration_ms"].is_u64() && row["pid"].is_i64());
    assert_eq!(row["command"], "npm run dev");
    job.commit(&exited(4)).unwrap();
    let row = view(&store, &id).to_row_json();
    check(&row);
    assert_eq!(
        (&row["state"], &row["exit_code"]),
        (&"exited".into(), &4.into())
    );
    assert!(row["ended_at"].is_string() && Path::new(row["transcript"].as_str().unwrap()).exists());
    let lost = abandoned(&store, draft());
    std::fs::write(job_dir(&store, &lost).join("run.json"), "no json").unwrap();
    check(&view(&store, &lost).to_row_json());
}

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
        eprintln!("skipped: this machine has no id");
    } else {
        assert_eq!(
            (machine.state, machine.degraded),
            (State::Running, vec!["foreign".to_owned()])
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
        (State::Running, vec!["unsupervised".to_owned()])
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
    assert_eq!(
        (
            seen.exit_code(),
            seen.record.unwrap().data.evidence.as_str()
        ),
        (Some(7), "proc-stat")
    );
    child.wait().unwrap();
    assert_eq!(
        reason(&view(&store, &second)),
        Some(LostReason::SupervisorDied)
    );
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

#[test]
fn a_killed_holder_loses_the_lease_and_wakes_a_hundred_waiters() {
    let (_keep, store) = store();
    let id = abandoned(&store, draft());
    let script = "import fcntl,struct,sys\nf=open(sys.argv[1],'r+')\n\
        fcntl.fcntl(f,fcntl.F_OFD_SETLK,struct.pack('hhqqi4x',fcntl.F_WRLCK,0,0,0,0))\n\
        print('held',flush=True)\nsys.stdin.read()";
    let mut holder = Command::new("python3")
        .args(["-c", script])
        .arg(job_dir(&store, &id).join("run.json"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0u8; 5];
    holder
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut line)
        .unwrap();
    let running = view(&store, &id);
    assert_eq!(running.state, State::Running);
    assert!(matches!(
        running.wait(Some(Instant::now())).unwrap(),
        Waited::TimedOut
    ));
    let soon = Some(Instant::now() + Duration::from_secs(60));
    let waiters: Vec<_> = (0..100)
        .map(|number| {
            let (running, end) = (running.clone(), if number % 2 == 0 { None } else { soon });
            std::thread::spawn(move || running.wait(end).unwrap())
        })
        .collect();
    holder.kill().unwrap();
    for waiter in waiters {
        let Waited::Ended(ended) = waiter.join().unwrap() else {
            panic!("not ended");
        };
        assert_eq!(reason(&ended), Some(LostReason::SupervisorDied));
    }
    holder.wait().unwrap();
    assert_eq!(records(&store, &id), ["exit.json"]);
}

#[test]
fn waiting() {
    let (_keep, store) = store();
    let (mut first, mut second) = (
        store.create_job(draft()).unwrap(),
        store.create_job(draft()).unwrap(),
    );
    let views = [view(&store, first.id()), view(&store, second.id())];
    assert!(wait_any(&views, Some(Instant::now())).unwrap().is_none());
    let any = {
        let views = views.clone();
        std::thread::spawn(move || wait_any(&views, None).unwrap().unwrap())
    };
    second.commit(&exited(1)).unwrap();
    let (place, Waited::Ended(ended)) = any.join().unwrap() else {
        panic!("not ended");
    };
    assert_eq!((place, ended.exit_code()), (1, Some(1)));
    // An old view of an ended job.
    assert!(matches!(views[1].wait(None).unwrap(), Waited::Ended(_)));
    // One that is removed under its waiter, or before.
    let waiter = {
        let view = views[0].clone();
        std::thread::spawn(move || view.wait(None).unwrap())
    };
    first.commit(&exited(0)).unwrap();
    assert!(store.remove(first.id()).unwrap());
    assert!(!matches!(waiter.join().unwrap(), Waited::TimedOut));
    assert!(matches!(views[0].wait(None).unwrap(), Waited::Gone));
}

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

#[test]
fn finding() {
    let (_keep, store) = store();
    let stores = [store];
    let store = &stores[0];
    let found = |wanted: &str, session: Option<&str>| {
        find(&stores, wanted, session).map(|view| view.launch.id)
    };
    assert!(matches!(found("last", None), Err(Error::NoJob { .. })));
    let make = |name: Option<&str>, session: Option<&str>, second: u64| {
        let mut draft = draft();
        draft.name = name.map(str::to_owned);
        draft.session = session.map(str::to_owned);
        draft.started = Some((
            std::time::UNIX_EPOCH + Duration::from_secs(second),
            Duration::ZERO,
        ));
        abandoned(store, draft)
    };
    let a = make(Some("web"), Some("s"), 1_000);
    let b = make(Some("web"), None, 50_000);
    let c = make(None, Some("s"), 80_000);
    assert_eq!(found(a.as_str(), None).unwrap(), a);
    assert_eq!(found(&a.as_str()[..4], None).unwrap(), a);
    assert_eq!(found("last", None).unwrap(), c);
    assert_eq!(found("last", Some("s")).unwrap(), c);
    assert!(found("last", Some("other")).is_err());
    assert_eq!(found("web", None).unwrap(), b);
    assert_eq!(found("web", Some("s")).unwrap(), a);
    for bad in ["", "..", "../x", "x/y", "nope", "\u{1b}[31m", "zzzzzz"] {
        assert!(
            matches!(found(bad, None), Err(Error::NoJob { .. })),
            "{bad}"
        );
    }
    // A name that is also the beginning of an id means the name.
    let d = make(Some(&a.as_str()[..2]), None, 81_000);
    assert_eq!(found(&a.as_str()[..2], None).unwrap(), d);
    let e = make(None, None, 1_000);
    let common: String = a
        .as_str()
        .chars()
        .zip(e.as_str().chars())
        .take_while(|(x, y)| x == y)
        .map(|(x, _)| x)
        .collect();
    if common.len() > 2 {
        assert!(
            matches!(found(&common, None), Err(Error::Ambiguous { .. })),
            "{common}"
        );
    }
    let order: Vec<_> = all_jobs(&stores)
        .unwrap()
        .into_iter()
        .map(|view| view.launch.started_at)
        .collect();
    assert!(order.is_sorted());
}

#[test]
fn ids_that_are_taken_are_not_used_twice() {
    let (_keep, store) = store();
    let mut ids = std::collections::HashSet::new();
    let mut draft = draft();
    // All in the same three seconds: the birthday paradox makes collisions in the random half likely.
    draft.started = Some((std::time::UNIX_EPOCH, Duration::ZERO));
    for _ in 0..400 {
        assert!(ids.insert(abandoned(&store, draft.clone())));
    }
    assert_eq!(store.ids().unwrap().len(), 400);
    assert!(fsx::names(store.tmp.as_ref().unwrap()).unwrap().is_empty());
}

#[test]
fn the_first_wish_to_kill_is_the_cause() {
    let (_keep, store) = store();
    let mut job = store.create_job(draft()).unwrap();
    assert_eq!(job.kill_intent(), None);
    let seen = view(&store, job.id());
    let wish = |by: &str| KillIntent {
        by: by.to_owned(),
        signal: 15,
        at: "2026-01-01T00:00:00.000Z".to_owned(),
        session: None,
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| seen.request_kill(&wish("cli")).unwrap());
        }
    });
    seen.request_kill(&wish("late")).unwrap();
    assert_eq!(job.kill_intent(), Some(wish("cli")));
    std::fs::write(job.dir().join("kill.1.json"), "{").unwrap();
    assert_eq!(job.kill_intent(), Some(wish("cli")));
    for _ in 0..100 {
        seen.request_kill(&wish("cli")).unwrap();
    }
    job.commit(&exited(0)).unwrap();
    drop(job);
    let other = store.create_job(draft()).unwrap();
    let id = other.id().clone();
    view(&store, &id).request_kill(&wish("cli")).unwrap();
    give_up(other);
    assert_eq!(
        view(&store, &id).record.unwrap().data.kill_requested,
        Some(wish("cli"))
    );
}

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
        eprintln!("skipped: directories of another user (needs root)");
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
        assert!(job.launch().degraded[0].contains(&*path.to_string_lossy()));
        let after = std::fs::symlink_metadata(&path)
            .map(|meta| meta.permissions().mode())
            .ok();
        assert_eq!(before, after, "the mode was changed");
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
                by: "cli".to_owned(),
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
            .args(["-c", &format!("umask {umask}; exec \"$0\" --exact store::tests::modes_do_not_depend_on_the_umask")])
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
                eprintln!("skipped: a full disk (needs the right to mount)");
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
        crate::record::Durability::Boot
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

fn read_all(view: &JobView, reading: Reading) -> Vec<u8> {
    let mut bytes = Vec::new();
    view.read_transcript(reading)
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// Where bytes are missing, and how many.
fn gaps(view: &JobView) -> Vec<(u64, u64)> {
    let mut reader = view.read_transcript(Reading::Marked).unwrap();
    let (mut found, mut read) = (Vec::new(), 0);
    loop {
        match reader.next(&mut [0; 4096]).unwrap() {
            Chunk::Bytes(count) => read += count as u64,
            Chunk::Gap(bytes) => found.push((read, bytes)),
            Chunk::End => return found,
        }
    }
}

#[test]
fn transcripts_know_when_they_were_written() {
    let (_keep, store) = store();
    let mut job = store.create_job(draft()).unwrap();
    assert!(view(&store, job.id()).times().is_empty());
    job.transcript().write(b"first\n");
    job.transcript().resized(40, 132);
    job.transcript().write(b"soon after\n");
    let times = view(&store, job.id()).times();
    assert_eq!((times[0].offset, times[0].size), (0, None));
    assert_eq!((times[1].offset, times[1].size), (6, Some((40, 132))));
    let now = moment().0.duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!(
        now.as_millis() as u64 - times[0].at_ms < 60_000,
        "{times:?}"
    );
    // What follows at once needs no mark of its own.
    assert!(times.len() <= 3, "{times:?}");
}

#[test]
fn transcripts_keep_every_byte_below_the_cap() {
    let (_keep, store) = store();
    for (cap, size) in [
        (64 << 20, 300_000),
        (1 << 20, 1 << 20),
        (65_536, 65_536),
        (65_536, 8192),
        (65_536, 8193),
        (9000, 9000),
    ] {
        let mut draft = draft();
        draft.transcript_cap = cap;
        let mut job = store.create_job(draft).unwrap();
        assert!(!job.dir().join("out").exists());
        let data: Vec<u8> = (0..size).map(|at| (at * 7 + at / 251) as u8).collect();
        for piece in data.chunks(4093) {
            job.transcript().write(piece);
        }
        let facts = job.transcript().facts();
        // The last segments may not divide evenly; what is lost then is less than a segment.
        let kept = facts.bytes_kept as usize;
        assert!(kept == size || facts.capped, "{cap} {size} {kept}");
        let live = view(&store, job.id());
        assert_eq!(live.bytes_total(), size as u64, "{cap}");
        if !facts.capped {
            assert_eq!(read_all(&live, Reading::Raw), data);
            assert_eq!(read_all(&live, Reading::Marked), data);
        }
        assert_eq!(job.transcript().tail(100), data[size - 100..]);
        assert_eq!(live.tail(100), data[size - 100..]);
    }
}

#[test]
fn transcripts_keep_head_and_tail_above_the_cap() {
    let (_keep, store) = store();
    for cap in [1u64 << 20, 100_000, 20_000, 5_000, 100] {
        let mut draft = draft();
        draft.transcript_cap = cap;
        let mut job = store.create_job(draft).unwrap();
        let data: Vec<u8> = (0..400_000u32 + 3 * cap as u32)
            .map(|at| (at / 3) as u8)
            .collect();
        for piece in data.chunks(65_536) {
            job.transcript().write(piece);
        }
        let facts = job.transcript().facts();
        assert!(facts.capped && facts.bytes_kept <= cap, "{cap}: {facts:?}");
        assert_eq!(facts.bytes_total, data.len() as u64);
        let on_disk: u64 = std::fs::read_dir(job.dir())
            .unwrap()
            .map(std::result::Result::unwrap)
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("out"))
            .map(|entry| entry.metadata().unwrap().len())
            .sum();
        assert_eq!(on_disk, facts.bytes_kept);
        let check = |view: &JobView| {
            let raw = read_all(view, Reading::Raw);
            let head = (cap / 8) as usize;
            assert_eq!(raw.len() as u64, facts.bytes_kept);
            assert_eq!(raw[..head], data[..head]);
            let tail = raw.len() - head;
            assert_eq!(raw[head..], data[data.len() - tail..]);
            let gap = (data.len() - raw.len()) as u64;
            assert_eq!(gaps(view), [(cap / 8, gap)], "{cap}");
            let end = data.len() as u64;
            for most in [1, 80, cap / 2].map(|most| most.min(tail as u64)) {
                let mut reader = view.read_transcript(Reading::Marked).unwrap();
                assert!(reader.skip_to_last(most));
                let mut last = Vec::new();
                reader.read_to_end(&mut last).unwrap();
                assert!(last == data[data.len() - most as usize..], "{cap} {most}");
                let mut reader = view.read_transcript(Reading::Marked).unwrap();
                reader.skip_to(end - most);
                assert_eq!(reader.offset(), end - most);
                let mut again = Vec::new();
                reader.read_to_end(&mut again).unwrap();
                assert!(again == last, "{cap} {most}");
            }
            assert!(
                !view
                    .read_transcript(Reading::Raw)
                    .unwrap()
                    .skip_to_last(end)
            );
            assert_eq!(view.bytes_total(), data.len() as u64);
        };
        check(&view(&store, job.id()));
        let mut end = exited(0);
        end.output = facts;
        job.commit(&end).unwrap();
        check(&view(&store, job.id()));
    }
}

#[test]
fn a_transcript_is_followed_while_it_grows() {
    let (_keep, store) = store();
    let mut draft = draft();
    draft.transcript_cap = 64 * 1024;
    let mut job = store.create_job(draft).unwrap();
    let mut reader = view(&store, job.id())
        .read_transcript(Reading::Raw)
        .unwrap();
    let mut seen = Vec::<u8>::new();
    let mut all = Vec::new();
    for round in 0..60u8 {
        let piece = vec![round; 1000];
        job.transcript().write(&piece);
        all.extend(piece);
        let mut buffer = [0; 700];
        loop {
            match reader.read(&mut buffer).unwrap() {
                0 => break,
                count => seen.extend(&buffer[..count]),
            }
        }
        assert_eq!(seen, all, "round {round}");
    }
}

#[test]
fn nothing_is_kept_with_a_cap_of_zero() {
    let (_keep, store) = store();
    let mut draft = draft();
    draft.transcript_cap = 0;
    let mut job = store.create_job(draft).unwrap();
    job.transcript().write(b"secret");
    let facts = job.transcript().facts();
    assert_eq!((facts.bytes_total, facts.bytes_kept), (6, 0));
    assert!(!job.dir().join("out").exists());
}

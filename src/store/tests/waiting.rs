//! Waiting for an end.

use super::*;

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
    assert!(matches!(
        views[1].wait(Some(Instant::now())).unwrap(),
        Waited::TimedOut
    ));
    let waiter = {
        let view = views[1].clone();
        std::thread::spawn(move || view.wait(None).unwrap())
    };
    second.commit(&exited(1)).unwrap();
    let Waited::Ended(ended) = waiter.join().unwrap() else {
        panic!("not ended");
    };
    assert_eq!(ended.exit_code(), Some(1));
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

/// Whoever starts a process shares the lease with it until its exec; the end frees it all the same.
#[test]
fn a_child_that_has_yet_to_exec_holds_nobody() {
    let (_keep, store) = store();
    let mut job = store.create_job(draft()).unwrap();
    let run = std::fs::File::open(job.dir().join("run.json")).unwrap();
    let _shared = job.shared_lease().unwrap();
    assert!(lock::is_written(&run).unwrap());
    job.commit(&exited(3)).unwrap();
    assert!(!lock::is_written(&run).unwrap());
}

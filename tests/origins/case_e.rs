//! Kill and natural exit race; recovered jobs are lied about; pids of a sandbox are trusted on the host.

use std::fs;

use super::{started, worker};
use crate::support::{
    Sandbox, Status, in_parallel, job_dirs, ps_json, records, stands_in, wait_for_records,
    wait_until,
};

/// Whoever wins, there is one record; its state is the one that `wait` and `ps` tell.
#[test]
fn case_e_kill_and_natural_exit_make_one_record() {
    if !stands_in() {
        return;
    }
    let rounds: Vec<usize> = (0..30).collect();
    in_parallel(&rounds, |_, _, &round| {
        let sandbox = Sandbox::new();
        let gate = sandbox.gate();
        let script = worker(&sandbox, &gate, "racer", 37);
        assert!(
            sandbox
                .call("bash")
                .c(format!("{script} &"))
                .run()
                .succeeded()
        );
        started(&sandbox, "racer");
        let id = ps_json(&sandbox)[0]["id"].as_str().unwrap().to_owned();
        let waiting = sandbox.call("agent-sh").args(["wait", &id]).start();
        let kill = sandbox.call("agent-sh").args(["kill", &id]);
        // Half of the rounds let the job go first, half the killer.
        let killing = if round.is_multiple_of(2) {
            gate.release(1);
            kill.start()
        } else {
            let killing = kill.start();
            gate.release(1);
            killing
        };
        let killed = killing.finish();
        assert_eq!(killed.status, Status::Exited(0), "it is gone: {killed:?}");
        let told = waiting.finish().status;
        let found = wait_for_records(&sandbox, 1);
        let (state, code) = (found[0].state(), found[0].exit_code());
        match told {
            Status::Exited(37) => assert_eq!((state, code), ("exited", Some(37))),
            Status::Exited(143) => assert_eq!((state, code), ("signaled", None)),
            other => panic!("wait gave {other:?}; {:#}", found[0].event),
        }
        let listed = &ps_json(&sandbox)[0];
        assert_eq!(
            (listed["state"].as_str(), listed["exit_code"].as_i64()),
            (Some(state), code)
        );
    });
}

/// Any number of restarts reads the same; nothing is rewritten and nothing forgotten.
#[test]
fn case_e_what_is_recorded_stays_through_restarts() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let done = worker(&sandbox, &gate, "done", 0);
    assert!(
        sandbox
            .call("bash")
            .c(format!("{done} &"))
            .run()
            .succeeded()
    );
    started(&sandbox, "done");
    gate.release(1);
    wait_for_records(&sandbox, 1);
    let runs = worker(&sandbox, &gate, "runs", 37);
    assert!(
        sandbox
            .call("bash")
            .c(format!("{runs} &"))
            .run()
            .succeeded()
    );
    let process = started(&sandbox, "runs");
    let file = |dir: &std::path::PathBuf| fs::read(dir.join("exit.json")).ok();
    let before: Vec<_> = job_dirs(&sandbox).iter().map(file).collect();
    for _ in 0..5 {
        let jobs = ps_json(&sandbox);
        let mut states: Vec<&str> = jobs
            .iter()
            .map(|job| job["state"].as_str().unwrap())
            .collect();
        states.sort_unstable();
        assert_eq!(states, ["exited", "running"], "{jobs:#?}");
    }
    let after: Vec<_> = job_dirs(&sandbox).iter().map(file).collect();
    assert!(before == after, "a look rewrote a record");
    assert!(process.lives());
    gate.release(1);
    wait_until("the second has its record", || records(&sandbox).len() == 2);
    sandbox.assert_no_survivors();
}

/// A job in a pid namespace that has gone: its pid may belong to anyone here, so it is `lost`, and a kill
/// of it signals nobody.
#[test]
fn case_e_a_pid_of_another_namespace_is_not_trusted() {
    if !stands_in() {
        return;
    }
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let gate = sandbox.gate();
    let inside = worker(&sandbox, &gate, "inside", 0);
    // Process 1 of the namespace leaves once the job runs, and the kernel kills the rest of it.
    let text = format!(
        "{} -c '{inside} &'; until [ -s {} ]; do :; done",
        sandbox.link("bash").display(),
        super::mark(&sandbox, "inside")
    );
    // The front would keep waiting for its job here, were it told to linger.
    let ended = sandbox
        .unshare(&["--pid", "--fork", "--mount-proc"])
        .args(["bash", "-c", text.as_str()])
        .env("AGENT_SH_LINGER", "0")
        .run();
    assert!(ended.succeeded(), "{ended:?}");
    sandbox.assert_no_survivors();
    let jobs = ps_json(&sandbox);
    assert_eq!(jobs.len(), 1, "{jobs:#?}");
    assert_eq!(
        (&jobs[0]["state"], &jobs[0]["exit_code"]),
        (&"lost".into(), &().into())
    );
    // A bystander that leads its own group, whatever pid the record holds.
    let bystander = sandbox.real_call("sleep").args(["1000"]).start();
    let killed = sandbox.agent_sh(["kill", jobs[0]["id"].as_str().unwrap()]);
    assert!(killed.succeeded(), "it is gone: {killed:?}");
    assert!(
        crate::support::Identity::of(bystander.pid())
            .unwrap()
            .lives()
    );
    crate::support::signal(bystander.pid(), nix::sys::signal::Signal::SIGKILL);
    bystander.finish();
    assert_eq!(records(&sandbox).len(), 1);
}

/// Told once, whoever wins the race; and a subscription outlives the crash of everything of ours: the job
/// whose supervisor was killed is told of by whoever looks next, never with a made-up code.
#[test]
fn case_e_each_end_is_told_once_and_the_wish_to_be_told_survives_crashes() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let events = sandbox.path("events");
    let sink = format!("dir:{}", events.display());
    let added = sandbox.agent_sh(["notify", "add", &sink, "--as", "me"]);
    assert!(added.succeeded(), "{added:?}");
    let told = || {
        let files = fs::read_dir(&events).unwrap();
        let mut names: Vec<String> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        names
    };
    // Kill and natural exit, six times.
    for round in 0..6 {
        let gate = sandbox.gate();
        let name = format!("racer{round}");
        let script = worker(&sandbox, &gate, &name, 37);
        let call = sandbox.call("bash").c(format!("{script} &")).run();
        assert!(call.succeeded());
        started(&sandbox, &name);
        let jobs = ps_json(&sandbox);
        let job = jobs.iter().find(|job| job["state"] == "running").unwrap();
        let id = job["id"].as_str().unwrap();
        let killing = sandbox.call("agent-sh").args(["kill", id]).start();
        gate.release(1);
        assert_eq!(killing.finish().status, Status::Exited(0));
    }
    let found = wait_for_records(&sandbox, 6);
    let mut wanted: Vec<String> = found
        .iter()
        .map(|record| format!("{}.exit.json", record.job))
        .collect();
    wait_until("six are told", || told() == wanted);
    for record in &found {
        let file = events.join(format!("{}.exit.json", record.job));
        let event: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert_eq!(event, record.event, "what is told is what was recorded");
    }
    // The crash: supervisor and job die at once, nobody saw the end.
    let gate = sandbox.gate();
    let script = worker(&sandbox, &gate, "crashed", 0);
    let call = sandbox.call("bash").c(format!("{script} &")).run();
    assert!(call.succeeded());
    let job = started(&sandbox, "crashed");
    let supervisor = crate::support::parent_of(job.pid).unwrap();
    for pid in [supervisor, job.pid] {
        crate::support::signal(pid, nix::sys::signal::Signal::SIGKILL);
    }
    wait_until("the loss is found and told without being asked for", || {
        ps_json(&sandbox);
        told().len() == 7
    });
    let lost = records(&sandbox)
        .into_iter()
        .find(|record| !wanted.contains(&format!("{}.exit.json", record.job)))
        .unwrap();
    // Where nobody has reaped it yet, its true end can still be seen.
    assert!(
        ["lost", "signaled"].contains(&lost.state()),
        "{:#}",
        lost.event
    );
    assert_eq!(lost.exit_code(), None);
    wanted.push(format!("{}.exit.json", lost.job));
    wanted.sort();
    assert_eq!(told(), wanted);
    sandbox.assert_no_survivors();
    assert_eq!(told(), wanted, "and nothing twice");
}

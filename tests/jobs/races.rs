//! Kills at one exact moment of a start: the processes of a call are held at a named point, somebody is
//! killed, and the others go on. What other tests provoke by repetition happens here every time.

use nix::sys::signal::Signal;

use super::Stage;
use crate::support::{
    Identity, Pause, Status, Streams, group_kill, has_pauses, in_parallel, job_records, signal,
    stands_in, tree, tree_kill, wait_for_records, wait_until,
};

type Kill = fn(i32);

/// The ways in which a call is ended, by the pid of its front.
const KILLS: [(&str, Kill); 3] = [
    ("front", |pid| signal(pid, Signal::SIGKILL)),
    ("group", group_kill),
    ("tree", tree_kill),
];

fn kill(process: Identity) {
    signal(process.pid, Signal::SIGKILL);
    wait_until("it has ended", || !process.lives());
}

/// How often the text of a call has run, which appends a line to `ran` each time.
fn runs(stage: &Stage) -> usize {
    let text = std::fs::read_to_string(stage.sandbox.work().join("ran"));
    text.unwrap_or_default().lines().count()
}

/// The call is killed while its supervisor is being started. What runs of the command is ended as if the
/// kill had come later; a job that had started by then goes on; nothing else stays.
#[test]
fn a_call_killed_before_it_has_a_supervisor() {
    if !stands_in() || !has_pauses() {
        return;
    }
    let points = [
        "middle-started",
        "starter-orphaned",
        "supervisor-started",
        "front-handed-off",
    ];
    let cases: Vec<_> = points
        .into_iter()
        .flat_map(|point| KILLS.map(|kill| (point, kill)))
        .collect();
    in_parallel(&cases, |_, _, &(point, (name, kill))| {
        let what = format!("{name} at {point}");
        let stage = Stage::new();
        let hold = stage.sandbox.gate();
        let text = format!(
            "echo >> ran; {} & read -r x < {}",
            stage.worker,
            hold.path()
        );
        let pause = Pause::new(&stage.sandbox, point);
        let running = pause.hold(stage.sandbox.call("bash").c(text)).start();
        let reached = pause.reached(1);
        let seen = tree(running.pid());
        kill(running.pid());
        // Nobody who looks down from the front can have met the supervisor or who forks it.
        let is_apart = ["starter-orphaned", "supervisor-started"].contains(&point);
        if is_apart {
            assert!(!seen.contains(&reached.pid), "{what}");
            assert!(reached.lives(), "{what}");
        }
        pause.go();
        let (ended, _) = running.returned();
        assert_eq!(ended.status, Status::Signaled(9), "{what}: {ended:?}");
        // A job that started in spite of it ends by itself.
        stage.gate.release(1);
        stage.sandbox.assert_no_survivors();
        assert!(runs(&stage) <= 1, "{what}");
        if point == "middle-started" && name == "tree" {
            assert_eq!(
                runs(&stage),
                0,
                "{what}: all who could start it were killed"
            );
        }
        let marked = stage.marked().len();
        let found = job_records(&stage.sandbox);
        let whole = found.iter().filter(|job| job.exit_code() == Some(37));
        assert_eq!(whole.count(), marked, "{what}: {found:#?}");
        assert!(found.len() <= 1, "{what}: {found:#?}");
    });
}

/// Whoever ends a tree may have looked at it when the call had just begun, and kill what he saw when the job
/// runs: the front and those who started the supervisor, never the supervisor itself.
#[test]
fn a_look_at_the_start_and_a_late_kill() {
    if !stands_in() || !has_pauses() {
        return;
    }
    // Over a terminal the supervisor is started in the session of the call, else in its own.
    in_parallel(&[Streams::Pipe, Streams::Terminal], |_, _, &streams| {
        let stage = Stage::new();
        let hold = stage.sandbox.gate();
        let text = format!("{} & read -r x < {}", stage.worker, hold.path());
        let pause = Pause::new(&stage.sandbox, "middle-ending");
        let call = stage.sandbox.call("bash").c(text).streams(streams);
        let running = pause.hold(call).start();
        let mut seen = Vec::new();
        wait_until("the front, the middle and the starter are seen", || {
            let all = tree(running.pid()).into_iter();
            seen = all.filter_map(Identity::of).collect();
            seen.len() >= 3
        });
        pause.go();
        let workers = stage.workers(1);
        for process in seen.into_iter().filter(|process| process.lives()) {
            signal(process.pid, Signal::SIGKILL);
        }
        let (ended, terminal) = running.returned();
        assert_eq!(ended.status, Status::Signaled(9), "{streams:?}: {ended:?}");
        assert!(workers[0].lives(), "{streams:?}");
        stage.gate.release(1);
        let found = wait_for_records(&stage.sandbox, 1);
        assert_eq!(found[0].exit_code(), Some(37), "{streams:?}: {found:#?}");
        stage.sandbox.assert_no_survivors();
        drop(terminal);
    });
}

/// Who starts a supervisor is killed before there is one. It is tried again, and when every try has ended
/// like that, the real shell runs the text: once in any case.
#[test]
fn the_starters_of_a_supervisor_killed() {
    if !stands_in() || !has_pauses() {
        return;
    }
    let points = ["middle-started", "starter-orphaned"];
    let cases: Vec<_> = points
        .into_iter()
        .flat_map(|point| [(point, 1), (point, 2), (point, 3)])
        .collect();
    in_parallel(&cases, |_, _, &(point, times)| {
        let what = format!("{point}, {times} killed");
        let stage = Stage::new();
        let text = format!("echo >> ran; {} & exit 3", stage.worker);
        let pause = Pause::new(&stage.sandbox, point);
        let call = stage
            .sandbox
            .call("bash")
            .c(text)
            .env("AGENT_SH_ANNOUNCE", "1");
        let running = pause.hold(call).start();
        for count in 1..=times {
            kill(pause.reached(count));
        }
        pause.go();
        stage.workers(1);
        let is_kept = times < 3;
        if is_kept {
            let ended = running.finish();
            assert_eq!(ended.status, Status::Exited(3), "{what}: {ended:?}");
            stage.gate.release(1);
            let found = wait_for_records(&stage.sandbox, 1);
            assert_eq!(found[0].exit_code(), Some(37), "{what}: {found:#?}");
        } else {
            // The worker has the streams of the call, as without us.
            stage.gate.release(1);
            let ended = running.finish();
            assert_eq!(ended.status, Status::Exited(3), "{what}: {ended:?}");
            assert!(
                ended.errors().contains("cannot supervise"),
                "{what}: {ended:?}"
            );
        }
        stage.sandbox.assert_no_survivors();
        assert_eq!(runs(&stage), 1, "{what}");
    });
}

/// A supervisor that is killed before it did anything: the front cannot tell that the text has not run,
/// and so does not run it again.
#[test]
fn a_supervisor_killed_in_its_first_moment() {
    if !stands_in() || !has_pauses() {
        return;
    }
    let stage = Stage::new();
    let pause = Pause::new(&stage.sandbox, "supervisor-started");
    let running = pause
        .hold(stage.sandbox.call("bash").c("echo >> ran"))
        .start();
    kill(pause.reached(1));
    let ended = running.finish();
    assert_eq!(ended.status, Status::Exited(125), "{ended:?}");
    assert!(ended.errors().contains("supervisor"), "{ended:?}");
    stage.sandbox.assert_no_survivors();
    assert_eq!(runs(&stage), 0);
}

/// Where a job is between the shell's fork and its program.
const ON_THE_WAY: [(&str, &str); 4] = [
    ("launcher-unregistered", "{worker} &"),
    ("launcher-registered", "{worker} &"),
    ("adoption-unregistered", "{ true; {worker}; } &"),
    ("adoption-registered", "{ true; {worker}; } &"),
];

fn on_the_way() -> Vec<(&'static str, &'static str, &'static str)> {
    let shells = ["bash", "dash", "zsh"];
    let of = |shell| ON_THE_WAY.map(|(point, text)| (shell, point, text));
    shells.into_iter().flat_map(of).collect()
}

/// The call is killed while its job is on the way to its program: the job is spared.
#[test]
fn a_call_killed_while_its_job_registers() {
    if !stands_in() || !has_pauses() {
        return;
    }
    let kills = [
        KILLS[0],
        KILLS[1],
        KILLS[2],
        ("term", |pid| signal(pid, Signal::SIGTERM)),
        ("hangup", |pid| signal(pid, Signal::SIGHUP)),
    ];
    let cases: Vec<_> = on_the_way()
        .into_iter()
        .enumerate()
        // Each kill in turn, each with every point: all pairs would take long.
        .flat_map(|(index, case)| [0, 1, 2].map(|more| (case, kills[(index + more) % kills.len()])))
        .collect();
    in_parallel(&cases, |_, _, &((shell, point, text), (name, kill))| {
        let what = format!("{name} at {point} in {shell}");
        let stage = Stage::new();
        let hold = stage.sandbox.gate();
        let text = text.replace("{worker}", &stage.worker);
        let text = format!("{text} read -r x < {}", hold.path());
        let pause = Pause::new(&stage.sandbox, point);
        let running = pause.hold(stage.sandbox.call(shell).c(text)).start();
        pause.reached(1);
        kill(running.pid());
        let (ended, _) = running.returned();
        assert_ne!(ended.status, Status::Exited(0), "{what}: {ended:?}");
        pause.go();
        stage.workers(1);
        stage.gate.release(1);
        let found = wait_for_records(&stage.sandbox, 1);
        let job = (found[0].state(), found[0].exit_code());
        assert_eq!(job, ("exited", Some(37)), "{what}: {found:#?}");
        stage.sandbox.assert_no_survivors();
        assert_eq!(job_records(&stage.sandbox).len(), 1, "{what}");
    });
}

/// The launcher is killed on the way. In the place of the program, it is the job that was killed; on behalf
/// of a subshell, that goes on without it. The shell goes on in any case.
#[test]
fn a_launcher_killed_on_the_way() {
    if !stands_in() || !has_pauses() {
        return;
    }
    in_parallel(&on_the_way(), |_, _, &(shell, point, text)| {
        let what = format!("{point} in {shell}");
        let stage = Stage::new();
        let text = text.replace("{worker}", &stage.worker);
        // What is plainly waited for would be no job.
        let text = format!("{text} w=wait; $w $!; echo status $?");
        let pause = Pause::new(&stage.sandbox, point);
        let running = pause.hold(stage.sandbox.call(shell).c(text)).start();
        kill(pause.reached(1));
        pause.go();
        stage.gate.release(1);
        let ended = running.finish();
        let is_program = point.starts_with("launcher");
        let status = if is_program {
            "status 137"
        } else {
            "status 37"
        };
        assert!(ended.text().contains(status), "{what}: {ended:?}");
        stage.sandbox.assert_no_survivors();
        let found = job_records(&stage.sandbox);
        if point.ends_with("-registered") {
            assert_eq!(found.len(), 1, "{what}: {found:#?}");
            let state = if is_program { "signaled" } else { "exited" };
            assert_eq!(found[0].state(), state, "{what}: {found:#?}");
        } else {
            assert!(found.len() <= 1, "{what}: {found:#?}");
        }
        assert_eq!(stage.marked().len(), usize::from(!is_program), "{what}");
    });
}

//! A tree that dies at one blow is one job. A daemon that ends beside a job is one of its own.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::Stage;
use crate::support::{
    Identity, Record, Sandbox, group_kill, holds_within, in_parallel, job_records, parent_of, real,
    signal, stands_in, wait_for_records, wait_until,
};

/// A chain of three that do nothing for each other: nobody is waited for. Each says who it is, in the
/// file of its number. With a second argument, the last is in a session of its own.
const CHAIN: &str = "
import os, sys
gate, marks = sys.argv[1:3]
number = 0
while number < 2:
    if os.fork():
        break
    number += 1
if number == 2 and len(sys.argv) > 3:
    os.setsid()
with open(f'{marks}/.{number}', 'w') as file:
    file.write(str(os.getpid()))
os.rename(f'{marks}/.{number}', f'{marks}/{number}')
open(gate).readline()
sys.exit(7)
";

struct Chain {
    stage: Stage,
    /// The job first.
    members: [Identity; 3],
    supervisor: i32,
}

impl Chain {
    fn new(args: &str) -> Self {
        let stage = Stage::new();
        fs::write(stage.sandbox.work().join("chain.py"), CHAIN).unwrap();
        let text = format!(
            "{} chain.py {} {} {args} &",
            real("python3").display(),
            stage.gate.path(),
            stage.marks.display()
        );
        let call = stage.sandbox.call("bash").c(text).run();
        assert!(call.succeeded(), "{call:?}");
        let member = |number: i32| {
            let path = stage.marks.join(number.to_string());
            wait_until("it says who it is", || path.exists());
            let pid = fs::read_to_string(path).unwrap().parse().unwrap();
            Identity::of(pid).unwrap()
        };
        let members = [0, 1, 2].map(member);
        let supervisor = parent_of(members[0].pid).unwrap();
        Self {
            stage,
            members,
            supervisor,
        }
    }

    /// Ends one, and lets the supervisor take note of it if it is to.
    fn end(&self, number: usize, how: Signal, noted: bool) {
        let who = self.members[number];
        signal(who.pid, how);
        wait_until("it has ended", || !who.lives());
        if noted {
            // Nobody but the supervisor reaps, so whoever is its child goes at once.
            let child = || parent_of(who.pid) == Some(self.supervisor);
            wait_until("it was reaped, or has a parent that does not", || !child());
        }
    }

    fn only_record(&self) -> Record {
        let mut found = wait_for_records(&self.stage.sandbox, 1);
        found.remove(0)
    }
}

/// In whatever order its processes die, and whenever the supervisor hears of it.
#[test]
fn a_tree_that_is_killed_by_pid_is_one_job() {
    if !stands_in() {
        return;
    }
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    let ways: Vec<_> = orders
        .iter()
        .flat_map(|order| [(order, true), (order, false)])
        .collect();
    in_parallel(&ways, |_, _, &(order, noted)| {
        let chain = Chain::new("");
        if !noted {
            signal(chain.supervisor, Signal::SIGSTOP);
        }
        for &number in order {
            chain.end(number, Signal::SIGKILL, noted);
        }
        signal(chain.supervisor, Signal::SIGCONT);
        let record = chain.only_record();
        assert_eq!(record.how(), "ampersand", "{order:?} {noted}: {record:#?}");
        assert_eq!(record.data("signal"), 9, "{order:?} {noted}: {record:#?}");
    });
}

/// Also where one of them has a session of its own, and died of the same signal.
#[test]
fn a_session_within_a_tree_dies_with_it() {
    if !stands_in() {
        return;
    }
    let ways: Vec<_> = [Signal::SIGKILL, Signal::SIGTERM]
        .into_iter()
        .flat_map(|how| [(how, [0, 1, 2]), (how, [2, 1, 0]), (how, [1, 2, 0])])
        .collect();
    in_parallel(&ways, |_, _, &(how, order)| {
        let chain = Chain::new("apart");
        // All of it is one moment to the supervisor.
        signal(chain.supervisor, Signal::SIGSTOP);
        for number in order {
            chain.end(number, how, false);
        }
        signal(chain.supervisor, Signal::SIGCONT);
        let record = chain.only_record();
        assert_eq!(record.how(), "ampersand", "{how:?} {order:?}: {record:#?}");
    });
}

/// The group, the children of the job, the whole of it by name.
#[test]
fn a_tree_that_is_killed_at_one_blow_is_one_job() {
    if !stands_in() {
        return;
    }
    let ways = ["group", "children", "verb", "verb by force"].repeat(3);
    in_parallel(&ways, |_, _, &way| {
        let chain = Chain::new("");
        let job = chain.members[0].pid;
        match way {
            "group" => group_kill(job),
            "children" => {
                signal(chain.members[2].pid, Signal::SIGTERM);
                signal(chain.members[1].pid, Signal::SIGTERM);
                // Else one of them could still take what is meant for the job.
                wait_until("the others have ended", || {
                    !chain.members[1].lives() && !chain.members[2].lives()
                });
                chain.stage.gate.release(1);
            }
            "verb" | "verb by force" => {
                let force: &[&str] = if way == "verb" { &[] } else { &["-9"] };
                let kill = chain.stage.sandbox.call("agent-sh").arg("kill");
                let kill = kill.args(force).arg("last").run();
                assert!(kill.succeeded(), "{kill:?}");
            }
            other => panic!("no such way: {other}"),
        }
        let record = chain.only_record();
        assert_eq!(record.how(), "ampersand", "{way}: {record:#?}");
        if way == "children" {
            assert_eq!(record.exit_code(), Some(7), "{record:#?}");
        }
    });
}

/// What agents really write, many at once, on a machine that has more to do than it can.
#[test]
fn many_that_time_out_are_so_many_records() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let bash = real("bash");
    let line = format!(
        "timeout 0.4 {} -c 'echo up; sleep 61; true' &\n",
        bash.display()
    );
    let call = sandbox.call("bash").c(line.repeat(60)).run();
    assert!(call.succeeded(), "{call:?}");
    let found = wait_for_records(&sandbox, 60);
    for record in &found {
        assert_eq!(record.exit_code(), Some(124), "{record:#?}");
    }
}

/// Ways to become a daemon, with `{worker}` for what it becomes.
const DAEMONS: [(&str, &str); 5] = [
    ("setsid -f", "{setsid} -f {worker}"),
    ("in a subshell", "({setsid} {worker} &)"),
    ("nohup", "({nohup} {setsid} {worker} > nohup.txt 2>&1 &)"),
    ("double fork", "{python} forker.py 2 {worker}"),
    ("without a mark", "(env -i {setsid} {worker} &)"),
];

/// A job that makes a daemon after its call, and another job; a daemon's end has its record whenever the
/// other one ends.
struct Beside {
    stage: Stage,
    daemon: Identity,
    /// Holds the maker, and the other job.
    holds: [crate::support::Gate; 2],
}

impl Beside {
    fn new(way: &str) -> Self {
        let stage = Stage::new();
        let holds = [stage.sandbox.gate(), stage.sandbox.gate()];
        let make = way
            .replace("{setsid}", real("setsid").to_str().unwrap())
            .replace("{nohup}", real("nohup").to_str().unwrap())
            .replace("{python}", real("python3").to_str().unwrap())
            .replace("{worker}", &stage.worker);
        let [maker, other] = &holds;
        let maker = format!("read -r x < {0}\n{make}\nread -r x < {0}\n", maker.path());
        fs::write(stage.sandbox.work().join("maker.sh"), maker).unwrap();
        let other = format!("read -r x < {}\nexit 5\n", other.path());
        fs::write(stage.sandbox.work().join("other.sh"), other).unwrap();
        let sh = real("sh");
        let text = format!("{0} maker.sh & {0} other.sh &", sh.display());
        let call = stage.sandbox.call("bash").c(text).run();
        assert!(call.succeeded(), "{call:?}");
        holds[0].release(1);
        let daemon = stage.workers(1)[0];
        let title = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        wait_until("it was left to the supervisor", || {
            parent_of(daemon.pid).is_some_and(|pid| title(pid).starts_with("agent-sh"))
        });
        Self {
            stage,
            daemon,
            holds,
        }
    }

    /// The pid of the job with this file.
    fn job(&self, file: &str) -> i32 {
        let jobs = crate::support::ps_json(&self.stage.sandbox);
        let job = jobs
            .iter()
            .find(|job| job["command"].as_str().unwrap().contains(file));
        i32::try_from(job.unwrap()["pid"].as_i64().unwrap()).unwrap()
    }

    /// How the daemon ended, once all have.
    fn ends(self) -> (serde_json::Value, serde_json::Value) {
        let daemon = self.daemon;
        wait_until("the daemon has ended", || !daemon.lives());
        self.holds[0].release(1);
        let found = wait_for_records(&self.stage.sandbox, 3);
        let strays: Vec<&Record> = found.iter().filter(|r| r.how() == "stray").collect();
        assert_eq!(strays.len(), 1, "{found:#?}");
        let data = |name| strays[0].data(name).clone();
        (data("exit_code"), data("signal"))
    }
}

#[test]
fn a_daemon_that_ends_after_another_job_has_its_record() {
    if !stands_in() {
        return;
    }
    let moments = [0, 50, 100, 199, 250];
    let ways: Vec<_> = DAEMONS
        .iter()
        .flat_map(|way| moments.map(|moment| (way, moment)))
        .collect();
    in_parallel(&ways, |_, _, &((name, way), moment)| {
        let beside = Beside::new(way);
        beside.holds[1].release(1);
        wait_until("the other job has ended", || {
            !job_records(&beside.stage.sandbox).is_empty()
        });
        let since = Instant::now();
        let late = Duration::from_millis(moment);
        wait_until("it is time", || since.elapsed() >= late);
        beside.stage.gate.release(1);
        let end = beside.ends();
        assert_eq!(end.0, 37, "{name} {moment}: {end:?}");
    });
}

/// The supervisor hears of both in one go, in either order, and of signals too.
#[test]
fn a_daemon_that_ends_with_another_job_has_its_record() {
    if !stands_in() {
        return;
    }
    let kills = [
        None,
        Some((Signal::SIGTERM, 15)),
        Some((Signal::SIGKILL, 9)),
    ];
    let ways: Vec<_> = DAEMONS
        .iter()
        .flat_map(|way| kills.map(|kill| (way, kill)))
        .flat_map(|(way, kill)| [true, false].map(|first| (way, kill, first)))
        .collect();
    in_parallel(&ways, |_, _, &((name, way), kill, first)| {
        let beside = Beside::new(way);
        let other = beside.job("other.sh");
        let other = Identity::of(other).unwrap();
        let supervisor = parent_of(beside.daemon.pid).unwrap();
        signal(supervisor, Signal::SIGSTOP);
        let end_daemon = || {
            match kill {
                None => beside.stage.gate.release(1),
                Some((kill, _)) => signal(beside.daemon.pid, kill),
            }
            wait_until("the daemon has ended", || !beside.daemon.lives());
        };
        if first {
            end_daemon();
        }
        beside.holds[1].release(1);
        wait_until("the other job has ended", || !other.lives());
        if !first {
            end_daemon();
        }
        signal(supervisor, Signal::SIGCONT);
        let (code, number) = beside.ends();
        match kill {
            None => assert_eq!(code, 37, "{name} {first}"),
            Some((_, wanted)) => assert_eq!(number, wanted, "{name} {first}"),
        }
    });
}

/// It was there before somebody killed the other job, and was killed a moment later: two ends.
#[test]
fn a_daemon_that_is_killed_after_another_job_has_its_record() {
    if !stands_in() {
        return;
    }
    let ways: Vec<_> = DAEMONS
        .iter()
        .flat_map(|way| [(way, Signal::SIGTERM, 15), (way, Signal::SIGKILL, 9)])
        .collect();
    in_parallel(&ways, |_, _, &((name, way), kill, number)| {
        let beside = Beside::new(way);
        let other = beside.job("other.sh");
        // Long enough to be told from one that is only passing.
        let since = Instant::now();
        wait_until("it has lived for a while", || {
            since.elapsed() > Duration::from_millis(300)
        });
        signal(other, kill);
        wait_until("the other job has ended", || {
            !job_records(&beside.stage.sandbox).is_empty()
        });
        signal(beside.daemon.pid, kill);
        assert_eq!(beside.ends().1, number, "{name} {kill:?}");
    });
}

/// What a job leaves in its own session is part of it, for as long as it runs.
#[test]
fn an_orphan_in_the_session_of_a_job_that_runs_is_no_job() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let hold = stage.sandbox.gate();
    let script = format!("({} &)\nread -r x < {}\n", stage.worker, hold.path());
    fs::write(stage.sandbox.work().join("maker.sh"), script).unwrap();
    let sh = real("sh");
    let other = stage.sandbox.gate();
    let text = format!(
        "{0} maker.sh & {0} -c 'read -r x < {1}' &",
        sh.display(),
        other.path()
    );
    let call = stage.sandbox.call("bash").c(text).run();
    assert!(call.succeeded(), "{call:?}");
    let worker = stage.workers(1)[0];
    other.release(1);
    wait_until("the other job has ended", || {
        !job_records(&stage.sandbox).is_empty()
    });
    // Longer than leftovers of the other one may take.
    let count = || crate::support::ps_json(&stage.sandbox).len();
    let more = holds_within(Duration::from_millis(500), || count() > 2);
    assert!(!more, "{:#?}", crate::support::ps_json(&stage.sandbox));
    stage.gate.release(1);
    wait_until("the orphan has ended", || !worker.lives());
    hold.release(1);
    wait_for_records(&stage.sandbox, 2);
}

/// What a job starts through us has a supervisor of its own, whose end is nobody's record.
#[test]
fn the_supervisor_of_a_job_within_a_job_is_none() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let hold = stage.sandbox.gate();
    let script = format!(
        "{} run -- {}\nread -r x < {}\n",
        stage.sandbox.link("agent-sh").display(),
        stage.worker,
        hold.path()
    );
    fs::write(stage.sandbox.work().join("outer.sh"), script).unwrap();
    let text = format!("{} outer.sh &", real("sh").display());
    let call = stage.sandbox.call("bash").c(text).run();
    assert!(call.succeeded(), "{call:?}");
    let worker = stage.workers(1)[0];
    let inner = Identity::of(parent_of(worker.pid).unwrap()).unwrap();
    stage.gate.release(1);
    wait_until("its supervisor has ended", || !inner.lives());
    hold.release(1);
    let found = wait_for_records(&stage.sandbox, 2);
    let mut hows: Vec<&str> = found.iter().map(Record::how).collect();
    hows.sort_unstable();
    assert_eq!(hows, ["ampersand", "run"], "{found:#?}");
}

/// Two jobs end one after the other; what the second has left keeps its terminal until it is a job, though
/// the time of the first is over before.
#[test]
fn what_a_job_left_keeps_its_terminal() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let first = stage.sandbox.gate();
    let second = stage.sandbox.gate();
    let left = format!("({} &)\nread -r x < {}\n", stage.worker, second.path());
    fs::write(stage.sandbox.work().join("left.sh"), left).unwrap();
    let sh = real("sh");
    let text = format!(
        "{0} -c 'read -r x < {1}' & {0} left.sh &",
        sh.display(),
        first.path()
    );
    let call = stage.sandbox.call("bash").c(text).run();
    assert!(call.succeeded(), "{call:?}");
    let worker = stage.workers(1)[0];
    first.release(1);
    wait_until("the first has ended", || {
        job_records(&stage.sandbox).len() == 1
    });
    let since = Instant::now();
    wait_until("half of its time is over", || {
        since.elapsed() > Duration::from_millis(100)
    });
    second.release(1);
    wait_until("the rest of the second is a job", || {
        let jobs = crate::support::ps_json(&stage.sandbox);
        jobs.iter().any(|job| job["pid"] == worker.pid)
    });
    stage.gate.release(1);
    let found = wait_for_records(&stage.sandbox, 3);
    let stray = found.iter().find(|record| record.how() == "stray").unwrap();
    assert_eq!(stray.exit_code(), Some(37), "{stray:#?}");
    let tail = stray.data("untrusted_output_tail").to_string();
    assert!(tail.contains("ends"), "{stray:#?}");
}

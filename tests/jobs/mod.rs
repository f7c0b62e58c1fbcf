//! Nothing in the background is lost: every form of starting work, every way a harness ends a call.

/// Pid namespaces: who is their init, and who only entered.
mod containers;
/// A job's text, what the announcement says, what a verb shows.
mod details;
/// Kills in the moment of a start, terminals that are nobody's, last words.
mod early;
/// Calls that everything ends with, and that therefore stay.
mod lingering;
/// `$!`, `wait`, `kill %1`, traps: as native, also where the text was rewritten.
mod native;
/// `nohup` in every place, and whose text a job has.
mod nohup;
/// One record per job and no more.
mod once;
/// Order, files, descriptors.
mod order;
/// The supervisor itself is killed.
mod orphaned;
/// State directories that cannot be written.
mod places;
/// What becomes a job because it takes too long, and what does not.
mod promotion;
/// Kills at one exact moment of a start.
mod races;
/// Eleven forms, over every kind of stream, through every kind of kill.
mod survival;
/// Trees that die at one blow, daemons that end beside a job.
mod together;
/// What only makes a call faster, on and off.
mod warm;

use std::fs;

use crate::support::{Call, Gate, Identity, Sandbox, real, wait_until};

/// A program that says so, leaves a mark when it runs, waits at a gate, speaks again and exits with 37.
const WORKER: &str = "#!/bin/sh
echo \"worker $$ speaks\"
: > \"$2/.$$\"
mv \"$2/.$$\" \"$2/$$\"
read -r x < \"$1\"
echo \"worker $$ ends\"
exit 37
";

/// Forks `sys.argv[1]` times and execs the rest once its parent has gone. Between two forks it starts a
/// session, as daemons do.
const FORKER: &str = "
import os, sys
for turn in range(int(sys.argv[1])):
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    if int(sys.argv[1]) == 2 and turn == 0:
        os.setsid()
while os.getppid() == parent:
    os.sched_yield()
os.execv(sys.argv[2], sys.argv[2:])
";

/// One way to start background work.
struct Form {
    name: &'static str,
    /// The text, with `{worker}` for the worker and its arguments.
    text: &'static str,
    how: &'static str,
    jobs: usize,
}

const fn form(name: &'static str, how: &'static str, jobs: usize, text: &'static str) -> Form {
    Form {
        name,
        text,
        how,
        jobs,
    }
}

const FORMS: [Form; 11] = [
    form("ampersand", "ampersand", 1, "{worker} &"),
    form("nohup", "nohup", 1, "nohup {worker} &"),
    form("disown", "disown", 1, "{worker} & disown"),
    form("setsid", "setsid", 1, "setsid {worker} &"),
    form("subshell", "ampersand", 1, "({worker} &)"),
    form("group", "ampersand", 1, "{ true; {worker}; } &"),
    form("pipeline", "ampersand", 1, "echo input | {worker} &"),
    form("loop", "ampersand", 3, "for i in 1 2 3; do {worker} & done"),
    form(
        "function",
        "ampersand",
        1,
        "inner=unexported; f() { [ \"$inner\" = unexported ] && {worker}; }; f &",
    ),
    form("daemon", "stray", 1, "./daemonize {worker}"),
    form(
        "python",
        "stray",
        1,
        "{python} -c \"$(cat forker.py)\" 1 {worker}",
    ),
];

/// A sandbox with the worker and what the forms need.
struct Stage {
    sandbox: Sandbox,
    gate: Gate,
    marks: std::path::PathBuf,
    worker: String,
}

impl Stage {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let gate = sandbox.gate();
        let marks = sandbox.path("marks");
        fs::create_dir(&marks).unwrap();
        let worker = sandbox.script("worker", WORKER);
        fs::write(sandbox.work().join("forker.py"), FORKER).unwrap();
        let daemonize = format!(
            "#!/bin/sh\n{} forker.py 2 \"$@\"\n",
            real("python3").display()
        );
        sandbox.script("work/daemonize", &daemonize);
        let worker = format!("{worker} {} {}", gate.path(), marks.display());
        Self {
            sandbox,
            gate,
            marks,
            worker,
        }
    }

    fn text(&self, form: &Form) -> String {
        form.text
            .replace("{worker}", &self.worker)
            .replace("{python}", real("python3").to_str().unwrap())
    }

    /// A call of bash in which, for all of its processes, a system call takes longer (`exit:delay_enter=…`
    /// microseconds): what is a moment elsewhere can be looked at. It returns when the last of them has ended.
    fn slowed(&self, what: &str, text: &str) -> Call<'_> {
        let (calls, _) = what.split_once(':').unwrap();
        self.sandbox
            .real_call("strace")
            .args(["-f", "-qq", "-o/dev/null"])
            .arg(format!("-etrace={calls}"))
            .arg(format!("-einject={what}"))
            .arg(self.sandbox.link("bash"))
            .c(text)
    }

    /// The workers that have left their mark, alive or not.
    fn marked(&self) -> Vec<i32> {
        let names = fs::read_dir(&self.marks).unwrap();
        names
            .filter_map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().ok())
            .collect()
    }

    /// Waits until `count` workers run.
    #[track_caller]
    fn workers(&self, count: usize) -> Vec<Identity> {
        wait_until("all workers run", || self.marked().len() >= count);
        let pids = self.marked().into_iter();
        pids.map(|pid| Identity::of(pid).expect("a worker waits at the gate"))
            .collect()
    }
}

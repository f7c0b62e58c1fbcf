//! Where something is missing that every machine has: descriptors, `/proc`. The real shell is the oracle
//! there too, and nothing may hang or call itself for ever.

use std::path::PathBuf;

use crate::support::{
    Call, Ended, Sandbox, Status, in_parallel, job_records, real, stands_in, wait_for_records,
    wait_until,
};

const TEXTS: [&str; 7] = [
    "echo out; echo err >&2; exit 3",
    "echo one | cat | wc -l; kill -TERM $$",
    "cat <<E\nheredoc $((1 + 1))\nE\n",
    "x=$(echo inner); echo \"got $x\"; false",
    "true & wait $!; echo \"status $?\"",
    "(exit 5) & echo started; exit 9",
    "exec 4>&1; echo four >&4; echo two >&2",
];

/// Every limit on open files from the least under which bash works at all.
#[test]
fn few_descriptors() {
    let sandbox = Sandbox::new();
    let run = |limit: u32, program: PathBuf, text: &str| {
        let enter = "ulimit -n \"$1\"; exec -a bash \"$2\" -c \"$3\"";
        let words = [
            enter,
            "x",
            &limit.to_string(),
            program.to_str().unwrap(),
            text,
        ]
        .map(str::to_owned);
        let call = sandbox.real_call("bash").args(["-c"]).args(words);
        call.run()
    };
    let limits: Vec<u32> = (4..=32).collect();
    in_parallel(&limits, |_, _, &limit| {
        for text in TEXTS {
            let native = run(limit, real("bash"), text);
            let ours = run(limit, sandbox.link("bash"), text);
            assert_eq!(native, ours, "ulimit -n {limit}: {text}");
        }
    });
    sandbox.assert_no_survivors();
}

/// What a call finds in place of `/proc`.
#[derive(Clone, Copy, Debug)]
enum Proc {
    /// Nothing.
    None,
    /// That of another pid namespace, where our numbers mean strangers.
    Foreign,
}

impl Proc {
    /// A call of `program` that runs like this.
    fn call(self, sandbox: &Sandbox) -> Call<'_> {
        let mut kinds = vec!["--mount"];
        let enter = match self {
            Self::None => "mount -t tmpfs none /proc && exec \"$@\"",
            Self::Foreign => {
                kinds.extend(["--pid", "--fork"]);
                "\"$@\"; exit $?"
            }
        };
        sandbox.unshare(&kinds).args(["bash", "-c", enter, "x"])
    }
}

#[test]
fn no_proc_of_our_own() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let run = |proc: Proc, program: PathBuf, text: &str| -> Ended {
        proc.call(&sandbox)
            .args([program.to_str().unwrap(), "-c", text])
            .run()
    };
    for proc in [Proc::None, Proc::Foreign] {
        for text in TEXTS {
            let native = run(proc, real("bash"), text);
            let ours = run(proc, sandbox.link("bash"), text);
            // `$0` is the path that was called.
            assert_eq!(native, ours, "{proc:?}: {text}");
        }
    }
    sandbox.assert_no_survivors();
}

/// The links of `setup shims` are found first by everybody, also by the program that looks for the real
/// shell. Without `/proc` it has to know itself by other means.
#[test]
fn links_do_not_lead_back() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let path = format!("{}:/usr/bin:/bin", sandbox.path("links").display());
    for proc in [Proc::None, Proc::Foreign] {
        let text =
            "sh -c 'echo inner; exit 4'; echo $?; nohup echo x 2>/dev/null; setsid true; exit 6";
        let call = proc.call(&sandbox).env("PATH", &path);
        let ended = call.args(["bash", "-c", text]).run();
        assert_eq!(ended.status, Status::Exited(6), "{proc:?}: {ended:?}");
        assert_eq!(ended.text(), "inner\n4\nx\n", "{proc:?}");
    }
    sandbox.assert_no_survivors();
}

/// A job outlives its call also where it cannot be seen; the announcement claims no more than is known,
/// and its end is recorded.
#[test]
fn a_job_without_proc() {
    if !stands_in() {
        return;
    }
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let gate = sandbox.gate();
    let text = format!(
        "(read -r x < {}; echo late; exit 37) & echo called; exit 7",
        gate.path()
    );
    let call = Proc::None.call(&sandbox).env("AGENT_SH_ANNOUNCE", "1");
    let ended = call
        .args([sandbox.link("bash").to_str().unwrap(), "-c", &text])
        .run();
    assert_eq!(
        (ended.status, ended.text().as_str()),
        (Status::Exited(7), "called\n")
    );
    let said = ended.errors();
    assert!(
        said.contains("still running") && !said.contains("wait"),
        "{said}"
    );
    assert!(job_records(&sandbox).is_empty());
    gate.release(1);
    let records = wait_for_records(&sandbox, 1);
    assert_eq!(
        (records[0].state(), records[0].exit_code()),
        ("exited", Some(37))
    );
    assert!(
        records[0].data("degraded").to_string().contains("no-proc"),
        "{records:#?}"
    );
}

/// The first process of a pid namespace takes everything with it: the call stays until its jobs end.
#[test]
fn a_job_that_would_die_with_its_namespace() {
    if !stands_in() {
        return;
    }
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let gate = sandbox.gate();
    let text = format!("(read -r x < {}; exit 37) & exit 7", gate.path());
    let link = sandbox.link("bash");
    let call = sandbox.unshare(&["--pid", "--fork"]);
    let call = call.args(["bash", "-c", "exec \"$0\" -c \"$1\" 2> said"]);
    let call = call.args([link.to_str().unwrap(), &text]);
    let running = call.env("AGENT_SH_ANNOUNCE", "1").start();
    let said = sandbox.work().join("said");
    wait_until("the call says that it stays", || {
        std::fs::read_to_string(&said).is_ok_and(|said| said.contains("stays until"))
    });
    gate.release(1);
    assert_eq!(running.finish().status, Status::Exited(7));
    let records = wait_for_records(&sandbox, 1);
    assert_eq!(
        (records[0].state(), records[0].exit_code()),
        ("exited", Some(37))
    );
}

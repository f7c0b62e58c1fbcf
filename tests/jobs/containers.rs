//! Calls in a pid namespace of their own: whether their jobs can outlive them depends on who is its init.

use crate::support::{
    Call, Gate, Running, Sandbox, Status, ps_json, records, stands_in, wait_for_records, wait_until,
};

/// A namespace whose init lives until it is told to go.
struct Namespace {
    init: i32,
    unshare: Running,
    gate: Gate,
}

/// What everybody needs who has no privileges.
fn as_root() -> &'static [&'static str] {
    if nix::unistd::geteuid().is_root() {
        &[]
    } else {
        &["--user", "--map-root-user"]
    }
}

/// A call in a new pid namespace, of which it is the init; `None` where that is not allowed.
fn as_init(sandbox: &Sandbox) -> Option<Call<'_>> {
    let unshare = || {
        let call = sandbox.real_call("unshare").args(as_root());
        call.args(["--pid", "--fork", "--mount-proc"])
    };
    let may = unshare().arg("true").run();
    if !may.succeeded() {
        skipped(&format!(
            "no pid namespace can be made here: {}",
            may.errors()
        ));
        return None;
    }
    Some(unshare())
}

#[expect(
    clippy::print_stderr,
    reason = "a test that cannot run here says so plainly"
)]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

impl Namespace {
    /// With an init of this name, which is a shell that waits.
    fn new(sandbox: &Sandbox, name: &str) -> Option<Self> {
        let gate = sandbox.gate();
        let program = sandbox.path(name);
        std::fs::copy(crate::support::real("dash"), &program).unwrap();
        let up = sandbox.path(format!("up-{name}"));
        let text = format!("echo x >{}; read -r x <{}", up.display(), gate.path());
        let unshare = as_init(sandbox)?.arg(&program).args(["-c", &text]).start();
        let unshare_pid = unshare.pid();
        wait_until("the init is up", || up.exists());
        let children = format!("/proc/{unshare_pid}/task/{unshare_pid}/children");
        let children = std::fs::read_to_string(children).unwrap();
        let init = children.trim().parse().unwrap();
        Some(Self {
            init,
            unshare,
            gate,
        })
    }

    /// A call within, whose parent is outside: as `docker exec` and `kubectl exec` make it.
    fn enter<'a>(&self, sandbox: &'a Sandbox) -> Call<'a> {
        let target = self.init.to_string();
        let mut words = vec!["--target", &target, "--pid", "--mount"];
        if !as_root().is_empty() {
            words.extend(["--user", "--preserve-credentials"]);
        }
        sandbox.real_call("nsenter").args(words)
    }

    fn end(self) {
        self.gate.release(1);
        self.unshare.finish();
    }
}

/// The call returns while its job waits, and the job lives on and has its record.
#[test]
fn a_call_that_enters_a_container_does_not_wait_for_its_jobs() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let Some(namespace) = Namespace::new(&sandbox, "init") else {
        return;
    };
    let gate = sandbox.gate();
    let text = format!(
        "sh -c 'read -r x <{}; exit 5' & echo $PPID >parent",
        gate.path()
    );
    let call = namespace
        .enter(&sandbox)
        .arg(sandbox.link("bash"))
        .args(["-c", &text]);
    let ended = call.run();
    assert_eq!(ended.status, Status::Exited(0), "{ended:?}");
    let jobs = ps_json(&sandbox);
    assert_eq!(jobs.len(), 1, "{jobs:#?}");
    gate.release(1);
    wait_until("the job has its record", || records(&sandbox).len() == 1);
    let record = records(&sandbox).remove(0);
    assert_eq!(record.exit_code(), Some(5), "{record:?}");
    namespace.end();
    sandbox.assert_no_survivors();
}

/// The front is the init, or the init is the helper of a sandbox that was made for the call: the kernel
/// ends all jobs with it, so it stays for them.
#[test]
fn a_call_that_a_container_ends_with_waits_for_its_jobs() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let Some(call) = as_init(&sandbox) else {
        return;
    };
    let gate = sandbox.gate();
    let job = format!(
        "sh -c 'echo up >up; read -r x <{}; echo end >end; exit 5'",
        gate.path()
    );
    let stays = |call: Call<'_>| {
        let running = call.start();
        let file = |name: &str| sandbox.work().join(name);
        wait_until("the job is up", || file("up").exists());
        // It would have ended by now, or will end: in both cases its job does not write.
        gate.release(1);
        let ended = running.finish();
        assert_eq!(ended.status, Status::Exited(0), "{ended:?}");
        assert!(file("end").exists(), "the job ended with its call");
        for name in ["up", "end"] {
            std::fs::remove_file(file(name)).unwrap();
        }
    };
    stays(
        call.arg(sandbox.link("bash"))
            .args(["-c", &format!("{job} &")]),
    );
    // As bubblewrap has it: its init leaves with the command.
    let helper = sandbox.path("bwrap");
    std::fs::copy(crate::support::real("dash"), &helper).unwrap();
    let text = format!("{} -c \"{job} &\"; exit $?", sandbox.link("bash").display());
    let call = as_init(&sandbox).unwrap().arg(&helper);
    stays(call.args(["-c", &text]));
    let records = wait_for_records(&sandbox, 2);
    assert!(
        records.iter().all(|record| record.exit_code() == Some(5)),
        "{records:?}"
    );
    sandbox.assert_no_survivors();
}

/// A harness that is in the sandbox itself outlives its calls.
#[test]
fn a_call_of_a_harness_within_its_sandbox_does_not_wait() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let Some(namespace) = Namespace::new(&sandbox, "bwrap") else {
        return;
    };
    let gate = sandbox.gate();
    let harness = sandbox.path("claude");
    std::fs::copy(crate::support::real("dash"), &harness).unwrap();
    let job = format!("sh -c 'read -r x <{}'", gate.path());
    let text = format!(
        "{} -c \"{job} &\"; echo called",
        sandbox.link("bash").display()
    );
    let call = namespace.enter(&sandbox).arg(&harness).args(["-c", &text]);
    assert_eq!(call.run().text(), "called\n");
    gate.release(1);
    wait_until("the job has its record", || records(&sandbox).len() == 1);
    namespace.end();
    sandbox.assert_no_survivors();
}

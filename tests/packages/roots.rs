//! Roots with a shell and nothing else: the static program needs nothing of the machine's.

use std::os::unix::fs::symlink;

use super::{Root, static_program};
use crate::support::{Call, Sandbox, Status, has, real};

/// What has to work wherever there is a shell: codes, signals, jobs with their output and their codes.
fn accept<'a>(call: impl Fn(&[&str]) -> Call<'a>, shell: &str) {
    let agent_sh = |words: &[&str]| {
        let ended = call(&[&["/bin/agent-sh"], words].concat()).run();
        (ended.status, ended.text(), ended)
    };
    for code in [0, 1, 42, 255] {
        let (status, ..) = agent_sh(&["-c", &format!("exit {code}")]);
        assert_eq!(status, Status::Exited(code));
    }
    let (status, text, ended) = agent_sh(&["-c", "echo $0 $1", "zero", "one"]);
    assert_eq!(
        (status, text.as_str()),
        (Status::Exited(0), "zero one\n"),
        "{ended:?}"
    );
    let (status, ..) = agent_sh(&["-c", "kill -9 $$"]);
    assert_eq!(status, Status::Exited(137));
    let (status, ..) = agent_sh(&["-c", "no-such-program"]);
    assert_eq!(status, Status::Exited(127));
    // One container, so that the jobs are there to be asked about.
    let script = "/bin/agent-sh -c '(read -r x </gate; echo from a job; exit 3) & :'; echo >/gate; /bin/agent-sh wait last; echo code $?; \
                  /bin/agent-sh logs last; /bin/agent-sh run --wait -- /bin/sh -c 'echo run; exit 4'; echo code $?; \
                  /bin/agent-sh ps -a -q | { read -r a; read -r b; test -n \"$b\" && echo two; }";
    let entry = ["/bin/agent-sh", "entrypoint", "--", shell, "-c", script];
    let ended = call(&entry).env("AGENT_SH_STATE", "/state").run();
    assert_eq!(ended.status, Status::Exited(0), "{ended:?}");
    let lines: Vec<String> = ended.text().lines().map(str::to_owned).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for wanted in ["from a job", "code 3", "run", "code 4", "two"] {
        assert!(lines.contains(&wanted), "{wanted}: {ended:?}");
    }
}

#[test]
fn an_empty_root_with_a_shell() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let Some(program) = static_program(&sandbox) else {
        return;
    };
    let root = Root::new(&sandbox, "root");
    root.copy(&program, "/bin/agent-sh");
    root.add(&sandbox, &real("dash"), "/bin/dash");
    symlink("dash", root.dir.join("bin/sh")).unwrap();
    accept(
        |words| root.call(&sandbox, "/", None).args(words),
        "/bin/sh",
    );
}

#[test]
fn a_root_of_busybox() {
    if !has("busybox") {
        return;
    }
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let Some(program) = static_program(&sandbox) else {
        return;
    };
    let root = Root::busybox(&sandbox, "root");
    root.copy(&program, "/bin/agent-sh");
    accept(
        |words| root.call(&sandbox, "/", None).args(words),
        "/bin/sh",
    );
    // With its own tools, too.
    let script = "setsid sh -c 'read -r x </gate; exit 6' & :";
    let all = format!(
        "/bin/agent-sh -c \"{script}\"; echo >/gate; /bin/agent-sh wait last; echo code $?"
    );
    let entry = ["/bin/agent-sh", "entrypoint", "--", "/bin/sh", "-c", &all];
    let call = root.call(&sandbox, "/", None).args(entry);
    let ended = call.env("AGENT_SH_STATE", "/state").run();
    assert!(ended.text().contains("code 6"), "{ended:?}");
}

//! The exact shapes in which harnesses call their shell, with nothing and with something in the
//! background.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::same;
use crate::support::{
    Call, Identity, Input, Sandbox, Status, Streams, parent_of, records, stands_in,
    wait_for_records, wait_until,
};

/// What Claude Code makes of a command. Newlines stay raw.
fn claude_code(command: &str, snapshot: &str, cwd_file: &str) -> String {
    format!(
        "source {snapshot} 2>/dev/null || true && \\builtin shopt -u extglob 2>/dev/null || true && \
         {{ \\builtin unalias ll 2>/dev/null; }} >/dev/null 2>&1 || true && \
         eval '{}' < /dev/null && pwd -P >| {cwd_file}",
        command.replace('\'', "'\"'\"'")
    )
}

/// Streams, stdin and name as Claude Code gives them.
fn as_claude_code(call: Call<'_>) -> Call<'_> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(ours);
    call.argv0("/some/where/agent-sh-bash")
        .streams(Streams::Appended)
        .input(Input::Fd(OwnedFd::from(theirs)))
        .env("CLAUDECODE", "1")
        .env("CLAUDE_CODE_SESSION_ID", "5f4dcc3b-session")
}

#[test]
fn claude_code_commands() {
    let sandbox = Sandbox::new();
    let snapshot = sandbox.path("snapshot.sh");
    fs::write(
        &snapshot,
        "greet() { echo \"hello $1\"; }\nalias ll='ls -l'\nshopt -s expand_aliases\n",
    )
    .unwrap();
    for command in [
        "echo plain",
        "greet \"it's me\"",
        "cd /usr && pwd",
        "echo one\necho two",
        "false",
        "exit 4",
        "echo 'single' \"double\" $((1+1)) && echo \"a & b\"",
        "nonexistent-command-x",
        "cat",
        "for i in 1 2; do\n  echo $i\ndone | tr 1 9",
        "sleep 0 & wait; echo joined",
        "kill -TERM $$",
        "echo ')' '(' \"unbalanced '\"",
        "if then",
    ] {
        let cwd_file = sandbox.work().join("cwd-file");
        let string = claude_code(
            command,
            snapshot.to_str().unwrap(),
            cwd_file.to_str().unwrap(),
        );
        let run = |call: Call<'_>| {
            let _none_yet = fs::remove_file(&cwd_file);
            let ended = as_claude_code(call).c(&string).run();
            (ended, fs::read_to_string(&cwd_file).ok())
        };
        let native = run(sandbox.real_call("agent-sh-bash"));
        let ours = run(sandbox.call("agent-sh-bash"));
        assert_eq!(native, ours, "{command}");
    }
    sandbox.assert_no_survivors();
    assert!(records(&sandbox).is_empty() || !stands_in());
}

#[test]
fn claude_code_start_up() {
    let sandbox = Sandbox::new();
    fs::write(
        sandbox.path("home/.bash_profile"),
        "from_profile=1\nfn_from_profile() { :; }\n",
    )
    .unwrap();
    let probe = same(&sandbox, "agent-sh-bash", |call| {
        as_claude_code(call).c("env | grep -v -e ^AGENT_SH -e ^_= | sort")
    });
    assert!(probe.text().contains("CLAUDECODE=1"));
    let file = sandbox.work().join("snapshot-made");
    let script = format!(
        "SNAPSHOT_FILE={}\ndeclare -f > \"$SNAPSHOT_FILE\"\nshopt -p >> \"$SNAPSHOT_FILE\"\nalias -p >> \"$SNAPSHOT_FILE\"\necho \"export PATH='$PATH'\" >> \"$SNAPSHOT_FILE\"\n",
        file.display()
    );
    let run = |call: Call<'_>| {
        let ended = as_claude_code(call)
            .args(["-c", "-l", script.as_str()])
            .run();
        (ended, fs::read_to_string(&file).unwrap())
    };
    let native = run(sandbox.real_call("agent-sh-bash"));
    assert!(native.1.contains("fn_from_profile"), "{native:?}");
    assert_eq!(native, run(sandbox.call("agent-sh-bash")));
}

/// `eval '… &'` inside all that text: the job is found, outlives the call, and is named by its own text.
#[test]
fn claude_code_background() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let job = sandbox.script(
        "worker",
        "#!/bin/sh\necho \"it is $1\"; read -r x < \"$2\"; exit 37\n",
    );
    let command = format!("{job} 'one word' {} & echo \"started $!\"", gate.path());
    let cwd_file = sandbox.work().join("cwd-file");
    let string = claude_code(
        &command,
        "/nonexistent-snapshot",
        cwd_file.to_str().unwrap(),
    );
    let ended = as_claude_code(sandbox.call("agent-sh-bash"))
        .c(string)
        .run();
    assert!(ended.succeeded() && cwd_file.exists(), "{ended:?}");
    let text = ended.text();
    let pid = text
        .lines()
        .find_map(|line| line.strip_prefix("started "))
        .unwrap();
    let pid: i32 = pid.parse().unwrap();
    wait_until("the worker runs", || {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("worker"))
    });
    assert_ne!(parent_of(pid), Some(1), "it has a supervisor");
    gate.release(1);
    let found = wait_for_records(&sandbox, 1);
    assert_eq!(
        (found[0].state(), found[0].exit_code()),
        ("exited", Some(37))
    );
    assert_eq!(found[0].data("session"), "5f4dcc3b-session");
}

/// Codex sources a snapshot and execs its shell again: one pid, two stand-ins.
#[test]
fn codex_execs_twice() {
    let sandbox = Sandbox::new();
    let snapshot = sandbox.path("snapshot.sh");
    fs::write(
        &snapshot,
        "from_snapshot() { echo snapshot; }\nexport SNAP=1\n",
    )
    .unwrap();
    let shape = |shell: &std::path::Path, command: &str| {
        format!(
            "if . '{}' >/dev/null 2>&1; then :; fi; exec '{}' -c '{}'",
            snapshot.display(),
            shell.display(),
            command.replace('\'', "'\"'\"'")
        )
    };
    for command in [
        "echo \"$SNAP $0 $#\"",
        "exit 5",
        "kill -KILL $$",
        "echo a | cat; false",
        "x=$(echo 'quoted \"inner\"'); echo \"$x\"",
        "trap 'echo bye' EXIT; exit 3",
    ] {
        for options in [&["-c"][..], &["-lc"]] {
            let real = crate::support::real("bash");
            let native = sandbox
                .real_call("bash")
                .args(options)
                .args([shape(&real, command)])
                .run();
            let link = sandbox.link("bash");
            let ours = sandbox
                .call("bash")
                .args(options)
                .args([shape(&link, command)])
                .run();
            // With a path as its name the inner shell prints that path; only that may differ.
            let native = native
                .text()
                .replace(real.to_str().unwrap(), link.to_str().unwrap());
            assert_eq!(native, ours.text(), "{command}");
        }
    }
    let text = format!(
        "echo $$; exec {} -c 'echo $$'",
        sandbox.link("bash").display()
    );
    let pids = sandbox.call("bash").c(text).run().text();
    let pids: Vec<&str> = pids.lines().collect();
    assert_eq!(pids[0], pids[1], "exec keeps the pid");
    sandbox.assert_no_survivors();
}

/// Gemini reads the pids of background jobs from a file that an EXIT trap fills.
#[test]
fn gemini_reads_real_pids() {
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let job = sandbox.script("worker", "#!/bin/sh\nread -r x < \"$1\"; exit 37\n");
    let pids_file = sandbox.work().join("bgpids");
    let shape = |command: &str| {
        format!(
            "shopt -u promptvars nullglob extglob nocaseglob dotglob; _bgpids_file={}\n(\n  trap 'jobs -p > \"$_bgpids_file\"' EXIT\n{command}\n)\n__code=$?\nexit $__code",
            pids_file.display()
        )
    };
    for command in [
        "echo plain",
        "exit 6",
        "false",
        "cat <<E\nheredoc & more\nE",
    ] {
        same(&sandbox, "bash", |call| {
            call.c(shape(command)).streams(Streams::Socket)
        });
    }
    if !stands_in() {
        return;
    }
    let command = format!("{job} {} & echo $!; exit 6", gate.path());
    let ended = sandbox
        .call("bash")
        .c(shape(&command))
        .streams(Streams::Socket)
        .run();
    assert_eq!(ended.status, Status::Exited(6), "{ended:?}");
    assert_eq!(fs::read_to_string(&pids_file).unwrap(), ended.text());
    let pid: i32 = ended.text().trim().parse().unwrap();
    assert!(
        Identity::of(pid).unwrap().lives(),
        "the listed pid is alive"
    );
    wait_until("it is the worker itself", || {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("worker"))
    });
    gate.release(1);
    let found = wait_for_records(&sandbox, 1);
    assert_eq!(
        (found[0].state(), found[0].exit_code()),
        ("exited", Some(37))
    );
    assert_eq!(found[0].data("proc")["pid"], pid);
}

/// Hermes, mux, aider and OpenCode, each in its own words.
#[test]
fn other_harnesses() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("home/.bashrc"), "PS1='$ '\n").unwrap();
    for args in [
        &["-lic", "set +m; echo hermes; exit 3"][..],
        &["-c", "set -m; trap 'echo code $?' EXIT; echo mux; exit 4"],
        &["-c", "echo opencode; cat"],
        &["-l", "-c", "echo login; exit 5"],
    ] {
        let make = |call: Call<'_>| {
            let ended = call.args(args).streams(Streams::Socket).run();
            (ended.status, ended.stdout)
        };
        assert_eq!(
            make(sandbox.real_call("bash")),
            make(sandbox.call("bash")),
            "{args:?}"
        );
    }
    let make = |call: Call<'_>| {
        call.args(["-i", "-c", "echo aider; exit 6"])
            .streams(Streams::Terminal)
            .run()
    };
    assert_eq!(make(sandbox.real_call("bash")), make(sandbox.call("bash")));
    sandbox.assert_no_survivors();
}

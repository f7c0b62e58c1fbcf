//! What `pgrep` and `pkill` find of a call: what they would find of the real shell, and no more.

use nix::sys::signal::Signal;

use crate::support::{Sandbox, Status, Streams, in_parallel, signal, stands_in, wait_until};

/// Texts that look for a word of their own, `@`. A shell that execs its last command leaves nobody who
/// has the word among its arguments; one that does not is found itself.
const TEXTS: [&str; 13] = [
    "pgrep -f @",
    "pgrep -fc @",
    "true; pgrep -fc @",
    "pgrep -fc @; true",
    "(pgrep -fc @)",
    "if true; then pgrep -fc @; fi",
    "x=$(pgrep -fc @); echo $x",
    "exec pgrep -fc @",
    "cd / && pgrep -fc @ || echo none",
    "pkill -f @",
    "pkill -f @; echo after",
    "pkill -f @ || echo none",
    "trap 'echo trapped' TERM; pkill -f @; echo after",
];

#[test]
fn nobody_has_the_text_but_the_shell() {
    let sandbox = Sandbox::new();
    let shells = ["bash", "dash", "zsh", "sh", "ksh"];
    in_parallel(&shells, |_, _, &shell| {
        for (number, text) in TEXTS.iter().enumerate() {
            for streams in [Streams::Pipe, Streams::Terminal] {
                let word = format!("{}-{shell}-{number}", sandbox.path("word").display());
                let text = text.replace('@', &word);
                let run = |call: crate::support::Call<'_>| {
                    let ended = call.c(&text).streams(streams).run();
                    // A pid is another one each time; that there is one is not.
                    let found = ended.text().lines().count();
                    let counted = text.contains("-fc").then(|| ended.text());
                    (ended.status, found, counted)
                };
                let native = run(sandbox.real_call(shell));
                let ours = run(sandbox.call(shell));
                assert_eq!(native, ours, "{shell}, {streams:?}: {text}");
            }
        }
    });
    sandbox.assert_no_survivors();
}

/// With a job beside it the text stays with the shell that reads it, and with nobody else of ours.
#[test]
fn a_text_with_jobs_is_found_once() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "dash", "zsh"] {
        let gate = sandbox.gate();
        let go = sandbox.gate();
        let word = format!("{}-{shell}", sandbox.path("jobs").display());
        // The job has left the text behind before anybody looks.
        let text = format!(
            "sh -c 'echo; read -r x <{}' >{} 2>&1 & read -r y <{}; pgrep -fc {word}; true",
            gate.path(),
            go.path(),
            go.path()
        );
        for call in [sandbox.real_call(shell), sandbox.call(shell)] {
            let ended = call.c(&text).run();
            assert_eq!(ended.text(), "1\n", "{shell}: {ended:?}");
            gate.release(1);
        }
    }
    sandbox.assert_no_survivors();
}

/// The front's own words, seen from outside, and its name, which `pkill bash` goes by.
#[test]
fn the_front_carries_neither_text_nor_name() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    for (name, args) in [
        ("bash", &["-c"][..]),
        ("zsh", &["-f", "-c"]),
        ("agent-sh-bash", &["-lc"]),
        ("agent-sh", &["-c"]),
        ("agent-sh", &[]),
        ("agent-sh", &["run", "--wait"]),
    ] {
        let gate = sandbox.gate();
        let text = format!("echo up; read -r x <{}; exit 3", gate.path());
        let running = sandbox.call(name).args(args).arg(&text).start();
        let pid = running.pid();
        let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let is_bare = |words: &[u8]| {
            let rest = words.strip_prefix(b"agent-sh");
            rest.is_some_and(|rest| rest.iter().all(|&byte| byte == 0))
        };
        wait_until("nothing tells what the front was called with", || {
            read("comm") == b"agent-sh\n" && is_bare(&read("cmdline"))
        });
        gate.release(1);
        assert_eq!(
            running.finish().status,
            Status::Exited(3),
            "{name} {args:?}"
        );
    }
    sandbox.assert_no_survivors();
}

/// The shell that has the text is what a `pkill -f` from elsewhere ends, and the call ends as it did.
#[test]
fn a_kill_by_the_text_ends_the_shell() {
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    for trap in ["", "trap 'exit 7' TERM; "] {
        let run = |call: crate::support::Call<'_>| {
            let word = sandbox.path("elsewhere");
            let text = format!(
                "{trap}: {}; echo up; read -r x <{}; true",
                word.display(),
                gate.path()
            );
            let running = call.c(&text).start();
            let mut pids = Vec::new();
            wait_until("the shell is found", || {
                let found = sandbox
                    .real_call("pgrep")
                    .args(["-f", word.to_str().unwrap()])
                    .run();
                let text = found.text();
                pids = text.lines().filter_map(|line| line.parse().ok()).collect();
                !pids.is_empty() && in_read(&pids)
            });
            assert_eq!(pids.len(), 1, "{pids:?}");
            signal(pids[0], Signal::SIGTERM);
            running.finish()
        };
        let native = run(sandbox.real_call("bash"));
        assert_eq!(native, run(sandbox.call("bash")));
    }
}

/// Whether these processes wait for the gate, which they have open.
fn in_read(pids: &[i32]) -> bool {
    let holds = |pid: &i32| {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        let targets = fds
            .flatten()
            .filter_map(|fd| std::fs::read_link(fd.path()).ok());
        targets
            .into_iter()
            .any(|path| path.to_string_lossy().contains("/io/gate"))
    };
    pids.iter().all(holds)
}

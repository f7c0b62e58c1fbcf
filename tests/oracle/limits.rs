//! Sizes and bytes at the edges: large commands and environments, bytes that are no text.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::same;
use crate::support::{
    Call, Sandbox, Status, Streams, ps_json, real, stands_in, wait_for_records, wait_until,
};

const SHELLS: [&str; 3] = ["bash", "dash", "zsh"];

/// Latin-1, a lone continuation byte, an overlong form and an unpaired surrogate: none is UTF-8.
const BYTES: &[u8] = b"caf\xe9 \x80 \xc0\xaf \xed\xa0\x80 \xff";

#[test]
fn a_command_of_100_kilobytes() {
    let sandbox = Sandbox::new();
    let comment = "# a comment with an & in it\n".repeat(1500);
    let lines: String = (0..3000).map(|i| format!("x{i}='value & {i}'\n")).collect();
    for shell in SHELLS {
        for text in [
            format!("echo {}", "word ".repeat(20_000)),
            format!("{comment}{lines}echo $x2999"),
            format!("{}echo end", "true && ".repeat(12_000)),
            format!("echo '{}' | wc -c", "y".repeat(130_000)),
        ] {
            assert!(text.len() > 90_000 && text.len() < 131_072);
            let ended = same(&sandbox, shell, |call| call.c(&text));
            assert!(ended.succeeded(), "{shell}: {ended:?}");
        }
    }
}

/// The kernel's limit for one argument: 131,071 bytes and the final zero.
#[test]
fn the_longest_argument() {
    let sandbox = Sandbox::new();
    let text = format!("echo {} | wc -c", "z".repeat(131_071 - 13));
    let ended = same(&sandbox, "bash", |call| call.c(&text));
    assert_eq!(ended.text(), format!("{}\n", 131_071 - 13 + 1));
    // The same with a job in it: the rewritten text would be too long, the untouched one runs.
    let text = format!("true {} & wait; echo done", "z".repeat(131_071 - 23));
    assert_eq!(text.len(), 131_071);
    let ended = same(&sandbox, "bash", |call| call.c(&text));
    assert_eq!(ended.text(), "done\n");
}

#[test]
fn an_environment_of_two_megabytes() {
    let sandbox = Sandbox::new();
    // The whole of arguments and environment may take a quarter of the stack limit, 2 MiB by default.
    let value = "v".repeat(100_000);
    for shell in SHELLS {
        let ended = same(&sandbox, shell, |call| {
            (0..20).fold(
                call.c("echo ${#BIG_7} ${#BIG_19}; sh -c 'echo ${#BIG_0}'"),
                |call, i| call.env(format!("BIG_{i}"), &value),
            )
        });
        assert_eq!(ended.text(), "100000 100000\n100000\n", "{shell}");
    }
}

#[test]
fn bytes_that_are_no_utf8() {
    let sandbox = Sandbox::new();
    let bytes = OsStr::from_bytes(BYTES);
    let dir = sandbox.work().join(OsStr::from_bytes(b"dir-\xe9\xff"));
    fs::create_dir(&dir).unwrap();
    for shell in SHELLS {
        let mut text = b"printf '%s|' '".to_vec();
        text.extend_from_slice(BYTES);
        text.extend_from_slice(b"' \"$0\" \"$1\" \"$ODD\"; pwd; : > '");
        text.extend_from_slice(BYTES);
        text.extend_from_slice(b"'; ls");
        let text = OsString::from_vec(text);
        let ended = same(&sandbox, shell, |call| {
            call.c(&text)
                .args([bytes, bytes])
                .env("ODD", bytes)
                .cwd(&dir)
        });
        assert!(ended.succeeded(), "{shell}: {ended:?}");
        let found = ended
            .stdout
            .windows(BYTES.len())
            .filter(|w| *w == BYTES)
            .count();
        assert!(found >= 4, "{shell}: {ended:?}");
        // Variable names need not be text either.
        same(&sandbox, shell, |call| {
            call.c("env | grep -a -c ODD")
                .env(OsStr::from_bytes(b"ODD-\xff"), "1")
        });
    }
}

#[test]
fn an_empty_environment() {
    let sandbox = Sandbox::new();
    for shell in SHELLS {
        same(&sandbox, shell, |call| {
            ["LANG", "HOME", "TMPDIR", "XDG_RUNTIME_DIR", "PATH"]
                .iter()
                .fold(
                    call.c("echo ${HOME-none} ${LANG-none}; echo ok"),
                    |call, name| call.env_remove(name),
                )
        });
    }
}

#[test]
fn resource_limits_come_through() {
    let sandbox = Sandbox::new();
    let run = |program: &std::path::Path| {
        let text = format!(
            "ulimit -n 40; ulimit -f 100; ulimit -t 7; umask 027; exec {} -c '{}'",
            program.display(),
            "ulimit -n; ulimit -f; ulimit -t; umask; : > made; stat -c %a made; cat /proc/self/limits"
        );
        sandbox.real_call("bash").c(text).run()
    };
    let native = run(&crate::support::real("bash"));
    assert_eq!(native, run(&sandbox.link("bash")));
    assert!(
        native.text().starts_with("40\n100\n7\n0027\n640\n"),
        "{native:?}"
    );
}

/// Odd arguments after the command: empty, dashes, a lone `--`.
#[test]
fn arguments_come_through_as_they_are() {
    let sandbox = Sandbox::new();
    for shell in SHELLS {
        for args in [
            &["name"][..],
            &["name", "a b", "", "--", "-c", "&"],
            &["", ""],
            &["-x"],
            &["--"],
            &["run", "ps"],
        ] {
            same(&sandbox, shell, |call| {
                call.c("printf '<%s>' \"$0\" \"$#\" \"$@\"").args(args)
            });
        }
    }
}

/// A call of `program` as bash with this limit (`-f 64`).
fn limited<'a>(sandbox: &'a Sandbox, limit: &str, program: &Path, text: &str) -> Call<'a> {
    let enter = format!("ulimit {limit}; exec -a bash \"$0\" -c \"$1\"");
    let words = [enter.as_str(), program.to_str().unwrap(), text];
    sandbox.real_call("bash").arg("-c").args(words)
}

/// A file that must not grow kills whoever writes to it, and nobody else.
#[test]
fn a_limit_on_file_sizes() {
    let sandbox = Sandbox::new();
    for limit in ["-f 0", "-f 1", "-f 64", "-Sf 0"] {
        for text in [
            "echo hi; exit 3",
            "yes | head -c 200000 > big; echo ${PIPESTATUS[1]}; stat -c %s big",
            "exec > big; yes | head -c 200000",
            "{ yes | head -c 200000 > big; } & wait; echo $?",
            "sh -c 'yes | head -c 200000; exit 5' & wait $!; echo $?",
            "yes | head -c 200000 > >(cat > big); echo $?",
            "trap '' XFSZ; yes | head -c 200000 > big; echo ${PIPESTATUS[1]}",
        ] {
            let native = limited(&sandbox, limit, &real("bash"), text).run();
            let ours = limited(&sandbox, limit, &sandbox.link("bash"), text).run();
            assert_eq!(native.status, ours.status, "{limit}: {text}: {ours:?}");
            assert_eq!(native.stdout, ours.stdout, "{limit}: {text}: {ours:?}");
        }
    }
    sandbox.assert_no_survivors();
}

/// What a job writes beyond the limit is lost, and counted; its end is not.
#[test]
fn a_job_under_a_limit_on_file_sizes() {
    if !stands_in() {
        return;
    }
    for limit in ["-f 0", "-f 1", "-f 2", "-f 4", "-f 64"] {
        let sandbox = Sandbox::new();
        let gate = sandbox.gate();
        let text = format!(
            "sh -c 'read -r x < {}; yes | head -c 200000; : > done; exit 5' & echo called; exit 7",
            gate.path()
        );
        let call = limited(&sandbox, limit, &sandbox.link("bash"), &text);
        let ended = call.env("AGENT_SH_ANNOUNCE", "1").run();
        assert_eq!(
            (ended.status, ended.text().as_str()),
            (Status::Exited(7), "called\n"),
            "{limit}: {ended:?}"
        );
        let known = !ps_json(&sandbox).is_empty();
        let said = ended.errors();
        assert_eq!(known, !said.contains("no record"), "{limit}: {said}");
        assert!(
            known || limit == "-f 0" || limit == "-f 1",
            "{limit}: {said}"
        );
        gate.release(1);
        if known {
            // A reader may have to write down what the supervisor could only leave as a name.
            let ended = || ps_json(&sandbox)[0]["state"] == "exited";
            wait_until("the end is known", ended);
            assert_eq!(ps_json(&sandbox)[0]["exit_code"], 5, "{limit}");
        }
        if limit == "-f 64" {
            let record = wait_for_records(&sandbox, 1).remove(0);
            let output = |name: &str| record.data("output")[name].as_u64().unwrap();
            assert_eq!(output("bytes_total"), 200_000);
            assert_eq!(output("bytes_kept"), 64 * 1024);
            assert_eq!(output("dropped_bytes"), 200_000 - 64 * 1024);
        }
        wait_until("the job has ended", || sandbox.work().join("done").exists());
        sandbox.assert_no_survivors();
    }
}

/// What we ourselves have to say must not end the call.
#[test]
fn an_announcement_into_a_file_that_must_not_grow() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let text = format!("read -r x < {} & exit 7", gate.path());
    let call = limited(&sandbox, "-f 0", &sandbox.link("bash"), &text);
    let call = call.env("AGENT_SH_ANNOUNCE", "1");
    let ended = call.streams(Streams::Truncated).run();
    assert_eq!(ended.status, Status::Exited(7), "{ended:?}");
    gate.release(1);
    sandbox.assert_no_survivors();
}

/// A verb that cannot write says so; it is not killed half way.
#[test]
fn verbs_under_a_limit_on_file_sizes() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let text = format!("sh -c 'read -r x < {}' &", gate.path());
    assert!(sandbox.call("bash").c(text).run().succeeded());
    let enter = "ulimit -f 0; exec \"$0\" \"$@\"";
    for words in [
        &["ps"][..],
        &["logs", "last"],
        &["kill", "last"],
        &["wait", "last"],
    ] {
        let call = sandbox.real_call("bash").args(["-c", enter]);
        let ended = call.arg(sandbox.link("agent-sh")).args(words).run();
        assert!(
            matches!(ended.status, Status::Exited(_)),
            "{words:?}: {ended:?}"
        );
        if words[0] == "kill" {
            gate.release(1);
        }
    }
    sandbox.assert_no_survivors();
}

/// Nothing but KILL and STOP does anything to a supervisor; least of all what the kernel sends when a
/// limit of the caller's is reached.
#[test]
fn no_signal_ends_a_supervisor() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let text = format!("sh -c 'read -r x < {}; exit 37' &", gate.path());
    assert!(sandbox.call("bash").c(text).run().succeeded());
    let supervisors = sandbox.supervisors();
    assert_eq!(supervisors.len(), 1);
    // 32 and 33 belong to the C library.
    let send = format!(
        "for n in $(seq 31) $(seq 34 64); do case $n in 9|19) ;; *) kill -$n {};; esac; done",
        supervisors[0]
    );
    assert!(sandbox.real_call("bash").c(send).run().succeeded());
    gate.release(1);
    let record = wait_for_records(&sandbox, 1).remove(0);
    assert_eq!((record.state(), record.exit_code()), ("exited", Some(37)));
}

/// Signals are as the caller left them, for the shell and for jobs.
#[test]
fn masks_and_dispositions_come_through() {
    let sandbox = Sandbox::new();
    let text = "grep -E 'Sig(Blk|Ign)' /proc/self/status; \
        grep SigBlk /proc/self/status & until [ ! -d /proc/$! ]; do sleep 0.01; done; kill -XFSZ $$";
    for shell in SHELLS {
        for ignored in [
            None,
            Some(libc::SIGXFSZ),
            Some(libc::SIGXCPU),
            Some(libc::SIGPIPE),
        ] {
            same(&sandbox, shell, |call| {
                let call = call.c(text);
                ignored.into_iter().fold(call, Call::ignoring)
            });
        }
    }
}

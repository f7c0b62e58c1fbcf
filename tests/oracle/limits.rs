//! Sizes and bytes at the edges: large commands and environments, bytes that are no text.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::same;
use crate::support::Sandbox;

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

//! A job's stdin is `/dev/null`, every one's in every shell, unless the text itself says what it is.

use std::fs;

use super::compared::shells;
use crate::support::{DEADLINE, Input, Sandbox, Streams, holds_within};

/// What a descriptor may lead to: nothing, the call's own stdin, a file of the text's, another pipe.
const NULL: &str = "null";
const OWN: &str = "own";
const FILE: &str = "file";
const PIPE: &str = "pipe";

/// Texts whose jobs tell their stdin in the files `a` to `d`, and what it is for bash and zsh, then for
/// dash, which redirects every job's stdin itself, and does so first.
const TEXTS: &[(&str, &[&str], &[&str])] = &[
    ("tell a & tell b & tell c &", &[NULL; 3], &[NULL; 3]),
    ("tell a & :; tell b & :\ntell c &", &[NULL; 3], &[NULL; 3]),
    (
        "( tell a ) & ( tell b ) & ( :; tell c ) &",
        &[NULL; 3],
        &[NULL; 3],
    ),
    ("{ tell a; } & { tell b; } &", &[NULL; 2], &[NULL; 2]),
    ("{ tell a & tell b & } & tell c &", &[NULL; 3], &[NULL; 3]),
    ("( tell a & tell b & )", &[NULL; 2], &[NULL; 2]),
    ("true && tell a & true && tell b &", &[NULL; 2], &[NULL; 2]),
    (
        "tell a | tell b & tell c | tell d &",
        &[NULL, PIPE, NULL, PIPE],
        &[NULL, PIPE, NULL, PIPE],
    ),
    ("f() { tell \"$1\"; }; f a & f b &", &[NULL; 2], &[NULL; 2]),
    ("f() { tell a & tell b & }; f", &[NULL; 2], &[NULL; 2]),
    ("eval 'tell a & tell b &'", &[NULL; 2], &[NULL; 2]),
    ("if :; then tell a & tell b & fi", &[NULL; 2], &[NULL; 2]),
    ("for i in a b; do tell $i & done", &[NULL; 2], &[NULL; 2]),
    (
        "bash -c 'tell a & tell b & w=wait; $w'",
        &[NULL; 2],
        &[NULL; 2],
    ),
    ("command tell a & command tell b &", &[NULL; 2], &[NULL; 2]),
    ("tell a < file & tell b < file &", &[FILE; 2], &[FILE; 2]),
    (
        "{ tell a; } < file & { tell b; } 0<file &",
        &[FILE; 2],
        &[FILE; 2],
    ),
    ("tell a <&0 & tell b <&0 &", &[OWN; 2], &[NULL; 2]),
    ("{ tell a; } <&0 & ( tell b ) <&0 &", &[OWN; 2], &[NULL; 2]),
    (
        "exec 3<&0; tell a <&3 & tell b <&3 & { tell c; } <&3 &",
        &[OWN; 3],
        &[OWN; 3],
    ),
    (
        "exec 3<&0; { tell a <&3; } & tell b <&3 | cat &",
        &[OWN; 2],
        &[OWN; 2],
    ),
    ("{ tell a & tell b & } < file", &[FILE; 2], &[NULL; 2]),
    (
        "while read x; do tell a & tell b & done < file",
        &[FILE; 2],
        &[NULL; 2],
    ),
    (
        "f() { tell \"$1\"; } < file; f a & f b &",
        &[FILE; 2],
        &[FILE; 2],
    ),
    (
        ": | { tell a & tell b & w=wait; $w; }",
        &[PIPE; 2],
        &[NULL; 2],
    ),
];

#[test]
fn a_job_reads_nothing_of_the_callers() {
    let sandbox = Sandbox::new();
    let work = sandbox.work();
    fs::write(work.join("file"), "content\n").unwrap();
    let reader =
        "#!/bin/sh\nstat -L -c '%d:%i %F' /proc/self/fd/0 > \"$1.new\"; mv \"$1.new\" \"$1\"\n";
    let path = sandbox.path("tmp/tell");
    fs::write(&path, reader).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let places = format!("{}:/usr/bin:/bin", sandbox.path("tmp").display());
    let mut failed = Vec::new();
    for shell in shells("bdz") {
        for (text, usual, dash) in TEXTS {
            let wanted = if shell == "dash" { dash } else { usual };
            let (own, _writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
            let identity = nix::sys::stat::fstat(&own).unwrap();
            let identity = format!("{}:{} ", identity.st_dev, identity.st_ino);
            // What is waited for is awaited in a way that the plan does not see.
            let text = format!("{text}\nw=wait; $w");
            let call = sandbox.call(shell).c(&text).env("PATH", &places);
            drop(call.input(Input::Fd(own)).run());
            for (name, wanted) in ["a", "b", "c", "d"].iter().zip(*wanted) {
                // Some are not the shell's own children, and not waited for.
                holds_within(DEADLINE, || work.join(name).exists());
                let told = fs::read_to_string(work.join(name)).unwrap_or_default();
                let kind = match told.trim() {
                    told if told.starts_with(&identity) => OWN,
                    told if told.ends_with("character special file") => NULL,
                    told if told.ends_with("regular file") => FILE,
                    told if told.ends_with("fifo") => PIPE,
                    _ => "nothing",
                };
                if kind != *wanted {
                    failed.push(format!("{shell}: {name} is {kind}, not {wanted}: {text}"));
                }
                drop(fs::remove_file(work.join(name)));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    sandbox.assert_no_survivors();
}

/// What is left of stdin is for the next reader, also at a terminal, and nobody waits for a person.
#[test]
fn a_reader_in_the_background_ends_at_once() {
    let sandbox = Sandbox::new();
    for shell in shells("bdz") {
        for text in [
            "cat & cat & w=wait; $w; echo over",
            "{ cat; } & { cat; } & w=wait; $w; echo over",
        ] {
            let (open, _writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
            let call = sandbox.call(shell).c(text).input(Input::Fd(open));
            assert_eq!(call.run().text(), "over\n", "{shell}: {text}");
            let call = sandbox.call(shell).c(text).streams(Streams::Terminal);
            let ended = call.run();
            assert_eq!(ended.text().trim(), "over", "{shell} at a terminal: {text}");
        }
        let text = "cat & cat & w=wait; $w; cat";
        let call = sandbox
            .call(shell)
            .c(text)
            .input(Input::Text(b"kept".to_vec()));
        assert_eq!(call.run().text(), "kept", "{shell}");
    }
    sandbox.assert_no_survivors();
}

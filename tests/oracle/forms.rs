//! Every argv form, and which shell is picked.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::same;
use crate::support::{Call, Ended, Input, Sandbox, Status, Streams, program, stands_in};

/// Reports what the options did to the shell: flags, name, arguments, login, posix mode.
const PROBE: &str = r#"printf '<%s>' "$0" "$#" "$@"; echo; case $- in *e*) echo e;; esac; case $- in *u*) echo u;; esac; case $- in *x*) echo x;; esac; false; echo after"#;

#[track_caller]
fn check(sandbox: &Sandbox, shell: &str, before: &[&str], after: &[&str]) -> Ended {
    same(sandbox, shell, |call| {
        call.args(before).args([PROBE]).args(after)
    })
}

#[test]
fn options_before_the_command() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "dash", "zsh"] {
        for options in [
            &["-c"][..],
            &["-lc"],
            &["-l", "-c"],
            &["-c", "-l"],
            &["-ec"],
            &["-e", "-c"],
            &["-ce"],
            &["-eu", "-c"],
            &["-euc"],
            &["+x", "-c"],
            &["-x", "+x", "-c"],
            &["-xc"],
            &["-o", "errexit", "-c"],
            &["-eo", "nounset", "-c"],
            &["+o", "errexit", "-c"],
            &["-o", "nosuchoption", "-c"],
            &["-c", "--"],
            &["-nc"],
            &["-n", "-c"],
            &["-vc"],
            &["-fc"],
        ] {
            check(&sandbox, shell, options, &[]);
            check(&sandbox, shell, options, &["zero", "one", "two words"]);
        }
    }
    sandbox.assert_no_survivors();
}

#[test]
fn options_of_bash_and_zsh_alone() {
    let sandbox = Sandbox::new();
    for options in [
        &["--login", "-c"][..],
        &["--norc", "-c"],
        &["--noprofile", "--norc", "-c"],
        &["--posix", "-c"],
        &["-euo", "pipefail", "-c"],
        &["-O", "extglob", "-c"],
        &["+O", "extglob", "-c"],
        &["--rcfile", "/dev/null", "-c"],
        &["--init-file", "/dev/null", "-c"],
        &["-rc"],
        &["-pc"],
        &["--verbose", "-c"],
        &["--nosuchoption", "-c"],
        &["-Z", "-c"],
    ] {
        check(&sandbox, "bash", options, &["zero", "one"]);
    }
    for options in [
        &["--login", "-c"][..],
        &["--no-rcs", "-c"],
        &["-fc"],
        &["-o", "shwordsplit", "-c"],
        &["--emulate", "sh", "-c"],
        &["-euo", "pipefail", "-c"],
        &["--nosuchoption", "-c"],
    ] {
        check(&sandbox, "zsh", options, &["zero", "one"]);
    }
}

/// `-i` without a terminal complains about job control, with a number that differs from run to run.
#[test]
fn interactive_commands() {
    let sandbox = Sandbox::new();
    let home = sandbox.path("home");
    fs::write(home.join(".bashrc"), "echo from bashrc; x=rc\n").unwrap();
    fs::write(home.join(".bash_profile"), "echo from profile; y=profile\n").unwrap();
    fs::write(home.join(".profile"), "echo from dash profile\n").unwrap();
    fs::write(home.join(".zshrc"), "echo from zshrc\n").unwrap();
    fs::write(home.join(".zprofile"), "echo from zprofile\n").unwrap();
    let steady = |ended: Ended| {
        let errors = ended.errors();
        let lines = errors
            .lines()
            .filter(|line| !line.contains("process group"));
        (
            ended.status,
            ended.text(),
            lines.collect::<Vec<_>>().join("\n"),
        )
    };
    for shell in ["bash", "dash", "zsh"] {
        for option in ["-ic", "-lic", "-lc", "-il"] {
            let make = |call: Call<'_>| {
                let call = call.args([option]);
                let call = if option == "-il" {
                    call.args(["-c"])
                } else {
                    call
                };
                steady(
                    call.args(["echo \"$x $y $-\" | tr -d 'sm0-9X'; exit 5"])
                        .run(),
                )
            };
            let native = make(sandbox.real_call(shell));
            assert_eq!(native, make(sandbox.call(shell)), "{shell} {option}");
            assert_eq!(native.0, Status::Exited(5));
        }
    }
    sandbox.assert_no_survivors();
}

#[test]
fn script_files_and_scripts_on_stdin() {
    let sandbox = Sandbox::new();
    let work = sandbox.work();
    let text = "printf '<%s>' \"$0\" \"$#\" \"$@\"; echo; read -r line; echo \"[$line]\"; exit 6\n";
    fs::write(work.join("script"), text).unwrap();
    let on_stdin = "echo \"$0 $# $*\"\nread -r line\nthe next line of the script\necho \"[$line]\"\n(exit 8)\n";
    for shell in ["bash", "dash", "zsh"] {
        for args in [
            &["script"][..],
            &["script", "a", "b c"],
            &["./script", "-c", "x"],
            &["-e", "script", "a"],
            &["-x", "./script"],
            &["-l", "script"],
            &["--", "script", "a"],
            &["-n", "script"],
            &["nosuchscript"],
            &["/"],
        ] {
            same(&sandbox, shell, |call| {
                call.args(args).input(Input::Text(b"from stdin\n".to_vec()))
            });
        }
        for args in [
            &[][..],
            &["-s"],
            &["-s", "a", "b"],
            &["-e"],
            &["-es", "x"],
            &["-"],
            &["-l"],
        ] {
            // bash reads a script from stdin byte by byte, so that `read` finds the next line of it;
            // dash takes a block.
            let ended = same(&sandbox, shell, |call| {
                call.args(args).input(Input::Text(on_stdin.into()))
            });
            if shell == "bash" {
                assert!(
                    ended.text().contains("[the next line"),
                    "{args:?}: {ended:?}"
                );
            }
        }
        same(&sandbox, shell, |call| call.args(["-c"]));
        same(&sandbox, shell, |call| call.args([""]));
        same(&sandbox, shell, |call| call.c(""));
    }
    sandbox.assert_no_survivors();
}

/// `$0` and error prefixes are those of the name it was called by, with a path or a login dash.
#[test]
fn the_name_it_was_called_by() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "dash", "zsh", "sh"] {
        for argv0 in [
            shell.to_owned(),
            format!("-{shell}"),
            format!("/some/where/{shell}"),
        ] {
            let ended = same(&sandbox, shell, |call| {
                call.argv0(&argv0)
                    .c("echo $0; nonexistent-command-x; echo $-; cd /nonexistent-x")
            });
            assert!(ended.text().starts_with(&argv0), "{ended:?}");
        }
    }
    // `sh` is a posix shell, whichever program that is.
    same(&sandbox, "sh", |call| {
        call.c("set -o; echo ${POSIXLY_CORRECT-unset}")
    });
    if !stands_in() {
        return;
    }
    let ended = sandbox.agent_sh(["-c", "echo $0; echo ${BASH_VERSION:+bash}"]);
    assert_eq!(ended.text(), "bash\nbash\n", "{ended:?}");
    let ended = sandbox
        .call("agent-sh-bash")
        .c("echo ${BASH_VERSION:+bash}")
        .run();
    assert_eq!(ended.text(), "bash\n", "{ended:?}");
    let ended = sandbox
        .call("agent-sh")
        .c("echo ${ZSH_VERSION:+zsh}")
        .env("AGENT_SH_SHELL", "zsh");
    assert_eq!(ended.run().text(), "zsh\n");
    let dash = crate::support::real("dash");
    let ended = sandbox
        .call("agent-sh")
        .c("echo $0")
        .env("AGENT_SH_SHELL", dash)
        .run();
    assert!(ended.text().trim().ends_with("dash"), "{ended:?}");
}

/// Its own version and help only under its own name.
#[test]
fn version_and_help() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "dash"] {
        same(&sandbox, shell, |call| call.args(["--version"]));
    }
    same(&sandbox, "zsh", |call| call.args(["--help"]));
    if !stands_in() {
        return;
    }
    let version = sandbox.agent_sh(["--version"]);
    assert!(
        version.succeeded() && version.text().starts_with("agent-sh "),
        "{version:?}"
    );
    let help = sandbox.agent_sh(["--help"]);
    assert!(help.succeeded() && help.text().contains("logs"), "{help:?}");
}

/// Claude Code's `CLAUDE_CODE_SHELL_PREFIX` form: the whole string as the only argument.
#[test]
fn one_string() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    for (text, status, out) in [
        ("echo one; echo two", Status::Exited(0), "one\ntwo\n"),
        ("exit 9", Status::Exited(9), ""),
        ("printf '%s\n' \"a b\" && false", Status::Exited(1), "a b\n"),
        ("kill -TERM $$", Status::Signaled(15), ""),
    ] {
        let ended = sandbox.agent_sh([text]);
        assert_eq!(
            (ended.status, ended.text().as_str()),
            (status, out),
            "{text}"
        );
    }
}

/// Runs `program` and checks that a real shell answered.
#[track_caller]
fn answers(sandbox: &Sandbox, call: Call<'_>) {
    let ended = call
        .c("echo \"real ${BASH_VERSION:+bash}\"; readlink /proc/$$/exe; true")
        .run();
    let exe = fs::canonicalize(crate::support::real("bash")).unwrap();
    assert_eq!(
        ended.text(),
        format!("real bash\n{}\n", exe.display()),
        "{ended:?}"
    );
    sandbox.assert_no_survivors();
}

#[test]
fn it_never_picks_itself() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let links = sandbox.path("links");
    let path = |first: &Path| format!("{}:/usr/bin:/bin", first.display());
    // A directory of links in front of PATH, called by name and by path.
    answers(&sandbox, sandbox.call("bash").env("PATH", path(&links)));
    let by_path = sandbox.call("bash").argv0(links.join("bash"));
    answers(&sandbox, by_path.env("PATH", path(&links)));
    answers(&sandbox, sandbox.call("agent-sh").env("PATH", path(&links)));
    // Links to links, and relative ones.
    let chain = sandbox.path("chain");
    fs::create_dir(&chain).unwrap();
    symlink(links.join("bash"), chain.join("second")).unwrap();
    symlink("second", chain.join("bash")).unwrap();
    answers(&sandbox, sandbox.call("bash").env("PATH", path(&chain)));
    // The setting that names the program itself, or a link to it.
    let own: [PathBuf; 3] = [links.join("bash"), chain.join("bash"), program("agent-sh")];
    for shell in own {
        answers(
            &sandbox,
            sandbox.call("agent-sh").env("AGENT_SH_SHELL", &shell),
        );
        answers(&sandbox, sandbox.call("bash").env("AGENT_SH_SHELL", shell));
    }
    answers(
        &sandbox,
        sandbox
            .call("bash")
            .env("AGENT_SH_SHELL", "agent-sh")
            .env("PATH", path(&links)),
    );
    // A hard link has no target to read; only the inode tells.
    let hard = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = fs::canonicalize(program("agent-sh")).unwrap();
    fs::hard_link(program, hard.path().join("bash")).unwrap();
    answers(
        &sandbox,
        sandbox.call("bash").env("PATH", path(hard.path())),
    );
    let shell = hard.path().join("bash");
    answers(
        &sandbox,
        sandbox.call("agent-sh").env("AGENT_SH_SHELL", shell),
    );
}

/// No shell of the wanted name anywhere but ourselves: an error, no endless loop.
#[test]
fn a_shell_that_is_missing() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let ended = sandbox
        .call("bash")
        .c("true")
        .env("AGENT_SH_SHELL", "/nonexistent/shell")
        .run();
    let fell_back = ended.succeeded();
    assert!(
        fell_back || ended.status == Status::Exited(127),
        "{ended:?}"
    );
}

/// Scripts, Makefiles and nested shells that find the stand-ins by name in PATH.
#[test]
fn nested_stand_ins() {
    let sandbox = Sandbox::new();
    let plain = "/usr/bin:/bin";
    let shimmed = format!("{}:{plain}", sandbox.path("links").display());
    for text in [
        "bash -c 'echo one; bash -c \"echo two; exit 3\"; echo $?'",
        "sh -c 'dash -c \"zsh -c \\\"echo deep\\\"\"'",
        "bash -c 'kill -TERM $$' 2>/dev/null; echo $?",
        "sh -c 'kill -USR1 $PPID'; echo not reached",
        "trap 'echo trapped' USR1; sh -c 'kill -USR1 $PPID'; echo reached",
        "bash -c 'exec bash -c \"echo \\$0 \\$1\" zero one'",
        "x=$(bash -c 'echo out; echo err >&2' 2>&1); echo \"$x\"",
        "bash -c 'echo piped' | sh -c 'cat; exit 4'; echo $?",
        "printf 'echo from stdin\\n' | bash; printf 'echo $1\\n' | sh -s arg",
        "printf 'SHELL := bash\\nall:\\n\\t@echo made $$0; exit 3\\n' > Makefile; make -s 2>/dev/null; echo $?",
        "printf '#!/usr/bin/env bash\\necho script $1\\n' > s; chmod +x s; ./s arg",
        "bash --norc -c 'shopt -q login_shell; echo $?'",
        "exec bash -c 'exec sh -c \"exit 12\"'",
    ] {
        for streams in [Streams::Pipe, Streams::Truncated, Streams::Terminal] {
            let run =
                |call: Call<'_>, path: &str| call.c(text).env("PATH", path).streams(streams).run();
            let native = run(sandbox.real_call("bash"), plain);
            let ours = run(sandbox.call("bash"), &shimmed);
            assert_eq!(native, ours, "{streams:?}: {text}");
        }
    }
    sandbox.assert_no_survivors();
}

/// The file that was executed says which shell it is; argv[0] is only passed on.
#[test]
fn a_name_that_somebody_gave_the_call() {
    let sandbox = Sandbox::new();
    let plain = "/usr/bin:/bin";
    let shimmed = format!("{}:{plain}", sandbox.path("links").display());
    let script = |name: &str, shell: &str| {
        let text =
            format!("#!{shell}\necho \"$0 $1 ${{BASH_VERSION:+bash}} ${{ZSH_VERSION:+zsh}}\"\n");
        sandbox.script(name, &text)
    };
    let what =
        "echo \"$0 ${BASH_VERSION:+bash} ${ZSH_VERSION:+zsh}\"; shopt -qo posix && echo posix";
    for text in [
        "(exec -a my bash ps x); echo $?".to_owned(),
        "(exec -a my bash run x); echo $?".to_owned(),
        format!("(exec -a ohio bash -c '{what}')"),
        format!("(exec -a ohio zsh -c '{what}')"),
        format!("(exec -a myname sh -c '{what}')"),
        format!("(exec -a sh bash -c '{what}')"),
        format!("(exec -a bash sh -c '{what}')"),
        format!("(exec -a bash zsh -c '{what}')"),
        format!("(exec -a agent bash -c '{what}')"),
        format!("(exec -a '' bash -c '{what}')"),
        format!("(exec -a nohup bash -c '{what}')"),
        "(exec -a bash nohup echo x) 2>&1".to_owned(),
        "(exec -l bash -c 'echo $0; shopt -q login_shell; echo $?')".to_owned(),
        "(exec -a -su bash -c 'echo $0; shopt -q login_shell; echo $?')".to_owned(),
        "printf 'echo $0\\n' | (exec -a ohio bash)".to_owned(),
        "(exec -a ohio bash -c 'nosuchcommand') 2>&1".to_owned(),
    ] {
        let run = |path: &str| sandbox.real_call("bash").c(&text).env("PATH", path).run();
        assert_eq!(run(plain), run(&shimmed), "{text}");
    }
    // A script is not what its first line names, whatever it is called.
    for (name, shell) in [
        ("plain", "bash"),
        ("zsh", "bash"),
        ("nohup", "zsh"),
        ("bash", "sh"),
    ] {
        let outcome = |shell: &Path| {
            let path = script(name, shell.to_str().unwrap());
            sandbox
                .real_call("sh")
                .args([
                    "-c",
                    &format!("{path} a; cd {}; ./{name} b", sandbox.path("").display()),
                ])
                .run()
        };
        let native = outcome(&crate::support::real(shell));
        assert_eq!(native, outcome(&sandbox.link(shell)), "{name} by {shell}");
    }
    sandbox.assert_no_survivors();
}

/// Called by a descriptor there is no name but argv[0]; by its own name likewise.
#[test]
fn a_file_that_says_nothing() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let python = crate::support::real("python3");
    let run = "import os, sys; fd = os.open(sys.argv[1], os.O_RDONLY); os.execve(fd, sys.argv[2:], os.environ)";
    let what = "echo \"$0 ${BASH_VERSION:+bash}${ZSH_VERSION:+zsh}\"";
    for (argv0, said) in [
        ("bash", "bash bash\n"),
        ("zsh", "zsh zsh\n"),
        ("ohio", "ohio bash\n"),
        ("agent-sh", "bash bash\n"),
    ] {
        let own = program("agent-sh");
        let args = ["-c", run, own.to_str().unwrap(), argv0, "-c", what];
        let ended = sandbox.real_call("python3").args(args).run();
        assert_eq!(
            ended.text(),
            said,
            "{argv0}, {}: {ended:?}",
            python.display()
        );
        let ended = sandbox.call("agent-sh").argv0(argv0).c(what).run();
        assert_eq!(ended.text(), said, "{argv0}: {ended:?}");
    }
    // As a login shell by its own name.
    let login = sandbox.call("agent-sh").argv0("-agent-sh");
    let ended = login.c("echo $0; shopt -q login_shell; echo $?").run();
    assert_eq!(ended.text(), "-bash\n0\n", "{ended:?}");
}

//! `doctor`, `init`, `completions`, `man`, and words that are no verbs.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::ended;
use crate::support::{Sandbox, Status, has, real};

#[test]
fn the_doctor_tries_things_out() {
    let sandbox = Sandbox::new();
    let call = sandbox
        .call("agent-sh")
        .args(["doctor", "--json"])
        .env("AGENT_SH_ANOUNCE", "1")
        .env("CODEX_THREAD_ID", "t-1");
    let told = call.run();
    assert!(told.succeeded(), "{told:?}");
    let findings: Vec<Value> = serde_json::from_slice(&told.stdout).unwrap();
    let of = |check: &str| {
        let found = findings.iter().filter(|finding| finding["check"] == check);
        found.collect::<Vec<_>>()
    };
    let needed = [
        "program",
        "state",
        "locks",
        "space",
        "jobs",
        "/proc",
        "terminals",
        "orphans",
        "pidfd",
        "request pipe",
        "inotify",
        "a whole job",
        "sandbox",
        "harness",
        "session",
        "real shells",
        "stand-in",
        "settings",
    ];
    for check in needed {
        assert!(!of(check).is_empty(), "{check} is missing: {findings:#?}");
    }
    for check in ["locks", "orphans", "pidfd", "request pipe", "a whole job"] {
        assert_eq!(of(check)[0]["status"], "ok", "{findings:#?}");
    }
    assert_eq!(of("session")[0]["detail"], "t-1 (from CODEX_THREAD_ID)");
    assert_eq!(of("harness")[0]["detail"], "codex");
    let misspelt = of("settings")
        .into_iter()
        .find(|finding| finding["status"] == "warn");
    assert_eq!(misspelt.unwrap()["hint"], "did you mean AGENT_SH_ANNOUNCE?");
    sandbox.assert_no_survivors();
    assert_eq!(fs::read_dir(sandbox.path("tmp")).unwrap().count(), 0);
    // It is found through PATH, and a home that cannot be written to is named.
    let path = format!("{}:/usr/bin:/bin", sandbox.path("links").display());
    let told = sandbox
        .call("agent-sh")
        .args(["doctor"])
        .env("PATH", path)
        .run();
    assert!(
        told.text()
            .contains("ok    stand-in         'bash' in PATH, 'sh' in PATH"),
        "{told:?}"
    );
}

#[test]
fn pages_for_every_verb() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("pages/man1");
    let told = sandbox.agent_sh(["man", "--dir", dir.to_str().unwrap()]);
    assert!(told.succeeded(), "{told:?}");
    let mut names: Vec<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for verb in [
        "run", "ps", "show", "logs", "wait", "kill", "events", "gc", "doctor", "init", "setup",
    ] {
        let name = format!("agent-sh-{verb}.1");
        assert!(names.contains(&name), "{names:?}");
        let page = fs::read_to_string(dir.join(name)).unwrap();
        assert_eq!(page, sandbox.agent_sh(["man", verb]).text());
        for part in [
            ".TH ",
            ".SH NAME",
            ".SH SYNOPSIS",
            "Example:",
            "Exit codes:",
        ] {
            assert!(page.contains(part), "{verb} lacks {part}");
        }
    }
    let whole = sandbox.agent_sh(["man"]).text();
    assert!(whole.contains("agent\\-sh\\-kill(1)"), "{whole}");
    assert_eq!(sandbox.agent_sh(["man", "agent-sh"]).text(), whole);
    // The words below a verb have pages too, by their words and by the name of the page.
    let add = fs::read_to_string(dir.join("agent-sh-notify-add.1")).unwrap();
    assert!(add.contains("agent\\-sh notify add"), "{add}");
    assert_eq!(sandbox.agent_sh(["man", "notify", "add"]).text(), add);
    assert_eq!(sandbox.agent_sh(["man", "agent-sh-notify-add"]).text(), add);
    let setup = sandbox.agent_sh(["man", "setup", "claude-code"]).text();
    assert_eq!(
        sandbox
            .agent_sh(["man", "agent-sh-setup-claude-code"])
            .text(),
        setup
    );
    for (words, wanted) in [
        (&["wiat"][..], "did you mean 'wait'?"),
        (&["notify", "ad"], "it has add, "),
        (&["wait", "x"], "'agent-sh man wait' prints its page"),
    ] {
        let told = sandbox.call("agent-sh").arg("man").args(words).run();
        assert_eq!(told.status, Status::Exited(2), "{told:?}");
        assert!(told.errors().contains(wanted), "{told:?}");
    }
}

/// Fish is asked itself what it would offer.
#[test]
fn fish_completes_verbs_options_and_jobs() {
    if !has("fish") {
        return;
    }
    let sandbox = Sandbox::new();
    let id = ended(&sandbox, 0);
    let dir = sandbox.path("home/.config/fish/completions");
    fs::create_dir_all(&dir).unwrap();
    let script = sandbox.agent_sh(["completions", "fish"]).stdout;
    fs::write(dir.join("agent-sh.fish"), script).unwrap();
    let path = format!("{}:/usr/bin:/bin", sandbox.path("links").display());
    let complete = |line: &str| {
        let call = sandbox.real_call("fish").args(["--private", "-c"]);
        let told = call
            .args([format!("complete -C '{line}'")])
            .env("PATH", &path)
            .run();
        assert!(told.succeeded() && told.stderr.is_empty(), "{told:?}");
        let text = told.text();
        let words = text.lines().filter_map(|line| line.split('\t').next());
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let verbs = complete("agent-sh ");
    for verb in ["run", "ps", "wait", "logs", "kill", "notify", "man"] {
        assert!(verbs.iter().any(|word| word == verb), "{verbs:?}");
    }
    assert_eq!(complete("agent-sh ev"), ["events"]);
    assert_eq!(complete("agent-sh kill --gr"), ["--grace"]);
    assert!(complete("agent-sh show ").contains(&id));
    assert!(complete("agent-sh notify a").contains(&"add".to_owned()));
}

#[test]
fn bash_completes_verbs_options_and_jobs() {
    let sandbox = Sandbox::new();
    let id = ended(&sandbox, 0);
    let script = sandbox.path("completions");
    fs::write(&script, sandbox.agent_sh(["completions", "bash"]).stdout).unwrap();
    let complete = |line: &str| {
        let text = "source \"$1\"; COMP_WORDS=($2); [[ $2 == *' ' ]] && COMP_WORDS+=(''); \
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE=$2; COMP_POINT=${#2}; \
            $3 agent-sh \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
        let output = Command::new(real("bash"))
            .args(["--norc", "-c", text, "bash"])
            .arg(&script)
            .args([line, "_agent-sh-and-jobs"])
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", sandbox.path("links").display()),
            )
            .env("AGENT_SH_STATE", sandbox.state())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete("agent-sh ev"), "events\n");
    assert!(complete("agent-sh kill --gr").contains("--grace"));
    assert!(complete("agent-sh show ").lines().any(|line| line == id));
    assert!(
        complete(&format!("agent-sh wait {}", &id[..5]))
            .lines()
            .any(|line| line == id)
    );
    for shell in ["zsh", "fish"] {
        let script = sandbox.agent_sh(["completions", shell]);
        assert!(
            script.succeeded() && script.text().contains("ps --all --quiet"),
            "{shell}"
        );
    }
    let zsh = sandbox.path("_agent-sh");
    fs::write(&zsh, sandbox.agent_sh(["completions", "zsh"]).stdout).unwrap();
    let parsed = Command::new(real("zsh"))
        .arg("-n")
        .arg(&zsh)
        .output()
        .unwrap();
    assert!(parsed.status.success(), "{parsed:?}");
}

#[test]
fn what_to_put_where() {
    let sandbox = Sandbox::new();
    let shims = sandbox.path("shims dir");
    let shims = shims.to_str().unwrap();
    let all = sandbox.agent_sh(["init", "--shims", shims]).text();
    assert!(
        all.contains("agent-sh setup shims '") && all.contains("agent-sh doctor"),
        "{all}"
    );
    let claude = sandbox
        .agent_sh(["init", "claude-code", "--shims", shims])
        .text();
    assert!(
        claude.contains("CLAUDE_CODE_SHELL") && claude.contains(shims),
        "{claude}"
    );
    // The lines for a shell work in that shell, also twice.
    assert!(sandbox.agent_sh(["setup", "shims", shims]).succeeded());
    assert!(
        !sandbox
            .agent_sh(["init", "--shims", shims])
            .text()
            .contains("setup shims")
    );
    for shell in ["bash", "zsh"] {
        let text = "agent=$1; agent-sh() { \"$agent\" \"$@\"; }; eval \"$(agent-sh init $2 --shims \"$3\")\"; \
            eval \"$(agent-sh init $2 --shims \"$3\")\"; printf '%s\\n' \"$PATH\"";
        let output = Command::new(real(shell))
            .args(["-f", "-c", text, shell])
            .arg(sandbox.link("agent-sh"))
            .args([shell, shims])
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", sandbox.path("home"))
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(
            told,
            format!("{shims}:/usr/bin:/bin\n"),
            "{shell}: {output:?}"
        );
    }
}

/// A word that no shell knows and that was meant for us gets a hint; what a shell knows gets none.
#[test]
fn words_that_are_no_verbs() {
    let sandbox = Sandbox::new();
    for (word, verb) in [
        ("status", "ps"),
        ("kil", "kill"),
        ("stauts", ""),
        ("list", "ps"),
    ] {
        let told = sandbox.agent_sh([word]);
        let real = sandbox.real_call("bash").c(word).run();
        assert_eq!(
            (told.status, &told.stdout),
            (Status::Exited(127), &real.stdout),
            "{told:?}"
        );
        assert!(told.errors().starts_with(&real.errors()), "{told:?}");
        let hint = format!("did you mean 'agent-sh {verb}'?");
        assert_eq!(told.errors().contains(&hint), !verb.is_empty(), "{told:?}");
    }
    for command in [
        "jobs",
        "true",
        "exit 127",
        "nosuchcommand --now",
        "sh -c 'exit 127'",
    ] {
        let told = sandbox.agent_sh([command]);
        let real = sandbox.real_call("bash").c(command).run();
        assert_eq!(told, real, "{command}");
    }
}

/// Every verb's help has an example and its exit codes, and fits eighty columns where it is a list.
#[test]
fn every_help_can_be_acted_on() {
    let sandbox = Sandbox::new();
    let help = sandbox.agent_sh(["--help"]).text();
    let verbs: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Verbs:"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() >= 14, "{help}");
    for verb in verbs {
        let text = sandbox.agent_sh([verb, "--help"]).text();
        for part in ["Usage: agent-sh ", "Example:", "Exit codes:"] {
            assert!(text.contains(part), "{verb} lacks '{part}': {text}");
        }
    }
}

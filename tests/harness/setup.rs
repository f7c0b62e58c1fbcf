//! `setup HARNESS`: files of others, changed and restored byte for byte.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use crate::support::{Ended, Sandbox, Status, stands_in};

/// Each harness with a file that its setup changes, and a text that a user may have there.
const FILES: [(&str, &str, &str); 4] = [
    (
        "claude-code",
        "home/.claude/settings.json",
        "{ \"model\":\"opus\",\r\n\t\"env\": {\"A\":\"1\"} , \"hooks\": {\"Stop\": []} }",
    ),
    (
        "opencode",
        "home/.config/opencode/opencode.json",
        "{\n    // mine\n    \"theme\": \"dark\",   \n}",
    ),
    (
        "codex",
        "home/.codex/config.toml",
        "# mine\nmodel = \"x\" # the best\n\n\n[shell_environment_policy]\ninherit = 'all'\n",
    ),
    (
        "gemini",
        "home/.gemini/settings.json",
        "{ // mine\n\"ui\": {\"theme\":\"x\"} , \"hooks\": {\"AfterAgent\": [ {\"hooks\": []} ]}\t}",
    ),
];

fn setup(sandbox: &Sandbox, args: &[&str]) -> Ended {
    let words = ["setup"].iter().chain(args);
    sandbox.call("agent-sh").args(words).run()
}

#[track_caller]
fn done(sandbox: &Sandbox, args: &[&str]) -> String {
    let ended = setup(sandbox, args);
    assert!(ended.succeeded(), "{args:?}: {ended:?}");
    ended.errors()
}

/// Everything below the home directory, but directories that others need anyway.
fn files(sandbox: &Sandbox) -> Vec<PathBuf> {
    fn walk(dir: &std::path::Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                walk(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&sandbox.path("home"), &mut found);
    found.sort();
    found
}

#[test]
fn a_file_comes_back_byte_for_byte() {
    if !stands_in() {
        return;
    }
    for (harness, file, text) in FILES {
        let sandbox = Sandbox::new();
        let path = sandbox.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        done(&sandbox, &[harness]);
        let added = fs::read_to_string(&path).unwrap();
        assert_ne!(added, text, "{harness}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
        let again = done(&sandbox, &[harness]);
        assert!(again.contains("nothing to change"), "{again}");
        assert_eq!(fs::read_to_string(&path).unwrap(), added, "{harness}");
        let printed = setup(&sandbox, &[harness, "--undo", "--print"]);
        assert!(printed.errors().contains("would take"), "{printed:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), added, "{harness}");
        done(&sandbox, &[harness, "--undo"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{harness}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
        let nothing = done(&sandbox, &[harness, "--undo"]);
        assert!(nothing.contains("nothing of ours"), "{nothing}");
        assert_eq!(files(&sandbox), [path], "{harness}: something is left");
    }
}

#[test]
fn a_file_that_was_not_there_is_gone_again() {
    if !stands_in() {
        return;
    }
    for (harness, file, _) in FILES {
        let sandbox = Sandbox::new();
        let path = sandbox.path(file);
        let printed = setup(&sandbox, &[harness, "--print"]);
        assert!(
            printed.succeeded() && !printed.stdout.is_empty(),
            "{printed:?}"
        );
        assert!(files(&sandbox).is_empty(), "--print wrote something");
        done(&sandbox, &[harness]);
        assert!(path.exists(), "{harness}");
        done(&sandbox, &[harness, "--undo"]);
        assert!(files(&sandbox).is_empty(), "{:?}", files(&sandbox));
        assert!(!path.parent().unwrap().exists(), "{harness}: its directory");
    }
}

/// Edited in between: what the user wrote stays, and only our parts leave.
#[test]
fn of_an_edited_file_only_our_parts_leave() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let path = sandbox.path("home/.claude/settings.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "{\n  \"model\": \"opus\"\n}\n").unwrap();
    done(&sandbox, &["claude-code"]);
    let added = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        added.replace("\"opus\"", "\"sonnet\", \"theme\": \"dark\""),
    )
    .unwrap();
    done(&sandbox, &["claude-code", "--undo"]);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\n  \"model\": \"sonnet\", \"theme\": \"dark\"\n}\n"
    );
}

/// Links stay links, and what cannot be changed is left as it is, with a reason.
#[test]
fn what_cannot_be_changed_is_left_alone() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let path = sandbox.path("home/.claude/settings.json");
    let real = sandbox.path("real.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(&real, &path).unwrap();
    let refused = |why: &str| {
        let ended = setup(&sandbox, &["claude-code"]);
        assert_eq!(ended.status, Status::Exited(125), "{ended:?}");
        assert!(ended.errors().contains(why), "{why}: {ended:?}");
        assert!(ended.errors().contains(path.to_str().unwrap()), "{ended:?}");
    };
    refused("leads nowhere");
    for (text, why) in [
        ("{\"a\":}", "no valid JSON: line 1, column 6"),
        ("[1]", "no JSON object"),
        ("{\"hooks\": 1}", "'hooks' in it is no object"),
        (
            "{\"env\": {\"CLAUDE_CODE_SHELL\": \"/bin/zsh\"}}",
            "is already '/bin/zsh'",
        ),
    ] {
        fs::write(&real, text).unwrap();
        refused(why);
        assert_eq!(fs::read_to_string(&real).unwrap(), text);
    }
    fs::write(&real, "{}").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o444)).unwrap();
    refused("read-only");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    // Nothing was left by those that failed.
    assert_eq!(files(&sandbox), std::slice::from_ref(&path));
    done(&sandbox, &["claude-code"]);
    assert!(path.is_symlink());
    assert!(
        fs::read_to_string(&real)
            .unwrap()
            .contains("CLAUDE_CODE_SHELL")
    );
    done(&sandbox, &["claude-code", "--undo"]);
    assert!(path.is_symlink());
    assert_eq!(fs::read_to_string(&real).unwrap(), "{}");
}

/// What setup cannot do is said, and where hooks are off that too.
#[test]
fn gemini_is_told_what_is_left_to_do() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let path = sandbox.work().join(".gemini/settings.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = "{\"hooksConfig\": {\"enabled\": false}}";
    fs::write(&path, text).unwrap();
    let said = done(&sandbox, &["gemini", "--project"]);
    for part in [
        "'hooksConfig.enabled' in",
        "trusted folders",
        "alias gemini=",
        "cannot be woken",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let user = sandbox.path("home/.gemini/settings.json");
    let ended = setup(&sandbox, &["gemini"]);
    assert!(ended.text().starts_with("export PATH="), "{ended:?}");
    assert_eq!(ended.text().lines().count(), 1, "{ended:?}");
    // The links stay as long as the other settings name them.
    done(&sandbox, &["gemini", "--project", "--undo"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert!(
        sandbox
            .path("home/.local/share/agent-sh/gemini/bash")
            .is_symlink()
    );
    let settings: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&user).unwrap()).unwrap();
    let hooks = settings["hooks"].as_object().unwrap();
    assert_eq!(hooks.len(), 5, "{hooks:?}");
    for groups in hooks.values() {
        let command = groups[0]["hooks"][0]["command"].as_str().unwrap();
        let ended = sandbox.real_call("sh").args(["-c", command]).run();
        assert!(ended.succeeded() && ended.text().is_empty(), "{ended:?}");
    }
    done(&sandbox, &["gemini", "--undo"]);
    assert!(files(&sandbox).is_empty(), "{:?}", files(&sandbox));
    // Links that somebody made for other uses are not its own.
    let shims = sandbox.path("home/.local/share/agent-sh/shims");
    done(&sandbox, &["shims", shims.to_str().unwrap()]);
    done(&sandbox, &["gemini"]);
    done(&sandbox, &["gemini", "--undo"]);
    assert!(shims.join("bash").is_symlink());
    let both = setup(&sandbox, &["gemini", "--user", "--project"]);
    assert_eq!(both.status, Status::Exited(2), "{both:?}");
}

/// The names in the settings lead to the program, and it knows itself under them.
#[test]
fn what_the_settings_name_works() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    done(&sandbox, &["claude-code", "--project"]);
    let text = fs::read_to_string(sandbox.work().join(".claude/settings.json")).unwrap();
    let settings: serde_json::Value = serde_json::from_str(&text).unwrap();
    let shell = settings["env"]["CLAUDE_CODE_SHELL"].as_str().unwrap();
    assert!(shell.contains("bash"), "or the client ignores it: {shell}");
    let run = std::process::Command::new(shell)
        .args(["-c", "echo $BASH_VERSION; exit 3"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("AGENT_SH_STATE", sandbox.state())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(3));
    assert!(!run.stdout.is_empty());
    let hooks = settings["hooks"].as_object().unwrap();
    assert_eq!(hooks.len(), 6, "{hooks:?}");
    for groups in hooks.values() {
        for hook in groups[0]["hooks"].as_array().unwrap() {
            let command = hook["command"].as_str().unwrap();
            let ended = sandbox.real_call("sh").args(["-c", command]).run();
            assert_eq!(
                (ended.status, ended.text().as_str()),
                (Status::Exited(0), ""),
                "{command}: {ended:?}"
            );
        }
    }
}

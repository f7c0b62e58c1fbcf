//! Values from the environment and the file.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::support::{
    Sandbox, Status, program, ps_json, records, stands_in, wait_for_records, wait_until,
};

/// Nobody: another user, whom every machine has.
const OTHER: u32 = 65_534;

#[expect(clippy::print_stderr, reason = "a test that is passed over says so")]
fn is_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("'{test}' was passed over: only root can try it");
    }
    root
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn config(sandbox: &Sandbox, text: &str) {
    let dir = sandbox.path("home/.config/agent-sh");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), text).unwrap();
}

#[test]
fn the_file_counts_and_the_environment_wins() {
    let sandbox = Sandbox::new();
    config(&sandbox, "session = \"from-file\"\nkeep = \"0\"\n");
    let run = sandbox.agent_sh(["run", "--wait", "--", "true"]);
    assert!(run.succeeded(), "{run:?}");
    let rows = crate::support::ps_json(&sandbox);
    assert_eq!(rows[0]["session"], "from-file");
    let kept = sandbox
        .call("agent-sh")
        .args(["gc"])
        .env("AGENT_SH_KEEP", "7d")
        .run();
    assert!(kept.text().contains("removed 0 jobs"), "{kept:?}");
    let gone = sandbox.agent_sh(["gc"]);
    assert!(gone.text().contains("removed 1 job "), "{gone:?}");
}

#[test]
fn unknown_and_bad_ones() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("home/.config/agent-sh/config.toml");
    for (text, words) in [
        ("keep = \"soon\"", "expected a duration"),
        ("keep = 1\n[section", "line 2: "),
        ("notify = { a = 1 }", "expected one plain value"),
    ] {
        config(&sandbox, text);
        let ps = sandbox.agent_sh(["ps"]);
        assert_eq!(ps.status, Status::Exited(125), "{ps:?}");
        assert!(ps.errors().contains(words), "{words}: {ps:?}");
        assert!(ps.errors().contains(path.to_str().unwrap()), "{ps:?}");
        // The doctor explains instead of stopping.
        let doctor = sandbox.agent_sh(["doctor"]);
        assert_eq!(doctor.status, Status::Exited(1), "{doctor:?}");
        assert!(doctor.text().contains("fail  settings"), "{doctor:?}");
        // A command runs all the same.
        let call = sandbox.call("bash").c("echo it runs").run();
        assert_eq!(
            (call.succeeded(), call.text().as_str()),
            (true, "it runs\n")
        );
    }
    config(&sandbox, "anounce = false");
    let call = sandbox
        .call("bash")
        .c("true & wait $!; true &")
        .env("AGENT_SH_KEEP", "never-ever");
    assert!(call.run().succeeded());
    let records = wait_for_records(&sandbox, 1);
    let ignored = records[0].data("ignored_settings").to_string();
    assert!(
        ignored.contains("anounce") && ignored.contains("AGENT_SH_KEEP='never-ever'"),
        "{ignored}"
    );
}

/// Values that only the machine can judge: a shell that is there, a sink that is one.
#[test]
fn shells_and_sinks_that_are_none() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let plain = sandbox.path("work/plain");
    fs::write(&plain, "").unwrap();
    let (plain, own) = (
        plain.display().to_string(),
        sandbox.link("bash").display().to_string(),
    );
    let exec = format!("exec:{plain}");
    for (key, value, words) in [
        (
            "notify",
            "bogus:x",
            "no sink 'bogus:x': a sink is exec:/PROGRAM",
        ),
        (
            "notify",
            "dir:relative",
            "'dir:relative' needs an absolute path",
        ),
        ("notify", "stdout", "'stdout' ends with the verb"),
        ("notify", "auto,nonsense", "no sink 'nonsense'"),
        ("notify", exec.as_str(), "is not executable"),
        ("shell", "/no/such", "no such file"),
        ("shell", "no-such-shell", "no shell of that name in PATH"),
        ("shell", plain.as_str(), "is no program that can be run"),
        ("shell", own.as_str(), "is agent-sh itself"),
    ] {
        let variable = format!("AGENT_SH_{}", key.to_ascii_uppercase());
        for in_file in [false, true] {
            let text = format!("{key} = \"{value}\"\n");
            config(&sandbox, if in_file { &text } else { "" });
            let set = |call: crate::support::Call<'_>| match in_file {
                true => call.run(),
                false => call.env(&variable, value).run(),
            };
            let ps = set(sandbox.call("agent-sh").args(["ps"]));
            let name = if in_file { key } else { variable.as_str() };
            assert_eq!(ps.status, Status::Exited(125), "{key}={value}: {ps:?}");
            assert!(ps.errors().contains(&format!("setting {name}")), "{ps:?}");
            assert!(ps.errors().contains(words), "{ps:?}");
            let doctor = set(sandbox.call("agent-sh").args(["doctor"]));
            assert_eq!(doctor.status, Status::Exited(1), "{doctor:?}");
            assert!(doctor.text().contains("fail  settings"), "{doctor:?}");
            // Every name still finds a shell, and the record tells.
            for shell in ["bash", "agent-sh"] {
                let call = set(sandbox
                    .call(shell)
                    .c("sh -c 'exit 7' & echo ${BASH_VERSION:+bash}"));
                assert_eq!(call.text(), "bash\n", "{key}={value}: {call:?}");
                let wait = sandbox.call("agent-sh").args(["wait", "last"]);
                // The file is bad for this verb, too.
                config(&sandbox, "");
                assert_eq!(wait.run().status, Status::Exited(7));
                config(&sandbox, if in_file { &text } else { "" });
                let records = records(&sandbox);
                let newest = records
                    .iter()
                    .max_by_key(|record| record.data("started_at").to_string());
                let ignored = newest.unwrap().data("ignored_settings").to_string();
                assert!(
                    ignored.contains(name) && ignored.contains(words),
                    "{ignored}"
                );
            }
        }
    }
    sandbox.assert_no_survivors();
}

/// A bad value leaves the one below it; a sink that is none does not keep the others from being told, and
/// what may be a password in it is told nobody.
#[test]
fn what_is_left_beside_a_bad_value() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let dash = crate::support::real("dash");
    config(&sandbox, &format!("shell = \"{}\"\n", dash.display()));
    let call = sandbox.call("agent-sh").c("echo ${BASH_VERSION:-no bash}");
    let call = call.env("AGENT_SH_SHELL", "/no/such").run();
    assert_eq!(call.text(), "no bash\n", "{call:?}");
    let events = sandbox.path("work/events");
    let gate = sandbox.gate();
    let sinks = format!("ftp://me:secret@host/,dir:{}", events.display());
    let call = sandbox
        .call("bash")
        .c(format!("sh -c 'read x < {}; exit 3' &", gate.path()))
        .env("AGENT_SH_NOTIFY", sinks);
    assert!(call.run().succeeded());
    gate.release(1);
    wait_until("the end was told", || {
        fs::read_dir(&events).is_ok_and(|mut found| found.next().is_some())
    });
    let ignored = records(&sandbox)[0].data("ignored_settings").to_string();
    assert!(
        ignored.contains("no sink 'ftp://…'") && !ignored.contains("secret"),
        "{ignored}"
    );
    sandbox.assert_no_survivors();
}

/// Where there can be no file there is none.
#[test]
fn a_home_that_is_no_directory() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("work/file");
    fs::write(&file, "").unwrap();
    for (variable, value) in [
        ("HOME", "/dev/null"),
        ("HOME", file.to_str().unwrap()),
        ("XDG_CONFIG_HOME", "/dev/null"),
    ] {
        if !stands_in() {
            return;
        }
        let ps = sandbox
            .call("agent-sh")
            .args(["ps"])
            .env(variable, value)
            .run();
        assert!(ps.succeeded(), "{variable}={value}: {ps:?}");
        let run = sandbox
            .call("agent-sh")
            .args(["run", "--wait", "--", "sh", "-c", "exit 3"]);
        assert_eq!(run.env(variable, value).run().status, Status::Exited(3));
    }
}

/// A file that others could have written decides nothing: verbs say so, a command runs, its record tells.
#[test]
fn a_file_that_others_can_write_is_ignored() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let evil = sandbox.script("evil", "#!/bin/sh\necho evil\n");
    let text = format!("shell = \"{evil}\"\nsession = \"theirs\"\n");
    config(&sandbox, &text);
    let dir = sandbox.path("home/.config/agent-sh");
    let file = dir.join("config.toml");
    let call = || sandbox.call("agent-sh").c("echo mine").run();
    assert_eq!(call().text(), "evil\n", "one's own file counts");
    let unsafe_ones: [(&str, u32, u32, &dyn Fn()); 5] = [
        ("can be written by others", 0o664, 0o755, &|| ()),
        ("can be written by others", 0o602, 0o755, &|| ()),
        (
            "its directory can be written by others",
            0o600,
            0o775,
            &|| (),
        ),
        ("it belongs to another user", 0o600, 0o755, &|| {
            chown(&file, Some(OTHER), Some(OTHER)).unwrap();
        }),
        (
            "its directory belongs to another user",
            0o600,
            0o755,
            &|| {
                chown(&file, Some(0), Some(0)).unwrap();
                chown(&dir, Some(OTHER), Some(OTHER)).unwrap();
            },
        ),
    ];
    let root = is_root("a file of another user");
    for (why, file_mode, dir_mode, make) in unsafe_ones {
        if why.contains("belongs") && !root {
            continue;
        }
        make();
        set_mode(&file, file_mode);
        set_mode(&dir, dir_mode);
        assert_eq!(call().text(), "mine\n", "{why}");
        let ps = sandbox.agent_sh(["ps"]);
        assert!(ps.succeeded(), "{why}: {ps:?}");
        let errors = ps.errors();
        let path = file.to_str().unwrap();
        assert!(errors.contains("ignoring the config file"), "{errors}");
        assert!(errors.contains(why) && errors.contains(path), "{errors}");
        let doctor = sandbox.agent_sh(["doctor"]).text();
        let spaced: Vec<&str> = doctor.split_whitespace().collect();
        assert!(spaced.join(" ").contains(why), "{why}: {doctor}");
    }
    let job = sandbox.call("bash").c("true & wait $!; true &").run();
    assert!(job.succeeded(), "{job:?}");
    let record = &wait_for_records(&sandbox, 1)[0];
    let ignored = record.data("ignored_settings").to_string();
    assert!(ignored.contains("config.toml: its directory"), "{ignored}");
    assert_ne!(record.data("session"), "theirs");
    sandbox.assert_no_survivors();
}

/// With a set-user-ID bit the caller's variables say nothing: neither which shell, nor where files are.
#[test]
fn more_rights_than_the_caller_has_mean_no_variables() {
    if !stands_in() || !is_root("a program with the set-user-ID bit") {
        return;
    }
    let sandbox = Sandbox::new();
    let flags = nix::sys::statvfs::statvfs(&sandbox.path("work"))
        .unwrap()
        .flags();
    assert!(
        !flags.contains(nix::sys::statvfs::FsFlags::ST_NOSUID),
        "/tmp ignores the bit here, and the test could not fail"
    );
    set_mode(&sandbox.path("."), 0o755);
    let evil = sandbox.script("evil", "#!/bin/sh\necho evil\n");
    let copy = sandbox.path("work/agent-sh");
    // By a process of its own: a test beside this one that forks would hold the open file for a moment, and
    // a program that is open for writing cannot be run.
    let copied = Command::new("cp")
        .arg(program("agent-sh"))
        .arg(&copy)
        .status();
    assert!(copied.unwrap().success());
    let theirs = sandbox.path("theirs");
    fs::create_dir_all(theirs.join("agent-sh")).unwrap();
    let file = theirs.join("agent-sh/config.toml");
    // Root's own file, which the caller only points to.
    fs::write(&file, format!("shell = \"{evil}\"\n")).unwrap();
    let variables = [
        ("AGENT_SH_SHELL", Path::new(&evil)),
        ("XDG_CONFIG_HOME", &theirs),
    ];
    for (mode, said) in [(0o755, "evil\n"), (0o4755, "mine\n"), (0o2755, "mine\n")] {
        set_mode(&copy, mode);
        for (variable, value) in variables {
            let mut command = Command::new(&copy);
            command.arg0("agent-sh").args(["-c", "echo mine"]);
            command.env_clear().env("PATH", "/usr/bin:/bin");
            command.env(variable, value).current_dir("/");
            command.uid(OTHER).gid(OTHER);
            let ended = command.output().unwrap();
            let text = String::from_utf8_lossy(&ended.stdout).into_owned();
            assert_eq!(text, said, "{mode:o} {variable}: {ended:?}");
        }
    }
}

/// `sudo` may leave the home of who called it. Nothing of root's comes to lie there; the jobs are in the
/// next place, and every verb looks there.
#[test]
fn nothing_is_made_in_the_home_of_another() {
    if !stands_in() || !is_root("root in the home of another user") {
        return;
    }
    for owned in ["home", "home/.local", "home/.local/state"] {
        let sandbox = Sandbox::new();
        fs::create_dir_all(sandbox.path("home/.local/state")).unwrap();
        let mut made = sandbox.path("home/.local/state");
        let owner = sandbox.path(owned);
        while made != owner {
            fs::remove_dir(&made).unwrap();
            made.pop();
        }
        chown(&owner, Some(OTHER), Some(OTHER)).unwrap();
        let verb = |words: &[&str]| {
            let call = sandbox.call("agent-sh").args(words);
            let call = call.env("AGENT_SH_SESSION", sandbox.work());
            call.env_remove("AGENT_SH_STATE")
                .env_remove("XDG_RUNTIME_DIR")
                .run()
        };
        let ran = verb(&["run", "--wait", "--", "sh", "-c", "exit 5"]);
        assert_eq!(ran.status, Status::Exited(5), "{owned}: {ran:?}");
        let left: Vec<_> = fs::read_dir(&owner).unwrap().collect();
        assert!(left.is_empty(), "{owned}: {left:?}");
        assert_eq!(fs::metadata(&owner).unwrap().uid(), OTHER);
        let wait = verb(&["wait", "last"]);
        assert_eq!(wait.status, Status::Exited(5), "{owned}: {wait:?}");
        let rows: serde_json::Value =
            serde_json::from_slice(&verb(&["ps", "-a", "--json"]).stdout).unwrap();
        let transcript = rows[0]["transcript"].as_str().unwrap();
        assert!(
            Path::new(transcript).starts_with(sandbox.path("tmp")),
            "{transcript}"
        );
        let doctor = verb(&["doctor"]).text();
        let words: Vec<&str> = doctor.split_whitespace().collect();
        let words = words.join(" ");
        assert!(words.contains("belongs to another user"), "{doctor}");
        sandbox.assert_no_survivors();
    }
    // Whoever names a directory means it.
    let sandbox = Sandbox::new();
    chown(sandbox.path("home"), Some(OTHER), Some(OTHER)).unwrap();
    let named = sandbox.path("home/named");
    let run = sandbox
        .call("agent-sh")
        .args(["run", "--wait", "--", "true"]);
    assert!(run.env("AGENT_SH_STATE", &named).run().succeeded());
    assert!(named.join("v1/jobs").is_dir());
    assert!(ps_json(&sandbox).is_empty());
    sandbox.assert_no_survivors();
}

/// A report is pasted where everybody reads it: no part of a value that may be a password is in it.
#[test]
fn the_doctor_shows_no_secrets() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let sinks = "https://hooks.example.com/T0/hunter2?key=hunter3,http://127.0.0.1:9/hunter4";
    for json in [false, true] {
        let words: &[&str] = if json {
            &["doctor", "--json"]
        } else {
            &["doctor"]
        };
        let doctor = sandbox
            .call("agent-sh")
            .args(words)
            .env("AGENT_SH_NOTIFY", sinks)
            .env("AGENT_SH_SESSION", "https://me:hunter5@example.com/")
            .run();
        let said = format!("{}{}", doctor.text(), doctor.errors());
        assert!(!said.contains("hunter"), "{said}");
        assert!(said.contains("https://hooks.example.com"), "{said}");
    }
    let bad = "https://me:hunter6@hooks.example.com/x";
    for words in [&["doctor"][..], &["ps"], &["notify", "add", bad]] {
        let told = sandbox
            .call("agent-sh")
            .args(words)
            .env("AGENT_SH_NOTIFY", bad)
            .run();
        let said = format!("{}{}", told.text(), told.errors());
        assert!(!said.contains("hunter6"), "{words:?}: {said}");
    }
}

/// What a killed command said last is in its record, as everything else is: without secrets. The hash of
/// its text tells nobody what the secret was.
#[test]
fn the_record_of_a_killed_command_shows_no_secrets() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let text = "echo TOKEN=hunter2 password: hunter3; sleep 600";
    let running = sandbox.call("bash").c(text).start();
    let pid = running.pid();
    let (mut child, streams) = running.into_files();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(&streams[0]), &mut line).unwrap();
    assert!(line.contains("hunter2 password: hunter3"), "{line}");
    crate::support::signal(pid, nix::sys::signal::Signal::SIGTERM);
    assert_eq!(crate::support::exit_of(&mut child), Status::Signaled(15));
    wait_until("it is recorded", || records(&sandbox).len() == 1);
    let record = &records(&sandbox)[0];
    let tail = record.data("untrusted_output_tail").as_str().unwrap();
    assert!(
        tail.contains("TOKEN=***") && !tail.contains("hunter"),
        "{tail}"
    );
    let plain = <sha2::Sha256 as sha2::Digest>::digest(text.as_bytes());
    let plain: String = plain.iter().map(|byte| format!("{byte:02x}")).collect();
    let hash = record.data("command")["sha256"].as_str().unwrap();
    assert!(hash.len() == 64 && hash != plain, "{hash}");
    sandbox.assert_no_survivors();
}

//! Values from the environment and the file.

use std::fs;

use crate::support::{Sandbox, Status, records, stands_in, wait_for_records, wait_until};

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

//! Values from the environment and the file.

use std::fs;

use crate::support::{Sandbox, Status, wait_for_records};

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
        (
            "anounce = false",
            "unknown setting; did you mean 'announce'?",
        ),
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

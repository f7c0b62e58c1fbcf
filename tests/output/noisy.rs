//! Programs that draw: cargo, npm, curl, vim and their like. One that is not installed is skipped.

use std::io::{Read, Write};

use super::{ended_job, sandbox, text_of};
use crate::support::{Sandbox, has, has_on_path};

/// The shell's words to have the caller's `PATH` and home, for tools that live there.
fn surroundings() -> String {
    let keep = |name: &str| {
        std::env::var(name)
            .map(|value| format!("export {name}='{value}'; "))
            .unwrap_or_default()
    };
    ["PATH", "CARGO_HOME", "RUSTUP_HOME", "PYENV_ROOT"]
        .map(keep)
        .concat()
        + &format!(
            "export RUSTUP_HOME=${{RUSTUP_HOME:-'{0}/.rustup'}} CARGO_HOME=${{CARGO_HOME:-'{0}/.cargo'}}; ",
            std::env::var("HOME").unwrap_or_default()
        )
}

/// What `logs` shows, after the checks that hold for every program.
#[track_caller]
fn shown(sandbox: &Sandbox, name: &str) -> String {
    let shown = text_of(&sandbox.agent_sh(["logs", name]));
    let raw = sandbox.agent_sh(["logs", name, "--raw"]).stdout;
    assert!(
        !shown.contains(|c: char| c.is_control() && c != '\n' && c != '\t'),
        "{shown:?}"
    );
    // Drawn for a recorder: the same bytes.
    let kept: u64 = crate::support::ps_json(sandbox)[0]["bytes_total"]
        .as_u64()
        .unwrap();
    assert_eq!(raw.len() as u64, kept);
    shown
}

#[test]
fn cargo_build_with_its_bar() {
    let Some(sandbox) = sandbox() else { return };
    if !has_on_path("cargo") {
        return;
    }
    let dir = sandbox.work().join("crate");
    std::fs::create_dir_all(dir.join("src")).unwrap();
    std::fs::write(
        dir.join("Cargo.toml"),
        "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    )
    .unwrap();
    std::fs::write(dir.join("src/main.rs"), "fn main() { let unused = 1; }\n").unwrap();
    let text = format!(
        "{}cd crate && CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=100 CARGO_TERM_COLOR=always cargo build --offline",
        surroundings()
    );
    ended_job(&sandbox, "x", &text);
    let shown = shown(&sandbox, "x");
    let raw = sandbox.agent_sh(["logs", "x", "--raw"]).stdout;
    assert!(
        raw.windows(8).any(|part| part == b"Building"),
        "no bar was drawn"
    );
    assert!(shown.contains("   Compiling tiny v0.1.0 ("), "{shown}");
    assert!(
        shown.contains("warning: unused variable: `unused`"),
        "{shown}"
    );
    assert!(shown.contains("    Finished `dev` profile"), "{shown}");
    assert!(!shown.contains("Building ["), "{shown}");
}

#[test]
fn npm_install_with_its_spinner() {
    let Some(sandbox) = sandbox() else { return };
    if !has_on_path("npm") {
        return;
    }
    for (dir, text) in [
        ("dep", r#"{"name":"dep","version":"1.2.3"}"#),
        ("app", r#"{"name":"app","version":"1.0.0"}"#),
    ] {
        std::fs::create_dir_all(sandbox.work().join(dir)).unwrap();
        std::fs::write(sandbox.work().join(dir).join("package.json"), text).unwrap();
    }
    let text = format!(
        "{}cd app && npm install --offline --no-audit --no-fund --progress=true ../dep",
        surroundings()
    );
    ended_job(&sandbox, "x", &text);
    let shown = shown(&sandbox, "x");
    assert!(shown.contains("added 1 package in "), "{shown}");
    let spinner = |c: char| ('\u{2800}'..='\u{28ff}').contains(&c);
    assert!(!shown.contains(spinner), "{shown}");
}

#[test]
fn curl_with_its_meter() {
    let Some(sandbox) = sandbox() else { return };
    if !has("curl") {
        return;
    }
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        let (mut client, _) = server.accept().unwrap();
        let mut request = [0; 1024];
        let _read = client.read(&mut request).unwrap();
        client
            .write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 200000\r\n\r\n")
            .unwrap();
        client.write_all(&[b'x'; 200_000]).unwrap();
    });
    ended_job(
        &sandbox,
        "x",
        &format!("curl -o got http://127.0.0.1:{port}/"),
    );
    serving.join().unwrap();
    let shown = shown(&sandbox, "x");
    // Two lines of heading, and the meter as it stood last.
    let lines: Vec<&str> = shown
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    assert_eq!(lines.len(), 3, "{shown}");
    assert!(lines[0].contains("% Total"), "{shown}");
    assert!(lines[2].trim_start().starts_with("100"), "{shown}");
    assert_eq!(
        std::fs::metadata(sandbox.work().join("got")).unwrap().len(),
        200_000
    );
}

#[test]
fn vim_opened_and_quit() {
    let Some(sandbox) = sandbox() else { return };
    if !has("vim") {
        return;
    }
    std::fs::write(sandbox.work().join("file.txt"), "unseen\n".repeat(50)).unwrap();
    let text = "echo before; TERM=xterm-256color vim -u NONE -N -c 'redraw!' -c 'sleep 200m' -c 'qa!' file.txt; echo after $?";
    let started = sandbox.agent_sh(["run", "-i", "--name", "x", text]);
    assert!(started.succeeded(), "{started:?}");
    let seen = sandbox.agent_sh(["wait", "x", "--timeout", "60s"]);
    assert!(seen.succeeded(), "{seen:?}");
    let shown = shown(&sandbox, "x");
    let raw = sandbox.agent_sh(["logs", "x", "--raw"]).text();
    assert!(
        raw.contains("\u{1b}[?1049h") && raw.contains("unseen"),
        "vim drew nothing: {raw:?}"
    );
    let lines: Vec<&str> = shown.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, ["before", "after 0"], "{shown}");
}

/// What pytest and its like draw: dots and percentages. A script draws it, so that no version matters.
#[test]
fn a_test_run_with_dots() {
    let Some(sandbox) = sandbox() else { return };
    let text = "printf 'collecting ... \\rcollected 3 items\\n\\n'; for i in 1 2 3; do printf .; sleep 0.05; done; printf '%97s\\n' '[100%]'; printf '\\033[32m===== \\033[1m3 passed\\033[0m =====\\033[0m\\n'";
    ended_job(&sandbox, "x", text);
    let shown = shown(&sandbox, "x");
    let wanted = format!(
        "collected 3 items\n\n...{:>97}\n===== 3 passed =====\n",
        "[100%]"
    );
    assert_eq!(shown, wanted);
}

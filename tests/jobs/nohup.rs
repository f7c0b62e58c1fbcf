//! `nohup` anywhere in a job: its output is captured, and no nohup.out appears in anybody's directory. And a
//! job whose words were rewritten still has the user's own text.

use std::fs;

use hmac::{Hmac, Mac};

use super::Stage;
use crate::support::{
    Record, Sandbox, in_parallel, job_dirs, ps_json, stands_in, wait_for_records, wait_until,
};

/// Says something on each stream and exits with 37.
const SPEAKER: &str = "#!/bin/sh
echo to stdout
echo to stderr >&2
exit 37
";

/// Texts with one job, which is `nohup`. `{x}` is the speaker.
const FORMS: [&str; 29] = [
    // The launcher takes it out.
    "nohup {x} &",
    "nohup -- {x} &",
    "env A=1 nohup {x} &",
    "nice nohup -- {x} &",
    "env A=1 nice -n 1 nohup {x} &",
    // It runs, and finds a pipe.
    "cd . && nohup {x} &",
    "cd . && nohup -- {x} &",
    "cd . && nohup sh -c \"{x}\" &",
    "cd . && A=1 nohup sh -c '{x}' &",
    "cd /nonexistent 2>/dev/null || nohup {x} &",
    "{ nohup {x}; } &",
    "{ cd . && nohup {x}; } &",
    "(nohup {x}) &",
    "(cd . && nohup {x}) &",
    "( (nohup {x}) ) &",
    "if true; then nohup {x}; fi &",
    "for i in 1; do nohup {x}; done &",
    "true | nohup {x} &",
    "time nohup {x} &",
    "timeout 50 nohup {x} &",
    "command nohup {x} &",
    "eval 'nohup {x}' &",
    "eval 'cd . && nohup {x}' &",
    "sh -c 'nohup {x}; exit' &",
    "sh -c 'cd . && exec nohup {x}' &",
    "timeout 50 sh -c 'nohup {x}; exit' &",
    "nohup sh -c 'nohup {x}; exit' &",
    "env A=1 sh -c 'nohup {x} & wait $!' &",
    "{ nohup {x} & wait $!; } &",
];

/// The same with a text around the job: before it, the job, after it.
const AROUND: [(&str, &str, &str); 6] = [
    ("f() { nohup {x}; }; ", "f", " &"),
    ("f() { nohup {x}; }; g() { f; }; ", "true && g", " &"),
    ("eval '", "cd . && nohup {x}", " &'"),
    ("(", "cd . && nohup {x}", " &)"),
    ("", "cd . && nohup {x}", " & echo started"),
    ("sh -c '", "cd . && nohup {x}", " &'"),
];

fn transcript(sandbox: &Sandbox, record: &Record) -> String {
    let dir = job_dirs(sandbox)
        .into_iter()
        .find(|dir| dir.ends_with(&record.job));
    fs::read_to_string(dir.unwrap().join("out")).unwrap()
}

fn command(record: &Record) -> &str {
    record.data("command")["text"].as_str().unwrap()
}

#[test]
fn every_form_is_captured() {
    if !stands_in() {
        return;
    }
    let texts = FORMS.iter().map(|text| {
        let job = text.strip_suffix(" &").unwrap();
        ("", job, " &")
    });
    let texts: Vec<_> = texts.chain(AROUND).collect();
    let cases: Vec<_> = ["bash", "dash", "zsh"]
        .iter()
        .flat_map(|shell| texts.iter().map(move |text| (*shell, *text)))
        // dash has no keyword of that name, and there may be no such program.
        .filter(|(shell, (_, job, _))| *shell != "dash" || !job.starts_with("time "))
        .collect();
    in_parallel(&cases, |_, _, (shell, (before, job, after))| {
        let sandbox = Sandbox::new();
        let speaker = sandbox.script("speaker", SPEAKER);
        let text = format!("{before}{job}{after}").replace("{x}", &speaker);
        let ended = sandbox.call(shell).c(&text).run();
        assert!(ended.succeeded(), "{shell}: {text}: {ended:?}");
        let found = wait_for_records(&sandbox, 1);
        let event = &found[0].event;
        assert!(
            !sandbox.work().join("nohup.out").exists(),
            "{shell}: {text}: a nohup.out"
        );
        assert!(
            !sandbox.path("home/nohup.out").exists(),
            "{shell}: {text}: a nohup.out in the home directory"
        );
        let said = transcript(&sandbox, &found[0]);
        assert!(
            said.contains("to stdout\nto stderr\n") && !said.contains("nohup:"),
            "{shell}: {text}: {said:?}"
        );
        assert_eq!(found[0].how(), "nohup", "{shell}: {text}: {event:#}");
        assert_eq!(found[0].exit_code(), Some(37), "{shell}: {text}: {event:#}");
        // What simple commands show are the words that the shell made of them.
        let plain = |text: &str| text.replace(['\'', '"'], "");
        let job = job.replace("{x}", &speaker);
        assert_eq!(plain(command(&found[0])), plain(&job), "{shell}: {text}");
    });
}

/// What is redirected stays so, and what is not is captured.
#[test]
fn a_redirected_stream_stays_redirected() {
    if !stands_in() {
        return;
    }
    for shell in ["bash", "dash", "zsh"] {
        for (redirection, file, transcribed) in [
            ("> log", "to stdout\n", "to stderr\n"),
            ("2> log", "to stderr\n", "to stdout\n"),
            ("> log 2>&1", "to stdout\nto stderr\n", ""),
            ("2>&1 > /dev/null", "", "to stderr\n"),
        ] {
            let sandbox = Sandbox::new();
            let speaker = sandbox.script("speaker", SPEAKER);
            let text = format!("cd . && nohup {speaker} {redirection} &");
            assert!(sandbox.call(shell).c(&text).run().succeeded());
            let found = wait_for_records(&sandbox, 1);
            let log = fs::read_to_string(sandbox.work().join("log")).unwrap_or_default();
            assert_eq!(log, file, "{shell}: {text}");
            let said = transcript(&sandbox, &found[0]);
            assert_eq!(said, transcribed, "{shell}: {text}");
            assert_eq!(found[0].how(), "nohup", "{shell}: {text}");
            assert!(!sandbox.work().join("nohup.out").exists(), "{text}");
        }
    }
}

/// The terminal is only taken from those who would turn away from it.
#[test]
fn others_keep_their_terminal() {
    if !stands_in() {
        return;
    }
    for (text, how, tty) in [
        ("{x} &", "ampersand", true),
        ("nohup {x} &", "nohup", true),
        ("nohup -- {x} &", "nohup", true),
        ("true && {x} &", "ampersand", true),
        ("nohup true; {x} &", "ampersand", true),
        ("cd . && nohup {x} &", "nohup", false),
        ("timeout 50 nohup {x} &", "nohup", false),
    ] {
        let sandbox = Sandbox::new();
        let speaker = sandbox.script("speaker", SPEAKER);
        let ended = sandbox.call("bash").c(text.replace("{x}", &speaker)).run();
        assert!(ended.succeeded(), "{text}: {ended:?}");
        let found = wait_for_records(&sandbox, 1);
        let event = &found[0].event;
        assert_eq!(found[0].how(), how, "{text}: {event:#}");
        assert_eq!(found[0].data("tty"), tty, "{text}: {event:#}");
    }
}

/// The only job of a text is published before it registers, if its shell is gone by then: all the same.
#[test]
fn a_job_that_is_late_is_captured_too() {
    if !stands_in() {
        return;
    }
    let stage = Stage::new();
    let text = format!("cd . && nohup {} &", stage.worker);
    stage.gate.release(1);
    // The launcher looks for its supervisor before it asks.
    let call = stage.slowed("pidfd_open:delay_enter=300000", &text);
    assert!(call.run().succeeded());
    let found = wait_for_records(&stage.sandbox, 1);
    let event = &found[0].event;
    assert_eq!(found[0].how(), "nohup", "{event:#}");
    assert_eq!(found[0].data("tty"), false, "{event:#}");
    let said = transcript(&stage.sandbox, &found[0]);
    assert!(said.contains("speaks") && said.contains("ends"), "{said}");
    assert!(!stage.sandbox.work().join("nohup.out").exists());
}

/// Texts that start two jobs: `{w}`, and one with a text among its words that we rewrite, which is shown
/// like this.
const NESTED: [(&str, &str); 11] = [
    ("sh -c '({w} &) ; {w}' &", "sh -c '({w} &) ; {w}'"),
    ("sh -c '{w} & {w}' > log &", "sh -c '{w} & {w}'"),
    ("bash -c \"{w} & {w}\" 2>&1 &", "bash -c '{w} & {w}'"),
    (
        "timeout 50 sh -c '{w} & {w}' &",
        "timeout 50 sh -c '{w} & {w}'",
    ),
    (
        "nohup sh -c '{w} & {w}' > /dev/null &",
        "nohup sh -c '{w} & {w}'",
    ),
    (
        "A='x y' sh -c '{w} & {w}' name $HOME &",
        "sh -c '{w} & {w}' name {home}",
    ),
    (
        "env A=1 sh -c 'sh -c \"{w} &\"; {w}' &",
        "env A=1 sh -c 'sh -c \"{w} &\"; {w}'",
    ),
    ("sh -c '{w} & \n{w}' &", "sh -c '{w} & \n{w}'"),
    (
        "dash -c 'eval \"{w} &\"; exec {w}' &",
        "dash -c 'eval \"{w} &\"; exec {w}'",
    ),
    ("cd . && sh -c '{w} & {w}' &", "cd . && sh -c '{w} & {w}'"),
    // Nobody asked for that one to be a job; it is found.
    (
        "setsid -f sh -c '{w} & {w}; exit'",
        "sh -c '{w} & {w}; exit'",
    ),
];

#[test]
fn the_text_is_the_users_own() {
    if !stands_in() {
        return;
    }
    let cases: Vec<_> = ["bash", "dash", "zsh"]
        .iter()
        .flat_map(|shell| NESTED.iter().map(move |text| (*shell, *text)))
        .collect();
    in_parallel(&cases, |_, _, (shell, (text, job))| {
        let stage = Stage::new();
        let home = stage.sandbox.path("home");
        let text = text.replace("{w}", &stage.worker);
        let job = job
            .replace("{w}", &stage.worker)
            .replace("{home}", home.to_str().unwrap());
        let ended = stage
            .sandbox
            .call(shell)
            .c(text)
            .env("AGENT_SH_ANNOUNCE", "1")
            .run();
        assert!(ended.succeeded(), "{shell}: {job}: {ended:?}");
        let errors = ended.errors();
        assert!(!errors.contains("agent_sh"), "{shell}: {job}: {errors}");
        let begins: String = job.chars().take(8).collect();
        assert!(errors.contains(&begins), "{shell}: {job}: {errors}");
        stage.workers(2);
        wait_until("both are known", || ps_json(&stage.sandbox).len() == 2);
        let shown = stage.sandbox.agent_sh(["ps"]).text();
        assert!(!shown.contains("agent_sh"), "{shell}: {job}: {shown}");
        stage.gate.release(2);
        let found = wait_for_records(&stage.sandbox, 2);
        let texts: Vec<&str> = found.iter().map(command).collect();
        assert!(texts.contains(&job.as_str()), "{shell}: {job}: {texts:#?}");
        let record = found.iter().find(|record| command(record) == job).unwrap();
        let hash = keyed_hash(&stage.sandbox, &job);
        assert_eq!(record.data("command")["sha256"], hash, "{shell}: {job}");
        let inner = texts.iter().find(|text| **text != job);
        assert_eq!(inner, Some(&stage.worker.as_str()), "{shell}: {job}");
    });
}

/// The hash of a command in this store: of all of it, with the store's key.
fn keyed_hash(sandbox: &Sandbox, text: &str) -> String {
    let own = std::fs::read(sandbox.state().join("v1/store")).unwrap();
    let own: serde_json::Value = serde_json::from_slice(&own).unwrap();
    let key = own["key"].as_str().unwrap();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    let hash = mac.finalize().into_bytes();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

use super::*;

fn role(line: &[&str]) -> Role {
    role_of(line[0].trim_start_matches('-'), line)
}

fn role_of(executed: &str, line: &[&str]) -> Role {
    let args: Vec<OsString> = line.iter().map(OsString::from).collect();
    read(
        &args,
        (!executed.is_empty()).then_some(OsStr::new(executed)),
        || false,
        |path| path == "script.sh" || path == "/x/s",
    )
}

fn form(line: &[&str]) -> Form {
    match role(line) {
        Role::Shell(call) => call.form,
        other => panic!("{line:?} is {other:?}"),
    }
}

#[test]
fn finds_the_text_among_the_options() {
    let at = |index| Form::Command { index };
    let cases: &[(&[&str], Form)] = &[
        (&["bash", "-c", "x"], at(1)),
        (&["bash", "-c", "x", "name", "arg"], at(1)),
        (&["bash", "-lc", "x"], at(1)),
        (&["bash", "-l", "-c", "x"], at(2)),
        (&["bash", "-c", "-l", "x"], at(2)),
        (&["bash", "-ic", "x"], at(1)),
        (&["bash", "-lic", "x"], at(1)),
        (&["bash", "-ec", "x"], at(1)),
        (&["bash", "-euo", "pipefail", "-c", "x"], at(3)),
        (&["bash", "-euoc", "pipefail", "x"], at(2)),
        (
            &["bash", "-o", "pipefail", "-o", "errexit", "-c", "x"],
            at(5),
        ),
        (&["bash", "+x", "-c", "x"], at(2)),
        (&["bash", "+o", "posix", "-c", "x"], at(3)),
        (&["bash", "-O", "extglob", "-c", "x"], at(3)),
        (&["bash", "--login", "--norc", "--posix", "-c", "x"], at(4)),
        (&["bash", "--rcfile", "f", "-c", "x"], at(3)),
        (&["bash", "-c", "--", "-x"], at(2)),
        (&["-bash", "-c", "x"], at(1)),
        (&["/usr/bin/zsh", "-fc", "x"], at(1)),
        (&["zsh", "--emulate", "sh", "-c", "x"], at(3)),
        (&["bash", "-c"], Form::Untouched),
        (&["bash", "-n", "-c", "x"], Form::Untouched),
        (&["bash", "--version"], Form::Untouched),
        (&["bash", "-i"], Form::Stdin),
        (&["zsh", "-fi", "-s", "a"], Form::Stdin),
        (&["bash", "-i", "script.sh"], Form::Script),
        (&["bash"], Form::Stdin),
        (&["bash", "-s", "a", "b"], Form::Stdin),
        (&["bash", "script.sh", "-c", "x"], Form::Script),
        (&["bash", "-x", "anything", "a"], Form::Script),
        (&["agent-sh", "-lc", "x"], at(1)),
        (&["agent-sh", "script.sh", "a"], Form::Script),
        (&["agent-sh", "./nope.sh", "a"], Form::Script),
        (&["agent-sh", "./nope.sh"], at(1)),
        (&["agent-sh", "make -j2 && echo ok"], at(1)),
        (&["agent-sh", "ls"], at(1)),
        (&["/opt/agent-sh-bash", "-c", "x"], at(1)),
        (&["agent-sh"], Form::Stdin),
    ];
    for (line, expected) in cases {
        assert_eq!(form(line), *expected, "{line:?}");
    }
}

#[test]
fn a_person_at_a_terminal_is_left_alone() {
    let at_terminal = |line: &[&str]| {
        let args: Vec<OsString> = line.iter().map(OsString::from).collect();
        match read(&args, None, || true, |_| false) {
            Role::Shell(call) => call.form,
            other => panic!("{line:?} is {other:?}"),
        }
    };
    for line in [
        &["bash"][..],
        &["-zsh"],
        &["bash", "-i"],
        &["sh", "-s", "a"],
    ] {
        assert_eq!(at_terminal(line), Form::Untouched, "{line:?}");
    }
    assert_eq!(
        at_terminal(&["bash", "-ic", "x"]),
        Form::Command { index: 1 }
    );
    assert_eq!(at_terminal(&["bash", "script"]), Form::Script);
}

/// What the file and argv[0] make of a call: the shell, whether it is disguised, and its argv[0].
fn stands(executed: &str, line: &[&str]) -> (String, bool, String) {
    let call = match role_of(executed, line) {
        Role::Shell(call) => call,
        Role::Interpose(what, _) => return (what.name().to_owned(), false, String::new()),
        Role::Verb => return ("verb".to_owned(), false, String::new()),
        other => panic!("{executed} as {line:?} is {other:?}"),
    };
    let argv0 = match call.argv0 {
        Argv0::Given(name) => name.to_string_lossy().into_owned(),
        Argv0::Own { login: true } => "-own".to_owned(),
        Argv0::Own { login: false } => "own".to_owned(),
    };
    (call.stands_for.unwrap_or_default(), call.disguised, argv0)
}

#[test]
fn tells_whom_it_stands_for() {
    type Case<'a> = (&'a str, &'a [&'a str], (&'a str, bool, &'a str));
    let cases: &[Case<'_>] = &[
        // Called by the name of the file, as most do.
        ("bash", &["bash", "-c", "x"], ("bash", false, "bash")),
        ("/x/bash", &["bash", "-c", "x"], ("bash", false, "bash")),
        ("/x/sh", &["/x/sh", "-c", "x"], ("sh", false, "/x/sh")),
        ("./zsh", &["zsh", "-c", "x"], ("zsh", false, "zsh")),
        ("/x/bash", &["-bash", "-c", "x"], ("bash", false, "-bash")),
        (
            "/x/agent-sh-bash",
            &["/x/agent-sh-bash", "-c", "x"],
            ("bash", true, "/x/agent-sh-bash"),
        ),
        ("/x/agent-sh", &["agent-sh", "-c", "x"], ("", false, "own")),
        (
            "/x/agent-sh",
            &["-agent-sh", "-c", "x"],
            ("", false, "-own"),
        ),
        ("/x/renamed", &["renamed", "-c", "x"], ("", false, "own")),
        ("/x/nohup", &["nohup", "x"], ("nohup", false, "")),
        // argv[0] is another name: the file decides.
        ("/x/bash", &["my", "ps", "x"], ("bash", false, "my")),
        ("/x/bash", &["ohio", "-c", "x"], ("bash", false, "ohio")),
        ("/x/sh", &["myname", "-c", "x"], ("sh", false, "myname")),
        ("/x/bash", &["sh", "-c", "x"], ("bash", false, "sh")),
        ("/x/bash", &["-su", "-c", "x"], ("bash", false, "-su")),
        ("/x/bash", &["", "-c", "x"], ("bash", false, "")),
        ("/x/bash", &["nohup", "-c", "x"], ("bash", false, "nohup")),
        ("/x/bash", &["/y/agent-sh", "ps"], ("bash", false, "own")),
        (
            "/x/agent-sh-zsh",
            &["bash", "-c", "x"],
            ("zsh", true, "bash"),
        ),
        ("/x/setsid", &["bash", "-c", "x"], ("setsid", false, "")),
        // The file says nothing: argv[0] decides.
        ("/x/agent-sh", &["zsh", "-c", "x"], ("zsh", false, "zsh")),
        (
            "/x/agent-sh",
            &["-dash", "-c", "x"],
            ("dash", false, "-dash"),
        ),
        ("/x/agent-sh", &["nohup", "x"], ("nohup", false, "")),
        ("/x/agent-sh", &["ohio", "-c", "x"], ("", false, "ohio")),
        ("/x/agent-sh", &["ohio", "ps"], ("verb", false, "")),
        ("/dev/fd/5", &["bash", "-c", "x"], ("bash", false, "bash")),
        ("/dev/fd/5/sh", &["x", "-c", "x"], ("sh", false, "x")),
        (
            "/lib/ld.so.2",
            &["/x/sh", "-c", "x"],
            ("sh", false, "/x/sh"),
        ),
        ("", &["sh", "-c", "x"], ("sh", false, "sh")),
        ("", &["renamed", "-c", "x"], ("", false, "own")),
        // Scripts, whatever their names: by hand, with a word in the first line, as the interpreter
        // of another script.
        (
            "/x/s",
            &["/b/bash", "/x/s", "a"],
            ("bash", false, "/b/bash"),
        ),
        ("/x/bash", &["/b/sh", "/x/bash"], ("sh", false, "/b/sh")),
        (
            "./nohup",
            &["/b/sh", "-e", "./nohup"],
            ("sh", false, "/b/sh"),
        ),
        (
            "./zsh",
            &["/b/sh", "-e", "/x/s", "-u", "./zsh"],
            ("sh", false, "/b/sh"),
        ),
        (
            "/x/bash",
            &["/b/agent-sh", "/x/s", "/x/bash"],
            ("", false, "own"),
        ),
    ];
    for (executed, line, (name, disguised, argv0)) in cases {
        let expected = ((*name).to_owned(), *disguised, (*argv0).to_owned());
        assert_eq!(stands(executed, line), expected, "{executed} as {line:?}");
    }
}

#[test]
fn verbs_and_the_rest() {
    assert_eq!(role(&["agent-sh", "ps"]), Role::Verb);
    assert_eq!(role(&["agent-sh", "--help"]), Role::Verb);
    assert_eq!(
        role(&["agent-sh", "wiat", "7f3k"]),
        Role::Unknown("wiat".into())
    );
    assert_eq!(
        role(&["bash", LAUNCH, "ampersand", "sleep"]),
        Role::Launch(vec!["ampersand".into(), "sleep".into()])
    );
    assert!(matches!(role(&["bash", "--help"]), Role::Shell(_)));
    assert_eq!(
        role(&["/s/nohup", "a", "b"]),
        Role::Interpose(Interposed::Nohup, vec!["a".into(), "b".into()])
    );
}

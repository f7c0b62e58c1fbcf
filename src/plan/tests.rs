//! Table tests of the plan.

use super::plan;
use crate::syntax::Dialect::{self, Bash, Posix, Zsh};

/// Each spot as `text:how`, with a `*` where it is attended.
fn spots(text: &str, dialect: Dialect) -> Vec<String> {
    let plan = plan(text.as_bytes(), dialect);
    assert!(plan.ok, "{text}: {:?}", plan.why);
    plan.spots
        .iter()
        .map(|spot| {
            let star = if spot.attended { "*" } else { "" };
            format!("{}:{}{star}", &text[spot.start..spot.end], spot.how)
        })
        .collect()
}

#[test]
fn what_the_shell_would_show_stays_as_it_was_written() {
    let kept = |text: &str, dialect| -> Vec<String> {
        let plan = plan(text.as_bytes(), dialect);
        assert!(plan.ok, "{text}: {:?}", plan.why);
        let spots = plan.spots.iter().filter(|spot| spot.untouchable);
        spots
            .map(|spot| text[spot.start..spot.end].to_owned())
            .collect()
    };
    let table: &[(Dialect, &str, &[&str])] = &[
        (Bash, "make & sleep 1 & kill %make", &["make"]),
        (Posix, "make & sleep 1 & kill %ma", &["make"]),
        (Zsh, "make & sleep 1 & fg '%make'", &["make"]),
        (Bash, "make & (make) & kill '%('", &["(make)"]),
        (Bash, "bash -c 'make & kill %make'", &["make"]),
        (Bash, "make & disown make", &["make"]),
        (Bash, "make & kill make", &[]),
        (Bash, "make & (make) & jobs", &[]),
        (Zsh, "make & jobs -l", &[]),
        (Bash, "make & jobs -p", &[]),
        (Bash, "1x & kill %1", &[]),
        (Bash, "make & kill %+; kill %-; kill %%; kill %", &[]),
        (Bash, "make & kill %?ake", &[]),
        (Bash, "make & printf %s x", &[]),
        (Bash, "f() { make & }; a & type f", &["make"]),
        (Bash, "f() { make & }; type $x", &["make"]),
        (Bash, "f() { make & }; type make", &[]),
        (Zsh, "f() { make & }; which f", &["make"]),
        (Bash, "f() { make & }; set", &["make"]),
        (Bash, "f() { make & }; set -e", &[]),
    ];
    for (dialect, text, expected) in table {
        assert_eq!(kept(text, *dialect), *expected, "{text}");
    }
}

#[test]
fn spots_and_how() {
    let table: &[(Dialect, &str, &[&str])] = &[
        (Bash, "a", &[]),
        (Bash, "a &", &["a:ampersand"]),
        (Bash, "nohup a &", &["nohup a:nohup"]),
        (Bash, "/usr/bin/nohup a &", &["/usr/bin/nohup a:nohup"]),
        (
            Bash,
            "env A=1 B=$x nohup a &",
            &["env A=1 B=$x nohup a:nohup"],
        ),
        (Bash, "nice -n 5 nohup a &", &["nice -n 5 nohup a:nohup"]),
        (Bash, "stdbuf -oL nohup a &", &["stdbuf -oL nohup a:nohup"]),
        (Bash, "sudo -u x nohup a &", &["sudo -u x nohup a:nohup"]),
        (Bash, "timeout 5 nohup a &", &["timeout 5 nohup a:nohup"]),
        (Bash, "echo nohup &", &["echo nohup:ampersand"]),
        (Bash, "setsid a &", &["setsid a:setsid"]),
        (Bash, "setsid -f a &", &["setsid -f a:setsid"]),
        (Bash, "nohup setsid a &", &["nohup setsid a:nohup"]),
        (Bash, "setsid nohup a &", &["setsid nohup a:nohup"]),
        (Bash, "setsid a", &[]),
        (Bash, "nohup a", &[]),
        (Bash, "cd x && nohup a &", &["cd x && nohup a:nohup"]),
        (Bash, "{ nohup a; } &", &["{ nohup a; }:nohup"]),
        (
            Bash,
            "{ nohup a & b; } &",
            &["{ nohup a & b; }:ampersand", "nohup a:nohup"],
        ),
        (Bash, "x $(nohup a) &", &["x $(nohup a):ampersand"]),
        (Bash, "a & disown", &["a:disown"]),
        (Bash, "a & disown $!", &["a:disown"]),
        (Bash, "a & p=$!; disown $p", &["a:disown"]),
        (Bash, "nohup a & disown", &["nohup a:nohup"]),
        (Bash, "setsid a & disown", &["setsid a:setsid"]),
        (Bash, "a & b & disown", &["a:ampersand", "b:disown"]),
        (Bash, "a & b & disown %1", &["a:disown", "b:ampersand"]),
        (Bash, "a & b & disown -a", &["a:disown", "b:disown"]),
        (Bash, "a & b & disown -h %2", &["a:ampersand", "b:disown"]),
        (Bash, "(a & disown)", &["a:disown"]),
        (Bash, "a & (disown)", &["a:ampersand"]),
        (Bash, "disown; a &", &["a:ampersand"]),
        (Zsh, "a &!", &["a:disown"]),
        (Zsh, "a &| b &", &["a:disown", "b:ampersand"]),
        (Posix, "a &>f", &["a:ampersand"]),
        (Bash, "a &>f", &[]),
        (Bash, "(a &)", &["a:ampersand"]),
    ];
    for (dialect, text, wanted) in table {
        assert_eq!(spots(text, *dialect), *wanted, "{text}");
    }
}

/// Where a `nohup` runs that the launcher does not take out, the job gets no terminal.
#[test]
fn a_nohup_that_runs_wants_a_pipe() {
    let table: &[(&str, &[&str])] = &[
        // The launcher takes it out.
        ("nohup a &", &["nohup"]),
        ("nohup -- a &", &["nohup"]),
        ("env A=$x nice -n 5 nohup a $y &", &["nohup"]),
        ("A=1 nohup a > f &", &["nohup"]),
        ("nohup bash -c 'a & b' &", &["nohup", "ampersand"]),
        ("{ nohup a & b; } &", &["ampersand", "nohup"]),
        ("sh -c 'nohup a &' &", &["ampersand", "nohup"]),
        // It cannot.
        ("cd x && nohup a &", &["nohup+pipe"]),
        ("cd x && nohup a > f 2>&1 &", &["nohup+pipe"]),
        ("{ nohup a; } &", &["nohup+pipe"]),
        ("(nohup a) &", &["nohup+pipe"]),
        ("( (nohup a); b) &", &["nohup+pipe"]),
        ("b | nohup a &", &["nohup+pipe"]),
        ("nohup a | b &", &["nohup+pipe"]),
        ("if b; then nohup a; fi &", &["nohup+pipe"]),
        ("time nohup a &", &["nohup+pipe"]),
        ("command nohup a &", &["nohup+pipe"]),
        ("timeout 5 nohup a &", &["nohup+pipe"]),
        ("nohup timeout -k 1 5 nohup a &", &["nohup+pipe"]),
        ("env A=1 timeout 5 nohup a &", &["nohup+pipe"]),
        ("sudo nohup a &", &["nohup+pipe"]),
        ("a=(1) nohup a &", &["nohup+pipe"]),
        ("eval 'nohup a' &", &["nohup+pipe"]),
        ("sh -c 'nohup a; :' &", &["nohup+pipe"]),
        ("timeout 5 bash -c 'cd x && nohup a' &", &["nohup+pipe"]),
        ("nohup sh -c 'nohup a' &", &["nohup+pipe"]),
        ("f() { nohup a; }; f &", &["nohup+pipe"]),
        ("f() { nohup a; }; g() { f; }; b && g &", &["nohup+pipe"]),
        (
            "f() { b; }; f() { nohup a; }; f() { b; }; f &",
            &["nohup+pipe"],
        ),
        ("f() { f; nohup a; }; f &", &["nohup+pipe"]),
        // Nobody but the job around runs what is waited for.
        ("{ nohup a & wait; } &", &["nohup+pipe", "nohup*"]),
        ("nohup sh -c 'nohup a & wait' &", &["nohup+pipe", "nohup*"]),
        // Its stderr is still the job's.
        ("x=$(nohup a) &", &["ampersand+pipe"]),
        // These cannot be read.
        ("sh -c \"cd $x && nohup a\" &", &["ampersand+pipe"]),
        ("eval \"nohup $x\" &", &["ampersand+pipe"]),
        ("bash -c 'nohup a; if' &", &["ampersand+pipe"]),
        ("sh -c \"$x nohupper no-nohup\" &", &["ampersand"]),
        // These do not run here.
        ("nohup a; b &", &["ampersand"]),
        ("f() { nohup a; }; b &", &["ampersand"]),
        ("echo nohup a &", &["ampersand"]),
        ("nohup --help &", &["ampersand"]),
        ("cd x && command -v nohup &", &["ampersand"]),
        ("ssh h 'nohup a' &", &["ampersand"]),
        // And the session is as good as started.
        ("cd x && setsid a &", &["setsid"]),
        ("f() { setsid a; }; f &", &["setsid"]),
    ];
    for (text, wanted) in table {
        let plan = plan(text.as_bytes(), Bash);
        let found = plan.spots.iter().map(|spot| {
            let pipe = if spot.pipe && !spot.attended {
                "+pipe"
            } else {
                ""
            };
            let star = if spot.attended { "*" } else { "" };
            format!("{}{pipe}{star}", spot.how)
        });
        assert_eq!(found.collect::<Vec<_>>(), *wanted, "{text}");
    }
}

#[test]
fn attendance() {
    let table: &[(&str, &[&str])] = &[
        ("a & wait", &["a:ampersand*"]),
        ("a & b & wait", &["a:ampersand*", "b:ampersand*"]),
        ("a & wait -n", &["a:ampersand*"]),
        ("a & p=$!; b; wait $p", &["a:ampersand*"]),
        ("a & wait; b &", &["a:ampersand*", "b:ampersand"]),
        ("wait; a &", &["a:ampersand"]),
        ("a & fg", &["a:ampersand*"]),
        ("a & b && wait", &["a:ampersand*"]),
        ("a & for i in 1; do wait; done", &["a:ampersand*"]),
        ("for i in 1; do a & done; wait", &["a:ampersand*"]),
        ("a & (wait)", &["a:ampersand"]),
        ("(a &); wait", &["a:ampersand"]),
        ("(a & wait)", &["a:ampersand*"]),
        ("a & x=$(wait)", &["a:ampersand"]),
        ("a & b | wait", &["a:ampersand"]),
        ("a & command wait", &["a:ampersand*"]),
        ("a & builtin wait", &["a:ampersand*"]),
        ("a & echo wait", &["a:ampersand"]),
        ("a & wait &", &["a:ampersand", "wait:ampersand"]),
        (
            "{ a & wait; } &",
            &["{ a & wait; }:ampersand", "a:ampersand*"],
        ),
        ("nohup a & wait", &["nohup a:nohup*"]),
        ("a & disown; b & wait", &["a:disown", "b:ampersand*"]),
        ("a & disown -h; wait", &["a:disown*"]),
        ("f() { a & wait; }; f", &["a:ampersand*"]),
        ("f() { a & }; f; wait", &["a:ampersand*"]),
        ("f() { a & }; f", &["a:ampersand"]),
        ("done_() { wait; }; a & done_", &["a:ampersand*"]),
        ("done_() { wait; }; a &", &["a:ampersand"]),
        ("x=$(a & b)", &["a:ampersand*"]),
        ("x=`a & b`", &["a:ampersand*"]),
        ("cat <(a & b)", &["a:ampersand*"]),
        ("{ a & } | b", &["a:ampersand*"]),
        ("b | { a & }", &["a:ampersand"]),
        ("(a &) | b", &["a:ampersand*"]),
        ("coproc { a & }", &["a:ampersand*"]),
        ("cat <<E\n$(a &)\nE\n", &["a:ampersand*"]),
    ];
    for (text, wanted) in table {
        assert_eq!(spots(text, Bash), *wanted, "{text}");
    }
}

#[test]
fn strings_are_looked_through() {
    let table: &[(&str, &[&str])] = &[
        ("eval 'a &'", &["a:ampersand"]),
        ("eval \"a &\" b", &["a:ampersand"]),
        ("eval \"a $x &\"", &[]),
        ("eval 'a &'; wait", &["a:ampersand*"]),
        ("eval 'a & wait'", &["a:ampersand*"]),
        ("a & eval wait", &["a:ampersand*"]),
        (
            "eval 'echo '\"'\"'x y'\"'\"' &' < /dev/null && pwd",
            &["echo '\"'\"'x y'\"'\"':ampersand"],
        ),
        ("bash -c 'a &'", &["a:ampersand"]),
        ("bash -lc 'a &'", &["a:ampersand"]),
        ("bash -c -l 'a &'", &["a:ampersand"]),
        ("/bin/sh -ec \"a &\"", &["a:ampersand"]),
        ("bash --norc -o pipefail -c 'a &'", &["a:ampersand"]),
        ("bash -c 'a & wait'", &["a:ampersand*"]),
        ("bash -c 'a &'; wait", &["a:ampersand"]),
        ("timeout -s KILL 5 bash -c 'a &'", &["a:ampersand"]),
        ("env A=1 sh -c 'a &'", &["a:ampersand"]),
        ("exec bash -c 'a &'", &["a:ampersand"]),
        ("command bash -c 'a &'", &["a:ampersand"]),
        (
            "nohup bash -c 'a & b' &",
            &["nohup bash -c 'a & b':nohup", "a:ampersand"],
        ),
        ("bash -c 'a &' | b", &["a:ampersand*"]),
        ("x=$(bash -c 'a &')", &["a:ampersand*"]),
        ("sudo bash -c 'a &'", &[]),
        ("ssh host 'a &'", &[]),
        ("xargs sh -c 'a &'", &[]),
        ("docker run x sh -c 'a &'", &[]),
        ("find . -exec sh -c 'a &' ;", &[]),
        ("bash script 'a &'", &[]),
        ("bash -n -c 'a &'", &[]),
        ("bash -c \"$x &\"", &[]),
        ("sh -c 'a &>f'", &[]),
        ("bash -c 'zsh -c \"a &!\"'", &["a:disown"]),
        ("bash -c 'if &'", &[]),
        (
            "(\n  trap 'jobs -p > \"$f\"' EXIT\na &\n)\ncode=$?\nexit $code",
            &["a:ampersand"],
        ),
    ];
    for (text, wanted) in table {
        assert_eq!(spots(text, Bash), *wanted, "{text}");
    }
    let looked = plan(b"eval 'a &' & bash -c 'b &'", Bash);
    assert_eq!(looked.amps, [11], "strings are no part of the operators");
}

#[test]
fn json_has_the_shape_of_the_contract() {
    let value = plan(b"a & b & wait $!", Bash).to_json();
    assert_eq!(
        value.to_string(),
        r#"{"ok":true,"amps":[2,6],"jobs":[{"start":0,"end":1,"how":"ampersand","attended":true},{"start":4,"end":5,"how":"ampersand","attended":true}],"why":null}"#
    );
    let value = plan(b"a & (", Bash).to_json();
    assert_eq!(value["ok"], false);
    assert_eq!(value["jobs"].as_array().map(Vec::len), Some(0));
    assert!(value["why"].is_string());
}

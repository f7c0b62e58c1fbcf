//! What is inserted where.

use super::rewrite;
use crate::plan::plan;
use crate::syntax::Dialect::{self, Bash, Posix, Zsh};
use crate::syntax::literal::{Quote, encode};

/// The rewritten text with every prelude shown as `P;`, and as `M;` where it only tells places.
fn rewritten(text: &str, dialect: Dialect) -> Option<String> {
    let plan = plan(text.as_bytes(), dialect);
    let out = rewrite(text.as_bytes(), &plan, dialect, b"/l")?;
    let out = String::from_utf8(out).expect("text");
    assert_eq!(out.lines().count(), text.lines().count(), "{out}");
    assert_eq!(
        super::original(out.as_bytes()).unwrap_or_else(|| text.into()),
        text.as_bytes(),
        "{out}"
    );
    // Where the insertions are is another matter.
    let mut parts = out.split(" in @");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (places, rest) = part.split_once(')').expect("places");
        let known = |c: char| c.is_ascii_digit() || ",.".contains(c);
        assert!(places.chars().all(known), "{places}");
        shown.extend([" in @)", rest]);
    }
    let readers = [(Bash, "bash"), (Posix, "dash"), (Posix, "sh"), (Zsh, "zsh")];
    let calling = readers.map(|reader| ("P;", reader, Some(&b"/l"[..])));
    for (name, reader, launcher) in calling.into_iter().chain([("M;", readers[0], None)]) {
        let reader = super::Reader {
            dialect: reader.0,
            name: reader.1,
            restored: None,
        };
        let prelude = super::prelude::prelude(&reader, launcher, &[]);
        let prelude = String::from_utf8(prelude).expect("text");
        let (before, after) = prelude.split_once(" in @").expect("places");
        let (_, after) = after.split_once(')').expect("places");
        let prelude = [before, " in @)", after].concat();
        for quotes in [
            &[Quote::Double, Quote::Single][..],
            &[Quote::Single],
            &[Quote::Double],
        ] {
            let encoded = quotes
                .iter()
                .fold(prelude.clone().into_bytes(), |text, quote| {
                    encode(&text, *quote)
                });
            shown = shown.replace(std::str::from_utf8(&encoded).expect("text"), name);
        }
        shown = shown.replace(&prelude, name);
    }
    Some(shown)
}

#[test]
fn insertions() {
    let table: &[(Dialect, &str, &str)] = &[
        (Bash, "a &", "P;agent_sh a &"),
        (
            Bash,
            "A=1 a x >f <<E & b\nq\nE\n",
            "P;A=1 agent_sh a x >f <<E & b\nq\nE\n",
        ),
        (Bash, ">f a&b", "P;>f agent_sh a&b"),
        (Bash, "$A x &", "P;agent_sh -- $A x &"),
        (Bash, "'a' &", "P;agent_sh -- 'a' &"),
        (Bash, "\\a &", "P;agent_sh -- \\a &"),
        (Bash, "echo $? &", "P;agent_sh -- echo $? &"),
        (Bash, "a & disown", "P;agent_sh -w disown a & disown"),
        (Bash, "$a & disown", "P;agent_sh -w disown -- $a & disown"),
        (
            Zsh,
            "a | b &!",
            "P;{ agent_sh -a disown 'a | b'; a | b; } &!",
        ),
        (Bash, "a | b &", "P;{ agent_sh -c 'a | b'; a | b; } &"),
        (Bash, "(a)&", "P;( agent_sh -c '(a)'; a)&"),
        (
            Bash,
            "(a; b) >f 2>&1 &",
            "P;( agent_sh -c '(a; b) >f 2>&1'; a; b) >f 2>&1 &",
        ),
        (
            Bash,
            "(a && b)&",
            "P;( { agent_sh -c '(a && b)' || :; } && a && b)&",
        ),
        (
            Bash,
            "(a) && (b) &",
            "P;{ agent_sh -c '(a) && (b)'; (a) && (b); } &",
        ),
        (
            Bash,
            "{ a; } >f &",
            "P;{ agent_sh -c '{ a; } >f';  a; } >f &",
        ),
        (
            Bash,
            "a && 'b' &",
            "P;{ agent_sh -c 'a && '\\''b'\\'''; a && 'b'; } &",
        ),
        (Bash, "! a &", "P;! { agent_sh -c 'a'; a; } &"),
        (Bash, "!<a &", "P;! { agent_sh -c '<a'; <a; } &"),
        (
            Zsh,
            "for x in y; do() a & done",
            "P;for x in y; do { agent_sh -c '() a'; () a; } & done",
        ),
        (Bash, "time a &", "P;{ agent_sh -c 'time a'; time a; } &"),
        (Bash, "x=1 &", "P;{ agent_sh -c 'x=1'; x=1; } &"),
        (
            Bash,
            "a[ b && c ] &",
            "P;{ agent_sh -c 'a[ b && c ]'; a[ b && c ]; } &",
        ),
        (
            Bash,
            ". f &",
            "P;{ BASH_EXECUTION_STRING=$'. f &'; } 2>/dev/null; { agent_sh -c '. f'; . f; } &",
        ),
        (Zsh, ". f &", "P;{ agent_sh -c '. f'; . f; } &"),
        (
            Bash,
            "bash -c 'x\n\\ $BASH_EXECUTION_STRING &'",
            "M;{ BASH_EXECUTION_STRING=$'bash -c \\'x\\n\\\\ $BASH_EXECUTION_STRING &\\''; } 2>/dev/null; \
             bash -c 'P;{ BASH_EXECUTION_STRING=$'\\''x\\n\\\\ $BASH_EXECUTION_STRING &'\\''; } 2>/dev/null; \
             x\nagent_sh -- \\ $BASH_EXECUTION_STRING &'",
        ),
        // The text says where stdin comes from.
        (Bash, "a <f &", "P;agent_sh -w ampersand+stdin a <f &"),
        (
            Bash,
            "a 0<&3 >g &",
            "P;agent_sh -w ampersand+stdin a 0<&3 >g &",
        ),
        (Bash, "a 3<f <<<x &", "P;agent_sh a 3<f <<<x &"),
        (
            Bash,
            "{ a; } <f &",
            "P;{ agent_sh -a ampersand+stdin '{ a; } <f';  a; } <f &",
        ),
        (
            Bash,
            "a <f | b &",
            "P;{ agent_sh -c 'a <f | b'; a <f | b; } &",
        ),
        (
            Bash,
            "a <&0 | b &",
            "P;{ agent_sh -a ampersand+stdin 'a <&0 | b'; a <&0 | b; } &",
        ),
        // A shell that cannot tell the line is told.
        (Posix, ":\na &", "P;:\nagent_sh -w ampersand+line2 a &"),
        (
            Posix,
            "eval 'a &'",
            "P;eval 'agent_sh -w ampersand+eval1 a &'",
        ),
        (Bash, ":\na &", "P;:\nagent_sh a &"),
        (
            Posix,
            "[[ a && b ]] &",
            "P;{ agent_sh -c '[[ a && b ]]'; [[ a && b ]]; } &",
        ),
        (Bash, "echo a &", "P;{ agent_sh -c 'echo a'; echo a; } &"),
        (Bash, "echo $_ &", "P;agent_sh -- echo $_ &"),
        (
            Bash,
            "{ a &\nb; } &",
            "P;{ agent_sh -c '{ a & b; }';  agent_sh a &\nb; } &",
        ),
        (Bash, "# c\na &", "P;# c\nagent_sh a &"),
        (
            Bash,
            "cat <<E | b &\nx\nE\n",
            "P;{ agent_sh -c 'cat <<E | b'; cat <<E | b; } &\nx\nE\n",
        ),
        (Bash, "a & b & wait; c &", "P;a & b & wait; agent_sh c &"),
        (Bash, "eval 'a &'", "P;eval 'agent_sh a &'"),
        (
            Bash,
            "eval 'a | b &'",
            "P;eval '{ agent_sh -c '\\''a | b'\\''; a | b; } &'",
        ),
        (
            Bash,
            "eval \"a | b &\"",
            "P;eval \"{ agent_sh -c 'a | b'; a | b; } &\"",
        ),
        (Bash, "eval a\\ \\&", "P;eval 'agent_sh 'a\\ \\&"),
        (Bash, "bash -c 'a &'", "M;bash -c 'P;agent_sh a &'"),
        (
            Bash,
            "sh -c 'zsh -c \"a &\"' &",
            "P;agent_sh sh -c 'M;zsh -c \"P;agent_sh a &\"' &",
        ),
        (
            Bash,
            "eval 'zsh -c \"a &\"'",
            "M;eval 'zsh -c \"P;agent_sh a &\"'",
        ),
        (
            Bash,
            "sh -c \"a &\" &",
            "P;agent_sh sh -c \"P;agent_sh a &\" &",
        ),
        (Posix, "a &>f", "P;agent_sh a &>f"),
        (Bash, "nohup a &", "P;agent_sh nohup a &"),
        (Bash, "nohup a & disown", "P;agent_sh nohup a & disown"),
        (
            Bash,
            "timeout 5 nohup a &",
            "P;agent_sh -w nohup+pipe timeout 5 nohup a &",
        ),
        (
            Bash,
            "cd x && nohup a &",
            "P;{ agent_sh -a nohup+pipe 'cd x && nohup a'; cd x && nohup a; } &",
        ),
        (
            Bash,
            "A=1 nohup $n 'b &' sh & b && setsid c &",
            "P;A=1 agent_sh nohup $n 'b &' sh & { agent_sh -a setsid 'b && setsid c'; b && setsid c; } &",
        ),
        (
            Bash,
            "nohup sh -c 'a &' > f & b &",
            "P;agent_sh nohup sh -c 'P;agent_sh a &' > f & agent_sh b &",
        ),
    ];
    for (dialect, text, wanted) in table {
        assert_eq!(
            rewritten(text, *dialect).as_deref(),
            Some(*wanted),
            "{text}"
        );
    }
}

#[test]
fn what_is_left_alone() {
    for text in [
        "a",
        "a & wait",
        "x=$(a &)",
        "a & (",
        "agent_sh() { :; }; a &",
        "agent_sh a &",
        "f() { a & }; export -f f; f",
        "ssh h 'a &'",
        "%1 &",
        "trap -p &",
        "builtin() { :; }; a &",
        "enable -n eval; a &",
        "enable $x; a &",
        "set -r; a &",
        "set -eur; a &",
        "set -o restricted; a &",
        "unset -f agent_sh; a &",
        "unset -f $(list); a &",
        "alias if=x; a &",
        "alias agent_sh=x; a &",
        "eval 'enable -n set'; a &",
    ] {
        assert_eq!(rewritten(text, Bash), None, "{text}");
    }
    let long = format!("a & : {}", "x".repeat(131_000));
    assert_eq!(rewritten(&long, Bash), None);
    // Too long to be told twice.
    let long = format!(". f; a & : {}", "x".repeat(70_000));
    let out = rewritten(&long, Bash).expect("a job");
    assert!(out.starts_with("P;. f; agent_sh a &"), "{}", &out[..40]);
}

#[test]
fn a_rewritten_text_is_not_rewritten_again() {
    for dialect in [Bash, Posix, Zsh] {
        let text = b"a & b | c & bash -c 'd &'";
        let first = rewrite(text, &plan(text, dialect), dialect, b"/l").expect("jobs");
        let again = plan(&first, dialect);
        assert!(again.ok, "{:?}", again.why);
        assert_eq!(rewrite(&first, &again, dialect, b"/l"), None);
    }
}

#[test]
fn a_rewritten_text_tells_what_it_was() {
    let inner = "a | b & eval 'c &' & bash -c \"d & (e; f) &\"";
    let text = format!("x=1 zsh -c {} $y & g", crate::text::quote(inner.as_bytes()));
    for dialect in [Bash, Posix, Zsh] {
        let out = rewrite(
            text.as_bytes(),
            &plan(text.as_bytes(), dialect),
            dialect,
            b"/l @P@)",
        );
        let out = out.expect("jobs");
        assert_eq!(super::original(&out).as_deref(), Some(text.as_bytes()));
        // What the shell within is given.
        let script = crate::syntax::scan(&out, dialect);
        let words = script.into_simples().flat_map(|(_, words)| words);
        let mut texts = words.filter_map(|word| {
            let word = crate::syntax::literal::decode(&out, word, dialect)?;
            super::original(&word.bytes)
        });
        assert_eq!(texts.next().as_deref(), Some(inner.as_bytes()));
        for cut in 0..out.len() {
            let _never_panics = super::original(&out[..cut]);
        }
    }
    for text in [
        "",
        "a &",
        "agent_sh() { :; }; a &",
        "agent_sh() { case $3 in @9,9.9)",
        "agent_sh() { case $3 in @0,0.18446744073709551615,1.0)",
        "agent_sh() { case $3 in @0,0.18446744073709551615)",
        "agent_sh() { case $3 in @18446744073709551615,0.0)",
        "agent_sh() { case $3 in @0,18446744073709551615.18446744073709551615)",
    ] {
        assert_eq!(super::original(text.as_bytes()), None, "{text}");
    }
    assert_eq!(super::shown([&b"a"[..], b"b c"]), "a 'b c'");
}

#[test]
fn labels_are_short_lines() {
    let text = format!("echo {} |\n cat &", "é".repeat(300));
    let out = rewrite(text.as_bytes(), &plan(text.as_bytes(), Bash), Bash, b"/l").expect("a job");
    let out = String::from_utf8(out).expect("cut between characters");
    assert!(out.contains("é…'; echo"), "{out}");
}

//! Table tests of the scanner, and its behaviour on hostile text.

use std::time::Instant;

use super::cases::CASES;
use super::{Dialect, ScopeKind, scan};

/// Removes the marks from a case and gives the marked offsets.
fn unmark(case: &str) -> (Vec<u8>, Vec<usize>) {
    let mut text = Vec::new();
    let mut amps = Vec::new();
    let mut rest = case;
    while let Some((before, after)) = rest.split_once('«') {
        text.extend_from_slice(before.as_bytes());
        amps.push(text.len());
        let (marked, after) = after.split_once('»').expect("a closing mark");
        text.extend_from_slice(marked.as_bytes());
        rest = after;
    }
    text.extend_from_slice(rest.as_bytes());
    (text, amps)
}

#[test]
fn every_case_is_exact() {
    assert!(CASES.len() >= 200, "{}", CASES.len());
    for (dialect, case) in CASES {
        let (text, amps) = unmark(case);
        let script = scan(&text, *dialect);
        assert!(script.ok, "{case}: {:?}", script.why);
        assert_eq!(script.amps, amps, "{case}");
        assert_eq!(script.lists.len(), amps.len(), "{case}");
    }
}

#[test]
fn cases_also_work_inside_other_constructs() {
    for (dialect, case) in CASES {
        let (text, amps) = unmark(case);
        for (before, after) in [
            ("(\n", "\n)"),
            ("{\n", "\n}"),
            ("if :; then\n", "\nfi"),
            ("x=$(\n", "\n)"),
            ("case x in x)\n", "\nesac"),
            ("f() {\n", "\n}"),
            ("echo \"$(\n", "\n)\""),
        ] {
            // A here-document that has no end swallows whatever comes after, and a comment alone is no
            // command.
            if case.contains("unterminated") || case.starts_with('#') {
                continue;
            }
            let whole = [before.as_bytes(), &text, after.as_bytes()].concat();
            let script = scan(&whole, *dialect);
            let moved: Vec<usize> = amps.iter().map(|amp| amp + before.len()).collect();
            assert!(script.ok, "{before}{case}{after}: {:?}", script.why);
            assert_eq!(script.amps, moved, "{before}{case}{after}");
        }
    }
}

#[test]
fn what_is_no_shell_text_is_refused() {
    for text in [
        "a &;b",
        "echo a;&",
        "for x in a & do b; done",
        "&",
        "a && && b",
        "a | | b",
        "(a",
        "a)",
        "{ a",
        "if a",
        "if a; then b",
        "case x",
        "case x in a",
        "\"a",
        "'a",
        "`a",
        "$(a",
        "${a",
        "a >",
        "a <<",
        "[[ a",
        "f(",
        "a &&",
        "while a; do b",
        "a & & b",
        "esac",
        "then",
        "x=(a & b)",
        "a (b)",
        "! & b",
        "!& b",
        "a && ! & b",
        "time & b",
        "time -p & b",
        "! time & b",
        "! | b & c",
        "time && b & c",
        "a >>|f & b",
        "a >>&f & b",
        "a > #f\nb & c",
        "if a; then fi & b",
        "if a; then b; else fi & c",
        "if then a; fi & b",
        "while do a; done & b",
        "while a; do done & b",
        "for x in a; do\n# nothing\ndone & b",
        "{ } & b",
        "f() { }; a & b",
    ] {
        let script = scan(text.as_bytes(), Dialect::Bash);
        assert!(!script.ok, "{text}");
    }
    for text in ["! & a", "!; a & b", "!\na & b", "a >>|f & b", "{ } & a"] {
        assert!(!scan(text.as_bytes(), Dialect::Posix).ok, "{text}");
    }
    for text in ["! & a", "time & a", "! time & a", "a > #f\nb & c"] {
        assert!(!scan(text.as_bytes(), Dialect::Zsh).ok, "{text}");
    }
    assert!(!scan(b"a\0&", Dialect::Bash).ok);
    assert!(!scan(b"a } &", Dialect::Zsh).ok);
}

#[test]
fn every_truncation_and_every_byte_is_survived() {
    for (dialect, case) in CASES {
        let (text, _) = unmark(case);
        for cut in 0..text.len() {
            let _script = scan(&text[..cut], *dialect);
            let mut changed = text.clone();
            for byte in [b'\\', b'(', b'"', b'`', b'$', b'&', b'\n', 0xff] {
                changed[cut] = byte;
                let _script = scan(&changed, *dialect);
            }
        }
    }
}

#[test]
fn bytes_that_are_no_characters_work() {
    let script = scan(b"echo \xff\xfe & '\xff' & \xc3 &", Dialect::Bash);
    assert!(script.ok);
    assert_eq!(script.amps, [8, 14, 18]);
}

#[test]
fn deep_nesting_and_long_texts_are_quick() {
    let pieces = [
        "(",
        "{ ",
        "$(",
        "`",
        "${",
        "$((",
        "((",
        "[[ (",
        "<(",
        "if ",
        "case x in a) ",
        "\"$(",
        "\"${x:-",
        "while ",
        "f() ",
        "( (",
        "a[",
        "x=(",
        "$[",
        "! ",
        "time ",
        "a && ",
        "a | ",
        "a; ",
        "a & ",
        "a <<E ",
        "'",
        "\"",
        "\\",
        "$((a)",
        "((a)",
        "!(",
        "@(",
        "a\n",
        "#",
        "&",
        "$'",
        "eval '",
        "\\`",
        "${ ",
        "for x in ",
        "{x}>",
        "1",
        "coproc ",
        "a <<E\n",
        "$(a <<E\n",
        "x=",
        "a() { ",
        "`\\`",
        "\\\n",
        "function f ",
        "((((",
        "$(($((",
        "a=([x]=",
        "!(a);",
        "[",
        "x.[",
        "a\\\nb",
        "fi\\\n",
    ];
    for dialect in [Dialect::Bash, Dialect::Posix, Dialect::Zsh] {
        for piece in pieces {
            let start = Instant::now();
            let _script = scan(
                piece.repeat(100_000 / piece.len().min(4)).as_bytes(),
                dialect,
            );
            let _plan = crate::plan::plan(piece.repeat(20_000).as_bytes(), dialect);
            assert!(
                start.elapsed().as_secs() < 5,
                "{piece} takes {:?}",
                start.elapsed()
            );
        }
    }
}

#[test]
fn scopes_tell_who_runs_a_list() {
    let kind_of = |text: &str, nth: usize| {
        let script = scan(text.as_bytes(), Dialect::Bash);
        assert!(script.ok, "{text}");
        script.scopes[script.lists[nth].scope()].kind
    };
    for (text, nth, kind) in [
        ("a &", 0, ScopeKind::Shell),
        ("{ a & }", 0, ScopeKind::Shell),
        ("(a &)", 0, ScopeKind::Subshell),
        ("$(a &)", 0, ScopeKind::Captured),
        ("`a &`", 0, ScopeKind::Captured),
        ("x <(a &)", 0, ScopeKind::Captured),
        ("{ a & } | b", 0, ScopeKind::Segment),
        ("b | { a & }", 0, ScopeKind::Last),
        ("{ a & } &", 0, ScopeKind::Background),
        ("{ a & } &", 1, ScopeKind::Shell),
        ("f() { a & }", 0, ScopeKind::Function),
        ("coproc { a & }", 0, ScopeKind::Captured),
        ("if a & then b; fi", 0, ScopeKind::Shell),
    ] {
        assert_eq!(kind_of(text, nth), kind, "{text}");
    }
}

#[test]
fn parts_of_a_simple_command() {
    let text = "A=1 B=2 >f cmd 'x y' 2>&1 <<E &\nbody\nE\n";
    let script = scan(text.as_bytes(), Dialect::Bash);
    let list = &script.lists[0];
    assert_eq!(
        list.span.of(text.as_bytes()),
        b"A=1 B=2 >f cmd 'x y' 2>&1 <<E"
    );
    let simple = list.simple().expect("a simple command");
    let words: Vec<_> = script
        .words(simple)
        .map(|word| word.of(text.as_bytes()))
        .collect();
    assert_eq!(words, [&b"cmd"[..], b"'x y'"]);
    assert!(!script.simples[simple].has_array());
}

#[test]
fn words_belong_to_their_command() {
    let text = "a $(b c `d e`) f; x=(1) y & z";
    let script = scan(text.as_bytes(), Dialect::Bash);
    let words = |simple| -> Vec<&[u8]> {
        let words = script.words(simple);
        words.map(|word| word.of(text.as_bytes())).collect()
    };
    let all: Vec<_> = (0..script.simples.len()).map(words).collect();
    let wanted: [&[&[u8]]; 4] = [
        &[b"b", b"c", b"`d e`"],
        &[b"a", b"$(b c `d e`)", b"f"],
        &[b"y"],
        &[b"z"],
    ];
    assert_eq!(all, wanted);
    assert!(script.simples[2].has_array());
    assert_eq!(script.lists[0].simple(), Some(2));
    let spans: Vec<_> = script.into_simples().map(|(_, words)| words).collect();
    for (spans, wanted) in spans.iter().zip(wanted) {
        let words = spans.iter().map(|word| word.of(text.as_bytes()));
        assert!(words.eq(wanted.iter().copied()));
    }
}

//! Texts that are read in vain first, and what such a reading must not leave behind.

use super::Dialect::{self, Bash, Posix, Zsh};
use super::{ScopeKind, Script, scan};

/// Texts whose first reading fails in the middle of something.
const REREAD: &[&str] = &[
    // The scope of a substitution that was never closed.
    "((#$(;\n)) & echo hi",
    "(($(;\n)) & b",
    "echo $((#$(;\n) & b) & c",
    "((#${ ;\n)) & b",
    "((`;\n)) & b\n`",
    // Braces that were open around it.
    "{ ((#$(;\n)) & b; }",
    "{ echo $((#$(;\n) & b) }",
    "{ { (( $({ ;\n)) & } }",
    "() { ((#$(;\n)) & b }",
    "{ (( $(a }) )) } &",
    // Here-documents whose bodies were still to come.
    "cat <<E $((#$(;\n)) & b\nE\nc &",
    "cat <<E; ((#$(;\n)) & b\nE\nc &",
    "(( $(cat <<E\n$(;\nE\n) )) & b",
    "echo $(( $(cat <<E\n`;\nE\n) ) & b)",
    // The depth, and what was found.
    "((#$(a & b & ;\n)) & c",
    "((#$(f() { a & }; ;\n)) & c",
    "coproc a$(b &) & c",
    "coproc $((#$(;\n)) & c",
    "cat <<$(a & b) & c\n$(a & b)\nd &",
    "cat <<$((a) & b) & c\n",
];

/// Checks what every text must satisfy.
pub(super) fn check(text: &[u8], dialect: Dialect) -> Script {
    let script = scan(text, dialect);
    let shown = String::from_utf8_lossy(text);
    assert!(script.amps.is_sorted(), "{shown}");
    for amp in &script.amps {
        assert_eq!(text.get(*amp), Some(&b'&'), "{shown}");
    }
    let roots = script
        .scopes
        .iter()
        .filter(|scope| scope.parent().is_none());
    assert_eq!(roots.count(), 1, "{shown}");
    // Every way up ends at the shell that reads the text.
    for scope in 0..script.scopes.len() {
        let mut steps = 0;
        let mut at = scope;
        while let Some(parent) = script.scopes[at].parent() {
            at = parent;
            steps += 1;
            assert!(steps <= script.scopes.len(), "scopes in a ring: {shown}");
        }
        assert_eq!(at, 0, "{shown}");
    }
    if script.ok {
        assert_eq!(script.lists.len(), script.amps.len(), "{shown}");
        let mut ops: Vec<_> = script.lists.iter().map(|list| list.op()).collect();
        ops.sort_unstable();
        assert_eq!(ops, script.amps, "{shown}");
    }
    script
}

#[test]
fn a_reading_in_vain_leaves_nothing_behind() {
    for text in REREAD {
        for dialect in [Bash, Posix, Zsh] {
            check(text.as_bytes(), dialect);
            let _plan = crate::plan::plan(text.as_bytes(), dialect);
        }
    }
}

#[test]
fn what_follows_is_read_as_if_alone() {
    // Each begins with a reading in vain, and is then read to its end.
    for (before, after) in [
        ("echo $((#$(;\n) ); ", " & c; (d &)"),
        ("((a) | (b $((c) & (d)))) & ", "e <<E & f\nx\nE\n{ g & }"),
        ("x=$((a) & (b $(cat <<E\ny\nE\n))); ", "{ { a & } & }"),
    ] {
        let whole = format!("{before}{after}");
        for dialect in [Bash, Zsh] {
            let script = check(whole.as_bytes(), dialect);
            let alone = check(format!(":; {after}").as_bytes(), dialect);
            if !script.ok {
                continue;
            }
            assert!(alone.ok, "{after}");
            let moved = before.len() - 3;
            let tail: Vec<_> = script
                .amps
                .iter()
                .filter(|amp| **amp >= before.len())
                .collect();
            assert_eq!(tail.len(), alone.amps.len(), "{whole}");
            for (amp, wanted) in tail.iter().zip(&alone.amps) {
                assert_eq!(**amp, wanted + moved, "{whole}");
            }
        }
    }
}

#[test]
fn bits_of_grammar_in_every_order() {
    let bits = [
        "((", "$(", "$((", ")", "))", ";", "\n", "&", "{ ", "}", "`", "${ ", "'", "\"", "<<E", "a",
        "coproc ", "f()", "|", "<(", "(",
    ];
    for dialect in [Bash, Posix, Zsh] {
        let mut text = String::new();
        for combination in 0..bits.len().pow(4) {
            text.clear();
            let mut rest = combination;
            for _ in 0..4 {
                text.push_str(bits[rest % bits.len()]);
                rest /= bits.len();
            }
            check(text.as_bytes(), dialect);
        }
    }
}

#[test]
fn more_lists_than_can_be_rewritten_are_refused() {
    let fits = check("a&".repeat(65_535).as_bytes(), Bash);
    assert!(
        fits.ok,
        "the longest argument of a program may be all operators"
    );
    let script = check("a&".repeat(70_000).as_bytes(), Bash);
    assert_eq!(script.why, Some("too many commands in the background"));
    let inside = format!("x=`{}`", "a&".repeat(70_000));
    assert!(!check(inside.as_bytes(), Bash).ok);
}

#[test]
fn backquotes_in_backquotes() {
    let nest = |levels: usize| {
        let mut text = "a &".to_owned();
        for _ in 0..levels {
            text = format!("`{}`", text.replace('\\', "\\\\").replace('`', "\\`"));
        }
        text
    };
    for levels in 1..=6 {
        let text = nest(levels);
        let script = check(text.as_bytes(), Bash);
        assert!(script.ok, "{levels}: {:?}", script.why);
        assert_eq!(script.amps, [text.find('&').expect("an operator")]);
        let kind = script.scopes[script.lists[0].scope()].kind;
        assert_eq!(kind, ScopeKind::Captured);
    }
    assert!(!check(nest(7).as_bytes(), Bash).ok);
}

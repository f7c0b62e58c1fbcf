//! Texts that are read in vain first: the real shell says what comes out.

use crate::support::{Ended, Sandbox};

const TEXTS: &[&str] = &[
    "((#$(;\n)) & echo hi",
    "echo one; ((#$(;\n)) & echo hi",
    "{ ((#$(;\n)) & echo b; }",
    "{ echo $((#$(;\n) & echo b) }",
    "() { ((#$(;\n)) & echo b }",
    "cat <<E $((#$(;\n)) & echo b\nE\necho c &",
    "echo $((echo a) & (echo b))",
    "x=$((echo a; (echo b &)) ); echo $x",
];

/// With this much address space: a reader that grows without end dies of it, and nobody else.
const LIMITED: &str = "ulimit -v 300000; exec \"$@\"";

#[test]
fn no_text_costs_the_command() {
    let sandbox = Sandbox::new();
    for text in TEXTS {
        // An operator at the end, so that every text is looked at; and nothing is left to chance.
        let text = format!("{text}\n: & wait");
        for shell in ["bash", "zsh"] {
            let native = sandbox.real_call(shell).c(&text).run();
            let ours = sandbox
                .real_call("bash")
                .args(["-c", LIMITED, "limited"])
                .arg(sandbox.link(shell))
                .args(["-c", &text])
                .run();
            let words = |ended: &Ended| {
                let text = ended.text();
                let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
                words.sort();
                words
            };
            assert_eq!(
                (ours.status, words(&ours)),
                (native.status, words(&native)),
                "{shell}: {text:.200}"
            );
        }
    }
}

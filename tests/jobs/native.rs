//! `$!`, `wait`, `kill %1`, traps: as native, also where the text was rewritten.
//!
//! A literal `wait` makes a job attended, and its text stays as it is. `$w` hides the word from the parser:
//! then the job is rewritten, and must behave the same. Where a trap is set, KILL ends the job: a child that
//! has not exec'd yet still has its parent's trap, natively too.

use crate::support::{Call, Sandbox, Status, Streams, stands_in};

/// Letters of the shells, then the text.
const CASES: &[(&str, &str)] = &[
    ("bdz", "sleep 1000 & kill $!; wait $!; echo $?"),
    ("bdz", "w=wait; sleep 1000 & kill $!; $w $!; echo $?"),
    ("bdz", "w=wait; sleep 1000 & kill -9 $!; $w $!; echo $?"),
    ("bdz", "w=wait; sh -c 'exit 5' & $w $!; echo $?"),
    ("bdz", "w=wait; (exit 6) & $w $!; echo $?"),
    ("bdz", "w=wait; { true; exit 7; } & $w $!; echo $?"),
    ("bdz", "w=wait; f() { return 8; }; f & $w $!; echo $?"),
    ("bdz", "w=wait; true | sh -c 'exit 9' & $w $!; echo $?"),
    ("bdz", "w=wait; false || sh -c 'exit 10' & $w $!; echo $?"),
    ("bdz", "w=wait; ! true & $w $!; echo $?"),
    (
        "bdz",
        "w=wait; nonexistent-command-x 2>/dev/null & $w $!; echo $?",
    ),
    (
        "bdz",
        "w=wait; A=1 B=2 sh -c 'exit $((A+B))' & $w $!; echo $?",
    ),
    (
        "bdz",
        "w=wait; x=unexported; eval 'exit ${#x}' & $w $!; echo $?",
    ),
    ("bdz", "w=wait; set -- a b c; exit $# & $w $!; echo $?"),
    (
        "bdz",
        "w=wait; sh -c 'kill -TERM $$' & $w $! 2>/dev/null; echo $?",
    ),
    ("bdz", "w=wait; true & $w; echo $?; $w; echo $?"),
    (
        "bdz",
        "sleep 1000 & a=$!; sleep 1000 & b=$!; [ $a != $b ] && echo two; kill $a $b",
    ),
    ("bdz", "sleep 1000 & kill -0 $! && echo alive; kill $!"),
    ("b", "sleep 1000 & kill %1; echo $?"),
    // By its beginning it would not be found: `agent_sh` stands before it.
    ("b", "sleep 1000 & kill %?sleep; echo $?"),
    (
        "bd",
        "sleep 1000 & [ \"$(jobs -p)\" = $! ] && echo same; kill $!",
    ),
    (
        "b",
        "sleep 1000 & jobs -p > f; [ \"$(cat f)\" = $! ] && echo same; kill $!",
    ),
    ("b", "sleep 1000 & jobs | sed 's/agent_sh //'; kill $!"),
    ("bdz", "trap 'echo bye' EXIT; sleep 1000 & kill -9 $!"),
    (
        "bdz",
        "trap 'kill -9 $p; echo bye' EXIT; sleep 1000 & p=$!; exit 3",
    ),
    ("bdz", "trap 'echo bye; exit 4' EXIT; true & exit 3"),
    (
        "bdz",
        "trap 'echo term' TERM; sleep 1000 & kill -TERM $$; kill -9 $!; echo on",
    ),
    (
        "bdz",
        "set -e; sleep 1000 & kill $!; false; echo not reached",
    ),
    ("bdz", "set -e; false & echo reached"),
    ("bdz", "set -e; w=wait; false & $w $!; echo not reached"),
    (
        "b",
        "set -o pipefail; w=wait; (exit 3) | true & $w $!; echo $?",
    ),
    (
        "bz",
        "set -eo pipefail; true & false | true; echo not reached",
    ),
    ("bdz", "set -u; true & echo ${!:+set}"),
    (
        "bdz",
        "cat > f <<E &\nheredoc $((1+1)) & more\nE\nuntil [ -s f ]; do :; done; cat f",
    ),
    (
        "bdz",
        "cat > f <<'E' &\n$literal & more\nE\nuntil [ -s f ]; do :; done; cat f",
    ),
    (
        "bdz",
        "cat <<A > f & cat <<B > g &\nfirst\nA\nsecond\nB\nuntil [ -s f ] && [ -s g ]; do :; done; cat f g",
    ),
    (
        "bdz",
        "cat <<-E > f &\n\ttabbed\n\tE\nuntil [ -s f ]; do :; done; cat f",
    ),
    (
        "bz",
        "cat <<< here-string > f & until [ -s f ]; do :; done; cat f",
    ),
    (
        "bdz",
        "echo $LINENO\ntrue &\necho $LINENO\n{ true; } &\necho $LINENO",
    ),
    (
        "bdz",
        "true &\ntrue &\n\nnonexistent-command-x\necho $LINENO",
    ),
    ("bz", "true & # comment\nf() {\n  echo $LINENO\n}\nf"),
    ("bdz", "echo before & if then"),
    (
        "bdz",
        "echo 'quoted &' >/dev/null && true & echo \"$(echo '&')\"; exit 2",
    ),
    (
        "bdz",
        "for i in 1 2; do echo $i > f$i & done; until [ -s f1 ] && [ -s f2 ]; do :; done; cat f1 f2",
    ),
    ("bdz", "(echo sub > f &); until [ -s f ]; do :; done; cat f"),
    (
        "bdz",
        "if true; then echo in > f & fi; until [ -s f ]; do :; done; cat f",
    ),
    (
        "bdz",
        "case a in a) echo in > f & ;; esac; until [ -s f ]; do :; done; cat f",
    ),
    (
        "bdz",
        "f() { echo \"$1 $x\" > f; }; x=unexported; f arg & until [ -s f ]; do :; done; cat f",
    ),
    (
        "bdz",
        "x=$(sleep 1000 >/dev/null & echo $!); kill $x && echo killed",
    ),
    ("bdz", "x=1; { x=2; } & y=$x; echo $y"),
    (
        "bdz",
        "umask 077; : > f & until [ -e f ]; do :; done; stat -c %a f",
    ),
    (
        "bdz",
        "cd /; pwd > \"$HOME/f\" & cd /usr; until [ -s \"$HOME/f\" ]; do :; done; cat \"$HOME/f\"; rm \"$HOME/f\"",
    ),
    (
        "bdz",
        "echo in | cat > f & until [ -s f ]; do :; done; cat f",
    ),
    (
        "bdz",
        "exec 3> f; echo three >&3 & until [ -s f ]; do :; done; cat f",
    ),
    (
        "bdz",
        ": > f; A=1 env > f & until grep -q '^A=' f; do :; done; grep -c '^A=1' f",
    ),
    (
        "bdz",
        "eval 'echo evaled > f &'; until [ -s f ]; do :; done; cat f",
    ),
    (
        "bdz",
        "sh -c 'echo inner > f & exit 3'; echo $?; until [ -s f ]; do :; done; cat f",
    ),
    (
        "bdz",
        "timeout 60 sh -c 'echo inner > f &'; until [ -s f ]; do :; done; cat f",
    ),
    ("b", "sleep 1000 & disown; jobs; echo $?; kill $!"),
    ("b", "sleep 1000 & disown %1; echo $?; kill $!"),
    (
        "b",
        "sleep 1000 & disown $!; wait $! 2>/dev/null; echo $?; kill $!",
    ),
    ("z", "sleep 1000 &! kill $!; echo $?"),
    ("z", "sleep 1000 &| kill $!; echo $?"),
    ("b", "echo $(true & echo $?) `true & echo 1`"),
    ("b", "cat <(echo sub & wait)"),
    ("bdz", "exit 9 & exit 8"),
    ("bdz", "true &"),
    ("bdz", "true & false"),
];

/// bash tells of a job's death ("line 1: 4121 Terminated …") when it happens to see it; the rest is steady.
fn steady(call: Call<'_>) -> (Status, String, String) {
    let ended = call.run();
    let errors = ended.errors();
    let lines = errors
        .lines()
        .filter(|line| !line.contains("Killed") && !line.contains("Terminated"));
    (
        ended.status,
        ended.text(),
        lines.collect::<Vec<_>>().join("\n"),
    )
}

fn compare(shell: &str) {
    let mut differences = Vec::new();
    let cases = CASES
        .iter()
        .filter(|(shells, _)| shells.contains(&shell[..1]));
    for (index, (_, text)) in cases.enumerate() {
        let sandbox = Sandbox::new();
        let streams = if index.is_multiple_of(2) {
            Streams::Pipe
        } else {
            Streams::Truncated
        };
        let dirs = ["native", "ours"].map(|name| {
            let dir = sandbox.work().join(name);
            std::fs::create_dir(&dir).unwrap();
            dir
        });
        let native = steady(
            sandbox
                .real_call(shell)
                .c(text)
                .streams(streams)
                .cwd(&dirs[0]),
        );
        let ours = steady(sandbox.call(shell).c(text).streams(streams).cwd(&dirs[1]));
        if native != ours {
            differences.push(format!(
                "{shell} -c {text:?}\n  real {native:?}\n  ours {ours:?}"
            ));
        }
        sandbox.assert_no_survivors();
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn bash() {
    compare("bash");
}

#[test]
fn dash() {
    compare("dash");
}

#[test]
fn zsh() {
    compare("zsh");
}

/// Attended jobs are left alone: they end with their command and leave no record.
#[test]
fn attended_jobs_leave_no_record() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    for text in [
        "sleep 0 & sleep 0 & wait",
        "x=$(echo a & wait); echo $x",
        "(true & wait)",
    ] {
        assert!(sandbox.call("bash").c(text).run().succeeded());
    }
    sandbox.assert_no_survivors();
    let found = crate::support::records(&sandbox);
    assert!(found.is_empty(), "{found:#?}");
}

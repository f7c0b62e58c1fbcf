//! Texts that change their shell under our function: what it calls is redefined, taken away, or reads
//! its text otherwise. Either it works all the same, or the text is left alone.

use super::compared::{compare, shells};

/// Jobs of every kind, each awaited in a way that the plan does not see.
const JOBS: &str = r#"w=wait; /bin/echo job one & "$w" "$!"; echo st $?
echo two & "$w" "$!"; g() { echo fn "$@"; return 3; }; g a "b c" & "$w" "$!"; echo st $?
{ echo group; } & "$w" "$!"; /bin/echo pipe | cat & "$w" "$!"; nosuch & "$w" "$!"; echo st $?"#;

/// What a text may make a function of.
const FUNCTIONS: &[(&str, &str)] = &[
    ("bz", "eval"),
    ("bz", "exec"),
    ("bz", "set"),
    ("bz", "shift"),
    ("bdz", "type"),
    ("bz", "declare"),
    ("bdz", "printf"),
    ("bdz", "command"),
    ("bdz", "unalias"),
    ("b", "shopt"),
    ("bdz", "["),
    ("bz", "unset"),
    ("bz", "export"),
    ("bz", "trap"),
    ("bdz", "test"),
    ("bz", "builtin"),
    ("bdz", "alias"),
    ("z", "whence"),
    ("z", "functions"),
    ("bdz", "cat"),
    ("bdz", "kill"),
    ("bdz", "true"),
    ("b", "enable"),
];

/// What a text may make an alias of.
const ALIASES: &[&str] = &[
    "eval", "exec", "set", "shift", "return", "type", "declare", "printf", "command", "unalias",
    "shopt", "unset", "export", "trap", "builtin", "if", "case", "then", "in", "esac", "agent_sh",
];

/// What else a text may do first.
const OTHERS: &[(&str, &str)] = &[
    ("b", "return() { echo mine; }"),
    ("bz", "set -r"),
    ("b", "set -o restricted"),
    ("bdz", "readonly IFS"),
    ("bdz", "IFS="),
    ("bdz", "IFS=0123456789"),
    ("bdz", "IFS='-+e'"),
    ("bdz", "IFS=abcdefghijklmnopqrstuvwxyz"),
    ("bdz", "set -f"),
    ("bdz", "set -u"),
    ("bdz", "set -e"),
    ("bdz", "set -a"),
    ("bdz", "set -C"),
    ("b", "set -k"),
    ("b", "set -T; trap : DEBUG"),
    ("b", "trap 'echo err' ERR"),
    ("b", "set -o posix"),
    ("bd", "set -v"),
    ("b", "shopt -s extdebug"),
    ("b", "shopt -s failglob"),
    ("b", "shopt -s nocasematch"),
    ("b", "shopt -s compat31"),
    ("b", "shopt -s lastpipe"),
    ("b", "BASH_COMPAT=3.2"),
    ("bd", "POSIXLY_CORRECT=1"),
    ("bdz", "agent_sh=1"),
    ("bdz", "agent_sh() { echo mine; }"),
    ("bdz", "unset -f agent_sh"),
    ("bdz", "readonly PAGER=less"),
    ("b", "unset BASH_ALIASES FUNCNAME BASH_SOURCE BASH_LINENO"),
    (
        "b",
        "command_not_found_handle() { echo none \"$1\"; return 9; }",
    ),
    (
        "z",
        "command_not_found_handler() { echo none \"$1\"; return 9; }",
    ),
    ("bdz", "exec 2>&1"),
    ("z", "setopt ksh_arrays"),
    ("z", "setopt sh_word_split"),
    ("z", "setopt null_glob"),
    ("z", "setopt no_function_argzero"),
    ("z", "setopt glob_subst extended_glob"),
    ("z", "setopt err_return"),
    ("z", "setopt posix_builtins posix_aliases"),
    ("z", "setopt csh_junkie_quotes"),
    ("z", "setopt ignore_braces"),
    ("z", "setopt verbose"),
    ("z", "setopt restricted"),
    ("z", "emulate sh"),
    ("z", "emulate ksh"),
    ("z", "emulate csh"),
    ("z", "emulate -R zsh"),
    ("z", "alias -g set=xx"),
    ("z", "functions[builtin]='echo mine'"),
    ("z", "disable -r if"),
    ("z", "unfunction -m '*'"),
];

#[test]
fn a_changed_shell_does_the_same() {
    let mut cases = Vec::new();
    let mut add = |letters: &str, first: &str| {
        let text = format!("{first}\n{JOBS}");
        cases.extend(shells(letters).map(|shell| (shell, text.clone())));
    };
    for (letters, name) in FUNCTIONS {
        add(letters, &format!("{name}() {{ echo 'mine: {name}' >&2; }}"));
    }
    for name in ALIASES {
        add(
            "b",
            &format!("shopt -s expand_aliases; alias {name}='echo alias'"),
        );
        add("dz", &format!("alias {name}='echo alias'"));
    }
    for (_, name) in FUNCTIONS
        .iter()
        .filter(|(letters, _)| letters.contains('b'))
    {
        add("b", &format!("enable -n {name} 2>/dev/null"));
        add("z", &format!("disable {name} 2>/dev/null"));
    }
    for (letters, first) in OTHERS {
        add(letters, first);
    }
    assert!(cases.len() > 200, "only {}", cases.len());
    compare(&cases, |_| ());
}

/// What a shell tells of itself, and what only looks like a job.
const TOLD: &[(&str, &str)] = &[
    (
        "b",
        "w=wait; /bin/true & \"$w\" $!\necho \"$BASH_EXECUTION_STRING\"",
    ),
    (
        "b",
        "echo 'echo \"it is $BASH_EXECUTION_STRING\"' > told; . ./told; /bin/true & w=wait; \"$w\" $!",
    ),
    (
        "b",
        "set -x; . /dev/null; : \"$BASH_EXECUTION_STRING\" 2>/dev/null",
    ),
    (
        "bdz",
        "bash -c 'w=wait; /bin/true & \"$w\" $!; echo \"$BASH_EXECUTION_STRING\" \\\\ \"it'\\''s\"'",
    ),
    ("bz", "w=wait; sleep 0 & %1 & \"$w\"; echo over"),
    (
        "bz",
        "set -m; w=wait; { sleep 0 & %1 & \"$w\"; } 2>&1 | sed 's/agent_sh //'; echo over",
    ),
    (
        "bd",
        "trap 'echo int' INT; w=wait; trap -p & \"$w\" $!; echo over",
    ),
    (
        "bdz",
        "trap 'echo int' INT; w=wait; trap & \"$w\" $!; echo over",
    ),
    // Read as the marks of our own rewriting.
    (
        "bdz",
        "w=wait; /bin/echo 'agent_sh() { case $3 in @0,0.18446744073709551615,1.0)' & \"$w\" $!; echo $?",
    ),
    (
        "bdz",
        "w=wait; sh -c 'agent_sh() { case $3 in @0,18446744073709551615.1,1.0) ;; esac; }; echo a' & \"$w\" $!; echo $?",
    ),
    // dash knows neither of these words.
    ("d", "w=wait; [[ a && b ]] & \"$w\" $!; echo $?"),
    (
        "d",
        "w=wait; [[ a = b ]] & \"$w\" $!; /bin/echo job & \"$w\" $!; echo $?",
    ),
    ("d", "function x & w=wait; \"$w\" $!; echo $?"),
    ("d", "/bin/echo a &> f; w=wait; \"$w\" $!; cat f"),
];

#[test]
fn a_shell_tells_the_same_of_itself() {
    let cases = TOLD.iter();
    let cases: Vec<_> = cases
        .flat_map(|(letters, text)| shells(letters).map(|shell| (shell, (*text).to_owned())))
        .collect();
    compare(&cases, |_| ());
}

#[test]
fn options_of_the_call_are_heard() {
    let sandbox = crate::support::Sandbox::new();
    for options in [
        &["-r"][..],
        &["--restricted"],
        &["-v"],
        &["-k"],
        &["-o", "verbose"],
    ] {
        for text in [
            "w=wait; /bin/echo a & \"$w\" $!",
            "w=wait; echo b & \"$w\" $!; echo c",
        ] {
            let run = |call: crate::support::Call<'_>| {
                let ended = call.args(options).c(text).run();
                (ended.status, ended.text() + &ended.errors())
            };
            let native = run(sandbox.real_call("bash"));
            assert_eq!(native, run(sandbox.call("bash")), "{options:?}: {text}");
        }
    }
    sandbox.assert_no_survivors();
}

#[test]
fn exported_functions_do_not_come_between() {
    let sandbox = crate::support::Sandbox::new();
    for name in [
        "eval", "exec", "set", "shift", "type", "declare", "unalias", "export", "trap",
    ] {
        let run = |call: crate::support::Call<'_>| {
            let function = format!("BASH_FUNC_{name}%%");
            let ended = call.env(function, "() { echo mine; }").c(JOBS).run();
            let both = ended.text() + &ended.errors();
            let mut lines: Vec<String> = both.lines().map(str::to_owned).collect();
            lines.sort();
            (ended.status, lines)
        };
        let native = run(sandbox.real_call("bash"));
        assert_eq!(native, run(sandbox.call("bash")), "{name}");
    }
    sandbox.assert_no_survivors();
}

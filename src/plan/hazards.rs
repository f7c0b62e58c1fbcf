//! What a text can do to its shell so that our function would no longer work in it: such a text stays as
//! it is. The function calls the shell's own commands by a way that no function or alias of theirs names
//! reaches, so this is little: that way itself, and what takes the commands away.

use super::FUNCTION;
use crate::syntax::Dialect;

type Arguments<'a> = &'a [Option<Vec<u8>>];

/// Words of the grammar. Where one of them is an alias, a text that is read later means something else.
const GRAMMAR: &[&[u8]] = &[
    b"!",
    b"[[",
    b"]]",
    b"case",
    b"do",
    b"done",
    b"elif",
    b"else",
    b"esac",
    b"fi",
    b"for",
    b"function",
    b"if",
    b"in",
    b"then",
    b"until",
    b"while",
    b"{",
    b"}",
];

/// Commands that mean a function when they name one.
const NAMING: &[&[u8]] = &[
    b"alias",
    b"autoload",
    b"builtin",
    b"command",
    b"declare",
    b"disable",
    b"export",
    b"functions",
    b"local",
    b"readonly",
    b"trap",
    b"type",
    b"typeset",
    b"unalias",
    b"unfunction",
    b"unhash",
    b"unset",
    b"whence",
    b"where",
    b"which",
];

/// Why a function of that name is in the way.
pub(super) fn function(name: &[u8], dialect: Dialect) -> Option<&'static str> {
    match (name, dialect) {
        (b"builtin", Dialect::Bash | Dialect::Zsh)
        | (b"command", Dialect::Bash | Dialect::Posix) => {
            Some("it redefines a command of the shell that jobs need")
        }
        _ if name == FUNCTION => Some("it uses the name of the function that starts jobs"),
        _ => None,
    }
}

/// Why a command is in the way. Arguments that are not literal are `None`.
pub(super) fn command(
    name: &[u8],
    arguments: Arguments<'_>,
    dialect: Dialect,
) -> Option<&'static str> {
    let literal = || arguments.iter().flatten().map(Vec::as_slice);
    // Not literal, it may be anything.
    let has_option = |letter: u8| {
        arguments.iter().any(|argument| {
            argument
                .as_deref()
                .is_none_or(|word| is_option(word) && word.contains(&letter))
        })
    };
    if NAMING.contains(&name) && literal().any(|word| word == FUNCTION) {
        return Some("it uses the name of the function that starts jobs");
    }
    match (name, dialect) {
        (b"enable", Dialect::Bash) if has_option(b'n') || has_option(b'd') => {
            Some("it takes commands of the shell away")
        }
        (b"disable", Dialect::Zsh) => Some("it takes commands of the shell away"),
        (b"unset" | b"typeset" | b"declare", Dialect::Bash | Dialect::Zsh)
            if literal().any(|word| is_option(word) && word.contains(&b'f'))
                && arguments.iter().any(Option::is_none) =>
        {
            Some("it takes functions away")
        }
        (b"unfunction" | b"unhash", Dialect::Zsh)
            if has_option(b'm') || arguments.iter().any(Option::is_none) =>
        {
            Some("it takes functions away")
        }
        (b"set", _) => options(literal(), dialect),
        (b"setopt" | b"emulate", Dialect::Zsh) => literal()
            .map(option_name)
            .any(|name| OPTIONS.contains(&name.as_slice()) || name == b"csh")
            .then_some(CHANGED),
        (b"alias", _) => {
            let bad = |word: &[u8]| {
                let name = word.split(|&byte| byte == b'=').next().unwrap_or(word);
                word.contains(&b'=') && (GRAMMAR.contains(&name) || name == FUNCTION)
            };
            let is_global = dialect == Dialect::Zsh
                && literal().any(|word| is_option(word) && word.contains(&b'g'));
            (is_global || literal().any(bad)).then_some("it changes the shell's grammar")
        }
        _ => None,
    }
}

fn is_option(word: &[u8]) -> bool {
    word.len() > 1 && matches!(word[0], b'-' | b'+')
}

/// Why options of `set`, or of a shell's call, are in the way: a restricted shell has no `exec`, one that
/// prints what it reads would print our function, and one that takes assignments from behind a command
/// has no `export`.
pub(super) fn options<'a>(
    words: impl Iterator<Item = &'a [u8]>,
    dialect: Dialect,
) -> Option<&'static str> {
    let letters: &[u8] = match dialect {
        Dialect::Bash => b"rvk",
        Dialect::Zsh => b"rv",
        Dialect::Posix => b"v",
    };
    let mut words = words.take_while(|word| !matches!(*word, b"--" | b"-"));
    words
        .any(|word| match word {
            [b'-', b'-', name @ ..] => OPTIONS.contains(&name),
            [b'-', given @ ..] => given.iter().any(|letter| letters.contains(letter)),
            // What `-o` names.
            name => OPTIONS.contains(&option_name(name).as_slice()),
        })
        .then_some(CHANGED)
}

/// The same by name.
const OPTIONS: &[&[u8]] = &[b"restricted", b"verbose", b"keyword"];
const CHANGED: &str = "it changes the shell's grammar or rights";

/// The name of an option as zsh compares it.
fn option_name(word: &[u8]) -> Vec<u8> {
    let letters = word.iter().filter(|byte| **byte != b'_');
    letters.map(u8::to_ascii_lowercase).collect()
}

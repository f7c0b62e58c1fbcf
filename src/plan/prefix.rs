//! Commands that run another command, and shells that are given their text as an argument.

use super::Words;
use crate::job::How;
use crate::syntax::Dialect;

/// What stands before the command that is really meant.
pub(super) struct Prefix {
    /// The index of the first word that is no prefix.
    pub(super) rest: usize,
    pub(super) how: Option<How>,
    /// How often `nohup` is among them.
    pub(super) nohups: usize,
    /// No other user runs it, so that our program can be found and may act for it.
    pub(super) same_user: bool,
}

pub(super) fn base(word: &[u8]) -> &[u8] {
    word.rsplit(|byte| *byte == b'/').next().unwrap_or(word)
}

const PREFIXES: &[&[u8]] = &[
    b"nohup",
    b"setsid",
    b"sudo",
    b"doas",
    b"env",
    b"nice",
    b"ionice",
    b"stdbuf",
    b"timeout",
    b"time",
    b"command",
    b"exec",
    b"builtin",
    b"noglob",
    b"nocorrect",
];

/// The letters of the options that take the next word, for each prefix with options.
fn options_with_argument(name: &[u8]) -> &'static [u8] {
    match name {
        b"env" => b"uCS",
        b"nice" => b"n",
        b"ionice" => b"cnpPu",
        b"stdbuf" => b"ioe",
        b"timeout" => b"sk",
        b"exec" => b"a",
        b"sudo" => b"ugCDhpRTrt",
        b"doas" => b"uC",
        _ => b"",
    }
}

impl Prefix {
    pub(super) fn read(words: &Words<'_>) -> Self {
        let mut prefix = Self {
            rest: 0,
            how: None,
            nohups: 0,
            same_user: true,
        };
        loop {
            let Some(word) = words.literal(prefix.rest) else {
                return prefix;
            };
            let name = base(&word);
            if !PREFIXES.contains(&name) {
                return prefix;
            }
            let Some(rest) = skip_options(words, prefix.rest, name) else {
                // Its options are not understood: it is the command itself, as in `command -v x`.
                return prefix;
            };
            prefix.rest = rest;
            match name {
                b"nohup" => {
                    prefix.how = Some(How::Nohup);
                    prefix.nohups += 1;
                }
                b"setsid" => prefix.how = prefix.how.or(Some(How::Setsid)),
                b"sudo" | b"doas" => prefix.same_user = false,
                _ => {}
            }
        }
    }
}

/// The index of the first word behind the options of the prefix at `start`.
fn skip_options(words: &Words<'_>, start: usize, name: &[u8]) -> Option<usize> {
    let with_argument = options_with_argument(name);
    let mut at = start + 1;
    while let Some(word) = words.raw(at) {
        if name == b"env" && is_assignment(word) {
            at += 1;
            continue;
        }
        if !word.starts_with(b"-") {
            break;
        }
        let option = words.literal(at)?;
        at += 1;
        match option.as_slice() {
            b"--" => break,
            // `--help` and `--version` are all that it knows.
            _ if name == b"nohup" => return None,
            b"-v" | b"-V" if name == b"command" => return None,
            b"-S" if name == b"env" => return None,
            [b'-', letter] if with_argument.contains(letter) => at += 1,
            _ => {}
        }
    }
    if name == b"timeout" {
        // The time limit.
        at += 1;
    }
    (at < words.spans.len()).then_some(at)
}

/// Whether the word begins like `NAME=`; its value may be anything.
fn is_assignment(word: &[u8]) -> bool {
    word.iter()
        .position(|byte| *byte == b'=')
        .is_some_and(|at| {
            at > 0
                && word[..at]
                    .iter()
                    .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        })
}

/// The grammar and the index of the text, if the word at `name` is a shell with `-c TEXT`.
pub(super) fn shell_string(words: &Words<'_>, name: usize) -> Option<(Dialect, usize)> {
    let word = words.literal(name)?;
    let mut at = name + 1;
    let dialect = match base(&word) {
        b"bash" => Dialect::Bash,
        b"zsh" => Dialect::Zsh,
        b"sh" | b"dash" | b"ash" => Dialect::Posix,
        b"busybox" if matches!(words.literal(at).as_deref(), Some(b"sh" | b"ash")) => {
            at += 1;
            Dialect::Posix
        }
        _ => return None,
    };
    let mut has_text = false;
    loop {
        let Some(option) = words.literal(at) else {
            return has_text.then_some((dialect, at));
        };
        match option.as_slice() {
            b"--" if has_text => return Some((dialect, at + 1)),
            b"--login" | b"--norc" | b"--noprofile" | b"--posix" => at += 1,
            [b'-' | b'+', letters @ ..] if !letters.is_empty() => {
                // `-n` runs nothing, `-v` prints the text it reads, `-r` forbids what we would do.
                if !letters
                    .iter()
                    .all(|letter| b"abefhiklmoptuxBCEHOTcdf".contains(letter))
                {
                    return None;
                }
                at += 1;
                if letters.contains(&b'o') || letters.contains(&b'O') {
                    at += 1;
                }
                has_text |= option[0] == b'-' && letters.contains(&b'c');
            }
            _ => return has_text.then_some((dialect, at)),
        }
    }
}

//! Words that mean nothing to us: what was meant, said in our own words, with something to do.

use std::error::Error as _;
use std::ffi::OsStr;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::error::{Error, Result};
use crate::invocation::VERBS;
use crate::message;

/// Answers a first word that is no verb.
#[must_use]
pub(crate) fn unknown(word: &OsStr) -> u8 {
    message::error(&no_verb(&word.to_string_lossy()))
}

pub(super) fn no_verb(word: &str) -> Error {
    let hint = match meant_by(word) {
        Some(verb) => format!("did you mean '{verb}'? 'agent-sh help' lists the verbs"),
        None => "'agent-sh help' lists the verbs, 'agent-sh -c COMMAND' runs a command".to_owned(),
    };
    Error::Usage {
        text: format!("no verb '{word}'"),
        hint: Some(hint),
    }
}

/// Words for which a person or a model may look in vain, and what they are called here.
const OTHER_WORDS: [(&str, &str); 14] = [
    ("jobs", "ps"),
    ("list", "ps"),
    ("status", "ps"),
    ("info", "show"),
    ("inspect", "show"),
    ("describe", "show"),
    ("output", "logs"),
    ("tail", "logs"),
    ("follow", "logs"),
    ("stop", "kill"),
    ("cancel", "kill"),
    ("start", "run"),
    ("clean", "gc"),
    ("version", "--version"),
];

/// One word that is no verb was run as a command, because harnesses pass whole commands like that. If
/// the shell found no such command, a verb was meant. What a shell knows is never commented on, but
/// for `jobs` at a terminal: there no harness calls.
pub(crate) fn after_bare_word(word: &OsStr, code: u8) {
    let word = word.to_string_lossy();
    let meant = meant_by(&word);
    let at_terminal = word == "jobs" && message::is_terminal();
    if let Some(verb) = meant.filter(|_| code == 127 || at_terminal) {
        let text = if code == 127 {
            format!("'{word}' is no verb either")
        } else {
            format!("'{word}' is no verb; the shell's own was run")
        };
        message::say_with_hint(
            text,
            format!("did you mean 'agent-sh {verb}'? 'agent-sh help' lists the verbs"),
        );
    }
}

/// Turns what clap has to say into our words: help and version to stdout, the rest to an error.
pub(super) fn explain(error: &clap::Error, verb: Option<&str>) -> Result<u8> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            return message::out(&error.to_string()).map(|()| 0);
        }
        ErrorKind::InvalidSubcommand if verb.is_some_and(|verb| !VERBS.contains(&verb)) => {
            return Ok(unknown(OsStr::new(verb.unwrap_or_default())));
        }
        ErrorKind::InvalidSubcommand if verb == Some("help") => {
            let word = context(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            return Ok(unknown(OsStr::new(&word)));
        }
        _ => {}
    }
    let known = verb.filter(|verb| VERBS.contains(verb));
    let help = match known {
        Some("help") | None => "'agent-sh help' lists the verbs".to_owned(),
        Some("kill") if error.kind() == ErrorKind::MissingRequiredArgument => {
            "'agent-sh ps' lists ids; '--session KEY' instead of one means all that run in it"
                .to_owned()
        }
        Some(verb) => match choices(error, verb) {
            Some(choices) => format!("there is {choices}; 'agent-sh {verb} --help' says more"),
            None => format!("'agent-sh {verb} --help' shows an example"),
        },
    };
    let hint = match suggestion(error).or_else(|| longer_or_shorter(error, known)) {
        Some(other) => format!("did you mean '{other}'? {help}"),
        None => help,
    };
    Err(Error::Usage {
        text: words(error, known),
        hint: Some(hint),
    })
}

/// An option that a verb does not have, where clap would take it for something else.
pub(super) fn no_option(verb: &str, option: &str) -> Error {
    let name = option.split('=').next().unwrap_or(option);
    let command = crate::cli::Cli::command();
    let options = command.find_subcommand(verb).into_iter();
    let near = options
        .flat_map(clap::Command::get_arguments)
        .filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
        .find(|known| is_near(name, known));
    let help = format!(
        "'agent-sh {verb} --help' lists the options; put a program's own options after '--'"
    );
    Error::Usage {
        text: format!("'agent-sh {verb}' has no option '{name}'"),
        hint: Some(match near {
            Some(near) => format!("did you mean '{near}'? {help}"),
            None => help,
        }),
    }
}

/// The words that may follow a verb.
fn words_below(verb: &str) -> Vec<String> {
    let command = crate::cli::Cli::command();
    let below = command.find_subcommand(verb).into_iter();
    let below = below.flat_map(clap::Command::get_subcommands);
    let names = below.map(|word| word.get_name().to_owned());
    names.filter(|name| name != "help").collect()
}

/// What could have followed, where a word is missing or wrong.
fn choices(error: &clap::Error, verb: &str) -> Option<String> {
    let kinds = [
        ErrorKind::InvalidSubcommand,
        ErrorKind::MissingSubcommand,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
    ];
    let names = words_below(verb);
    (kinds.contains(&error.kind()) && !names.is_empty()).then(|| names.join(", "))
}

/// 'claude' means 'claude-code', and 'gemini-cli' means 'gemini'.
fn longer_or_shorter(error: &clap::Error, verb: Option<&str>) -> Option<String> {
    let word = context(error, ContextKind::InvalidSubcommand).filter(|word| word.len() > 2)?;
    let names = words_below(verb?).into_iter();
    let mut near = names.filter(|name| name.starts_with(&word) || word.starts_with(name.as_str()));
    near.next().filter(|_| near.next().is_none())
}

/// What is wrong.
fn words(error: &clap::Error, verb: Option<&str>) -> String {
    let value = || context(error, ContextKind::InvalidValue).filter(|value| !value.is_empty());
    let option = || context(error, ContextKind::InvalidArg);
    match (error.kind(), verb) {
        (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, Some(verb)) => {
            format!("'agent-sh {verb}' needs more words")
        }
        (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, None) => "no verb".to_owned(),
        (ErrorKind::InvalidSubcommand, Some(verb)) => {
            let word = context(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            format!("'agent-sh {verb}' has no '{word}'")
        }
        (ErrorKind::ValueValidation, _) => match (value(), option(), error.source()) {
            (Some(value), Some(option), Some(why)) => {
                format!("invalid value '{value}' for '{option}': {why}")
            }
            _ => plain_text(&error.to_string()),
        },
        _ => plain_text(&error.to_string()),
    }
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}

/// What was meant, if that is near: clap sees 'zsh' in 'tcsh'.
fn suggestion(error: &clap::Error) -> Option<String> {
    let typed = [
        (ContextKind::SuggestedArg, ContextKind::InvalidArg),
        (ContextKind::SuggestedValue, ContextKind::InvalidValue),
        (
            ContextKind::SuggestedSubcommand,
            ContextKind::InvalidSubcommand,
        ),
    ];
    typed.into_iter().find_map(|(meant, typed)| {
        let (meant, typed) = (context(error, meant)?, context(error, typed)?);
        is_near(&typed, &meant).then_some(meant)
    })
}

/// The first paragraph of clap's message on one line, in our style.
fn plain_text(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or(text);
    let words: Vec<&str> = paragraph
        .trim_start_matches("error: ")
        .split_whitespace()
        .collect();
    words.join(" ")
}

/// The verb that was meant: what other tools call it, or one that is near.
fn meant_by(word: &str) -> Option<&'static str> {
    let other = OTHER_WORDS.iter().find(|(other, _)| *other == word);
    other.map(|(_, verb)| *verb).or_else(|| nearest(word))
}

/// The verb that is near, if one is.
fn nearest(word: &str) -> Option<&'static str> {
    let (_, verb) = VERBS
        .iter()
        .map(|verb| (distance(word, verb), verb))
        .min()?;
    is_near(word, verb).then_some(verb)
}

/// Of a short word one letter may differ, of a long one more: 'make' is no misspelt 'man'.
fn is_near(typed: &str, meant: &str) -> bool {
    distance(typed, meant) <= (meant.len() / 3).max(1)
}

/// Edits between two words: insert, delete, replace, or swap neighbours, each costs one. What is longer
/// than any word is cut, to compare it in time.
pub(super) fn distance(typed: &str, meant: &str) -> usize {
    let end = typed
        .char_indices()
        .nth(64)
        .map_or(typed.len(), |(at, _)| at);
    strsim::osa_distance(&typed[..end], meant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;

    #[test]
    fn typos_find_their_verb() {
        for (typed, meant) in [
            ("wiat", Some("wait")),
            ("log", Some("logs")),
            ("kil", Some("kill")),
            ("stauts", None),
            ("sp", Some("ps")),
            ("make", None),
            ("evnts", Some("events")),
            ("docter", Some("doctor")),
            ("complete", None),
            ("parser", Some("parse")),
            ("", None),
        ] {
            assert_eq!(nearest(typed), meant, "{typed}");
        }
    }

    #[test]
    fn clap_speaks_our_language() {
        let say = |words: &[&str]| {
            let error = Cli::try_parse_from(words).unwrap_err();
            match explain(&error, words.get(1).copied()) {
                Err(error) => format!("{error} | {}", error.hint().unwrap_or_default()),
                Ok(code) => format!("code {code}"),
            }
        };
        for (words, wanted) in [
            (
                &["agent-sh", "wait", "--timeut", "5"][..],
                "unexpected argument '--timeut' found | did you mean '--timeout'? 'agent-sh wait --help' shows an example",
            ),
            (
                &["agent-sh", "wait", "--timeout", "soon"],
                "invalid value 'soon' for '--timeout <DURATION>': expected a duration like '100s', '2m' or '1h 30m' | 'agent-sh wait --help' shows an example",
            ),
            (
                &["agent-sh", "show"],
                "the following required arguments were not provided: <ID> | 'agent-sh show --help' shows an example",
            ),
            (
                &["agent-sh", "ps", "--state", "runing"],
                "invalid value 'runing' for '--state <STATE>' [possible values: running, stopped, exited, signaled, lost] | did you mean 'running'? 'agent-sh ps --help' shows an example",
            ),
            (
                &["agent-sh", "setup"],
                "'agent-sh setup' needs more words | there is shims, claude-code, opencode, codex, gemini, system; 'agent-sh setup --help' says more",
            ),
            (
                &["agent-sh", "setup", "claude"],
                "'agent-sh setup' has no 'claude' | did you mean 'claude-code'? there is shims, claude-code, opencode, codex, gemini, system; 'agent-sh setup --help' says more",
            ),
            (
                &["agent-sh", "setup", "gemini-cli"],
                "'agent-sh setup' has no 'gemini-cli' | did you mean 'gemini'? there is shims, claude-code, opencode, codex, gemini, system; 'agent-sh setup --help' says more",
            ),
            (&["agent-sh", "help", "nonsense"], "code 2"),
            (
                &["agent-sh", "notify", "ad"],
                "'agent-sh notify' has no 'ad' | did you mean 'add'? there is add, list, remove, test; 'agent-sh notify --help' says more",
            ),
            (
                &["agent-sh", "completions", "tcsh"],
                "invalid value 'tcsh' for '<SHELL>' [possible values: bash, zsh, fish] | 'agent-sh completions --help' shows an example",
            ),
            (
                &["agent-sh", "logs", "x", "-n", "ten"],
                "invalid value 'ten' for '--lines <N>': expected a whole number such as 20 | 'agent-sh logs --help' shows an example",
            ),
            (
                &["agent-sh", "logs", "x", "-n", "-5"],
                "invalid value '-5' for '--lines <N>': expected a whole number such as 20 | 'agent-sh logs --help' shows an example",
            ),
            (
                &["agent-sh", "wait", "x", "--timeout", "-5"],
                "invalid value '-5' for '--timeout <DURATION>': expected a duration like '100s', '2m' or '1h 30m' | 'agent-sh wait --help' shows an example",
            ),
            (
                &["agent-sh", "wait", "x", "--for-port", "http"],
                "invalid value 'http' for '--for-port <N>': expected a port from 1 to 65535 | 'agent-sh wait --help' shows an example",
            ),
            (
                &["agent-sh", "gc", "--max-bytes", "-1"],
                "invalid value '-1' for '--max-bytes <SIZE>': expected a size like '64M' or '512K' | 'agent-sh gc --help' shows an example",
            ),
            (
                &["agent-sh", "kill"],
                "the following required arguments were not provided: <ID>... | 'agent-sh ps' lists ids; '--session KEY' instead of one means all that run in it",
            ),
        ] {
            assert_eq!(say(words), wanted, "{words:?}");
        }
    }
}

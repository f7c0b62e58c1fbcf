//! What options take, checked while the words are read.

use regex::Regex;

/// A regular expression that is matched in linear time, whatever it is.
pub(super) fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default();
        why.trim_start_matches("error: ").to_owned()
    })
}

/// `NAME=VALUE`, for an environment.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// How many of something.
pub(super) fn count(text: &str) -> Result<usize, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse();
    number.map_err(|_| match is_number {
        true => "too large".to_owned(),
        false => "expected a whole number such as 20".to_owned(),
    })
}

/// A size that something fits into.
pub(super) fn limit(text: &str) -> Result<u64, String> {
    let size = crate::settings::size(text)?;
    match size {
        0 => Err("nothing would ever be read".to_owned()),
        size => Ok(size),
    }
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| "expected a port from 1 to 65535".to_owned())
}

/// `TERM`, `sigterm`, `15`.
pub(super) fn signal(text: &str) -> Result<i32, String> {
    let wrong = || "not a signal such as TERM, INT or 15".to_owned();
    if let Ok(number) = text.parse::<i32>() {
        return if (1..=64).contains(&number) {
            Ok(number)
        } else {
            Err(wrong())
        };
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    format!("SIG{name}")
        .parse::<nix::sys::signal::Signal>()
        .map(|signal| signal as i32)
        .map_err(|_| wrong())
}

/// A name must not look like an option, hide another job, or upset a terminal.
pub(super) fn name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if text == "last" {
        Err("'last' always means the newest job".to_owned())
    } else if text.is_empty()
        || text.len() > 64
        || text.starts_with('-')
        || !text.bytes().all(plain)
    {
        Err("a name is at most 64 letters, digits, dots, dashes or underscores".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// The name of a subscriber: it becomes that of a directory, so it must not be hidden, or lead elsewhere.
pub(super) fn subscriber(text: &str) -> Result<String, String> {
    if text.starts_with('.') {
        return Err("the name of a subscription does not begin with a dot".to_owned());
    }
    name(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals() {
        for (text, number) in [
            ("TERM", 15),
            ("SIGTERM", 15),
            ("int", 2),
            ("9", 9),
            ("64", 64),
        ] {
            assert_eq!(signal(text), Ok(number), "{text}");
        }
        for text in ["", "0", "65", "-9", "SIG", "TERMINATE"] {
            assert!(signal(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names() {
        for good in ["web", "a.b-c_9", "7f3k"] {
            assert!(name(good).is_ok(), "{good}");
        }
        for bad in ["", "last", "-x", "a b", "a/b", "é", "\u{1b}[2J"] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}

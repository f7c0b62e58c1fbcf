//! The keys of a keyboard by name, as the bytes that a terminal sends for them. Pure.

use crate::cli::misuse::distance;

/// Keys that have one name and one sequence whatever mode the terminal is in.
const PLAIN: &[(&str, &str)] = &[
    ("enter", "\r"),
    ("tab", "\t"),
    ("backtab", "\x1b[Z"),
    ("space", " "),
    ("escape", "\x1b"),
    ("backspace", "\x7f"),
    ("delete", "\x1b[3~"),
    ("insert", "\x1b[2~"),
    ("page-up", "\x1b[5~"),
    ("page-down", "\x1b[6~"),
    ("f1", "\x1bOP"),
    ("f2", "\x1bOQ"),
    ("f3", "\x1bOR"),
    ("f4", "\x1bOS"),
    ("f5", "\x1b[15~"),
    ("f6", "\x1b[17~"),
    ("f7", "\x1b[18~"),
    ("f8", "\x1b[19~"),
    ("f9", "\x1b[20~"),
    ("f10", "\x1b[21~"),
    ("f11", "\x1b[23~"),
    ("f12", "\x1b[24~"),
];
/// Keys whose sequence depends on the mode that the program has put the terminal in.
const CURSOR: &[(&str, u8)] = &[
    ("up", b'A'),
    ("down", b'B'),
    ("right", b'C'),
    ("left", b'D'),
    ("home", b'H'),
    ("end", b'F'),
];
/// Other names that people use.
const ALIASES: &[(&str, &str)] = &[
    ("return", "enter"),
    ("esc", "escape"),
    ("del", "delete"),
    ("ins", "insert"),
    ("bs", "backspace"),
    ("pageup", "page-up"),
    ("pgup", "page-up"),
    ("pagedown", "page-down"),
    ("pgdn", "page-down"),
    ("shift-tab", "backtab"),
];
/// Ctrl with these makes the control characters that letters do not reach.
const CONTROL_SIGNS: &str = "@[\\]^_?";

/// The bytes of a key. `application`: the program has asked for the other cursor keys (DECCKM).
pub(crate) fn bytes(name: &str, application: bool) -> Result<Vec<u8>, String> {
    find(name, application).ok_or_else(|| wrong(name))
}

fn find(name: &str, application: bool) -> Option<Vec<u8>> {
    let lower = name.to_lowercase();
    let lower = ALIASES
        .iter()
        .find(|(other, _)| *other == lower)
        .map_or(lower.as_str(), |(_, key)| key);
    if let Some((_, sequence)) = PLAIN.iter().find(|(key, _)| *key == lower) {
        return Some(sequence.as_bytes().to_vec());
    }
    if let Some((_, letter)) = CURSOR.iter().find(|(key, _)| *key == lower) {
        let between = if application { b'O' } else { b'[' };
        return Some(vec![0x1b, between, *letter]);
    }
    let after = |modifiers: [&str; 3]| {
        let modifier = modifiers.into_iter().find(|m| lower.starts_with(m))?;
        name.get(modifier.len()..).filter(|rest| !rest.is_empty())
    };
    if let Some(rest) = after(["ctrl-", "c-", "control-"]) {
        return control(rest).map(|byte| vec![byte]);
    }
    if let Some(rest) = after(["alt-", "m-", "meta-"]) {
        let key = find(rest, application)?;
        return Some([&[0x1b], key.as_slice()].concat());
    }
    // A character stands for itself.
    let mut letters = name.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) if !letter.is_control() => Some(letter.to_string().into_bytes()),
        _ => None,
    }
}

fn control(key: &str) -> Option<u8> {
    if key.eq_ignore_ascii_case("space") {
        return Some(0);
    }
    let &[byte] = key.as_bytes() else { return None };
    if byte.is_ascii_alphabetic() || CONTROL_SIGNS.contains(char::from(byte)) {
        // '?' is 0x3f, and its control character is DEL.
        Some(byte.to_ascii_uppercase() ^ 0x40)
    } else {
        None
    }
}

fn wrong(name: &str) -> String {
    let known = PLAIN.iter().map(|(key, _)| *key);
    let known = known.chain(CURSOR.iter().map(|(key, _)| *key));
    let known = known.chain(["ctrl-c", "ctrl-d", "ctrl-z", "alt-x"]);
    let lower = name.to_lowercase();
    let near: Vec<&str> = known
        .filter(|key| distance(&lower, key) <= 2 && distance(&lower, key) < key.len())
        .collect();
    let names = "enter tab space escape backspace delete insert up down left right home end \
                 page-up page-down f1 to f12, ctrl-a to ctrl-z, alt- and a key, or a character";
    if near.is_empty() {
        format!("no such key; keys are {names}")
    } else {
        format!("no such key; did you mean {}?", near.join(", "))
    }
}

/// Whether the program has asked for the application's cursor keys, going by what it wrote last about
/// it: `ESC [ ? 1 h` or `ESC [ ? 1 l`, with other modes beside it or not.
pub(crate) fn wants_application_keys(output: &[u8]) -> bool {
    let mut wants = false;
    let mut rest = output;
    while let Some(at) = rest.windows(3).position(|bytes| bytes == b"\x1b[?") {
        rest = &rest[at + 3..];
        let modes = rest
            .iter()
            .take_while(|byte| byte.is_ascii_digit() || **byte == b';')
            .count();
        let asks = rest[..modes].split(|&byte| byte == b';').any(|m| m == b"1");
        match rest.get(modes) {
            Some(b'h') if asks => wants = true,
            Some(b'l') if asks => wants = false,
            _ => {}
        }
    }
    wants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bytes() {
        for (name, wanted) in [
            ("enter", "\r"),
            ("Return", "\r"),
            ("TAB", "\t"),
            ("esc", "\x1b"),
            ("up", "\x1b[A"),
            ("home", "\x1b[H"),
            ("pgdn", "\x1b[6~"),
            ("f1", "\x1bOP"),
            ("f12", "\x1b[24~"),
            ("ctrl-c", "\x03"),
            ("Ctrl-C", "\x03"),
            ("C-d", "\x04"),
            ("ctrl-z", "\x1a"),
            ("ctrl-]", "\x1d"),
            ("ctrl-space", "\0"),
            ("ctrl-?", "\x7f"),
            ("alt-x", "\x1bx"),
            ("alt-X", "\x1bX"),
            ("alt-enter", "\x1b\r"),
            ("alt-ctrl-a", "\x1b\x01"),
            ("space", " "),
            ("q", "q"),
            ("Q", "Q"),
            ("-", "-"),
            ("é", "é"),
        ] {
            assert_eq!(
                bytes(name, false).as_deref(),
                Ok(wanted.as_bytes()),
                "{name}"
            );
        }
        assert_eq!(bytes("up", true).as_deref(), Ok(&b"\x1bOA"[..]));
        assert_eq!(bytes("delete", true).as_deref(), Ok(&b"\x1b[3~"[..]));
    }

    #[test]
    fn unknown_names_say_what_was_meant() {
        for (name, wanted) in [
            ("entr", "did you mean enter"),
            ("pageupp", "did you mean page-up"),
            ("ctrl-cc", "did you mean ctrl-c"),
            ("warp", "keys are enter tab"),
            ("", "keys are enter"),
            ("ctrl-", "ctrl-"),
            ("ctrl-ä", "no such key"),
            ("f13", "did you mean f1"),
            ("\u{1b}", "no such key"),
        ] {
            let said = bytes(name, false).unwrap_err();
            assert!(said.contains(wanted), "{name}: {said}");
        }
    }

    #[test]
    fn cursor_keys_follow_the_program() {
        for (output, wanted) in [
            (&b"plain"[..], false),
            (b"\x1b[?1h\x1b=", true),
            (b"\x1b[?1h text \x1b[?1l", false),
            (b"\x1b[?1049h", false),
            (b"\x1b[?25;1h", true),
            (b"\x1b[?1", false),
            (b"\x1b[?1h\x1b[?1049l", true),
        ] {
            assert_eq!(wants_application_keys(output), wanted, "{output:?}");
        }
    }
}

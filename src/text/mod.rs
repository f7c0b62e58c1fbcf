//! Text of strangers: what a job printed and what a command said, made fit to be shown and stored.
//!
//! Pure, and total: any bytes in, no panic, no failure. Redaction is written by hand because it runs
//! on the way of every `cmd &`, where compiling regular expressions would cost more than the job.

use std::borrow::Cow;

mod escapes;
mod redact;
mod secrets;
mod words;

pub(crate) use escapes::StripEscapes;
pub use redact::redact;
pub(crate) use words::{plain_path, program_name, short_duration, signal_name, size};

/// Text that is safe on a terminal and in a notice: of all control characters only newline and tab
/// survive, escape sequences are removed, characters that reorder or hide text are written as
/// `<U+202E>`, and what is no UTF-8 becomes U+FFFD. A carriage return before a newline goes; any
/// other becomes a newline, so that a progress bar stays readable.
#[must_use]
pub fn sanitize(bytes: &[u8]) -> String {
    let mut plain = Vec::with_capacity(bytes.len());
    StripEscapes::new().push(bytes, &mut plain);
    let text = String::from_utf8_lossy(&plain);
    let mut clean = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\n' | '\t' => clean.push(letter),
            '\r' => {
                while letters.next_if_eq(&'\r').is_some() {}
                if letters.peek().is_some_and(|&next| next != '\n') {
                    clean.push('\n');
                }
            }
            _ if letter.is_control() => {}
            _ if misleads(letter) => {
                use std::fmt::Write;
                let _ = write!(clean, "<U+{:04X}>", u32::from(letter));
            }
            _ => clean.push(letter),
        }
    }
    clean
}

/// One line that has no sequences any more, made safe: as [`sanitize`] does it, without newlines.
#[must_use]
pub fn sanitize_line(line: &str) -> Cow<'_, str> {
    let plain = |byte: u8| matches!(byte, b'\t' | 0x20..=0x7e);
    if line.bytes().all(plain) {
        return Cow::Borrowed(line);
    }
    let mut clean = String::with_capacity(line.len());
    for letter in line.chars() {
        if letter == '\t' || !(letter.is_control() || misleads(letter)) {
            clean.push(letter);
        } else if !letter.is_control() {
            use std::fmt::Write;
            let _ = write!(clean, "<U+{:04X}>", u32::from(letter));
        }
    }
    Cow::Owned(clean)
}

/// The text with U+FFFD for each character that reorders or hides: where columns count.
#[must_use]
pub fn replace_misleading(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.contains(misleads) {
        return Cow::Borrowed(text);
    }
    let safe = |letter| {
        if misleads(letter) {
            char::REPLACEMENT_CHARACTER
        } else {
            letter
        }
    };
    Cow::Owned(text.chars().map(safe).collect())
}

/// The same JSON, with each character that a terminal might obey written as an escape: what JSON
/// itself must escape is only a part of them.
#[must_use]
pub fn escape_json(json: &str) -> Cow<'_, str> {
    let bad = |letter: char| letter != '\n' && (letter.is_control() || misleads(letter));
    if !json.contains(bad) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if bad(letter) {
            use std::fmt::Write;
            for unit in letter.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(letter);
        }
    }
    Cow::Owned(escaped)
}

/// Characters that change how the text around them reads: bidirectional controls, line and
/// paragraph separators, invisible tags and fillers.
fn misleads(letter: char) -> bool {
    matches!(letter,
        '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180E}' | '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

/// One line of at most `max_chars` characters; white space is folded and an ellipsis marks the cut.
#[must_use]
pub fn shorten(text: &str, max_chars: usize) -> String {
    let clean = sanitize(text.as_bytes());
    let mut line = String::new();
    let mut length = 0;
    for word in clean.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += word.chars().count();
        if length > max_chars {
            break;
        }
    }
    if length <= max_chars {
        return line;
    }
    let mut cut: String = line.chars().take(max_chars.saturating_sub(1)).collect();
    cut.truncate(cut.trim_end().len());
    if max_chars > 0 {
        cut.push('…');
    }
    cut
}

/// The last `max_bytes` of a text, cut at a character.
#[must_use]
pub(crate) fn last_bytes(text: &str, max_bytes: usize) -> &str {
    let mut from = text.len().saturating_sub(max_bytes);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

/// The first `max_bytes` of a text, cut at a character.
#[must_use]
pub(crate) fn first_bytes(text: &str, max_bytes: usize) -> &str {
    let mut to = text.len().min(max_bytes);
    while !text.is_char_boundary(to) {
        to -= 1;
    }
    &text[..to]
}

/// An argument as a shell would read it back: bare where that is safe, in single quotes otherwise.
#[must_use]
pub fn quote(arg: &[u8]) -> String {
    let text = String::from_utf8_lossy(arg);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"%+,-./:=@_^".contains(&byte);
    // `=` in a first word would make it an assignment and `~` is expanded; neither is bare at the start.
    if !text.is_empty() && text.bytes().all(is_plain) && !text.starts_with('=') {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The arguments of a command as one line of shell text.
pub(crate) fn quote_all<T: AsRef<[u8]>>(args: impl IntoIterator<Item = T>) -> String {
    let words: Vec<String> = args.into_iter().map(|arg| quote(arg.as_ref())).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::generated::cases;

    #[test]
    fn sanitized() {
        for (bytes, clean) in [
            (&b"plain\n\ttext"[..], "plain\n\ttext"),
            (b"\x1b[31mred\x1b[0m", "red"),
            (b"\x1b]52;c;ZXZpbA==\x07x", "x"),
            (b"\x1b]0;title\x1b\\x", "x"),
            (b"\x1bPq#0;2\x1b\\x", "x"),
            (b"a\x00b\x08c\x7fd", "abcd"),
            (b"50%\r100%\r\n", "50%\n100%\n"),
            (b"a\r\r\nb\r", "a\nb"),
            ("a\u{9b}31mb".as_bytes(), "ab"),
            ("a\u{85}b\u{90}x\u{9c}c".as_bytes(), "abc"),
            ("\u{202e}evil\u{2028}".as_bytes(), "<U+202E>evil<U+2028>"),
            (
                "\u{200b}\u{feff}\u{e0041}".as_bytes(),
                "<U+200B><U+FEFF><U+E0041>",
            ),
            (b"\xff\xfeok\xc3", "\u{fffd}\u{fffd}ok\u{fffd}"),
            ("naïve 日本 🦀".as_bytes(), "naïve 日本 🦀"),
            (b"cut \x1b[3", "cut "),
        ] {
            assert_eq!(sanitize(bytes), clean, "{bytes:?}");
        }
    }

    proptest! {
        #![proptest_config(cases(2000))]

        #[test]
        fn nothing_dangerous_survives_any_bytes(bytes in vec(byte(), 0..=64)) {
            let dangerous = |c: char| (c.is_control() || misleads(c)) && !"\n\t".contains(c);
            prop_assert!(!sanitize(&bytes).contains(dangerous), "{bytes:?}");
        }
    }

    /// Any byte, and often one that belongs to an escape sequence.
    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![4 => any::<u8>(), 1 => select(&b"\x1b[]P\\\x07\x9b\xc2;m"[..])]
    }

    #[test]
    fn json_says_the_same_without_controls() {
        let text = "a\n\u{7f}\u{9b}\u{202e}\u{e0041}\u{1b}é";
        let json = serde_json::to_string(text).unwrap();
        let escaped = escape_json(&json);
        assert_eq!(escaped, r#""a\n\u007f\u009b\u202e\udb40\udc41\u001bé""#);
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        assert_eq!(escape_json("{\n  \"a\": 1\n}"), "{\n  \"a\": 1\n}");
    }

    #[test]
    fn shortened() {
        for (text, max, line) in [
            ("npm run dev", 20, "npm run dev"),
            ("a\n  b\tc", 20, "a b c"),
            ("0123456789", 5, "0123…"),
            ("ab cdef", 4, "ab…"),
            ("日本語テキスト", 4, "日本語…"),
            ("", 4, ""),
            ("abc", 0, ""),
            ("abc", 3, "abc"),
        ] {
            assert_eq!(shorten(text, max), line, "{text} {max}");
        }
        assert_eq!(last_bytes("aé", 1), "");
        assert_eq!(last_bytes("aé", 2), "é");
        assert_eq!(first_bytes("éa", 1), "");
        assert_eq!(first_bytes("éa", 9), "éa");
    }

    #[test]
    fn quoted_only_where_needed() {
        for (arg, text) in [
            (&b"npm"[..], "npm"),
            (b"--port=80", "--port=80"),
            (b"a b", "'a b'"),
            (b"", "''"),
            (b"it's", r"'it'\''s'"),
            (b"$HOME", "'$HOME'"),
            (b"*", "'*'"),
            (b"~/x", "'~/x'"),
            (b"=x", "'=x'"),
            (b"a\nb", "'a\nb'"),
            (b"#x", "'#x'"),
            ("é".as_bytes(), "'é'"),
        ] {
            assert_eq!(quote(arg), text);
        }
        assert_eq!(quote_all(["sh", "-c", "a b"]), "sh -c 'a b'");
    }
}

//! Takes terminal sequences out of a stream, byte by byte, wherever the reads happen to cut it.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and intermediate bytes, as in a charset selection `ESC ( B`.
    Intermediate,
    /// In `ESC [ …`, until a final byte.
    Control,
    /// In OSC, DCS, SOS, PM or APC, until BEL (OSC only), ST, CAN or SUB.
    String { bell_ends: bool },
    /// In such a string, after ESC: a backslash ends it.
    StringEscape { bell_ends: bool },
    /// In such a string, after 0xC2: 0x9C ends it (ST as UTF-8).
    StringWide { bell_ends: bool },
    /// After 0xC2 in text: 0x80–0x9F make it a C1 control.
    Wide,
}

/// The longest string sequence that is swallowed: a stray ESC P must not eat all that follows.
const LONGEST: u32 = 1 << 20;

/// Removes CSI, OSC, DCS and the other sequences, keeps every other byte as it is, UTF-8 or not.
#[derive(Clone, Debug, Default)]
pub(crate) struct StripEscapes {
    place: Place,
    swallowed: u32,
}

impl StripEscapes {
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Appends to `out` what of `bytes` is text. A sequence may go on in the next call.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.place == Place::Text {
                let text = rest
                    .iter()
                    .position(|&byte| byte == 0x1b || byte == 0xc2)
                    .unwrap_or(rest.len());
                out.extend_from_slice(&rest[..text]);
                rest = &rest[text..];
            }
            if let Some((&byte, after)) = rest.split_first() {
                rest = after;
                self.step(byte, out);
            }
        }
    }

    fn step(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.place = match (self.place, byte) {
            // CAN and SUB cancel any sequence; ESC begins a new one.
            (Place::Text | Place::Wide, 0x18 | 0x1a) => self.text(byte, out),
            (_, 0x18 | 0x1a) => Place::Text,
            (Place::String { bell_ends }, 0x1b) => Place::StringEscape { bell_ends },
            (Place::Wide, 0x1b) => {
                out.push(0xc2);
                Place::Escape
            }
            (_, 0x1b) => Place::Escape,
            (Place::Text, 0xc2) => Place::Wide,
            (Place::Text, _) => self.text(byte, out),
            (Place::Wide, 0x9b) => Place::Control,
            (Place::Wide, 0x90 | 0x98 | 0x9e | 0x9f) => self.string(false),
            (Place::Wide, 0x9d) => self.string(true),
            (Place::Wide, 0xc2) => {
                out.push(0xc2);
                Place::Wide
            }
            (Place::Wide, _) => self.text(byte, out),
            (Place::Escape, b'[') => Place::Control,
            (Place::Escape, b']') => self.string(true),
            (Place::Escape, b'P' | b'X' | b'^' | b'_') => self.string(false),
            (Place::Escape | Place::Intermediate, 0x20..=0x2f) => Place::Intermediate,
            (Place::Escape | Place::Intermediate, 0x30..=0x7e) => Place::Text,
            (Place::Control, 0x20..=0x3f) => self.swallow(Place::Control),
            (Place::Control, 0x40..=0x7e) => Place::Text,
            // A terminal obeys C0 controls in the middle of a sequence and then goes on with it.
            (place @ (Place::Escape | Place::Intermediate | Place::Control), 0..=0x1f) => {
                out.push(byte);
                place
            }
            (place @ (Place::Escape | Place::Intermediate | Place::Control), 0x7f) => place,
            // No sequence holds such a byte: it was none, and this is text again.
            (Place::Escape | Place::Intermediate | Place::Control, 0xc2) => Place::Wide,
            (Place::Escape | Place::Intermediate | Place::Control, _) => self.text(byte, out),
            (Place::StringEscape { .. }, b'\\') => Place::Text,
            // Any other ESC in a string ends it and begins a sequence of its own.
            (Place::StringEscape { .. }, _) => {
                self.place = Place::Escape;
                self.step(byte, out);
                return;
            }
            (Place::String { bell_ends: true } | Place::StringWide { bell_ends: true }, 0x07) => {
                Place::Text
            }
            (Place::StringWide { .. }, 0x9c) => Place::Text,
            (Place::String { bell_ends } | Place::StringWide { bell_ends }, 0xc2) => {
                self.swallow(Place::StringWide { bell_ends })
            }
            (Place::String { bell_ends } | Place::StringWide { bell_ends }, _) => {
                self.swallow(Place::String { bell_ends })
            }
        };
    }

    /// Writes what was held back, and the byte.
    fn text(&mut self, byte: u8, out: &mut Vec<u8>) -> Place {
        if self.place == Place::Wide {
            out.push(0xc2);
        }
        out.push(byte);
        Place::Text
    }

    fn string(&mut self, bell_ends: bool) -> Place {
        self.swallowed = 0;
        Place::String { bell_ends }
    }

    fn swallow(&mut self, place: Place) -> Place {
        self.swallowed += 1;
        if self.swallowed < LONGEST {
            return place;
        }
        self.swallowed = 0;
        Place::Text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: &[(&[u8], &[u8])] = &[
        (b"plain", b"plain"),
        (b"\x1b[1;31mred\x1b[m", b"red"),
        (b"\x1b[?25l\x1b[2J\x1b[Hx", b"x"),
        (b"\x1b(Bx\x1b)0y\x1b7z\x1b=", b"xyz"),
        (b"a\x1b]8;;http://x\x1b\\link\x1b]8;;\x07b", b"alinkb"),
        (b"\x1b]52;c;AAAA\x07after", b"after"),
        (b"\x1bP1$r0m\x1b\\after\x1b_Gq\x1b\\!", b"after!"),
        (b"\x1bP bell \x07 stays \x1b\\x", b"x"),
        (b"\x1b^pm\x1b\\\x1bXsos\x1b\\x", b"x"),
        (b"\xc2\x9b31mred", b"red"),
        (b"\xc2\x9d0;t\xc2\x9cx", b"x"),
        (b"\xc2\xa9 2026 \xc3\xa9", b"\xc2\xa9 2026 \xc3\xa9"),
        (b"\xc2\xc2\xa9\xc2\x1b[mx", b"\xc2\xc2\xa9\xc2x"),
        (b"\x1b]0;abc\x18text", b"text"),
        (b"\x1b[31\x1b[32mx", b"x"),
        (b"\x1b[3\n1mx", b"\nx"),
        (b"\x1b]0;t\x1b[31mx", b"x"),
        (b"\xff\x00\x80\x9b31m\r\n", b"\xff\x00\x80\x9b31m\r\n"),
        (b"\x1b[\xffx", b"\xffx"),
        (b"\x1b\x1b[mx", b"x"),
    ];

    #[test]
    fn sequences_go_and_bytes_stay_wherever_the_cuts_are() {
        for (bytes, text) in CASES {
            for chunk in 1..=bytes.len() {
                let (mut strip, mut out) = (StripEscapes::new(), Vec::new());
                for piece in bytes.chunks(chunk) {
                    strip.push(piece, &mut out);
                }
                assert_eq!(
                    out,
                    *text,
                    "{:?} in pieces of {chunk}",
                    bytes.escape_ascii().to_string()
                );
            }
        }
    }

    #[test]
    fn an_unfinished_string_does_not_eat_for_ever() {
        let (mut strip, mut out) = (StripEscapes::new(), Vec::new());
        strip.push(b"\x1bP", &mut out);
        for _ in 0..40 {
            strip.push(&[b'x'; 64 * 1024], &mut out);
        }
        assert!(!out.is_empty());
    }
}

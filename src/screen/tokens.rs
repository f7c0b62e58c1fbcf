//! Cuts a stream into text and terminal sequences, wherever the reads happen to cut it.
//!
//! What comes out is valid UTF-8, C1 controls are written the seven-bit way, and the sequences that
//! carry strings (OSC, DCS, APC, PM, SOS) are gone: no picture, title or clipboard is for us. So the
//! parsers behind see only short and well-formed input, and none can be made to buffer without end.

/// A piece of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Letters and C0 controls; no ESC, no C1.
    Text(&'a str),
    /// One whole sequence that begins with ESC.
    Sequence(&'a [u8]),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Text,
    /// In a sequence; its bytes so far are in `held`.
    Sequence,
    /// In a string, which only ends.
    String(Kind),
    /// In a string, after ESC: a backslash ends it, anything else begins a new sequence.
    StringEscape,
    /// In a string, after 0xC2: 0x9C ends it (ST as UTF-8).
    StringWide(Kind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// BEL ends it too.
    Osc,
    Other,
    /// Before the byte that says what a DCS is.
    Dcs,
    /// A sixel picture: the one kind that may hold newlines.
    Picture,
}

/// No sequence that means anything is longer.
const LONGEST_SEQUENCE: usize = 128;
/// How far text is looked ahead, and how often that is doubled.
const LEAST_STEP: usize = 64;
const STEPS: u32 = 8;
/// The longest string that is swallowed: a stray ESC P must not eat all that follows.
const LONGEST_STRING: u32 = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Tokens {
    place: Place,
    /// The beginning of a sequence, or of a character.
    held: Vec<u8>,
    swallowed: u32,
    steps: u32,
}

impl Tokens {
    /// Calls `take` with each piece. A sequence or character may go on in the next call.
    pub(super) fn push(&mut self, bytes: &[u8], mut take: impl FnMut(Piece)) {
        let mut at = 0;
        while at < bytes.len() {
            if self.place == Place::Text {
                at += self.text(&bytes[at..], &mut take);
            } else {
                self.step(bytes[at], &mut take);
                at += 1;
            }
        }
    }

    /// Gives up what was begun: the next byte begins anew.
    pub(super) fn reset(&mut self, mut take: impl FnMut(Piece)) {
        if self.place == Place::Text && !self.held.is_empty() {
            take(Piece::Text("\u{fffd}"));
        }
        *self = Self::default();
    }

    /// Reads text up to the next sequence; gives how many bytes were used, at least one.
    fn text(&mut self, bytes: &[u8], take: &mut impl FnMut(Piece)) -> usize {
        if !self.held.is_empty() {
            return self.rest_of_character(bytes[0], take);
        }
        // In steps that grow: what is looked at in vain has to be looked at again.
        let near = &bytes[..bytes.len().min(LEAST_STEP << self.steps)];
        self.steps = (self.steps + 1).min(STEPS);
        let end = memchr::memchr(0x1b, near);
        let run = &near[..end.unwrap_or(near.len())];
        if run.is_empty() {
            self.begin(b"\x1b");
            return 1;
        }
        let mut used = 0;
        for chunk in run.utf8_chunks() {
            let mut text = chunk.valid();
            while let Some((before, control)) = first_c1(text) {
                give(before, take);
                self.c1(control, take);
                used += before.len() + 2;
                text = &text[before.len() + 2..];
                if self.place != Place::Text {
                    self.steps = 0;
                    return used;
                }
            }
            give(text, take);
            used += text.len();
            let bad = chunk.invalid();
            used += bad.len();
            let cut = used == run.len() && end.is_none();
            if cut && std::str::from_utf8(bad).is_err_and(|error| error.error_len().is_none()) {
                self.held.extend(bad);
            } else if !bad.is_empty() {
                take(Piece::Text("\u{fffd}"));
            }
        }
        used
    }

    /// Adds to the character that the last read ended in. Gives how many bytes were used.
    fn rest_of_character(&mut self, byte: u8, take: &mut impl FnMut(Piece)) -> usize {
        self.held.push(byte);
        let mut held = std::mem::take(&mut self.held);
        match std::str::from_utf8(&held) {
            Ok(text) => {
                match first_c1(text) {
                    Some((_, control)) => self.c1(control, take),
                    None => take(Piece::Text(text)),
                }
                1
            }
            Err(error) if error.error_len().is_none() => {
                self.held = held;
                1
            }
            // This byte belongs to something else.
            Err(_) => {
                held.clear();
                take(Piece::Text("\u{fffd}"));
                0
            }
        }
    }

    fn begin(&mut self, bytes: &[u8]) {
        self.held.clear();
        self.held.extend(bytes);
        self.place = Place::Sequence;
    }

    fn c1(&mut self, control: u8, take: &mut impl FnMut(Piece)) {
        match control {
            0x9b => self.begin(b"\x1b["),
            0x9d => self.string(Kind::Osc),
            0x90 => self.string(Kind::Dcs),
            0x98 | 0x9e | 0x9f => self.string(Kind::Other),
            0x84 => take(Piece::Sequence(b"\x1bD")),
            0x85 => take(Piece::Sequence(b"\x1bE")),
            0x8d => take(Piece::Sequence(b"\x1bM")),
            _ => {}
        }
    }

    fn string(&mut self, kind: Kind) {
        self.held.clear();
        self.swallowed = 0;
        self.place = Place::String(kind);
    }

    fn step(&mut self, byte: u8, take: &mut impl FnMut(Piece)) {
        match self.place {
            Place::Text => {}
            Place::Sequence => self.in_sequence(byte, take),
            Place::String(kind) => self.in_string(kind, byte, take),
            Place::StringWide(_) if byte == 0x9c => self.place = Place::Text,
            Place::StringWide(kind) => self.in_string(kind, byte, take),
            Place::StringEscape if byte == b'\\' => self.place = Place::Text,
            Place::StringEscape => {
                self.begin(b"\x1b");
                self.in_sequence(byte, take);
            }
        }
    }

    fn in_sequence(&mut self, byte: u8, take: &mut impl FnMut(Piece)) {
        let csi = self.held.get(1) == Some(&b'[');
        let first = self.held.len() == 1;
        match byte {
            // CAN and SUB cancel it; ESC begins a new one.
            0x18 | 0x1a => self.over(),
            0x1b => self.begin(b"\x1b"),
            // No program writes a newline there: the sequence was cut off.
            b'\n' => {
                self.over();
                take(Piece::Text("\n"));
            }
            // A terminal applies C0 controls in the middle of a sequence and then goes on with it.
            0..=0x1f => take(Piece::Text(
                std::str::from_utf8(&[byte]).unwrap_or_default(),
            )),
            0x7f => {}
            b']' if first => self.string(Kind::Osc),
            b'P' if first => self.string(Kind::Dcs),
            b'X' | b'^' | b'_' if first => self.string(Kind::Other),
            b'[' if first => self.held.push(byte),
            0x20..=0x2f => self.hold(byte),
            0x30..=0x3f if csi => self.hold(byte),
            0x30..=0x7e => {
                if self.held.len() < LONGEST_SEQUENCE {
                    self.held.push(byte);
                    take(Piece::Sequence(&self.held));
                }
                self.over();
            }
            // No sequence holds such a byte: it was none, and this is text again.
            0x80.. => {
                self.over();
                self.held.push(byte);
                // A byte that begins no character is bad at once.
                if !matches!(byte, 0xc2..=0xf4) {
                    self.held.clear();
                    take(Piece::Text("\u{fffd}"));
                }
            }
        }
    }

    /// One that is too long is still read to its end, and then means nothing.
    fn hold(&mut self, byte: u8) {
        if self.held.len() < LONGEST_SEQUENCE {
            self.held.push(byte);
        }
    }

    fn over(&mut self) {
        self.held.clear();
        self.place = Place::Text;
    }

    fn in_string(&mut self, kind: Kind, byte: u8, take: &mut impl FnMut(Piece)) {
        self.swallowed += 1;
        self.place = match (kind, byte) {
            (_, 0x18 | 0x1a) => Place::Text,
            (_, 0x1b) => Place::StringEscape,
            (Kind::Osc, 0x07) => Place::Text,
            // A terminal would swallow the rest of the output; a newline is the better guess.
            (Kind::Osc | Kind::Dcs | Kind::Other, b'\n') => {
                self.place = Place::Text;
                take(Piece::Text("\n"));
                return;
            }
            _ if self.swallowed >= LONGEST_STRING => Place::Text,
            (Kind::Dcs, b'0'..=b'9' | b';') => Place::String(Kind::Dcs),
            (Kind::Dcs, b'q') => Place::String(Kind::Picture),
            (Kind::Dcs, _) => Place::String(Kind::Other),
            (_, 0xc2) => Place::StringWide(kind),
            _ => Place::String(kind),
        };
    }
}

fn give(text: &str, take: &mut impl FnMut(Piece)) {
    if !text.is_empty() {
        take(Piece::Text(text));
    }
}

/// The first C1 control, with the text before it.
fn first_c1(text: &str) -> Option<(&str, u8)> {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(place) = memchr::memchr(0xc2, &bytes[from..]) {
        let at = from + place;
        match bytes.get(at + 1) {
            Some(&control @ 0x80..=0x9f) => return Some((&text[..at], control)),
            _ => from = at + 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sequences in angle brackets, without their ESC.
    fn pieces(chunks: &[&[u8]]) -> String {
        let (mut tokens, mut out) = (Tokens::default(), String::new());
        for chunk in chunks {
            tokens.push(chunk, |piece| match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Sequence(bytes) => {
                    out.push('<');
                    out.push_str(std::str::from_utf8(&bytes[1..]).unwrap());
                    out.push('>');
                }
            });
        }
        tokens.reset(|piece| match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Sequence(_) => panic!("a sequence that was never ended"),
        });
        out
    }

    const CASES: &[(&[u8], &str)] = &[
        (b"plain\r\n", "plain\r\n"),
        (b"\x1b[1;31mred\x1b[m", "<[1;31m>red<[m>"),
        (b"\x1b[?25l\x1b[2J\x1b[Hx", "<[?25l><[2J><[H>x"),
        (b"\x1b(Bx\x1b7y\x1b=", "<(B>x<7>y<=>"),
        (b"a\x1b]8;;http://x\x1b\\link\x1b]8;;\x07b", "alinkb"),
        (b"\x1b]52;c;AAAA\x07after", "after"),
        (b"\x1bP1$r0m\x1b\\after\x1b_Gq\x1b\\!", "after!"),
        (b"\x1bP bell \x07 stays \x1b\\x", "x"),
        (b"\x1bPq#0;2\n#1~~\n\x1b\\x", "x"),
        (b"\x1b^pm\x1b\\\x1bXsos\x1b\\x", "x"),
        (b"\xc2\x9b31mred", "<[31m>red"),
        (b"\xc2\x9d0;t\xc2\x9cx", "x"),
        (b"a\xc2\x85b\xc2\x81c", "a<E>bc"),
        ("© 2026 é 漢 🦀".as_bytes(), "© 2026 é 漢 🦀"),
        (b"\x1b]0;abc\x18text", "text"),
        (b"\x1b[31\x1b[32mx", "<[32m>x"),
        (b"\x1b[3\r1mx", "\r<[31m>x"),
        (b"cut \x1b[31\nthe next", "cut \nthe next"),
        (b"\x1b]0;t\x1b[31mx", "<[31m>x"),
        (b"\xff\x80\x9b31m", "\u{fffd}\u{fffd}\u{fffd}31m"),
        (
            b"\xc0\xafx\xe2\x82\x1b[mx",
            "\u{fffd}\u{fffd}x\u{fffd}<[m>x",
        ),
        (b"\x1b[\xffx", "\u{fffd}x"),
        ("\x1b[é".as_bytes(), "é"),
        (b"\x1b\x1b[mx", "<[m>x"),
        (b"open \x1b]0;never ends\nnext\n", "open \nnext\n"),
        (b"cut \x1b[12", "cut "),
        (b"cut \xe6\xbc", "cut \u{fffd}"),
    ];

    #[test]
    fn cut_anywhere() {
        for (bytes, wanted) in CASES {
            for size in 1..=bytes.len() {
                let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
                let shown = bytes.escape_ascii().to_string();
                assert_eq!(pieces(&chunks), *wanted, "{shown} in pieces of {size}");
            }
        }
    }

    #[test]
    fn no_string_and_no_sequence_lasts_for_ever() {
        for begin in ["\x1bPq", "\x1b_", "\x1b]", "\x1b["] {
            let mut all = begin.as_bytes().to_vec();
            all.extend(vec![b'1'; 3 << 20]);
            all.extend(b"\x18 and text");
            let out = pieces(&[&all]);
            assert!(out.ends_with(" and text"), "{begin:?}");
        }
        let mut tokens = Tokens::default();
        tokens.push(&vec![0x1b; 1 << 20], |_| {});
        tokens.push(b"[", |_| {});
        tokens.push(&vec![b';'; 1 << 20], |_| {});
        assert!(tokens.held.capacity() < 1024);
    }
}

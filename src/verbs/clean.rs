//! A transcript as a person would have read it, line by line: bytes in, clean lines out.
//!
//! Carriage returns, backspaces and the sequences that move or erase within a line are obeyed, so
//! that a progress bar leaves what it said last; all other sequences are dropped. What moves between
//! lines needs a whole screen and is not emulated. Streaming: sequences and characters may be split
//! over pushes. Pure.

use std::mem;

use crate::text;

/// A line that is longer is given out in parts, so that a stream without newlines stays in bounds.
const LONGEST_LINE: usize = 1 << 20;
/// A column that a sequence may ask for; a terminal would not be wider.
const LAST_COLUMN: usize = 4096;
/// Numbers of a sequence that are kept.
const LONGEST_CSI: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Clean {
    /// What the line shows; a cell is one character, with its bytes as they came.
    cells: Vec<Cell>,
    column: usize,
    mode: Mode,
    /// The bytes of the character or sequence that is not complete yet.
    pending: Vec<u8>,
}

/// One character's UTF-8, or one bad byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    bytes: [u8; 4],
    length: u8,
}

const BLANK: Cell = Cell {
    bytes: [b' ', 0, 0, 0],
    length: 1,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte: one final byte follows.
    Charset,
    /// `ESC [`, until a final byte.
    Csi,
    /// OSC, DCS, SOS, PM, APC: until BEL or ST.
    String,
    /// ESC within such a string.
    StringEscape,
}

impl Clean {
    /// Reads on, and calls `line` with each line that is complete, without its newline.
    pub(crate) fn push(&mut self, bytes: &[u8], mut line: impl FnMut(String)) {
        for &byte in bytes {
            self.byte(byte, &mut line);
        }
    }

    /// The last line, if it did not end with a newline.
    pub(crate) fn finish(&mut self) -> Option<String> {
        if self.mode == Mode::Text {
            self.flush_character();
        }
        (!self.cells.is_empty()).then(|| self.take_line())
    }

    fn byte(&mut self, byte: u8, line: &mut impl FnMut(String)) {
        match self.mode {
            Mode::Text => self.text(byte, line),
            Mode::Escape => self.escape(byte, line),
            Mode::Charset => match byte {
                0x20..=0x2f => {}
                _ => self.mode = Mode::Text,
            },
            Mode::Csi => self.csi(byte, line),
            Mode::String => match byte {
                0x07 | 0x18 | 0x1a => self.mode = Mode::Text,
                0x1b => self.mode = Mode::StringEscape,
                // A terminal would swallow the rest of the output; a newline is the better guess.
                b'\n' => {
                    self.mode = Mode::Text;
                    self.text(byte, line);
                }
                _ => {}
            },
            Mode::StringEscape => {
                self.mode = Mode::Escape;
                if byte == b'\\' {
                    self.mode = Mode::Text;
                } else {
                    self.escape(byte, line);
                }
            }
        }
    }

    fn text(&mut self, byte: u8, line: &mut impl FnMut(String)) {
        if byte & 0xc0 == 0x80 && !self.pending.is_empty() {
            self.pending.push(byte);
            if self.pending.len() >= character_length(self.pending[0]) {
                self.flush_character();
            }
            return;
        }
        self.flush_character();
        match byte {
            b'\n' => line(self.take_line()),
            b'\r' => self.column = 0,
            0x08 => self.column = self.column.saturating_sub(1),
            0x1b => self.mode = Mode::Escape,
            b'\t' | 0x20..=0x7e => self.put(&[byte]),
            0x00..=0x1f | 0x7f => {}
            _ if character_length(byte) > 1 => self.pending.push(byte),
            _ => self.put(&[byte]),
        }
        if self.cells.len() >= LONGEST_LINE {
            line(self.take_line());
        }
    }

    fn escape(&mut self, byte: u8, line: &mut impl FnMut(String)) {
        self.mode = match byte {
            b'[' => Mode::Csi,
            b']' | b'P' | b'X' | b'^' | b'_' => Mode::String,
            0x20..=0x2f => Mode::Charset,
            0x1b => Mode::Escape,
            _ => Mode::Text,
        };
        if byte == b'\n' {
            self.text(byte, line);
        }
    }

    fn csi(&mut self, byte: u8, line: &mut impl FnMut(String)) {
        match byte {
            0x20..=0x3f => {
                if self.pending.len() < LONGEST_CSI {
                    self.pending.push(byte);
                }
            }
            0x40..=0x7e => {
                self.mode = Mode::Text;
                let numbers = mem::take(&mut self.pending);
                self.obey(byte, &numbers);
            }
            0x1b => {
                self.pending.clear();
                self.mode = Mode::Escape;
            }
            b'\n' => {
                self.pending.clear();
                self.mode = Mode::Text;
                self.text(byte, line);
            }
            _ => {
                self.pending.clear();
                self.mode = Mode::Text;
            }
        }
    }

    fn obey(&mut self, last: u8, numbers: &[u8]) {
        let first = numbers.split(|&byte| byte == b';').next().unwrap_or(&[]);
        let number = |default: usize| match std::str::from_utf8(first) {
            Ok("") => Some(default),
            Ok(digits) => digits.parse::<usize>().ok().map(|n| n.min(LAST_COLUMN)),
            Err(_) => None,
        };
        match last {
            b'K' => match number(0) {
                Some(0) => self.cells.truncate(self.column),
                Some(1) => {
                    let end = self.cells.len().min(self.column + 1);
                    self.cells[..end].fill(BLANK);
                }
                Some(2) => self.cells.clear(),
                _ => {}
            },
            // Erasing the screen erases this line of it.
            b'J' => match number(0) {
                Some(0) => self.cells.truncate(self.column),
                Some(2 | 3) => self.cells.clear(),
                _ => {}
            },
            b'G' | b'`' => {
                if let Some(column) = number(1) {
                    self.column = column.saturating_sub(1);
                }
            }
            b'C' => self.column = (self.column + number(1).unwrap_or(0).max(1)).min(LAST_COLUMN),
            b'D' => self.column = self.column.saturating_sub(number(1).unwrap_or(0).max(1)),
            b'P' => {
                let start = self.cells.len().min(self.column);
                let end = self.cells.len().min(start + number(1).unwrap_or(0).max(1));
                self.cells.drain(start..end);
            }
            _ => {}
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        let mut cell = Cell {
            bytes: [0; 4],
            length: bytes.len() as u8,
        };
        cell.bytes[..bytes.len()].copy_from_slice(bytes);
        if self.column > self.cells.len() {
            self.cells.resize(self.column, BLANK);
        }
        match self.cells.get_mut(self.column) {
            Some(place) => *place = cell,
            None => self.cells.push(cell),
        }
        self.column += 1;
    }

    /// Places the bytes of a character as one cell; a broken one as single bytes.
    fn flush_character(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let bytes = mem::take(&mut self.pending);
        if std::str::from_utf8(&bytes).is_ok() {
            self.put(&bytes);
        } else {
            bytes.iter().for_each(|&byte| self.put(&[byte]));
        }
    }

    fn take_line(&mut self) -> String {
        let bytes: Vec<u8> = self
            .cells
            .iter()
            .flat_map(|cell| &cell.bytes[..usize::from(cell.length)])
            .copied()
            .collect();
        self.cells.clear();
        self.column = 0;
        text::sanitize(&bytes)
    }
}

fn character_length(lead: u8) -> usize {
    match lead {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(chunks: &[&[u8]]) -> Vec<String> {
        let mut clean = Clean::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            clean.push(chunk, |line| lines.push(line));
        }
        lines.extend(clean.finish());
        lines
    }

    const CASES: &[(&str, &[&str])] = &[
        ("", &[]),
        ("a\nb\n", &["a", "b"]),
        ("a\r\nb\r\n", &["a", "b"]),
        ("no newline", &["no newline"]),
        ("\n\n", &["", ""]),
        ("10%\r50%\r100%\n", &["100%"]),
        ("abcdef\rxy\n", &["xycdef"]),
        ("Downloading 90%\r\x1b[Kdone\n", &["done"]),
        ("\x1b[2K\x1b[1Gstep 1\x1b[2K\x1b[1Gstep 2\n", &["step 2"]),
        ("\x1b[1;32mok\x1b[0m\n", &["ok"]),
        ("ab\x08c\n", &["ac"]),
        ("a\x1b[3Cb\n", &["a   b"]),
        ("\x1b]0;title\x07text\n", &["text"]),
        ("\x1b]52;c;aGk=\x1b\\text\n", &["text"]),
        ("\x1bPq#0\x1b\\text\n", &["text"]),
        ("\x1b(Btext\n", &["text"]),
        ("\x1b[38;5;12mé\x1b[m漢\n", &["é漢"]),
        ("tab\there\n", &["tab\there"]),
        ("bell\x07\x00\x0c\n", &["bell"]),
        ("open \x1b]0;never ends\nnext\n", &["open ", "next"]),
        ("cut \x1b[12", &["cut "]),
        ("spinner |\x08/\x08-\x08\\\r\x1b[0Kend\n", &["end"]),
    ];

    #[test]
    fn lines_as_a_person_saw_them() {
        for (input, wanted) in CASES {
            assert_eq!(clean(&[input.as_bytes()]), *wanted, "{input:?}");
        }
    }

    #[test]
    fn any_split_gives_the_same() {
        for (input, wanted) in CASES {
            let bytes: Vec<&[u8]> = input.as_bytes().chunks(1).collect();
            assert_eq!(clean(&bytes), *wanted, "{input:?}");
        }
    }

    #[test]
    fn no_control_byte_survives() {
        let every: Vec<u8> = (0..=255).chain(0..=255).collect();
        for line in clean(&[&every]) {
            let bad = |c: char| c.is_control() && c != '\t';
            assert!(!line.contains(bad), "{line:?}");
        }
    }

    #[test]
    fn a_stream_without_newlines_is_given_out_in_parts() {
        let flood = vec![b'x'; LONGEST_LINE * 2 + 1];
        let lengths: Vec<_> = clean(&[&flood]).iter().map(String::len).collect();
        assert_eq!(lengths, [LONGEST_LINE, LONGEST_LINE, 1]);
    }
}

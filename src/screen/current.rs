//! The screen as it stands: for those who look at a job now, in colour and with its cursor.

use std::num::NonZeroU16;

use super::tokens::{Piece, Tokens};
use crate::text;

/// A thousand rows of a thousand columns.
const MOST_CELLS: u32 = 1 << 20;

/// A terminal's screen that a job's bytes are drawn on.
///
/// Nothing that could answer, name a window or reach a clipboard gets in, and characters that
/// reorder or hide text are replaced: whatever comes out is safe to show.
pub struct Screen {
    tokens: Tokens,
    parser: vt100::Parser,
}

impl Screen {
    #[must_use]
    pub fn new(rows: u16, columns: u16) -> Self {
        let (rows, columns) = bounded(rows, columns);
        Self {
            tokens: Tokens::default(),
            parser: vt100::Parser::new(rows, columns, 0),
        }
    }

    pub fn resize(&mut self, rows: u16, columns: u16) {
        let (rows, columns) = bounded(rows, columns);
        self.parser.set_size(rows, columns);
    }

    /// Rows and columns.
    #[must_use]
    pub fn size(&self) -> (u16, u16) {
        let (rows, columns) = self.parser.screen().size();
        (rows.get(), columns.get())
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let Self { tokens, parser } = self;
        tokens.push(bytes, |piece| match piece {
            Piece::Text(text) => draw(parser, text),
            Piece::Sequence(bytes) => parser.process(bytes),
        });
    }

    /// What stands on it, without the empty rows at its end. A newline after each row; a line that
    /// did not fit into one is whole.
    #[must_use]
    pub fn text(&self) -> String {
        let contents = self.parser.screen().contents();
        let lines = contents.lines().map(|line| {
            let mut line = text::sanitize_line(line).trim_end().to_owned();
            line.push('\n');
            line
        });
        let all: String = lines.collect();
        let end = all.trim_end_matches('\n').len();
        all[..all.len().min(end + 1)].to_owned()
    }

    /// The bytes that draw it anew on a terminal of the same size: contents, colours, cursor, and the
    /// modes that decide what keys send.
    #[must_use]
    pub fn formatted(&self) -> Vec<u8> {
        self.parser.screen().state_formatted().into_bytes()
    }

    /// Row and column of the cursor, from 0.
    #[must_use]
    pub fn cursor(&self) -> (u16, u16) {
        self.parser.screen().cursor_position()
    }

    #[must_use]
    pub fn cursor_is_hidden(&self) -> bool {
        self.parser.screen().hide_cursor()
    }

    /// Whether a full-screen program has it.
    #[must_use]
    pub fn is_full_screen(&self) -> bool {
        self.parser.screen().alternate_screen()
    }

    /// Cell by cell, for those who draw with colours of their own.
    #[must_use]
    pub fn cells(&self) -> &vt100::Screen {
        self.parser.screen()
    }
}

/// A newline also returns to the first column, for a job's terminal does not translate it. Not so
/// for a full-screen program that takes keys: it has set up its terminal, and means down.
fn draw(parser: &mut vt100::Parser, text: &str) {
    let screen = parser.screen();
    let raw =
        screen.alternate_screen() && (screen.application_keypad() || screen.application_cursor());
    let safe = text::replace_misleading(text);
    if raw {
        parser.process(safe.as_bytes());
        return;
    }
    for (number, line) in safe.split('\n').enumerate() {
        if number > 0 {
            parser.process(b"\r\n");
        }
        parser.process(line.as_bytes());
    }
}

/// A size that can be kept in memory, whatever a job's terminal, or a file, says: each cell of it is made at
/// once, twice.
fn bounded(rows: u16, columns: u16) -> (NonZeroU16, NonZeroU16) {
    let columns = at_least_one(columns);
    let most = MOST_CELLS / u32::from(columns.get());
    let rows = rows.min(u16::try_from(most).unwrap_or(u16::MAX));
    (at_least_one(rows), columns)
}

fn at_least_one(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(bytes: &[u8]) -> Screen {
        let mut screen = Screen::new(24, 80);
        screen.push(bytes);
        screen
    }

    #[test]
    fn no_size_fills_the_memory() {
        for (rows, columns) in [(0, 0), (4000, 4000), (u16::MAX, u16::MAX), (1, u16::MAX)] {
            let mut screen = Screen::new(rows, columns);
            let cells = |screen: &Screen| {
                let (rows, columns) = screen.size();
                u32::from(rows) * u32::from(columns)
            };
            assert!(
                (1..=MOST_CELLS).contains(&cells(&screen)),
                "{rows}x{columns}"
            );
            screen.resize(24, 80);
            screen.resize(rows, columns);
            assert!(
                (1..=MOST_CELLS).contains(&cells(&screen)),
                "{rows}x{columns}"
            );
            screen.push(b"\x1b[65535;65535Hx");
        }
    }

    #[test]
    fn what_stands_on_it() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"a\nb", "a\nb\n"),
            (b"a\r\nb\r\n\r\n", "a\nb\n"),
            (b"10%\r20%", "20%\n"),
            (b"one\ntwo\x1b[1A\rONE", "ONE\ntwo\n"),
            (b"shell\n\x1b[?1049h\x1b[2J\x1b[3;5Hfull", "\n\n    full\n"),
            (b"shell\n\x1b[?1049hfull\x1b[?1049l", "shell\n"),
            (b"\x1b]0;title\x07\x1b[c\x1b[6n\x1bP$qm\x1b\\x", "x\n"),
        ] {
            assert_eq!(screen(bytes).text(), text, "{:?}", bytes.escape_ascii());
        }
    }

    #[test]
    fn drawn_anew_it_is_the_same() {
        let first = screen(b"\x1b[31mred\x1b[m\n\x1b[?1049h\x1b[5;7Hx\x1b[?25l");
        let second = screen(&first.formatted());
        assert_eq!(first.text(), second.text());
        assert_eq!(first.cursor(), second.cursor());
        assert!(second.cursor_is_hidden());
    }

    #[test]
    fn a_full_screen_program_means_down() {
        let shown = screen(b"\x1b[?1049h\x1b[?1h\x1b=ab\ncd").text();
        assert_eq!(shown, "ab\n  cd\n");
    }

    #[test]
    fn any_size_and_any_bytes() {
        let mut state = 7u64;
        for round in 0..400u16 {
            let mut screen = Screen::new(round % 7, round % 11);
            for _ in 0..8 {
                let bytes: Vec<u8> = (0..256)
                    .map(|_| super::super::tests::noise(&mut state))
                    .collect();
                screen.push(&bytes);
                screen.resize(round % 5, round % 13);
            }
            let text = screen.text();
            assert!(
                text.chars().all(|c| c == '\n' || !c.is_control()),
                "{text:?}"
            );
            assert!(!screen.formatted().is_empty());
        }
    }
}

//! A transcript as a person would have read it, line by line: bytes in, clean lines out.

use super::grid::Grid;
use super::tokens::{Piece, Tokens};
use super::{COLUMNS, ROWS};
use crate::text;

/// Columns where there is no terminal: what is written to a file is drawn for no width.
const NO_WIDTH: usize = 1 << 16;

/// The lines of a stream, with everything that was overdrawn left out.
///
/// Streaming: sequences and characters may be split over pushes. It keeps one screen and one line,
/// whatever comes. Every line it gives is without its newline and free of controls but tabs.
pub struct Clean {
    tokens: Tokens,
    parser: vte::Parser,
    grid: Grid,
}

impl Default for Clean {
    /// For a terminal of the size that a job gets.
    fn default() -> Self {
        Self::new(ROWS, COLUMNS)
    }
}

impl Clean {
    /// For what was drawn on a terminal of this size.
    #[must_use]
    pub fn new(rows: u16, columns: u16) -> Self {
        Self::on(Grid::new(rows.into(), columns.into()))
    }

    /// For what was not written to a terminal.
    #[must_use]
    pub fn of_file() -> Self {
        Self::on(Grid::new(ROWS.into(), NO_WIDTH))
    }

    fn on(grid: Grid) -> Self {
        Self {
            tokens: Tokens::default(),
            parser: vte::Parser::new(),
            grid,
        }
    }

    /// From here on the terminal has this size.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.grid.resize(rows.into(), columns.into());
    }

    /// Reads on, and gives each line that can no longer change.
    pub fn push(&mut self, bytes: &[u8], line: impl FnMut(&str)) {
        self.feed(bytes);
        self.give(line);
    }

    /// Reads on, and gives every state that a line was left in, also those overdrawn later: what
    /// flashed by was said too. The line that is being written is given as it is so far.
    pub fn push_seen(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        self.grid.noted = Some(Vec::new());
        self.feed(bytes);
        self.grid.done.clear();
        for seen in self.grid.noted.take().unwrap_or_default() {
            line(&text::sanitize_line(&seen));
        }
        if !self.grid.alternate {
            line(&self.current());
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        let Self {
            tokens,
            parser,
            grid,
        } = self;
        tokens.push(bytes, |piece| match piece {
            Piece::Text(text) => grid.print(text),
            Piece::Sequence(bytes) => parser.advance(grid, bytes),
        });
    }

    /// For a follower: gives what is complete now, though it may still be overdrawn. What is drawn
    /// again and again (it went up and wrote over lines already given) is given, as a new line,
    /// only `at_rest`: when nothing has come for a while.
    pub fn settle(&mut self, at_rest: bool, line: impl FnMut(&str)) {
        self.grid.settle(at_rest);
        self.give(line);
    }

    /// Gives all that is left. What is pushed next begins on a new sheet.
    pub fn finish(&mut self, line: impl FnMut(&str)) {
        let grid = &mut self.grid;
        self.tokens.reset(|piece| {
            if let Piece::Text(text) = piece {
                grid.print(text);
            }
        });
        self.grid.finish();
        self.give(line);
    }

    fn give(&mut self, mut line: impl FnMut(&str)) {
        for done in self.grid.done.split_terminator('\n') {
            line(&text::sanitize_line(done));
        }
        self.grid.done.clear();
    }

    /// The line that is being written, so far: a prompt, a progress bar. Empty if there is none.
    #[must_use]
    pub fn current(&self) -> String {
        text::sanitize_line(&self.grid.line_at(self.grid.row)).into_owned()
    }

    /// The lowest line on the grid that says something.
    #[must_use]
    pub fn latest(&self) -> Option<String> {
        let rows = 0..self.grid.rows.len();
        let row = rows.rev().find(|&row| !self.grid.rows[row].is_empty())?;
        Some(text::sanitize_line(&self.grid.line_at(row)).into_owned())
    }

    /// Whether a full-screen program was left that was never entered: these bytes are the end of
    /// something, and what came out first were pieces of its screen.
    #[must_use]
    pub fn began_in_full_screen(&self) -> bool {
        self.grid.left_early
    }
}

/// The last of a job's output as clean text of at most `most` bytes, whole lines where they fit;
/// with a newline at the end, unless it is empty. `bytes` is best a few times as long.
#[must_use]
pub fn clean_tail(bytes: &[u8], most: usize) -> String {
    let mut clean = Clean::default();
    let mut all = String::new();
    let add = |all: &mut String, line: &str| {
        all.push_str(line);
        all.push('\n');
        // Only the end matters: forget now and then.
        if all.len() > 4 * most + 4096 {
            *all = text::last_bytes(all, 2 * most).to_owned();
        }
    };
    clean.push(bytes, |line| add(&mut all, line));
    clean.finish(|line| add(&mut all, line));
    let end = text::last_bytes(&all, most);
    // A line that was cut at its beginning goes, if there are others.
    let cut = end.len() < all.len() && !all[..all.len() - end.len()].ends_with('\n');
    match end.split_once('\n') {
        Some((_, rest)) if cut && !rest.is_empty() => rest.to_owned(),
        _ => end.to_owned(),
    }
}

#[cfg(test)]
mod tests;

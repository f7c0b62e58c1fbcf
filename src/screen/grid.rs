//! The grid of cells a job writes on: the rows that it can still change; what has scrolled off is final.
//!
//! It has the size of the job's terminal, because a program that draws counts rows and columns.
//! A line that was broken only because it did not fit is one line again when it leaves. Full-screen
//! programs draw on another sheet, which is thrown away. A newline also returns to the first
//! column, for a job's terminal does not translate it.

use std::collections::VecDeque;

use unicode_width::UnicodeWidthChar;

use super::row::{Row, hash};

/// A line that is longer is given out in parts, so that a stream without newlines stays in bounds.
pub(super) const LONGEST_LINE: usize = 1 << 20;
const TAB: usize = 8;

#[derive(Debug)]
pub(super) struct Grid {
    width: usize,
    height: usize,
    /// Never empty, never more than `height`.
    pub(super) rows: VecDeque<Row>,
    pub(super) row: usize,
    /// `width`: the next letter begins a new row.
    pub(super) column: usize,
    pub(super) saved: (usize, usize),
    /// First and last row of what scrolls, if it is not all.
    region: Option<(usize, usize)>,
    pub(super) alternate: bool,
    /// The other sheet was left that had never been entered: the beginning is missing.
    pub(super) left_early: bool,
    pub(super) wraps: bool,
    /// A carriage return was the last thing.
    returned: bool,
    /// Rewriting a line that takes several rows from its beginning.
    climbed: bool,
    /// The cursor went up among rows that had been told; they will be drawn again.
    pub(super) redraws: bool,
    /// The beginning of a line whose end is still on the grid.
    begun: String,
    pub(super) last_letter: char,
    /// Lines that can no longer change, each with a newline.
    pub(super) done: String,
    /// Every state that a line was left in; `Some` iff asked for.
    pub(super) noted: Option<Vec<String>>,
}

impl Grid {
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        Self {
            width: columns.max(1),
            height: rows.max(1),
            rows: VecDeque::from([Row::default()]),
            row: 0,
            column: 0,
            saved: (0, 0),
            region: None,
            alternate: false,
            left_early: false,
            wraps: true,
            returned: false,
            climbed: false,
            redraws: false,
            begun: String::new(),
            last_letter: ' ',
            done: String::new(),
            noted: None,
        }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn height(&self) -> usize {
        self.height
    }

    /// Another size. Rows that no longer fit are settled; what is wrapped stays so.
    pub(super) fn resize(&mut self, rows: usize, columns: usize) {
        self.width = columns.max(1);
        self.height = rows.max(1);
        self.region = None;
        while self.rows.len() > self.height {
            self.scroll_out(0);
            self.row = self.row.saturating_sub(1);
        }
        self.column = self.column.min(self.width);
    }

    pub(super) fn print(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let bytes = rest.as_bytes();
            let plain = bytes.iter().position(|byte| !(0x20..0x7f).contains(byte));
            let (run, after) = rest.split_at(plain.unwrap_or(rest.len()));
            if !run.is_empty() {
                self.ascii(run.as_bytes());
            }
            let mut letters = after.chars();
            match letters.next() {
                Some(control) if control < ' ' => self.control(control),
                Some(letter) => self.letter(letter),
                None => {}
            }
            rest = letters.as_str();
        }
    }

    fn ascii(&mut self, letters: &[u8]) {
        if self.alternate {
            return;
        }
        let mut rest = letters;
        self.climb();
        while !rest.is_empty() {
            self.wrap_if_full(1);
            let now = rest.len().min(self.width - self.column);
            self.rows[self.row].put_ascii(self.column, &rest[..now]);
            self.column += now;
            rest = &rest[now..];
        }
        self.last_letter = char::from(letters[letters.len() - 1]);
    }

    pub(super) fn letter(&mut self, letter: char) {
        if self.alternate {
            return;
        }
        match letter.width() {
            None => {}
            Some(0) => {
                self.rows[self.row].put_mark(self.column, letter);
            }
            Some(width) => {
                let width = width.min(self.width);
                self.climb();
                self.wrap_if_full(width);
                self.rows[self.row].put(self.column, letter, width);
                self.column += width;
                self.last_letter = letter;
            }
        }
    }

    /// A letter after a carriage return rewrites the whole line, also one that took several rows:
    /// programs that do not ask for the width mean that. A terminal would go on in the last row and
    /// leave one more copy of the line with each step.
    fn climb(&mut self) {
        if std::mem::take(&mut self.returned) {
            while self.row > 0 && self.rows[self.row - 1].wrapped {
                self.row -= 1;
                self.climbed = true;
            }
            if self.row == 0 && !self.begun.is_empty() {
                self.begun.clear();
            }
        }
    }

    fn wrap_if_full(&mut self, needed: usize) {
        if self.column + needed <= self.width {
            return;
        }
        if self.wraps {
            self.rows[self.row].wrapped = true;
            self.rows[self.row].ended = false;
            self.index();
            self.column = 0;
        } else {
            self.column = self.width - needed;
        }
    }

    fn control(&mut self, control: char) {
        if self.alternate {
            return;
        }
        match control {
            '\n' => self.new_line(),
            '\x0b' | '\x0c' => {
                let column = self.column;
                self.new_line();
                self.column = column;
            }
            '\r' => {
                self.note();
                self.column = 0;
                self.returned = true;
            }
            '\x08' => {
                self.moved();
                self.column = self.column.min(self.width - 1).saturating_sub(1);
            }
            '\t' => self.tab(),
            _ => {}
        }
    }

    pub(super) fn tab(&mut self) {
        self.climb();
        self.wrap_if_full(1);
        let next = ((self.column / TAB + 1) * TAB).min(self.width);
        let kept = self.rows[self.row].put_tab(self.column, next - self.column);
        self.column = if kept { next } else { next.min(self.width - 1) };
    }

    pub(super) fn new_line(&mut self) {
        self.note();
        while self.climbed && self.rows[self.row].wrapped && self.row + 1 < self.rows.len() {
            self.row += 1;
        }
        self.moved();
        self.climbed = false;
        self.rows[self.row].ended = true;
        self.index();
        self.column = 0;
    }

    /// To be called by whatever moves the cursor within its row.
    pub(super) fn moved(&mut self) {
        self.returned = false;
    }

    /// One row down; at the bottom everything moves up instead.
    pub(super) fn index(&mut self) {
        let (_, bottom) = self.region();
        if self.row == bottom {
            self.scroll_up();
        } else if self.row + 1 < self.height {
            self.row += 1;
            self.reach();
        }
    }

    pub(super) fn region(&self) -> (usize, usize) {
        self.region.unwrap_or((0, self.height - 1))
    }

    pub(super) fn set_region(&mut self, top: usize, bottom: usize) {
        let bottom = bottom.min(self.height - 1);
        self.region =
            (top < bottom && (top, bottom) != (0, self.height - 1)).then_some((top, bottom));
        self.go_to(0, 0);
    }

    /// Makes the rows down to the cursor exist.
    pub(super) fn reach(&mut self) {
        while self.rows.len() <= self.row {
            self.rows.push_back(Row::default());
        }
    }

    pub(super) fn go_to(&mut self, row: usize, column: usize) {
        self.note();
        self.moved();
        self.climbed = false;
        let row = row.min(self.height - 1);
        self.redraws |= row < self.row;
        self.row = row;
        self.column = column.min(self.width - 1);
        self.reach();
    }

    /// The first row of what scrolls goes out; a new one comes in at its end. What goes out is
    /// kept even if there are rows above it, where a terminal would forget it.
    pub(super) fn scroll_up(&mut self) {
        let (top, bottom) = self.region();
        let fresh = if top < self.rows.len() {
            self.scroll_out(top)
        } else {
            Row::default()
        };
        let at = bottom.min(self.rows.len());
        self.rows.insert(at, fresh);
        self.reach();
    }

    /// A new row at `at`; the last of what scrolls is lost.
    pub(super) fn insert_row(&mut self, at: usize) {
        let (_, bottom) = self.region();
        if at <= bottom && at <= self.rows.len() {
            if bottom < self.rows.len() {
                self.rows.remove(bottom);
            }
            self.rows.insert(at.min(self.rows.len()), Row::default());
        }
    }

    /// Takes a row out; a new one comes in at the end of what scrolls.
    pub(super) fn delete_row(&mut self, at: usize) {
        let (_, bottom) = self.region();
        if at <= bottom && at < self.rows.len() {
            self.rows.remove(at);
            if bottom < self.rows.len() {
                self.rows.insert(bottom, Row::default());
            }
            self.reach();
        }
    }

    /// Takes a row off the grid, and gives it back empty.
    fn scroll_out(&mut self, at: usize) -> Row {
        let mut row = self.rows.remove(at).unwrap_or_default();
        if row.wrapped {
            row.add_to(&mut self.begun, self.width);
            if self.begun.len() >= LONGEST_LINE {
                self.done.push_str(&self.begun);
                self.done.push('\n');
                self.begun.clear();
            }
        } else {
            let start = self.done.len();
            self.done.push_str(&self.begun);
            self.begun.clear();
            row.add_to(&mut self.done, self.width);
            let line = &self.done[start..];
            let told = row.said.is_some_and(|said| said == hash(line));
            if !told && (row.ended || !line.is_empty()) {
                self.done.push('\n');
            } else {
                self.done.truncate(start);
            }
        }
        row.renew();
        row
    }

    /// Settles all that is on the grid and clears it.
    pub(super) fn finish(&mut self) {
        self.note();
        while !self.rows.is_empty() {
            self.scroll_out(0);
        }
        if !self.begun.is_empty() {
            self.done.push_str(&self.begun);
            self.done.push('\n');
            self.begun.clear();
        }
        let blank = Self::new(self.height, self.width);
        self.rows = blank.rows;
        (self.row, self.column, self.saved) = (0, 0, (0, 0));
        self.region = None;
        self.alternate = false;
        self.wraps = true;
        (self.returned, self.climbed, self.redraws) = (false, false, false);
    }

    /// For a follower: tells the lines that are complete. Those that are being drawn again wait
    /// until nothing has moved for a while (`at_rest`).
    pub(super) fn settle(&mut self, at_rest: bool) {
        let mut line = self.begun.clone();
        for at in 0..self.row {
            let row = &self.rows[at];
            row.add_to(&mut line, self.width);
            if row.wrapped {
                continue;
            }
            let now = hash(&line);
            let told = row.said == Some(now);
            let again = row.said.is_some() || self.redraws;
            if (row.ended || !line.is_empty()) && !told && (at_rest || !again) {
                self.rows[at].said = Some(now);
                self.done.push_str(&line);
                self.done.push('\n');
            }
            line.clear();
        }
        if at_rest {
            self.redraws = false;
        }
    }

    /// Notes the line with the cursor, if it was written on.
    pub(super) fn note(&mut self) {
        if self.noted.is_none() || self.alternate || !self.rows[self.row].dirty {
            return;
        }
        self.rows[self.row].dirty = false;
        let line = self.line_at(self.row);
        if let Some(noted) = &mut self.noted {
            noted.push(line);
        }
    }

    /// The whole line that the row is a part of.
    pub(super) fn line_at(&self, row: usize) -> String {
        let mut first = row;
        while first > 0 && self.rows[first - 1].wrapped {
            first -= 1;
        }
        let mut line = if first == 0 {
            self.begun.clone()
        } else {
            String::new()
        };
        for row in self.rows.range(first..) {
            row.add_to(&mut line, self.width);
            if !row.wrapped {
                break;
            }
        }
        line
    }
}

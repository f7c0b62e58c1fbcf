//! One row of the grid: what stands in each column, as it was written.
//!
//! Unlike the cells of a screen it knows a tab from blanks, a blank that was written from one that
//! was not, and keeps every combining mark: text goes out as it came in.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// Nothing was written here.
const BLANK: char = '\0';
/// The rest of a wide letter or of a tab. No text has this character: it is none.
const COVER: char = '\u{10ffff}';

#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    cells: Vec<char>,
    /// Combining marks and what else has no width, in order: with the column that it stands before.
    marks: Vec<(usize, char)>,
    /// The line goes on in the next row, because it did not fit.
    pub(super) wrapped: bool,
    /// A newline was written here: an empty row that was left so is an empty line.
    pub(super) ended: bool,
    /// Written on since it was last noted.
    pub(super) dirty: bool,
    /// Something was overwritten; then blanks at the end are those of a shorter text over a longer.
    edited: bool,
    /// What a follower has been told, as a hash. On the last row of a line.
    pub(super) said: Option<u64>,
}

impl Row {
    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty() && self.cells.iter().all(|&cell| cell == BLANK)
    }

    /// Makes it as new, but keeps its room.
    pub(super) fn renew(&mut self) {
        let mut cells = std::mem::take(&mut self.cells);
        cells.clear();
        *self = Self {
            cells,
            ..Self::default()
        };
    }

    /// Writes letters that are one column wide and not more than fit.
    pub(super) fn put_ascii(&mut self, column: usize, letters: &[u8]) {
        self.make_room(column, letters.len());
        let over = letters.len().min(self.cells.len() - column);
        let (over, beyond) = letters.split_at(over);
        for (place, &byte) in self.cells[column..].iter_mut().zip(over) {
            *place = char::from(byte);
        }
        self.cells
            .extend(beyond.iter().map(|&byte| char::from(byte)));
    }

    /// Writes one letter that covers `width` columns.
    pub(super) fn put(&mut self, column: usize, letter: char, width: usize) {
        self.make_room(column, width);
        self.cells
            .resize(self.cells.len().max(column + width), BLANK);
        self.cells[column..column + width].fill(COVER);
        self.cells[column] = if letter == COVER || letter == BLANK {
            char::REPLACEMENT_CHARACTER
        } else {
            letter
        };
    }

    /// A tab over nothing is kept as one; over text it only moves. Gives whether it was kept.
    pub(super) fn put_tab(&mut self, column: usize, width: usize) -> bool {
        let to = self.cells.len().min(column + width);
        if self
            .cells
            .get(column..to)
            .is_some_and(|over| over.iter().any(|&cell| cell != BLANK))
        {
            return false;
        }
        let edited = self.edited;
        self.put(column, '\t', width);
        self.edited = edited;
        true
    }

    /// A mark on the letter before `column`. A flood of them ends somewhere.
    pub(super) fn put_mark(&mut self, column: usize, mark: char) {
        if column <= self.cells.len() && self.marks.len() < 8 * (self.cells.len() + 1) {
            let place = self.marks.partition_point(|(at, _)| *at <= column);
            self.marks.insert(place, (column, mark));
            self.dirty = true;
        }
    }

    /// Clears the way: what is cut in half goes, and gaps before it are blank.
    fn make_room(&mut self, column: usize, width: usize) {
        self.dirty = true;
        if column >= self.cells.len() {
            self.cells.resize(column, BLANK);
            return;
        }
        self.edited = true;
        self.split(column);
        self.split(column + width);
        self.drop_marks(column, column + width);
    }

    /// Whatever covers both sides of `column` becomes blanks.
    fn split(&mut self, column: usize) {
        if self.cells.get(column) != Some(&COVER) {
            return;
        }
        let mut start = column;
        while start > 0 && self.cells[start] == COVER {
            start -= 1;
        }
        let mut end = column;
        while self.cells.get(end) == Some(&COVER) {
            end += 1;
        }
        self.cells[start..end].fill(' ');
        self.drop_marks(start, end);
    }

    /// Marks go with their letters.
    fn drop_marks(&mut self, from: usize, to: usize) {
        if !self.marks.is_empty() {
            self.marks.retain(|(at, _)| *at <= from || to < *at);
        }
    }

    /// Erases from `column` to the end.
    pub(super) fn erase_after(&mut self, column: usize) {
        self.split(column);
        self.cells.truncate(column);
        self.marks.retain(|(at, _)| *at <= column && column > 0);
        self.wrapped = false;
        self.dirty = true;
        self.edited &= column > 0;
        self.ended &= column > 0;
    }

    /// Erases `from..to`.
    pub(super) fn erase(&mut self, from: usize, to: usize) {
        if to >= self.cells.len() {
            self.erase_after(from);
            return;
        }
        self.make_room(from, to - from);
        self.cells[from..to].fill(BLANK);
    }

    /// Takes columns out; what is behind moves up.
    pub(super) fn remove(&mut self, column: usize, count: usize) {
        let to = self.cells.len().min(column + count);
        if column < to {
            self.make_room(column, to - column);
            self.cells.drain(column..to);
            self.marks
                .iter_mut()
                .filter(|(at, _)| *at > to)
                .for_each(|(at, _)| *at -= to - column);
        }
        self.wrapped = false;
    }

    /// Inserts blanks; what goes over the edge is lost.
    pub(super) fn insert(&mut self, column: usize, count: usize, width: usize) {
        if column >= self.cells.len() {
            return;
        }
        self.make_room(column, 0);
        let count = count.min(width.saturating_sub(column));
        self.cells
            .splice(column..column, std::iter::repeat_n(BLANK, count));
        self.marks
            .iter_mut()
            .filter(|(at, _)| *at > column)
            .for_each(|(at, _)| *at += count);
        self.erase_after(self.cells.len().min(width));
    }

    /// Adds its text. Blanks that nobody wrote are not at its end, nor those that only fill the row
    /// up or cover what stood there before.
    pub(super) fn add_to(&self, out: &mut String, width: usize) {
        let padded = !self.wrapped && (self.edited || self.cells.len() >= width);
        let blank = |cell: &char| *cell == BLANK || padded && *cell == ' ';
        let end = self
            .cells
            .iter()
            .rposition(|cell| !blank(cell))
            .map_or(0, |at| at + 1);
        let mut marks = self.marks.iter().peekable();
        for (at, &cell) in self.cells[..end].iter().enumerate() {
            while let Some((_, mark)) = marks.next_if(|(column, _)| *column <= at) {
                out.push(*mark);
            }
            match cell {
                BLANK => out.push(' '),
                COVER => {}
                letter => out.push(letter),
            }
        }
        out.extend(
            marks
                .filter(|(column, _)| *column <= end)
                .map(|(_, mark)| mark),
        );
    }
}

pub(super) fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

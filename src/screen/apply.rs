//! What the sequences do to the grid. Those that only colour, ask or set what does not matter to
//! text are passed over. Nothing is ever answered.

use vte::{Params, Perform};

use super::grid::Grid;

impl Perform for Grid {
    fn csi_dispatch(&mut self, params: &Params, marks: &[u8], ignore: bool, action: char) {
        let number = |at: usize, default: usize| match params.iter().nth(at) {
            Some([first, ..]) if *first > 0 => usize::from(*first),
            _ => default,
        };
        match (marks, action) {
            _ if ignore => {}
            (b"?", 'h' | 'l') => {
                let modes = params.iter().filter_map(|mode| mode.first());
                modes.for_each(|&mode| self.set_mode(mode, action == 'h'));
            }
            _ if self.alternate => {}
            (b"", _) => self.apply(action, number(0, 1), number(0, 0), number(1, 1)),
            _ => {}
        }
        if matches!((marks, action), (b"", 'r')) && !self.alternate && !ignore {
            let bottom = number(1, self.height());
            self.set_region(number(0, 1) - 1, bottom - 1);
        }
    }

    fn esc_dispatch(&mut self, marks: &[u8], _ignore: bool, byte: u8) {
        match (marks, byte) {
            ([], b'c') => {
                self.set_mode(1049, false);
                self.left_early = false;
                self.set_region(0, usize::MAX);
                self.erase_screen(2);
                self.wraps = true;
            }
            _ if self.alternate => {}
            ([], b'7') => self.saved = (self.row, self.column),
            ([], b'8') => self.go_to(self.saved.0, self.saved.1),
            ([], b'D') => self.index(),
            ([], b'E') => self.new_line(),
            ([], b'M') => {
                let (top, _) = self.region();
                if self.row == top {
                    self.insert_row(top);
                } else {
                    self.go_to(self.row.saturating_sub(1), self.column);
                }
            }
            _ => {}
        }
    }
}

impl Grid {
    /// `count` is the first number, at least 1; `kind` the same, or 0.
    fn apply(&mut self, action: char, count: usize, kind: usize, second: usize) {
        let (row, column) = (self.row, self.column.min(self.width() - 1));
        let (top, bottom) = self.region();
        match action {
            'A' | 'F' => {
                // A move does not leave what scrolls, if it began within.
                let least = if row >= top { top } else { 0 };
                let column = if action == 'F' { 0 } else { column };
                self.go_to(row.saturating_sub(count).max(least), column);
            }
            'B' | 'e' | 'E' => {
                let most = if row <= bottom { bottom } else { usize::MAX };
                let column = if action == 'E' { 0 } else { column };
                self.go_to((row + count).min(most), column);
            }
            'C' | 'a' => self.go_to(row, column + count),
            'D' => self.go_to(row, column.saturating_sub(count)),
            'G' | '`' => self.go_to(row, count - 1),
            'H' | 'f' => self.go_to(count - 1, second - 1),
            'd' => self.go_to(count - 1, column),
            'I' => self.go_to(row, (column / 8 + count) * 8),
            'Z' => self.go_to(row, (column.div_ceil(8)).saturating_sub(count) * 8),
            'J' => self.erase_screen(kind),
            'K' => self.erase_line(kind),
            'X' => {
                self.note();
                self.rows[row].erase(column, column.saturating_add(count));
            }
            'P' => {
                self.note();
                self.rows[row].remove(column, count);
            }
            '@' => {
                let width = self.width();
                self.rows[row].insert(column, count, width);
            }
            'L' => (0..count.min(self.height())).for_each(|_| self.insert_row(row)),
            'M' => (0..count.min(self.height())).for_each(|_| self.delete_row(row)),
            'S' => (0..count.min(self.height())).for_each(|_| self.scroll_up()),
            'T' => (0..count.min(self.height())).for_each(|_| self.insert_row(top)),
            'b' => (0..count.min(self.width())).for_each(|_| self.letter(self.last_letter)),
            's' => self.saved = (row, self.column),
            'u' => self.go_to(self.saved.0, self.saved.1),
            _ => {}
        }
    }

    fn set_mode(&mut self, mode: u16, on: bool) {
        match mode {
            7 => self.wraps = on,
            47 | 1047 | 1049 if on => {
                self.note();
                self.alternate = true;
            }
            47 | 1047 | 1049 => self.left_early |= !std::mem::take(&mut self.alternate),
            _ => {}
        }
    }

    fn erase_line(&mut self, kind: usize) {
        self.note();
        self.moved();
        let (row, column) = (self.row, self.column.min(self.width() - 1));
        match kind {
            0 if self.column < self.width() => self.rows[row].erase_after(column),
            1 => self.rows[row].erase(0, column + 1),
            2 => self.rows[row].erase_after(0),
            _ => {}
        }
        // A row that was emptied is no longer the rest of the one above.
        if row > 0 && self.rows[row].is_empty() && self.rows[row - 1].wrapped {
            self.rows[row - 1].wrapped = false;
            self.rows[row - 1].ended = true;
        }
    }

    pub(super) fn erase_screen(&mut self, kind: usize) {
        self.note();
        let row = self.row;
        match kind {
            0 => {
                self.erase_line(0);
                self.rows.truncate(row + 1);
            }
            1 => {
                self.erase_line(1);
                self.rows
                    .range_mut(..row)
                    .for_each(|row| *row = Default::default());
            }
            2 => {
                self.rows
                    .iter_mut()
                    .for_each(|row| *row = Default::default());
                self.rows.truncate(row + 1);
            }
            _ => {}
        }
    }
}

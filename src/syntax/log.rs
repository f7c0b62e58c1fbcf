//! A list that grows without moving what it holds, and that can be cut back.
//!
//! A `Vec` needs up to three times its contents while it grows. Here that is true of the first piece
//! alone, so that the scanner's memory stays in proportion to the text.

use std::ops::{Index, IndexMut};

const PIECE: usize = 1024;

#[derive(Clone, Debug)]
pub struct Log<T> {
    /// Each has `PIECE` entries.
    full: Vec<Vec<T>>,
    /// Has at most `PIECE` entries.
    last: Vec<T>,
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self {
            full: Vec::new(),
            last: Vec::new(),
        }
    }
}

impl<T> Log<T> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.full.len() * PIECE + self.last.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    pub fn push(&mut self, entry: T) {
        if self.last.len() == PIECE {
            let full = std::mem::replace(&mut self.last, Vec::with_capacity(PIECE));
            self.full.push(full);
        }
        self.last.push(entry);
    }

    /// Forgets all but the first `length` entries.
    pub fn truncate(&mut self, length: usize) {
        while length < self.full.len() * PIECE
            && let Some(last) = self.full.pop()
        {
            self.last = last;
        }
        self.last.truncate(length - self.full.len() * PIECE);
        // A list that is not empty ends with an entry of its last piece.
        if self.last.is_empty()
            && let Some(last) = self.full.pop()
        {
            self.last = last;
        }
    }

    #[must_use]
    pub fn get(&self, at: usize) -> Option<&T> {
        match self.full.get(at / PIECE) {
            Some(piece) => piece.get(at % PIECE),
            None => self.last.get(at - self.full.len() * PIECE),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.into_iter()
    }
}

impl<T> Index<usize> for Log<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        match self.full.get(at / PIECE) {
            Some(piece) => &piece[at % PIECE],
            None => &self.last[at - self.full.len() * PIECE],
        }
    }
}

impl<T> IndexMut<usize> for Log<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        let before = self.full.len() * PIECE;
        match self.full.get_mut(at / PIECE) {
            Some(piece) => &mut piece[at % PIECE],
            None => &mut self.last[at - before],
        }
    }
}

impl<'a, T> IntoIterator for &'a Log<T> {
    type Item = &'a T;
    type IntoIter =
        std::iter::Chain<std::iter::Flatten<std::slice::Iter<'a, Vec<T>>>, std::slice::Iter<'a, T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.full.iter().flatten().chain(&self.last)
    }
}

impl<T> IntoIterator for Log<T> {
    type Item = T;
    type IntoIter =
        std::iter::Chain<std::iter::Flatten<std::vec::IntoIter<Vec<T>>>, std::vec::IntoIter<T>>;

    /// Gives back the memory of each piece once it has been read.
    fn into_iter(self) -> Self::IntoIter {
        self.full.into_iter().flatten().chain(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_like_a_vector() {
        let sizes = [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 7];
        for size in sizes {
            for cut in sizes.into_iter().filter(|cut| *cut <= size) {
                let mut log = Log::default();
                let mut vector = Vec::new();
                for entry in 0..size {
                    log.push(entry);
                    vector.push(entry);
                }
                log.truncate(cut);
                vector.truncate(cut);
                assert_eq!((log.len(), log.is_empty()), (cut, cut == 0));
                assert_eq!(log.get(cut), None);
                log.push(size);
                vector.push(size);
                log[0] += 1;
                vector[0] += 1;
                assert!(log.iter().eq(&vector), "{size} {cut}");
                assert!((0..=cut).all(|at| log[at] == vector[at] && log.get(at) == vector.get(at)));
                assert!(log.into_iter().eq(vector), "{size} {cut}");
            }
        }
    }
}

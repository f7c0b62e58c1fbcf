//! Jobs that a text calls by their names (`kill %make`, `disown make`).
//!
//! The shell compares such a name with the beginning of the job's text, and an insertion would stand
//! there. So these jobs stay as they were written; the supervisor finds those that outlive the shell.
//! A text that only lists its jobs (`jobs`) is rewritten all the same: to have each of them captured
//! and kept is worth more than a list without our word in it.

use super::simple::Words;
use super::{Candidate, Level};
use crate::syntax::log::Log;

/// A text that names more of them means them all.
const MOST: usize = 64;

/// The names by which a text calls jobs.
#[derive(Default)]
pub(super) struct Called {
    names: Vec<Vec<u8>>,
    /// There are too many of them: every job counts as called.
    all: bool,
}

impl Called {
    /// Takes the names among the words of a simple command.
    pub(super) fn read(&mut self, words: &Words<'_>) {
        let takes_bare_names = matches!(
            words.literal(0).as_deref(),
            Some(b"bg" | b"disown" | b"fg" | b"jobs")
        );
        for index in 0..words.spans.len() {
            let is_bare = takes_bare_names && index > 0;
            if self.all || !(is_bare || words.raw(index).is_some_and(|word| word.contains(&b'%'))) {
                continue;
            }
            let word = words.literal(index).unwrap_or_default();
            let name = match word.strip_prefix(b"%") {
                Some(name) => name,
                None if is_bare => word.as_slice(),
                None => continue,
            };
            let first = name.first().copied().unwrap_or(b'-');
            if !first.is_ascii_digit() && !b"+-%?".contains(&first) {
                self.names.push(name.to_vec());
                self.all |= self.names.len() > MOST;
            }
        }
    }

    /// Leaves alone what begins with one of the names. `text` is that of level 0.
    pub(super) fn keep(&self, spots: &mut [Candidate], text: &[u8], levels: &Log<Level>) {
        if !self.all && self.names.is_empty() {
            return;
        }
        for candidate in spots {
            let spot = &mut candidate.spot;
            let source = match spot.level {
                0 => text,
                level => &levels[level].text,
            };
            let list = spot.local.of(source);
            spot.untouchable |= self.all || self.names.iter().any(|name| list.starts_with(name));
        }
    }
}

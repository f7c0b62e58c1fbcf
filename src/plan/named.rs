//! Jobs that a text calls by their names (`kill %make`, `disown make`) or lists (`jobs`).
//!
//! The shell compares such a name with the beginning of the job's text, or prints that text, and an
//! insertion would stand there. So these jobs stay as they were written; the supervisor finds those
//! that outlive the shell.

use super::{Candidate, Level, Words};
use crate::syntax::Dialect;

/// The names of jobs among the words of a simple command. An empty one means them all.
pub(super) fn names(words: &Words<'_>) -> Vec<Vec<u8>> {
    if lists_texts(words) {
        return vec![Vec::new()];
    }
    let takes_bare_names = matches!(
        words.literal(0).as_deref(),
        Some(b"bg" | b"disown" | b"fg" | b"jobs")
    );
    let is_name = |name: &[u8]| {
        let first = name.first().copied().unwrap_or(b'-');
        !first.is_ascii_digit() && !b"+-%?".contains(&first)
    };
    (0..words.spans.len())
        .filter_map(|index| {
            let word = words.literal(index)?;
            match word.strip_prefix(b"%") {
                Some(name) => Some(name.to_vec()),
                None => (takes_bare_names && index > 0).then_some(word),
            }
        })
        .filter(|name| is_name(name))
        .collect()
}

/// Whether it is a `jobs` that prints more than pids. In zsh `-p` adds them to the texts.
fn lists_texts(words: &Words<'_>) -> bool {
    let prints_pids = |word: Option<Vec<u8>>| {
        word.is_some_and(|word| word.starts_with(b"-") && word.contains(&b'p'))
    };
    words.literal(0).as_deref() == Some(b"jobs")
        && (words.dialect == Dialect::Zsh || !words.rest(1).into_iter().any(prints_pids))
}

/// Leaves alone what begins with one of the names. `text` is that of level 0.
pub(super) fn keep(spots: &mut [Candidate], names: &[Vec<u8>], text: &[u8], levels: &[Level]) {
    if names.is_empty() {
        return;
    }
    for candidate in spots {
        let spot = &mut candidate.spot;
        let source = match spot.level {
            0 => text,
            level => &levels[level].text,
        };
        let list = &source[spot.local.start..spot.local.end];
        spot.untouchable |= names.iter().any(|name| list.starts_with(name));
    }
}

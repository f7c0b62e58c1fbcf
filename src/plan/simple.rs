//! Simple commands: their words, and what they say of the command before.

use super::MAX_PREFIX;
use super::unwrap::{self, Unwrapped};
use crate::syntax::literal::decode;
use crate::syntax::{Dialect, Script, Span};

/// Whether a simple command speaks of the command before it: `$?`, `$_`.
pub(super) fn recalls(text: &[u8], script: &Script, simple: usize) -> bool {
    let start = script.simples[simple].start();
    let end = script.words(simple).last().map_or(start, Span::end);
    let speaks = |marks: &[u8]| memchr::memmem::find(&text[start..end], marks).is_some();
    [&b"$?"[..], b"${?", b"$_", b"${_", b"status", b"STATUS"]
        .into_iter()
        .any(speaks)
}

/// The words of a simple command.
pub(super) struct Words<'a> {
    pub(super) text: &'a [u8],
    pub(super) spans: &'a [Span],
    pub(super) dialect: Dialect,
}

impl Words<'_> {
    pub(super) fn literal(&self, index: usize) -> Option<Vec<u8>> {
        let span = self.spans.get(index)?;
        decode(self.text, *span, self.dialect).map(|word| word.bytes)
    }

    pub(super) fn raw(&self, index: usize) -> Option<&[u8]> {
        let span = self.spans.get(index)?;
        Some(span.of(self.text))
    }

    /// What the launcher makes of them, as far as they can be told.
    pub(super) fn unwrapped(&self) -> Unwrapped {
        let words: Vec<Vec<u8>> = (0..self.spans.len().min(MAX_PREFIX))
            .filter_map(|index| {
                self.literal(index)
                    .or_else(|| self.raw(index).map(<[u8]>::to_vec))
            })
            .collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        unwrap::unwrap(&words)
    }

    /// The values of the words from `from`; `None` for those with expansions.
    pub(super) fn rest(&self, from: usize) -> Vec<Option<Vec<u8>>> {
        (from..self.spans.len())
            .map(|index| self.literal(index))
            .collect()
    }
}

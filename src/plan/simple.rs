//! Simple commands: their words, and what they say of their stdin and of the command before.

use super::unwrap::{self, Unwrapped};
use crate::syntax::literal::decode;
use crate::syntax::{Dialect, Simple, Span};

/// Whether the words of a command speak of the command before it: `$?`, `$_`.
pub(super) fn recalls(text: &[u8], simple: &Simple) -> bool {
    let words = simple.words.iter().chain(&simple.assignments);
    let mut raw = words.map(|span| &text[span.start..span.end]);
    raw.any(|word| {
        let speaks = |marks: &[u8]| memchr::memmem::find(word, marks).is_some();
        [&b"$?"[..], b"${?", b"$_", b"${_", b"status", b"STATUS"]
            .into_iter()
            .any(speaks)
    })
}

/// Whether a simple command says itself where its stdin comes from, other than by a here-document: that
/// is never anybody else's.
pub(crate) fn redirects_stdin(text: &[u8], simple: &Simple) -> bool {
    let mut redirections = simple.redirections.iter();
    redirections.any(|(span, is_heredoc)| {
        let redirection = &text[span.start..span.end];
        let digits = redirection.iter().take_while(|byte| byte.is_ascii_digit());
        let digits = digits.count();
        let (number, operator) = redirection.split_at(digits);
        let reads = operator.starts_with(b"<") && !operator.starts_with(b"<<");
        !is_heredoc
            && (if number.is_empty() {
                reads
            } else {
                number.iter().all(|digit| *digit == b'0')
            })
    })
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
        Some(&self.text[span.start..span.end])
    }

    /// What the launcher makes of them, as far as they can be told.
    pub(super) fn unwrapped(&self) -> Unwrapped {
        let words: Vec<Vec<u8>> = (0..self.spans.len())
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

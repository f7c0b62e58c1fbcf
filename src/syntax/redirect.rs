//! Redirections: the places where a `&` is no operator of its own.

use super::commands::{is_meta, is_name};
use super::state::{Pending, Scanner};
use super::{Dialect, Parse, Stop, small};

impl Scanner<'_> {
    /// Reads a redirection if one begins at the cursor.
    pub(super) fn redirection(&mut self) -> Parse<bool> {
        let Some(byte) = self.cur() else {
            return Ok(false);
        };
        let start = self.at.pos;
        let extended = self.dialect != Dialect::Posix;
        let mut at = start;
        match byte {
            b'<' | b'>' => {}
            b'&' if extended => {
                // `&>f` and `&>>f` are one operator; in a plain shell `&` stands alone.
                at = self.skip_continuations(start + 1);
                if self.raw(at) != Some(b'>') {
                    return Ok(false);
                }
            }
            b'0'..=b'9' => {
                while self.raw(at).is_some_and(|byte| byte.is_ascii_digit()) {
                    at = self.skip_continuations(at + 1);
                }
                if !matches!(self.raw(at), Some(b'<' | b'>')) {
                    return Ok(false);
                }
            }
            b'{' if extended => {
                let is_end = |byte: u8| byte == b'}' || is_meta(byte);
                let Some(length) = self.reach(start + 1, is_end) else {
                    return Ok(false);
                };
                let rest = self.rest(start + 1);
                at = start + 1 + length + 1;
                let name = &rest[..length];
                let plain = name.split(|byte| *byte == b'[').next().unwrap_or(name);
                if rest[length] != b'}'
                    || !is_name(plain)
                    || !matches!(self.raw(at), Some(b'<' | b'>'))
                {
                    return Ok(false);
                }
            }
            _ => return Ok(false),
        }
        // `<(` and `>(` begin a word; behind a number they are no redirection either.
        if extended && self.raw(at + 1) == Some(b'(') && byte != b'&' {
            return Ok(false);
        }
        self.at.pos = at;
        match self.operator() {
            Some(strip_tabs) => self.heredoc_start(strip_tabs)?,
            None => {
                self.blanks_only();
                let word = self.word(false)?;
                if word.span.is_empty() {
                    return Err(Stop::Fail("a redirection has no target"));
                }
            }
        }
        Ok(true)
    }

    /// Blanks without a comment: `#` after `>` begins no comment, and no target either.
    pub(super) fn blanks_only(&mut self) {
        while matches!(self.cur(), Some(b' ' | b'\t')) {
            self.at.pos += 1;
        }
    }

    /// Passes the operator at the cursor; `Some(strip)` for `<<` and `<<-`.
    fn operator(&mut self) -> Option<bool> {
        let zsh = self.dialect == Dialect::Zsh;
        let extended = self.dialect != Dialect::Posix;
        let first = self.raw(self.at.pos);
        self.bump();
        match (first, self.raw(self.at.pos)) {
            (Some(b'<'), Some(b'<')) => {
                self.bump();
                match self.raw(self.at.pos) {
                    Some(b'<') if extended => self.step(1),
                    Some(b'-') => {
                        self.step(1);
                        return Some(true);
                    }
                    _ => return Some(false),
                }
            }
            (Some(b'<'), Some(b'&' | b'>')) => self.step(1),
            _ => {
                // `>` with what may follow it: `>>`, `>|`, `>&`, `>>&|`, `>!` …
                if self.raw(self.at.pos) == Some(b'>') {
                    self.bump();
                }
                let mut more = true;
                while more {
                    more = match self.raw(self.at.pos) {
                        Some(b'&') => zsh,
                        Some(b'|') => false,
                        Some(b'!') if zsh => false,
                        _ => return None,
                    };
                    self.bump();
                }
            }
        }
        None
    }

    fn heredoc_start(&mut self, strip_tabs: bool) -> Parse<()> {
        self.blanks_only();
        let mark = self.mark();
        let delimiter = self.word(false)?.span;
        // The delimiter is never expanded, whatever it looks like.
        let (pos, last_end) = (self.at.pos, self.at.last_end);
        self.back_to(mark);
        self.at.pos = pos;
        self.at.last_end = last_end;
        if delimiter.is_empty() {
            return Err(Stop::Fail("a here-document has no delimiter"));
        }
        if unquote(delimiter.of(self.text)).is_none() {
            return Err(Stop::Fail("an odd delimiter"));
        }
        self.found.heredocs.push(Pending {
            before: self.at.pending,
            delimiter,
            strip_tabs,
        });
        self.at.pending = Some(small(self.found.heredocs.len() - 1));
        Ok(())
    }
}

/// Removes the quotes of a delimiter, and says whether there were any.
pub(super) fn unquote(raw: &[u8]) -> Option<(Vec<u8>, bool)> {
    let mut out = Vec::with_capacity(raw.len());
    let mut quoted = false;
    let mut quote = None;
    let mut at = 0;
    while at < raw.len() {
        let byte = raw[at];
        at += 1;
        match (quote, byte) {
            // The quotation begins with the dollar.
            (None, b'$') if matches!(raw.get(at), Some(b'\'' | b'"')) => {
                if raw.contains(&b'\\') {
                    return None;
                }
            }
            (None, b'\'' | b'"') => {
                quote = Some(byte);
                quoted = true;
            }
            (None | Some(b'"'), b'\\') => {
                let next = *raw.get(at)?;
                at += 1;
                let kept = quote.is_some() && !matches!(next, b'$' | b'`' | b'"' | b'\\' | b'\n');
                if kept {
                    out.push(b'\\');
                }
                quoted |= next != b'\n';
                if next != b'\n' {
                    out.push(next);
                }
            }
            (Some(open), _) if open == byte => quote = None,
            _ => out.push(byte),
        }
    }
    Some((out, quoted))
}

//! Words: quotes, expansions, substitutions, patterns.

use super::commands::is_name;
use super::literal::is_plain;
use super::state::Scanner;
use super::{Background, Dialect, Parse, ScopeKind, Span, Stop, small};

/// What surrounds an expansion; it decides what quotes mean inside `${ }`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    None,
    Double,
    Heredoc,
}

/// How many backquoted texts may be inside each other. Each one is a copy of its own.
const MAX_BACKQUOTES: u32 = 6;

pub(super) struct Word {
    pub(super) span: Span,
    pub(super) assignment: bool,
    pub(super) array: bool,
}

impl Scanner<'_> {
    /// Reads the word at the cursor, which may be empty. `assigns` says that it may be an
    /// assignment, whose subscript and list follow rules of their own.
    pub(super) fn word(&mut self, assigns: bool) -> Parse<Word> {
        let start = self.at.pos;
        let zsh = self.dialect == Dialect::Zsh;
        let extended = self.dialect != Dialect::Posix;
        let mut word = Word {
            span: Span::new(start, start),
            assignment: false,
            array: false,
        };
        // Whether a `=` or a bracket has been seen: the name of an assignment ends with the first.
        let mut named = false;
        while let Some(byte) = self.raw(self.at.pos) {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')' => break,
                b'\\' => self.step(2),
                b'\'' => self.single_quoted()?,
                b'"' => self.double_quoted()?,
                b'$' => self.dollar(Quoting::None)?,
                b'`' => self.backquote(false)?,
                b'<' | b'>' => {
                    if !extended || self.raw(self.at.pos + 1) != Some(b'(') {
                        break;
                    }
                    self.step(1);
                    self.substitution()?;
                }
                b'(' => {
                    let before = self.byte_before(start);
                    if extended && word.assignment && assigns && before == b'=' {
                        self.array()?;
                        word.array = true;
                    } else if zsh && before == b'=' && self.at.pos == start + 1 {
                        self.substitution()?;
                    } else if extended && matches!(before, b'?' | b'*' | b'+' | b'@' | b'!')
                        || (zsh && !self.parens_close())
                    {
                        self.group()?;
                    } else {
                        break;
                    }
                }
                b'[' if assigns && extended && !named => {
                    named = true;
                    if self.at.pos == start || !self.is_name_from(start) {
                        self.step(1);
                        continue;
                    }
                    self.bracketed(b'[', b']', Quoting::None)?;
                    let mut at = self.at.pos;
                    if self.raw(at) == Some(b'+') {
                        at += 1;
                    }
                    if self.raw(at) == Some(b'=') {
                        self.at.pos = at;
                        word.assignment = true;
                    } else {
                        // It is one word, blanks and all, as long as no other stands before it.
                        word.array = true;
                    }
                }
                b'=' if !named => {
                    named = true;
                    word.assignment |= self.is_name_from(start);
                    self.step(1);
                }
                _ => self.step_to(|byte| !is_plain(byte)),
            }
        }
        word.span = Span::new(start, self.at.pos);
        self.at.last_end = self.at.pos;
        Ok(word)
    }

    /// The byte of the word that stands before the cursor, or a blank.
    fn byte_before(&self, start: usize) -> u8 {
        let mut at = self.at.pos;
        while at >= start + 2 && &self.text[at - 2..at] == b"\\\n" {
            at -= 2;
        }
        if at > start { self.text[at - 1] } else { b' ' }
    }

    /// Whether what was read since `start` is a name, perhaps with a `+` behind it.
    fn is_name_from(&self, start: usize) -> bool {
        let word = &self.text[start..self.at.pos];
        if is_name(word.strip_suffix(b"+").unwrap_or(word)) {
            return true;
        }
        // Only continued lines can hide a name, and nobody breaks a long one: this keeps words
        // with many brackets from taking quadratic time.
        if word.len() > 256 || !word.contains(&b'\\') {
            return false;
        }
        let mut name = Vec::with_capacity(word.len());
        let mut at = start;
        while at < self.at.pos {
            at = self.skip_continuations(at);
            if at < self.at.pos {
                name.push(self.text[at]);
                at += 1;
            }
        }
        is_name(name.strip_suffix(b"+").unwrap_or(&name))
    }

    /// `'…'` with the cursor at the first quote.
    pub(super) fn single_quoted(&mut self) -> Parse<()> {
        match self.reach(self.at.pos + 1, |byte| byte == b'\'') {
            Some(length) => {
                self.step(length + 2);
                Ok(())
            }
            None => Err(Stop::Fail("an open single quote")),
        }
    }

    /// `$'…'` with the cursor at the quote.
    fn ansi_quoted(&mut self) -> Parse<()> {
        self.step(1);
        while let Some(byte) = self.raw(self.at.pos) {
            match byte {
                b'\\' => self.step(2),
                b'\'' => {
                    self.step(1);
                    return Ok(());
                }
                _ => self.step(1),
            }
        }
        Err(Stop::Fail("an open single quote"))
    }

    pub(super) fn double_quoted(&mut self) -> Parse<()> {
        self.enter()?;
        self.step(1);
        while let Some(byte) = self.raw(self.at.pos) {
            match byte {
                b'"' => {
                    self.step(1);
                    self.leave();
                    return Ok(());
                }
                b'\\' => self.step(2),
                b'$' => self.dollar(Quoting::Double)?,
                b'`' => self.backquote(true)?,
                _ => self.step_to(|byte| matches!(byte, b'"' | b'\\' | b'$' | b'`')),
            }
        }
        Err(Stop::Fail("an open double quote"))
    }

    /// Whatever `$` begins at the cursor.
    pub(super) fn dollar(&mut self, quoting: Quoting) -> Parse<()> {
        let extended = self.dialect != Dialect::Posix;
        let at = self.skip_continuations(self.at.pos + 1);
        match self.raw(at) {
            Some(b'(') => {
                self.at.pos = at;
                let second = self.skip_continuations(at + 1);
                if self.raw(second) == Some(b'(') {
                    let mark = self.mark();
                    self.at.pos = second + 1;
                    match self.arithmetic(quoting) {
                        Err(Stop::Mismatch) => self.back_to(mark),
                        done => return done,
                    }
                }
                self.substitution()
            }
            Some(b'{') => {
                self.at.pos = at;
                self.braced(quoting)
            }
            Some(b'[') if extended => {
                self.at.pos = at;
                self.bracketed(b'[', b']', quoting)
            }
            Some(b'\'') if extended && quoting == Quoting::None => {
                self.at.pos = at;
                self.ansi_quoted()
            }
            // The next byte belongs to the name of a special parameter: `$#` begins no comment.
            Some(b'#' | b'$' | b'!' | b'?' | b'*' | b'@' | b'-') => {
                self.at.pos = at;
                self.step(1);
                Ok(())
            }
            _ => {
                self.step(1);
                Ok(())
            }
        }
    }

    /// `( … )` that is run and read, with the cursor at the bracket.
    pub(super) fn substitution(&mut self) -> Parse<()> {
        self.enter()?;
        self.step(1);
        let outer = self.begin(ScopeKind::Captured);
        self.list(false)?;
        if self.raw(self.at.pos) != Some(b')') {
            return Err(Stop::Fail("an open substitution"));
        }
        if self.at.pending.is_some() {
            return Err(Stop::Fail("a here-document without a body"));
        }
        self.step(1);
        self.resume(outer);
        self.leave();
        Ok(())
    }

    /// The rest of `$(( … ))` or `(( … ))`. `Mismatch` if it does not end with both brackets.
    pub(super) fn arithmetic(&mut self, quoting: Quoting) -> Parse<()> {
        self.enter()?;
        let mut open = 0usize;
        while let Some(byte) = self.raw(self.at.pos) {
            match byte {
                b'(' => {
                    open += 1;
                    self.step(1);
                }
                b')' if open > 0 => {
                    open -= 1;
                    self.step(1);
                }
                b')' => {
                    let second = self.skip_continuations(self.at.pos + 1);
                    if self.raw(second) != Some(b')') {
                        return Err(Stop::Mismatch);
                    }
                    self.at.pos = second;
                    self.step(1);
                    self.leave();
                    return Ok(());
                }
                _ => self.inner(byte, quoting).map_err(mismatch)?,
            }
        }
        Err(Stop::Mismatch)
    }

    /// One byte, quotation or expansion inside brackets.
    fn inner(&mut self, byte: u8, quoting: Quoting) -> Parse<()> {
        match byte {
            b'\\' => self.step(2),
            b'\'' if quoting == Quoting::None => self.single_quoted()?,
            b'"' if quoting != Quoting::Heredoc => self.double_quoted()?,
            b'$' => self.dollar(quoting)?,
            b'`' => self.backquote(quoting == Quoting::Double)?,
            _ => self.step(1),
        }
        Ok(())
    }

    /// `${ … }` with the cursor at the brace.
    fn braced(&mut self, quoting: Quoting) -> Parse<()> {
        self.enter()?;
        self.step(1);
        if matches!(self.raw(self.at.pos), Some(b' ' | b'\t' | b'\n' | b'|')) {
            return self.substitution_in_braces();
        }
        // bash reads a single quote inside "${ }" as a quote, except in posix mode; the others do so
        // only where a pattern stands (POSIX 2.6.2, seen in bash 5.2, dash 0.5.12, zsh 5.9).
        let literal_quote = match quoting {
            Quoting::None => false,
            Quoting::Heredoc => true,
            Quoting::Double => self.dialect != Dialect::Bash && !self.pattern_follows(),
        };
        while let Some(byte) = self.raw(self.at.pos) {
            match byte {
                b'}' => {
                    self.step(1);
                    self.leave();
                    return Ok(());
                }
                b'\'' if literal_quote => self.step(1),
                b'\'' => self.single_quoted()?,
                _ => self.inner(byte, quoting)?,
            }
        }
        Err(Stop::Fail("an open brace"))
    }

    /// `${ list; }` of bash 5.3, with the cursor after the brace. Older ones refuse it when they
    /// come to expand it, so nothing is lost by reading it the new way.
    fn substitution_in_braces(&mut self) -> Parse<()> {
        if self.dialect != Dialect::Bash {
            return Err(Stop::Fail("a substitution in braces"));
        }
        self.step(1);
        let outer = self.begin(ScopeKind::Captured);
        self.at.in_braces = true;
        self.list(false)?;
        if self.raw(self.at.pos) != Some(b'}') || self.at.pending.is_some() {
            return Err(Stop::Fail("an open substitution"));
        }
        self.step(1);
        self.resume(outer);
        self.leave();
        Ok(())
    }

    /// Whether the parameter at the cursor is followed by an operator that takes a pattern.
    fn pattern_follows(&self) -> bool {
        let rest = self.rest(self.at.pos);
        let name = rest
            .iter()
            .take(64)
            .position(|b| !b.is_ascii_alphanumeric() && !matches!(b, b'_' | b'@' | b'*' | b'!'));
        name.is_some_and(|at| at > 0 && matches!(rest[at], b'#' | b'%' | b'/' | b'^' | b','))
    }

    /// A pair of brackets and what is between, with the cursor at the first.
    fn bracketed(&mut self, open: u8, close: u8, quoting: Quoting) -> Parse<()> {
        self.enter()?;
        let mut depth = 0usize;
        while let Some(byte) = self.raw(self.at.pos) {
            if byte == open {
                depth += 1;
                self.step(1);
            } else if byte == close {
                depth = depth.saturating_sub(1);
                self.step(1);
                if depth == 0 {
                    self.leave();
                    return Ok(());
                }
            } else {
                self.inner(byte, quoting)?;
            }
        }
        Err(Stop::Fail("an open bracket"))
    }

    /// `( … )` of a pattern.
    pub(super) fn group(&mut self) -> Parse<()> {
        self.bracketed(b'(', b')', Quoting::None)
    }

    /// `( … )` of a list assignment.
    fn array(&mut self) -> Parse<()> {
        self.enter()?;
        self.step(1);
        loop {
            self.newlines()?;
            match self.cur() {
                Some(b')') => {
                    self.step(1);
                    self.leave();
                    return Ok(());
                }
                Some(b'[') if self.dialect == Dialect::Bash => {
                    self.bracketed(b'[', b']', Quoting::None)?;
                    self.word(false)?;
                }
                _ => {
                    let word = self.word(false)?;
                    if word.span.is_empty() {
                        return Err(Stop::Fail("an operator in a list assignment"));
                    }
                }
            }
        }
    }

    /// `` `…` `` with the cursor at the first one. Its text is unescaped once and then read by a
    /// scanner of its own, because the escapes change what is a bracket or a quote inside.
    pub(super) fn backquote(&mut self, in_double: bool) -> Parse<()> {
        if self.backquotes >= MAX_BACKQUOTES {
            return Err(Stop::Refuse("nested too deeply"));
        }
        self.enter()?;
        let start = self.at.pos + 1;
        let mut at = start;
        let mut dropped = 0;
        let is_dropped = |next| matches!(next, b'`' | b'\\' | b'$') || (in_double && next == b'"');
        loop {
            let Some(byte) = self.raw(at) else {
                return Err(Stop::Fail("an open backquote"));
            };
            match (byte, self.raw(at + 1)) {
                (b'`', _) => break,
                (b'\\', Some(next)) => {
                    dropped += usize::from(is_dropped(next));
                    at += 2;
                }
                _ => at += 1,
            }
        }
        let inner = Unescaped::new(&self.text[start..at], start, dropped, is_dropped);
        let mut nested = self.for_backquoted(&inner.text);
        let result = nested.script();
        self.steps.set(nested.steps.get());
        self.at.ambiguous |= nested.at.ambiguous;
        let found = nested.found;
        for amp in found.amps {
            self.push_amp(inner.place(amp))?;
        }
        match result {
            Err(Stop::Mismatch) => return Err(Stop::Fail("not understood")),
            result => result?,
        }
        let captured = self.push_scope(ScopeKind::Captured);
        for list in found.lists {
            self.found.lists.push(Background {
                span: Span::new(inner.place(list.span.start()), inner.place(list.span.end())),
                op: small(inner.place(list.op())),
                body: small(inner.place(list.body())),
                scope: captured,
                inner: captured,
                simple: u32::MAX,
                disowned: list.disowned,
            });
        }
        self.at.pos = at;
        self.step(1);
        self.leave();
        Ok(())
    }
}

/// A backquoted text as its shell reads it.
struct Unescaped {
    text: Vec<u8>,
    start: usize,
    /// The offsets in `text` of the bytes that lost a backslash.
    bare: Vec<u32>,
}

impl Unescaped {
    fn new(raw: &[u8], start: usize, dropped: usize, is_dropped: impl Fn(u8) -> bool) -> Self {
        let mut text = Vec::with_capacity(raw.len() - dropped);
        let mut bare = Vec::with_capacity(dropped);
        let mut at = 0;
        while let Some(byte) = raw.get(at) {
            match raw.get(at + 1) {
                Some(next) if *byte == b'\\' => {
                    if is_dropped(*next) {
                        bare.push(small(text.len()));
                    } else {
                        text.push(*byte);
                    }
                    text.push(*next);
                    at += 2;
                }
                _ => {
                    text.push(*byte);
                    at += 1;
                }
            }
        }
        Self { text, start, bare }
    }

    /// Where the byte at that offset stands in the text around.
    fn place(&self, at: usize) -> usize {
        let dropped = self.bare.partition_point(|bare| *bare as usize <= at);
        self.start + at + dropped
    }
}

/// Whatever goes wrong inside what might be arithmetic, commands in brackets may still fit.
fn mismatch(stop: Stop) -> Stop {
    match stop {
        Stop::Fail(_) => Stop::Mismatch,
        other => other,
    }
}

//! Lists, and-or lists, pipelines and simple commands.

use super::state::Scanner;
use super::{Background, Dialect, Function, Parse, ScopeKind, Simple, Span, Stop, small};

/// Whether `byte` ends a word.
pub(super) fn is_meta(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>'
    )
}

pub(super) fn is_name(text: &[u8]) -> bool {
    text.first()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        && text
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Words that end a list where a command could begin.
const CLOSERS: [&[u8]; 8] = [
    b"then", b"do", b"done", b"fi", b"elif", b"else", b"esac", b"}",
];

/// Builtins whose arguments may be assignments.
const DECLARERS: [&[u8]; 6] = [
    b"declare",
    b"typeset",
    b"local",
    b"readonly",
    b"export",
    b"integer",
];

/// A simple command as part of a list.
#[derive(Clone, Copy)]
pub(super) struct Alone {
    index: usize,
    has_words: bool,
}

impl Scanner<'_> {
    /// Passes blanks and a comment, but no line end.
    pub(super) fn blanks(&mut self) {
        while let Some(byte) = self.cur() {
            match byte {
                b' ' | b'\t' => self.at.pos += 1,
                b'#' => {
                    let length = self.reach(self.at.pos, |byte| byte == b'\n');
                    self.at.pos = length.map_or(self.at.end, |length| self.at.pos + length);
                }
                _ => break,
            }
        }
    }

    /// Passes blanks, comments and line ends, with the here-documents that begin after those.
    pub(super) fn newlines(&mut self) -> Parse<()> {
        loop {
            self.blanks();
            if self.cur() != Some(b'\n') {
                return Ok(());
            }
            self.at.pos += 1;
            self.read_heredocs()?;
        }
    }

    /// The word at the cursor if it could be a reserved one, else something that is none.
    pub(super) fn peek_word(&mut self) -> &[u8] {
        self.cur();
        let mut at = self.at.pos;
        let mut length = 0;
        let next = loop {
            match self.raw(at) {
                Some(byte) if !is_meta(byte) => {
                    if length == self.peeked.len() {
                        return b"";
                    }
                    self.peeked[length] = byte;
                    length += 1;
                    at = self.skip_continuations(at + 1);
                }
                next => break next,
            }
        };
        // `}<(a)` is one word.
        let goes_on = matches!(next, Some(b'<' | b'>'))
            && self.dialect != Dialect::Posix
            && self.raw(at + 1) == Some(b'(');
        if goes_on { b"" } else { &self.peeked[..length] }
    }

    /// Passes a peeked word of that many letters, with line continuations between them.
    pub(super) fn pass_word(&mut self, letters: usize) {
        for letter in 0..letters {
            if letter > 0 {
                self.at.pos = self.skip_continuations(self.at.pos);
            }
            self.step(1);
        }
    }

    fn at_closer(&mut self) -> bool {
        if self.at.in_braces && self.cur() == Some(b'}') {
            return true;
        }
        let zsh = self.dialect == Dialect::Zsh;
        let word = self.peek_word();
        CLOSERS.contains(&word) || (zsh && word == b"end")
    }

    /// Reads lists until something that can only end them; the caller looks at what that is.
    /// `in_case` says that `;&` and the like may follow.
    pub(super) fn list(&mut self, in_case: bool) -> Parse<()> {
        self.enter()?;
        // Where a list ends with a word, all but zsh want a command in it.
        let mut may_end = in_case || self.at.in_braces || self.dialect == Dialect::Zsh;
        loop {
            self.newlines()?;
            match self.cur() {
                None | Some(b')') => break,
                Some(b';') if in_case || self.next() == Some(b';') => break,
                Some(b';') if self.dialect == Dialect::Zsh && self.next() != Some(b'&') => {
                    self.step(1);
                    continue;
                }
                _ => {}
            }
            if self.at_closer() {
                if !may_end {
                    return Err(Stop::Fail("a list without a command"));
                }
                break;
            }
            may_end = true;
            if !self.list_item(in_case)? {
                break;
            }
        }
        self.leave();
        Ok(())
    }

    /// One and-or list with its separator; false when the list cannot go on after it.
    fn list_item(&mut self, in_case: bool) -> Parse<bool> {
        let mark = self.mark();
        let start = self.at.pos;
        let (simple, body) = self.and_or()?;
        let end = self.at.last_end;
        self.blanks();
        match self.cur() {
            None | Some(b')') => Ok(false),
            Some(b'\n') => Ok(true),
            Some(b';') => match self.next() {
                Some(b';') => Ok(false),
                Some(b'&') if !in_case => {
                    let op = self.skip_continuations(self.at.pos + 1);
                    self.push_amp(op)?;
                    Err(Stop::Fail("nothing before '&'"))
                }
                Some(b'&') => Ok(false),
                Some(b'|') if in_case => Ok(false),
                _ => {
                    self.step(1);
                    Ok(true)
                }
            },
            Some(b'&') => {
                let op = self.at.pos;
                self.push_amp(op)?;
                if self.dialect == Dialect::Posix && self.next() == Some(b'>') {
                    self.at.ambiguous = true;
                }
                self.step(1);
                let disowned = self.dialect == Dialect::Zsh
                    && matches!(self.raw(self.at.pos), Some(b'!' | b'|'));
                if disowned {
                    self.step(1);
                }
                if self.dialect == Dialect::Zsh && simple.is_some_and(|simple| !simple.has_words) {
                    return Err(Stop::Fail("nothing to run in the background"));
                }
                let inner = self.enclose(mark, ScopeKind::Background);
                self.found.lists.push(Background {
                    span: Span::new(start, end),
                    op: small(op),
                    body: small(body.unwrap_or(start)),
                    scope: self.at.scope,
                    inner,
                    simple: simple.map_or(u32::MAX, |simple| small(simple.index)),
                    disowned,
                });
                self.blanks();
                let redirects = self.dialect != Dialect::Posix && self.next() == Some(b'>');
                if self.cur() == Some(b'&') && !redirects {
                    return Err(Stop::Fail("nothing before '&'"));
                }
                Ok(true)
            }
            // Reserved words are recognised again after a compound command: `{ (a) }`.
            _ if self.at_closer() => Ok(false),
            // zsh's `if [[ a ]] { b }` ends the condition with the brace.
            _ if self.dialect == Dialect::Zsh && self.peek_word() == b"{" => Ok(false),
            _ => Err(Stop::Fail("unexpected word after a command")),
        }
    }

    /// Gives the simple command if the list is just that, and where the list begins behind a `!` if
    /// it is one pipeline.
    fn and_or(&mut self) -> Parse<(Option<Alone>, Option<usize>)> {
        let (mut simple, mut body) = self.pipeline()?;
        loop {
            self.blanks();
            match (self.cur(), self.next()) {
                (Some(b'&'), Some(b'&')) | (Some(b'|'), Some(b'|')) => {
                    self.bump();
                    self.step(1);
                    self.newlines()?;
                    simple = None;
                    body = None;
                    self.pipeline()?;
                }
                _ => return Ok((simple, body)),
            }
        }
    }

    /// Whether the text may switch extended patterns on.
    fn has_extglob(&mut self) -> bool {
        let text = self.text;
        *self
            .extglob
            .get_or_insert_with(|| text.windows(7).any(|part| part == b"extglob"))
    }

    fn pipeline(&mut self) -> Parse<(Option<Alone>, Option<usize>)> {
        let mut prefixed = false;
        let mut body = None;
        loop {
            self.blanks();
            let timed = self.dialect != Dialect::Posix;
            let word = self.peek_word();
            if word == b"!" {
                self.step(1);
                // Without extglob, which is off by default, it is a command in brackets.
                if self.raw(self.at.pos) == Some(b'(')
                    && (self.dialect != Dialect::Bash || self.has_extglob())
                {
                    return Err(Stop::Fail("'!(' may be a pattern or a command"));
                }
                self.blanks();
                if !prefixed {
                    body = Some(self.at.pos);
                }
            } else if timed && word == b"time" {
                self.pass_word(4);
                self.blanks();
                if self.peek_word() == b"-p" {
                    self.pass_word(2);
                    self.blanks();
                }
                if self.peek_word() == b"--" {
                    self.pass_word(2);
                }
            } else {
                break;
            }
            prefixed = true;
        }
        // `time` and `!` may stand alone, except in a plain shell; never before `&`.
        let zsh = self.dialect == Dialect::Zsh;
        let alone = match self.cur() {
            None | Some(b'\n' | b';' | b')') => self.dialect != Dialect::Posix,
            Some(b'|') => zsh,
            Some(b'&') => zsh && self.next() == Some(b'&'),
            _ => false,
        };
        if prefixed && alone {
            return Ok((None, None));
        }
        let mut mark = self.mark();
        let mut simple = self.command()?;
        let mut piped = false;
        loop {
            self.blanks();
            if self.cur() != Some(b'|') || self.next() == Some(b'|') {
                break;
            }
            self.enclose(mark, ScopeKind::Segment);
            piped = true;
            self.bump();
            if self.cur() == Some(b'&') {
                if self.dialect == Dialect::Posix {
                    return Err(Stop::Fail("'|&' in a plain shell"));
                }
                self.step(1);
            }
            self.newlines()?;
            mark = self.mark();
            if self.peek_word() == b"!" {
                self.step(1);
                self.blanks();
            }
            self.command()?;
        }
        if piped {
            self.enclose(mark, ScopeKind::Last);
            simple = None;
        }
        Ok((simple.filter(|_| !prefixed), body))
    }

    /// One command with its redirections.
    pub(super) fn command(&mut self) -> Parse<Option<Alone>> {
        self.enter()?;
        self.blanks();
        let simple = if self.compound()? {
            self.compound_redirections()?;
            None
        } else {
            self.simple()?
        };
        self.leave();
        Ok(simple)
    }

    fn compound_redirections(&mut self) -> Parse<()> {
        loop {
            self.blanks();
            if !self.redirection()? {
                return Ok(());
            }
        }
    }

    fn simple(&mut self) -> Parse<Option<Alone>> {
        let start = self.at.pos;
        let open = self.found.open_words.len();
        let mut name = None;
        let (mut assigned, mut redirected, mut has_array) = (false, false, false);
        let mut redirects_stdin = false;
        let mut declares = false;
        loop {
            self.blanks();
            let Some(byte) = self.cur() else { break };
            if matches!(byte, b'\n' | b';' | b'|' | b')') {
                break;
            }
            let from = self.at.pos;
            if self.redirection()? {
                redirected = true;
                redirects_stdin |= is_stdin(&self.text[from..self.at.pos]);
                continue;
            }
            let first = name.is_none();
            match byte {
                b'&' => break,
                b'(' if self.parens_close() => {
                    let arguments = self.found.open_words.len() - open > 1;
                    if assigned || redirected || (arguments && self.dialect != Dialect::Zsh) {
                        return Err(Stop::Fail("unexpected '('"));
                    }
                    let Some(name) = name else {
                        return Err(Stop::Fail("unexpected '('"));
                    };
                    self.found.open_words.truncate(open);
                    self.function_body(Some(name))?;
                    return Ok(None);
                }
                b'(' if self.dialect != Dialect::Zsh || first => {
                    return Err(Stop::Fail("unexpected '('"));
                }
                b'}' if self.dialect == Dialect::Zsh && self.peek_word() == b"}" => {
                    if self.at.braces > 0 {
                        break;
                    }
                    return Err(Stop::Fail("'}' without a '{'"));
                }
                _ => {}
            }
            let word = self.word(first || declares)?;
            if word.span.is_empty() {
                return Err(Stop::Fail("unexpected character"));
            }
            has_array |= first && word.array;
            if first && word.assignment {
                assigned = true;
                let zsh = self.dialect == Dialect::Zsh;
                self.at.sets_functions |= zsh && word.span.of(self.text).starts_with(b"functions[");
            } else {
                if first {
                    declares = DECLARERS.contains(&word.span.of(self.text));
                    name = Some(word.span);
                }
                if self.backquotes == 0 {
                    self.found.open_words.push(word.span);
                }
            }
        }
        if name.is_none() && !assigned && !redirected {
            if self.cur() == Some(b'&') {
                self.push_amp(self.at.pos)?;
            }
            return Err(Stop::Fail("a command is missing"));
        }
        let has_words = name.is_some();
        let index = self.found.simples.len();
        // Of a backquoted text nothing but the lists is asked for.
        if self.backquotes == 0 {
            self.found.close_words(open);
            self.found.simples.push(Simple {
                start: small(start),
                scope: self.at.scope,
                words: small(
                    self.found.words.len() * 4
                        + usize::from(has_array)
                        + 2 * usize::from(redirects_stdin),
                ),
            });
        }
        Ok(Some(Alone { index, has_words }))
    }

    /// Whether `()` stands at the cursor.
    pub(super) fn parens_close(&self) -> bool {
        let mut at = self.skip_continuations(self.at.pos + 1);
        while matches!(self.raw(at), Some(b' ' | b'\t')) {
            at = self.skip_continuations(at + 1);
        }
        self.raw(at) == Some(b')')
    }

    /// Reads the body after `name` with the cursor at `()` or, after `function name`, at the body.
    pub(super) fn function_body(&mut self, name: Option<Span>) -> Parse<()> {
        if self.cur() == Some(b'(') && self.parens_close() {
            self.step(1);
            self.blanks();
            self.step(1);
        }
        self.newlines()?;
        let body = self.push_scope(ScopeKind::Function);
        let scope = std::mem::replace(&mut self.at.scope, body);
        self.found.functions.push(Function { name, scope, body });
        let simple = self.command()?;
        self.at.scope = scope;
        if simple.is_some() && self.dialect != Dialect::Zsh {
            return Err(Stop::Fail("the body of a function must be compound"));
        }
        Ok(())
    }
}

/// Whether a redirection is of stdin, and no here-document.
fn is_stdin(redirection: &[u8]) -> bool {
    let digits = redirection.iter().take_while(|byte| byte.is_ascii_digit());
    let (number, operator) = redirection.split_at(digits.count());
    let is_heredoc = operator.starts_with(b"<<") && !operator.starts_with(b"<<<");
    let reads = operator.starts_with(b"<") && !operator.starts_with(b"<<");
    !is_heredoc
        && (if number.is_empty() {
            reads
        } else {
            number.iter().all(|digit| *digit == b'0')
        })
}

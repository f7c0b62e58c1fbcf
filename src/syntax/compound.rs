//! Compound commands.

use super::commands::is_meta;
use super::state::{Scanner, State};
use super::words::Quoting;
use super::{Dialect, Parse, ScopeKind, Span, Stop};

impl Scanner<'_> {
    /// Reads a compound command if one begins at the cursor.
    pub(super) fn compound(&mut self) -> Parse<bool> {
        let zsh = self.dialect == Dialect::Zsh;
        let extended = self.dialect != Dialect::Posix;
        if self.cur() == Some(b'(') {
            if zsh && self.parens_close() {
                self.function_body(None)?;
                // An anonymous function takes its arguments behind the body.
                while !matches!(
                    self.cur(),
                    None | Some(b'\n' | b';' | b'&' | b'|' | b')' | b'}')
                ) {
                    self.blanks();
                    if self.word(false)?.span.is_empty() {
                        break;
                    }
                }
                return Ok(true);
            }
            self.parens()?;
            return Ok(true);
        }
        let word = self.peek_word();
        let length = word.len();
        match word {
            b"{" => {
                self.step(1);
                self.group_braces()?;
                if zsh && self.peek_after_blanks() == b"always" {
                    self.blanks();
                    self.pass_word(6);
                    self.newlines()?;
                    if self.peek_word() != b"{" {
                        return Err(Stop::Fail("'always' without a block"));
                    }
                    self.step(1);
                    self.group_braces()?;
                }
            }
            b"if" => {
                self.pass_word(length);
                self.if_command()?;
            }
            b"while" | b"until" => {
                self.pass_word(length);
                self.list(false)?;
                self.do_body(false)?;
            }
            b"for" => {
                self.pass_word(length);
                self.for_command()?;
            }
            b"case" => {
                self.pass_word(length);
                self.case_command()?;
            }
            b"select" if extended => {
                self.pass_word(length);
                self.for_command()?;
            }
            b"[[" if extended => {
                self.pass_word(length);
                self.condition()?;
            }
            b"[[" | b"function" if !extended => {
                return Err(Stop::Fail("this differs between plain shells"));
            }
            b"function" => {
                self.pass_word(length);
                self.function_command()?;
            }
            b"coproc" if extended => {
                self.pass_word(length);
                self.coproc()?;
            }
            b"repeat" if zsh => {
                self.pass_word(length);
                self.blanks();
                self.word(false)?;
                self.do_body(true)?;
            }
            b"foreach" if zsh => {
                self.pass_word(length);
                self.for_command()?;
            }
            b"then" | b"do" | b"done" | b"fi" | b"elif" | b"else" | b"esac" | b"}" => {
                return Err(Stop::Fail("unexpected reserved word"));
            }
            _ if zsh && word.first() == Some(&b'{') => {
                return Err(Stop::Fail("'{' without a blank"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn peek_after_blanks(&mut self) -> &[u8] {
        let at = self.at;
        self.blanks();
        let length = self.peek_word().len();
        self.at = at;
        &self.peeked[..length]
    }

    /// `( … )` or `(( … ))`.
    fn parens(&mut self) -> Parse<()> {
        let second = self.skip_continuations(self.at.pos + 1);
        if self.raw(second) == Some(b'(') {
            if self.dialect == Dialect::Posix {
                self.at.ambiguous = true;
            } else {
                let mark = self.mark();
                self.at.pos = second + 1;
                match self.arithmetic(Quoting::None) {
                    Err(Stop::Mismatch) => self.back_to(mark),
                    done => return done,
                }
            }
        }
        self.step(1);
        // The bodies of here-documents may begin before the bracket or behind it.
        let pending = self.at.pending;
        let outer = self.begin(ScopeKind::Subshell);
        self.at.pending = pending;
        self.list(false)?;
        let pending = self.at.pending;
        self.resume(State { pending, ..outer });
        if self.cur() != Some(b')') {
            return Err(Stop::Fail("an open '('"));
        }
        self.step(1);
        Ok(())
    }

    fn expect(&mut self, word: &'static [u8]) -> Parse<()> {
        if self.peek_word() != word {
            return Err(Stop::Fail("a reserved word is missing"));
        }
        self.pass_word(word.len());
        Ok(())
    }

    /// The rest of `{ … }`.
    fn group_braces(&mut self) -> Parse<()> {
        let (braces, in_braces) = (self.at.braces, self.at.in_braces);
        self.at.braces = braces.saturating_add(1);
        self.at.in_braces = false;
        self.list(false)?;
        self.at.braces = braces;
        self.at.in_braces = in_braces;
        self.expect(b"}")
    }

    fn if_command(&mut self) -> Parse<()> {
        self.list(false)?;
        if self.dialect == Dialect::Zsh && self.peek_word() == b"{" {
            return self.if_braces();
        }
        self.expect(b"then")?;
        self.list(false)?;
        loop {
            match self.peek_word() {
                b"elif" => {
                    self.pass_word(4);
                    self.list(false)?;
                    self.expect(b"then")?;
                    self.list(false)?;
                }
                b"else" => {
                    self.pass_word(4);
                    self.list(false)?;
                }
                _ => return self.expect(b"fi"),
            }
        }
    }

    /// zsh's `if list { … } elif list { … } else { … }`.
    fn if_braces(&mut self) -> Parse<()> {
        self.step(1);
        self.group_braces()?;
        loop {
            let word = self.peek_after_blanks();
            let (is_elif, is_else) = (word == b"elif", word == b"else");
            if !is_elif && !is_else {
                return Ok(());
            }
            self.blanks();
            self.pass_word(4);
            if is_elif {
                self.list(false)?;
            }
            self.newlines()?;
            self.expect(b"{")?;
            self.group_braces()?;
        }
    }

    /// `do … done` with what may stand for it: `{ … }`, and in zsh a bare command.
    fn do_body(&mut self, separated: bool) -> Parse<()> {
        if separated {
            self.blanks();
            if self.cur() == Some(b';') && self.next() != Some(b';') {
                self.step(1);
            }
        }
        self.newlines()?;
        let zsh = self.dialect == Dialect::Zsh;
        match self.peek_word() {
            b"do" => {
                self.pass_word(2);
                self.list(false)?;
                self.expect(b"done")
            }
            b"{" if separated || zsh => {
                if self.dialect == Dialect::Posix {
                    return Err(Stop::Fail("a loop without 'do'"));
                }
                self.step(1);
                self.group_braces()
            }
            _ if zsh && separated => {
                self.command()?;
                Ok(())
            }
            _ => Err(Stop::Fail("a loop without 'do'")),
        }
    }

    /// `for`, `select` and `foreach` after the word.
    fn for_command(&mut self) -> Parse<()> {
        let foreach = self.at.last_end >= 7 && self.text[..self.at.last_end].ends_with(b"foreach");
        self.blanks();
        if self.cur() == Some(b'(') && self.next() == Some(b'(') {
            if self.dialect == Dialect::Posix {
                return Err(Stop::Fail("an arithmetic loop in a plain shell"));
            }
            self.bump();
            self.step(1);
            self.arithmetic(Quoting::None)?;
            return self.do_body(true);
        }
        let name = self.word(false)?;
        if name.span.is_empty() {
            return Err(Stop::Fail("a loop without a name"));
        }
        self.newlines()?;
        if self.dialect == Dialect::Zsh {
            while !matches!(self.peek_word(), b"in" | b"do" | b"{")
                && self.cur().is_some_and(|byte| !is_meta(byte))
            {
                self.word(false)?;
                self.blanks();
            }
            if self.cur() == Some(b'(') {
                self.step(1);
                self.word_list(true)?;
                if self.cur() != Some(b')') {
                    return Err(Stop::Fail("an open list of words"));
                }
                self.step(1);
                if foreach {
                    return self.foreach_body();
                }
                return self.do_body(true);
            }
        }
        if self.peek_word() == b"in" {
            self.pass_word(2);
            self.word_list(false)?;
            if self.cur() == Some(b'&') {
                self.push_amp(self.at.pos)?;
                return Err(Stop::Fail("'&' in a list of words"));
            }
        }
        if foreach {
            return self.foreach_body();
        }
        self.do_body(true)
    }

    fn foreach_body(&mut self) -> Parse<()> {
        self.blanks();
        if self.cur() == Some(b';') {
            self.step(1);
        }
        self.list(false)?;
        self.expect(b"end")
    }

    fn word_list(&mut self, over_lines: bool) -> Parse<()> {
        loop {
            self.blanks();
            if over_lines {
                self.newlines()?;
            }
            if self.word(false)?.span.is_empty() {
                return Ok(());
            }
        }
    }

    fn case_command(&mut self) -> Parse<()> {
        self.blanks();
        let subject = self.word(false)?;
        if subject.span.is_empty() {
            return Err(Stop::Fail("'case' without a word"));
        }
        self.newlines()?;
        let zsh = self.dialect == Dialect::Zsh;
        let closer: &[u8] = match self.peek_word() {
            b"in" => b"esac",
            b"{" if zsh => b"}",
            _ => return Err(Stop::Fail("'case' without 'in'")),
        };
        self.pass_word(if closer == b"esac" { 2 } else { 1 });
        loop {
            self.newlines()?;
            if self.peek_word() == closer {
                self.pass_word(closer.len());
                return Ok(());
            }
            if self.cur() == Some(b'(') {
                self.step(1);
            }
            self.patterns()?;
            self.list(true)?;
            match (self.cur(), self.next()) {
                (Some(b';'), Some(b';')) => {
                    self.bump();
                    self.step(1);
                    if self.dialect == Dialect::Bash && self.cur() == Some(b'&') {
                        self.step(1);
                    }
                }
                (Some(b';'), Some(b'&')) if self.dialect != Dialect::Posix => {
                    self.bump();
                    self.step(1);
                }
                (Some(b';'), Some(b'|')) if self.dialect == Dialect::Zsh => self.step(2),
                _ if self.peek_word() == closer => {}
                _ => return Err(Stop::Fail("an open 'case'")),
            }
        }
    }

    /// The patterns of one clause with the bracket behind them.
    fn patterns(&mut self) -> Parse<()> {
        loop {
            self.blanks();
            let word = self.word(false)?;
            self.blanks();
            match self.cur() {
                Some(b')') => {
                    self.step(1);
                    return Ok(());
                }
                Some(b'|') => self.step(1),
                _ => return Err(Stop::Fail("an odd pattern in 'case'")),
            }
            if word.span.is_empty() && self.dialect != Dialect::Zsh {
                return Err(Stop::Fail("an odd pattern in 'case'"));
            }
        }
    }

    /// `[[ … ]]` after the brackets. Reads tokens without building anything, so it cannot nest.
    fn condition(&mut self) -> Parse<()> {
        let mut regex = false;
        loop {
            if regex {
                // A `#` begins no comment there.
                self.blanks_only();
            } else {
                self.newlines()?;
            }
            if self.peek_word() == b"]]" {
                self.pass_word(2);
                return Ok(());
            }
            let Some(byte) = self.cur() else {
                return Err(Stop::Fail("an open '[['"));
            };
            if regex {
                regex = false;
                self.regex()?;
                continue;
            }
            match byte {
                b'<' | b'>' if self.next() == Some(b'(') => {
                    self.word(false)?;
                }
                b'(' | b')' | b'<' | b'>' | b'&' | b'|' => self.step(1),
                b';' => return Err(Stop::Fail("';' inside '[['")),
                _ => {
                    let word = self.word(false)?.span;
                    regex = word.of(self.text) == b"=~";
                }
            }
        }
    }

    /// The pattern after `=~`: to the next blank, with brackets taken whole.
    fn regex(&mut self) -> Parse<()> {
        while let Some(byte) = self.raw(self.at.pos) {
            match byte {
                b' ' | b'\t' | b'\n' => break,
                b'\\' => self.step(2),
                b'\'' => self.single_quoted()?,
                b'"' => self.double_quoted()?,
                b'$' => self.dollar(Quoting::None)?,
                b'`' => self.backquote(false)?,
                b'(' => self.group()?,
                // It closes a bracket of the condition itself.
                b')' => break,
                _ => self.step(1),
            }
        }
        Ok(())
    }

    fn function_command(&mut self) -> Parse<()> {
        self.blanks();
        if self.dialect == Dialect::Zsh && self.peek_word() == b"{" {
            return self.function_body(None);
        }
        let start = self.at.pos;
        while self.raw(self.at.pos).is_some_and(|byte| !is_meta(byte)) {
            match self.text[self.at.pos] {
                b'\'' | b'"' | b'$' | b'`' => return Err(Stop::Fail("an odd name of a function")),
                b'\\' => self.step(2),
                _ => self.step(1),
            }
        }
        let name = Span::new(start, self.at.pos);
        if name.is_empty() {
            return Err(Stop::Fail("a function without a name"));
        }
        self.blanks();
        self.function_body(Some(name))
    }

    fn coproc(&mut self) -> Parse<()> {
        self.blanks();
        let mark = self.mark();
        if !self.at_compound() {
            let name = self.word(false)?.span;
            self.blanks();
            if name.is_empty() || !self.at_compound() {
                self.back_to(mark);
            }
        }
        self.command()?;
        self.enclose(mark, ScopeKind::Captured);
        Ok(())
    }

    fn at_compound(&mut self) -> bool {
        self.cur() == Some(b'(')
            || matches!(
                self.peek_word(),
                b"{" | b"[[" | b"if" | b"while" | b"until" | b"for" | b"case" | b"select"
            )
    }
}

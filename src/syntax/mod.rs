//! Reads shell text and finds every background operator, with what a rewrite needs to know about it.
//!
//! The scanner knows the grammar of bash, of dash and of zsh as far as it decides where a `&` is an
//! operator. It runs nothing, expands nothing and never fails loudly: text that it does not
//! understand gives `ok: false`, and the caller then leaves that text alone. It works on bytes, needs
//! time and memory in proportion to the text (16 bytes for each of its bytes at most, and a constant), and
//! nests no deeper than `MAX_DEPTH`, because an abort here would kill somebody's command.

mod commands;
mod compound;
mod heredoc;
pub(crate) mod literal;
pub(crate) mod log;
mod redirect;
mod state;
mod words;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod mutants;
#[cfg(test)]
mod tests;

use log::Log;
use state::Scanner;

/// How deep commands and expansions may nest. Hand-written text stays below 20; each level costs
/// the recursive descent up to two kilobytes of stack in a debug build.
const MAX_DEPTH: u32 = 150;
/// The longest text. Offsets in it take four bytes, and one bit is used otherwise.
const MAX_TEXT: usize = 1 << 30;

/// How many background lists a text may have. The longest text that Linux passes to a shell holds
/// fewer, and what cannot be passed cannot be rewritten. The plan keeps some hundred bytes for each.
pub(crate) const MAX_LISTS: usize = 1 << 16;

/// Which grammar a text is read by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Bash,
    Posix,
    Zsh,
}

impl Dialect {
    /// The grammar of the shell with that file name. What `sh` is differs between systems: the
    /// caller who knows better says so.
    #[must_use]
    pub fn for_shell(name: &str) -> Self {
        match name.trim_start_matches('-') {
            "sh" | "dash" => Self::Posix,
            "zsh" => Self::Zsh,
            _ => Self::Bash,
        }
    }

    /// Whether the text of the shell with that file name may be rewritten. Others that look alike
    /// (ksh, mksh, busybox, yash) read `&>` or `((` in ways of their own.
    #[must_use]
    pub fn is_known(name: &str) -> bool {
        matches!(name.trim_start_matches('-'), "bash" | "sh" | "dash" | "zsh")
    }
}

/// A half-open range of bytes of a text, which is shorter than `MAX_TEXT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        Self {
            start: small(start),
            end: small(end),
        }
    }

    #[must_use]
    pub fn start(self) -> usize {
        self.start as usize
    }

    #[must_use]
    pub fn end(self) -> usize {
        self.end as usize
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Its bytes.
    #[must_use]
    pub fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start()..self.end()]
    }
}

/// An offset or a count in a text that is shorter than `MAX_TEXT`.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// What was found in a text.
#[derive(Debug, Default)]
pub struct Script {
    /// Whether all of the text was understood. If not, only `amps` means anything.
    pub ok: bool,
    pub why: Option<&'static str>,
    /// The byte offset of every background operator, in order.
    pub amps: Vec<usize>,
    pub lists: Log<Background>,
    pub simples: Log<Simple>,
    words: Log<Span>,
    pub functions: Log<Function>,
    pub scopes: Log<Scope>,
    /// The text means one thing in dash and another in a bash that is called `sh`.
    pub ambiguous: bool,
    /// A function is defined by an assignment (`functions[f]=`, zsh).
    pub sets_functions: bool,
    /// How many bytes were looked at, some of them more than once.
    pub steps: u64,
}

impl Script {
    /// The command word and the arguments of the simple command with that index.
    pub fn words(&self, simple: usize) -> impl ExactSizeIterator<Item = Span> {
        let start = simple
            .checked_sub(1)
            .map_or(0, |before| self.simples[before].words_end());
        (start..self.simples[simple].words_end()).map(|at| self.words[at])
    }

    /// Gives the simple commands in order, with their words, and the memory of each back.
    pub fn into_simples(self) -> impl Iterator<Item = (Simple, Vec<Span>)> {
        let mut words = self.words.into_iter();
        let mut start = 0;
        self.simples.into_iter().map(move |simple| {
            let count = simple.words_end() - start;
            start = simple.words_end();
            let mut own = Vec::with_capacity(count);
            own.extend(words.by_ref().take(count));
            (simple, own)
        })
    }
}

/// One and-or list that an operator sends to the background.
#[derive(Clone, Copy, Debug)]
pub struct Background {
    /// The list without the operator.
    pub span: Span,
    op: u32,
    body: u32,
    scope: u32,
    inner: u32,
    simple: u32,
    /// zsh's `&!` and `&|`.
    pub disowned: bool,
}

impl Background {
    #[must_use]
    pub fn op(&self) -> usize {
        self.op as usize
    }

    /// Where the list begins after a `!` that applies to all of it. bash and zsh ignore that `!` in
    /// the status of a background job, and must go on doing so.
    #[must_use]
    pub fn body(&self) -> usize {
        self.body as usize
    }

    /// The shell that starts it.
    #[must_use]
    pub fn scope(&self) -> usize {
        self.scope as usize
    }

    /// The forked shell that runs it.
    #[must_use]
    pub fn inner(&self) -> usize {
        self.inner as usize
    }

    /// The index of its only simple command; `None` for anything larger.
    #[must_use]
    pub fn simple(&self) -> Option<usize> {
        (self.simple != u32::MAX).then_some(self.simple as usize)
    }
}

/// A simple command.
#[derive(Clone, Copy, Debug)]
pub struct Simple {
    start: u32,
    scope: u32,
    /// Four times the number of words up to and with its own, one more for `has_array`, and two more
    /// for `redirects_stdin`.
    words: u32,
}

impl Simple {
    #[must_use]
    pub fn start(&self) -> usize {
        self.start as usize
    }

    #[must_use]
    pub fn scope(&self) -> usize {
        self.scope as usize
    }

    /// An assignment has a list, `a=(x y)`, or the command word a subscript, `a[x y]`: both would be
    /// read otherwise behind another word.
    #[must_use]
    pub fn has_array(&self) -> bool {
        self.words & 1 != 0
    }

    /// It says itself where its stdin comes from, other than by a here-document: that is never anybody
    /// else's.
    #[must_use]
    pub fn redirects_stdin(&self) -> bool {
        self.words & 2 != 0
    }

    fn words_end(&self) -> usize {
        (self.words / 4) as usize
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Function {
    pub name: Option<Span>,
    scope: u32,
    body: u32,
}

impl Function {
    /// The scope where it is defined.
    #[must_use]
    pub fn scope(&self) -> usize {
        self.scope as usize
    }

    /// The scope of its body.
    #[must_use]
    pub fn body(&self) -> usize {
        self.body as usize
    }
}

/// A stretch of text that one shell process runs.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    parent: u32,
    pub kind: ScopeKind,
}

impl Scope {
    fn new(parent: Option<u32>, kind: ScopeKind) -> Self {
        Self {
            parent: parent.unwrap_or(u32::MAX),
            kind,
        }
    }

    #[must_use]
    pub fn parent(&self) -> Option<usize> {
        (self.parent != u32::MAX).then_some(self.parent as usize)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeKind {
    /// The shell that reads the text.
    Shell,
    /// `( … )`.
    Subshell,
    /// The body of a function: the shell that calls it.
    Function,
    /// Somebody reads what it prints: `$( )`, `<( )`, backquotes, a coprocess.
    Captured,
    /// Part of a pipeline, with another part behind it that reads what it prints.
    Segment,
    /// The last part of a pipeline.
    Last,
    /// A list in the background.
    Background,
}

/// Why reading stopped.
#[derive(Debug)]
enum Stop {
    /// Not the construct that was tried; another reading may fit.
    Mismatch,
    Fail(&'static str),
    /// No other reading is tried either.
    Refuse(&'static str),
}

type Parse<T> = Result<T, Stop>;

/// Reads a whole text.
#[must_use]
pub fn scan(text: &[u8], dialect: Dialect) -> Script {
    if text.len() >= MAX_TEXT {
        return Script {
            why: Some("the text is too long"),
            ..Script::default()
        };
    }
    let mut scanner = Scanner::new(text, dialect);
    let result = scanner.script();
    let steps = scanner.steps.get();
    let found = scanner.found;
    let mut out = Script {
        ok: result.is_ok(),
        why: match result {
            Ok(()) => None,
            Err(Stop::Fail(why) | Stop::Refuse(why)) => Some(why),
            Err(Stop::Mismatch) => Some("not understood"),
        },
        amps: found.amps,
        lists: found.lists,
        simples: found.simples,
        words: found.words,
        functions: found.functions,
        scopes: found.scopes,
        ambiguous: scanner.at.ambiguous,
        sets_functions: scanner.at.sets_functions,
        steps,
    };
    out.amps.sort_unstable();
    out
}

impl Scanner<'_> {
    fn script(&mut self) -> Parse<()> {
        if self.text.contains(&0) {
            return Err(Stop::Fail("the text has a NUL byte"));
        }
        self.list(false)?;
        if self.at.pos < self.at.end {
            if self.cur() == Some(b';') && self.next() == Some(b'&') {
                self.push_amp(self.skip_continuations(self.at.pos + 1))?;
            }
            return Err(Stop::Fail("unexpected end of a list"));
        }
        self.read_heredocs()
    }

    /// The byte at the cursor, after any line continuation there.
    fn cur(&mut self) -> Option<u8> {
        match self.raw(self.at.pos) {
            Some(b'\\') => {
                self.at.pos = self.skip_continuations(self.at.pos);
                self.raw(self.at.pos)
            }
            byte => byte,
        }
    }

    /// The byte after the one at the cursor, with line continuations left out.
    fn next(&self) -> Option<u8> {
        self.raw(self.skip_continuations(self.at.pos + 1))
    }

    fn skip_continuations(&self, mut at: usize) -> usize {
        while self.raw(at) == Some(b'\\') && self.raw(at + 1) == Some(b'\n') {
            at += 2;
        }
        at
    }

    /// Moves past the byte at the cursor and past line continuations after it.
    fn bump(&mut self) {
        self.at.pos = self.skip_continuations(self.at.pos + 1).min(self.at.end);
        self.at.last_end = self.at.pos;
    }

    /// Moves past that many bytes exactly.
    fn step(&mut self, bytes: usize) {
        self.at.pos = (self.at.pos + bytes).min(self.at.end);
        self.at.last_end = self.at.pos;
    }

    /// Moves past one byte, and on to the next such one.
    fn step_to(&mut self, is_end: impl Fn(u8) -> bool) {
        let from = (self.at.pos + 1).min(self.at.end);
        let length = self.reach(from, is_end);
        self.at.pos = length.map_or(self.at.end, |length| from + length);
        self.at.last_end = self.at.pos;
    }

    fn raw(&self, at: usize) -> Option<u8> {
        self.spend(1);
        if at < self.at.end {
            Some(self.text[at])
        } else {
            None
        }
    }

    /// What is left of the text from `at` on.
    fn rest(&self, at: usize) -> &[u8] {
        self.text.get(at..self.at.end).unwrap_or_default()
    }

    /// How far it is from `at` to the next such byte, or to the end.
    fn reach(&self, at: usize, is_end: impl Fn(u8) -> bool) -> Option<usize> {
        let found = self.rest(at).iter().position(|byte| is_end(*byte));
        self.spend(found.unwrap_or(self.at.end.saturating_sub(at)));
        found
    }
}

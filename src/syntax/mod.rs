//! Reads shell text and finds every background operator, with what a rewrite needs to know about it.
//!
//! The scanner knows the grammar of bash, of dash and of zsh as far as it decides where a `&` is an
//! operator. It runs nothing, expands nothing and never fails loudly: text that it does not
//! understand gives `ok: false`, and the caller then leaves that text alone. It works on bytes, needs
//! time in proportion to the text, and nests no deeper than `MAX_DEPTH`, because an abort here would
//! kill somebody's command.

mod commands;
mod compound;
mod heredoc;
pub(crate) mod literal;
mod redirect;
mod words;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod mutants;
#[cfg(test)]
mod tests;

/// How deep commands and expansions may nest. Hand-written text stays below 20; each level costs
/// the recursive descent up to two kilobytes of stack in a debug build.
const MAX_DEPTH: u32 = 150;

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

/// A half-open range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

/// What was found in a text.
#[derive(Debug, Default)]
pub struct Script {
    /// Whether all of the text was understood. If not, only `amps` means anything.
    pub ok: bool,
    pub why: Option<&'static str>,
    /// The byte offset of every background operator, in order.
    pub amps: Vec<usize>,
    pub lists: Vec<Background>,
    pub simples: Vec<Simple>,
    pub functions: Vec<Function>,
    pub scopes: Vec<Scope>,
    /// The text means one thing in dash and another in a bash that is called `sh`.
    pub ambiguous: bool,
}

/// One and-or list that an operator sends to the background.
#[derive(Clone, Debug)]
pub struct Background {
    /// The list without the operator.
    pub span: Span,
    pub op: usize,
    /// Where the list begins after a `!` that applies to all of it. bash and zsh ignore that `!` in
    /// the status of a background job, and must go on doing so.
    pub body: usize,
    /// zsh's `&!` and `&|`.
    pub disowned: bool,
    /// The shell that starts it.
    pub scope: usize,
    /// The forked shell that runs it.
    pub inner: usize,
    /// The index of its only simple command; `None` for anything larger.
    pub simple: Option<usize>,
}

/// A simple command, in the order of its parts.
#[derive(Clone, Debug)]
pub struct Simple {
    pub span: Span,
    pub scope: usize,
    pub assignments: Vec<Span>,
    /// The command word and its arguments.
    pub words: Vec<Span>,
    /// Each redirection with its target, and whether it is a here-document.
    pub redirections: Vec<(Span, bool)>,
    /// An assignment has a list, `a=(x y)`.
    pub has_array: bool,
}

#[derive(Clone, Debug)]
pub struct Function {
    pub name: Option<Span>,
    /// The scope where it is defined.
    pub scope: usize,
    /// The scope of its body.
    pub body: usize,
}

/// A stretch of text that one shell process runs.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub parent: Option<usize>,
    pub kind: ScopeKind,
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
}

type Parse<T> = Result<T, Stop>;

/// A here-document whose body begins after the current line.
#[derive(Debug)]
struct Pending {
    delimiter: Vec<u8>,
    quoted: bool,
    strip_tabs: bool,
}

/// How many findings there were at some moment, to go back to or to re-label what came since.
#[derive(Clone, Copy)]
struct Mark {
    amps: usize,
    lists: usize,
    simples: usize,
    functions: usize,
    scopes: usize,
}

struct Scanner<'a> {
    text: &'a [u8],
    pos: usize,
    end: usize,
    /// Where the last token ended.
    last_end: usize,
    dialect: Dialect,
    depth: u32,
    /// Bytes read in vain by readings that did not fit. Bounded, so that nested ambiguities such as
    /// `$((` cannot take exponential time.
    wasted: usize,
    pending: Vec<Pending>,
    scope: usize,
    /// Whether the text speaks of extglob, once somebody has looked.
    extglob: Option<bool>,
    /// Where `peek_word` puts a word: no reserved one is longer.
    peeked: [u8; 10],
    /// Inside `${ list; }`, where a `}` ends the list whatever follows it.
    in_braces: bool,
    /// Open `{` of zsh, where a `}` ends a command even among its arguments.
    braces: u32,
    out: Script,
}

/// Reads a whole text.
#[must_use]
pub fn scan(text: &[u8], dialect: Dialect) -> Script {
    scan_nested(text, dialect, 0)
}

fn scan_nested(text: &[u8], dialect: Dialect, depth: u32) -> Script {
    let mut scanner = Scanner {
        text,
        pos: 0,
        end: text.len(),
        last_end: 0,
        dialect,
        depth,
        wasted: 0,
        pending: Vec::new(),
        scope: 0,
        extglob: None,
        peeked: [0; 10],
        in_braces: false,
        braces: 0,
        out: Script::default(),
    };
    scanner.out.scopes.push(Scope {
        parent: None,
        kind: ScopeKind::Shell,
    });
    let result = scanner.script();
    let mut out = scanner.out;
    out.amps.sort_unstable();
    match result {
        Ok(()) => out.ok = true,
        Err(Stop::Fail(why)) => out.why = Some(why),
        Err(Stop::Mismatch) => out.why = Some("not understood"),
    }
    out
}

impl Scanner<'_> {
    fn script(&mut self) -> Parse<()> {
        if self.text.contains(&0) {
            return Err(Stop::Fail("the text has a NUL byte"));
        }
        self.list(false)?;
        if self.pos < self.end {
            if self.cur() == Some(b';') && self.next() == Some(b'&') {
                self.out.amps.push(self.pos + 1);
            }
            return Err(Stop::Fail("unexpected end of a list"));
        }
        self.read_heredocs()
    }

    /// The byte at the cursor, after any line continuation there.
    fn cur(&mut self) -> Option<u8> {
        while self.pos + 1 < self.end
            && self.text[self.pos] == b'\\'
            && self.text[self.pos + 1] == b'\n'
        {
            self.pos += 2;
        }
        self.raw(self.pos)
    }

    /// The byte after the one at the cursor, with line continuations left out.
    fn next(&self) -> Option<u8> {
        self.raw(self.skip_continuations(self.pos + 1))
    }

    fn skip_continuations(&self, mut at: usize) -> usize {
        while at + 1 < self.end && self.text[at] == b'\\' && self.text[at + 1] == b'\n' {
            at += 2;
        }
        at
    }

    /// Moves past the byte at the cursor and past line continuations after it.
    fn bump(&mut self) {
        self.pos = self.skip_continuations(self.pos + 1).min(self.end);
        self.last_end = self.pos;
    }

    /// Moves past one byte exactly.
    fn step(&mut self, bytes: usize) {
        self.pos = (self.pos + bytes).min(self.end);
        self.last_end = self.pos;
    }

    fn raw(&self, at: usize) -> Option<u8> {
        if at < self.end {
            Some(self.text[at])
        } else {
            None
        }
    }

    fn enter(&mut self) -> Parse<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Stop::Fail("nested too deeply"));
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    fn mark(&self) -> Mark {
        Mark {
            amps: self.out.amps.len(),
            lists: self.out.lists.len(),
            simples: self.out.simples.len(),
            functions: self.out.functions.len(),
            scopes: self.out.scopes.len(),
        }
    }

    /// Forgets what was found since `mark` and reads again from `pos`.
    fn back_to(&mut self, pos: usize, mark: Mark) -> Parse<()> {
        self.wasted += self.pos.saturating_sub(pos);
        if self.wasted > 16 * self.text.len() + 4096 {
            return Err(Stop::Fail("too many ambiguous brackets"));
        }
        self.pos = pos;
        self.out.amps.truncate(mark.amps);
        self.out.lists.truncate(mark.lists);
        self.out.simples.truncate(mark.simples);
        self.out.functions.truncate(mark.functions);
        self.out.scopes.truncate(mark.scopes);
        Ok(())
    }

    fn push_scope(&mut self, kind: ScopeKind) -> usize {
        self.out.scopes.push(Scope {
            parent: Some(self.scope),
            kind,
        });
        self.out.scopes.len() - 1
    }

    /// Moves what was found since `mark` in the current scope into a scope of its own: only the
    /// operator after a command tells which process runs it.
    fn enclose(&mut self, mark: Mark, kind: ScopeKind) -> usize {
        let from = self.scope;
        let new = self.push_scope(kind);
        for scope in &mut self.out.scopes[mark.scopes..new] {
            if scope.parent == Some(from) {
                scope.parent = Some(new);
            }
        }
        for list in &mut self.out.lists[mark.lists..] {
            if list.scope == from {
                list.scope = new;
            }
        }
        for simple in &mut self.out.simples[mark.simples..] {
            if simple.scope == from {
                simple.scope = new;
            }
        }
        for function in &mut self.out.functions[mark.functions..] {
            if function.scope == from {
                function.scope = new;
            }
        }
        new
    }
}

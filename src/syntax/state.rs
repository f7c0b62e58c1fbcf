//! What the scanner knows while it reads, and how it goes back.
//!
//! A reading that did not fit leaves nothing behind: all that a reading moves is one value that is
//! copied whole (`State`), or an entry of a list that only grows (`Found`). What is in `Scanner` besides
//! is either the same for the whole text or must outlive a reading in vain (`steps`).

use std::cell::Cell;

use super::{
    Background, Dialect, Function, MAX_DEPTH, Parse, Scope, ScopeKind, Simple, Span, Stop, small,
};
use crate::syntax::log::Log;

/// How many background lists a text may have. The longest text that Linux passes to a shell holds
/// fewer, and what cannot be passed cannot be rewritten. The plan keeps some two hundred bytes for
/// each one.
const MAX_LISTS: usize = 1 << 16;
/// How many bytes may be looked at for each byte of the text. What people write takes 3 to 10; nested
/// ambiguities such as `$((` could take exponential time.
const STEPS: u64 = 64;

/// Where reading stands.
#[derive(Clone, Copy)]
pub(super) struct State {
    pub(super) pos: usize,
    pub(super) end: usize,
    /// Where the last token ended.
    pub(super) last_end: usize,
    pub(super) depth: u32,
    pub(super) scope: u32,
    /// The last here-document whose body begins after the current line.
    pub(super) pending: Option<u32>,
    /// Inside `${ list; }`, where a `}` ends the list whatever follows it.
    pub(super) in_braces: bool,
    /// Open `{` of zsh, where a `}` ends a command even among its arguments.
    pub(super) braces: u32,
    /// The text means one thing in dash and another in a bash that is called `sh`.
    pub(super) ambiguous: bool,
}

/// A here-document. They are chained, so that a `State` holds those of its line in one number.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    pub(super) before: Option<u32>,
    /// With its quotes.
    pub(super) delimiter: Span,
    pub(super) strip_tabs: bool,
}

/// What was found, in lists that only grow.
#[derive(Default)]
pub(super) struct Found {
    pub(super) amps: Vec<usize>,
    pub(super) lists: Log<Background>,
    pub(super) simples: Log<Simple>,
    pub(super) words: Log<Span>,
    /// The words of simple commands that are still being read.
    pub(super) open_words: Log<Span>,
    pub(super) functions: Log<Function>,
    pub(super) scopes: Log<Scope>,
    pub(super) heredocs: Log<Pending>,
}

/// How much of each there is.
#[derive(Clone, Copy)]
struct Lengths {
    amps: usize,
    lists: usize,
    simples: usize,
    words: usize,
    open_words: usize,
    functions: usize,
    scopes: usize,
    heredocs: usize,
}

impl Found {
    // Both functions take the value apart: with a field more, they do not compile.
    fn lengths(&self) -> Lengths {
        let Self {
            amps,
            lists,
            simples,
            words,
            open_words,
            functions,
            scopes,
            heredocs,
        } = self;
        Lengths {
            amps: amps.len(),
            lists: lists.len(),
            simples: simples.len(),
            words: words.len(),
            open_words: open_words.len(),
            functions: functions.len(),
            scopes: scopes.len(),
            heredocs: heredocs.len(),
        }
    }

    fn truncate(&mut self, lengths: Lengths) {
        let Self {
            amps,
            lists,
            simples,
            words,
            open_words,
            functions,
            scopes,
            heredocs,
        } = self;
        amps.truncate(lengths.amps);
        lists.truncate(lengths.lists);
        simples.truncate(lengths.simples);
        words.truncate(lengths.words);
        open_words.truncate(lengths.open_words);
        functions.truncate(lengths.functions);
        scopes.truncate(lengths.scopes);
        heredocs.truncate(lengths.heredocs);
    }
}

/// A moment to go back to.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    state: State,
    lengths: Lengths,
}

/// How many bytes were looked at, here and in the scanners of backquoted texts within.
#[derive(Clone, Copy, Default)]
pub(super) struct Steps {
    pub(super) taken: u64,
    limit: u64,
}

pub(super) struct Scanner<'a> {
    pub(super) text: &'a [u8],
    pub(super) dialect: Dialect,
    /// How many backquoted texts it is in.
    pub(super) backquotes: u32,
    pub(super) at: State,
    pub(super) found: Found,
    pub(super) steps: Cell<Steps>,
    /// Whether the text speaks of extglob, once somebody has looked.
    pub(super) extglob: Option<bool>,
    /// Where `peek_word` puts a word: no reserved one is longer.
    pub(super) peeked: [u8; 10],
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8], dialect: Dialect) -> Self {
        let steps = Steps {
            taken: 0,
            limit: STEPS * text.len() as u64 + 4096,
        };
        Self::within(text, dialect, 0, 0, steps)
    }

    fn within(text: &'a [u8], dialect: Dialect, backquotes: u32, depth: u32, steps: Steps) -> Self {
        let mut found = Found::default();
        found.scopes.push(Scope::new(None, ScopeKind::Shell));
        Self {
            text,
            dialect,
            backquotes,
            at: State {
                pos: 0,
                end: text.len(),
                last_end: 0,
                depth,
                scope: 0,
                pending: None,
                in_braces: false,
                braces: 0,
                ambiguous: false,
            },
            found,
            steps: Cell::new(steps),
            extglob: None,
            peeked: [0; 10],
        }
    }

    /// A scanner for a backquoted text. It has no more steps than this one has left.
    pub(super) fn for_backquoted<'b>(&self, text: &'b [u8]) -> Scanner<'b> {
        Scanner::within(
            text,
            self.dialect,
            self.backquotes + 1,
            self.at.depth,
            self.steps.get(),
        )
    }

    pub(super) fn spend(&self, bytes: usize) {
        let mut steps = self.steps.get();
        steps.taken = steps.taken.saturating_add(bytes as u64);
        self.steps.set(steps);
    }

    pub(super) fn enter(&mut self) -> Parse<()> {
        self.at.depth += 1;
        if self.at.depth > MAX_DEPTH {
            return Err(Stop::Refuse("nested too deeply"));
        }
        let steps = self.steps.get();
        if steps.taken > steps.limit {
            return Err(Stop::Refuse("too many ambiguous brackets"));
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.at.depth = self.at.depth.saturating_sub(1);
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            state: self.at,
            lengths: self.found.lengths(),
        }
    }

    /// Forgets all that was read since `mark`.
    pub(super) fn back_to(&mut self, mark: Mark) {
        self.at = mark.state;
        self.found.truncate(mark.lengths);
    }

    /// Goes on in a scope within, whose here-documents and braces are its own. `resume` ends it.
    pub(super) fn begin(&mut self, kind: ScopeKind) -> State {
        let outer = self.at;
        self.at.scope = self.push_scope(kind);
        self.at.pending = None;
        self.at.braces = 0;
        self.at.in_braces = false;
        outer
    }

    /// Goes on outside, from where reading stands.
    pub(super) fn resume(&mut self, outer: State) {
        self.at = State {
            pos: self.at.pos,
            last_end: self.at.last_end,
            ambiguous: self.at.ambiguous,
            ..outer
        };
    }

    pub(super) fn push_amp(&mut self, at: usize) -> Parse<()> {
        if self.found.amps.len() >= MAX_LISTS {
            return Err(Stop::Refuse("too many commands in the background"));
        }
        self.found.amps.push(at);
        Ok(())
    }

    pub(super) fn push_scope(&mut self, kind: ScopeKind) -> u32 {
        let scope = Scope::new(Some(self.at.scope), kind);
        self.found.scopes.push(scope);
        small(self.found.scopes.len() - 1)
    }

    /// Moves what was found since `mark` in the current scope into a scope of its own: only the
    /// operator after a command tells which process runs it.
    pub(super) fn enclose(&mut self, mark: Mark, kind: ScopeKind) -> u32 {
        let from = self.at.scope;
        let new = self.push_scope(kind);
        let since = mark.lengths;
        let Found {
            lists,
            simples,
            functions,
            scopes,
            ..
        } = &mut self.found;
        let relabel = |scope: &mut u32| {
            if *scope == from {
                *scope = new;
            }
        };
        for at in since.scopes..scopes.len() - 1 {
            relabel(&mut scopes[at].parent);
        }
        for at in since.lists..lists.len() {
            relabel(&mut lists[at].scope);
        }
        for at in since.simples..simples.len() {
            relabel(&mut simples[at].scope);
        }
        for at in since.functions..functions.len() {
            relabel(&mut functions[at].scope);
        }
        new
    }
}

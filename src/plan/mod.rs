//! Decides which background spots of a command become jobs, which the command attends to itself,
//! and how each one was asked for.
//!
//! Pure. It reads the text with `syntax`, looks through literal strings that a shell will read
//! (`eval '…'`, `bash -c '…'`), and leaves the writing to `rewrite`.

pub(crate) mod asked;
mod attend;
mod builtins;
mod hazards;
mod named;
mod names;
mod prefix;
mod simple;
pub(crate) mod unwrap;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use crate::job::How;
use crate::syntax::literal::{Places, decode, plain};
use crate::syntax::log::Log;
use crate::syntax::{self, Background, Dialect, ScopeKind, Script, Span};
use asked::Asked;
use attend::Facts;
use builtins::{is_builtin, takes_arguments_only};
use named::Called;
use prefix::Prefix;
use simple::{Words, recalls};
use unwrap::Unwrapped;

/// How many strings inside strings are looked through.
const MAX_LEVELS: usize = 6;
/// How many words are looked at for what the launcher finds by itself.
const MAX_PREFIX: usize = 1024;
/// The function that a rewritten text calls.
pub(crate) const FUNCTION: &[u8] = b"agent_sh";

/// What is to be done with a command.
#[derive(Debug)]
pub struct Plan {
    /// Whether the whole text was understood. If not, it runs untouched.
    pub ok: bool,
    pub why: Option<String>,
    /// The byte offset of every background operator in the text itself, not in strings.
    pub amps: Vec<usize>,
    /// Every list that goes to the background, in order, those in looked-through strings included.
    pub spots: Vec<Spot>,
    /// The text (0) and the strings that were looked through; a parent comes before its children.
    pub(crate) levels: Log<Level>,
    /// The text was understood, but our function would not work in its shell; `why` says what is in
    /// the way.
    pub(crate) is_hazardous: bool,
}

/// One list in the background.
#[derive(Clone, Debug)]
pub struct Spot {
    /// The list's bytes in the text, without the operator.
    pub start: usize,
    pub end: usize,
    pub how: How,
    /// The command waits for it, or reads what it prints: it stays as it is.
    pub attended: bool,
    /// A `nohup` in it finds its output as it was, so that must not be a terminal.
    pub pipe: bool,
    /// The command's own redirections say what its stdin is.
    pub(crate) stdin: bool,
    /// The launcher sees from the command's own words how it was asked for.
    pub(crate) is_plain: bool,
    /// It is a job, but an insertion would break it; the reaper net will find it.
    pub(crate) untouchable: bool,
    pub(crate) level: usize,
    /// The bytes in the text of its level that a brace group goes around.
    pub(crate) local: Span,
    pub(crate) form: Form,
}

impl Spot {
    /// What its launcher is told.
    #[must_use]
    pub fn asked(&self) -> Asked {
        Asked {
            pipe: self.pipe,
            stdin: self.stdin,
            ..Asked::plain(self.how)
        }
    }
}

/// How a spot is turned into a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A word before the command word. `literal` says that the word is plain text, so that an alias
    /// may stand behind it.
    Insert { at: usize, literal: bool },
    /// A brace group around the list.
    Wrap,
}

/// A text that some shell reads.
#[derive(Debug)]
pub(crate) struct Level {
    /// Empty for level 0, which the caller has.
    pub(crate) text: Vec<u8>,
    pub(crate) places: Places,
    pub(crate) parent: usize,
    pub(crate) dialect: Dialect,
    /// The level whose shell runs it: itself, or for `eval` the one around.
    pub(crate) shell: usize,
}

impl Plan {
    /// Whether anything outlives the command by intent.
    #[must_use]
    pub fn has_jobs(&self) -> bool {
        self.spots.iter().any(|spot| !spot.attended)
    }

    /// The shape that `parse --json` prints.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let jobs: Vec<Value> = self
            .spots
            .iter()
            .map(|spot| {
                json!({
                    "start": spot.start,
                    "end": spot.end,
                    "how": spot.how.word(),
                    "attended": spot.attended,
                })
            })
            .collect();
        json!({ "ok": self.ok, "amps": self.amps, "jobs": jobs, "why": self.why })
    }
}

/// Reads a command and plans its background spots.
#[must_use]
pub fn plan(text: &[u8], dialect: Dialect) -> Plan {
    let mut planner = Planner::default();
    planner.levels.push(Level {
        text: Vec::new(),
        places: Places::default(),
        parent: 0,
        dialect,
        shell: 0,
    });
    let shell = planner.facts.scope(None, ScopeKind::Shell);
    let mut script = syntax::scan(text, dialect);
    let mut plan = Plan {
        ok: script.ok,
        why: script.why.map(str::to_owned),
        amps: std::mem::take(&mut script.amps),
        spots: Vec::new(),
        levels: Log::default(),
        is_hazardous: false,
    };
    if script.ok {
        planner.read(0, text, script, shell);
        planner
            .named
            .keep(&mut planner.spots, text, &planner.levels);
        plan.spots = planner.facts.settle(planner.spots);
        plan.levels = planner.levels;
        plan.is_hazardous = planner.hazard.is_some();
        plan.why = planner.hazard.map(str::to_owned);
    }
    plan
}

/// Whether a shell that is called with these words, up to its text, has our function work in it.
pub(crate) fn may_be_rewritten<'a>(
    mut words: impl Iterator<Item = &'a [u8]>,
    dialect: Dialect,
) -> bool {
    let name = words.next().map(prefix::base).unwrap_or_default();
    let name = name.strip_prefix(b"-").unwrap_or(name);
    let is_restricted = match dialect {
        Dialect::Bash => name == b"rbash",
        Dialect::Zsh => name.starts_with(b"r"),
        Dialect::Posix => false,
    };
    !is_restricted && hazards::options(words, dialect).is_none()
}

/// A spot before it is known who waits for it.
#[derive(Debug)]
pub(crate) struct Candidate {
    spot: Spot,
    op: usize,
    scope: usize,
    inner: usize,
    disowned: bool,
    /// No job is started at all.
    is_native: bool,
}

#[derive(Default)]
struct Planner {
    levels: Log<Level>,
    spots: Vec<Candidate>,
    facts: Facts,
    hazard: Option<&'static str>,
    /// The names by which the text calls jobs.
    named: Called,
}

impl Planner {
    /// Takes over what was found in one text. `scope` is the shell that runs it.
    fn read(&mut self, level: usize, text: &[u8], script: Script, scope: usize) {
        // The scopes of a text but the first are numbered in a row.
        let first = self.facts.scopes();
        let global = |local: usize| match local {
            0 => scope,
            _ => first + local - 1,
        };
        for found in script.scopes.iter().skip(1) {
            self.facts.scope(found.parent().map(global), found.kind);
        }
        for function in &script.functions {
            let name = function.name.map(|span| span.of(text));
            let dialect = self.levels[level].dialect;
            let hazard = name.and_then(|name| hazards::function(name, dialect));
            self.hazard = self.hazard.or(hazard);
            let (scope, body) = (global(function.scope()), global(function.body()));
            self.facts.function(name, scope, body);
        }
        if script.sets_functions {
            self.hazard = Some("it defines functions by another name");
        }
        let mut launched = vec![false; script.simples.len()];
        self.spots.reserve(script.lists.len());
        for list in &script.lists {
            let form = self.form(level, text, &script, list);
            if let (Form::Insert { .. }, Some(index)) = (form, list.simple()) {
                launched[index] = true;
            }
            let first = list
                .simple()
                .and_then(|index| script.words(index).next())
                .and_then(|word| decode(text, word, self.levels[level].dialect));
            let first = first.as_ref().map(|word| word.bytes.as_slice());
            // `%1 &` is `bg %1`.
            let is_native = first.is_some_and(|word| word.starts_with(b"%"))
                && self.levels[level].dialect != Dialect::Posix;
            self.spots.push(Candidate {
                spot: Spot {
                    start: self.outer(level, list.span.start()),
                    end: self.outer(level, list.span.end()),
                    how: How::Ampersand,
                    attended: false,
                    pipe: false,
                    stdin: list
                        .simple()
                        .is_some_and(|index| script.simples[index].redirects_stdin()),
                    is_plain: false,
                    // A subshell forgets the traps that it could tell of as soon as it does anything.
                    untouchable: first == Some(b"trap"),
                    level,
                    local: Span::new(list.body(), list.span.end()),
                    form,
                },
                op: self.outer(level, list.op()),
                scope: global(list.scope()),
                inner: global(list.inner()),
                disowned: list.disowned,
                is_native,
            });
        }
        for ((simple, words), launched) in script.into_simples().zip(launched) {
            let scope = global(simple.scope());
            self.simple(level, text, simple.start(), &words, scope, launched);
        }
    }

    /// The offset in the command itself of an offset in some level.
    fn outer(&self, mut level: usize, mut at: usize) -> usize {
        while level != 0 {
            at = self.levels[level].places.get(at).at;
            level = self.levels[level].parent;
        }
        at
    }

    fn form(&self, level: usize, text: &[u8], script: &Script, list: &Background) -> Form {
        let dialect = self.levels[level].dialect;
        let Some(index) = list.simple() else {
            return Form::Wrap;
        };
        let has_array = script.simples[index].has_array();
        let Some(word) = script.words(index).next().filter(|_| !has_array) else {
            return Form::Wrap;
        };
        let at = word.start();
        // `[` is a pattern's beginning, too, and so not plain.
        let bracket = Some(&b"["[..]).filter(|name| word.of(text) == *name);
        let recalls = || recalls(text, script, index);
        if let Some(name) = plain(text, word).or(bracket) {
            let only_arguments = takes_arguments_only(name);
            if is_builtin(name, dialect) || (only_arguments && !recalls()) {
                return Form::Wrap;
            }
            let literal = !name.starts_with(b"-") && !only_arguments;
            return Form::Insert { at, literal };
        }
        match decode(text, word, dialect) {
            Some(word)
                if is_builtin(&word.bytes, dialect)
                    || (takes_arguments_only(&word.bytes) && !recalls()) =>
            {
                Form::Wrap
            }
            _ => Form::Insert { at, literal: false },
        }
    }

    /// Takes note of what a simple command does to the jobs around it. `launched` says that the
    /// launcher runs it, if the list that it is becomes a job.
    fn simple(
        &mut self,
        level: usize,
        text: &[u8],
        start: usize,
        spans: &[Span],
        scope: usize,
        launched: bool,
    ) {
        let Some(first) = spans.first() else {
            return;
        };
        let dialect = self.levels[level].dialect;
        let Some(first) = decode(text, *first, dialect) else {
            return;
        };
        let at = self.outer(level, start);
        if first.bytes == FUNCTION {
            self.hazard = hazards::function(FUNCTION, dialect);
        }
        let words = Words {
            text,
            spans,
            dialect,
        };
        self.named.read(&words);
        let prefix = Prefix::read(&words);
        if let Some(how) = prefix.how {
            self.facts.asked(scope, how);
            let found = if launched {
                words.unwrapped()
            } else {
                Unwrapped::default()
            };
            if launched {
                self.facts.found(scope, found.how);
            }
            if prefix.nohups > 0 {
                let hidden = prefix.nohups > found.nohups;
                self.facts.nohup(scope, hidden);
            }
        }
        let Some(name) = words.literal(prefix.rest) else {
            return;
        };
        let hazard = hazards::command(&name, &words.rest(prefix.rest + 1), dialect);
        self.hazard = self.hazard.or(hazard);
        match name.as_slice() {
            b"wait" | b"fg" => self.facts.wait(scope, at),
            b"disown" => self.facts.disown(scope, at, &words.rest(prefix.rest + 1)),
            b"export" | b"declare" | b"typeset" | b"functions" | b"set" => {
                let options = words.rest(prefix.rest + 1);
                let letter = if name == b"set" { b'a' } else { b'f' };
                // The text of a function may then run in a shell that has no `agent_sh`.
                self.facts.leaks_functions |= name == b"functions"
                    || (name == b"set" && options.is_empty())
                    || options.iter().flatten().any(|option| {
                        (option.starts_with(b"-") && option.contains(&letter))
                            || option == b"allexport"
                    });
            }
            b"type" | b"whence" | b"which" => {
                for index in prefix.rest + 1..words.spans.len() {
                    self.facts.printed(words.literal(index).as_deref());
                }
            }
            b"eval" if prefix.same_user => {
                self.look_through_eval(level, &words, prefix.rest, scope);
            }
            _ => {
                self.facts.call(scope, &name, at);
                if prefix.same_user {
                    self.look_through_shell(level, &words, prefix.rest, scope);
                }
            }
        }
    }

    fn look_through_eval(&mut self, level: usize, words: &Words<'_>, eval: usize, scope: usize) {
        let mut whole = None;
        let mut index = eval + 1;
        if words.literal(index).as_deref() == Some(b"--") {
            index += 1;
        }
        for span in words.spans.get(index..).unwrap_or_default() {
            let Some(word) = decode(words.text, *span, words.dialect) else {
                self.glance(scope, span.of(words.text));
                return;
            };
            match &mut whole {
                None => whole = Some(word),
                Some(text) => text.join(word),
            }
        }
        if let Some(text) = whole {
            let shell = self.levels[level].shell;
            self.look_through(
                level,
                text.bytes,
                text.places,
                words.dialect,
                Some(shell),
                scope,
            );
        }
    }

    fn look_through_shell(&mut self, level: usize, words: &Words<'_>, name: usize, scope: usize) {
        let Some((dialect, index)) = prefix::shell_string(words, name) else {
            return;
        };
        let Some(span) = words.spans.get(index) else {
            return;
        };
        let Some(text) = decode(words.text, *span, words.dialect) else {
            self.glance(scope, span.of(words.text));
            return;
        };
        let shell = self.facts.scope(Some(scope), ScopeKind::Shell);
        self.look_through(level, text.bytes, text.places, dialect, None, shell);
    }

    /// Looks at a text that cannot be read: with a `nohup` in it, a terminal might be turned away
    /// from.
    fn glance(&mut self, scope: usize, text: &[u8]) {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let mut words = text.split(|byte| !is_word(*byte));
        if words.any(|word| word == b"nohup") {
            self.facts.nohup(scope, true);
        }
    }

    fn look_through(
        &mut self,
        parent: usize,
        text: Vec<u8>,
        places: Places,
        dialect: Dialect,
        shell: Option<usize>,
        scope: usize,
    ) {
        let mut depth = 1;
        let mut above = parent;
        while above != 0 {
            above = self.levels[above].parent;
            depth += 1;
        }
        if depth > MAX_LEVELS {
            self.glance(scope, &text);
            return;
        }
        let script = syntax::scan(&text, dialect);
        let too_many = self.spots.len() + script.lists.len() > syntax::MAX_LISTS;
        if !script.ok || too_many || (shell.is_none() && script.ambiguous) {
            self.glance(scope, &text);
            return;
        }
        let level = self.levels.len();
        self.levels.push(Level {
            text: Vec::new(),
            places,
            parent,
            dialect,
            shell: shell.unwrap_or(level),
        });
        self.read(level, &text, script, scope);
        self.levels[level].text = text;
    }
}

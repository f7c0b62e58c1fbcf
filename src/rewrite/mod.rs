//! Writes the text that starts jobs: one function in front, and a word or a brace group at each spot.
//!
//! Every byte outside the insertions stays, and no insertion has a line end, so `$LINENO` and the
//! shell's own messages keep their numbers. An insertion inside a looked-through string is quoted as
//! that string is, once for each string around it.

#[cfg(test)]
mod join;
mod prelude;

use std::borrow::Cow;

use crate::job::How;
use crate::plan::asked::Line;
use crate::plan::{Form, Plan, Spot};
use crate::syntax::literal::{encode, single_quote};
use crate::syntax::{Dialect, scan};
use crate::text;
use prelude::Reader;

/// The longest argument that Linux passes to a program (MAX_ARG_STRLEN without the final NUL).
const LONGEST: usize = 131_071;
/// How much of a list's own text names it.
const LABEL: usize = 300;

/// An insertion before the byte at that offset.
type Insertion = (usize, Vec<u8>);

/// The text with its jobs, or `None` if there is nothing to do or no safe way to do it.
#[must_use]
pub fn rewrite(text: &[u8], plan: &Plan, dialect: Dialect, launcher: &[u8]) -> Option<Vec<u8>> {
    let callable = !launcher.is_empty() && !launcher.contains(&0) && !launcher.contains(&b'\n');
    if !plan.ok || plan.is_hazardous || !callable {
        return None;
    }
    let spots: Vec<&Spot> = plan
        .spots
        .iter()
        .filter(|spot| !spot.attended && !spot.untouchable)
        .collect();
    if spots.is_empty() {
        return None;
    }
    let write = |restored| written(text, plan, dialect, launcher, &spots, restored);
    write(true).or_else(|| write(false))
}

/// The text with its jobs, unless it is too long then. `restored` says whether a shell that may tell its text is told the old one.
fn written(
    text: &[u8],
    plan: &Plan,
    dialect: Dialect,
    launcher: &[u8],
    spots: &[&Spot],
    restored: bool,
) -> Option<Vec<u8>> {
    let mut insertions: Vec<Vec<Insertion>> = vec![Vec::new(); plan.levels.len()];
    let mut calls = vec![false; plan.levels.len()];
    let mut total = 0;
    for spot in spots {
        calls[plan.levels[spot.level].shell] = true;
        let source = match spot.level {
            0 => text,
            level => &plan.levels[level].text,
        };
        let reader = if spot.level == 0 {
            dialect
        } else {
            plan.levels[spot.level].dialect
        };
        let in_eval = plan.levels[spot.level].shell != spot.level;
        let text = Text {
            source,
            dialect: reader,
            in_eval,
        };
        let into = &mut insertions[spot.level];
        let before = into.len();
        insert(spot, text, into);
        let new = into[before..].iter().map(|(_, inserted)| inserted.len());
        total += new.sum::<usize>();
        // All of it ends up in the text, and nothing makes it shorter.
        if total > LONGEST {
            return None;
        }
    }
    for level in (0..plan.levels.len()).rev() {
        let own = &mut insertions[level];
        own.sort_by_key(|(at, _)| *at);
        let found = &plan.levels[level];
        if found.shell == level && !own.is_empty() {
            let reader = if level == 0 { dialect } else { found.dialect };
            let launcher = calls[level].then_some(launcher);
            let places: Vec<_> = own.iter().map(|(at, text)| (*at, text.len())).collect();
            let source = if level == 0 { text } else { &found.text };
            let reader = Reader {
                dialect: reader,
                name: match reader {
                    Dialect::Bash => "bash",
                    Dialect::Zsh => "zsh",
                    // What `sh` is, within a text, is not known.
                    Dialect::Posix if level > 0 => "sh",
                    Dialect::Posix => "dash",
                },
                restored: (restored && reader == Dialect::Bash && tells_its_text(source))
                    .then_some(source),
            };
            let prelude = prelude::prelude(&reader, launcher, &places);
            total += prelude.len();
            own.insert(0, (0, prelude));
        }
        if total > LONGEST {
            return None;
        }
        if level == 0 {
            break;
        }
        for (at, inserted) in std::mem::take(own) {
            let place = found.places.get(at);
            let encoded = encode(&inserted, place.quote);
            total += encoded.len().saturating_sub(inserted.len());
            insertions[found.parent].push((place.at, encoded));
        }
    }
    let out = apply(text, std::mem::take(&mut insertions[0]));
    (out.len() <= LONGEST).then_some(out)
}

/// The text that a rewritten one was made of: a process shows the latter among its words, and people
/// should see the former. `None` if it is no such text.
#[must_use]
pub fn original(text: &[u8]) -> Option<Vec<u8>> {
    let (places, rest) = prelude::read(text)?;
    let mut out = Vec::with_capacity(rest.len());
    let mut from = 0;
    for (at, length) in places {
        let upto = at.checked_sub(out.len())?.checked_add(from)?;
        out.extend_from_slice(rest.get(from..upto)?);
        from = upto.checked_add(length)?;
    }
    out.extend_from_slice(rest.get(from..)?);
    Some(out)
}

/// The words of a command as its user wrote them, quoted for a shell.
pub fn shown<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> String {
    text::quote_all(words.into_iter().map(|word| {
        let own = original(word);
        own.map_or(Cow::Borrowed(word), Cow::Owned)
    }))
}

/// A text that a spot is in.
#[derive(Clone, Copy)]
struct Text<'a> {
    source: &'a [u8],
    dialect: Dialect,
    in_eval: bool,
}

impl Text<'_> {
    /// The line of a command, where its shell cannot tell it and would not take it for the first one.
    fn line(self, at: usize) -> Option<Line> {
        let number = 1 + memchr::memchr_iter(b'\n', &self.source[..at]).count();
        let told = self.dialect == Dialect::Posix && (number > 1 || self.in_eval);
        told.then_some(Line {
            number,
            in_eval: self.in_eval,
        })
    }
}

/// Whether bash may show the text it was given, to itself or to a file that it reads.
fn tells_its_text(text: &[u8]) -> bool {
    let sources = |word: &[u8]| matches!(word, b"." | b"source" | b"\\." | b"\\source");
    memchr::memmem::find(text, b"BASH_EXECUTION_STRING").is_some()
        || text
            .split(|byte| b" \t\n;&|(){}".contains(byte))
            .any(sources)
}

fn insert(spot: &Spot, text: Text<'_>, into: &mut Vec<Insertion>) {
    let Text {
        source, dialect, ..
    } = text;
    let mut asked = spot.asked();
    let mut call = b"agent_sh ".to_vec();
    match spot.form {
        Form::Insert { at, literal } => {
            if spot.is_plain {
                asked.how = How::Ampersand;
            }
            asked.line = text.line(at);
            if !asked.is_plain() {
                call.extend([b"-w ", asked.word().as_slice(), b" "].concat());
            }
            if !literal {
                call.extend_from_slice(b"-- ");
            }
            into.push((at, call));
        }
        Form::Wrap => {
            let list = spot.local.of(source);
            let group = one_group(list, dialect);
            asked.stdin |= group.unwrap_or_else(|| speaks_of_stdin(list));
            if asked.is_plain() {
                call.extend_from_slice(b"-c ");
            } else {
                call.extend([b"-a ", asked.word().as_slice(), b" "].concat());
            }
            call.extend(single_quote(&label(list)));
            if group.is_some() {
                // Around `( … )` bash would fork once more, and `$!` would not be the work. Inside,
                // also a redirection of the whole group is in place when the job registers.
                let call = if is_chain(list) {
                    [b" { ", call.as_slice(), b" || :; } && "].concat()
                } else {
                    [b" ", call.as_slice(), b"; "].concat()
                };
                into.push((spot.local.start() + 1, call));
            } else {
                // Behind `!` or `do`, which need no blank before a bracket, `{` would be part of a word.
                let before = source[..spot.local.start()].last();
                let glued = before.is_some_and(|byte| !b" \t\n;&|()".contains(byte));
                let open: &[u8] = if glued { b" { " } else { b"{ " };
                let start = [open, call.as_slice(), b"; "].concat();
                into.push((spot.local.start(), start));
                into.push((spot.local.end(), b"; }".to_vec()));
            }
        }
    }
}

/// Whether a group holds nothing but commands joined by `&&` and `||`. bash runs the last of them in
/// place, also behind one more `&&`, but not behind a `;`: and then `$!` would not be the work.
fn is_chain(group: &[u8]) -> bool {
    let joins = |pair: &[u8]| pair == b"&&" || pair == b"||";
    group.starts_with(b"(")
        && group.windows(2).any(joins)
        && !group.iter().any(|byte| matches!(byte, b';' | b'\n'))
        && !group.windows(2).any(|pair| pair == b"$?")
}

/// Whether a command in a list means the stdin of all of it, which our function then leaves alone.
fn speaks_of_stdin(list: &[u8]) -> bool {
    let names: [&[u8]; 4] = [b"<&0", b"/dev/stdin", b"/dev/fd/0", b"/proc/self/fd/0"];
    let mut names = names.into_iter();
    names.any(|name| memchr::memmem::find(list, name).is_some())
}

/// Whether a list that is a single `( … )` or `{ …; }`, with nothing after it but redirections, redirects
/// stdin; `None` for any other list.
fn one_group(list: &[u8], dialect: Dialect) -> Option<bool> {
    let close = match list {
        [b'(', second, ..] if *second != b'(' => b')',
        [b'{', b' ' | b'\n' | b'\t', ..] => b'}',
        _ => return None,
    };
    // A here-document's body is elsewhere; such a list is left to the other form.
    if list.windows(2).any(|pair| pair == b"<<") {
        return None;
    }
    let end = list.iter().rposition(|&byte| byte == close)?;
    let (inside, after) = (list.get(1..end)?, list.get(end + 1..)?);
    let group = scan(inside, dialect);
    let tail = scan(&[b"x ", after].concat(), dialect);
    let only_redirections =
        tail.ok && tail.lists.is_empty() && tail.simples.len() == 1 && tail.words(0).len() == 1;
    (group.ok && !group.simples.is_empty() && only_redirections)
        .then(|| tail.simples[0].redirects_stdin())
}

/// The list's own text on one line, cut to size between characters.
fn label(source: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = source
        .iter()
        .take(LABEL)
        .map(|byte| if byte.is_ascii_control() { b' ' } else { *byte })
        .collect();
    if source.len() > LABEL {
        out.truncate(LABEL - 3);
        while out.last().is_some_and(|byte| (0x80..0xc0).contains(byte)) {
            out.pop();
        }
        if out.last().is_some_and(|byte| *byte >= 0xc0) {
            out.pop();
        }
        out.extend_from_slice("…".as_bytes());
    }
    out
}

/// The text with its insertions, which are in order.
fn apply(text: &[u8], insertions: Vec<Insertion>) -> Vec<u8> {
    let more: usize = insertions.iter().map(|(_, inserted)| inserted.len()).sum();
    let mut out = Vec::with_capacity(text.len() + more);
    let mut from = 0;
    for (at, inserted) in insertions {
        out.extend_from_slice(&text[from..at]);
        out.extend(inserted);
        from = at;
    }
    out.extend_from_slice(&text[from..]);
    out
}

#[cfg(test)]
mod tests;

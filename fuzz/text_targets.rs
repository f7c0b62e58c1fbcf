//! Scanner and rewriter.

use agent_sh::testing::{Dialect, original, plan, rewrite, scan};

use crate::counting::peak;
use crate::random::Random;
use crate::shapes::{self, SHAPES};
use crate::shell::{TOKENS, grammatical, soup, wrapped};

const DIALECTS: [Dialect; 3] = [Dialect::Bash, Dialect::Posix, Dialect::Zsh];
const LAUNCHER: &[u8] = b"/usr/bin/it's @P@) \"x\"";

pub(crate) fn generate(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut text = match random.below(10) {
        0..4 => grammatical(random),
        4..6 => soup(random),
        6 => {
            let size = random.below(250);
            shapes::text(SHAPES[random.below(SHAPES.len())], size)
        }
        _ if corpus.is_empty() => soup(random),
        _ => corpus[random.below(corpus.len())].clone(),
    };
    if random.one_in(5) {
        text = wrapped(random, &text);
    }
    if random.one_in(2) {
        random.mutate(&mut text, TOKENS);
    }
    if random.one_in(200) {
        text = text.repeat(1 + random.below(60));
        text.truncate(16 * 1024);
    }
    text
}

/// What costs the most is asked of one text in so many.
const SELDOM: usize = 6;

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Each text in each dialect; gives how many that were.
pub(crate) fn check_scanner(text: &[u8]) -> Result<u64, String> {
    for dialect in DIALECTS {
        let (live, script) = peak(|| scan(text, dialect));
        let fail = |what: &str| Err(format!("{dialect:?}: {what}"));
        if live > 24 * text.len() + 256 * 1024 {
            return fail(&format!("{live} bytes are live"));
        }
        if script.steps > 128 * text.len() as u64 + 8192 {
            return fail(&format!("{} steps", script.steps));
        }
        if !script.amps.is_sorted() || script.amps.iter().any(|amp| text.get(*amp) != Some(&b'&')) {
            return fail("an operator that is none");
        }
        if script.ok != script.why.is_none() {
            return fail("a reason for nothing");
        }
        for scope in 0..script.scopes.len() {
            let (mut at, mut up) = (scope, 0);
            while let Some(parent) = script.scopes[at].parent() {
                (at, up) = (parent, up + 1);
                if up > script.scopes.len() {
                    return fail("scopes in a ring");
                }
            }
        }
        if script.ok {
            let mut ops: Vec<usize> = script.lists.iter().map(|list| list.op()).collect();
            ops.sort_unstable();
            if ops != script.amps {
                return fail("lists and operators differ");
            }
            for list in &script.lists {
                let (start, end) = (list.span.start(), list.span.end());
                if start > list.body() || list.body() > end || end > list.op() {
                    return fail("a list out of order");
                }
            }
        }
        if !text.len().is_multiple_of(SELDOM) {
            continue;
        }
        let again = scan(text, dialect);
        if (again.ok, &again.amps, again.steps) != (script.ok, &script.amps, script.steps) {
            return fail("another answer the second time");
        }
    }
    Ok(DIALECTS.len() as u64)
}

pub(crate) fn check_rewriter(text: &[u8]) -> Result<u64, String> {
    let _never_panics = original(text);
    for dialect in DIALECTS {
        let fail = |what: &str| Err(format!("{dialect:?}: {what}"));
        let (live, plan_of_text) = peak(|| plan(text, dialect));
        if live > 24 * text.len() + 8 * 1024 * 1024 {
            return fail(&format!("the plan has {live} bytes live"));
        }
        for spot in &plan_of_text.spots {
            if spot.start > spot.end || spot.end > text.len() {
                return fail("a spot outside the text");
            }
        }
        let (live, out) = peak(|| rewrite(text, &plan_of_text, dialect, LAUNCHER));
        if live > 24 * text.len() + 8 * 1024 * 1024 {
            return fail(&format!("rewriting has {live} bytes live"));
        }
        let Some(out) = out else { continue };
        if original(&out).as_deref() != Some(text) {
            return fail(&format!("the original is lost in {}", shown(&out)));
        }
        if !is_within(text, &out) {
            return fail(&format!("bytes are lost in {}", shown(&out)));
        }
        let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
        if lines(&out) != lines(text) || out.len() > 131_071 {
            return fail(&format!("lines or length of {}", shown(&out)));
        }
        if !text.len().is_multiple_of(SELDOM) {
            continue;
        }
        let again = plan(&out, dialect);
        if !again.ok || again.amps.len() != plan_of_text.amps.len() {
            return fail(&format!(
                "it reads differently: {:?} {}",
                again.why,
                shown(&out)
            ));
        }
        if rewrite(&out, &again, dialect, LAUNCHER).is_some() {
            return fail("it is rewritten again");
        }
        let _never_panics = original(&out[..out.len() / 2]);
    }
    Ok(DIALECTS.len() as u64)
}

/// Whether the bytes of `text` are in `out`, in order.
fn is_within(text: &[u8], out: &[u8]) -> bool {
    let mut rest = out.iter();
    text.iter().all(|byte| rest.any(|other| other == byte))
}

//! `setup gemini`: a directory of links, and the line that puts it in front of PATH.

use super::{Links, shims};
use crate::cli::{How, Shims};
use crate::error::Result;
use crate::harness::place;
use crate::message;
use crate::verbs::Context;

pub(crate) fn setup(context: &Context, how: &How) -> Result<u8> {
    let links = Links::find(context)?;
    let shims = Shims {
        dir: links.data.join("shims"),
        undo: how.undo,
        print: how.print,
    };
    let code = shims::setup(context, &shims)?;
    if how.undo && !how.print {
        place::remove_empty(&links.data, links.data.parent().unwrap_or(&links.data));
    }
    if !how.undo {
        message::say_with_hint(
            "Gemini CLI calls the first bash on PATH, and nothing outside can wake it",
            "by hand: put the line with PATH into your profile; to hear of a job in a later turn, ask for 'agent-sh ps'",
        );
    }
    Ok(code)
}

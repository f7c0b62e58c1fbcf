//! `setup`: makes a harness call us. One file per harness; what each needs is known in `harness`.

mod claude_code;
mod codex;
mod gemini;
mod opencode;
mod shims;
mod system;

use std::path::{Path, PathBuf};

use crate::cli::{How, Setup, SetupWhat};
use crate::error::Result;
use crate::harness::edit::{self, Change, Edit};
use crate::harness::place;
use crate::message;
use crate::verbs::Context;

pub(crate) fn setup(context: &Context, setup: &Setup) -> Result<u8> {
    match &setup.what {
        SetupWhat::Shims(shims) => shims::setup(context, shims, shims::Advice::All),
        SetupWhat::ClaudeCode(given) => claude_code::setup(context, given),
        SetupWhat::Opencode(given) => opencode::setup(context, given),
        SetupWhat::Codex(given) => codex::setup(context, &given.how),
        SetupWhat::Gemini(given) => gemini::setup(context, given),
        SetupWhat::System(given) => system::setup(given),
    }
}

/// The links of ours that settings name: they stay where they are when the program moves.
struct Links {
    data: PathBuf,
    program: PathBuf,
}

impl Links {
    fn find(context: &Context) -> Result<Self> {
        Ok(Self {
            data: place::data_dir(|name| context.env(name))?,
            program: place::running_program()?,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.data.join("bin").join(name)
    }

    /// Makes the links that are missing or lead elsewhere, and says so.
    fn make(&self, names: &[&str], how: &How) -> Result<()> {
        for name in names {
            let link = self.path(name);
            if how.print {
                if !place::is_same_file(&link, &self.program) {
                    message::say(format!(
                        "would link '{}' to '{}'",
                        link.display(),
                        self.program.display()
                    ));
                }
            } else if place::link(&self.program, &link)? {
                message::say(format!(
                    "linked '{}' to '{}'",
                    link.display(),
                    self.program.display()
                ));
            }
        }
        Ok(())
    }

    /// Removes links, unless settings of another kind still need them: a dangling shell is worse than
    /// a link too many. What other setups left is told by their receipts.
    fn remove_unused(&self, names: &[&str]) -> Result<()> {
        if edit::any_receipt(&self.data) {
            return Ok(());
        }
        for name in names {
            let link = self.path(name);
            if place::unlink(&link)? {
                message::say(format!("removed '{}'", link.display()));
            }
        }
        for dir in ["bin", "setup"] {
            place::remove_empty(
                &self.data.join(dir),
                self.data.parent().unwrap_or(&self.data),
            );
        }
        Ok(())
    }
}

/// Every name that a setup may link.
const LINKS: [&str; 4] = ["agent-sh", "agent-sh-bash", "agent-sh-zsh", "bash"];

/// What is to be done with a file, found out before anything is: a file that cannot be changed must
/// not leave half a setup.
fn plan_file(links: &Links, path: &Path, edit: &impl Edit, how: &How) -> Result<Change> {
    if how.undo {
        edit::plan_undo(&links.data, path, edit)
    } else {
        edit::plan_add(&links.data, path, edit)
    }
}

/// Does it, and says so.
fn change_file(change: &Change, how: &How) -> Result<()> {
    let file = change.path.display();
    let (needed, left, new) = (change.is_needed(), change.wanted.is_some(), change.is_new());
    let done = match (how.undo, needed) {
        (true, false) => format!("nothing of ours in '{file}'"),
        (false, false) => format!("nothing to change in '{file}'"),
        (true, true) if left => format!("take our settings out of '{file}'"),
        (true, true) => format!("remove '{file}'"),
        (false, true) if new => format!("write '{file}'"),
        (false, true) => format!("add our settings to '{file}'"),
    };
    if how.print {
        let would = if needed { "would " } else { "" };
        message::say(format!("{would}{done}"));
        return Ok(());
    }
    if how.undo {
        change.undo()?;
    } else if needed {
        change.apply()?;
    }
    message::say(match done.split_once(' ') {
        Some(("take", rest)) => format!("took {rest}"),
        Some(("remove", rest)) => format!("removed {rest}"),
        Some(("write", rest)) => format!("wrote {rest}"),
        Some(("add", rest)) => format!("added {rest}"),
        _ => done,
    });
    Ok(())
}

//! `man`: the manual pages, made from the same words as the help.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::cli::{Cli, Man};
use crate::error::{Error, Result};
use crate::message;

pub(crate) fn man(man: &Man) -> Result<u8> {
    let whole = Cli::command();
    if let Some(dir) = &man.dir {
        return write_all(&whole, dir);
    }
    let Some(verb) = &man.verb else {
        return message::out(&page(whole, None)?).map(|()| 0);
    };
    let found = whole.find_subcommand(verb).cloned();
    let command = found.ok_or_else(|| Error::Usage {
        text: format!("no verb '{verb}'"),
        hint: Some("'agent-sh help' lists the verbs".to_owned()),
    })?;
    message::out(&page(command, Some(verb))?).map(|()| 0)
}

/// One page. `verb`: its name, to be put behind that of the program.
fn page(command: Command, verb: Option<&str>) -> Result<String> {
    let command = match verb {
        None => command,
        Some(verb) => {
            let name = format!("agent-sh-{verb}");
            let call = format!("agent-sh {verb}");
            command
                .display_name(name)
                .bin_name(call)
                .disable_help_subcommand(true)
        }
    };
    let mut bytes = Vec::new();
    clap_mangen::Man::new(command)
        .source(concat!("agent-sh ", env!("CARGO_PKG_VERSION")))
        .manual("agent-sh")
        .render(&mut bytes)
        .map_err(|source| Error::sys("write a page", source))?;
    // What stands after the options is no extra: it holds the examples and the exit codes.
    Ok(String::from_utf8_lossy(&bytes).replace("\n.SH EXTRA\n", "\n.SH NOTES\n"))
}

fn write_all(whole: &Command, dir: &Path) -> Result<u8> {
    fs::create_dir_all(dir).map_err(|source| Error::io("create", dir, source))?;
    let mut pages = vec![("agent-sh.1".to_owned(), page(whole.clone(), None)?)];
    for command in whole.get_subcommands() {
        let verb = command.get_name();
        let text = page(command.clone(), Some(verb))?;
        pages.push((format!("agent-sh-{verb}.1"), text));
    }
    for (name, text) in &pages {
        let path = dir.join(name);
        fs::write(&path, text).map_err(|source| Error::io("write", &path, source))?;
    }
    let (count, dir) = (pages.len(), dir.display());
    message::say(format!("wrote {count} pages into '{dir}'"));
    Ok(0)
}

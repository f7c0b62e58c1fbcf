//! `man`: the manual pages, made from the same words as the help.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::cli::Cli;
use crate::cli::misuse;
use crate::error::{Error, Result};
use crate::invocation::OWN_NAME;
use crate::message;
use clap::Args;
use std::path::PathBuf;

/// Print a manual page
#[derive(Debug, Args)]
#[command(after_help = "\
Pages are in roff format.

Example:
  agent-sh man wait | man -l -
  agent-sh man notify add | man -l -
  agent-sh man --dir ~/.local/share/man/man1      writes agent-sh.1 and one page for each verb

Exit codes: 0 success, 2 wrong usage, 125 a page cannot be written.")]
pub(super) struct Man {
    /// The verb, and its subcommand; without them the page of agent-sh itself
    #[arg(value_name = "VERB", conflicts_with = "dir")]
    pub words: Vec<String>,
    /// Write all pages into this directory; created if missing
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

pub(crate) fn man(man: &Man) -> Result<u8> {
    let whole = Cli::command();
    if let Some(dir) = &man.dir {
        return write_all(&whole, dir);
    }
    let path = path_of(&man.words);
    let mut command = &whole;
    for word in &path {
        let found = command.find_subcommand(word);
        command = found.ok_or_else(|| no_page(command, word))?;
    }
    message::out(&page(command.clone(), &path)?).map(|()| 0)
}

/// The verb, and the word below it, from what was typed: `wait`, `notify add`, or the name of a page,
/// `agent-sh-notify-add`. Without any it is the program itself.
fn path_of(words: &[String]) -> Vec<&str> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [OWN_NAME, rest @ ..] => rest.to_vec(),
        [name] => match name.strip_prefix("agent-sh-") {
            // No verb has a dash in it; what stands below one may.
            Some(rest) => rest.splitn(2, '-').collect(),
            None => vec![name],
        },
        _ => words,
    }
}

fn no_page(above: &Command, word: &str) -> Error {
    let name = above.get_name();
    if name == OWN_NAME {
        return misuse::no_verb(word);
    }
    let below: Vec<&str> = above.get_subcommands().map(Command::get_name).collect();
    Error::Usage {
        text: format!("'agent-sh {name}' has no '{word}'"),
        hint: Some(if below.is_empty() {
            format!("'agent-sh man {name}' prints its page")
        } else {
            format!("it has {}", below.join(", "))
        }),
    }
}

/// One page. `path`: the words behind the program's name.
fn page(command: Command, path: &[&str]) -> Result<String> {
    let command = if path.is_empty() {
        command
    } else {
        let name = format!("{OWN_NAME}-{}", path.join("-"));
        let call = format!("{OWN_NAME} {}", path.join(" "));
        command
            .display_name(name)
            .bin_name(call)
            .disable_help_subcommand(true)
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

/// The page of a command and of all below it, each with the name of its file.
fn pages<'a>(command: &'a Command, path: &[&'a str]) -> Result<Vec<(String, String)>> {
    let name = [&[OWN_NAME], path].concat().join("-");
    let mut all = vec![(format!("{name}.1"), page(command.clone(), path)?)];
    for below in command.get_subcommands() {
        all.extend(pages(below, &[path, &[below.get_name()]].concat())?);
    }
    Ok(all)
}

fn write_all(whole: &Command, dir: &Path) -> Result<u8> {
    fs::create_dir_all(dir).map_err(|source| Error::io("create", dir, source))?;
    let pages = pages(whole, &[])?;
    for (name, text) in &pages {
        let path = dir.join(name);
        fs::write(&path, text).map_err(|source| Error::io("write", &path, source))?;
    }
    let (count, dir) = (pages.len(), dir.display());
    message::say(format!("wrote {count} pages into '{dir}'"));
    Ok(0)
}

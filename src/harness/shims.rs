//! `setup shims`: a directory of links for the front of PATH.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::harness::edit::place::{is_same_file, running_program};
use crate::message;
use crate::text::quote;
use clap::Args;

/// Create a directory of links (sh bash zsh dash nohup setsid agent-sh) to put first in PATH
#[derive(Debug, Args)]
#[command(after_help = "\
With DIR first in PATH, scripts, Makefiles and npm scripts that call a shell, nohup or setsid by name use agent-sh \
too. Links only names that this machine has. Never replaces or removes files that are not its own. \
Prints the settings to make on stdout.

Example:
  agent-sh setup shims ~/.local/share/agent-sh/shims
  agent-sh setup shims ~/.local/share/agent-sh/shims --undo

Exit codes: 0 success, even if nothing had to be done, 2 wrong usage, 125 a file is in the way or agent-sh failed.")]
pub(crate) struct Shims {
    /// The directory; created if missing
    pub dir: PathBuf,
    /// Remove the links, and the directory if it is then empty
    #[arg(long)]
    pub undo: bool,
    /// Only show what would be done
    #[arg(long)]
    pub print: bool,
}

/// The names that a shim can stand for.
const NAMES: [&str; 6] = ["sh", "bash", "zsh", "dash", "nohup", "setsid"];
const OWN_NAME: &str = "agent-sh";

/// Which settings are to be printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advice {
    /// For every harness that can call a shim.
    All,
    /// PATH alone.
    Path,
}

pub(crate) fn setup(context: &Context, shims: &Shims, advice: Advice) -> Result<u8> {
    let program = running_program()?;
    let dir =
        std::path::absolute(&shims.dir).map_err(|source| Error::io("find", &shims.dir, source))?;
    if shims.undo {
        undo(&dir, &program, shims)
    } else {
        make(context, &dir, &program, shims, advice)
    }
}

/// What is to happen with one name of the directory.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Ours,
    Foreign,
}

fn look(link: &Path, program: &Path) -> Found {
    let Ok(meta) = fs::symlink_metadata(link) else {
        return Found::Nothing;
    };
    let target = fs::read_link(link);
    if meta.is_symlink() && (target.is_ok_and(|t| t == program) || is_same_file(link, program)) {
        Found::Ours
    } else {
        Found::Foreign
    }
}

/// Whether the machine has such a program besides us.
fn exists_besides_us(name: &str, path: &OsStr, program: &Path) -> bool {
    let usual = ["/usr/local/bin", "/usr/bin", "/bin"];
    let listed = std::env::split_paths(path).filter(|dir| dir.is_absolute());
    listed.chain(usual.map(PathBuf::from)).any(|dir| {
        let file = dir.join(name);
        fs::metadata(&file).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
            && !is_same_file(&file, program)
    })
}

fn make(
    context: &Context,
    dir: &Path,
    program: &Path,
    shims: &Shims,
    wanted: Advice,
) -> Result<u8> {
    let path = context.env("PATH").unwrap_or_default();
    let mut names: Vec<&str> = NAMES.to_vec();
    names.retain(|name| exists_besides_us(name, &path, program));
    names.push(OWN_NAME);
    // All or nothing: a directory that is half someone else's is none of ours.
    if let Some(name) = names
        .iter()
        .find(|name| look(&dir.join(name), program) == Found::Foreign)
    {
        return Err(Error::Failed {
            text: format!(
                "cannot link '{}': a file that is not ours is there",
                dir.join(name).display()
            ),
            hint: Some("give a directory of its own".to_owned()),
        });
    }
    if !shims.print {
        fs::create_dir_all(dir).map_err(|source| Error::io("create", dir, source))?;
    }
    let mut made = 0;
    for name in &names {
        let link = dir.join(name);
        if look(&link, program) == Found::Ours {
            continue;
        }
        made += 1;
        if !shims.print {
            link_once(program, &link)?;
        }
    }
    let verb = if shims.print { "would link" } else { "linked" };
    let done = match made {
        0 => format!("all {} names are linked", names.len()),
        _ => format!("{verb} {made} of {} names", names.len()),
    };
    message::say(format!(
        "{done} in '{}' ({})",
        dir.display(),
        names.join(" ")
    ));
    // The printed settings of a harness are JSON, to be read by a program: no line of a shell's there.
    if wanted == Advice::All || !shims.print {
        message::out(&advice(dir, &names, wanted))?;
    }
    Ok(0)
}

fn link_once(program: &Path, link: &Path) -> Result<()> {
    match symlink(program, link) {
        Err(error)
            if error.kind() == ErrorKind::AlreadyExists && look(link, program) == Found::Ours =>
        {
            Ok(())
        }
        result => result.map_err(|source| Error::io("link", link, source)),
    }
}

/// The settings to make, as lines that a shell's profile can take.
fn advice(dir: &Path, names: &[&str], wanted: Advice) -> String {
    let quoted = quote(dir.as_os_str().as_bytes());
    let shell = ["bash", "zsh"]
        .into_iter()
        .find(|s| wanted == Advice::All && names.contains(s));
    let path = format!("export PATH={quoted}:\"$PATH\"\n");
    let Some(shell) = shell else {
        return path;
    };
    let shell = quote(dir.join(shell).as_os_str().as_bytes());
    format!(
        "{path}\
         # Claude Code, OpenCode, aider: the shell to call.\n\
         export SHELL={shell}\n\
         # Claude Code alone, if SHELL shall stay as it is:\n\
         # export CLAUDE_CODE_SHELL={shell}\n"
    )
}

fn undo(dir: &Path, program: &Path, shims: &Shims) -> Result<u8> {
    let mut removed = Vec::new();
    for name in NAMES.into_iter().chain([OWN_NAME]) {
        let link = dir.join(name);
        if look(&link, program) != Found::Ours {
            continue;
        }
        if !shims.print {
            fs::remove_file(&link).map_err(|source| Error::io("remove", &link, source))?;
        }
        removed.push(name);
    }
    let verb = if shims.print {
        "would remove"
    } else {
        "removed"
    };
    let what = if removed.is_empty() {
        "no link of ours".to_owned()
    } else {
        removed.join(" ")
    };
    message::say(format!("{verb} {what} in '{}'", dir.display()));
    if !shims.print {
        match fs::remove_dir(dir) {
            Ok(()) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory
                ) => {}
            Err(source) => return Err(Error::io("remove", dir, source)),
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_told_from_files_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        fs::write(&program, "x").unwrap();
        let at = |name: &str| dir.path().join(name);
        symlink(&program, at("ours")).unwrap();
        symlink(at("ours"), at("through")).unwrap();
        symlink("/bin/sh", at("theirs")).unwrap();
        symlink("/nowhere", at("dangling")).unwrap();
        fs::write(at("file"), "y").unwrap();
        fs::hard_link(&program, at("hard")).unwrap();
        for (name, found) in [
            ("ours", Found::Ours),
            ("through", Found::Ours),
            ("theirs", Found::Foreign),
            ("dangling", Found::Foreign),
            ("file", Found::Foreign),
            // A second name of the program may be the only one: it is never ours to remove.
            ("hard", Found::Foreign),
            ("none", Found::Nothing),
        ] {
            assert_eq!(look(&at(name), &program), found, "{name}");
        }
    }

    #[test]
    fn a_shell_that_is_only_a_shim_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("agent-sh");
        fs::write(&program, "x").unwrap();
        symlink(&program, dir.path().join("no-such-shell")).unwrap();
        let path = dir.path().as_os_str();
        assert!(!exists_besides_us("no-such-shell", path, &program));
        assert!(exists_besides_us("sh", path, &program));
    }

    #[test]
    fn the_advice_survives_blanks() {
        let text = advice(
            Path::new("/a b/shims"),
            &["sh", "bash", "agent-sh"],
            Advice::All,
        );
        assert!(
            text.starts_with("export PATH='/a b/shims':\"$PATH\"\n"),
            "{text}"
        );
        assert!(text.contains("export SHELL='/a b/shims/bash'\n"), "{text}");
        assert_eq!(
            advice(Path::new("/s"), &["sh"], Advice::All),
            "export PATH=/s:\"$PATH\"\n"
        );
    }
}

//! `setup system`: login shells that users can choose.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::harness::edit::place::{self, running_program};
use crate::harness::setup::How;
use crate::message;
use crate::sys::fsx;
use clap::Args;

/// Make agent-sh a login shell that users can choose: links in /usr/local/bin, entries in /etc/shells
#[derive(Debug, Args)]
#[command(after_help = "\
Links agent-sh-bash, agent-sh-zsh and so on, for each of these shells that this machine has, and lists them in /etc/shells. \
'chsh -s' makes one of them a user's shell. Needs root. The package for Debian does the same in /usr/bin. --undo removes \
links and entries; it refuses while a user's shell is one of them, who could not log in any more.

Example:
  sudo agent-sh setup system
  chsh -s /usr/local/bin/agent-sh-bash
  sudo agent-sh setup system --undo

Exit codes: 0 success, even if nothing had to be done, 2 wrong usage, 125 a file is in the way or agent-sh failed.")]
pub(crate) struct System {
    /// Where to put the links
    #[arg(long, value_name = "DIR", default_value = "/usr/local/bin")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub how: How,
}

/// Login shells, one a line.
const SHELLS: &str = "/etc/shells";
const PASSWD: &str = "/etc/passwd";
/// Shells that we stand in for, if the machine has them.
const NAMES: [&str; 4] = ["bash", "sh", "zsh", "dash"];

pub(crate) fn setup(given: &System) -> Result<u8> {
    let dir =
        std::path::absolute(&given.dir).map_err(|source| Error::io("find", &given.dir, source))?;
    let program = running_program()?;
    let old = match fs::read(SHELLS) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(Error::io("read", Path::new(SHELLS), source)),
    };
    let all = NAMES.map(|name| (name, dir.join(format!("agent-sh-{name}"))));
    if given.how.undo {
        undo(&all.map(|(_, link)| link), &program, &old, given.how.print)
    } else {
        let is_there = |(name, _): &(&str, PathBuf)| is_on_machine(name, &program);
        let links: Vec<PathBuf> = all
            .into_iter()
            .filter(is_there)
            .map(|(_, link)| link)
            .collect();
        make(&links, &program, &old, given.how.print)
    }
}

fn is_on_machine(name: &str, program: &Path) -> bool {
    let usual = ["/usr/local/bin", "/usr/bin", "/bin"];
    usual.iter().any(|dir| {
        let file = Path::new(dir).join(name);
        file.exists() && !place::is_same_file(&file, program)
    })
}

fn make(links: &[PathBuf], program: &Path, old: &[u8], print: bool) -> Result<u8> {
    if links
        .iter()
        .any(|link| link.as_os_str().as_bytes().contains(&b'\n'))
    {
        return Err(Error::Usage {
            text: "a directory with a newline in its name cannot stand in '/etc/shells'".to_owned(),
            hint: None,
        });
    }
    // Before anything is changed: a file that is not ours stays, and so does everything else.
    if let Some(link) = links.iter().find(|link| !is_free(link, program)) {
        return Err(Error::Failed {
            text: format!(
                "cannot link '{}': a file that is not ours is there",
                link.display()
            ),
            hint: Some("give another directory with --dir".to_owned()),
        });
    }
    let new = with_lines(old, links);
    let would = if print { "would link" } else { "linked" };
    let missing = links
        .iter()
        .filter(|link| !place::is_same_file(link, program));
    let missing: Vec<&PathBuf> = missing.collect();
    if !print {
        link_all(&missing, program)?;
        // All or nothing: a shell that is not listed is none that can be chosen.
        if let Err(error) = change_shells(old, &new) {
            remove_all(&missing);
            return Err(error);
        }
    }
    for link in missing {
        let (link, program) = (link.display(), program.display());
        message::say(format!("{would} '{link}' to '{program}'"));
    }
    say_change(old, &new, print, "add")?;
    Ok(0)
}

/// Makes all links, or none.
fn link_all(links: &[&PathBuf], program: &Path) -> Result<()> {
    for (number, link) in links.iter().enumerate() {
        if let Err(error) = place::link(program, link) {
            remove_all(&links[..number]);
            return Err(error);
        }
    }
    Ok(())
}

fn remove_all(links: &[&PathBuf]) {
    for link in links {
        drop(fs::remove_file(link));
    }
}

/// Whether the name is free for a link of ours.
fn is_free(link: &Path, program: &Path) -> bool {
    match fs::symlink_metadata(link) {
        Err(_) => true,
        Ok(facts) => {
            facts.is_symlink() && (is_dangling(link) || place::is_same_file(link, program))
        }
    }
}

/// A link to a program of ours that is no longer there.
fn is_dangling(link: &Path) -> bool {
    let target = fs::read_link(link).unwrap_or_default();
    let ours = target.file_name().is_some_and(|name| name == "agent-sh");
    ours && !link.exists()
}

fn undo(links: &[PathBuf], program: &Path, old: &[u8], print: bool) -> Result<u8> {
    let passwd = fs::read(PASSWD).unwrap_or_default();
    if let Some((user, shell)) = user_of(&passwd, links) {
        return Err(Error::Failed {
            text: format!("the shell of user '{user}' is '{}'", shell.display()),
            hint: Some(format!(
                "'chsh -s /bin/sh {user}' gives that user another one"
            )),
        });
    }
    let new = without_lines(old, links);
    if !print {
        change_shells(old, &new)?;
    }
    say_change(old, &new, print, "remove")?;
    let would = if print { "would remove" } else { "removed" };
    for link in links {
        if fs::symlink_metadata(link).is_err() || !is_free(link, program) {
            continue;
        }
        if !print {
            fs::remove_file(link).map_err(|source| Error::io("remove", link, source))?;
        }
        message::say(format!("{would} '{}'", link.display()));
    }
    Ok(0)
}

/// A user who logs in with one of these shells.
fn user_of(passwd: &[u8], links: &[PathBuf]) -> Option<(String, PathBuf)> {
    passwd.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        let user = fields.next()?;
        let shell = fields.nth(5)?;
        let shell = links
            .iter()
            .find(|link| link.as_os_str().as_bytes() == shell)?;
        Some((String::from_utf8_lossy(user).into_owned(), shell.clone()))
    })
}

/// The list with these entries at its end, unless it has them.
fn with_lines(old: &[u8], links: &[PathBuf]) -> Vec<u8> {
    let mut new = old.to_vec();
    for link in links {
        let line = link.as_os_str().as_bytes();
        if old.split(|&byte| byte == b'\n').any(|known| known == line) {
            continue;
        }
        if !new.is_empty() && !new.ends_with(b"\n") {
            new.push(b'\n');
        }
        new.extend(line);
        new.push(b'\n');
    }
    new
}

/// The list without these entries, everything else as it was.
fn without_lines(old: &[u8], links: &[PathBuf]) -> Vec<u8> {
    let is_ours = |line: &&[u8]| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        links.iter().any(|link| link.as_os_str().as_bytes() == line)
    };
    let lines = old.split_inclusive(|&byte| byte == b'\n');
    lines
        .filter(|line| !is_ours(line))
        .flatten()
        .copied()
        .collect()
}

fn change_shells(old: &[u8], new: &[u8]) -> Result<()> {
    if old == new {
        return Ok(());
    }
    let path = Path::new(SHELLS);
    replace(path, new).map_err(|source| Error::io("change", path, source))
}

fn say_change(old: &[u8], new: &[u8], print: bool, verb: &str) -> Result<()> {
    if old == new {
        message::say(format!("nothing to change in '{SHELLS}'"));
    } else if print {
        message::say(format!("would {verb} entries in '{SHELLS}'"));
        return message::out_bytes(new);
    } else {
        message::say(format!("changed '{SHELLS}'"));
    }
    Ok(())
}

/// Puts a new file in the place of the old one, with its owner and mode: whoever logs in meanwhile finds either.
fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut beside = target.clone().into_os_string().into_vec();
    beside.extend(format!(".agent-sh.{:08x}", fsx::random()).bytes());
    let beside = PathBuf::from(OsString::from_vec(beside));
    let new = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&beside);
    let mut file = match new {
        Ok(file) => file,
        // The directory is closed, but the file may be ours.
        Err(error) => return fs::write(&target, content).map_err(|_| error),
    };
    let written = file.write_all(content).and_then(|()| {
        match fs::metadata(&target) {
            Ok(facts) => {
                chown(&beside, Some(facts.uid()), Some(facts.gid()))?;
                file.set_permissions(facts.permissions())?;
            }
            Err(_) => file.set_permissions(fs::Permissions::from_mode(0o644))?,
        }
        file.sync_all()?;
        match fs::rename(&beside, &target) {
            // A mount of its own, as in a container: it can only be written to.
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                fs::write(&target, content)?;
                fs::remove_file(&beside)
            }
            result => result,
        }
    });
    if written.is_err() {
        drop(fs::remove_file(&beside));
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_shells() {
        let links = ["/u/agent-sh-bash", "/u/agent-sh-sh"].map(PathBuf::from);
        for (old, new) in [
            ("", "/u/agent-sh-bash\n/u/agent-sh-sh\n"),
            (
                "# c\n/bin/sh",
                "# c\n/bin/sh\n/u/agent-sh-bash\n/u/agent-sh-sh\n",
            ),
            ("/u/agent-sh-sh\n\n", "/u/agent-sh-sh\n\n/u/agent-sh-bash\n"),
        ] {
            let made = with_lines(old.as_bytes(), &links);
            assert_eq!(String::from_utf8_lossy(&made), new, "{old:?}");
            assert_eq!(
                with_lines(&made, &links),
                made,
                "a second time changes nothing"
            );
        }
        let list =
            b"# /u/agent-sh-sh\n/bin/sh\n/u/agent-sh-sh\n/u/agent-sh-bashful\n/u/agent-sh-bash";
        assert_eq!(
            without_lines(list, &links),
            b"# /u/agent-sh-sh\n/bin/sh\n/u/agent-sh-bashful\n"
        );
    }

    #[test]
    fn nobody_is_locked_out() {
        let links = ["/u/agent-sh-bash"].map(PathBuf::from);
        let passwd =
            b"root:x:0:0:root:/root:/bin/bash\nann:x:1:1:,,,:/home/ann:/u/agent-sh-bash\nshort:x\n";
        let found = user_of(passwd, &links);
        assert_eq!(found, Some(("ann".to_owned(), links[0].clone())));
        assert_eq!(user_of(b"ann:x:1:1::/h:/bin/sh\n", &links), None);
    }
}

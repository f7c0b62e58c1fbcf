//! Where setup keeps what must not move: links to the program, and what it needs to undo itself.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::sys::fsx;

/// `$XDG_DATA_HOME/agent-sh`, or the usual place below the home directory.
pub(crate) fn data_dir(env: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let dir = |name| env(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    dir("XDG_DATA_HOME")
        .or_else(|| dir("HOME").map(|home| home.join(".local/share")))
        .map(|base| base.join("agent-sh"))
        .ok_or_else(|| Error::Failed {
            text: "cannot tell where your files are: HOME is not set".to_owned(),
            hint: None,
        })
}

/// The user's home directory.
pub(crate) fn home(env: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    env("HOME")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute())
        .ok_or_else(|| Error::Failed {
            text: "cannot tell where your settings are: HOME is not set".to_owned(),
            hint: None,
        })
}

/// Where this program really is.
pub(crate) fn running_program() -> Result<PathBuf> {
    let link = Path::new("/proc/self/exe");
    let program = fs::read_link(link).map_err(|source| Error::io("read", link, source))?;
    if program.as_os_str().as_bytes().ends_with(b" (deleted)") || !program.is_file() {
        return Err(Error::Failed {
            text: format!("'{}' is gone while it runs", program.display()),
            hint: Some("run the installed agent-sh again".to_owned()),
        });
    }
    Ok(program)
}

pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// Makes a link of ours lead to the program. In a directory of our own every link is ours; a file is not.
/// `false`: it did already.
pub(crate) fn link(program: &Path, link: &Path) -> Result<bool> {
    match fs::symlink_metadata(link) {
        Ok(meta) if meta.is_symlink() => {
            if fs::read_link(link).is_ok_and(|target| target == program) {
                return Ok(false);
            }
        }
        Ok(_) => {
            return Err(Error::Failed {
                text: format!(
                    "cannot link '{}': a file that is not ours is there",
                    link.display()
                ),
                hint: None,
            });
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(source) => return Err(Error::io("look at", link, source)),
    }
    let failed = |source| Error::io("link", link, source);
    if let Some(dir) = link.parent() {
        fs::create_dir_all(dir).map_err(|source| Error::io("create", dir, source))?;
    }
    // Beside it, then renamed: a client that starts a shell now must find the old or the new one.
    let beside = link.with_extension(format!("{:08x}", fsx::random()));
    symlink(program, &beside).map_err(failed)?;
    fs::rename(&beside, link).map_err(|source| {
        drop(fs::remove_file(&beside));
        failed(source)
    })?;
    Ok(true)
}

/// Removes a link, not a file. `false`: there was none.
pub(crate) fn unlink(link: &Path) -> Result<bool> {
    if !fs::symlink_metadata(link).is_ok_and(|meta| meta.is_symlink()) {
        return Ok(false);
    }
    fs::remove_file(link).map_err(|source| Error::io("remove", link, source))?;
    Ok(true)
}

/// Removes directories that are empty, from the innermost outwards, never `end` or what is above it.
pub(crate) fn remove_empty(dir: &Path, end: &Path) {
    let mut dir = dir;
    while dir != end && dir.starts_with(end) && fs::remove_dir(dir).is_ok() {
        match dir.parent() {
            Some(parent) => dir = parent,
            None => return,
        }
    }
}

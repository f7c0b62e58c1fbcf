//! One thing to tell, claimed by one process at a time.
//!
//! A claim is a file under a lock that the kernel frees with its holder: no claim is ever stale, so
//! there is no time after which it counts as abandoned. What became of it is the same file under
//! another name, by one rename. Whoever opened it before the rename gets the lock on a file that is
//! no longer where it was, looks again and leaves.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;

use crate::sys::{fsx, lock};

/// How often a file may vanish between its opening and its locking before we give up for now.
const ATTEMPTS: u32 = 64;
/// So much of the log of attempts is read, from its end.
const LONGEST_LOG: u64 = 64 * 1024;

/// A file that this process alone may move on.
#[derive(Debug)]
pub(crate) struct Held {
    dir: OwnedFd,
    name: String,
    file: File,
    /// What attempts before this one wrote.
    pub(super) log: String,
}

/// Why there is nothing to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Somebody holds it now.
    Held,
    /// `settled` said that nothing is left to do.
    Settled,
}

/// Takes `name` in `dir`, if nobody else has it and `settled`, asked under the lock, is false.
pub(crate) fn hold(
    dir: OwnedFd,
    name: &str,
    settled: impl Fn() -> bool,
) -> io::Result<Result<Held, Taken>> {
    for _ in 0..ATTEMPTS {
        if settled() {
            return Ok(Err(Taken::Settled));
        }
        let mut file = match fsx::open_rw_at(&dir, name) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match fsx::create_at(&dir, name) {
                    Ok(file) => file,
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        };
        if !lock::try_write(&file)? {
            return Ok(Err(Taken::Held));
        }
        if settled() {
            // An empty file of ours, made after the rename of the other, would lie there for ever.
            if is_here(&dir, name, &file) {
                drop(fsx::unlink_at(&dir, name));
            }
            return Ok(Err(Taken::Settled));
        }
        if !is_here(&dir, name, &file) {
            continue;
        }
        let log = read_log(&mut file)?;
        return Ok(Ok(Held {
            dir,
            name: name.to_owned(),
            file,
            log,
        }));
    }
    Ok(Err(Taken::Held))
}

/// The newest lines. A power cut may have left anything in them; what is no line of ours is skipped by
/// whoever reads it.
fn read_log(file: &mut File) -> io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(io::SeekFrom::Start(length.saturating_sub(LONGEST_LOG)))?;
    let mut bytes = Vec::new();
    file.take(LONGEST_LOG).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether the name still stands for this very file.
fn is_here(dir: &OwnedFd, name: &str, file: &File) -> bool {
    match (fsx::stat_at(dir, name), fsx::stat_of(file)) {
        (Ok(named), Ok(held)) => (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino),
        _ => false,
    }
}

impl Held {
    /// Adds a line to what the next holder will read.
    pub(crate) fn note(&mut self, line: &str) -> io::Result<()> {
        self.file.seek(io::SeekFrom::End(0))?;
        self.file.write_all(line.as_bytes())?;
        self.file.write_all(b"\n")
    }

    /// Moves it to where it is settled, for good.
    pub(crate) fn settle(self, to: &OwnedFd, name: &str) -> io::Result<()> {
        match fsx::rename_new_at(&self.dir, self.name.as_str(), to, name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                drop(fsx::unlink_at(&self.dir, self.name.as_str()));
            }
            other => other?,
        }
        fsx::sync_dir(to)
    }

    /// Gives it back without a trace, as if nobody had held it.
    pub(crate) fn forget(self) {
        drop(fsx::unlink_at(&self.dir, self.name.as_str()));
    }
}

//! `dir:`: one file per event, complete or not there, for programs that watch a directory.

use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::{Event, Sent};
use crate::error::{Error, Result, cause};
use crate::sys::fsx;

/// Makes the directory, for its owner alone, if it is missing.
pub(super) fn make(path: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(path)
        .map_err(|source| Error::io("make", path, source))
}

/// Puts the event there. A file of that name is the event itself, delivered before a crash.
pub(super) fn put(path: &Path, subscriber: &str, event: &Event) -> Sent {
    match try_put(path, subscriber, event) {
        Ok(()) => Sent::Delivered,
        Err(error) => Sent::failed(format!("'{}': {}", path.display(), cause(&error))),
    }
}

fn try_put(path: &Path, subscriber: &str, event: &Event) -> io::Result<()> {
    // The directory may be a link of the user's, so it is followed.
    let dir = fsx::open_dir_followed(path)?;
    let name = format!("{}.json", event.id);
    if fsx::stat_at(&dir, name.as_str()).is_ok() {
        return Ok(());
    }
    // Always the same name: what a crash left is written over, not left behind. The claim keeps
    // others of the same name away.
    let temporary = format!(".{subscriber}.{}.tmp", event.id);
    let inside = path.join(&temporary);
    drop(fsx::unlink_at(&dir, temporary.as_str()));
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(inside)?;
    let written = file
        .write_all(format!("{}\n", event.json).as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fsx::rename_new_at(&dir, temporary.as_str(), &dir, name.as_str()));
    match written {
        Ok(()) => fsx::sync_dir(&dir),
        Err(error) => {
            drop(fsx::unlink_at(&dir, temporary.as_str()));
            if error.kind() == io::ErrorKind::AlreadyExists {
                return Ok(());
            }
            Err(error)
        }
    }
}

//! Reading and writing the small files of a job, under the rules for files that others might plant.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use crate::sys::fsx;

/// No record is larger; nothing larger is read.
const LARGEST: u64 = 1 << 20;

/// What a name in a job's directory holds.
#[derive(Debug)]
pub(super) enum Content {
    Missing,
    /// Not a file of ours, or too large: never parsed.
    Unfit,
    Bytes(Vec<u8>, File),
}

/// Reads a whole small file: regular, our own, not linked elsewhere.
pub(super) fn read(dir: impl AsFd, name: &str) -> io::Result<Content> {
    read_opened(fsx::open_at(dir, name))
}

/// The same for a file of a job, without its directory being opened first.
pub(super) fn read_below(jobs: impl AsFd, id: &str, name: &str) -> io::Result<Content> {
    read_opened(fsx::open_below(jobs, id, name))
}

fn read_opened(opened: io::Result<File>) -> io::Result<Content> {
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::Missing),
        // A symlink, a socket, a device.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENXIO)) => {
            return Ok(Content::Unfit);
        }
        Err(error) => return Err(error),
    };
    let stat = fsx::stat_of(&file)?;
    // Two links: a commit by link and unlink that died between them.
    let fit = fsx::is_regular(&stat)
        && stat.st_uid == fsx::euid()
        && stat.st_nlink <= 2
        && stat.st_size.unsigned_abs() <= LARGEST;
    if !fit {
        return Ok(Content::Unfit);
    }
    let mut bytes = Vec::with_capacity(stat.st_size.unsigned_abs() as usize + 1);
    (&mut file).take(LARGEST + 1).read_to_end(&mut bytes)?;
    Ok(Content::Bytes(bytes, file))
}

/// Makes a new file with this content; removes it again if the disk is full.
pub(super) fn write_new(dir: impl AsFd, name: &str, bytes: &[u8]) -> io::Result<File> {
    let file = fsx::create_at(dir.as_fd(), name)?;
    if let Err(error) = file.write_all_at(bytes, 0) {
        drop(fsx::unlink_at(dir, name));
        return Err(error);
    }
    Ok(file)
}

#[must_use]
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

//! Reading and writing the small files of a job, under the rules for files that others might plant.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use nix::sys::stat::FileStat;

use crate::sys::fsx;

/// No record is larger; nothing larger is read.
const LARGEST: u64 = 1 << 20;

/// What a name in a job's directory holds.
#[derive(Debug)]
pub(in crate::store) enum Content {
    Missing,
    /// Not a file of ours, or too large: never parsed.
    Unfit,
    Bytes(Vec<u8>, File),
}

/// Reads a whole small file: regular, our own, not linked elsewhere.
pub(in crate::store) fn read(dir: impl AsFd, name: &str) -> io::Result<Content> {
    read_opened(fsx::open_at(dir, name))
}

/// The same for a file of a job, without its directory being opened first.
pub(in crate::store) fn read_below(jobs: impl AsFd, id: &str, name: &str) -> io::Result<Content> {
    read_opened(fsx::open_below(jobs, id, name))
}

fn read_opened(opened: io::Result<File>) -> io::Result<Content> {
    match opened {
        Ok(file) => {
            let stat = fsx::stat_of(&file)?;
            read_known(file, &stat)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Content::Missing),
        // A symlink, a socket, a device.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENXIO)) => {
            Ok(Content::Unfit)
        }
        Err(error) => Err(error),
    }
}

/// Reads a file that is open and was looked at.
pub(in crate::store) fn read_known(file: File, stat: &FileStat) -> io::Result<Content> {
    let size = stat.st_size.unsigned_abs();
    // Two links: a commit by link and unlink that died between them.
    let fit = fsx::is_regular(stat)
        && stat.st_uid == fsx::euid()
        && stat.st_nlink <= 2
        && size <= LARGEST;
    if !fit {
        return Ok(Content::Unfit);
    }
    // As much as there was; what changes meanwhile is not a record that anybody relies on.
    let mut bytes = vec![0; size as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(Content::Bytes(bytes, file))
}

/// Makes a new file with this content; removes it again if the disk is full.
pub(in crate::store) fn write_new(dir: impl AsFd, name: &str, bytes: &[u8]) -> io::Result<File> {
    let file = fsx::create_at(dir.as_fd(), name)?;
    if let Err(error) = file.write_all_at(bytes, 0) {
        drop(fsx::unlink_at(dir, name));
        return Err(error);
    }
    Ok(file)
}

/// Whether there is no room for so many bytes: on the disk, or in a file of this process (RLIMIT_FSIZE).
#[must_use]
pub(in crate::store) fn is_full(error: &io::Error) -> bool {
    is_too_large(error) || matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// Whether a file may not grow so large. Room elsewhere would not help.
#[must_use]
pub(in crate::store) fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EFBIG)
}

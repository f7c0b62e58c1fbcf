//! File calls that the standard library lacks: relative to a directory, never through a symlink,
//! with a mode that no umask changes.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, fchmod, fchmodat, fstat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};
use nix::{NixPath, errno::Errno};

const PRIVATE_FILE: Mode = Mode::from_bits_truncate(0o600);
const PRIVATE_DIR: Mode = Mode::from_bits_truncate(0o700);

/// Opens a directory itself, never what a symlink points to.
pub(crate) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(nix::fcntl::open(path, flags, Mode::empty())?)
}

/// Opens a directory, also through a symlink; never blocks on something else of that name.
pub(crate) fn open_dir_followed(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(nix::fcntl::open(path, flags, Mode::empty())?)
}

pub(crate) fn open_dir_at<P: ?Sized + NixPath>(dir: impl AsFd, name: &P) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(openat(dir, name, flags, Mode::empty())?)
}

/// Makes a directory that is 0700 whatever the umask.
pub(crate) fn make_dir_at<P: ?Sized + NixPath>(dir: impl AsFd, name: &P) -> io::Result<()> {
    mkdirat(dir.as_fd(), name, PRIVATE_DIR)?;
    // Glibc refuses the no-follow flag before Linux 6.6, and nobody else can write here.
    fchmodat(dir, name, PRIVATE_DIR, FchmodatFlags::FollowSymlink)?;
    Ok(())
}

/// Makes a new file that is 0600 whatever the umask; fails if the name is taken.
pub(crate) fn create_at<P: ?Sized + NixPath>(dir: impl AsFd, name: &P) -> io::Result<File> {
    let flags =
        OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let fd = openat(dir, name, flags, PRIVATE_FILE)?;
    fchmod(&fd, PRIVATE_FILE)?;
    Ok(fd.into())
}

/// Opens an existing file for reading. Does not block on a FIFO that somebody put there.
pub(crate) fn open_at<P: ?Sized + NixPath>(dir: impl AsFd, name: &P) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    Ok(openat(dir, name, flags, Mode::empty())?.into())
}

/// Opens `child/name` for reading in one call, through no symlink at all. Where the kernel cannot
/// promise that (before 5.6, or a sandbox that forbids the call), in two.
pub(crate) fn open_below(dir: impl AsFd, child: &str, name: &str) -> io::Result<File> {
    use nix::fcntl::{OpenHow, ResolveFlag, openat2};
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let how = OpenHow::new()
        .flags(flags)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
    let path = format!("{child}/{name}");
    match openat2(dir.as_fd(), path.as_str(), how) {
        Ok(fd) => Ok(fd.into()),
        Err(Errno::ENOSYS | Errno::EPERM) => open_at(open_dir_at(dir, child)?, name),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens a file for appending, made 0600 if it is missing.
pub(crate) fn open_append_at<P: ?Sized + NixPath>(dir: impl AsFd, name: &P) -> io::Result<File> {
    let flags = OFlag::O_RDWR
        | OFlag::O_APPEND
        | OFlag::O_CREAT
        | OFlag::O_NOFOLLOW
        | OFlag::O_CLOEXEC
        | OFlag::O_NONBLOCK;
    let fd = openat(dir, name, flags, PRIVATE_FILE)?;
    fchmod(&fd, PRIVATE_FILE)?;
    Ok(fd.into())
}

/// How much a user may still write there, in bytes, and the size of it all.
pub(crate) fn space(fd: impl AsFd) -> io::Result<(u64, u64)> {
    let found = nix::sys::statvfs::fstatvfs(fd)?;
    let unit = found.fragment_size();
    Ok((
        found.blocks_available().saturating_mul(unit),
        found.blocks().saturating_mul(unit),
    ))
}

/// Opens an existing file for reading and writing.
pub(crate) fn open_rw_at<P: ?Sized + NixPath>(dir: impl AsFd, name: &P) -> io::Result<File> {
    let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    Ok(openat(dir, name, flags, Mode::empty())?.into())
}

/// Opens what a path leads to for reading, if it is a plain file: a FIFO or a device that somebody put
/// there neither blocks nor is read.
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, FileStat)> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = File::from(nix::fcntl::open(path, flags, Mode::empty())?);
    let stat = stat_of(&file)?;
    if !is_regular(&stat) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok((file, stat))
}

pub(crate) fn stat_of(fd: impl AsFd) -> io::Result<FileStat> {
    Ok(fstat(fd)?)
}

/// What a name stands for, itself, not what it points to.
pub(crate) fn stat_at<P: ?Sized + NixPath>(dir: impl AsFd, name: &P) -> io::Result<FileStat> {
    Ok(nix::sys::stat::fstatat(
        dir,
        name,
        AtFlags::AT_SYMLINK_NOFOLLOW,
    )?)
}

/// When the content of a file last changed.
#[must_use]
pub(crate) fn changed_at(stat: &FileStat) -> Option<std::time::SystemTime> {
    let seconds = u64::try_from(stat.st_mtime).ok()?;
    let rest = u32::try_from(stat.st_mtime_nsec).ok()?;
    std::time::UNIX_EPOCH.checked_add(std::time::Duration::new(seconds, rest))
}

/// What a path leads to.
pub(crate) fn stat_path(path: &Path) -> io::Result<FileStat> {
    Ok(nix::sys::stat::stat(path)?)
}

/// Asks the disk to have what a directory holds.
pub(crate) fn sync_dir(dir: impl AsFd) -> io::Result<()> {
    Ok(nix::unistd::fsync(dir)?)
}

#[must_use]
pub(crate) fn is_writable(path: &Path) -> bool {
    nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok()
}

/// Whether something could be made in a directory; if not, why.
pub(crate) fn check_writable(dir: &Path) -> io::Result<()> {
    nix::unistd::access(dir, nix::unistd::AccessFlags::W_OK)?;
    if !nix::sys::prctl::get_no_new_privs().unwrap_or(false) {
        return Ok(());
    }
    // In a sandbox, Landlock may forbid what the mode allows. A file without a name leaves nothing behind; where the file
    // system knows none, that proves nothing.
    let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    match nix::fcntl::open(dir, flags, PRIVATE_FILE) {
        Err(errno @ (Errno::EACCES | Errno::EPERM | Errno::EROFS)) => Err(errno.into()),
        _ => Ok(()),
    }
}

/// Whether a path is in a file system of the kernel's own (proc, sysfs), where nobody can make anything.
#[must_use]
pub(crate) fn is_of_kernel(path: &Path) -> bool {
    const SYSFS: i128 = 0x6265_6572;
    nix::sys::statfs::statfs(path).is_ok_and(|fs| {
        let kind = fs.filesystem_type();
        kind == nix::sys::statfs::PROC_SUPER_MAGIC || i128::from(kind.0) == SYSFS
    })
}

#[must_use]
pub(crate) fn is_regular(stat: &FileStat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFREG
}

pub(crate) fn unlink_at<P: ?Sized + NixPath>(dir: impl AsFd, name: &P) -> io::Result<()> {
    Ok(unlinkat(dir, name, UnlinkatFlags::NoRemoveDir)?)
}

pub(crate) fn remove_dir_at<P: ?Sized + NixPath>(dir: impl AsFd, name: &P) -> io::Result<()> {
    Ok(unlinkat(dir, name, UnlinkatFlags::RemoveDir)?)
}

/// Moves, and replaces what has the new name.
pub(crate) fn rename_at<P: ?Sized + NixPath, Q: ?Sized + NixPath>(
    from: impl AsFd,
    old: &P,
    to: impl AsFd,
    new: &Q,
) -> io::Result<()> {
    Ok(nix::fcntl::renameat(from, old, to, new)?)
}

/// Moves, and fails with `AlreadyExists` if the new name is taken.
///
/// File systems that do not know RENAME_NOREPLACE answer EINVAL. There a file is linked and its old
/// name removed; a directory is renamed plainly, which the kernel refuses if the new name is a
/// directory with something in it.
pub(crate) fn rename_new_at<P: ?Sized + NixPath, Q: ?Sized + NixPath>(
    from: impl AsFd,
    old: &P,
    to: impl AsFd,
    new: &Q,
) -> io::Result<()> {
    let (from, to) = (from.as_fd(), to.as_fd());
    let moved = old.with_nix_path(|old| {
        new.with_nix_path(|new| {
            renameat2(
                from.as_raw_fd(),
                old,
                to.as_raw_fd(),
                new,
                libc::RENAME_NOREPLACE,
            )
        })
    });
    match moved.and_then(|inner| inner).and_then(|inner| inner) {
        Ok(()) => Ok(()),
        Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => {
            let stat = stat_at(from, old)?;
            if stat.st_mode & libc::S_IFMT == libc::S_IFDIR {
                return match nix::fcntl::renameat(from, old, to, new) {
                    Err(Errno::ENOTEMPTY) => Err(Errno::EEXIST.into()),
                    other => Ok(other?),
                };
            }
            linkat(from, old, to, new, AtFlags::empty())?;
            unlink_at(from, old)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// By number, because musl has no such function.
fn renameat2(from: i32, old: &CStr, to: i32, new: &CStr, flags: u32) -> nix::Result<()> {
    // SAFETY: both paths are C strings that live until the call returns; it keeps none of them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            from,
            old.as_ptr(),
            to,
            new.as_ptr(),
            flags,
        )
    };
    Errno::result(result).map(drop)
}

/// Reserves blocks, so that a later overwrite cannot run out of space. Where the file system cannot,
/// it writes them.
pub(crate) fn reserve(file: &File, bytes: u32) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let mode = nix::fcntl::FallocateFlags::empty();
    match nix::fcntl::fallocate(file, mode, 0, libc::off_t::from(bytes)) {
        // As much as a limit of this process allows, and be it nothing.
        Err(Errno::EFBIG) if bytes > 1 => reserve(file, bytes / 2),
        Err(Errno::EFBIG) => Ok(()),
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => file.write_all_at(&vec![0; bytes as usize], 0),
        other => Ok(other?),
    }
}

/// Whether the files there go when the machine does (tmpfs, ramfs).
#[must_use]
pub(crate) fn is_volatile(fd: impl AsFd) -> bool {
    const RAMFS: i128 = 0x8584_58f6;
    nix::sys::statfs::fstatfs(fd).is_ok_and(|fs| {
        let kind = fs.filesystem_type();
        kind == nix::sys::statfs::TMPFS_MAGIC || i128::from(kind.0) == RAMFS
    })
}

/// Names in a directory, without `.` and `..`, in no order.
pub(crate) fn names(dir: impl AsFd) -> io::Result<Vec<std::ffi::OsString>> {
    use std::os::unix::ffi::OsStrExt;
    // A fresh description: reading moves the offset, and others share ours.
    let mut entries = nix::dir::Dir::openat(
        dir,
        c".",
        OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    let mut found = Vec::new();
    for entry in entries.iter() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            found.push(std::ffi::OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(found)
}

/// Random bits for names. Not for secrets.
#[must_use]
pub(crate) fn random() -> u32 {
    let mut bits = [0u8; 4];
    // SAFETY: the kernel writes at most the four bytes of `bits`, which is live and writable.
    let got = unsafe { libc::getrandom(bits.as_mut_ptr().cast(), bits.len(), libc::GRND_NONBLOCK) };
    if got == 4 {
        return u32::from_ne_bytes(bits);
    }
    super::clock::boottime().subsec_nanos() ^ std::process::id().rotate_left(16)
}

/// Bits that nobody can guess. Where the kernel has none to give yet, they are only unlike others.
#[must_use]
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bits = [0u8; N];
    // SAFETY: the kernel writes at most the `N` bytes of `bits`, which is live and writable.
    let got = unsafe { libc::getrandom(bits.as_mut_ptr().cast(), N, 0) };
    if usize::try_from(got) != Ok(N) {
        for place in &mut bits {
            *place = random().to_ne_bytes()[0];
        }
    }
    bits
}

/// The effective user.
#[must_use]
pub(crate) fn euid() -> u32 {
    // Asked once: this program never changes who it is.
    static EUID: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *EUID.get_or_init(|| {
        // The kernel told at the exec. The number for nobody may stand for one who had no number yet, in
        // a user namespace that was being made.
        match u32::try_from(told(libc::AT_EUID)) {
            // Root is asked too: 0 also means that nothing was told.
            Ok(0 | NOBODY) | Err(_) => nix::unistd::geteuid().as_raw(),
            Ok(euid) => euid,
        }
    })
}

/// The number that stands for users without one, on nearly every machine.
const NOBODY: u32 = 65_534;

/// What the kernel told this program at its exec; 0 also where it told nothing.
fn told(what: libc::c_ulong) -> libc::c_ulong {
    // SAFETY: getauxval only reads the vector that the kernel gave the process; none of the values asked
    // for is a pointer.
    unsafe { libc::getauxval(what) }
}

/// Whether this program runs with more rights than its caller has (set-user-ID, set-group-ID, file
/// capabilities): then the caller's environment must not choose our files. The kernel told at the exec;
/// this asks nobody.
#[must_use]
pub(crate) fn is_privileged() -> bool {
    told(libc::AT_SECURE) != 0
        || told(libc::AT_UID) != told(libc::AT_EUID)
        || told(libc::AT_GID) != told(libc::AT_EGID)
}

/// Why a file or directory could have been made, or changed, by somebody whose word does not count: it
/// belongs neither to us nor to root, or others can write to it.
fn distrust(stat: &FileStat) -> Option<&'static str> {
    if stat.st_uid != euid() && stat.st_uid != 0 {
        return Some("belongs to another user");
    }
    (stat.st_mode & 0o022 != 0).then_some("can be written by others")
}

/// Reads a small text that decides what this program does: a plain file, of ours or of root, in a
/// directory of ours or of root, both of which nobody else can write to. Else the reason why it is not
/// to be believed.
pub(crate) fn read_trusted(path: &Path, largest: usize) -> io::Result<Result<String, String>> {
    use std::os::unix::fs::FileExt;
    let (file, stat) = match open_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            return Ok(Err("it is no plain file".to_owned()));
        }
        other => other?,
    };
    if let Some(why) = distrust(&stat) {
        return Ok(Err(format!("it {why}")));
    }
    let dir = stat_path(path.parent().unwrap_or(Path::new("/")))?;
    if let Some(why) = distrust(&dir) {
        return Ok(Err(format!("its directory {why}")));
    }
    let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
    if size > largest {
        return Ok(Err("it is too large".to_owned()));
    }
    // As much as there was when it was looked at.
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, 0)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Ok(text)),
        Err(_) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "stream did not contain valid UTF-8",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rename_that_refuses_to_replace() {
        let dir = tempfile::tempdir().unwrap();
        let fd = open_dir(dir.path()).unwrap();
        drop(create_at(&fd, "a").unwrap());
        drop(create_at(&fd, "b").unwrap());
        let taken = rename_new_at(&fd, "a", &fd, "b").unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        rename_new_at(&fd, "a", &fd, "c").unwrap();
        let mut found = names(&fd).unwrap();
        found.sort();
        assert_eq!(found, ["b", "c"]);
    }

    #[test]
    fn no_symlink_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let fd = open_dir(dir.path()).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("dirlink")).unwrap();
        assert!(open_at(&fd, "link").is_err());
        assert!(open_rw_at(&fd, "link").is_err());
        assert!(create_at(&fd, "link").is_err());
        assert!(open_dir_at(&fd, "dirlink").is_err());
        assert!(open_dir(&dir.path().join("dirlink")).is_err());
    }
}

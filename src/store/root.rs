//! Where the state is: the first candidate that is ours alone.
//!
//! A directory that somebody else owns, that others can write to, or that is a symlink is left
//! alone and the next one is tried; nothing that exists has its mode or owner changed, and nothing is
//! made in the home of another user. Others may
//! read the directory that the user named, for all that is ours begins below, in `v1`, at 0700.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::cause;
use crate::settings::Settings;
use crate::sys::fsx;

/// A place that may hold the state.
pub(super) enum Candidate {
    /// This directory itself; whether the user named it.
    At { path: PathBuf, named: bool },
    /// A directory of a name of ours, in a directory that everybody may write to.
    Within(PathBuf),
}

/// All places, in order.
pub(super) fn candidates(
    settings: &Settings,
    env: &dyn Fn(&str) -> Option<OsString>,
) -> Vec<Candidate> {
    if fsx::is_privileged() {
        return vec![Candidate::Within("/tmp".into())];
    }
    let dir = |name: &str| {
        env(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let named = settings.state.clone();
    let mut found = Vec::with_capacity(6);
    let mut at = |path: Option<PathBuf>, named| {
        found.extend(path.map(|path| Candidate::At { path, named }));
    };
    at(named, true);
    at(
        dir("XDG_STATE_HOME").map(|base| base.join("agent-sh")),
        false,
    );
    at(
        dir("HOME").map(|home| home.join(".local/state/agent-sh")),
        false,
    );
    at(
        dir("XDG_RUNTIME_DIR").map(|base| base.join("agent-sh")),
        false,
    );
    found.extend(dir("TMPDIR").map(Candidate::Within));
    found.push(Candidate::Within("/tmp".into()));
    found
}

/// Why nothing is made below a home of somebody else.
const FOREIGN_HOME: &str = "is not made, as what is above it belongs to another user";
const FOREIGN: &str = "belongs to another user";

/// Whether a place was refused for whose it is: then whoever wonders where the jobs are should be told.
pub(super) fn is_foreign(why: &str) -> bool {
    [FOREIGN, FOREIGN_HOME].contains(&why)
}

/// Checks a directory that is open.
fn check(dir: impl AsFd, private: bool) -> Result<(), String> {
    let stat = fsx::stat_of(dir).map_err(|error| cause(&error))?;
    if stat.st_uid != fsx::euid() {
        return Err(FOREIGN.to_owned());
    }
    if stat.st_mode & 0o022 != 0 {
        return Err("others can write to it".to_owned());
    }
    if private && stat.st_mode & 0o077 != 0 {
        return Err("others can read it".to_owned());
    }
    Ok(())
}

fn describe(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ELOOP | libc::ENOTDIR) => "is a symlink or no directory".to_owned(),
        _ => cause(error),
    }
}

/// Opens one candidate that exists. `Ok(None)`: it does not.
fn open_existing(path: &Path) -> Result<Option<OwnedFd>, String> {
    match fsx::open_dir(path) {
        Ok(dir) => check(&dir, false).map(|()| Some(dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(describe(&error)),
    }
}

/// Opens a candidate, and makes it if it is missing.
pub(super) fn open_or_make(candidate: &Candidate) -> Result<(PathBuf, OwnedFd), (PathBuf, String)> {
    match candidate {
        Candidate::At { path, named } => match open_existing(path) {
            Ok(Some(dir)) => Ok((path.clone(), dir)),
            // Whoever names a directory means it. A home may only have been left in the environment, as
            // `sudo` leaves it: its owner could not clear away what we made there.
            Ok(None) if !named && is_of_another(path) => Err(FOREIGN_HOME.to_owned()),
            Ok(None) => make(path).map(|dir| (path.clone(), dir)),
            Err(why) => Err(why),
        }
        .map_err(|why| (path.clone(), why)),
        Candidate::Within(parent) => within(parent).map_err(|why| (parent.clone(), why)),
    }
}

/// Whether a missing directory would be made in one that belongs neither to us nor to root.
fn is_of_another(path: &Path) -> bool {
    let above = path.ancestors().skip(1);
    let mut known = above.filter_map(|dir| fsx::stat_path(dir).ok());
    known
        .next()
        .is_some_and(|stat| stat.st_uid != fsx::euid() && stat.st_uid != 0)
}

fn make(path: &Path) -> Result<OwnedFd, String> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(parent)
        .map_err(|error| describe(&error))?;
    make_last(path)?;
    open_existing(path)?.ok_or_else(|| "vanished".to_owned())
}

fn make_last(path: &Path) -> Result<(), String> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().ok_or("has no name")?;
    // The parent may be a symlink of the user's, so it is followed.
    let parent = std::fs::File::open(parent).map_err(|error| describe(&error))?;
    match fsx::make_dir_at(&parent, name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(describe(&error)),
        _ => Ok(()),
    }
}

/// The name of ours in a directory for everybody; another user may have taken it, so there is a
/// suffix for that case, and a name that is taken never is a failure.
fn within(parent: &Path) -> Result<(PathBuf, OwnedFd), String> {
    if let Some(found) = all_within(parent)?.into_iter().next() {
        return Ok(found);
    }
    let plain = parent.join(format!("agent-sh-{}", fsx::euid()));
    let others = (0..4).map(|_| plain.with_extension_of(fsx::random()));
    let mut why = String::new();
    for path in std::iter::once(plain.clone()).chain(others) {
        match make_last(&path).and_then(|()| open_existing(&path)) {
            Ok(Some(dir)) => match check(&dir, true) {
                Ok(()) => return Ok((path, dir)),
                Err(reason) => why = reason,
            },
            Ok(None) => why = "vanished".to_owned(),
            Err(reason) => why = reason,
        }
    }
    Err(why)
}

trait Suffix {
    fn with_extension_of(&self, random: u32) -> PathBuf;
}

impl Suffix for PathBuf {
    fn with_extension_of(&self, random: u32) -> PathBuf {
        let mut name = self.clone().into_os_string();
        name.push(format!("-{random:08x}"));
        name.into()
    }
}

/// Every directory of ours there, the plain name first.
fn all_within(parent: &Path) -> Result<Vec<(PathBuf, OwnedFd)>, String> {
    let stat = fsx::stat_path(parent).map_err(|error| cause(&error))?;
    let sticky = stat.st_mode & 0o1000 != 0;
    let safe_owner = stat.st_uid == 0 || stat.st_uid == fsx::euid();
    if !safe_owner || (stat.st_mode & 0o022 != 0 && !sticky) {
        return Err("others can replace what is in it".to_owned());
    }
    let plain = format!("agent-sh-{}", fsx::euid());
    let suffixed = format!("{plain}-");
    let mut names: Vec<String> = std::fs::read_dir(parent)
        .map_err(|error| cause(&error))?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| *name == plain || name.starts_with(&suffixed))
        .collect();
    names.sort();
    Ok(names
        .into_iter()
        .filter_map(|name| {
            let path = parent.join(name);
            let dir = open_existing(&path).ok()??;
            check(&dir, true).is_ok().then_some((path, dir))
        })
        .collect())
}

/// Whether new jobs can be made in this directory, or in what would be made there; if not, why. Looks
/// only. A full disk is no obstacle: it may have room again when the next job comes.
pub(super) fn usable(path: &Path) -> Result<(), String> {
    let Some(dir) = open_existing(path)? else {
        return makeable(path);
    };
    let writable = |path: &Path| fsx::check_writable(path).map_err(|error| cause(&error));
    let there = |dir: &OwnedFd, name: &str| match fsx::stat_at(dir, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        _ => inner(dir, name, false).map(Some),
    };
    let Some(base) = there(&dir, "v1")? else {
        return writable(path);
    };
    let v1 = path.join("v1");
    for name in ["jobs", "tmp"] {
        match there(&base, name)? {
            Some(_) => writable(&v1.join(name))?,
            None => writable(&v1)?,
        }
    }
    Ok(())
}

/// Whether a directory that is missing could be made, with those above it.
fn makeable(path: &Path) -> Result<(), String> {
    for above in path.ancestors().skip(1) {
        match fsx::stat_path(above) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(describe(&error)),
            // The kernel's own: root may write to them, and nobody can make anything.
            Ok(_) if fsx::is_of_kernel(above) => {
                return Err(format!("nothing can be made in '{}'", above.display()));
            }
            Ok(_) => return fsx::check_writable(above).map_err(|error| cause(&error)),
        }
    }
    Ok(())
}

/// Opens what exists of a candidate; makes nothing.
pub(super) fn existing(candidate: &Candidate) -> Vec<(PathBuf, OwnedFd)> {
    match candidate {
        Candidate::At { path, .. } => match open_existing(path) {
            Ok(Some(dir)) => vec![(path.clone(), dir)],
            _ => Vec::new(),
        },
        Candidate::Within(parent) => all_within(parent).unwrap_or_default(),
    }
}

/// Where a candidate is, if it is there: of a directory in `/tmp` the usual name.
pub(super) fn path_of(candidate: &Candidate) -> PathBuf {
    match candidate {
        Candidate::At { path, .. } => path.clone(),
        Candidate::Within(parent) => parent.join(format!("agent-sh-{}", fsx::euid())),
    }
}

/// Opens a directory of ours below the root, and makes it if asked. It must be 0700.
pub(super) fn inner(dir: impl AsFd, name: &str, make: bool) -> Result<OwnedFd, String> {
    let opened = match fsx::open_dir_at(dir.as_fd(), name) {
        Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
            match fsx::make_dir_at(dir.as_fd(), name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => fsx::open_dir_at(dir, name),
            }
        }
        other => other,
    };
    let inner = opened.map_err(|error| format!("{name}: {}", describe(&error)))?;
    check(&inner, true).map_err(|why| format!("{name}: {why}"))?;
    Ok(inner)
}

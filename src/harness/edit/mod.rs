//! A file of somebody else, changed so that the change can be taken back byte for byte.
//!
//! What a file was before, and what we made of it, is kept in a receipt below our data directory. As
//! long as the file is as we left it, undoing restores the old bytes. If it was edited meanwhile, only
//! our parts leave. Files are replaced whole, by a rename; a link is followed and stays a link.

pub(crate) mod hooks;
pub(crate) mod json;
pub(crate) mod place;
pub(crate) mod whole;

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::sys::fsx;

/// No settings file is larger.
const LARGEST: u64 = 16 << 20;

/// How one file is changed: pure functions of its text.
pub(crate) trait Edit {
    /// The text with our parts in it; unchanged if they are. `Err` says what is wrong with the file.
    fn add(&self, text: &str) -> std::result::Result<String, String>;
    /// The text without our parts; unchanged if it has none.
    fn strip(&self, text: &str) -> std::result::Result<String, String>;
    /// Whether nothing is left in it.
    fn is_blank(&self, text: &str) -> bool;
}

#[derive(Debug, Deserialize, Serialize)]
struct Receipt {
    path: PathBuf,
    /// `None`: there was no such file.
    before: Option<String>,
    after: String,
    /// The outermost directory that had to be made for it.
    made: Option<PathBuf>,
}

/// What is to be done with a file, decided and not done yet.
#[derive(Debug)]
pub(crate) struct Change {
    /// As the client names it.
    pub(crate) path: PathBuf,
    /// What the link leads to, or the path itself.
    real: PathBuf,
    found: Option<String>,
    /// `None`: no such file.
    pub(crate) wanted: Option<String>,
    receipt: Option<Receipt>,
    receipt_file: PathBuf,
}

impl Change {
    pub(crate) fn is_needed(&self) -> bool {
        self.found != self.wanted
    }

    /// There is no such file yet.
    pub(crate) fn is_new(&self) -> bool {
        self.found.is_none()
    }
}

fn refused(path: &Path, why: &str, hint: Option<&str>) -> Error {
    Error::Failed {
        text: format!("cannot change '{}': {why}", path.display()),
        hint: hint.map(str::to_owned),
    }
}

/// Finds the file behind a name, with its text.
fn find(path: &Path) -> Result<(PathBuf, Option<String>)> {
    let real = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((path.to_owned(), None)),
        Err(source) => return Err(Error::io("look at", path, source)),
        Ok(meta) if meta.is_symlink() => fs::canonicalize(path)
            .map_err(|_| refused(path, "it is a link that leads nowhere", None))?,
        Ok(_) => path.to_owned(),
    };
    let meta = fs::metadata(&real).map_err(|source| Error::io("look at", path, source))?;
    if !meta.is_file() {
        return Err(refused(path, "it is no file", None));
    }
    if meta.len() > LARGEST {
        return Err(refused(path, "it is too large", None));
    }
    let bytes = fs::read(&real).map_err(|source| Error::io("read", path, source))?;
    let text = String::from_utf8(bytes).map_err(|_| refused(path, "it is no UTF-8 text", None))?;
    Ok((real, Some(text)))
}

fn receipt_file(data: &Path, path: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let hash = Sha256::digest(path.as_os_str().as_bytes());
    let name: String = hash
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    data.join("setup").join(format!("{name}.json"))
}

/// A receipt that cannot be read is none: then our parts are taken out one by one.
fn read_receipt(file: &Path, path: &Path) -> Option<Receipt> {
    let receipt: Receipt = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    (receipt.path == path).then_some(receipt)
}

/// What it takes to have our parts in the file.
pub(crate) fn plan_add(data: &Path, path: &Path, edit: &impl Edit) -> Result<Change> {
    let wrong = |why: String| {
        refused(
            path,
            &why,
            Some("nothing was changed; '--print' shows what is wanted"),
        )
    };
    let (real, found) = find(path)?;
    let wanted = edit
        .add(found.as_deref().unwrap_or_default())
        .map_err(wrong)?;
    let receipt_file = receipt_file(data, path);
    let old = read_receipt(&receipt_file, path);
    let same = old.filter(|old| Some(&old.after) == found.as_ref());
    let receipt = match (same, &found) {
        (Some(old), _) => Receipt {
            after: wanted.clone(),
            ..old
        },
        (None, Some(text)) => Receipt {
            path: path.to_owned(),
            before: Some(edit.strip(text).map_err(wrong)?),
            after: wanted.clone(),
            made: None,
        },
        (None, None) => Receipt {
            path: path.to_owned(),
            before: None,
            after: wanted.clone(),
            made: outermost_missing(path),
        },
    };
    let change = Change {
        path: path.to_owned(),
        real,
        found,
        wanted: Some(wanted),
        receipt: Some(receipt),
        receipt_file,
    };
    change.check_writable()?;
    Ok(change)
}

/// What it takes to have the file as it was, or at least without our parts.
pub(crate) fn plan_undo(data: &Path, path: &Path, edit: &impl Edit) -> Result<Change> {
    let (real, found) = find(path)?;
    let receipt_file = receipt_file(data, path);
    let receipt = read_receipt(&receipt_file, path);
    let made_by_us = receipt
        .as_ref()
        .is_some_and(|receipt| receipt.before.is_none());
    let wanted = match (&found, &receipt) {
        (None, _) => None,
        (Some(text), Some(receipt)) if receipt.after == *text => receipt.before.clone(),
        (Some(text), _) => {
            let rest = edit
                .strip(text)
                .map_err(|why| refused(path, &why, Some("nothing was changed")))?;
            (!(made_by_us && edit.is_blank(&rest))).then_some(rest)
        }
    };
    let change = Change {
        path: path.to_owned(),
        real,
        found,
        wanted,
        receipt,
        receipt_file,
    };
    change.check_writable()?;
    Ok(change)
}

fn outermost_missing(path: &Path) -> Option<PathBuf> {
    path.ancestors()
        .skip(1)
        .take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists())
        .last()
        .map(Path::to_owned)
}

impl Change {
    /// Adds. The receipt comes first: with it alone nothing is undone, without it the old bytes are lost.
    pub(crate) fn apply(&self) -> Result<()> {
        let (Some(wanted), Some(receipt)) = (&self.wanted, &self.receipt) else {
            return Ok(());
        };
        let failed = |source| Error::io("write", &self.receipt_file, source);
        let dir = self.receipt_file.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(dir).map_err(|source| Error::io("create", dir, source))?;
        let text = serde_json::to_string(receipt).map_err(|error| failed(error.into()))?;
        write_whole(&self.receipt_file, text.as_bytes(), Some(0o600), None).map_err(failed)?;
        if let Some(dir) = self.real.parent() {
            fs::create_dir_all(dir).map_err(|source| Error::io("create", dir, source))?;
        }
        self.replace(wanted)
    }

    /// Takes back what `plan_undo` found to take back, and forgets the receipt.
    pub(crate) fn undo(&self) -> Result<()> {
        if self.is_needed() {
            match &self.wanted {
                Some(text) => self.replace(text)?,
                None => {
                    fs::remove_file(&self.real)
                        .map_err(|source| Error::io("remove", &self.path, source))?;
                    let made = self
                        .receipt
                        .as_ref()
                        .and_then(|receipt| receipt.made.as_deref());
                    if let (Some(dir), Some(end)) =
                        (self.real.parent(), made.and_then(Path::parent))
                    {
                        place::remove_empty(dir, end);
                    }
                }
            }
        }
        match fs::remove_file(&self.receipt_file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io("remove", &self.receipt_file, error))
            }
            _ => Ok(()),
        }
    }

    /// A rename would replace even a file that its owner has made read-only.
    fn check_writable(&self) -> Result<()> {
        if self.found.is_none() || !self.is_needed() {
            return Ok(());
        }
        let meta =
            fs::metadata(&self.real).map_err(|source| Error::io("look at", &self.path, source))?;
        if meta.mode() & 0o222 == 0 || !fsx::is_writable(&self.real) {
            let hint = "make it writable, or add by hand what '--print' shows";
            return Err(refused(&self.path, "it is read-only", Some(hint)));
        }
        Ok(())
    }

    fn replace(&self, text: &str) -> Result<()> {
        let now = match fs::read_to_string(&self.real) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(source) => return Err(Error::io("read", &self.path, source)),
        };
        if now != self.found {
            return Err(refused(
                &self.path,
                "somebody else has just changed it",
                Some("try again"),
            ));
        }
        let meta = fs::metadata(&self.real).ok();
        let mode = meta.as_ref().map(|meta| meta.mode() & 0o7777);
        let owner = meta.map(|meta| (meta.uid(), meta.gid()));
        write_whole(&self.real, text.as_bytes(), mode, owner)
            .map_err(|source| Error::io("write", &self.path, source))
    }
}

/// Writes beside the file and renames, so that nobody ever reads half of it.
fn write_whole(
    path: &Path,
    bytes: &[u8],
    mode: Option<u32>,
    owner: Option<(u32, u32)>,
) -> std::io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.agent-sh-{:08x}", fsx::random()));
    let write = || {
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(mode.unwrap_or(0o666) & 0o777)
            .open(&beside)?;
        file.write_all(bytes)?;
        if let Some((user, group)) = owner {
            let meta = file.metadata()?;
            if (meta.uid(), meta.gid()) != (user, group) {
                std::os::unix::fs::fchown(&file, Some(user), Some(group))?;
            }
        }
        if let Some(mode) = mode {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&beside)))
}

/// Whether some file still has our parts, as far as receipts tell.
pub(crate) fn any_receipt(data: &Path) -> bool {
    fs::read_dir(data.join("setup")).is_ok_and(|mut entries| entries.next().is_some())
}

//! Trying out a state directory: what `doctor` wants to know, found by doing it.

use std::io;

use crate::store::{Store, root};
use crate::sys::{fsx, lock};

/// What worked.
#[derive(Debug)]
pub struct Probe {
    /// A lock that a second description of the file sees.
    pub lock: io::Result<bool>,
    /// A rename that refuses to replace.
    pub rename: io::Result<bool>,
    /// Bytes that are free, and bytes in all.
    pub space: io::Result<(u64, u64)>,
    /// The files go when the machine does.
    pub is_volatile: bool,
}

impl Store {
    /// Tries the store out with files that are gone afterwards.
    pub fn probe(&self) -> io::Result<Probe> {
        let tmp = root::inner(&self.base, "tmp", true).map_err(io::Error::other)?;
        let name = format!("probe.{:08x}", fsx::random());
        let other = format!("{name}.b");
        let file = fsx::create_at(&tmp, name.as_str())?;
        let lock = lock::try_write(&file).and_then(|taken| {
            let second = fsx::open_at(&tmp, name.as_str())?;
            Ok(taken && lock::is_written(&second)?)
        });
        let rename = fsx::create_at(&tmp, other.as_str()).map(|_| {
            let refused = fsx::rename_new_at(&tmp, other.as_str(), &tmp, name.as_str());
            refused.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
        });
        for name in [&name, &other] {
            drop(fsx::unlink_at(&tmp, name.as_str()));
        }
        Ok(Probe {
            lock,
            rename,
            space: fsx::space(&self.base),
            is_volatile: fsx::is_volatile(&self.base),
        })
    }
}

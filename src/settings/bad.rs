//! Settings that were not taken.

use std::path::Path;

use super::{CONFIG_FILE, Origin, names};
use crate::error::Error;

/// A value that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSetting {
    /// As the user wrote it: `AGENT_SH_KEEP`, or `keep` from the file.
    pub name: String,
    pub value: String,
    pub why: String,
    pub origin: Origin,
}

impl BadSetting {
    /// A key of the file that means nothing here, as opposed to a value that does not.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        let known = names().any(|known| known == self.name) || self.name == CONFIG_FILE;
        self.origin == Origin::File && !known
    }

    pub(super) fn error(&self, file: Option<&Path>) -> Error {
        Error::Setting {
            name: self.name.clone(),
            value: self.value.clone(),
            why: self.why.clone(),
            file: file
                .filter(|_| self.origin == Origin::File)
                .map(Path::to_owned),
        }
    }
}

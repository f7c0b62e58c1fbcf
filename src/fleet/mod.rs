//! Reading back what machines have published: the jobs of many, from one stream.
//!
//! A stream holds each job's start, its end and its last sign of life. Whoever reads puts them together; nobody keeps an
//! index. A job without an end whose machine has stopped to give signs of life is `lost?`: its end may still come.

pub(crate) mod job;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "redis")]
mod redis;
pub(crate) mod source;

use std::path::Path;

use crate::error::{Error, Result};
use crate::notify::broker::{Proof, Url};
use source::{Member, Reader};

/// How much of a stream is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The newest of each kind of each job.
    Latest,
    /// Everything, in order.
    All,
}

pub(crate) fn failed(text: impl Into<String>) -> Error {
    Error::Failed {
        text: text.into(),
        hint: None,
    }
}

/// A stream, and what its broker wants to see.
pub(crate) struct Address {
    url: Url,
    proof: Proof,
    allow_private: bool,
}

impl Address {
    pub(crate) fn new(
        text: &str,
        creds_file: Option<&Path>,
        password_file: Option<&Path>,
        allow_private: bool,
    ) -> Result<Self> {
        let url: Url = text.parse().map_err(|text| Error::Usage {
            text,
            hint: Some("--from takes nats://HOST/STREAM or redis://HOST/DB/STREAM".to_owned()),
        })?;
        if url.user.is_some() && password_file.is_none() {
            return Err(Error::Usage {
                text: "an address with a user needs --password-file".to_owned(),
                hint: None,
            });
        }
        let proof = Proof::read(creds_file, password_file).map_err(failed)?;
        Ok(Self {
            url,
            proof,
            allow_private,
        })
    }

    /// Opens the stream, from its beginning.
    pub(crate) fn open(&self, extent: Extent) -> Result<Box<dyn Reader>> {
        source::open(&self.url, &self.proof, self.allow_private, extent)
            .map_err(|why| self.failed(&why))
    }

    /// Joins a group of readers of the stream, and makes it if there is none.
    pub(crate) fn join(&self, group: &str) -> Result<Box<dyn Member>> {
        source::join(&self.url, &self.proof, self.allow_private, group)
            .map_err(|why| self.failed(&why))
    }

    fn failed(&self, why: &str) -> Error {
        failed(format!("{}: {why}", self.url.server()))
    }
}

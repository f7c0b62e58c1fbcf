//! A stream that is read, whatever engine keeps it.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::Extent;
use crate::notify::broker::{Engine, LIMIT, Proof, Url};

/// One event, and when the broker got it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: SystemTime,
    pub(crate) event: Value,
}

pub(crate) enum Source {
    #[cfg(feature = "nats")]
    Nats(super::nats::Reader),
    #[cfg(feature = "redis")]
    Redis(super::redis::Reader),
    #[cfg(not(any(feature = "nats", feature = "redis")))]
    None(std::convert::Infallible),
}

impl Source {
    pub(crate) fn open(
        url: &Url,
        proof: &Proof,
        allow_private: bool,
        extent: Extent,
    ) -> Result<Self, String> {
        let named = |why: String| format!("{}: {why}", url.server());
        match url.engine {
            #[cfg(feature = "nats")]
            Engine::Nats => super::nats::Reader::open(url, proof, allow_private, LIMIT, extent)
                .map(Self::Nats)
                .map_err(named),
            #[cfg(feature = "redis")]
            Engine::Redis => super::redis::Reader::open(url, proof, allow_private, LIMIT)
                .map(Self::Redis)
                .map_err(named),
            #[cfg(not(all(feature = "nats", feature = "redis")))]
            _ => Err(named(
                "this agent-sh was built without that broker".to_owned(),
            )),
        }
    }

    /// What there is and was not read yet. With `wait` nothing is waited for at most so long.
    pub(crate) fn read(&mut self, wait: Option<Duration>) -> Result<Vec<Seen>, String> {
        match self {
            #[cfg(feature = "nats")]
            Self::Nats(reader) => reader.read(wait),
            #[cfg(feature = "redis")]
            Self::Redis(reader) => reader.read(wait),
            #[cfg(not(any(feature = "nats", feature = "redis")))]
            Self::None(never) => match *never {},
        }
    }
}

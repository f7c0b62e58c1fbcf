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

/// What can be read.
pub(crate) trait Reader {
    /// What there is and was not read yet. Where there is nothing, something is waited for at most so long.
    fn read(&mut self, wait: Option<Duration>) -> Result<Vec<Seen>, String>;
}

/// One of many readers that share the ends of a stream.
pub(crate) trait Member {
    /// The next end that is ours to deliver.
    fn next(&mut self, wait: Duration) -> Result<Option<Value>, String>;
    /// It was delivered, or never will be.
    fn settle(&mut self) -> Result<(), String>;
    /// Not now: it comes again, to whoever asks then.
    fn give_back(&mut self, pause: Duration) -> Result<(), String>;
}

/// Opens a stream, from its beginning.
pub(crate) fn open(
    url: &Url,
    proof: &Proof,
    allow_private: bool,
    extent: Extent,
) -> Result<Box<dyn Reader>, String> {
    match url.engine {
        #[cfg(feature = "nats")]
        Engine::Nats => {
            super::nats::Reader::open(url, proof, allow_private, LIMIT, extent).map(boxed)
        }
        #[cfg(feature = "redis")]
        Engine::Redis => super::redis::Reader::open(url, proof, allow_private, LIMIT).map(boxed),
        #[cfg(not(all(feature = "nats", feature = "redis")))]
        _ => Err(ABSENT.to_owned()),
    }
}

/// Joins a group of readers, and makes it if there is none.
pub(crate) fn join(
    url: &Url,
    proof: &Proof,
    allow_private: bool,
    group: &str,
) -> Result<Box<dyn Member>, String> {
    match url.engine {
        #[cfg(feature = "nats")]
        Engine::Nats => super::nats::Member::join(url, proof, allow_private, LIMIT, group)
            .map(|member| Box::new(member) as Box<dyn Member>),
        #[cfg(feature = "redis")]
        Engine::Redis => super::redis::Member::join(url, proof, allow_private, LIMIT, group)
            .map(|member| Box::new(member) as Box<dyn Member>),
        #[cfg(not(all(feature = "nats", feature = "redis")))]
        _ => Err(ABSENT.to_owned()),
    }
}

fn boxed(reader: impl Reader + 'static) -> Box<dyn Reader> {
    Box::new(reader)
}

#[cfg(not(all(feature = "nats", feature = "redis")))]
const ABSENT: &str = "this agent-sh was built without that broker";

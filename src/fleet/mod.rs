//! Reading back what machines have published: the verbs of one machine, over the stream of many.
//!
//! A stream holds each job's start, its end and its last sign of life. Whoever reads puts them together; nobody keeps an
//! index. A job without an end whose machine has stopped to give signs of life is `lost?`: its end may still come.

mod events;
mod group;
mod job;
#[cfg(feature = "nats")]
mod nats;
mod ps;
#[cfg(feature = "redis")]
mod redis;
mod show;
mod source;
mod wait;

pub(crate) use events::events;
pub(crate) use group::follow;
pub(crate) use ps::{ps, top};
pub(crate) use show::show;
pub(crate) use wait::wait;

use crate::cli::Fleet;
use crate::error::{Error, Result};
use crate::notify::broker::{Proof, Url};

/// How much of a stream is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The newest of each kind of each job.
    Latest,
    /// Everything, in order.
    All,
}

fn failed(text: impl Into<String>) -> Error {
    Error::Failed {
        text: text.into(),
        hint: None,
    }
}

/// Opens what `--from` names.
fn open(fleet: &Fleet, extent: Extent) -> Result<Box<dyn source::Reader>> {
    let (url, proof) = address(fleet)?;
    source::open(&url, &proof, fleet.allow_private, extent)
        .map_err(|why| failed(format!("{}: {why}", url.server())))
}

fn address(fleet: &Fleet) -> Result<(Url, Proof)> {
    let text = fleet.from.as_deref().unwrap_or_default();
    let url: Url = text.parse().map_err(|text| Error::Usage {
        text,
        hint: Some("--from takes nats://HOST/STREAM or redis://HOST/DB/STREAM".to_owned()),
    })?;
    if url.user.is_some() && fleet.password_file.is_none() {
        return Err(Error::Usage {
            text: "an address with a user needs --password-file".to_owned(),
            hint: None,
        });
    }
    let proof = Proof::read(fleet.creds_file.as_deref(), fleet.password_file.as_deref());
    Ok((url, proof.map_err(failed)?))
}

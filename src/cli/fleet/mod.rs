//! The verbs with `--from`: the jobs of other machines, read from a stream that those publish to.

mod events;
mod group;
mod ps;
mod show;
mod wait;

use std::path::PathBuf;

use clap::Args;

use crate::error::Result;
use crate::fleet::source::Reader;
use crate::fleet::{Address, Extent};

pub(super) use events::events;
pub(super) use ps::{ps, top};
pub(super) use show::show;
pub(super) use wait::wait;

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Other machines")]
pub(super) struct Fleet {
    /// Read from this stream instead: nats://HOST/STREAM, redis://HOST/DB/STREAM (tls://, rediss://)
    #[arg(long, value_name = "URL")]
    pub from: Option<String>,
    /// For NATS: a file with credentials (.creds), readable by you alone
    #[arg(long, value_name = "FILE", requires = "from")]
    pub creds_file: Option<PathBuf>,
    /// A file with the password of the address's user, readable by you alone
    #[arg(long, value_name = "FILE", requires = "from")]
    pub password_file: Option<PathBuf>,
    /// Allow addresses of private networks
    #[arg(long, requires = "from")]
    pub allow_private: bool,
}

impl Fleet {
    fn address(&self) -> Result<Address> {
        let from = self.from.as_deref().unwrap_or_default();
        let (creds, password) = (self.creds_file.as_deref(), self.password_file.as_deref());
        Address::new(from, creds, password, self.allow_private)
    }

    fn open(&self, extent: Extent) -> Result<Box<dyn Reader>> {
        self.address()?.open(extent)
    }
}

//! The words with which verbs read the jobs of other machines.

use std::path::PathBuf;

use clap::Args;

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Other machines")]
pub struct Fleet {
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

//! The arguments of `notify`, and those of `wait` that notify others.

use crate::cli::values::subscriber;
use crate::settings;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, Args)]
pub(crate) struct Watching {
    /// Also notify of lines that match this regular expression, while the job runs
    #[arg(long, value_name = "RE", value_parser = pattern)]
    pub on_output: Option<String>,
    /// Also notify this often that a job still writes output
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration)]
    pub heartbeat: Option<Duration>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Webhook {
    /// A file with the key that signs webhooks (whsec_…), readable by you alone
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Words instead of the event, for webhooks that show them: a chat, a phone
    #[arg(long, value_name = "KIND", value_parser = crate::notify::template::NAMES)]
    pub template: Option<String>,
    /// For NATS: a file with credentials (.creds), readable by you alone
    #[arg(long, value_name = "FILE")]
    pub creds_file: Option<PathBuf>,
    /// For NATS and Redis: a file with the password of the address's user, readable by you alone
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Allow addresses of private networks
    #[arg(long)]
    pub allow_private: bool,
}

/// Manage notifications
#[derive(Debug, Args)]
#[command(after_help = "\
A subscription stands until it is removed. Every job that ends notifies its subscribers. A notification that cannot be \
delivered is retried, and stays pending for the next agent-sh that runs.

Example:
  agent-sh notify add dir:/home/you/events
  agent-sh notify list

Exit codes: 0 success, 2 wrong usage, 125 no such subscription, not delivered, or agent-sh failed.")]
pub(crate) struct Notify {
    #[command(subcommand)]
    pub what: NotifyWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NotifyWhat {
    Add(NotifyAdd),
    List(NotifyList),
    Remove(NotifyName),
    Test(NotifyTest),
}

/// Subscribe a sink to the ends of jobs
#[derive(Debug, Args)]
#[command(after_help = "\
Sinks:
  dir:/DIRECTORY   one file EVENT.json per event, complete or absent
  exec:/PROGRAM    the event on stdin; no shell, only PATH, 10 seconds
  https://URL      a signed POST (Standard Webhooks); http:// to this machine
  nats://[USER@]HOST/STREAM, redis://[USER@]HOST/DB/STREAM
                   a stream of NATS JetStream or Redis, with starts and signs
                   of life; tls:// and rediss:// are encrypted
  otlp:http://HOST:4318
                   each job as a span, and counts, to a collector
  unix:/SOCKET     one line to whoever listens, if it is yours
  claude-code, codex, opencode, agentapi
                   the agent that started the job, through its harness
  auto             whichever of these started the job

Example:
  agent-sh notify add dir:/home/you/events --on failure
  agent-sh notify add https://example.com/hook --as web --secret-file ~/.key
  agent-sh notify add tls://nats.example.com/JOBS --creds-file ~/.nats.creds
  agent-sh notify add auto --on-output 'listening on|error'

Exit codes: 0 success, 2 wrong usage, 125 the name is taken, or agent-sh failed.")]
pub(crate) struct NotifyAdd {
    /// Where events go
    pub sink: String,
    /// The name of the subscription [default: made from the sink]
    #[arg(long = "as", value_name = "NAME", value_parser = subscriber)]
    pub subscriber: Option<String>,
    /// Only jobs of this session
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// Which ends to notify of
    #[arg(long, value_name = "WHICH", default_value = "always")]
    pub on: OnWord,
    #[command(flatten)]
    pub watch: Watching,
    #[command(flatten)]
    pub web: Webhook,
}

/// List subscriptions with pending, delivered and dead notifications
#[derive(Debug, Args)]
pub(crate) struct NotifyList {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Remove a subscription
#[derive(Debug, Args)]
pub(crate) struct NotifyName {
    /// The name of the subscription
    pub name: String,
}

/// Send a test event now, and report the result
#[derive(Debug, Args)]
pub(crate) struct NotifyTest {
    /// The name of the subscription
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnWord {
    Success,
    Failure,
    Always,
}

/// A regular expression that can be used.
fn pattern(text: &str) -> Result<String, String> {
    match regex::Regex::new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => {
            let lines = error.to_string();
            Err(lines
                .lines()
                .last()
                .unwrap_or("cannot be read")
                .trim()
                .to_owned())
        }
    }
}

//! The arguments of `wait`.

use crate::cli::fleet::Fleet;
use crate::cli::notify::args::{Watching, Webhook};
use crate::cli::values::{port, regex, subscriber};
use crate::settings;
use clap::Args;
use regex::Regex;
use std::time::Duration;

/// Wait until jobs end, or until one writes, listens or goes quiet
#[derive(Debug, Args)]
#[command(after_help = "\
Without an ID: the running jobs of the caller's session (of every session if the caller has none), and its jobs that have \
ended and that no 'wait' has reported yet; with --for-output, --for-port or --idle only running jobs.
Prints one line per job when it ends; with --json its record, one per line.
--for-output matches all lines since the job's start, as clean text, including a prompt without a newline. \
--for-port waits until a process of the job listens on that TCP port.

Example:
  agent-sh wait 7f3k && echo built
  agent-sh wait 7f3k 9m2p --any --timeout 10m
  agent-sh wait web --for-port 3000 --timeout 60s
  agent-sh wait web --for-output 'ready in|error'
  agent-sh wait 7f3k --idle 30s
  agent-sh wait 7f3k --notify dir:/home/you/events
  agent-sh wait --follow --notify stdout
  agent-sh wait 7f3k --from nats://127.0.0.1/JOBS
  agent-sh wait --follow --from nats://127.0.0.1/JOBS --group wakers --notify exec:/usr/local/bin/wake

With --notify the end is also delivered to sinks ('agent-sh notify add --help' lists them) before this command exits. \
A notification that cannot be delivered stays pending for the next agent-sh that runs.

Exit codes: the job's own, 128+n after signal n, 125 when it is lost or unknown; of several jobs the first that \
is not 0, in the order given; with --any that of the first to end. With --for-output, --for-port, --idle: 0 when \
the condition was met, 1 when the job ended before. 124 when --timeout expired; 125 when a delivery was given up; \
2 wrong usage.")]
pub(crate) struct Wait {
    /// Ids, unique prefixes of ids, names, or 'last'
    #[arg(value_name = "ID")]
    pub jobs: Vec<String>,
    /// Wait until the first of them ends
    #[arg(long)]
    pub any: bool,
    /// Wait until all of them have ended (the default)
    #[arg(long, conflicts_with = "any")]
    pub all: bool,
    /// Give up after this time: 90, 90s, 10m, 2h. The jobs keep running
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration)]
    pub timeout: Option<Duration>,
    /// Wait until a line of output matches this regular expression
    #[arg(long, value_name = "RE", value_parser = regex, conflicts_with_all = ["for_port", "idle"])]
    pub for_output: Option<Regex>,
    /// Wait until the job listens on this TCP port
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = port, conflicts_with = "idle")]
    pub for_port: Option<u16>,
    /// Wait until the job has written nothing for this time
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration)]
    pub idle: Option<Duration>,
    /// Print records as JSON, one per line
    #[arg(long)]
    pub json: bool,
    /// Wait for jobs of other machines, as this stream tells: nats://HOST/STREAM, redis://HOST/DB/STREAM
    #[arg(long, value_name = "URL")]
    pub from: Option<String>,
    /// With --follow --from: the name under which any number of readers share the ends
    #[arg(long, value_name = "NAME", value_parser = subscriber, requires_all = ["from", "follow"])]
    pub group: Option<String>,
    #[command(flatten)]
    pub delivery: Delivery,
}

impl Wait {
    /// Where the jobs of other machines are read from.
    #[must_use]
    pub(crate) fn fleet(&self) -> Fleet {
        let web = &self.delivery.web;
        Fleet {
            from: self.from.clone(),
            creds_file: web.creds_file.clone(),
            password_file: web.password_file.clone(),
            allow_private: web.allow_private,
        }
    }

    /// Something else than the end is waited for.
    #[must_use]
    pub(crate) fn has_condition(&self) -> bool {
        self.for_output.is_some() || self.for_port.is_some() || self.idle.is_some()
    }
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Notifications")]
pub(crate) struct Delivery {
    /// Deliver the end to this sink, or to the subscription of this name; may be given more than once
    #[arg(long, value_name = "SINK", conflicts_with_all = ["for_output", "for_port", "idle"])]
    pub notify: Vec<String>,
    /// The subscription's name: the same one is never notified twice
    #[arg(long = "as", value_name = "NAME", value_parser = subscriber, requires = "notify")]
    pub subscriber: Option<String>,
    /// Continue with all jobs of the session, as they start and end
    #[arg(long, conflicts_with_all = ["any", "jobs"])]
    pub follow: bool,
    /// The session whose jobs are meant [default: the caller's]
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    #[command(flatten)]
    pub watch: Watching,
    #[command(flatten)]
    pub web: Webhook,
}

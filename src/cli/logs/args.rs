//! The arguments of `logs`.

use crate::cli::values::{count, limit, regex};
use crate::settings;
use clap::Args;
use regex::Regex;
use std::time::Duration;

/// Print a job's output
#[derive(Debug, Args)]
#[command(after_help = "\
Prints clean text, as a person would have seen it: no escape sequences, progress bars in their last state, nothing of \
full-screen programs. If a stream was redirected to a file, prints that file and says so on stderr; --stderr prints \
only stderr's own file.
--cursor reads in portions: 'cursor: C', the last line of stderr, is where the next call begins. With --limit a \
portion is bounded, and what is left comes with the next one.
--json prints {\"line\":TEXT} for each line, and {\"left_out\":BYTES} where the middle of a long output was not kept; \
with --cursor a line that is not complete has \"unfinished\":true, its rest \"continued\":true (or, written anew, \"redrawn\":true), and the last object is {\"cursor\":C,\"more\":BOOL}.

Example:
  agent-sh logs 7f3k -n 50
  agent-sh logs 7f3k --since 5m --grep 'error|warning'
  agent-sh logs 7f3k -f             follow until the job ends
  agent-sh logs 7f3k --cursor 0     all so far, and a cursor for the rest
  agent-sh logs 7f3k --screen       the screen of a full-screen program
  agent-sh logs 7f3k --cast > a.cast; asciinema play a.cast

Exit codes: 0 success, 2 wrong usage, 125 no such job, or its output cannot be found.")]
pub(crate) struct Logs {
    /// Id, unique prefix of an id, name, or 'last'
    #[arg(value_name = "ID")]
    pub job: String,
    /// Only the last N lines
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = count, conflicts_with_all = ["screen", "cast"])]
    pub lines: Option<usize>,
    /// Follow the output until the job ends
    #[arg(short, long, conflicts_with_all = ["screen", "cast"])]
    pub follow: bool,
    /// Only what was written in the last 90s, 10m, 2h
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration, conflicts_with_all = ["screen", "cast"])]
    pub since: Option<Duration>,
    /// Only what was written after this cursor, and print the next one; '0' is the beginning
    #[arg(long, value_name = "C", allow_hyphen_values = true, conflicts_with_all = ["since", "screen", "cast"])]
    pub cursor: Option<String>,
    /// At most this much from the cursor on, in whole lines: 64K, 1M
    #[arg(long, value_name = "SIZE", value_parser = limit, requires = "cursor", conflicts_with = "follow")]
    pub limit: Option<u64>,
    /// Only lines that match this regular expression
    #[arg(long, value_name = "RE", value_parser = regex, conflicts_with_all = ["raw", "screen", "cast"])]
    pub grep: Option<Regex>,
    /// The bytes as the job wrote them, with escape sequences
    #[arg(long, conflicts_with_all = ["screen", "cast", "json"])]
    pub raw: bool,
    /// Only the file that stderr was redirected to
    #[arg(long, conflicts_with_all = ["screen", "cast"])]
    pub stderr: bool,
    /// The job's current screen
    #[arg(long, conflicts_with = "cast")]
    pub screen: bool,
    /// The output with timestamps, as asciicast v2
    #[arg(long, conflicts_with = "json")]
    pub cast: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    pub json: bool,
}

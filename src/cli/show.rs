//! `show`: everything known of a job.

use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;

use crate::cli::format::{ending, short_duration, signal_name, size};
use crate::cli::row;
use crate::context::Context;
use crate::error::Result;
use crate::job::record::{Record, Usage};
use crate::job::{Degraded, LostReason};
use crate::message::{self, Colour, Palette};
use crate::store::JobView;
use crate::text;
use clap::Args;

/// Show everything known about a job
#[derive(Debug, Args)]
#[command(after_help = "\
--json prints the record (a CloudEvent, 'type' dev.agent-sh.job.exited.v1) of a job that has ended. For a running \
job it prints the object of 'ps --json' with one more key, 'launch': the facts recorded at its start.

Example:
  agent-sh show 7f3k
  agent-sh show last --json

Exit codes: 0 success, 2 wrong usage, 125 no such job.")]
pub(super) struct Show {
    /// Id, unique prefix of an id, name, or 'last'
    #[arg(value_name = "ID")]
    pub job: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub fleet: super::fleet::Fleet,
}

pub(crate) fn show(context: &Context, show: &Show) -> Result<u8> {
    let job = context.find(&show.job)?;
    if show.json {
        let json = format!("{:#}\n", facts(&job));
        return message::out(&text::escape_json(&json)).map(|()| 0);
    }
    let palette = Palette::of_stdout(|name| context.env(name));
    let mut out = format!("job {} {}\n", job.launch.id, ending(&row(&job)));
    for (label, value) in lines(&job) {
        let label = palette.paint(Colour::Dim, &format!("  {label:<11}"));
        let _ = writeln!(out, "{label} {value}");
    }
    message::out(&out)?;
    Ok(0)
}

/// The record; before there is one, the row of `ps` and what was written at the start.
pub(crate) fn facts(job: &JobView) -> Value {
    if let Some(record) = &job.record {
        return record.to_value();
    }
    let mut facts = job.to_row_json();
    if let Value::Object(map) = &mut facts {
        let launch = serde_json::to_value(&job.launch).unwrap_or(Value::Null);
        map.insert("launch".to_owned(), launch);
        let output = job.output();
        let since = output.missing_since.map(crate::job::record::rfc3339);
        let output = serde_json::json!({
            "bytes_total": output.bytes_total,
            "bytes_kept": output.bytes_kept,
            "missing_since": since,
        });
        map.insert("output".to_owned(), output);
    }
    facts
}

/// The facts with a value, in the order a person asks for them.
fn lines(job: &JobView) -> Vec<(&'static str, String)> {
    let launch = &job.launch;
    let record = job.record.as_ref();
    let mut lines: Vec<(&'static str, String)> = Vec::new();
    let mut add = |label, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            // Indented, so that no text of the job can pose as a line of ours.
            let value = text::sanitize(value.as_bytes()).replace('\n', "\n              ");
            lines.push((label, value));
        }
    };
    add("command", Some(command(job)));
    add("name", launch.facts.name.clone());
    add("how", Some(launch.facts.how.to_string()));
    add("started", Some(launch.facts.started_at.clone()));
    add("ended", ended(job));
    add("lost", job.reason().map(lost));
    add("directory", Some(launch.facts.cwd.clone()));
    add("session", launch.facts.session.clone());
    add("harness", launch.facts.harness.clone());
    add("process", Some(format!("pid {}", launch.facts.proc.pid)));
    add("supervisor", supervisor(job));
    let typing = "its terminal: use 'agent-sh send' or 'agent-sh attach'";
    let can_type = launch.interactive && !job.state.is_terminal();
    add("stdin", can_type.then(|| typing.to_owned()));
    add("output", Some(output(job)));
    add("missing", missing(job));
    add(
        "used",
        record.and_then(|record| record.data.rusage).map(used),
    );
    add("asked", record.and_then(asked));
    add("killed by", record.and_then(killer));
    add("left", record.map(left_running));
    let damaged = job.reason() == Some(LostReason::RecordCorrupt);
    let damaged =
        damaged.then(|| "a file of it was unreadable and is kept as '*.corrupt'".to_owned());
    add("damaged", damaged);
    add("degraded", Some(Degraded::join(&job.degraded, ", ")));
    add("ignored", Some(launch.facts.ignored_settings.join("; ")));
    add("record", record.map(|record| record.id.clone()));
    add("files", Some(job.dir.display().to_string()));
    lines
}

fn ended(job: &JobView) -> Option<String> {
    let record = job.record.as_ref()?;
    let seen = job.ended_at().map(str::to_owned);
    Some(seen.unwrap_or_else(|| format!("nobody saw when; noticed at {}", record.time)))
}

/// Why nobody can tell how it ended.
fn lost(reason: LostReason) -> String {
    let why = match reason {
        LostReason::SupervisorDied => "its supervisor was killed before it ended",
        LostReason::Reboot => "the machine was started anew while it ran",
        LostReason::LaunchAborted => "it was given up before it ran",
        LostReason::PidnsGone => "its container or namespace ended, and it with that",
        LostReason::RecordCorrupt => "its record cannot be read",
        LostReason::StatusUnseen => "it ended where its status could not be seen",
    };
    format!("{why}; nobody can tell how it ended")
}

/// What of the output nobody was there to keep.
fn missing(job: &JobView) -> Option<String> {
    let since = crate::job::record::rfc3339(job.output().missing_since?);
    Some(format!(
        "output after {since} may be: its supervisor was gone some time after that, and nobody counts \
         what is not kept"
    ))
}

fn command(job: &JobView) -> String {
    let command = &job.launch.facts.command;
    let cut = if command.truncated { " … (cut)" } else { "" };
    format!("{}{cut}", command.text)
}

fn supervisor(job: &JobView) -> Option<String> {
    let gone = job.degraded.contains(&Degraded::Unsupervised);
    match (job.state.is_terminal(), gone) {
        (true, _) => None,
        (false, true) => {
            let seen = job.output().missing_since.map(crate::job::record::rfc3339);
            let seen = seen.map(|time| format!(", last seen at {time}"));
            let pid = job.launch.supervisor.pid;
            Some(format!("pid {pid}, gone{}", seen.unwrap_or_default()))
        }
        (false, false) => Some(format!("pid {}", job.launch.supervisor.pid)),
    }
}

fn output(job: &JobView) -> String {
    let mut out = String::new();
    if let Some(path) = &job.launch.facts.redirected_to {
        let _ = write!(out, "redirected to {path}; ");
    }
    if let Some(path) = &job.launch.facts.redirected_stderr {
        let _ = write!(out, "stderr redirected to {path}; ");
    }
    let _ = write!(out, "{} written", size(job.bytes_total()));
    let kept = job.record.as_ref().map(|record| &record.data.output);
    if let Some(kept) = kept.filter(|kept| kept.bytes_kept < kept.bytes_total) {
        let _ = write!(out, ", {} of it kept", size(kept.bytes_kept));
    }
    let kind = if job.launch.facts.tty {
        "to a terminal"
    } else {
        "to a pipe"
    };
    let _ = write!(out, " {kind}");
    out
}

fn used(usage: Usage) -> String {
    let time = |ms| short_duration(Duration::from_millis(ms));
    format!(
        "cpu {} user and {} system, memory {} at most",
        time(usage.user_ms),
        time(usage.sys_ms),
        size(usage.max_rss_kib.saturating_mul(1024))
    )
}

fn asked(record: &Record) -> Option<String> {
    let intent = record.data.kill_requested.as_ref()?;
    let signal = signal_name(intent.signal);
    Some(format!(
        "to end by {} ({signal}) at {}",
        intent.by, intent.at
    ))
}

fn killer(record: &Record) -> Option<String> {
    let killer = record.data.killed_by.as_ref()?;
    let program = killer.program.as_deref().unwrap_or("unknown program");
    let signal = signal_name(killer.signal);
    Some(format!("{program} (pid {}) with {signal}", killer.pid))
}

fn left_running(record: &Record) -> String {
    let ids: Vec<&str> = record
        .data
        .left_running
        .iter()
        .map(|id| id.as_str())
        .collect();
    if ids.is_empty() {
        String::new()
    } else {
        format!("running: {}", ids.join(", "))
    }
}

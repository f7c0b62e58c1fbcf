//! `gc`: removes ended jobs that are no longer wanted, and says what.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::format::{fit, short_duration, size};
use crate::context::Context;
use crate::error::Result;
use crate::message;
use crate::settings;
use crate::store::{Collected, Policy, Removed, Why};
use crate::text;
use clap::Args;

/// Remove ended jobs that are old or take too much space
#[derive(Debug, Args)]
#[command(after_help = "\
Never removes running jobs. Supervisors do this automatically at their end, at most once an hour, with the settings 'keep' \
and 'max_bytes'; they never remove a job that ended within the last hour.

Example:
  agent-sh gc --dry-run
  agent-sh gc --keep 1d --max-bytes 100M

Exit codes: 0 success, 1 something could not be removed, 2 wrong usage, 125 agent-sh failed.")]
pub(super) struct Gc {
    /// Remove jobs that ended longer ago than this: 12h, 7d, 0 for all [default: the setting 'keep']
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration)]
    pub keep: Option<Duration>,
    /// Then remove the oldest until the rest takes no more than this: 500M, 2G [default: the setting 'max_bytes']
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = settings::size)]
    pub max_bytes: Option<u64>,
    /// Only show what would be removed
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// So many jobs are named one by one; of more only the sum is told.
const NAMED: usize = 20;

pub(crate) fn gc(context: &Context, gc: &Gc) -> Result<u8> {
    let policy = Policy {
        keep: gc.keep.unwrap_or(context.settings.keep),
        max_bytes: gc.max_bytes.unwrap_or(context.settings.max_bytes),
        fresh: Duration::ZERO,
        dry_run: gc.dry_run,
    };
    let mut all = Collected::default();
    for store in context.stores() {
        let done = store.collect(&policy)?;
        all.removed.extend(done.removed);
        all.failed.extend(done.failed);
        all.kept += done.kept;
        all.kept_bytes = all.kept_bytes.saturating_add(done.kept_bytes);
        all.running += done.running;
        all.owing += done.owing;
        all.swept += done.swept;
    }
    for why in &all.failed {
        message::say(why);
    }
    if gc.json {
        message::out_json(&as_json(&all, gc.dry_run))?;
    } else {
        message::out(&as_text(&all, gc.dry_run, message::width()))?;
    }
    Ok(u8::from(!all.failed.is_empty()))
}

fn freed(all: &Collected) -> u64 {
    let bytes = all.removed.iter().map(|removed| removed.bytes);
    bytes.fold(0, u64::saturating_add)
}

fn why(removed: &Removed) -> &'static str {
    match removed.why {
        Why::Old => "old",
        Why::Large => "too much in all",
    }
}

fn as_text(all: &Collected, dry_run: bool, width: Option<usize>) -> String {
    let mut out = String::new();
    let verb = if dry_run { "would remove" } else { "removed" };
    if all.removed.len() <= NAMED {
        for removed in &all.removed {
            let job = &removed.job;
            let age = job.settled_age().unwrap_or_default();
            let line = format!(
                "{verb} {} ({}, ended {} ago, {}): {}",
                job.id(),
                why(removed),
                short_duration(age),
                size(removed.bytes),
                text::shorten(&job.launch.facts.command.text, 120)
            );
            let _ = writeln!(out, "{}", fit(&line, width.unwrap_or(usize::MAX)));
        }
    }
    let jobs = |count: usize| match count {
        1 => "1 job".to_owned(),
        count => format!("{count} jobs"),
    };
    let _ = write!(
        out,
        "{verb} {} ({}), {} {} ({})",
        jobs(all.removed.len()),
        size(freed(all)),
        if dry_run { "would keep" } else { "kept" },
        jobs(all.kept),
        size(all.kept_bytes)
    );
    if all.running > 0 {
        let _ = write!(out, ", {} running", all.running);
    }
    if all.owing > 0 {
        let _ = write!(out, ", {} with a notice to deliver", all.owing);
    }
    out.push('\n');
    out
}

fn as_json(all: &Collected, dry_run: bool) -> Value {
    let removed: Vec<Value> = all
        .removed
        .iter()
        .map(|removed| {
            json!({
                "id": removed.job.id(),
                "bytes": removed.bytes,
                "why": match removed.why { Why::Old => "old", Why::Large => "large" },
                "state": removed.job.state,
                "ended_at": removed.job.ended_at(),
                "command": removed.job.launch.facts.command.text,
            })
        })
        .collect();
    json!({
        "dry_run": dry_run,
        "removed": removed,
        "removed_bytes": freed(all),
        "kept": all.kept,
        "kept_bytes": all.kept_bytes,
        "running": all.running,
        "owing": all.owing,
        "swept": all.swept,
        "failed": all.failed,
    })
}

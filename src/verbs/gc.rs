//! `gc`: removes ended jobs that are no longer wanted, and says what.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::Gc;
use crate::error::Result;
use crate::message;
use crate::store::{Collected, Policy, Removed, Why};
use crate::text;
use crate::verbs::Context;
use crate::verbs::format::{fit, short_duration, size};

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
                text::shorten(&job.launch.command.text, 120)
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
                "command": removed.job.launch.command.text,
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

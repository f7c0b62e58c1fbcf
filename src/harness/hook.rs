//! What hooks of several harnesses do alike.

use std::io::{BufRead, Read};
use std::time::Duration;

use serde_json::{Value, json};

use crate::context::Context;
use crate::error::Result;
use crate::harness::session_jobs::{Jobs, Report, jobs_of, program};
use crate::job::notice;
use crate::job::{JobId, KillCause};
use crate::kill;
use crate::message;
use crate::session::clean_key;
use crate::settings::SessionEnd;
use crate::store::Store;
use crate::text::short_duration;

/// No harness sends more; a hook that is fed without end must not grow without end.
const LONGEST_INPUT: u64 = 16 << 20;
/// The clients give the whole event ten seconds, or more.
const GRACE: Duration = Duration::from_secs(4);
/// At most so many running jobs are listed.
const MOST_LISTED: usize = 20;

/// The key that this session's jobs have.
pub(super) fn session(context: &Context, input: &Value) -> Option<String> {
    // As it would be read from the environment of a command.
    let told = input["session_id"].as_str().map(clean_key);
    match (
        &context.settings.session,
        told.filter(|key| !key.is_empty()),
    ) {
        (Some(key), _) => Some(key.clone()),
        (None, Some(key)) => Some(key),
        (None, None) => context.session(),
    }
}

/// Adds to what the model reads next; wakes nobody. With a promise the jobs that run are listed too. Gives
/// the jobs whose ends were told.
pub(super) fn tell_context(
    context: &Context,
    stores: &[Store],
    session: &str,
    event: &str,
    promise: Option<&str>,
) -> Result<Vec<JobId>> {
    let jobs = jobs_of(stores, session)?;
    let report = Report::claim(context, &jobs.ended);
    let mut parts = Vec::new();
    if let Some(promise) = promise
        && !jobs.running.is_empty()
    {
        parts.push(listing(context, &jobs, promise));
    }
    parts.extend(report.as_ref().map(|report| report.text.clone()));
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    message::out_json(&json!({
        "hookSpecificOutput": { "hookEventName": event, "additionalContext": parts.join("\n\n") }
    }))?;
    Ok(report.map_or_else(Vec::new, |report| {
        let told = report.jobs.clone();
        report.done();
        told
    }))
}

/// The jobs that run, one a line.
fn listing(context: &Context, jobs: &Jobs, promise: &str) -> String {
    let program = program(context);
    let count = jobs.running.len();
    let mut lines = vec![match count {
        1 => "1 background job of this session is still running:".to_owned(),
        _ => format!("{count} background jobs of this session are still running:"),
    }];
    for job in jobs.running.iter().rev().take(MOST_LISTED) {
        let took = job.duration_ms().map(Duration::from_millis);
        let took = took.map_or_else(String::new, |took| {
            format!(", for {}", short_duration(took))
        });
        let launch = &job.launch;
        let command = notice::told_command(launch.facts.how, &launch.facts.command.text, 160);
        let name = job
            .launch
            .facts
            .name
            .as_deref()
            .map_or_else(String::new, |name| format!(" ({name})"));
        lines.push(format!(
            "- {}{name} (pid {}{took}): {command}",
            job.launch.id, job.launch.facts.proc.pid
        ));
    }
    if count > MOST_LISTED {
        lines.push(format!("- and {} more: {program} ps", count - MOST_LISTED));
    }
    lines.push(format!(
        "{promise} Output: {program} logs ID. Wait: {program} wait ID. Stop: {program} kill ID"
    ));
    lines.join("\n")
}

/// Jobs outlive the session, unless the user wants it otherwise.
pub(super) fn end_session(context: &Context, stores: &[Store], session: &str) -> Result<u8> {
    if context.settings.session_end == SessionEnd::Kill {
        let jobs = jobs_of(stores, session)?;
        kill::end_quietly(&jobs.running, GRACE, KillCause::Harness, session);
    }
    Ok(0)
}

/// What the harness says of the event. Anything but JSON is as good as nothing.
pub(crate) fn input() -> Value {
    let mut bytes = Vec::new();
    let read = std::io::stdin()
        .lock()
        .take(LONGEST_INPUT)
        .read_to_end(&mut bytes);
    match read {
        Ok(_) => serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        Err(_) => Value::Null,
    }
}

/// One line from a plugin that goes on talking. `None`: it has gone.
pub(super) fn line() -> Option<String> {
    let mut line = String::new();
    let mut stdin = std::io::stdin().lock().take(LONGEST_INPUT);
    match stdin.read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line.trim_end().to_owned()),
    }
}

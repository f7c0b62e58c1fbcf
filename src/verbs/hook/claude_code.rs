//! The hooks of Claude Code. What each event is for, `harness::claude_code` says.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::watch::{Jobs, Telling, Watch, jobs_of, program};
use crate::error::{Error, Result};
use crate::harness::claude_code::can_be_woken;
use crate::harness::client::Client;
use crate::message;
use crate::settings::SessionEnd;
use crate::store::Store;
use crate::text::{self, short_duration};
use crate::verbs::{Context, kill};

/// Wakes a session when a hook in the background ends with it, and gives one that is about to stop
/// another turn; stderr is the text.
const WAKE: u8 = 2;
/// How long the text for a session's start has the first word on what ended before.
const AFTER_START: Duration = Duration::from_secs(3);
/// The client gives the whole event ten seconds.
const GRACE: Duration = Duration::from_secs(4);
/// At most so many running jobs are listed.
const MOST_LISTED: usize = 20;

pub(super) fn hook(context: &Context, event: &str, input: &Value) -> Result<u8> {
    let Some(session) = session(context, input) else {
        return Ok(0);
    };
    let stores = context.stores();
    match event {
        "SessionEnd" => end_session(context, &stores, &session),
        _ if jobs_of(&stores, &session)?.is_empty() => Ok(0),
        "SessionStart" => tell_context(context, &stores, &session, "SessionStart"),
        "UserPromptSubmit" => tell_context(context, &stores, &session, "UserPromptSubmit"),
        "Wait" | "PostToolUse" | "PostToolUseFailure" => {
            wake_at_end(context, &stores, &session, input)
        }
        "Stop" => hold_at_stop(context, &stores, &session),
        other => {
            message::say(format!("no hook '{other}' is known"));
            Ok(0)
        }
    }
}

/// The key that this session's jobs have.
fn session(context: &Context, input: &Value) -> Option<String> {
    let told = input["session_id"].as_str().filter(|key| !key.is_empty());
    match (&context.settings.session, told) {
        (Some(key), _) => Some(key.clone()),
        (None, Some(key)) => Some(key.to_owned()),
        (None, None) => context.session(),
    }
}

fn client(context: &Context) -> Result<&'static Client> {
    let client = Client::find(|name| context.env(name), "CLAUDE_PID")
        .map_err(|source| Error::sys("watch the client", source))?;
    // Threads look at it until the process ends.
    Ok(Box::leak(Box::new(client)))
}

/// Adds to what the model reads next; wakes nobody.
fn tell_context(context: &Context, stores: &[Store], session: &str, event: &str) -> Result<u8> {
    let jobs = jobs_of(stores, session)?;
    let telling = Telling::claim(context, &jobs.ended);
    let mut parts = Vec::new();
    if event == "SessionStart" && !jobs.running.is_empty() {
        parts.push(listing(context, &jobs));
    }
    parts.extend(telling.as_ref().map(|telling| telling.text.clone()));
    if parts.is_empty() {
        return Ok(0);
    }
    message::out_json(&json!({
        "hookSpecificOutput": { "hookEventName": event, "additionalContext": parts.join("\n\n") }
    }))?;
    if let Some(telling) = telling {
        telling.done();
    }
    Ok(0)
}

/// The jobs that run, one a line.
fn listing(context: &Context, jobs: &Jobs) -> String {
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
        let command = text::shorten(&job.launch.command.text, 160);
        let name = job
            .launch
            .name
            .as_deref()
            .map_or_else(String::new, |name| format!(" ({name})"));
        lines.push(format!(
            "- {}{name} (pid {}{took}): {command}",
            job.launch.id, job.launch.proc.pid
        ));
    }
    if count > MOST_LISTED {
        lines.push(format!("- and {} more: {program} ps", count - MOST_LISTED));
    }
    lines.push(format!(
        "You will be told when one ends. Output: {program} logs ID. Wait: {program} wait ID. Stop: {program} kill ID"
    ));
    lines.join("\n")
}

/// In the background: stays until a job has ended, then wakes the session with the notice. One per
/// session; it leaves with the client, and when nothing is left to wait for.
fn wake_at_end(context: &Context, stores: &[Store], session: &str, input: &Value) -> Result<u8> {
    let client = client(context)?;
    let Some(store) = stores.first() else {
        return Ok(0);
    };
    if !can_be_woken(client, |name| context.env(name)) {
        return Ok(0);
    }
    let held = store.hold_waiter(session);
    let held = held.map_err(|source| Error::sys("wait for the session", source))?;
    let Some(_held) = held else {
        return Ok(0);
    };
    let (mut watch, jobs) = Watch::start(stores, session, || client.wait_unreachable())?;
    let mut ended = jobs.ended;
    if input["hook_event_name"] == "SessionStart" && !ended.is_empty() {
        // The text for the session's start, made now, tells these; only what it leaves is ours.
        std::thread::park_timeout(AFTER_START);
        ended = jobs_of(stores, session)?.ended;
    }
    loop {
        if let Some(telling) = Telling::claim(context, &ended) {
            if !client.lives() {
                return Ok(0);
            }
            message::err(&format!("{}\n", telling.text))?;
            telling.done();
            return Ok(WAKE);
        }
        ended = watch.next(None)?;
        if ended.is_empty() {
            return Ok(0);
        }
    }
}

/// In the foreground: a session that nothing can wake is held at the end of its turn, until a job has
/// ended or the time that the user allows is over.
fn hold_at_stop(context: &Context, stores: &[Store], session: &str) -> Result<u8> {
    let client = client(context)?;
    let limit = context.settings.stop_wait;
    if can_be_woken(client, |name| context.env(name)) {
        return Ok(0);
    }
    // Others may ask whether somebody waits; two that wait do no harm.
    let _held = stores.first().map(|store| store.hold_waiter(session));
    let (mut watch, jobs) = Watch::start(stores, session, || client.wait_gone())?;
    let mut ended = jobs.ended;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(telling) = Telling::claim(context, &ended) {
            // A decision in JSON would reach the model twice; this way it comes once.
            message::err(&format!("{}\n", telling.text))?;
            telling.done();
            return Ok(WAKE);
        }
        ended = watch.next(Some(deadline))?;
        if ended.is_empty() {
            return Ok(0);
        }
    }
}

/// Jobs outlive the session, unless the user wants it otherwise.
fn end_session(context: &Context, stores: &[Store], session: &str) -> Result<u8> {
    if context.settings.session_end == SessionEnd::Kill {
        let jobs = jobs_of(stores, session)?;
        kill::end_quietly(&jobs.running, GRACE, "session-end", session);
    }
    Ok(0)
}

//! The hooks of Claude Code. What each event is for, `harness::claude_code` says.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::harness::claude_code::can_be_woken;
use crate::harness::client::Client;
use crate::harness::hook::{end_session, session, tell_context};
use crate::harness::session_jobs::{Report, Watch, jobs_of};
use crate::message;
use crate::store::Store;

/// Wakes a session when a hook in the background ends with it, and gives one that is about to stop
/// another turn; stderr is the text.
const WAKE: u8 = 2;
/// How long the text for a session's start has the first word on what ended before.
const AFTER_START: Duration = Duration::from_secs(3);
/// What the agent may count on.
const PROMISE: &str = "You will be told when one ends.";

pub(crate) fn hook(context: &Context, event: &str, input: &Value) -> Result<u8> {
    let Some(session) = session(context, input) else {
        return Ok(0);
    };
    let stores = context.stores();
    match event {
        "SessionEnd" => end_session(context, &stores, &session),
        _ if jobs_of(&stores, &session)?.is_empty() => Ok(0),
        "SessionStart" => tell_context(context, &stores, &session, event, Some(PROMISE)).map(|_| 0),
        "UserPromptSubmit" => tell_context(context, &stores, &session, event, None).map(|_| 0),
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

fn client(context: &Context) -> Result<Client> {
    Client::find(|name| context.env(name), "CLAUDE_PID")
        .map_err(|source| Error::sys("watch the client", source))
}

/// In the background: stays until a job has ended, then wakes the session with the notice. One per
/// session; it leaves with the client, and when nothing is left to wait for.
fn wake_at_end(context: &Context, stores: &[Store], session: &str, input: &Value) -> Result<u8> {
    let client = client(context)?;
    let Some(store) = stores.first() else {
        return Ok(0);
    };
    if !can_be_woken(&client, |name| context.env(name)) {
        return Ok(0);
    }
    let held = store.hold_waiter(session);
    let held = held.map_err(|source| Error::sys("wait for the session", source))?;
    let Some(_held) = held else {
        return Ok(0);
    };
    let stdin = client.stdin_pipe();
    let (mut watch, jobs) = Watch::start(stores, session, client.unreachable(stdin.as_ref()))?;
    let mut ended = jobs.ended;
    if input["hook_event_name"] == "SessionStart" && !ended.is_empty() {
        // The text for the session's start, made now, tells these; only what it leaves is ours.
        std::thread::park_timeout(AFTER_START);
        ended = jobs_of(stores, session)?.ended;
    }
    loop {
        if let Some(report) = Report::claim(context, &ended) {
            if !client.lives() {
                return Ok(0);
            }
            message::err(&format!("{}\n", report.text))?;
            report.done();
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
    if can_be_woken(&client, |name| context.env(name)) {
        return Ok(0);
    }
    // Others may ask whether somebody waits; two that wait do no harm.
    let _held = stores.first().map(|store| store.hold_waiter(session));
    let (mut watch, jobs) = Watch::start(stores, session, vec![client.gone()])?;
    let mut ended = jobs.ended;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(report) = Report::claim(context, &ended) {
            // A decision in JSON would reach the model twice; this way it comes once.
            message::err(&format!("{}\n", report.text))?;
            report.done();
            return Ok(WAKE);
        }
        ended = watch.next(Some(deadline))?;
        if ended.is_empty() {
            return Ok(0);
        }
    }
}

//! The hooks of Gemini CLI. What each event is for, `harness::gemini` says.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::caller;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::harness::client::Client;
use crate::harness::gemini::{DIRECTORY, ends_with_its_turn, is_in_transcript};
use crate::harness::hook::{end_session, session, tell_context};
use crate::harness::session_jobs::{Report, Watch, jobs_of};
use crate::job::JobId;
use crate::message;
use crate::store::outbox::acknowledged;
use crate::store::{self, Store};
use crate::sys::session::parent_pid;
use crate::wire::SUPERVISOR_VARIABLE;

/// What the agent may count on.
const PROMISE: &str = "Of each end you will be told at your next step.";

/// What another turn begins with.
const ANOTHER_TURN: &str = "Background work of this session has ended.";

pub(crate) fn hook(context: &Context, event: &str, input: &Value) -> Result<u8> {
    let Some(session) = session(context, input) else {
        return Ok(0);
    };
    let client = caller::client(|name| context.env(name), parent_pid());
    let key = client.map(caller::Process::key);
    if event == "SessionEnd" {
        return end(context, &session, key.as_deref(), input);
    }
    if let (Some(client), Some(key)) = (client, &key) {
        note(context, client, key, &session, input);
    }
    let stores = context.stores();
    let tell = |promise| tell_context(context, &stores, &session, event, promise);
    let key = key.unwrap_or_default();
    if event == "BeforeAgent" {
        return before_agent(&stores, &session, &key, input, || tell(None));
    }
    match event {
        _ if jobs_of(&stores, &session)?.is_empty() => Ok(0),
        // After '/clear' the client reads no context here; the next prompt comes with it.
        "SessionStart" if input["source"] == "clear" => Ok(0),
        "SessionStart" => tell(Some(PROMISE)).map(|_| 0),
        "AfterTool" if was_cancelled(input) => Ok(0),
        "AfterTool" => tell(None).map(|_| 0),
        "AfterAgent" => at_turns_end(context, &stores, &session, client, input),
        other => {
            message::say(format!("no hook '{other}' is known"));
            Ok(0)
        }
    }
}

/// Commands of this client do not say which conversation they belong to; its hooks do.
fn note(context: &Context, client: caller::Process, key: &str, session: &str, input: &Value) {
    let dir = input["cwd"].as_str().map(str::to_owned);
    let noted = store::Client {
        proc: store::identity_with(client.pid, client.starttime),
        sessions: vec![session.to_owned()],
        wake: dir
            .map(|dir| (DIRECTORY.to_owned(), dir))
            .into_iter()
            .collect(),
        told: Vec::new(),
    };
    // Where nothing can be stored there are no jobs to tell of. What we say here is shown at every step.
    drop(
        context
            .open_store()
            .map(|store| store.note_client(key, noted)),
    );
}

/// A prompt, of the user's or one that we brought about. A prompt that the user cancels before the model has
/// said anything leaves the conversation, and a notice leaves with it; so what went out with the last one is
/// looked for, and told once more if it is not there.
fn before_agent(
    stores: &[Store],
    session: &str,
    key: &str,
    input: &Value,
    tell: impl FnOnce() -> Result<Vec<JobId>>,
) -> Result<u8> {
    let home = stores.iter().find(|store| store.client(key).is_some());
    let before = home.and_then(|store| store.client(key)).unwrap_or_default();
    let mut again = Vec::new();
    let transcript = input["transcript_path"].as_str().map(Path::new);
    if let Some(transcript) = transcript.filter(|_| !before.told.is_empty()) {
        let words = |id: &JobId| format!("Background job {id} ");
        let lost = |id: &&JobId| is_in_transcript(transcript, &words(id)) == Some(false);
        for id in before.told.iter().filter(lost) {
            let job = stores.iter().find_map(|store| store.load(id).ok()?);
            let ours = job.filter(|job| job.launch.facts.session.as_deref() == Some(session));
            if ours.is_some_and(|job| acknowledged::take_back(&job).is_ok()) {
                again.push(id.clone());
            }
        }
    }
    let mut told = tell()?;
    told.retain(|id| !again.contains(id));
    // Without the note a lost notice stays lost, which is no reason to fail.
    drop(home.map(|store| store.note_told(key, told)));
    Ok(0)
}

/// The result of a call that the user has cancelled is thrown away, and with it what we would add.
fn was_cancelled(input: &Value) -> bool {
    let text = input["tool_response"]["llmContent"].to_string();
    text.contains("cancelled by user")
}

/// The model has said its last word. If a job has ended that it does not know of, it gets another turn.
/// A client that ends with this turn is held for a while, until a job has ended.
fn at_turns_end(
    context: &Context,
    stores: &[Store],
    session: &str,
    client: Option<caller::Process>,
    input: &Value,
) -> Result<u8> {
    // The turn before this one was given by us, and should have told all that had ended.
    let insists = input["stop_hook_active"] == true;
    let held = client.filter(|client| ends_with_its_turn(client.pid));
    let Some(client) = held else {
        let ended = jobs_of(stores, session)?.ended;
        let report = Report::claim(context, &ended);
        return report.map_or(Ok(0), |report| give_another_turn(report, insists));
    };
    let client = Client::of(client.pid);
    let client = client.map_err(|source| Error::sys("watch the client", source))?;
    let deadline = Instant::now() + patience(context);
    // Others may ask whether somebody waits; two that wait do no harm.
    let _held = stores.first().map(|store| store.hold_waiter(session));
    let (mut watch, jobs) = Watch::start(stores, session, vec![client.gone()])?;
    let mut ended = jobs.ended;
    loop {
        if let Some(report) = Report::claim(context, &ended) {
            return give_another_turn(report, insists);
        }
        ended = watch.next(Some(deadline))?;
        if ended.is_empty() {
            return Ok(0);
        }
    }
}

/// How long a turn is held. The shell that runs this hook may be ours, and must not make a job of it.
fn patience(context: &Context) -> Duration {
    let wanted = context.settings.stop_wait;
    let supervised = context.env(SUPERVISOR_VARIABLE).is_some();
    match context.settings.promote_after.filter(|_| supervised) {
        Some(limit) => wanted.min(limit / 2),
        None => wanted,
    }
}

/// The reason becomes the next prompt; the user is shown the message. The notice itself is left to
/// `BeforeAgent`, which comes with that prompt: if the user has cancelled the turn, there is none, and the
/// notice waits for the next. Where that did not tell, the reason does: nobody goes round in circles.
fn give_another_turn(report: Report, insists: bool) -> Result<u8> {
    let text = if insists { &report.text } else { ANOTHER_TURN };
    message::out_json(&json!({
        "decision": "deny",
        "reason": format!("[agent-sh] {text}"),
        "systemMessage": report.headlines(),
        "suppressOutput": true,
    }))?;
    if insists {
        report.done();
    }
    Ok(0)
}

/// The client, or one of its conversations, ends. In ACP mode the session that is named was never used.
fn end(context: &Context, session: &str, key: Option<&str>, input: &Value) -> Result<u8> {
    let stores = context.stores();
    let is_over = input["reason"] != "clear";
    let mut sessions = vec![session.to_owned()];
    if let Some(key) = key.filter(|_| is_over) {
        for store in &stores {
            sessions.extend(store.client(key).unwrap_or_default().sessions);
            store.forget_client(key);
        }
    }
    sessions.sort();
    sessions.dedup();
    for session in sessions {
        end_session(context, &stores, &session)?;
    }
    Ok(0)
}

//! A waiter for a plugin that lives in its harness: notices go out as lines of JSON, and each is told
//! only when the plugin answers that the session has it.

use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::harness::hook::line;
use crate::harness::session_jobs::{Report, Watch};
use crate::message;
use crate::sys::{proc, session};

pub(crate) fn hook(context: &Context, event: &str) -> Result<u8> {
    if event != "Wait" {
        message::say(format!("no hook '{event}' is known"));
        return Ok(0);
    }
    let input: Value = line()
        .and_then(|line| serde_json::from_str(&line).ok())
        .unwrap_or_default();
    let Some(session) = input["session_id"]
        .as_str()
        .map(str::to_owned)
        .or_else(|| context.session())
    else {
        return Ok(0);
    };
    wait(context, &session)
}

/// Stays until nothing is left to wait for, or the plugin has gone.
fn wait(context: &Context, session: &str) -> Result<u8> {
    let stores = context.stores();
    let Some(store) = stores.first() else {
        return Ok(0);
    };
    let held = store.hold_waiter(session);
    let held = held.map_err(|source| Error::sys("wait for the session", source))?;
    let Some(_held) = held else {
        return Ok(0);
    };
    let parent = proc::pidfd_open(session::parent_pid());
    let parent = parent.map_err(|source| Error::sys("watch the harness", source))?;
    let gone = PollFd::new(parent.as_fd(), PollFlags::POLLIN);
    let (mut watch, jobs) = Watch::start(&stores, session, vec![gone])?;
    let mut ended = jobs.ended;
    loop {
        if let Some(report) = Report::claim(context, &ended) {
            message::out_json(&json!({ "notice": report.text }))?;
            match line().as_deref() {
                Some("told") => report.done(),
                // It stays to be told, by whoever comes next.
                _ => return Ok(0),
            }
        }
        ended = watch.next(None)?;
        if ended.is_empty() {
            return Ok(0);
        }
    }
}

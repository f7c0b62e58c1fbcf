//! `hook`: what a harness calls at its own events, to hear of jobs.
//!
//! A hook must never be the reason that a session breaks. Whatever goes wrong here ends with 0 and, at
//! most, a line on stderr; only the code that wakes a session is another one.

mod claude_code;
mod common;
mod gemini;
mod lines;
mod watch;

use std::io::{BufRead, Read};

use serde_json::Value;

use crate::cli::Hook;
use crate::harness;
use crate::message;
use crate::verbs::Context;

/// No harness sends more; a hook that is fed without end must not grow without end.
const LONGEST_INPUT: u64 = 16 << 20;

pub(crate) fn hook(context: &Context, hook: &Hook) -> u8 {
    let result = match hook.harness.as_str() {
        harness::claude_code::NAME => claude_code::hook(context, &hook.event, &input()),
        harness::gemini::NAME => gemini::hook(context, &hook.event, &input()),
        harness::opencode::NAME => lines::hook(context, &hook.event),
        other => {
            message::say(format!("no hooks are known for '{other}'"));
            return 0;
        }
    };
    result.unwrap_or_else(|error| {
        message::error(&error);
        0
    })
}

/// What the harness says of the event. Anything but JSON is as good as nothing.
fn input() -> Value {
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
fn line() -> Option<String> {
    let mut line = String::new();
    let mut stdin = std::io::stdin().lock().take(LONGEST_INPUT);
    match stdin.read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line.trim_end().to_owned()),
    }
}

//! `events --from`: what happened anywhere, in the order of the stream.

use std::time::Duration;

use serde_json::Value;

use crate::cli::events::Events;
use crate::error::{Error, Result};
use crate::fleet::source::Seen;
use crate::fleet::{Extent, failed};
use crate::follow::lists::{ListSleeper, Woken};
use crate::message;
use crate::notify::broker::machine_of;
use crate::text;

const PULL: Duration = Duration::from_secs(1);

pub(crate) fn events(events: &Events) -> Result<u8> {
    let mut source = events.fleet.open(Extent::All)?;
    let mut all = source.read(None).map_err(failed)?;
    all.retain(|seen| is_wanted(events, &seen.event));
    let first = match &events.since {
        None => 0,
        Some(since) => {
            let known = |seen: &Seen| is_event(&seen.event, since);
            let at = all.iter().rposition(known).ok_or_else(|| Error::Failed {
                text: format!("no event '{}' in the stream", text::shorten(since, 80)),
                hint: None,
            })?;
            at + 1
        }
    };
    let skipped = events.last.map_or(0, |last| all.len().saturating_sub(last));
    tell(&all[first.max(skipped)..])?;
    let mut sleeper = ListSleeper::new(&[]);
    if !events.follow {
        return Ok(0);
    }
    loop {
        let mut more = source.read(Some(PULL)).map_err(failed)?;
        more.retain(|seen| is_wanted(events, &seen.event));
        tell(&more)?;
        if sleeper.sleep(Duration::ZERO) == Woken::ReaderGone {
            return Ok(0);
        }
    }
}

/// Signs of life are for those who keep lists.
fn is_wanted(events: &Events, event: &Value) -> bool {
    let session = event["correlationid"].as_str();
    let is_news = event["type"] != "dev.agent-sh.job.beat.v1"
        && event["type"] != "dev.agent-sh.notify.test.v1";
    is_news && (events.session.is_none() || session == events.session.as_deref())
}

/// `7f3k2m.exit`, or `MACHINE/7f3k2m.exit` where machines have jobs of the same id.
fn is_event(event: &Value, wanted: &str) -> bool {
    let id = event["id"].as_str().unwrap_or_default();
    match wanted.split_once('/') {
        Some((machine, wanted)) => {
            id == wanted
                && machine_of(event["source"].as_str().unwrap_or_default()).starts_with(machine)
        }
        None => id == wanted,
    }
}

fn tell(seen: &[Seen]) -> Result<()> {
    for piece in seen.chunks(100) {
        let lines: String = piece
            .iter()
            .map(|seen| format!("{}\n", text::escape_json(&seen.event.to_string())))
            .collect();
        message::out(&lines)?;
    }
    Ok(())
}

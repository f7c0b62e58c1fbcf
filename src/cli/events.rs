//! `events`: what happened to jobs, in an order that every reader shares.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::follow::lists::{ListSleeper, Woken};
use crate::message;
use crate::store::{Store, Timeline};
use crate::text;
use clap::Args;

/// Print job events, one CloudEvent per line
#[derive(Debug, Args)]
#[command(after_help = "\
Every job has one event for its start (id JOB.start, type dev.agent-sh.job.started.v1) and exactly one for its end \
(id JOB.exit, type dev.agent-sh.job.exited.v1, even if it was lost); a killed foreground command has one of type \
dev.agent-sh.command.killed.v1. Ids never change. The order is the same for every reader and only grows at its end: \
with --since and the last id you saw, nothing repeats and nothing is missed. \
Events of removed jobs are gone; stderr says how many.

Example:
  agent-sh events --follow
  agent-sh events --follow --since 7f3k2m.exit

Exit codes: 0 success, 2 wrong usage, 125 no event has the id of --since, or agent-sh failed.")]
pub(super) struct Events {
    /// Follow events as they happen, until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Only events after the one with this id
    #[arg(long, value_name = "EVENT")]
    pub since: Option<String>,
    /// Only the last N events; 0 with --follow: only new ones
    #[arg(short = 'n', long = "last", value_name = "N", allow_negative_numbers = true, value_parser = super::values::count)]
    pub last: Option<usize>,
    /// Only events of this session
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// Events are always JSON; taken so that every verb has it
    #[arg(long, hide = true)]
    pub json: bool,
    #[command(flatten)]
    pub fleet: super::fleet::Fleet,
}

/// How often a follower looks though nothing was reported. A supervisor that was killed reports nothing;
/// its jobs' loss is found by looking.
const RESCAN: Duration = Duration::from_millis(1000);
/// Lines go out in pieces of about this size; a follower's each at once.
const PIECE: usize = 64 * 1024;

pub(crate) fn events(context: &Context, events: &Events) -> Result<u8> {
    let stores = context.stores();
    let mut timeline = Timeline::default();
    timeline.refresh(&stores)?;
    let first = match &events.since {
        None => 0,
        Some(event) => timeline.after(event).ok_or_else(|| no_event(event))?,
    };
    let skipped = events.last.map_or(0, |last| {
        let there = timeline.ids().len();
        there.saturating_sub(last).max(first)
    });
    let mut reader = Reader {
        place: first.max(skipped),
        session: events.session.as_deref(),
        gone: 0,
    };
    reader.print(&timeline, &stores)?;
    if reader.gone > 0 {
        let gone = reader.gone;
        message::say(format!("{gone} events are gone with their jobs"));
    }
    let warned = warn_once(&timeline, false);
    if events.follow {
        follow(context, stores, timeline, reader, warned)?;
    }
    Ok(0)
}

/// Prints what happens until nobody reads it any more.
fn follow(
    context: &Context,
    mut stores: Vec<Store>,
    mut timeline: Timeline,
    mut reader: Reader<'_>,
    mut warned: bool,
) -> Result<()> {
    let mut sleeper = ListSleeper::new(&[]);
    loop {
        watch(&mut sleeper, &stores, &timeline);
        // Between the last look and the watch something may have come: look once more before sleeping.
        if !step(&mut reader, &mut timeline, &stores)? && sleeper.sleep(RESCAN) == Woken::ReaderGone
        {
            return Ok(());
        }
        if stores.is_empty() {
            stores = context.stores();
        }
        warned = warn_once(&timeline, warned);
    }
}

/// One look; `true`: there was something to print.
fn step(reader: &mut Reader<'_>, timeline: &mut Timeline, stores: &[Store]) -> Result<bool> {
    let last = reader
        .place
        .checked_sub(1)
        .and_then(|place| timeline.ids().get(place).cloned());
    if timeline.refresh(stores)?
        && let Some(last) = last
    {
        // The history was cut; what comes next stands after what we printed last.
        reader.place = timeline.after(&last).ok_or_else(|| no_event(&last))?;
    }
    let before = reader.place;
    reader.print(timeline, stores)?;
    Ok(reader.place > before)
}

/// Watches the list of jobs, and each that has not ended.
fn watch(sleeper: &mut ListSleeper, stores: &[Store], timeline: &Timeline) {
    let mut wanted: HashSet<PathBuf> = HashSet::new();
    for store in stores {
        wanted.insert(store.jobs_path());
        wanted.extend(timeline.open_jobs().map(|id| store.job_path(id)));
    }
    sleeper.watch_only(&wanted);
}

fn no_event(event: &str) -> Error {
    Error::Failed {
        text: format!("no event '{}'", crate::text::shorten(event, 80)),
        hint: Some(
            "an event's id is like 7f3k2m.exit; 'agent-sh events' prints all that are kept"
                .to_owned(),
        ),
    }
}

fn warn_once(timeline: &Timeline, warned: bool) -> bool {
    match &timeline.unkept {
        Some(why) if !warned => {
            message::say(format!(
                "cannot keep the order of events ({why}): '--since' may repeat some later"
            ));
            true
        }
        _ => warned,
    }
}

struct Reader<'a> {
    /// How much of the timeline was printed.
    place: usize,
    session: Option<&'a str>,
    /// Events whose jobs were removed.
    gone: usize,
}

impl Reader<'_> {
    fn print(&mut self, timeline: &Timeline, stores: &[Store]) -> Result<()> {
        let mut lines = String::new();
        let ids = timeline.ids();
        while let Some(id) = ids.get(self.place) {
            self.place += 1;
            match stores.iter().find_map(|store| store.event(id)) {
                None => self.gone += 1,
                Some(event) if self.is_wanted(&event) => {
                    lines.push_str(&text::escape_json(&event.to_string()));
                    lines.push('\n');
                }
                Some(_) => {}
            }
            if lines.len() >= PIECE {
                message::out(&std::mem::take(&mut lines))?;
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        message::out(&lines)
    }

    fn is_wanted(&self, event: &Value) -> bool {
        let session = event.pointer("/data/session").and_then(Value::as_str);
        self.session.is_none() || session == self.session
    }
}

//! `wait --follow --from --group`: the ends of all machines, shared by any number of readers, each told to a sink once.
//!
//! The broker keeps what each reader holds. An end is acknowledged when its sink has it; what a reader held that died goes
//! to another one, with the same id.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::wait::{TIMED_OUT, Wait};
use crate::error::{Error, Result};
use crate::fleet::source::Member;
use crate::job::notice::{self, Reader};
use crate::job::record::Record;
use crate::message;
use crate::notify::broker::machine_of;
use crate::notify::{self, Event, Sent, Sink, start};
use crate::store::outbox::Subscription;
use crate::sys::signal;
use crate::text;

/// How long one delivery may take: less than the broker leaves it to us.
const DELIVERY: Duration = Duration::from_secs(15);
/// What could not be delivered rests for so long.
const PAUSE: Duration = Duration::from_secs(5);
const PULL: Duration = Duration::from_secs(5);

fn join(wait: &Wait, group: &str) -> Result<Box<dyn Member>> {
    wait.fleet().address()?.join(group)
}

pub(crate) fn follow(wait: &Wait) -> Result<u8> {
    signal::ignore(&[libc::SIGPIPE]);
    let usage = |text: &str| Error::Usage {
        text: text.to_owned(),
        hint: Some("wait --follow --from URL --group NAME --notify SINK".to_owned()),
    };
    let group = wait
        .group
        .as_deref()
        .ok_or_else(|| usage("--follow --from needs --group NAME"))?;
    let subs = sinks(wait)?;
    if subs.is_empty() {
        return Err(usage("--follow --from needs --notify SINK"));
    }
    let deadline = wait.timeout.map(|time| Instant::now() + time);
    let mut member = Some(join(wait, group)?);
    loop {
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(TIMED_OUT);
        }
        let pull = left.unwrap_or(PULL).min(PULL);
        let Some(reader) = &mut member else {
            std::thread::park_timeout(pull.min(Duration::from_secs(1)));
            member = join(wait, group).ok();
            continue;
        };
        if let Err(why) = step(&mut **reader, &subs, wait, pull) {
            // A broker that is started anew is found again; what we held is given to somebody.
            message::say(format!("lost the broker ({why}); trying again"));
            member = None;
        }
    }
}

/// One end, if there is one.
fn step(
    member: &mut dyn Member,
    subs: &[Subscription],
    wait: &Wait,
    pull: Duration,
) -> std::result::Result<(), String> {
    let Some(value) = member.next(pull)? else {
        return Ok(());
    };
    let session = value["correlationid"].as_str();
    if wait.delivery.session.is_some() && session != wait.delivery.session.as_deref() {
        return member.settle();
    }
    let event = event(&value);
    for sub in subs {
        match notify::send(sub, &event, None, DELIVERY) {
            Sent::Delivered | Sent::Spared(_) => {}
            Sent::Failed(why, _) => {
                message::say(format!("{} was not delivered: {why}", event.id));
                return member.give_back(PAUSE);
            }
            Sent::Refused(why) | Sent::Unwanted(why) => {
                message::say(format!("{} will not be delivered: {why}", event.id));
            }
        }
    }
    member.settle()
}

/// Ids of two machines may be the same, so the machine is a part of what a sink calls the event.
fn event(value: &Value) -> Event {
    let id = value["id"].as_str().unwrap_or_default();
    let machine = machine_of(value["source"].as_str().unwrap_or_default());
    let record: Option<Record> = serde_json::from_value(value.clone()).ok();
    let notice = record.map(|record| {
        let tail = text::redact(record.data.tail.as_deref().unwrap_or_default());
        notice::text(&record, &tail, Reader::default())
    });
    Event {
        id: format!("{machine}.{id}"),
        json: value.to_string(),
        notice: notice.unwrap_or_else(|| id.to_owned()),
    }
}

fn sinks(wait: &Wait) -> Result<Vec<Subscription>> {
    let delivery = &wait.delivery;
    let mut subs = Vec::new();
    for text in &delivery.notify {
        let sink: Sink = text.parse().map_err(start::usage)?;
        if sink.is_agent() {
            return Err(Error::Usage {
                text: format!("'{sink}' is on the job's own machine: it cannot be told from here"),
                hint: None,
            });
        }
        if matches!(sink, Sink::Http(_)) && delivery.web.secret_file.is_none() {
            return Err(Error::Usage {
                text: "a webhook needs --secret-file here".to_owned(),
                hint: None,
            });
        }
        notify::prepare(&sink)?;
        let mut sub = start::subscription(&sink.default_name(), &sink, false);
        sub.secret_file.clone_from(&delivery.web.secret_file);
        sub.template.clone_from(&delivery.web.template);
        sub.allow_private = delivery.web.allow_private;
        subs.push(sub);
    }
    Ok(subs)
}

//! `notify`: standing subscriptions, and how it stands with their events.

pub(super) mod args;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::caller;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::record;
use crate::message::{self, Colour, Palette};
use crate::notify::{self, Event, Sent, Sink, start};
use crate::session;
use crate::store::outbox::{On, STDOUT, Standing, Subscription};
use crate::store::{self, Store};
use crate::sys::session::parent_pid;
use crate::sys::{clock, fsx, proc};
use crate::text;
pub(crate) use args::Notify;
use args::{NotifyAdd, NotifyWhat, OnWord};

/// How long a test may take.
const TEST_LIMIT: Duration = Duration::from_secs(15);
/// How many reasons are shown to people; `--json` has all.
const SHOWN: usize = 5;
const HEADS: (&str, &str) = ("NAME", "PENDING  DELIVERED  DEAD  SINK");

pub(crate) fn notify(context: &Context, notify: &Notify) -> Result<u8> {
    match &notify.what {
        NotifyWhat::Add(add) => self::add(context, add),
        NotifyWhat::List(list) => self::list(context, list.json),
        NotifyWhat::Remove(which) => remove(context, &which.name),
        NotifyWhat::Test(which) => test(context, &which.name),
    }
}

fn add(context: &Context, add: &NotifyAdd) -> Result<u8> {
    let sink: Sink = add.sink.parse().map_err(start::usage)?;
    if sink == Sink::Stdout {
        return Err(Error::Usage {
            text: "'stdout' cannot stand: it ends with the verb".to_owned(),
            hint: Some(
                "'agent-sh wait --follow --notify stdout' prints ends as they come".to_owned(),
            ),
        });
    }
    let name = add
        .subscriber
        .clone()
        .unwrap_or_else(|| sink.default_name());
    let mut sub = start::subscription(&name, &sink, true);
    sub.session.clone_from(&add.session);
    sub.on = match add.on {
        OnWord::Success => On::Success,
        OnWord::Failure => On::Failure,
        OnWord::Always => On::Always,
    };
    sub.on_output.clone_from(&add.watch.on_output);
    sub.heartbeat_ms = add.watch.heartbeat.map(record::millis);
    sub.allow_private = add.web.allow_private;
    sub.secret_file = absolute(add.web.secret_file.as_ref())?;
    sub.template = template(add.web.template.as_ref(), &sink)?;
    sub.creds_file = absolute(add.web.creds_file.as_ref())?;
    sub.password_file = absolute(add.web.password_file.as_ref())?;
    let store = context.open_store()?;
    let made = start::subscribe(&store, &sub)?;
    start::follow_running(&store, &made)?;
    message::out(&format!("{name}\n"))?;
    if let (None, Some(path)) = (&sub.secret_file, &made.secret_file) {
        message::say(format!("the key that signs is in '{}'", path.display()));
    }
    Ok(0)
}

/// Only a webhook's receiver may want words.
pub(super) fn template(name: Option<&String>, sink: &Sink) -> Result<Option<String>> {
    match (name, sink) {
        (Some(_), sink) if !matches!(sink, Sink::Http(_)) => Err(Error::Usage {
            text: "--template is for https:// and http:// sinks".to_owned(),
            hint: None,
        }),
        (name, _) => Ok(name.cloned()),
    }
}

/// Whoever uses a file later may stand elsewhere.
fn absolute(path: Option<&PathBuf>) -> Result<Option<PathBuf>> {
    let find = |path: &PathBuf| std::path::absolute(path).map_err(|e| Error::io("find", path, e));
    path.map(find).transpose()
}

fn list(context: &Context, as_json: bool) -> Result<u8> {
    let mut rows = Vec::new();
    for store in context.stores() {
        for sub in store.subscriptions() {
            let standings = store.standings(&sub.name)?;
            let disabled = store.disabled(&sub.name);
            rows.push((sub, standings, disabled));
        }
    }
    if as_json {
        let all: Vec<Value> = rows
            .iter()
            .map(|(s, e, d)| facts(s, e, d.as_deref()))
            .collect();
        return message::out_json(&Value::Array(all)).map(|()| 0);
    }
    if rows.is_empty() {
        message::say_with_hint(
            "no subscriptions",
            "'agent-sh notify add --help' shows how to change that",
        );
        return Ok(0);
    }
    let longest = rows.iter().map(|(sub, ..)| sub.name.len()).max();
    let width = longest.unwrap_or(0).max(HEADS.0.len());
    let palette = Palette::of_stdout(|name| context.env(name));
    let head = format!("{:width$}  {}", HEADS.0, HEADS.1);
    let mut out = format!("{}\n", palette.paint(Colour::Dim, &head));
    for (sub, standings, disabled) in &rows {
        out.push_str(&describe(sub, standings, disabled.as_deref(), width));
    }
    message::out(&out).map(|()| 0)
}

fn of<'a>(standings: &'a [Standing], state: &'static str) -> impl Iterator<Item = &'a Standing> {
    standings
        .iter()
        .filter(move |standing| standing.state == state)
}

fn describe(
    sub: &Subscription,
    standings: &[Standing],
    disabled: Option<&str>,
    width: usize,
) -> String {
    let count = |state| of(standings, state).count();
    let mut words = vec![notify::shown(&sub.sink)];
    if sub.on != On::Always {
        words.push(format!("on {}", sub.on.word()));
    }
    if let Some(session) = &sub.session {
        words.push(format!("session {}", text::shorten(session, 12)));
    }
    if let Some(pattern) = &sub.on_output {
        words.push(format!("output '{}'", text::shorten(pattern, 40)));
    }
    if !sub.standing {
        words.push("jobs asked for".to_owned());
    }
    let mut lines = vec![format!(
        "{:width$}  {:>7}  {:>9}  {:>4}  {}",
        sub.name,
        count("pending"),
        count("done"),
        count("dead"),
        words.join(", ")
    )];
    if let Some(why) = disabled {
        lines.push(format!("  disabled: {}", text::shorten(why, 120)));
    }
    for (state, word) in [("pending", "pending"), ("dead", "dead")] {
        for standing in of(standings, state).take(SHOWN) {
            let why = standing
                .last
                .as_ref()
                .map_or("not tried yet", |last| &last.why);
            let tries = match standing.attempts {
                0 => String::new(),
                1 => ", 1 attempt".to_owned(),
                many => format!(", {many} attempts"),
            };
            let why = text::shorten(why, 120);
            let next = match &standing.last {
                Some(last) if state == "pending" => format!("; next try from {}", last.next),
                _ => String::new(),
            };
            lines.push(format!("  {} {word}{tries}: {why}{next}", standing.event));
        }
        let more = count(state).saturating_sub(SHOWN);
        if more > 0 {
            lines.push(format!("  and {more} more {word}"));
        }
    }
    lines.join("\n") + "\n"
}

fn facts(sub: &Subscription, standings: &[Standing], disabled: Option<&str>) -> Value {
    let events = |state| -> Vec<Value> {
        let one = |standing: &Standing| {
            let last = standing.last.as_ref();
            json!({
                "event": standing.event,
                "attempts": standing.attempts,
                "at": last.map(|last| &last.at),
                "why": last.map(|last| &last.why),
                "next": last.filter(|_| state == "pending").map(|last| &last.next),
            })
        };
        of(standings, state).map(one).collect()
    };
    json!({
        "name": sub.name,
        "sink": notify::shown(&sub.sink),
        "standing": sub.standing,
        "session": sub.session,
        "on": sub.on.word(),
        "on_output": sub.on_output,
        "heartbeat_ms": sub.heartbeat_ms,
        "allow_private": sub.allow_private,
        "secret_file": sub.secret_file,
        "template": sub.template,
        "creds_file": sub.creds_file,
        "password_file": sub.password_file,
        "since": sub.since.at,
        "disabled": disabled,
        "pending": events("pending"),
        "delivered": events("done"),
        "dead": events("dead"),
    })
}

fn find(context: &Context, name: &str) -> Result<(Store, Subscription)> {
    let mut stores = context.stores().into_iter();
    let found = stores.find_map(|store| {
        let sub = store.subscription(name)?;
        Some((store, sub))
    });
    found.ok_or_else(|| Error::Failed {
        text: format!("no subscription '{}'", text::shorten(name, 64)),
        hint: Some("'agent-sh notify list' lists them".to_owned()),
    })
}

fn remove(context: &Context, name: &str) -> Result<u8> {
    find(context, name)?;
    for store in context.stores() {
        store.unsubscribe(name)?;
    }
    message::say(format!("removed '{name}'"));
    Ok(0)
}

fn test(context: &Context, name: &str) -> Result<u8> {
    let (store, sub) = find(context, name)?;
    crate::sys::signal::ignore(&[libc::SIGPIPE]);
    let id = format!("test.{:08x}", fsx::random());
    let source = record::source(proc::machine(), fsx::euid(), Some(store.own().id()));
    let event = Event::test(&sub.name, id, source, record::rfc3339(clock::wall()));
    let sent = match sub.sink.parse() {
        Ok(Sink::Agent(kind)) => {
            let env = |name: &str| context.env(name);
            let mut launch = record::unknown_launch(store::outbox::example_id());
            launch.facts.session = context.session();
            launch.facts.harness = session::harness(env).map(str::to_owned);
            launch.wake = caller::wake(env, parent_pid());
            launch.facts.cwd = std::env::current_dir()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            notify::agent::test(kind, &event, &launch)
        }
        _ if sub.sink == STDOUT => Sent::Refused("it belongs to a verb that waits".to_owned()),
        _ => notify::send(&sub, &event, None, TEST_LIMIT),
    };
    let why = match sent {
        Sent::Delivered | Sent::Spared(_) => {
            message::say(format!("delivered {} to '{name}'", event.id));
            return Ok(0);
        }
        Sent::Unwanted(why) => {
            store.disable(name, &why)?;
            why
        }
        Sent::Failed(why, _) | Sent::Refused(why) => why,
    };
    Err(Error::Failed {
        text: format!("the test was not delivered to '{name}': {why}"),
        hint: None,
    })
}

//! Getting a subscription into the store, and the helper process on its way.

use std::ffi::OsString;
use std::path::Path;

use super::deliver::ONCE;
use super::sign::Secret;
use super::{Sink, broker, prepare};
use crate::error::{Error, Result};
use crate::follow::output::Position;
use crate::invocation;
use crate::job::JobId;
use crate::store::outbox::{Since, Subscription};
use crate::store::{self, Store};
use crate::sys::proc;
use crate::sys::process::{self, Image};

/// A subscription to this sink that begins now.
#[must_use]
pub fn subscription(name: &str, sink: &Sink, standing: bool) -> Subscription {
    let since = Since::new(store::moment(), proc::boot_id(), proc::timens());
    let mut sub = Subscription::new(name.to_owned(), sink.to_string(), standing, since);
    sub.of_running = sink.hears_of_running();
    sub
}

/// Makes a subscription usable and puts it into the store. A webhook without a key gets one.
pub fn subscribe(store: &Store, sub: &Subscription) -> Result<Subscription> {
    let sink: Sink = sub.sink.parse().map_err(usage)?;
    prepare(&sink)?;
    let secret = match (&sink, &sub.secret_file) {
        (Sink::Http(_), Some(path)) => {
            Secret::read(path).map_err(|text| Error::Failed { text, hint: None })?;
            None
        }
        (Sink::Http(_), None) => {
            Some(Secret::generate().map_err(|source| Error::sys("make a secret", source))?)
        }
        (Sink::Broker(url), _) => {
            broker::check(url, sub).map_err(|text| Error::Failed { text, hint: None })?;
            None
        }
        _ => None,
    };
    store.subscribe(sub, secret.as_deref())?;
    store.subscription(&sub.name).ok_or_else(|| Error::Failed {
        text: format!("the subscription '{}' vanished", sub.name),
        hint: None,
    })
}

/// What a user got wrong about a sink.
pub fn usage(text: String) -> Error {
    Error::Usage {
        text,
        hint: Some("'agent-sh notify add --help' shows an example of each".to_owned()),
    }
}

/// Makes the sinks of the setting `notify` wait for this job's end. What is wrong with one of them
/// must not keep the others, or the job, from anything.
pub fn enlist(store: &Store, sinks: &[String], job: &JobId) {
    for text in sinks {
        let Ok(sink) = text.parse::<Sink>() else {
            continue;
        };
        if sink == Sink::Stdout {
            continue;
        }
        let name = sink.default_name();
        let known = store.subscription(&name).is_some();
        if known || subscribe(store, &subscription(&name, &sink, false)).is_ok() {
            drop(store.want(&name, job));
        }
    }
}

/// Ourselves, also if the file was replaced meanwhile.
const SELF: &str = "/proc/self/exe";

/// The helper process, ready to be started by a process without threads; for a job to follow (and for
/// whom, from which byte of its output on), or `ONCE`.
#[must_use]
pub fn image(state: &Path, what: &[&str]) -> Image {
    let mut words: Vec<OsString> = vec![
        invocation::OWN_NAME.into(),
        invocation::DELIVER.into(),
        state.into(),
    ];
    words.extend(what.iter().map(OsString::from));
    Image::new(Path::new(SELF), &words, &[])
}

/// Starts the helper process where somebody may be waiting to be told. For a verb, before it has
/// threads: the helper belongs to nobody and outlives it.
pub fn nudge(stores: &[Store]) {
    for store in stores.iter().filter(|store| store.may_owe()) {
        process::spawn_orphan(&image(store.path(), &[ONCE]));
    }
}

/// Has the jobs that run already followed for a subscription that was just made, from what they write
/// from now on. For a verb, before it has threads; as above, the helpers belong to nobody.
pub fn follow_running(store: &Store, sub: &Subscription) -> Result<()> {
    if sub.of_running && !store.reported(sub)?.is_empty() {
        process::spawn_orphan(&image(store.path(), &[]));
    }
    if !sub.watches() {
        return Ok(());
    }
    for job in store::running_jobs(std::slice::from_ref(store))? {
        if sub.covers(job.launch.facts.session.as_deref()) {
            let Ok(position) = Position::end_of(&job) else {
                continue;
            };
            let position = position.to_string();
            let what = [job.id().as_str(), &sub.name, &position];
            process::spawn_orphan(&image(store.path(), &what));
        }
    }
    Ok(())
}

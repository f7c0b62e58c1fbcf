//! `wait --notify`: the subscribers to whom each end is delivered before there is an exit code.
//!
//! Every job is entered with the subscriber before it is waited for. So whatever happens to this
//! process, what it did not deliver is pending, and the next agent-sh delivers it.

use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use super::args::Wait;
use super::print;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::message;
use crate::notify::{self, Event, Sink, deliver, start, watch};
use crate::store::outbox::acknowledged;
use crate::store::outbox::{STDOUT, Subscription, exit_event};
use crate::store::{JobView, Store};

const PENDING: &str =
    "it is pending; 'agent-sh notify list' says when the next agent-sh that runs tries again";

/// Who is notified, in each state directory that has jobs of ours.
pub(super) struct Subscribers<'a> {
    pub(super) context: &'a Context,
    json: bool,
    /// `--notify` or `--follow` was given; else there is only our own stdout.
    are_given: bool,
    /// Whether the notice is printed on our own stdout, as it is sent to others.
    prints_notice: bool,
    /// When `--timeout` is over; what was not delivered by then stays pending.
    until: Option<Instant>,
    wanted: Vec<Wanted>,
    places: Vec<Place>,
}

/// A state directory, and the subscriptions that were entered there.
struct Place {
    root: PathBuf,
    store: Store,
    subs: Vec<Subscription>,
}

enum Wanted {
    Named(String),
    New(Box<Subscription>),
}

impl<'a> Subscribers<'a> {
    pub(super) fn new(context: &'a Context, wait: &Wait) -> Result<Self> {
        let options = &wait.delivery;
        let mut subscribers = Self {
            context,
            json: wait.json,
            are_given: !options.notify.is_empty() || options.follow,
            prints_notice: options.notify.is_empty(),
            until: wait.timeout.map(|time| Instant::now() + time),
            wanted: Vec::new(),
            places: Vec::new(),
        };
        if subscribers.are_given {
            // A hook that does not read its stdin must not end us.
            crate::sys::signal::ignore(&[libc::SIGPIPE]);
        }
        for text in &options.notify {
            let standing = context.stores().iter().find_map(|s| s.subscription(text));
            if standing.is_some() {
                subscribers.wanted.push(Wanted::Named(text.clone()));
                continue;
            }
            let sink: Sink = text.parse().map_err(start::usage)?;
            if sink == Sink::Stdout && options.subscriber.is_none() {
                subscribers.prints_notice = true;
                continue;
            }
            subscribers.prints_notice |= sink == Sink::Stdout;
            let name = match (&options.subscriber, subscribers.wanted.len()) {
                (Some(name), 0) => name.clone(),
                (Some(name), before) => format!("{name}-{}", before + 1),
                (None, _) => sink.default_name(),
            };
            let mut sub = start::subscription(&name, &sink, false);
            sub.session.clone_from(&options.session);
            sub.on_output.clone_from(&options.watch.on_output);
            sub.heartbeat_ms = options.watch.heartbeat.map(crate::job::record::millis);
            sub.secret_file.clone_from(&options.web.secret_file);
            sub.template = crate::cli::notify::template(options.web.template.as_ref(), &sink)?;
            sub.creds_file.clone_from(&options.web.creds_file);
            sub.password_file.clone_from(&options.web.password_file);
            sub.allow_private = options.web.allow_private;
            subscribers.wanted.push(Wanted::New(Box::new(sub)));
        }
        Ok(subscribers)
    }

    pub(super) fn are_given(&self) -> bool {
        self.are_given
    }

    /// The subscribers in the state directory that this job is in; entered there if need be.
    fn place(&mut self, job: &JobView) -> Result<&Place> {
        let root = job.dir.ancestors().nth(3).unwrap_or(&job.dir).to_owned();
        if let Some(at) = self.places.iter().position(|place| place.root == root) {
            return Ok(&self.places[at]);
        }
        let store = Store::at(&root)?;
        let mut subs = Vec::new();
        for wanted in &self.wanted {
            match wanted {
                Wanted::Named(name) => subs.extend(store.subscription(name)),
                Wanted::New(sub) => subs.push(enter(&store, sub)?),
            }
        }
        let at = self.places.len();
        self.places.push(Place { root, store, subs });
        Ok(&self.places[at])
    }

    /// Enters a job with everybody: from here on its end is pending for them. While it runs, it is
    /// followed for those who subscribed to its output.
    pub(super) fn add_job(&mut self, job: &JobView) -> Result<()> {
        if self.wanted.is_empty() {
            return Ok(());
        }
        let Place { root, store, subs } = self.place(job)?;
        for sub in subs {
            store.want(&sub.name, job.id())?;
        }
        let subs: Vec<Subscription> = subs.iter().filter(|sub| sub.watches()).cloned().collect();
        if subs.is_empty() || job.state.is_terminal() {
            return Ok(());
        }
        let (root, job) = (root.clone(), job.clone());
        // A delivery may take long; the others, and the end, must not wait for it.
        let run = move || {
            if let Ok(store) = Store::at(&root) {
                watch::run(&store, &job, &subs);
            }
        };
        let started = thread::Builder::new().spawn(run);
        started
            .map(drop)
            .map_err(|source| Error::sys("start a thread", source))
    }

    /// Whether this end is pending for one of them.
    pub(super) fn have_pending(&mut self, job: &JobView) -> Result<bool> {
        let Place { store, subs, .. } = self.place(job)?;
        let is_pending = |sub: &Subscription| {
            let pending = store.pending(sub).unwrap_or_default();
            pending.iter().any(|other| other.id() == job.id())
        };
        Ok(subs.iter().any(is_pending))
    }

    /// Delivers how the job ended, and prints it if wanted. `false`: a delivery was given up.
    pub(super) fn deliver(&mut self, job: &JobView, prints: bool) -> Result<bool> {
        let until = self.until;
        let Place { store, subs, .. } = self.place(job)?;
        let (is_stdout, others): (Vec<&Subscription>, Vec<&Subscription>) =
            subs.iter().partition(|sub| sub.sink == STDOUT);
        let mut delivered = true;
        for sub in others {
            let patience = Instant::now() + deliver::PATIENCE;
            let deadline = until.map_or(patience, |until| until.min(patience));
            if let Err(gave_up) = deliver::insist(store, sub, job, deadline)? {
                delivered = false;
                print_undelivered(job, sub, &gave_up);
            }
        }
        let mut claims = Vec::new();
        for sub in &is_stdout {
            claims.extend(store.claim(&sub.name, &exit_event(job.id()))?.ok());
        }
        if prints && is_stdout.is_empty() || !claims.is_empty() {
            self.print(job)?;
        }
        for claim in claims {
            claim.done()?;
        }
        acknowledged::mark_waited(job);
        Ok(delivered)
    }

    fn print(&self, job: &JobView) -> Result<()> {
        match &job.record {
            Some(record) if self.prints_notice && !self.json => {
                let event = Event::exit(job, record);
                let text = format!("{}\n", event.notice.trim_end());
                self.context.report(job, || message::out(&text))
            }
            _ => print::end(self.context, job, self.json),
        }
    }
}

fn print_undelivered(job: &JobView, sub: &Subscription, gave_up: &deliver::GaveUp) {
    let (id, name, why) = (job.id(), &sub.name, &gave_up.why);
    let text = format!("the end of job {id} was not delivered to '{name}': {why}");
    if gave_up.dead {
        message::say(text);
    } else {
        message::say_with_hint(text, PENDING);
    }
}

/// The subscription as it is in the store, made if it is missing.
fn enter(store: &Store, sub: &Subscription) -> Result<Subscription> {
    if let Some(old) = store.subscription(&sub.name) {
        if old.sink != sub.sink {
            return Err(Error::Failed {
                text: format!("the subscriber '{}' has another sink", sub.name),
                hint: Some("--as NAME names another subscriber".to_owned()),
            });
        }
        // What was asked for this time counts for this time.
        let mut now = old.clone();
        now.on_output.clone_from(&sub.on_output);
        now.heartbeat_ms = sub.heartbeat_ms;
        now.allow_private |= sub.allow_private;
        if let Some(path) = &sub.secret_file {
            now.secret_file = Some(path.clone());
        }
        return Ok(now);
    }
    let made = start::subscribe(store, sub)?;
    if let (true, Some(path)) = (sub.secret_file.is_none(), &made.secret_file) {
        message::say(format!("the key that signs is in '{}'", path.display()));
    }
    Ok(made)
}

/// Whether this end is news to somebody who follows a session.
pub(super) fn is_news(job: &JobView) -> bool {
    notify::agent::is_no_news(job).is_none()
}

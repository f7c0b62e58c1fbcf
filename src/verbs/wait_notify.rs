//! `wait --notify`: waits, and delivers each end to sinks before it gives the exit code.
//!
//! Every job is entered with the subscriber before it is waited for. So whatever happens to this
//! process, what it did not deliver is pending, and the next agent-sh delivers it.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::cli::Wait;
use crate::error::{Error, Result};
use crate::message;
use crate::notify::{self, Event, Sink, deliver, start, watch};
use crate::store::outbox::{STDOUT, Subscription, exit_event};
use crate::store::{JobView, Store, Waited, told};
use crate::verbs::format::short_duration;
use crate::verbs::wait::{TIMED_OUT, code, overall, tell_end};
use crate::verbs::{Context, wait_follow};

/// Enough for a record to be read; the default would be 2 MiB a job.
pub(super) const STACK: usize = 512 * 1024;
const PENDING: &str =
    "it is pending; 'agent-sh notify list' says when the next agent-sh that runs tries again";

/// Whether this is more than a plain wait.
pub(crate) fn is_meant(wait: &Wait) -> bool {
    !wait.tell.notify.is_empty() || wait.tell.follow
}

/// Who is told, in each state directory that has jobs of ours.
pub(super) struct Audience<'a> {
    pub(super) context: &'a Context,
    pub(super) json: bool,
    /// Whether our own stdout is among them.
    pub(super) aloud: bool,
    /// When `--timeout` is over; what was not delivered by then stays pending.
    until: Option<Instant>,
    wanted: Vec<Wanted>,
    places: Vec<(PathBuf, Store, Vec<Subscription>)>,
}

enum Wanted {
    Named(String),
    New(Box<Subscription>),
}

impl<'a> Audience<'a> {
    pub(super) fn new(context: &'a Context, wait: &Wait) -> Result<Self> {
        // A hook that does not read its stdin must not end us.
        crate::sys::signal::ignore(&[libc::SIGPIPE]);
        let tell = &wait.tell;
        let mut audience = Self {
            context,
            json: wait.json,
            aloud: tell.notify.is_empty(),
            until: wait.timeout.map(|time| Instant::now() + time),
            wanted: Vec::new(),
            places: Vec::new(),
        };
        for text in &tell.notify {
            let standing = context.stores().iter().find_map(|s| s.subscription(text));
            if standing.is_some() {
                audience.wanted.push(Wanted::Named(text.clone()));
                continue;
            }
            let sink: Sink = text.parse().map_err(start::usage)?;
            if sink == Sink::Stdout && tell.subscriber.is_none() {
                audience.aloud = true;
                continue;
            }
            audience.aloud |= sink == Sink::Stdout;
            let name = match (&tell.subscriber, audience.wanted.len()) {
                (Some(name), 0) => name.clone(),
                (Some(name), before) => format!("{name}-{}", before + 1),
                (None, _) => sink.default_name(),
            };
            let mut sub = start::subscription(&name, &sink, false);
            sub.session.clone_from(&tell.session);
            sub.on_output.clone_from(&tell.watch.on_output);
            sub.heartbeat_ms = tell.watch.heartbeat.map(crate::record::millis);
            sub.secret_file.clone_from(&tell.web.secret_file);
            sub.template = super::notify::template(tell.web.template.as_ref(), &sink)?;
            sub.creds_file.clone_from(&tell.web.creds_file);
            sub.password_file.clone_from(&tell.web.password_file);
            sub.allow_private = tell.web.allow_private;
            audience.wanted.push(Wanted::New(Box::new(sub)));
        }
        Ok(audience)
    }

    /// The subscribers in the state directory that this job is in; entered there if need be.
    fn place(&mut self, job: &JobView) -> Result<usize> {
        let root = job.dir.ancestors().nth(3).unwrap_or(&job.dir).to_owned();
        if let Some(at) = self.places.iter().position(|(path, ..)| *path == root) {
            return Ok(at);
        }
        let store = Store::at(&root)?;
        let mut subs = Vec::new();
        for wanted in &self.wanted {
            match wanted {
                Wanted::Named(name) => subs.extend(store.subscription(name)),
                Wanted::New(sub) => subs.push(enter(&store, sub)?),
            }
        }
        self.places.push((root, store, subs));
        Ok(self.places.len() - 1)
    }

    /// Enters the job with everybody: from here on its end is owed to them.
    pub(super) fn want(&mut self, job: &JobView) -> Result<()> {
        let at = self.place(job)?;
        let (_, store, subs) = &self.places[at];
        for sub in subs {
            store.want(&sub.name, job.id())?;
        }
        Ok(())
    }

    /// Whether somebody was promised this end and has not got it.
    pub(super) fn owes(&mut self, job: &JobView) -> Result<bool> {
        let at = self.place(job)?;
        let (_, store, subs) = &self.places[at];
        let owed = |sub: &Subscription| {
            let pending = store.pending(sub).unwrap_or_default();
            pending.iter().any(|other| other.id() == job.id())
        };
        Ok(subs.iter().any(owed))
    }

    /// Follows a running job for those who want to hear of its output.
    pub(super) fn follow(&mut self, job: &JobView) -> Result<()> {
        let at = self.place(job)?;
        let (root, _, subs) = &self.places[at];
        let subs: Vec<Subscription> = subs.iter().filter(|sub| sub.watches()).cloned().collect();
        if subs.is_empty() || job.state.is_terminal() {
            return Ok(());
        }
        let (root, job) = (root.clone(), job.clone());
        let run = move || {
            if let Ok(store) = Store::at(&root) {
                watch::run(&store, &job, &subs);
            }
        };
        thread::Builder::new()
            .spawn(run)
            .map(drop)
            .map_err(|source| Error::sys("start a thread", source))
    }

    /// Delivers how the job ended, and says it aloud if wanted. `false`: a delivery was given up.
    pub(super) fn deliver(&mut self, job: &JobView, aloud: bool) -> Result<bool> {
        let at = self.place(job)?;
        let (_, store, subs) = &self.places[at];
        let mut delivered = true;
        let mut said = !aloud;
        for sub in subs {
            if sub.sink == STDOUT {
                said = true;
                if let Ok(claim) = store.claim(&sub.name, &exit_event(job.id()))? {
                    self.say(job)?;
                    claim.done()?;
                }
                continue;
            }
            let patience = Instant::now() + deliver::PATIENCE;
            let deadline = self.until.map_or(patience, |until| until.min(patience));
            if let Err(gave_up) = deliver::insist(store, sub, job, deadline)? {
                delivered = false;
                let (id, name, why) = (job.id(), &sub.name, gave_up.why);
                let text = format!("the end of job {id} was not delivered to '{name}': {why}");
                if gave_up.dead {
                    message::say(text);
                } else {
                    message::say_with_hint(text, PENDING);
                }
            }
        }
        if !said {
            self.say(job)?;
        }
        told::mark_waited(job);
        Ok(delivered)
    }

    fn say(&self, job: &JobView) -> Result<()> {
        match &job.record {
            Some(record) if self.aloud && !self.json => {
                let event = Event::exit(job, record);
                let text = format!("{}\n", event.notice.trim_end());
                self.context.report(job, || message::out(&text))
            }
            _ => tell_end(self.context, job, self.json),
        }
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

pub(crate) fn wait(context: &Context, wait: &Wait) -> Result<u8> {
    let mut audience = Audience::new(context, wait)?;
    if wait.tell.follow {
        return wait_follow::follow(&mut audience, wait);
    }
    let jobs = if wait.jobs.is_empty() {
        let session = wait.tell.session.clone().or_else(|| context.session());
        context.awaited_in(session.as_deref())?
    } else {
        context.find_all(&wait.jobs)?
    };
    if jobs.is_empty() {
        message::say("nothing to wait for: no job is running");
        return Ok(0);
    }
    for job in &jobs {
        audience.want(job)?;
        audience.follow(job)?;
    }
    let deadline = wait.timeout.map(|time| Instant::now() + time);
    let mut codes: Vec<Option<u8>> = vec![None; jobs.len()];
    let mut undelivered = false;
    let results = watch_all(&jobs)?;
    while codes.iter().any(Option::is_none) {
        let Some((place, result)) = next(&results, deadline) else {
            break;
        };
        let ended = super::ended(&jobs[place], result?)?;
        undelivered |= !audience.deliver(&ended, true)?;
        codes[place] = Some(code(&ended));
        if wait.any {
            return Ok(if undelivered { 125 } else { code(&ended) });
        }
    }
    if undelivered {
        return Ok(125);
    }
    let left = codes.iter().filter(|code| code.is_none()).count();
    match wait.timeout {
        Some(timeout) if left > 0 => {
            let jobs = if left == 1 {
                "1 job is"
            } else {
                &format!("{left} jobs are")
            };
            let after = short_duration(timeout);
            message::say_with_hint(
                format!("{jobs} still running after {after} of waiting"),
                "the notification stays pending",
            );
            Ok(TIMED_OUT)
        }
        _ => Ok(overall(codes.into_iter().flatten())),
    }
}

type Answer = (usize, Result<Waited>);

/// Waits for all, at once; one that has ended answers at once.
fn watch_all(jobs: &[JobView]) -> Result<mpsc::Receiver<Answer>> {
    let (sender, receiver) = mpsc::channel();
    for (place, job) in jobs.iter().enumerate() {
        wait_for(place, job, sender.clone())?;
    }
    Ok(receiver)
}

fn wait_for(place: usize, job: &JobView, sender: mpsc::Sender<Answer>) -> Result<()> {
    if job.state.is_terminal() {
        // Also if there is no time to wait.
        drop(sender.send((place, job.wait(None))));
        return Ok(());
    }
    let job = job.clone();
    thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || drop(sender.send((place, job.wait(None)))))
        .map(drop)
        .map_err(|source| Error::sys("start a thread", source))
}

/// The next answer. `None`: the deadline is over, or nobody is left to answer.
fn next(results: &mpsc::Receiver<Answer>, deadline: Option<Instant>) -> Option<Answer> {
    let far = Duration::from_secs(u64::from(u32::MAX));
    let left = deadline.map_or(far, |end| end.saturating_duration_since(Instant::now()));
    results.recv_timeout(left).ok()
}

/// Whether this end is news to somebody who follows a session.
pub(super) fn is_news(job: &JobView) -> bool {
    notify::agent::is_no_news(job).is_none()
}

//! Delivering what is pending. This is all that the helper process does that a supervisor starts after
//! a job's end, and a verb when something may have stayed behind: it serves every subscriber for at
//! most half a minute, each in a thread of its own, and leaves. What is pending then stays so, on
//! disk, for the next one.

use std::ffi::{CStr, OsString};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::{Event, Sent, Sink, agent, beat, send, watch};
use crate::error::Result;
use crate::store::outbox::{NoClaim, Subscription, exit_event};
use crate::store::{JobView, Store};
use crate::sys::{session, signal};

/// How long one process tries.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// So much longer it waits for one whose last attempt began just before.
const STRAGGLERS: Duration = Duration::from_secs(20);
/// Enough for an encrypted connection; the default would be 2 MiB a subscriber.
const STACK: usize = 512 * 1024;
/// When somebody else is at an event: look again whether it was delivered or its deliverer died.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The word for a helper that tries once. Verbs start those: one that is called every second must not
/// leave a crowd behind that waits for the same server.
pub(crate) const ONCE: &str = "--once";
/// The name of the helper process. A supervisor above it takes it for no stray by that.
pub(crate) const TITLE: &CStr = c"agent-sh deliverer";

/// Runs the helper process: the state directory, and maybe a job to follow while it runs; for all, or for
/// one subscriber from a position in the output on.
#[must_use]
pub(crate) fn main(words: &[OsString]) -> u8 {
    session::set_title(TITLE);
    // It was started by a supervisor, which ignores most signals.
    signal::reset(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT]);
    signal::reset(&[libc::SIGCHLD]);
    signal::ignore(&[libc::SIGPIPE]);
    let Some(store) = words
        .first()
        .and_then(|path| Store::at(Path::new(path)).ok())
    else {
        return 125;
    };
    match words.get(1) {
        None => serve_all(store, PATIENCE, true),
        Some(word) if word == ONCE => serve_all(store, PATIENCE, false),
        Some(word) => match word.to_string_lossy().parse() {
            Ok(id) => {
                let word = |place: usize| words.get(place).and_then(|word| word.to_str());
                let only = word(2).zip(word(3).and_then(|from| from.parse().ok()));
                watch::follow(&store, &id, only);
            }
            Err(_) => return 2,
        },
    }
    0
}

/// Serves every subscriber until nothing is pending or the time is over. `stay`: comes back to what
/// failed; else each event is tried once, if its pause is over.
///
/// Every way out has a limit of its own. A file system that does not answer has none: whoever is stuck
/// in it is left behind, and ends with the process.
fn serve_all(store: Store, patience: Duration, stay: bool) {
    let deadline = Instant::now() + patience;
    let subs = store.subscriptions();
    let store = Arc::new(store);
    let (done, all_done) = mpsc::channel::<()>();
    let (beating, all_quiet) = mpsc::channel::<()>();
    for sub in subs {
        let (store, done) = (Arc::clone(&store), done.clone());
        let beating = sub.of_running.then(|| beating.clone());
        let serve = move || {
            serve(&store, &sub, deadline, stay);
            drop(done);
            if sub.of_running {
                beat::beat(&store, &sub);
            }
            drop(beating);
        };
        // Without a thread the others are served all the same; this one is when we come again.
        drop(thread::Builder::new().stack_size(STACK).spawn(serve));
    }
    drop((done, beating));
    // Nothing is ever sent: a channel ends with the last of them.
    let _ = all_done.recv_timeout(patience + STRAGGLERS);
    let _ = all_quiet.recv();
}

fn serve(store: &Store, sub: &Subscription, deadline: Instant, stay: bool) {
    // Nobody's stdout is at hand here; it belongs to a verb that waits.
    if matches!(sub.sink.parse(), Ok(Sink::Stdout)) {
        return;
    }
    while Instant::now() < deadline {
        let Ok(pending) = store.pending(sub) else {
            return;
        };
        let mut again: Option<Duration> = None;
        let starts = if sub.of_running {
            store.reported(sub)
        } else {
            Ok(Vec::new())
        };
        let starts = starts.unwrap_or_default();
        let all = starts.iter().map(|job| (job, true));
        for (job, is_start) in all.chain(pending.iter().map(|job| (job, false))) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let tried = match is_start {
                true => beat::tell_start(store, sub, job, left, false),
                false => attempt(store, sub, job, left, false),
            };
            match tried {
                Ok(Attempt::Settled | Attempt::Dead(_)) => {}
                Ok(Attempt::NotDue(pause)) => again = Some(shorter(again, pause)),
                Ok(Attempt::Busy) => again = Some(shorter(again, LOOK_AGAIN)),
                Ok(Attempt::Failed(_, pause)) => {
                    // What just failed will not do better with the next event.
                    again = Some(shorter(again, pause));
                    break;
                }
                Err(_) => return,
            }
        }
        let Some(pause) = again else {
            if pending.is_empty() {
                return;
            }
            continue;
        };
        if !stay || Instant::now() + pause > deadline {
            return;
        }
        rest(pause);
    }
}

fn shorter(one: Option<Duration>, other: Duration) -> Duration {
    one.map_or(other, |one| one.min(other))
}

/// Sleeps. A wake-up too early only means one look too many.
fn rest(pause: Duration) {
    thread::park_timeout(pause.max(Duration::from_millis(1)));
}

/// What became of one attempt at one event.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// Delivered, now or before, or there was nothing to say.
    Settled,
    /// It will never be: why.
    Dead(String),
    /// It was not tried: the pause after the last failure is not over.
    NotDue(Duration),
    /// Somebody else is at it.
    Busy,
    /// Why, and how long to wait.
    Failed(String, Duration),
}

/// Claims the end of a job for a subscriber and tries to deliver it. `now`: also before its pause is
/// over.
pub(crate) fn attempt(
    store: &Store,
    sub: &Subscription,
    job: &JobView,
    limit: Duration,
    now: bool,
) -> Result<Attempt> {
    let Some(record) = &job.record else {
        return Ok(Attempt::Busy);
    };
    if sub.of_running {
        match beat::tell_start(store, sub, job, limit, now)? {
            Attempt::Settled | Attempt::Dead(_) => {}
            not_yet => return Ok(not_yet),
        }
    }
    let eid = exit_event(job.id());
    carry(store, sub, &eid, job, limit, now, || {
        Some(Event::exit(job, record))
    })
}

/// Claims an event for a subscriber and tries to deliver it. It is made when it is needed; `None`: it is gone.
pub(super) fn carry(
    store: &Store,
    sub: &Subscription,
    eid: &str,
    job: &JobView,
    limit: Duration,
    now: bool,
    event: impl FnOnce() -> Option<Event>,
) -> Result<Attempt> {
    let claim = match store.claim(&sub.name, eid)? {
        Ok(claim) => claim,
        Err(NoClaim::Settled) => return Ok(Attempt::Settled),
        Err(NoClaim::Busy) => return Ok(Attempt::Busy),
    };
    // What the agent knows by now need not wait for its turn.
    if let Ok(Sink::Agent(_)) = sub.sink.parse()
        && let Some(why) = agent::is_known(job)
    {
        claim.spared(why)?;
        return Ok(Attempt::Settled);
    }
    if let Some(pause) = claim.pause().filter(|_| !now) {
        return Ok(Attempt::NotDue(pause));
    }
    let Some(event) = event() else {
        claim.spared("it is gone")?;
        return Ok(Attempt::Settled);
    };
    Ok(match send(sub, &event, Some(job), limit) {
        Sent::Delivered => {
            claim.done()?;
            Attempt::Settled
        }
        Sent::Spared(why) => {
            claim.spared(why)?;
            Attempt::Settled
        }
        Sent::Failed(why, least) => {
            let pause = claim.failed(&why, least)?;
            Attempt::Failed(why, pause)
        }
        Sent::Refused(why) => {
            claim.dead(&why)?;
            Attempt::Dead(why)
        }
        Sent::Unwanted(why) => {
            // In this order: whoever sees the event given up finds the subscription disabled.
            store.disable(&sub.name, &why)?;
            claim.dead(&why)?;
            Attempt::Dead(why)
        }
    })
}

/// Why a delivery was given up.
#[derive(Debug)]
pub(crate) struct GaveUp {
    pub why: String,
    /// For good; else it stays pending.
    pub dead: bool,
}

/// Delivers the end of one job while a verb waits for it.
pub(crate) fn insist(
    store: &Store,
    sub: &Subscription,
    job: &JobView,
    deadline: Instant,
) -> Result<std::result::Result<(), GaveUp>> {
    let gave_up = |why, dead| Ok(Err(GaveUp { why, dead }));
    if let Some(why) = store.disabled(&sub.name) {
        return gave_up(why, true);
    }
    let mut first = true;
    let mut last = "somebody else is delivering it".to_owned();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let pause = match attempt(store, sub, job, left, first)? {
            Attempt::Settled => return Ok(Ok(())),
            Attempt::Dead(why) => return gave_up(why, true),
            Attempt::NotDue(pause) => pause,
            Attempt::Busy => LOOK_AGAIN / 10,
            Attempt::Failed(why, pause) => {
                last = why;
                pause
            }
        };
        first = false;
        if Instant::now() + pause > deadline {
            return gave_up(last, false);
        }
        rest(pause);
    }
}

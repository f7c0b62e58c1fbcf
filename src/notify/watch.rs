//! Following a running job for those who asked to hear of its output: lines that match, and signs of
//! life. It sleeps in the kernel until the job writes or ends, and leaves with it.
//!
//! A job can write a million lines that match. So there is one notice in 15 seconds with all that came
//! meanwhile, and after eight the subject is closed, with a last word that says so.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use regex::Regex;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Event, Sent, send};
use crate::job::JobId;
use crate::job::notice::{self, Happened, Reader};
use crate::job::record::{self, LONGEST_TAIL, ORIGIN};
use crate::store::outbox::{Claim, Subscription};
use crate::store::{self, JobView, Reading, Store};
use crate::sys::{clock, fds, fsx};
use crate::text;

/// Between two notices of one job's output.
pub const EVERY: Duration = Duration::from_secs(15);
/// So many notices of one job's output there are.
pub const MOST: u32 = 8;
/// How long one delivery may take; the next line waits meanwhile.
const LIMIT: Duration = Duration::from_secs(10);
/// No line is looked at beyond this.
const LONGEST_LINE: usize = 16 * 1024;
/// How often to look where the kernel cannot tell of writing.
const BLIND: Duration = Duration::from_secs(1);

/// Follows a job for all standing subscriptions that want to hear of it while it runs; `only` for that
/// of this name, from this byte on.
///
/// A subscription that is made while a job's call still lasts is found by whoever made it and by the
/// job's supervisor: the first of them follows.
pub fn follow(store: &Store, id: &JobId, only: Option<(&str, u64)>) {
    let Ok(Some(job)) = store.load(id) else {
        return;
    };
    let session = job.launch.facts.session.as_deref();
    let mut claims = Vec::new();
    let mut subs = store.subscriptions();
    subs.retain(|sub| {
        let meant = only.is_none_or(|(name, _)| sub.name == name);
        let watches = meant && sub.standing && sub.watches() && sub.covers(session);
        let claim = watches.then(|| store.claim(&sub.name, &format!("{id}.follow")));
        match claim {
            None => false,
            Some(Ok(Ok(claim))) => {
                claims.push(claim);
                true
            }
            Some(Ok(Err(_))) => false,
            // Heard of twice beats not at all.
            Some(Err(_)) => true,
        }
    });
    run_from(store, &job, &subs, only.map_or(0, |(_, from)| from));
    claims.into_iter().for_each(Claim::forget);
}

/// How much a reader of the job's output would find now.
#[must_use]
pub fn written(job: &JobView) -> u64 {
    match &job.launch.facts.redirected_to {
        Some(path) => fsx::stat_path(Path::new(path)).map_or(0, |stat| stat.st_size.unsigned_abs()),
        None => job.output().bytes_kept,
    }
}

/// Follows a job for these subscribers until it ends.
pub fn run(store: &Store, job: &JobView, subs: &[Subscription]) {
    run_from(store, job, subs, 0);
}

fn run_from(store: &Store, job: &JobView, subs: &[Subscription], from: u64) {
    let mut listeners: Vec<Listener<'_>> = subs.iter().filter_map(Listener::new).collect();
    if listeners.is_empty() || job.state.is_terminal() {
        return;
    }
    let Ok((mut source, watched)) = open(job) else {
        return;
    };
    // What was written before is not news. If it cannot be read, nor can the rest.
    drop(io::copy(&mut source.by_ref().take(from), &mut io::sink()));
    let inotify = watch(&watched);
    let Ok(ended) = ending_of(job) else { return };
    let mut lines = Lines::default();
    let mut total = 0;
    loop {
        // The kernel tells from now on: what was written before has to be looked for.
        total = u64::saturating_add(total, read_on(&mut *source, &mut lines));
        for line in lines.take() {
            listeners
                .iter_mut()
                .for_each(|listener| listener.hear(&line));
        }
        for listener in &mut listeners {
            listener.speak(store, job, total);
        }
        listeners.retain(|listener| !listener.is_done());
        // What came last is in the notice of the end.
        if listeners.is_empty() || sleep(inotify.as_ref(), &ended, &listeners) {
            return;
        }
    }
}

/// What a job writes, and what to watch for more of it: its transcript, or the file it writes to.
fn open(job: &JobView) -> io::Result<(Box<dyn Read>, PathBuf)> {
    if let Some(path) = job.launch.facts.redirected_to.as_deref().map(PathBuf::from) {
        return Ok((Box::new(fsx::open_regular(&path)?.0), path));
    }
    let reader = job
        .read_transcript(Reading::Raw)
        .map_err(io::Error::other)?;
    let path = job.transcript_path();
    let dir = path.parent().map_or_else(|| job.dir.clone(), PathBuf::from);
    Ok((Box::new(reader), dir))
}

fn watch(path: &PathBuf) -> Option<Inotify> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?;
    let flags = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
    inotify.add_watch(path, flags).ok()?;
    Some(inotify)
}

/// A pipe that ends when the job has ended.
fn ending_of(job: &JobView) -> io::Result<io::PipeReader> {
    let (reader, writer) = io::pipe()?;
    let job = job.clone();
    std::thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(move || {
            drop(job.wait(None));
            drop(writer);
        })?;
    Ok(reader)
}

/// Sleeps until there may be something to do; `true`: the job has ended.
fn sleep(inotify: Option<&Inotify>, ended: &io::PipeReader, listeners: &[Listener<'_>]) -> bool {
    use std::os::fd::AsFd;
    let now = Instant::now();
    let due = listeners.iter().filter_map(Listener::due).min();
    let mut wait = due.map(|at| at.saturating_duration_since(now));
    if inotify.is_none() {
        wait = Some(wait.map_or(BLIND, |wait| wait.min(BLIND)));
    }
    let wait = wait.map_or(-1, |wait| {
        i32::try_from(wait.as_millis())
            .unwrap_or(i32::MAX)
            .saturating_add(1)
    });
    let mut watched = vec![ended.as_raw_fd()];
    watched.extend(inotify.map(|inotify| inotify.as_fd().as_raw_fd()));
    let over = fds::wait_readable(&watched, wait)[0];
    if let Some(inotify) = inotify {
        // What happened does not matter, only that it is not told again.
        drop(inotify.read_events());
    }
    over
}

/// Reads what there is, and gives its size.
fn read_on(source: &mut dyn Read, lines: &mut Lines) -> u64 {
    let mut buffer = [0; 16 * 1024];
    let mut total = 0;
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return total,
            Ok(read) => {
                total += read as u64;
                lines.push(&buffer[..read]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return total,
        }
    }
}

/// Clean lines out of bytes. A line that is not finished is given too, once: a prompt has no newline.
#[derive(Default)]
struct Lines {
    ready: Vec<String>,
    partial: Vec<u8>,
    /// How much of the unfinished line was given.
    given: usize,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = LONGEST_LINE.saturating_sub(self.partial.len());
            self.partial.extend(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                // One that was given whole before has nothing new in it.
                if self.given < self.partial.trim_ascii_end().len() {
                    self.ready
                        .push(text::sanitize(self.partial.trim_ascii_end()));
                }
                self.partial.clear();
                self.given = 0;
            }
        }
    }

    fn take(&mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.ready);
        if self.partial.len() > self.given {
            self.given = self.partial.len();
            lines.push(text::sanitize(&self.partial));
        }
        lines
    }
}

/// One subscriber, and what it has heard and not been told.
struct Listener<'a> {
    sub: &'a Subscription,
    pattern: Option<Regex>,
    heard: String,
    told: u32,
    /// Not before.
    next: Instant,
    beat: Option<Instant>,
    beats: u32,
    /// Stands in the ids of signs of life: this process's alone, for this subscription.
    mark: String,
    /// How much the job had written at the last sign of life.
    known: u64,
}

impl<'a> Listener<'a> {
    fn new(sub: &'a Subscription) -> Option<Self> {
        let pattern = match &sub.on_output {
            Some(text) => Some(Regex::new(text).ok()?),
            None => None,
        };
        let now = Instant::now();
        sub.watches().then(|| Self {
            sub,
            pattern,
            heard: String::new(),
            told: 0,
            next: now,
            beat: sub.heartbeat().and_then(|every| now.checked_add(every)),
            beats: 0,
            mark: mark_of(sub),
            known: 0,
        })
    }

    fn hear(&mut self, line: &str) {
        let matches = |pattern: &Regex| pattern.is_match(line);
        if self.told < MOST && self.pattern.as_ref().is_some_and(matches) {
            self.heard.push_str(line);
            self.heard.push('\n');
            // The newest are kept; a flood must not fill the memory.
            if self.heard.len() > 4 * LONGEST_TAIL {
                self.heard = text::last_bytes(&self.heard, LONGEST_TAIL).to_owned();
            }
        }
    }

    /// When it has something to do though nothing is written.
    fn due(&self) -> Option<Instant> {
        let waiting = (!self.heard.is_empty()).then_some(self.next);
        waiting.into_iter().chain(self.beat).min()
    }

    fn is_done(&self) -> bool {
        self.beat.is_none() && self.told >= MOST
    }

    fn speak(&mut self, store: &Store, job: &JobView, total: u64) {
        let now = Instant::now();
        if !self.heard.is_empty() && self.next <= now {
            self.next = now + EVERY;
            self.tell_match(store, job);
        }
        if self.beat.is_some_and(|at| at <= now) {
            self.beat = self
                .sub
                .heartbeat()
                .and_then(|every| now.checked_add(every));
            if total > self.known {
                self.beats = self.beats.saturating_add(1);
                let happened = Happened::Alive {
                    new_bytes: total.saturating_sub(self.known),
                };
                let id = format!("{}.beat.{}-{}", job.id(), self.mark, self.beats);
                let event = event(job, id, "heartbeat", &happened, "", None);
                // The next one says the same; nothing is kept of one that failed.
                drop(send(self.sub, &event, Some(job), LIMIT));
            }
            self.known = total;
        }
    }

    /// The id of a notice of output: no two subscribers, and no two subscriptions of one name, have the
    /// same for different words. It stays the same when the notice is tried again, also by another process.
    fn output_id(&self, store: &Store, job: &JobView, number: u32) -> String {
        let (sub, since) = (self.sub, &self.sub.since);
        let whose = format!("{}\n{}\n{}\n{number}\n", sub.name, since.at, since.boot_ns);
        match store.notice_number(job.id(), &whose) {
            Ok(unique) => format!("{}.output.{unique}", job.id()),
            // A disk without room: long, but nobody else's either.
            Err(_) => {
                let hash = record::hex(&Sha256::digest(whose.as_bytes()));
                format!("{}.output.{}", job.id(), text::first_bytes(&hash, 16))
            }
        }
    }

    fn tell_match(&mut self, store: &Store, job: &JobView) {
        let number = self.told + 1;
        let id = self.output_id(store, job, number);
        let pattern = self.sub.on_output.as_deref().unwrap_or_default();
        let happened = Happened::Matched {
            pattern,
            number,
            most: MOST,
            last: number == MOST,
        };
        let event = event(
            job,
            id,
            "output-matched",
            &happened,
            &self.heard,
            Some(pattern),
        );
        let Ok(claim) = store.claim(&self.sub.name, &event.id) else {
            return;
        };
        let Ok(claim) = claim else {
            // Told by a watcher before this one.
            self.told = number;
            self.heard.clear();
            return;
        };
        match send(self.sub, &event, Some(job), LIMIT) {
            Sent::Delivered | Sent::Spared(_) => drop(claim.done()),
            // It is tried again, with what comes meanwhile.
            Sent::Failed(why, _) => {
                drop(claim.failed(&why, None));
                return;
            }
            Sent::Refused(why) | Sent::Unwanted(why) => drop(claim.dead(&why)),
        }
        self.told = number;
        self.heard.clear();
    }
}

/// Tells this process, and what it does for this subscription, from all others.
fn mark_of(sub: &Subscription) -> String {
    let (own, since) = (store::own_identity(), &sub.since);
    let who = format!("{own:?}\n{}\n{since:?}", sub.name);
    let hash = record::hex(&Sha256::digest(who.as_bytes()));
    text::first_bytes(&hash, 16).to_owned()
}

fn event(
    job: &JobView,
    id: String,
    kind: &str,
    happened: &Happened<'_>,
    output: &str,
    pattern: Option<&str>,
) -> Event {
    let launch = &job.launch;
    let ran = job.duration_ms().map(Duration::from_millis);
    let headline = notice::headline_of_running(launch, ran, happened);
    let output = text::last_bytes(output, LONGEST_TAIL);
    let last = matches!(happened, Happened::Matched { last: true, .. });
    let json = json!({
        "specversion": "1.0",
        "id": id,
        "source": record::source_of(launch, fsx::euid()),
        "type": format!("dev.agent-sh.job.{kind}.v1"),
        "subject": launch.id,
        "time": record::rfc3339(clock::wall()),
        "datacontenttype": "application/json",
        "correlationid": launch.facts.session,
        "data": {
            "job": launch.id,
            "state": job.state,
            "pattern": pattern,
            "last": last,
            "notice": headline,
            "command": launch.facts.command,
            "session": launch.facts.session,
            "harness": launch.facts.harness,
            "cwd": launch.facts.cwd,
            "name": launch.facts.name,
            "started_at": launch.facts.started_at,
            "duration_ms": job.duration_ms(),
            "untrusted_output_tail": output,
            "origin": ORIGIN,
        },
    });
    let mut json = json;
    // CloudEvents has no null attributes.
    if let Some(object) = json.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
    Event {
        id,
        json: json.to_string(),
        notice: notice::text_of_running(&headline, launch.id.as_str(), output, Reader::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_once_and_clean() {
        let mut lines = Lines::default();
        lines.push(b"one\ntw");
        assert_eq!(lines.take(), ["one", "tw"]);
        assert!(lines.take().is_empty());
        lines.push(b"o\n\x1b[31mred\x1b[0m\r\nPassword: ");
        assert_eq!(lines.take(), ["two", "red", "Password: "]);
        lines.push(b"\nnext\n");
        assert_eq!(lines.take(), ["next"]);
        lines.push(&vec![b'x'; 3 * LONGEST_LINE]);
        assert_eq!(lines.take()[0].len(), LONGEST_LINE);
    }
}

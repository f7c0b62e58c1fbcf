//! One subscriber to a job's output: what matched and was not sent yet, and when something is due.

use std::time::{Duration, Instant};

use regex::Regex;
use sha2::{Digest, Sha256};

use super::{EVERY, MOST, event};
use crate::follow::lines::Seen;
use crate::job::notice::Happened;
use crate::job::record::{self, LONGEST_TAIL};
use crate::notify::{Sent, send};
use crate::store::outbox::Subscription;
use crate::store::{self, JobView, Store};
use crate::text;

/// How long one delivery may take; the next line waits meanwhile.
const LIMIT: Duration = Duration::from_secs(10);

pub(super) struct Subscriber<'a> {
    sub: &'a Subscription,
    pattern: Option<Regex>,
    /// Lines that matched and are in no notice yet.
    matched: String,
    /// Where the last of them begins, if it may go on.
    unfinished: Option<usize>,
    /// How many notices were sent.
    sent: u32,
    /// Not before.
    next: Instant,
    beat: Option<Instant>,
    beats: u32,
    /// Stands in the ids of signs of life: this process's alone, for this subscription.
    mark: String,
    /// How much the job had written at the last sign of life.
    known: u64,
}

impl<'a> Subscriber<'a> {
    pub(super) fn new(sub: &'a Subscription) -> Option<Self> {
        let pattern = match &sub.on_output {
            Some(text) => Some(Regex::new(text).ok()?),
            None => None,
        };
        let now = Instant::now();
        sub.watches().then(|| Self {
            sub,
            pattern,
            matched: String::new(),
            unfinished: None,
            sent: 0,
            next: now,
            beat: sub.heartbeat().and_then(|every| now.checked_add(every)),
            beats: 0,
            mark: mark_of(sub),
            known: 0,
        })
    }

    /// Keeps the line if it matches.
    pub(super) fn check(&mut self, seen: Seen<'_>) {
        let is_its_beginning = |&at: &usize| {
            seen.continues
                && seen
                    .line
                    .starts_with(self.matched[at..].trim_end_matches('\n'))
        };
        let before = self.unfinished.take().filter(is_its_beginning);
        let matches = |pattern: &Regex| pattern.is_match(seen.line);
        if self.sent >= MOST || !self.pattern.as_ref().is_some_and(matches) {
            return;
        }
        // The same line with more in it takes the place of what it was.
        self.matched.truncate(before.unwrap_or(self.matched.len()));
        self.unfinished = Some(self.matched.len());
        self.matched.push_str(seen.line);
        self.matched.push('\n');
        // The newest are kept; a flood must not fill the memory.
        if self.matched.len() > 4 * LONGEST_TAIL {
            self.matched = text::last_bytes(&self.matched, LONGEST_TAIL).to_owned();
            self.unfinished = None;
        }
    }

    /// When it has something to do though nothing is written.
    pub(super) fn due(&self) -> Option<Instant> {
        let waiting = (!self.matched.is_empty()).then_some(self.next);
        waiting.into_iter().chain(self.beat).min()
    }

    pub(super) fn is_done(&self) -> bool {
        self.beat.is_none() && self.sent >= MOST
    }

    /// Sends what is due.
    pub(super) fn notify(&mut self, store: &Store, job: &JobView, total: u64) {
        let now = Instant::now();
        if !self.matched.is_empty() && self.next <= now {
            self.next = now + EVERY;
            self.send_matched(store, job);
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
                let event = event::new(job, id, "heartbeat", &happened, "", None);
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

    fn send_matched(&mut self, store: &Store, job: &JobView) {
        let number = self.sent + 1;
        let id = self.output_id(store, job, number);
        let pattern = self.sub.on_output.as_deref().unwrap_or_default();
        let happened = Happened::Matched {
            pattern,
            number,
            most: MOST,
            last: number == MOST,
        };
        let event = event::new(
            job,
            id,
            "output-matched",
            &happened,
            &self.matched,
            Some(pattern),
        );
        let Ok(claim) = store.claim(&self.sub.name, &event.id) else {
            return;
        };
        let Ok(claim) = claim else {
            // Sent by a process before this one.
            self.sent = number;
            self.forget_matched();
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
        self.sent = number;
        self.forget_matched();
    }

    fn forget_matched(&mut self) {
        self.matched.clear();
        self.unfinished = None;
    }
}

/// What distinguishes this process, and what it does for this subscription, from all others.
fn mark_of(sub: &Subscription) -> String {
    let (own, since) = (store::own_identity(), &sub.since);
    let who = format!("{own:?}\n{}\n{since:?}", sub.name);
    let hash = record::hex(&Sha256::digest(who.as_bytes()));
    text::first_bytes(&hash, 16).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::outbox::Since;

    fn check(lines: &[(&str, bool)]) -> String {
        let since = Since::new(store::moment(), "", 0);
        let mut sub = Subscription::new("x".to_owned(), "stdout".to_owned(), true, since);
        sub.on_output = Some("ready|x".to_owned());
        let mut subscriber = Subscriber::new(&sub).unwrap();
        for &(line, continues) in lines {
            subscriber.check(Seen { line, continues });
        }
        subscriber.matched
    }

    #[test]
    fn a_line_that_grows_is_kept_once() {
        for (lines, wanted) in [
            (&[("ready", false), ("ready on", true)][..], "ready on\n"),
            (&[("no", false), ("no, ready", true)], "no, ready\n"),
            (&[("ready", false), ("ready", false)], "ready\nready\n"),
            (
                &[("ready 1", false), ("other", false), ("ready 2", false)],
                "ready 1\nready 2\n",
            ),
            (
                &[("ready", false), ("other", false), ("other ready", true)],
                "ready\nother ready\n",
            ),
        ] {
            assert_eq!(check(lines), wanted, "{lines:?}");
        }
    }

    #[test]
    fn a_flood_keeps_the_newest() {
        let lines: Vec<String> = (0..10_000).map(|n| format!("x{n}")).collect();
        let lines: Vec<(&str, bool)> = lines.iter().map(|line| (line.as_str(), false)).collect();
        let kept = check(&lines);
        assert!(kept.ends_with("x9998\nx9999\n"));
        assert!(kept.len() <= 4 * LONGEST_TAIL);
    }
}

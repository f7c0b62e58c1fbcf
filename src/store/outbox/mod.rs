//! The outbox: who is still to be told of what. There is no queue that could be lost: the records are
//! the queue, and what is missing from it are the markers of what was delivered.
//!
//! ```text
//! v1/subs/<name>/sub.json     who: the sink, and what it wants
//!                want/<job>   this job was asked for by name
//!                claim/<eid>  under its lock: being delivered; its lines: attempts that failed
//!                done/<eid>   delivered
//!                dead/<eid>   given up, with the reason
//!                disabled     the receiver wants nothing more, with the reason
//!                secret       the key for signatures, if we made it
//! ```
//!
//! Pending for a subscriber is every committed record that it wants and that has neither `done` nor
//! `dead`. Event ids are derived (`<job>.exit`), so a delivery that is repeated after a crash has the
//! same id, and a receiver can tell.

pub(crate) mod acknowledged;
mod beat;
pub(super) mod claim;
mod markers;
mod subscription;
#[cfg(test)]
mod tests;
pub(crate) mod untold;
pub(crate) mod waiter;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use self::claim::{Held, Taken, hold};
pub(crate) use self::markers::Standing;
pub(crate) use self::subscription::{On, Since, Subscription, is_name};
use crate::error::{Error, Result};
use crate::job::record::{FORMAT, rfc3339, wall_between};
use crate::job::{JobId, Serial};
use crate::store::jobs::files::{self, Content};
use crate::store::jobs::view::JobView;
use crate::store::{Store, root};
use crate::sys::{clock, fsx};

const PARTS: [&str; 4] = ["want", "claim", "done", "dead"];
/// Between two attempts of one event, whoever makes them: doubled each time, up to an hour.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// The sink that is the stdout of a verb: nobody else can serve it, so nothing waits for it.
pub(crate) const STDOUT: &str = "stdout";

/// The id of a job's terminal event.
#[must_use]
pub(crate) fn exit_event(id: &JobId) -> String {
    format!("{id}.exit")
}

/// An id that stands for no job, for tests of a sink.
#[must_use]
pub(crate) fn example_id() -> JobId {
    Serial::at(0).id(0)
}

/// The job that an event id belongs to.
fn job_of(eid: &str) -> Option<JobId> {
    eid.split('.').next()?.parse().ok()
}

/// One line of a claim: an attempt that failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempt {
    pub at: String,
    pub why: String,
    /// Not to be tried again before.
    pub next: String,
}

/// The right to deliver one event to one subscriber. Dropped, it goes back; nothing is written.
#[derive(Debug)]
pub struct Claim {
    held: Held,
    dir: OwnedFd,
    eid: String,
    attempts: Vec<Attempt>,
}

impl Claim {
    #[must_use]
    pub fn event(&self) -> &str {
        &self.eid
    }

    /// How often it was tried in vain.
    #[must_use]
    pub fn attempts(&self) -> usize {
        self.attempts.len()
    }

    /// How long until it may be tried again. `None`: now.
    #[must_use]
    pub fn pause(&self) -> Option<Duration> {
        self.attempts.last().and_then(pause_of)
    }

    /// It was delivered.
    pub fn done(self) -> Result<()> {
        self.settle("done", "delivered")
    }

    /// There was nothing to say, and why.
    pub fn spared(self, why: &str) -> Result<()> {
        self.settle("done", why)
    }

    /// It will never be delivered.
    pub fn dead(self, why: &str) -> Result<()> {
        self.settle("dead", why)
    }

    /// It was held for a while, and nothing is to be kept of that.
    pub fn forget(self) {
        self.held.forget();
    }

    /// It could not be delivered now. Gives how long to wait; `least` is what the receiver asked for.
    pub fn failed(mut self, why: &str, least: Option<Duration>) -> Result<Duration> {
        let doubled = 1u32 << self.attempts.len().min(12);
        let pause = (FIRST_PAUSE * doubled).min(LONGEST_PAUSE);
        // Up to a half more, so that those who failed together do not come back together.
        let jitter = pause.mul_f64(f64::from(fsx::random() % 1024) / 2048.0);
        let pause = (pause + jitter).max(least.unwrap_or_default());
        let now = clock::wall();
        self.write(&Attempt {
            at: rfc3339(now),
            why: why.to_owned(),
            next: rfc3339(now + pause),
        })?;
        Ok(pause)
    }

    fn write(&mut self, attempt: &Attempt) -> Result<()> {
        let line = serde_json::to_string(attempt).unwrap_or_default();
        self.held
            .note(&line)
            .map_err(|source| Error::sys("note an attempt", source))
    }

    fn settle(mut self, part: &str, why: &str) -> Result<()> {
        let now = rfc3339(clock::wall());
        let failed = |source| Error::sys("mark an event", source);
        // Only a comment: the name of the file is what counts, so a full disk is no obstacle.
        drop(self.write(&Attempt {
            at: now.clone(),
            why: why.to_owned(),
            next: now,
        }));
        let to = fsx::open_dir_at(&self.dir, part).map_err(failed)?;
        self.held.settle(&to, &self.eid).map_err(failed)
    }
}

/// How long an attempt asks to wait. A clock that was set back must not make it longer than it was.
fn pause_of(attempt: &Attempt) -> Option<Duration> {
    let now = clock::wall();
    let next = humantime::parse_rfc3339(&attempt.next).ok()?;
    let meant = Duration::from_millis(wall_between(&attempt.at, next));
    let left = next.duration_since(now).ok()?.min(meant);
    (!left.is_zero()).then_some(left)
}

fn attempts(log: &str) -> Vec<Attempt> {
    log.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Why there is no claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoClaim {
    /// Delivered, dead, or not to be delivered any more.
    Settled,
    /// Somebody is at it now.
    Busy,
}

impl Store {
    fn subs(&self, make: bool) -> io::Result<OwnedFd> {
        root::inner(&self.base, "subs", make).map_err(io::Error::other)
    }

    fn sub_dir(&self, name: &str) -> io::Result<OwnedFd> {
        if !is_name(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        fsx::open_dir_at(self.subs(false)?, name)
    }

    fn sub_path(&self, name: &str) -> PathBuf {
        self.path.join("v1/subs").join(name)
    }

    /// Whether anybody at all wants to be told. One look at one directory.
    #[must_use]
    pub fn has_subscriptions(&self) -> bool {
        self.subs(false)
            .and_then(fsx::names)
            .is_ok_and(|names| names.iter().any(|name| name.to_str().is_some_and(is_name)))
    }

    /// Whether somebody may have to be told of something: a subscription stands, or one asked for jobs
    /// and has not got them all.
    #[must_use]
    pub fn may_owe(&self) -> bool {
        self.has_subscriptions()
            && self.subscriptions().iter().any(|sub| {
                sub.standing
                    || self
                        .marks(&sub.name)
                        .is_ok_and(|marks| marks.is_unsettled())
            })
    }

    /// Every subscription, by name. One that cannot be read is left out.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<Subscription> {
        let Ok(names) = self.subs(false).and_then(fsx::names) else {
            return Vec::new();
        };
        let mut subs: Vec<Subscription> = names
            .iter()
            .filter_map(|name| self.subscription(name.to_str()?))
            .collect();
        subs.sort_by(|a, b| a.name.cmp(&b.name));
        subs
    }

    /// One subscription.
    #[must_use]
    pub fn subscription(&self, name: &str) -> Option<Subscription> {
        let dir = self.sub_dir(name).ok()?;
        let Content::Bytes(bytes, _) = files::read(&dir, "sub.json").ok()? else {
            return None;
        };
        let mut sub: Subscription = serde_json::from_slice(&bytes).ok()?;
        if sub.secret_file.is_none() && fsx::stat_at(&dir, "secret").is_ok() {
            sub.secret_file = Some(self.secret_path(name));
        }
        (sub.format <= FORMAT && sub.name == name).then_some(sub)
    }

    /// Makes a subscription. One that was only made for jobs asked for by name becomes a standing one
    /// and keeps its markers; a standing one of the same name is an error. `secret` is a new key, kept
    /// with it; a key that is there stays.
    pub fn subscribe(&self, sub: &Subscription, secret: Option<&str>) -> Result<()> {
        let path = self.sub_path(&sub.name);
        let failed = |source| Error::io("make", &path, source);
        if !is_name(&sub.name) {
            return Err(Error::Failed {
                text: format!("'{}' cannot name a subscriber", sub.name),
                hint: None,
            });
        }
        let subs = self.subs(true).map_err(failed)?;
        let mut bytes = serde_json::to_vec_pretty(sub).map_err(|error| failed(error.into()))?;
        bytes.push(b'\n');
        let fresh = format!(".new.{:08x}", fsx::random());
        fsx::make_dir_at(&subs, fresh.as_str()).map_err(failed)?;
        let made = fill(&subs, &fresh, &bytes, secret)
            .and_then(|()| fsx::rename_new_at(&subs, fresh.as_str(), &subs, sub.name.as_str()));
        match made {
            Ok(()) => return fsx::sync_dir(&subs).map_err(failed),
            Err(error) => {
                markers::remove_tree(&subs, &fresh);
                if error.kind() != io::ErrorKind::AlreadyExists {
                    return Err(failed(error));
                }
            }
        }
        match self.subscription(&sub.name) {
            Some(old) if old.standing => Err(Error::Failed {
                text: format!("there is a subscription '{}' already", sub.name),
                hint: Some(format!(
                    "'agent-sh notify remove {}' removes it, --as NAME gives this one another name",
                    sub.name
                )),
            }),
            _ if !sub.standing => Ok(()),
            _ => self.replace(&sub.name, &bytes).map_err(failed),
        }
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let dir = self.sub_dir(name)?;
        let temporary = format!("sub.tmp.{:08x}", fsx::random());
        files::write_new(&dir, &temporary, bytes)?.sync_all()?;
        fsx::rename_at(&dir, temporary.as_str(), &dir, "sub.json")?;
        fsx::sync_dir(&dir)
    }

    /// Removes a subscription with all its markers. `false`: there is none.
    pub fn unsubscribe(&self, name: &str) -> Result<bool> {
        let failed = |source| Error::io("remove", &self.sub_path(name), source);
        if self.sub_dir(name).is_err() {
            return Ok(false);
        }
        let subs = self.subs(false).map_err(failed)?;
        let gone = format!(".gone.{:08x}", fsx::random());
        match fsx::rename_new_at(&subs, name, &subs, gone.as_str()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other.map_err(failed)?,
        }
        markers::remove_tree(&subs, &gone);
        Ok(true)
    }

    /// Where the key is that was made for a subscription.
    #[must_use]
    pub fn secret_path(&self, name: &str) -> PathBuf {
        self.sub_path(name).join("secret")
    }

    /// Why the receiver wants nothing more, if so.
    #[must_use]
    pub fn disabled(&self, name: &str) -> Option<String> {
        let dir = self.sub_dir(name).ok()?;
        match files::read(&dir, "disabled").ok()? {
            Content::Bytes(bytes, _) => Some(String::from_utf8_lossy(&bytes).trim().to_owned()),
            _ => None,
        }
    }

    /// The receiver said that it wants nothing more.
    pub fn disable(&self, name: &str, why: &str) -> Result<()> {
        let failed = |source| Error::io("write to", &self.sub_path(name), source);
        let dir = self.sub_dir(name).map_err(failed)?;
        match files::write_new(&dir, "disabled", format!("{why}\n").as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other.map(drop).map_err(failed),
        }
    }

    /// Asks for the end of this job by name.
    pub fn want(&self, name: &str, job: &JobId) -> Result<()> {
        let failed = |source| Error::io("write to", &self.sub_path(name), source);
        let dir = self.sub_dir(name).map_err(failed)?;
        let want = fsx::open_dir_at(&dir, "want").map_err(failed)?;
        match fsx::create_at(&want, job.as_str()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
            _ => fsx::sync_dir(&want).map_err(failed),
        }
    }

    /// Claims the delivery of an event to a subscriber.
    pub fn claim(&self, sub: &str, eid: &str) -> Result<std::result::Result<Claim, NoClaim>> {
        let failed = |source| Error::io("claim an event in", &self.sub_path(sub), source);
        let dir = self.sub_dir(sub).map_err(failed)?;
        let open = |part| fsx::open_dir_at(&dir, part).map_err(failed);
        let (claims, done, dead) = (open("claim")?, open("done")?, open("dead")?);
        let settled = || fsx::stat_at(&done, eid).is_ok() || fsx::stat_at(&dead, eid).is_ok();
        Ok(match hold(claims, eid, settled).map_err(failed)? {
            Ok(held) => Ok(Claim {
                attempts: attempts(&held.log),
                held,
                dir,
                eid: eid.to_owned(),
            }),
            Err(Taken::Settled) => Err(NoClaim::Settled),
            Err(Taken::Held) => Err(NoClaim::Busy),
        })
    }

    /// The jobs whose end is still to be told to this subscriber, the oldest first.
    pub fn pending(&self, sub: &Subscription) -> Result<Vec<JobView>> {
        if self.disabled(&sub.name).is_some() {
            return Ok(Vec::new());
        }
        let marks = self.marks(&sub.name)?;
        let ids = if sub.standing {
            self.ids()?
        } else {
            marks.wanted().cloned().collect()
        };
        let mut pending = Vec::new();
        for id in ids {
            if marks.is_settled(&exit_event(&id)) {
                continue;
            }
            if !marks.wants(&id) && self.is_older(&id, &sub.since) {
                continue;
            }
            let Ok(Some(job)) = self.load(&id) else {
                continue;
            };
            let wanted = |record| marks.wants(&id) || sub.wants(record);
            if job.format <= FORMAT && job.record.as_ref().is_some_and(wanted) {
                pending.push(job);
            }
        }
        crate::store::jobs::list::sort(&mut pending);
        Ok(pending)
    }

    /// Whether somebody is still to be told of this job's end. Such a job is not to be removed.
    #[must_use]
    pub fn has_undelivered(&self, job: &JobView) -> bool {
        let Some(record) = &job.record else {
            return false;
        };
        self.subscriptions().iter().any(|sub| {
            sub.sink != STDOUT
                && self.disabled(&sub.name).is_none()
                && self.marks(&sub.name).is_ok_and(|marks| {
                    let wanted = marks.wants(job.id()) || (sub.standing && sub.wants(record));
                    wanted && !marks.is_settled(&exit_event(job.id()))
                })
        })
    }

    /// Every job that somebody is still to be told of: for whoever looks through all of them.
    #[must_use]
    pub fn undelivered(&self) -> BTreeSet<JobId> {
        let pending = |sub: &Subscription| self.pending(sub).unwrap_or_default();
        let mut subs = self.subscriptions();
        subs.retain(|sub| sub.sink != STDOUT);
        let jobs = subs.iter().flat_map(pending);
        jobs.map(|job| job.launch.id).collect()
    }

    /// A record's file that was not touched since before the subscription need not be read.
    fn is_older(&self, id: &JobId, since: &Since) -> bool {
        let Ok(since) = humantime::parse_rfc3339(&since.at) else {
            return false;
        };
        let changed = fsx::open_dir_at(&self.jobs, id.as_str())
            .and_then(|dir| fsx::stat_at(&dir, "exit.json"))
            .ok()
            .and_then(|stat| u64::try_from(stat.st_mtime).ok());
        // An hour for clocks that are set. A time that no clock can name says nothing.
        let late = changed.and_then(|seconds| {
            SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds.checked_add(3600)?))
        });
        late.is_some_and(|late| late < since)
    }
}

fn fill(subs: &OwnedFd, name: &str, bytes: &[u8], secret: Option<&str>) -> io::Result<()> {
    let dir = fsx::open_dir_at(subs, name)?;
    for part in PARTS {
        fsx::make_dir_at(&dir, part)?;
    }
    if let Some(secret) = secret {
        files::write_new(&dir, "secret", format!("{secret}\n").as_bytes())?.sync_all()?;
    }
    files::write_new(&dir, "sub.json", bytes)?.sync_all()?;
    fsx::sync_dir(&dir)
}

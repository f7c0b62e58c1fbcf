//! The markers of a subscription, read all at once, and their removal with their jobs.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};

use super::{Attempt, PARTS, attempts, exit_event, job_of};
use crate::error::{Error, Result};
use crate::job::JobId;
use crate::store::Store;
use crate::store::gc::sweep::{ABANDONED, is_old};
use crate::store::jobs::files::{self, Content};
use crate::sys::fsx;

/// How it stands with one event for one subscriber.
#[derive(Clone, Debug)]
pub struct Standing {
    pub event: String,
    /// `pending`, `done` or `dead`.
    pub state: &'static str,
    /// The last line: why it failed, why it is dead, when it was delivered.
    pub last: Option<Attempt>,
    pub attempts: usize,
}

pub(super) struct Marks {
    want: BTreeSet<JobId>,
    settled: BTreeSet<String>,
}

impl Marks {
    pub(super) fn wants(&self, id: &JobId) -> bool {
        self.want.contains(id)
    }

    pub(super) fn wanted(&self) -> impl Iterator<Item = &JobId> {
        self.want.iter()
    }

    /// Whether a job that was asked for was neither delivered nor given up.
    pub(super) fn is_unsettled(&self) -> bool {
        self.want.iter().any(|id| !self.is_settled(&exit_event(id)))
    }

    pub(super) fn is_settled(&self, eid: &str) -> bool {
        self.settled.contains(eid)
    }
}

fn listed(dir: &OwnedFd, part: &str) -> Vec<String> {
    let names = fsx::open_dir_at(dir, part).and_then(fsx::names);
    names
        .unwrap_or_default()
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .collect()
}

impl Store {
    pub(super) fn marks(&self, name: &str) -> Result<Marks> {
        let failed = |source| Error::io("read", &self.sub_path(name), source);
        let dir = self.sub_dir(name).map_err(failed)?;
        let mut settled: BTreeSet<String> = listed(&dir, "done").into_iter().collect();
        settled.extend(listed(&dir, "dead"));
        let want = listed(&dir, "want");
        Ok(Marks {
            want: want.iter().filter_map(|name| name.parse().ok()).collect(),
            settled,
        })
    }

    /// Everything that is known of a subscriber's events: what is pending, delivered and dead.
    pub fn standings(&self, name: &str) -> Result<Vec<Standing>> {
        let sub = self.subscription(name);
        let failed = |source| Error::io("read", &self.sub_path(name), source);
        let dir = self.sub_dir(name).map_err(failed)?;
        let mut found = Vec::new();
        for part in ["done", "dead"] {
            for event in listed(&dir, part) {
                let tried = tries(&dir, part, &event);
                found.push(Standing {
                    event,
                    state: part,
                    attempts: tried.len(),
                    last: tried.last().cloned(),
                });
            }
        }
        for job in sub.map_or(Ok(Vec::new()), |sub| self.pending(&sub))? {
            let event = exit_event(job.id());
            let tried = tries(&dir, "claim", &event);
            found.push(Standing {
                event,
                state: "pending",
                attempts: tried.len(),
                last: tried.last().cloned(),
            });
        }
        found.sort_by(|a, b| a.event.cmp(&b.event));
        Ok(found)
    }

    /// Removes the markers of a job that was removed.
    pub(in crate::store) fn forget_markers(&self, id: &JobId) {
        let Ok(subs) = self.subs(false) else { return };
        for name in fsx::names(&subs).unwrap_or_default() {
            let Some(dir) = name.to_str().and_then(|name| self.sub_dir(name).ok()) else {
                continue;
            };
            for part in PARTS {
                let Ok(part_dir) = fsx::open_dir_at(&dir, part) else {
                    continue;
                };
                for mark in listed(&dir, part) {
                    if job_of(&mark).as_ref() == Some(id) {
                        drop(fsx::unlink_at(&part_dir, mark.as_str()));
                    }
                }
            }
        }
    }

    /// Removes markers of jobs that are gone, and what a crash left half made or half removed.
    pub(in crate::store) fn sweep_outbox(&self) -> u64 {
        let Ok(subs) = self.subs(false) else {
            return 0;
        };
        let mut swept = 0;
        for name in fsx::names(&subs).unwrap_or_default() {
            let Some(name) = name.to_str() else { continue };
            if name.starts_with('.') {
                let stat = fsx::stat_at(&subs, name);
                let abandoned = stat.is_ok_and(|stat| is_old(&stat, ABANDONED));
                if abandoned {
                    remove_tree(&subs, name);
                    swept += 1;
                }
                continue;
            }
            let Ok(dir) = self.sub_dir(name) else {
                continue;
            };
            for part in PARTS {
                let Ok(part_dir) = fsx::open_dir_at(&dir, part) else {
                    continue;
                };
                for mark in listed(&dir, part) {
                    let lives = |id: JobId| fsx::stat_at(&self.jobs, id.as_str()).is_ok();
                    if !job_of(&mark).is_some_and(lives) {
                        drop(fsx::unlink_at(&part_dir, mark.as_str()));
                        swept += 1;
                    }
                }
            }
            // One that only asked for jobs goes with the last of them, unless a receiver has its key;
            // not at once, for it may be about to ask.
            let standing = self.subscription(name).is_none_or(|sub| sub.standing);
            let empty = PARTS.iter().all(|part| listed(&dir, part).is_empty());
            let old = fsx::stat_of(&dir).is_ok_and(|stat| is_old(&stat, ABANDONED));
            if !standing && empty && old && fsx::stat_at(&dir, "secret").is_err() {
                swept += u64::from(self.unsubscribe(name).unwrap_or(false));
            }
        }
        swept
    }
}

fn tries(dir: &OwnedFd, part: &str, event: &str) -> Vec<Attempt> {
    let read = fsx::open_dir_at(dir, part).and_then(|part| files::read(part, event));
    match read {
        Ok(Content::Bytes(bytes, _)) => attempts(&String::from_utf8_lossy(&bytes)),
        _ => Vec::new(),
    }
}

/// Removes a subscription's directory, which nobody else looks into any more.
pub(super) fn remove_tree(subs: impl AsFd, name: &str) {
    let Ok(dir) = fsx::open_dir_at(subs.as_fd(), name) else {
        return;
    };
    for part in PARTS {
        if let Ok(inner) = fsx::open_dir_at(&dir, part) {
            for file in fsx::names(&inner).unwrap_or_default() {
                drop(fsx::unlink_at(&inner, file.as_os_str()));
            }
            drop(fsx::remove_dir_at(&dir, part));
        }
    }
    for file in fsx::names(&dir).unwrap_or_default() {
        drop(fsx::unlink_at(&dir, file.as_os_str()));
    }
    drop(fsx::remove_dir_at(subs, name));
}

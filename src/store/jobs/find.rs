//! Finding one job by what somebody typed.

use std::os::fd::AsFd;

use crate::error::{Error, Result};
use crate::job::record::LaunchLabel;
use crate::job::{JobId, is_id_prefix};
use crate::store::index::timeline;
use crate::store::jobs::files::{self, Content};
use crate::store::{JobView, Store, fsx, root};

/// Between the name and the id in `names/`; no name has it.
const BETWEEN: char = '~';

impl Store {
    /// Leaves a trace of a job's name, so that it is found without every job being read. Where that
    /// fails, finding is slower.
    pub(in crate::store) fn note_name(&self, name: &str, id: &JobId) {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            return;
        }
        if let Ok(names) = root::inner(&self.base, "names", true) {
            drop(fsx::create_at(
                &names,
                format!("{name}{BETWEEN}{id}").as_str(),
            ));
        }
    }

    /// The jobs that had this name at their start; some may be gone.
    fn named(&self, name: &str) -> Vec<JobId> {
        let Ok(names) = root::inner(&self.base, "names", false) else {
            return Vec::new();
        };
        let found = fsx::names(names).unwrap_or_default();
        found
            .iter()
            .filter_map(|entry| entry.to_str()?.rsplit_once(BETWEEN))
            .filter_map(|(entry, id)| (entry == name).then(|| id.parse().ok())?)
            .collect()
    }

    /// Removes the traces of names whose jobs are gone. Young ones stay: their job may be coming.
    pub(in crate::store) fn sweep_names(&self, is_old: impl Fn(&nix::sys::stat::FileStat) -> bool) {
        let Ok(names) = root::inner(&self.base, "names", false) else {
            return;
        };
        for entry in fsx::names(&names).unwrap_or_default() {
            let id = entry
                .to_str()
                .and_then(|entry| entry.rsplit_once(BETWEEN)?.1.parse::<JobId>().ok());
            let is_there = id.is_some_and(|id| fsx::stat_at(&self.jobs, id.as_str()).is_ok());
            if !is_there
                && fsx::stat_at(names.as_fd(), entry.as_os_str()).is_ok_and(|stat| is_old(&stat))
            {
                drop(fsx::unlink_at(&names, entry.as_os_str()));
            }
        }
    }

    pub(in crate::store) fn label(&self, id: &JobId) -> Option<LaunchLabel> {
        match files::read_below(&self.jobs, id.as_str(), "run.json").ok()? {
            Content::Bytes(bytes, _) => serde_json::from_slice(&bytes).ok(),
            _ => None,
        }
    }
}

/// Finds one job: by its id, by a name given to it, by `last`, or by the beginning of its id.
///
/// A name stands before a beginning, for ids of one hour begin alike and names are short; of
/// several jobs with one name the newest that runs is meant, else the newest, and one of the caller's
/// session before others.
/// `last` is the newest of the session, or of all where the caller has none.
pub(crate) fn find(stores: &[Store], wanted: &str, session: Option<&str>) -> Result<JobView> {
    let whole = wanted.parse::<JobId>().ok();
    if let Some(id) = &whole {
        for store in stores {
            if let Some(view) = store.load(id)? {
                return view.readable();
            }
        }
    }
    if wanted == "last" {
        return match newest(stores, session)? {
            Some((store, id)) => store.load(&id)?.ok_or_else(|| unknown(wanted))?.readable(),
            None => {
                let others = stores
                    .iter()
                    .any(|store| store.ids().is_ok_and(|ids| !ids.is_empty()));
                Err(Error::NoLast { others })
            }
        };
    }
    let named = stores
        .iter()
        .flat_map(|store| store.named(wanted).into_iter().map(move |id| (store, id)));
    if let Some((store, id)) = best_named(named, wanted, session) {
        return store.load(&id)?.ok_or_else(|| unknown(wanted))?.readable();
    }
    let mut all = Vec::new();
    for store in stores {
        all.extend(store.ids()?.into_iter().map(|id| (store, id)));
    }
    let begins: Vec<&(&Store, JobId)> = all
        .iter()
        .filter(|(_, id)| is_id_prefix(wanted) && id.as_str().starts_with(wanted))
        .collect();
    match begins.as_slice() {
        [(store, id)] => return store.load(id)?.ok_or_else(|| unknown(wanted))?.readable(),
        [] => {}
        several => {
            let mut ids: Vec<String> = several.iter().map(|(_, id)| id.to_string()).collect();
            ids.sort();
            return Err(Error::Ambiguous {
                wanted: wanted.to_owned(),
                ids,
            });
        }
    }
    // A name whose trace could not be written is still in its job.
    if let Some((store, id)) = best_named(all.into_iter(), wanted, session)
        && let Some(view) = store.load(&id)?
    {
        return view.readable();
    }
    match whole {
        Some(id) if timeline::was_removed(stores, &id) => Err(Error::Gone { id: id.to_string() }),
        _ => Err(unknown(wanted)),
    }
}

fn unknown(wanted: &str) -> Error {
    Error::NoJob {
        wanted: crate::text::shorten(wanted, 80),
    }
}

/// Of these jobs, the newest with that name; one of the session before others, then one that runs.
fn best_named<'a>(
    jobs: impl Iterator<Item = (&'a Store, JobId)>,
    name: &str,
    session: Option<&str>,
) -> Option<(&'a Store, JobId)> {
    jobs.filter_map(|(store, id)| {
        let label = store.label(&id)?;
        if label.name.as_deref() != Some(name) {
            return None;
        }
        let ours = session.is_some() && label.session.as_deref() == session;
        let view = store.load(&id).ok().flatten();
        let runs = view.is_some_and(|view| !view.state.is_terminal());
        let started = (label.started_at, label.proc.pid);
        Some(((ours, runs), started, id, store))
    })
    .max_by(|a, b| (a.0, &a.1, &a.2).cmp(&(b.0, &b.1, &b.2)))
    .map(|(_, _, id, store)| (store, id))
}

/// The newest job of the session, or of all. Nothing starts after its `run.json` was written, so the
/// times of the files say when to stop reading them.
fn newest<'a>(stores: &'a [Store], session: Option<&str>) -> Result<Option<(&'a Store, JobId)>> {
    let mut all = Vec::new();
    for store in stores {
        for id in store.ids()? {
            let path = format!("{id}/run.json");
            let Ok(stat) = fsx::stat_at(&store.jobs, path.as_str()) else {
                continue;
            };
            all.push(((stat.st_mtime, stat.st_mtime_nsec), store, id));
        }
    }
    all.sort_by_key(|job| std::cmp::Reverse(job.0));
    let mut best: Option<((String, i32), i64, &Store, JobId)> = None;
    for ((written, _), store, id) in all {
        // A second of slack: the clocks of a file system tick coarsely.
        if best
            .as_ref()
            .is_some_and(|(_, at, ..)| written.saturating_add(1) < *at)
        {
            break;
        }
        let Some(label) = store.label(&id) else {
            continue;
        };
        let fits = session.is_none() || label.session.as_deref() == session;
        let at = (label.started_at, label.proc.pid);
        let newer = best
            .as_ref()
            .is_none_or(|(was, _, _, old)| (&at, &id) > (was, old));
        if fits && newer {
            let started = humantime::parse_rfc3339(&at.0).ok();
            let seconds = started
                .and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok())
                .map_or(0, |at| at.as_secs().cast_signed());
            best = Some((at, seconds, store, id));
        }
    }
    Ok(best.map(|(_, _, store, id)| (store, id)))
}

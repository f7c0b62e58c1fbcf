//! Telling the agent through its next command: after the command's own output, one line on stderr for each
//! job of the same session that has ended and that the agent has not heard of. This works in every harness,
//! also in one that knows nothing of us.
//!
//! A command that has nothing to tell pays one look for each place where the state may be.

use std::io::Write;

use crate::caller;
use crate::job::notice::{self, Reader};
use crate::job::record::caller_key;
use crate::settings::Settings;
use crate::store::outbox::acknowledged;
use crate::store::{self, JobView, Store};
use crate::sys::fds::{self, Kind};
use crate::sys::{proc, session};

/// So many ends have a line of their own.
const MOST: usize = 8;

/// Tells what there is to tell. The words must have somewhere to go.
pub(super) fn after_command(settings: &Settings) {
    let stores = Store::with_untold(settings, crate::config::env);
    if stores.is_empty() || !is_read() {
        return;
    }
    let parent = session::parent_pid();
    let key = caller::on_behalf(settings, |name| std::env::var_os(name), parent).0;
    for store in &stores {
        let key = match &key {
            Some(key) if store::is_client_key(key) => {
                Some(store.conversation(key).unwrap_or_else(|| key.clone()))
            }
            Some(key) => Some(key.clone()),
            None => caller_of(parent).map(|caller| caller_key(&caller)),
        };
        if let Some(key) = key {
            tell(store, &key);
        }
    }
}

/// The process that makes the calls, `PID.START`.
fn caller_of(pid: i32) -> Option<String> {
    let stat = proc::stat(pid).filter(|stat| stat.pid > 1)?;
    Some(format!("{}.{}", stat.pid, stat.starttime))
}

/// Whether somebody can read our stderr: what goes to `/dev/null` was not told.
fn is_read() -> bool {
    !matches!(fds::kind(2), Kind::Closed | Kind::Other)
}

fn tell(store: &Store, key: &str) {
    // Claimed before anything is said: whoever else is at it tells it.
    let mut claimed = Vec::new();
    for id in store.untold(key) {
        match store.load(&id) {
            Ok(Some(job)) if is_untold(&job) => {
                let claim = acknowledged::claim(&job);
                claimed.extend(claim.map(|claim| (job, claim)));
            }
            // A record that cannot be read now may be later.
            Err(_) => {}
            Ok(_) => store.forget_untold(key, &id),
        }
    }
    let records = claimed.iter().filter_map(|(job, _)| job.record.as_ref());
    let mut lines: Vec<String> = records
        .take(MOST)
        .map(|record| notice::line(record, Reader::default()))
        .collect();
    if claimed.len() > MOST {
        let more = claimed.len() - MOST;
        let jobs = if more == 1 { "job" } else { "jobs" };
        lines.push(format!(
            "[agent-sh] {more} more {jobs} ended: agent-sh ps -a"
        ));
    }
    if lines.is_empty() {
        return;
    }
    let text = lines.join("\n") + "\n";
    if std::io::stderr().write_all(text.as_bytes()).is_err() {
        return;
    }
    for (_, claim) in claimed {
        // A marker that cannot be written means a second line, no failure.
        drop(claim.done());
    }
}

/// Whether the end of a job is news to whoever made the calls.
fn is_untold(job: &JobView) -> bool {
    let record = job.record.as_ref();
    record.is_some_and(|record| record.is_no_news().is_none())
        && !acknowledged::is_told(job)
        && !acknowledged::is_waited(job)
}

//! The end of a job as the name of a file, for a disk that has room for nothing else:
//! `exit.is.<outcome>.<wall ms>.<boot ms>.<bytes written>.<bytes refused>`.

use std::os::fd::AsFd;
use std::time::{Duration, UNIX_EPOCH};

use crate::job::record::{ExitFacts, Moment, millis};
use crate::job::{LostReason, Outcome};
use crate::sys::fsx;

const BEGIN: &str = "exit.is.";

/// What a name states.
pub(in crate::store) struct Stated {
    pub(in crate::store) outcome: Outcome,
    /// Missing in a name that says less.
    pub(in crate::store) more: Option<More>,
}

pub(in crate::store) struct More {
    pub(in crate::store) ended: Moment,
    pub(in crate::store) bytes_total: u64,
    pub(in crate::store) dropped_bytes: u64,
}

pub(in crate::store) fn name(facts: &ExitFacts) -> String {
    let outcome = match &facts.outcome {
        Outcome::Exited(code) => format!("exited-{code}"),
        Outcome::Signaled { signal, core } => {
            let core = if *core { "-core" } else { "" };
            format!("signaled-{signal}{core}")
        }
        Outcome::Lost(_) => "lost".to_owned(),
    };
    let (wall, boot) = facts.ended;
    let wall = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
    let output = &facts.output;
    format!(
        "{BEGIN}{outcome}.{}.{}.{}.{}",
        millis(wall),
        millis(boot),
        output.bytes_total,
        output.dropped_bytes
    )
}

/// What the name of one of these files states.
pub(in crate::store) fn find(dir: impl AsFd) -> Option<Stated> {
    let names = fsx::names(dir).unwrap_or_default();
    names.iter().find_map(|name| read(name.to_str()?))
}

fn read(name: &str) -> Option<Stated> {
    let mut parts = name.strip_prefix(BEGIN)?.split('.');
    let outcome = outcome(parts.next()?)?;
    let numbers: Option<Vec<u64>> = parts.map(|part| part.parse().ok()).collect();
    let more = match numbers.as_deref() {
        Some(&[wall, boot, bytes_total, dropped_bytes]) => {
            let boot = Duration::from_millis(boot);
            let wall = UNIX_EPOCH.checked_add(Duration::from_millis(wall));
            wall.map(|wall| More {
                ended: (wall, boot),
                bytes_total,
                dropped_bytes,
            })
        }
        _ => None,
    };
    Some(Stated { outcome, more })
}

fn outcome(word: &str) -> Option<Outcome> {
    if let Some(code) = word.strip_prefix("exited-") {
        return code.parse().ok().map(Outcome::Exited);
    }
    if word == "lost" {
        return Some(Outcome::Lost(LostReason::StatusUnseen));
    }
    let signal = word.strip_prefix("signaled-")?;
    let (signal, core) = match signal.strip_suffix("-core") {
        Some(signal) => (signal, true),
        None => (signal, false),
    };
    let signal = signal.parse().ok()?;
    Some(Outcome::Signaled { signal, core })
}

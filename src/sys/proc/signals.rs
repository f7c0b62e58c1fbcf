//! The signals of other processes: which wait for them, which they block.

use super::{Stat, path};
use crate::sys::signal::HARMLESS;

/// Whether a process that lives is about to end: its end has begun, or a signal that it can do nothing
/// about waits for it to be given a processor. One that is stopped dies only when it goes on.
#[must_use]
pub(crate) fn is_dying(stat: &Stat) -> bool {
    if stat.exiting {
        return true;
    }
    let status = path(stat.pid, "status").and_then(|path| std::fs::read_to_string(path).ok());
    status.is_some_and(|status| has_fatal_signal(stat.state, &status))
}

/// Whether a process blocks `signal`.
#[must_use]
pub(crate) fn blocks(pid: i32, signal: i32) -> bool {
    let status = path(pid, "status").and_then(|path| std::fs::read_to_string(path).ok());
    status.is_some_and(|status| set(&status, "SigBlk:") & bit(signal) != 0)
}

/// One of the sets of signals that a process has.
fn set(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0)
}

fn bit(signal: i32) -> u64 {
    let shift = u32::try_from(signal - 1).ok();
    shift.and_then(|shift| 1u64.checked_shl(shift)).unwrap_or(0)
}

fn has_fatal_signal(state: u8, status: &str) -> bool {
    let set = |name: &str| set(status, name);
    let pending = set("SigPnd:") | set("ShdPnd:");
    if pending & bit(libc::SIGKILL) != 0 {
        return true;
    }
    let survived = HARMLESS.iter().fold(0, |all, &signal| all | bit(signal));
    let handled = set("SigBlk:") | set("SigIgn:") | set("SigCgt:") | survived;
    !matches!(state, b'T' | b't') && pending & !handled != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_waits_is_the_end_of_whoever_does_nothing_about_it() {
        let status = |pending: u64, blocked: u64, ignored: u64, caught: u64| {
            format!(
                "Name:\tx\nSigQ:\t0/1\nSigPnd:\t{:016x}\nShdPnd:\t{pending:016x}\n\
                 SigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\n",
                0
            )
        };
        let (term, kill, child) = (1 << 14, 1 << 8, 1 << 16);
        for (state, pending, others, dying) in [
            (b'S', 0, [0, 0, 0], false),
            (b'S', term, [0, 0, 0], true),
            (b'R', term | child, [child, 0, 0], true),
            (b'S', child, [0, 0, 0], false),
            (b'S', term, [term, 0, 0], false),
            (b'S', term, [0, term, 0], false),
            (b'S', term, [0, 0, term], false),
            (b'T', term, [0, 0, 0], false),
            (b'T', kill, [0, 0, 0], true),
        ] {
            let [blocked, ignored, caught] = others;
            let text = status(pending, blocked, ignored, caught);
            assert_eq!(has_fatal_signal(state, &text), dying, "{state} {text}");
        }
        assert!(!has_fatal_signal(b'S', ""));
    }

    #[test]
    fn no_signal_is_blocked_by_nobody() {
        assert!(!blocks(i32::MAX, libc::SIGTERM));
        assert_eq!(
            [bit(0), bit(-5), bit(65), bit(1), bit(64)],
            [0, 0, 0, 1, 1 << 63]
        );
    }
}

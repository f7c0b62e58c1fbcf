//! What processes of ours say to each other: front ↔ supervisor over two pipes that only they hold,
//! and launcher → supervisor, verb → supervisor over a pipe that others reach through `/proc`.
//!
//! There is no named socket or FIFO: inside some sandboxes they cannot be made, and after a SIGKILL
//! they would stay behind. `AGENT_SH_SUPERVISOR` holds the supervisor's pid, the number of
//! the descriptor and which pipe that is; opening `/proc/PID/fd/N` opens that very pipe, for
//! processes of the same user alone.

mod address;
mod codec;
pub(crate) mod control;
mod frame;
mod front_link;
mod kill_set;
mod register;
mod work;

use std::ffi::CStr;

pub use address::Address;
pub(crate) use address::nested_supervisor;
pub use frame::Request;
pub(crate) use front_link::{FrontLink, SupervisorLink, ToFront, ToSupervisor};
pub(crate) use kill_set::{KillSet, Origin, Who, is_daemon_of, may_be_daemon, origin};
pub use register::{Register, Registered};
pub(crate) use work::{Anchorage, Group, LoneJob, RunJob, RunRequest, Work};

/// What `ps` shows of a supervisor.
pub(crate) const SUPERVISOR_TITLE: &CStr = c"agent-sh supervisor";
/// The variable that tells descendants about their supervisor.
pub(crate) const SUPERVISOR_VARIABLE: &str = "AGENT_SH_SUPERVISOR";
/// The variable that tells descendants which process made the call: the way up ends at their supervisor,
/// whose parent is init.
pub(crate) const CALLER_VARIABLE: &str = "AGENT_SH_CALLER";
/// The variable that names the streams on which every job is shown already (`entrypoint --mirror`).
pub(crate) const MIRROR_VARIABLE: &str = "AGENT_SH_MIRROR";
/// The variable that tells a job its own id.
pub(crate) const JOB_VARIABLE: &str = "AGENT_SH_JOB";

/// Signals whose state the front or the supervisor changes, to be put back for the real shell.
pub(crate) const CHANGED_SIGNALS: &[i32] = &[
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGPIPE,
    libc::SIGCHLD,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// Tells a supervisor, from its parent, to end its jobs; the number beside it is the time from TERM to
/// KILL, in milliseconds. The signal of a failing power supply, which container managers use likewise.
pub(crate) const END_JOBS: i32 = libc::SIGPWR;

/// Pagers would wait for a person at the terminal that a job is given.
const PAGERS: [&str; 4] = ["PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"];

/// The variables that a job gets beyond the caller's, as `NAME=value`.
#[must_use]
pub(crate) fn job_environment(id: &str, tty: bool) -> Vec<Vec<u8>> {
    let mut extra = Vec::new();
    if !id.is_empty() {
        extra.push(format!("{JOB_VARIABLE}={id}").into_bytes());
    }
    if tty {
        let unset = PAGERS
            .iter()
            .filter(|name| std::env::var_os(name).is_none());
        extra.extend(unset.map(|name| format!("{name}=cat").into_bytes()));
    }
    extra
}

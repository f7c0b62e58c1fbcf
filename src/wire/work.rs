//! What the front hands to the supervisor, by forking: a command, or a job to be started outright.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicI32;
use std::time::Duration;

use crate::plan::asked::Asked;
use crate::settings::Settings;
use crate::sys::affinity::Affinity;
use crate::sys::session;
use crate::sys::signal::Saved;

use super::control;
use super::front_link::FrontLink;

/// A job that is known before it starts.
pub(crate) struct LoneJob {
    pub asked: Asked,
    pub command: Vec<u8>,
}

/// What the front hands to the supervisor, by forking.
pub(crate) struct Work {
    /// The real shell's path, and its argv: rewritten if the text starts jobs.
    pub shell: PathBuf,
    pub argv: Vec<OsString>,
    /// The argv as it came, for when the rewritten one is refused by the kernel.
    pub untouched: Vec<OsString>,
    /// Whether `argv` was rewritten, so that jobs are to register.
    pub has_spots: bool,
    /// The one job that the text can start, if that is plain to see.
    pub lone: Option<LoneJob>,
    /// The command as it came, for records.
    pub command: Vec<u8>,
    pub settings: Settings,
    /// Signals as the harness left them.
    pub saved: Saved,
    /// `Some` while the start is kept on one processor; to be given back to the shell.
    pub affinity: Option<Affinity>,
    /// The process that started the front.
    pub caller: i32,
    /// The front itself.
    pub front: i32,
    /// The path of this program.
    pub ourselves: PathBuf,
    /// `Some` iff the front has a controlling terminal.
    pub terminal: Option<OwnedFd>,
    /// Where at that terminal the shell is to run.
    pub group: Group,
    /// Where the front looks up the pid of the real shell once that runs, which is also its group.
    /// `Some` once handed over.
    pub shell_pid: Option<&'static AtomicI32>,
    /// `Some` in the supervisor, and as long as the front is to be told something.
    pub link: Option<FrontLink>,
    /// `Some` for `agent-sh run`: the command is itself a job.
    pub run: Option<RunJob>,
}

/// The process group of a shell at a terminal.
#[derive(Debug)]
pub(crate) enum Group {
    /// It leads one.
    Own,
    /// It stays in the front's.
    Shared,
    /// It leads one, and an anchor of the front's is to be called into that before the shell runs.
    Anchored(Anchorage),
}

/// How to call an anchor.
#[derive(Debug)]
pub(crate) struct Anchorage {
    /// Takes the number of the group.
    pub call: OwnedFd,
    /// Ends when the anchor is there.
    pub answer: OwnedFd,
}

impl Work {
    /// A command as it came: not rewritten, not handed over yet.
    #[must_use]
    pub(crate) fn new(
        shell: PathBuf,
        argv: Vec<OsString>,
        command: Vec<u8>,
        settings: Settings,
        saved: Saved,
        ourselves: PathBuf,
    ) -> Self {
        Self {
            shell,
            untouched: argv.clone(),
            argv,
            has_spots: false,
            lone: None,
            command,
            settings,
            saved,
            affinity: None,
            caller: session::parent_pid(),
            front: session::pid(),
            ourselves,
            terminal: session::controlling_terminal(),
            group: Group::Own,
            shell_pid: None,
            link: None,
            run: None,
        }
    }
}

/// A job to be started outright.
#[derive(Clone, Debug)]
pub(crate) struct RunRequest {
    /// The program and its arguments. With `is_text` it is one word: text for the real shell.
    pub argv: Vec<OsString>,
    pub is_text: bool,
    pub job: RunJob,
}

/// What `agent-sh run` adds to a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunJob {
    pub name: Option<String>,
    pub session: Option<String>,
    /// Absolute, and a directory when it was looked at.
    pub cwd: Option<PathBuf>,
    /// Its stdin is the pseudo-terminal, which is its controlling one.
    pub interactive: bool,
    pub timeout: Option<Duration>,
    /// How long it may write nothing.
    pub idle_timeout: Option<Duration>,
    /// Of its terminal, if not the usual.
    pub size: Option<control::Size>,
    /// The front stays and its stdout gets the job's output.
    pub wait: bool,
    /// The id is printed as JSON.
    pub json: bool,
    /// Variables that it gets beyond the caller's.
    pub env: Vec<(String, String)>,
}

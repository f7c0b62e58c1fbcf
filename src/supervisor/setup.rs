//! What was fixed when the supervisor started: the command, and on whose behalf it runs.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::caller;
use crate::settings::{Linger, OnTerm, Settings};
use crate::sys::fds::Object;
use crate::sys::signal::Saved;
use crate::text;
use crate::wire::{Group, RunJob, Work};

/// Read by every part, changed by none.
pub(super) struct Setup {
    pub(super) settings: Settings,
    /// The command as it came.
    pub(super) command: Vec<u8>,
    pub(super) shell_path: PathBuf,
    pub(super) shell_argv: Vec<OsString>,
    /// Whether the text was rewritten, so that jobs register.
    pub(super) has_spots: bool,
    /// `Some` iff the command is itself a job (`agent-sh run`).
    pub(super) run: Option<RunJob>,
    pub(super) has_terminal: bool,
    /// At a terminal, in the group of the front.
    pub(super) shares_group: bool,
    /// At a terminal, in a group of its own that the front lends the terminal to.
    pub(super) is_anchored: bool,
    /// Signals as the harness left them.
    pub(super) saved: Saved,
    /// The stdin that the shell was started with.
    pub(super) stdin: Option<Object>,
    /// How many descriptors there can be.
    pub(super) most_files: u64,
    /// The process that started the front, and the front itself.
    caller: i32,
    pub(super) front: i32,
    /// The path of this program.
    ourselves: PathBuf,
    /// What the announcement calls this program, once asked for.
    program_name: OnceCell<String>,
    /// Whether everything here dies with the call, once asked.
    dies_with_the_call: OnceCell<bool>,
}

impl Setup {
    pub(super) fn new(work: Work, stdin: Option<Object>, most_files: u64) -> Self {
        Self {
            settings: work.settings,
            command: work.command,
            shell_path: work.shell,
            shell_argv: work.argv,
            has_spots: work.has_spots,
            has_terminal: work.terminal.is_some() && work.run.is_none(),
            run: work.run,
            shares_group: matches!(work.group, Group::Shared),
            is_anchored: matches!(work.group, Group::Anchored(_)),
            saved: work.saved,
            stdin,
            most_files,
            caller: work.caller,
            front: work.front,
            ourselves: work.ourselves,
            program_name: OnceCell::new(),
            dies_with_the_call: OnceCell::new(),
        }
    }

    pub(super) fn is_run(&self) -> bool {
        self.run.is_some()
    }

    pub(super) fn term_promotes(&self) -> bool {
        self.settings.on_term == OnTerm::Promote
    }

    /// Whether every process here ends with the call.
    pub(super) fn dies_with_the_call(&self) -> bool {
        *self
            .dies_with_the_call
            .get_or_init(|| caller::dies_with_the_call(self.is_init(), self.caller))
    }

    /// Whether the front is PID 1 of its namespace.
    pub(super) fn is_init(&self) -> bool {
        self.front == 1
    }

    /// Whether the front stays until the jobs have ended.
    pub(super) fn lingers(&self) -> bool {
        match self.settings.linger {
            Linger::Always => true,
            Linger::Never => false,
            Linger::Auto => self.dies_with_the_call(),
        }
    }

    /// Whether `run` stays with its job: where that ends with the call, and nobody asked for that.
    pub(super) fn lingers_for_run(&self) -> bool {
        // With a size it was made for a terminal, at which the front attaches to it next.
        let attaches = self.run.as_ref().is_some_and(|run| run.size.is_some());
        !attaches && self.settings.linger != Linger::Never && self.dies_with_the_call()
    }

    /// `agent-sh` when that finds us (or another of us) in PATH, else the whole path.
    pub(super) fn program_name(&self) -> &str {
        self.program_name.get_or_init(|| {
            let listed = std::env::var_os("PATH").unwrap_or_default();
            let found = std::env::split_paths(&listed).any(|dir| dir.join("agent-sh").is_file());
            if found {
                "agent-sh".to_owned()
            } else {
                text::quote(self.ourselves.as_os_str().as_encoded_bytes())
            }
        })
    }
}

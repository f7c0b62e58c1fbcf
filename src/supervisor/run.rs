//! `agent-sh run`: a command that is a job from its first breath. The supervisor starts it itself, on
//! its own pseudo-terminal, behind a gate that opens once the job is published.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use super::control::Inbox;
use super::jobs::{Mirror, Output};
use super::ledger::Start;
use super::{Phase, Supervisor};
use crate::handoff::{self, FrontLink, RunJob, ToFront, Work};
use crate::job::How;
use crate::sys::fds::Kind;
use crate::sys::process::{self, Forked, Image};
use crate::sys::{clock, fds, pty, session};

/// Reads scripts that name no other.
const SHELL: &str = "/bin/sh";

/// A child that waits for its id before it becomes the program.
pub(super) struct Waiting {
    pub(super) pid: i32,
    gate: OwnedFd,
    errors: OwnedFd,
}

/// Forks the child. It owns `follower` as its output (and input, if interactive).
pub(super) fn fork_program(
    work: &Work,
    run: &RunJob,
    follower: &OwnedFd,
    tty: bool,
    marker: &[Vec<u8>],
) -> std::io::Result<Waiting> {
    let (gate, gate_end) = fds::pipe()?;
    let (errors, error_end) = fds::pipe()?;
    match process::fork()? {
        Forked::Parent(pid) => Ok(Waiting {
            pid,
            gate: gate_end,
            errors,
        }),
        Forked::Child => {
            drop((gate_end, errors));
            let mut keep = [follower, &gate, &error_end].map(|fd| fd.as_raw_fd());
            // All of these are closed by the exec; nothing else of the caller's goes to a job.
            fds::close_all_but(3, &mut keep);
            let error = become_program(work, run, follower.as_raw_fd(), tty, &gate, marker);
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            process::child_write(error_end.as_raw_fd(), &errno.to_le_bytes());
            process::exit_now(i32::from(code_of(errno)))
        }
    }
}

/// Runs in the child, which is single-threaded and may therefore allocate.
fn become_program(
    work: &Work,
    run: &RunJob,
    follower: i32,
    tty: bool,
    gate: &OwnedFd,
    marker: &[Vec<u8>],
) -> std::io::Error {
    drop(session::child_new_session());
    let mut id = [0u8; 16];
    let length = match nix::unistd::read(gate, &mut id) {
        Ok(length) if length > 0 => length,
        _ => process::exit_now(125),
    };
    if let Some(cwd) = &run.cwd
        && let Err(error) = std::env::set_current_dir(cwd)
    {
        return error;
    }
    if run.interactive {
        pty::child_make_controlling(follower);
        drop(fds::put(follower, 0));
    } else if !(run.wait && hands_on_stdin())
        && let Ok(null) = fds::open_path("/dev/null", libc::O_RDONLY)
    {
        drop(fds::put(null.as_raw_fd(), 0));
    }
    for fd in [1, 2] {
        drop(fds::put(follower, fd));
    }
    let id = String::from_utf8_lossy(&id[..length]);
    let mut extra = handoff::job_environment(&id, tty && !run.interactive);
    extra.extend(marker.iter().cloned());
    super::start::child_restore(work);
    let error = Image::new(&work.shell, &work.argv, &extra).child_exec();
    if error.raw_os_error() != Some(libc::ENOEXEC) {
        return error;
    }
    // A script without a `#!` line: whatever starts programs by name gives it to the shell.
    let mut script = vec![OsString::from(SHELL), work.shell.clone().into_os_string()];
    script.extend(work.argv.iter().skip(1).cloned());
    Image::new(Path::new(SHELL), &script, &extra).child_exec()
}

/// Whether the caller's stdin is somebody's data, for the command that it waits for. A terminal is the
/// caller's own, and a socket is what a harness leaves open behind a command that nobody feeds.
fn hands_on_stdin() -> bool {
    matches!(fds::kind(0), Kind::Pipe | Kind::File { .. })
}

/// As a shell has it: not found, or cannot be run.
fn code_of(errno: i32) -> u8 {
    if errno == libc::ENOENT { 127 } else { 126 }
}

impl Waiting {
    pub(super) fn descriptors(&self) -> [i32; 2] {
        [self.gate.as_raw_fd(), self.errors.as_raw_fd()]
    }

    /// Opens the gate and waits for the exec.
    fn release(&self, id: &str) -> std::io::Result<()> {
        nix::unistd::write(&self.gate, id.as_bytes())?;
        let mut errno = [0u8; 4];
        match nix::unistd::read(&self.errors, &mut errno) {
            Ok(4) => Err(std::io::Error::from_raw_os_error(i32::from_le_bytes(errno))),
            _ => Ok(()),
        }
    }
}

impl Supervisor {
    /// Publishes the job, lets it go, and tells the front.
    pub(super) fn begin_run(
        &mut self,
        waiting: &Waiting,
        output: Output,
        tty: bool,
        run: &RunJob,
        link: &mut FrontLink,
    ) {
        let text = self.command.clone();
        let start = Start {
            how: How::Run,
            pid: waiting.pid,
            text: &text,
            tty,
            redirected_to: None,
            redirected_stderr: None,
            transcript: None,
            degraded: Vec::new(),
            run: Some(run),
            was: None,
        };
        let Some(live) = self.ledger.publish(&start) else {
            let why = self.ledger.refusal().unwrap_or("nothing can be stored");
            link.tell(&ToFront::Say(format!("agent-sh: {why}\n").into_bytes()));
            link.tell(&ToFront::Done(125 << 8));
            // The gate closes unopened when the caller drops it, and the child goes.
            self.phase = Phase::Released;
            return;
        };
        let id = live.id().to_string();
        let mirror = (run.wait && !self.sinks.is_empty()).then_some(Mirror::Sink(0));
        self.add_started(waiting.pid, text, live, output, mirror);
        if let Some(job) = self.jobs.last_mut() {
            let now = clock::boottime();
            job.deadline = run.timeout.map(|timeout| now + timeout);
            job.idle = run.idle_timeout.map(|after| (now + after, after));
            job.inbox = run.interactive.then(Inbox::default);
        }
        let pid = waiting.pid;
        let text = if run.json {
            format!("{}\n", serde_json::json!({ "id": id, "pid": pid }))
        } else {
            format!("{id}\n")
        };
        // A failed exec shows as the child's exit code, 126 or 127, which the record will hold.
        let mut code = 0;
        match waiting.release(&id) {
            Ok(()) if run.wait => {}
            Ok(()) => link.tell(&ToFront::Job(text.into_bytes())),
            Err(error) => {
                let program = self.shell_path.display();
                let cause = crate::error::cause(&error);
                let text = format!("agent-sh: cannot start '{program}': {cause}\n");
                link.tell(&ToFront::Say(text.into_bytes()));
                code = code_of(error.raw_os_error().unwrap_or(libc::EIO));
            }
        }
        if !run.wait && code == 0 && self.lingers_for_run(run) {
            self.linger_with(0);
        } else if !run.wait {
            link.tell(&ToFront::Done(i32::from(code) << 8));
            self.phase = Phase::Released;
        }
    }
}

//! `agent-sh run`: a command that is a job from its start. The supervisor starts it itself, on its own
//! pseudo-terminal, behind a gate that opens once the job is published.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use super::channel::{Output, STDOUT, open_channel, open_interactive};
use super::input::Typing;
use super::output::Mirror;
use crate::job::{Degraded, How};
use crate::supervisor::Supervisor;
use crate::supervisor::publisher::Start;
use crate::supervisor::start::child_restore;
use crate::supervisor::timers::Timer;
use crate::sys::fds::Kind;
use crate::sys::process::{self, Forked, Image};
use crate::sys::{clock, fds, pty, session};
use crate::wire::{self, FrontLink, RunJob, ToFront, Work};

/// Reads scripts that name no other.
const SHELL: &str = "/bin/sh";

/// A child that waits for its id before it becomes the program.
struct Waiting {
    pid: i32,
    gate: OwnedFd,
    errors: OwnedFd,
}

/// A job that is forked and not published.
pub(in crate::supervisor) struct PreparedRun {
    waiting: Waiting,
    output: Output,
    tty: bool,
}

impl PreparedRun {
    /// Opens a terminal and forks the child.
    pub(in crate::supervisor) fn fork(
        work: &Work,
        run: &RunJob,
        marker: &[Vec<u8>],
        degraded: &mut Vec<Degraded>,
    ) -> std::io::Result<Self> {
        drop(session::child_new_session());
        let opened = if run.interactive {
            open_interactive()?
        } else {
            open_channel(work.settings.capture, degraded)
                .ok_or_else(std::io::Error::last_os_error)?
        };
        let (output, tty) = (Output::new(opened.channel, None), opened.tty);
        if let Some(size) = run.size {
            drop(pty::set_size(&output.main.leader, size.rows, size.columns));
        }
        let follower = output
            .follower()
            .ok_or_else(std::io::Error::last_os_error)?;
        let waiting = fork_program(work, run, follower, tty, marker)?;
        Ok(Self {
            waiting,
            output,
            tty,
        })
    }

    pub(in crate::supervisor) fn pid(&self) -> i32 {
        self.waiting.pid
    }

    pub(in crate::supervisor) fn descriptors(&self) -> impl Iterator<Item = i32> {
        let gate = self.waiting.gate.as_raw_fd();
        let errors = self.waiting.errors.as_raw_fd();
        [gate, errors].into_iter().chain(self.output.descriptors())
    }
}

/// Forks the child. It owns `follower` as its output (and input, if interactive).
fn fork_program(
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
    let ours = wire::job_environment(&id, tty && !run.interactive);
    let asked = run.env.iter();
    let mut extra: Vec<Vec<u8>> = asked
        .map(|(name, value)| format!("{name}={value}").into_bytes())
        .collect();
    extra.extend(ours.into_iter().filter(|entry| {
        let name = entry.split(|&byte| byte == b'=').next();
        let is_asked = |(asked, _): &(String, String)| Some(asked.as_bytes()) == name;
        !run.env.iter().any(is_asked)
    }));
    extra.extend(marker.iter().cloned());
    child_restore(work);
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
    /// Publishes the job, lets it go, and tells the front which it is, or why there is none. Gives whether
    /// the front waits for it.
    pub(in crate::supervisor) fn begin_run(
        &mut self,
        prepared: PreparedRun,
        run: &RunJob,
        link: &mut FrontLink,
    ) -> bool {
        let PreparedRun {
            waiting,
            output,
            tty,
        } = prepared;
        let Some(id) = self.publish_run(waiting.pid, output, tty, run) else {
            let why = self.publisher.refusal().unwrap_or("nothing can be stored");
            link.tell(&ToFront::Say(format!("agent-sh: {why}\n").into_bytes()));
            self.jobs.start_code = 125;
            // The gate closes unopened, and the child goes.
            return false;
        };
        // A failed exec shows as the child's exit code, 126 or 127, which the record will hold.
        match waiting.release(&id) {
            Ok(()) if run.wait => {}
            Ok(()) => link.tell(&ToFront::Job(shown_job(&id, waiting.pid, run.json))),
            Err(error) => {
                let program = self.setup.shell_path.display();
                let cause = crate::error::cause(&error);
                let text = format!("agent-sh: cannot start '{program}': {cause}\n");
                link.tell(&ToFront::Say(text.into_bytes()));
                self.jobs.start_code = code_of(error.raw_os_error().unwrap_or(libc::EIO));
            }
        }
        run.wait
    }

    /// The id of the job; `None` when nothing can be stored.
    fn publish_run(&mut self, pid: i32, output: Output, tty: bool, run: &RunJob) -> Option<String> {
        let text = self.setup.command.clone();
        let start = Start {
            tty,
            run: Some(run),
            ..Start::new(How::Run, pid, &text)
        };
        let live = self.publisher.publish(&start)?;
        let id = live.id().to_string();
        let mut job = self.new_job(&start, Some(live));
        job.output = Some(output);
        let is_shown = run.wait && self.call.relay.sink_count() > 0;
        job.shown.mirrors[STDOUT] = is_shown.then_some(Mirror::Sink(0));
        job.typing = run.interactive.then(Typing::default);
        job.limits.idle = run.idle_timeout;
        job.limits.last_output = clock::boottime();
        let ends = run.timeout.map(|timeout| job.limits.last_output + timeout);
        self.timers.set_to(Timer::JobDeadline(job.index), ends);
        let idle = run.idle_timeout.map(|after| job.limits.last_output + after);
        self.timers.set_to(Timer::JobIdle(job.index), idle);
        job.listen(&self.poller.epoll, true);
        self.jobs.push(job);
        Some(id)
    }
}

/// What `agent-sh run` prints.
fn shown_job(id: &str, pid: i32, json: bool) -> Vec<u8> {
    let text = if json {
        format!("{}\n", serde_json::json!({ "id": id, "pid": pid }))
    } else {
        format!("{id}\n")
    };
    text.into_bytes()
}

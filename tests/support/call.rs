//! Starting a program with every detail chosen, and collecting how it ended.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::streams::{Ends, Opened};
use super::{DEADLINE, Sandbox, Streams, holds_within};

/// What a call's stdin is.
pub(crate) enum Input {
    Null,
    /// A pipe that holds this text, then ends. At most one pipe buffer of it.
    Text(Vec<u8>),
    /// A regular file.
    File(PathBuf),
    Fd(OwnedFd),
}

/// How a process ended, as its parent sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Exited(i32),
    Signaled(i32),
}

impl From<ExitStatus> for Status {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, Some(signal)) => Self::Signaled(signal),
            (None, None) => panic!("neither a code nor a signal: {status:?}"),
        }
    }
}

/// How a call ended. `stderr` is empty where both streams are one object.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) status: Status,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Ended {
    pub(crate) fn succeeded(&self) -> bool {
        self.status == Status::Exited(0)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |bytes: &[u8]| bytes[..bytes.len().min(4000)].escape_ascii().to_string();
        f.debug_struct("Ended")
            .field("status", &self.status)
            .field("stdout", &short(&self.stdout))
            .field("stderr", &short(&self.stderr))
            .finish()
    }
}

/// A call that has not been made yet.
pub(crate) struct Call<'a> {
    sandbox: &'a Sandbox,
    command: Command,
    streams: Streams,
    input: Input,
    closed: Vec<RawFd>,
    ignored: Vec<i32>,
}

impl<'a> Call<'a> {
    pub(super) fn new(sandbox: &'a Sandbox, program: &Path, argv0: &str) -> Self {
        let mut command = Command::new(program);
        command
            .arg0(argv0)
            .env_clear()
            .envs(sandbox.environment())
            .current_dir(sandbox.work());
        Self {
            sandbox,
            command,
            streams: Streams::Pipe,
            input: Input::Null,
            closed: Vec::new(),
            ignored: Vec::new(),
        }
    }

    pub(crate) fn argv0(mut self, name: impl AsRef<OsStr>) -> Self {
        self.command.arg0(name);
        self
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.args([arg])
    }

    /// `-c TEXT`.
    pub(crate) fn c(self, text: impl AsRef<OsStr>) -> Self {
        self.args([OsStr::new("-c"), text.as_ref()])
    }

    pub(crate) fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.command.env(name.into(), value.into());
        self
    }

    pub(crate) fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub(crate) fn cwd(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    pub(crate) fn streams(mut self, streams: Streams) -> Self {
        self.streams = streams;
        self
    }

    pub(crate) fn input(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    /// Starts the call with this descriptor (0 to 2) closed.
    pub(crate) fn closed(mut self, fd: RawFd) -> Self {
        self.closed.push(fd);
        self
    }

    /// Starts the call with this signal ignored.
    pub(crate) fn ignoring(mut self, signal: i32) -> Self {
        self.ignored.push(signal);
        self
    }

    /// Starts it in a session of its own, as every harness does.
    pub(crate) fn start(mut self) -> Running {
        let Opened {
            stdin,
            stdout,
            stderr,
            ends,
        } = self.streams.open(&self.sandbox.fresh("call"));
        let input = match std::mem::replace(&mut self.input, Input::Null) {
            Input::Null => stdin.unwrap_or_else(Stdio::null),
            Input::File(path) => File::open(path).unwrap().into(),
            Input::Fd(fd) => fd.into(),
            Input::Text(text) => {
                let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
                std::io::Write::write_all(&mut File::from(writer), &text).unwrap();
                reader.into()
            }
        };
        self.command.stdin(input).stdout(stdout).stderr(stderr);
        let plan = super::call_child::Plan {
            terminal: self.streams == Streams::Terminal,
            closed: self.closed,
            ignored: self.ignored,
        };
        super::call_child::apply(&mut self.command, plan);
        let child = self.command.spawn();
        let child = child.unwrap_or_else(|error| panic!("{:?}: {error}", self.command));
        Running {
            child,
            streams: self.streams,
            ends,
        }
    }

    /// Starts it and waits for its end.
    #[track_caller]
    pub(crate) fn run(self) -> Ended {
        self.start().finish()
    }
}

/// A call under way.
pub(crate) struct Running {
    child: Child,
    streams: Streams,
    ends: Ends,
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The files that its streams are, if they are files.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        match &self.ends {
            Ends::Files(paths) => paths.clone(),
            Ends::Live(_) => Vec::new(),
        }
    }

    /// Waits until the call has returned, the way its harness would: end-of-file on live streams and the
    /// end of the process. On a terminal nobody else may be left holding it either.
    #[track_caller]
    pub(crate) fn finish(self) -> Ended {
        let (ended, rest) = self.collect(true);
        drop(rest);
        ended
    }

    /// Waits until the process has ended, and keeps the terminal open: a job that still holds it must
    /// not be hung up by the test.
    #[track_caller]
    pub(crate) fn returned(self) -> (Ended, Option<OwnedFd>) {
        let live = !self.streams.may_be_held();
        self.collect(live)
    }

    #[track_caller]
    fn collect(mut self, to_the_end: bool) -> (Ended, Option<OwnedFd>) {
        let mut bytes = vec![Vec::new(), Vec::new()];
        let mut kept = None;
        match self.ends {
            Ends::Live(ref fds) if to_the_end => read_to_end(fds, &mut bytes),
            Ends::Live(ref mut fds) => kept = fds.pop(),
            Ends::Files(ref paths) => {
                let status = exit_of(&mut self.child);
                for (path, bytes) in paths.iter().zip(&mut bytes) {
                    *bytes = std::fs::read(path).unwrap();
                }
                return (ended(status, bytes), None);
            }
        }
        let status = exit_of(&mut self.child);
        (ended(status, bytes), kept)
    }

    /// The process and its live streams, stdout first.
    pub(crate) fn into_files(self) -> (Child, Vec<File>) {
        let Ends::Live(fds) = self.ends else {
            panic!("no live streams")
        };
        (self.child, fds.into_iter().map(File::from).collect())
    }

    /// The descriptor that stdout arrives on; the call's other streams are closed.
    pub(crate) fn into_stdout(self) -> (Child, File) {
        let Ends::Live(fds) = self.ends else {
            panic!("no live streams")
        };
        (self.child, File::from(fds.into_iter().next().unwrap()))
    }
}

fn ended(status: Status, bytes: Vec<Vec<u8>>) -> Ended {
    let mut bytes = bytes.into_iter();
    Ended {
        status,
        stdout: bytes.next().unwrap(),
        stderr: bytes.next().unwrap(),
    }
}

#[track_caller]
pub(crate) fn exit_of(child: &mut Child) -> Status {
    let mut status = None;
    let over = holds_within(DEADLINE, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert!(over, "pid {} did not end within {DEADLINE:?}", child.id());
    status.unwrap().into()
}

/// Reads each descriptor to its end-of-file (EIO on a terminal). The descriptors stay open: to close a
/// terminal's leader hangs up on a call that has closed its streams but still runs.
#[track_caller]
fn read_to_end(fds: &[OwnedFd], bytes: &mut [Vec<u8>]) {
    let start = Instant::now();
    let mut files: Vec<Option<File>> = fds
        .iter()
        .map(|fd| Some(fd.try_clone().unwrap().into()))
        .collect();
    let mut buffer = vec![0; 65_536];
    while files.iter().any(Option::is_some) {
        assert!(
            start.elapsed() < DEADLINE,
            "no end-of-file; so far {bytes:?}"
        );
        let open: Vec<usize> = (0..files.len()).filter(|&i| files[i].is_some()).collect();
        let mut polls: Vec<PollFd> = open
            .iter()
            .map(|&i| PollFd::new(files[i].as_ref().unwrap().as_fd(), PollFlags::POLLIN))
            .collect();
        poll(&mut polls, PollTimeout::from(1000u16)).unwrap();
        let ready: Vec<usize> = polls
            .iter()
            .zip(open)
            .filter(|(poll, _)| poll.any().unwrap_or(true))
            .map(|(_, i)| i)
            .collect();
        for i in ready {
            match files[i].as_mut().unwrap().read(&mut buffer) {
                Ok(0) => files[i] = None,
                Ok(count) => bytes[i].extend_from_slice(&buffer[..count]),
                Err(error) if error.raw_os_error() == Some(libc::EIO) => files[i] = None,
                Err(error) => panic!("reading a stream: {error}"),
            }
        }
    }
}

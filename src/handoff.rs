//! What processes of ours say to each other: front ↔ supervisor over two pipes that only they hold,
//! and launcher → supervisor, verb → supervisor over a pipe that others reach through `/proc`.
//!
//! There is no named socket or FIFO: inside some sandboxes they cannot be made, and after a SIGKILL
//! they would stay behind. `AGENT_SH_SUPERVISOR` holds the supervisor's pid, the number of
//! the descriptor and which pipe that is; opening `/proc/PID/fd/N` opens that very pipe, for
//! processes of the same user alone.

mod condemned;
pub mod control;
mod frame;
mod register;

use std::ffi::{CStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::AtomicI32;
use std::time::Duration;

pub use condemned::{Condemned, Origin, Who, is_daemon_of, may_be_daemon, origin};
pub use frame::Request;
pub use register::{Register, Registered};

use crate::plan::asked::Asked;
use crate::settings::Settings;
use crate::sys::affinity::Affinity;
use crate::sys::fds::{self, Object};
use crate::sys::session;
use crate::sys::signal::Saved;

/// What `ps` shows of a supervisor.
pub const SUPERVISOR_TITLE: &CStr = c"agent-sh supervisor";
/// The variable that tells descendants about their supervisor.
pub const SUPERVISOR_VARIABLE: &str = "AGENT_SH_SUPERVISOR";
/// The variable that tells descendants which process made the call: the way up ends at their supervisor,
/// whose parent is init.
pub const CALLER_VARIABLE: &str = "AGENT_SH_CALLER";
/// The variable that names the streams on which every job is shown already (`entrypoint --mirror`).
pub const MIRROR_VARIABLE: &str = "AGENT_SH_MIRROR";
/// The variable that tells a job its own id.
pub const JOB_VARIABLE: &str = "AGENT_SH_JOB";

/// Signals whose state the front or the supervisor changes, to be put back for the real shell.
pub const CHANGED_SIGNALS: &[i32] = &[
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
pub const END_JOBS: i32 = libc::SIGPWR;

/// A job that is known before it starts.
pub struct LoneJob {
    pub asked: Asked,
    pub command: Vec<u8>,
}

/// What the front hands to the supervisor, by forking.
pub struct Work {
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
pub enum Group {
    /// It leads one.
    Own,
    /// It stays in the front's.
    Shared,
    /// It leads one, and an anchor of the front's is to be called into that before the shell runs.
    Anchored(Anchorage),
}

/// How to call an anchor.
#[derive(Debug)]
pub struct Anchorage {
    /// Takes the number of the group.
    pub call: OwnedFd,
    /// Ends when the anchor is there.
    pub answer: OwnedFd,
}

impl Work {
    /// A command as it came: not rewritten, not handed over yet.
    #[must_use]
    pub fn new(
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

/// What `agent-sh run` adds to a command.
#[derive(Clone, Debug, Default)]
pub struct RunJob {
    pub name: Option<String>,
    pub session: Option<String>,
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
}

/// Pagers would wait for a person at the terminal that a job is given.
const PAGERS: [&str; 4] = ["PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"];

/// The variables that a job gets beyond the caller's, as `NAME=value`.
#[must_use]
pub fn job_environment(id: &str, tty: bool) -> Vec<Vec<u8>> {
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

/// From the supervisor to the front.
#[derive(Debug, PartialEq, Eq)]
pub enum ToFront {
    /// The real shell was stopped by this signal, after so many words to continue it had been heard. Said
    /// only at a terminal that changes hands, or whose keys stop both; elsewhere the supervisor stops the
    /// front itself.
    Stopped { signal: i32, heard: u8 },
    /// Print this on stderr.
    Say(Vec<u8>),
    /// To be printed on stdout: the job that `agent-sh run` started.
    Job(Vec<u8>),
    /// The real shell ended with this wait status and its output is delivered: end likewise.
    Done(i32),
    /// Nothing was started, errno says why: whoever asked may still start it another way.
    Failed(i32),
}

/// From the front to the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToSupervisor {
    /// A signal came for the foreground, from this process.
    Signal { signal: i32, sender: i32 },
    /// The front was continued: let the shell go on.
    Continue,
    /// The front has nothing more to do before it is stopped as the shell is.
    Stop,
}

/// No announcement is longer; nothing longer is read.
const LONGEST_TEXT: usize = 1 << 20;

impl ToFront {
    fn encode(&self) -> Vec<u8> {
        let (tag, value, text): (u8, i32, &[u8]) = match self {
            Self::Stopped { signal, heard } => (b't', i32::from(*heard) << 8 | signal & 0xff, &[]),
            Self::Say(text) => (b'a', 0, text),
            Self::Job(id) => (b'j', 0, id),
            Self::Done(status) => (b'd', *status, &[]),
            Self::Failed(errno) => (b'f', *errno, &[]),
        };
        let text = &text[..text.len().min(LONGEST_TEXT)];
        let length = u32::try_from(text.len()).unwrap_or(0);
        let mut frame = Vec::with_capacity(9 + text.len());
        frame.push(tag);
        frame.extend(value.to_le_bytes());
        frame.extend(length.to_le_bytes());
        frame.extend(text);
        frame
    }
}

/// The supervisor's end.
pub struct FrontLink {
    pub requests: OwnedFd,
    answers: File,
}

impl FrontLink {
    #[must_use]
    pub fn new(requests: OwnedFd, answers: OwnedFd) -> Self {
        Self {
            requests,
            answers: File::from(answers),
        }
    }

    /// Tells the front; one that is gone needs to be told nothing.
    pub fn tell(&mut self, message: &ToFront) {
        drop(self.answers.write_all(&message.encode()));
    }

    /// Whether the front has ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        fds::consumer_is_gone(self.answers.as_raw_fd())
    }

    #[must_use]
    pub fn descriptors(&self) -> [i32; 2] {
        [self.requests.as_raw_fd(), self.answers.as_raw_fd()]
    }

    /// What the front says next; `None` when it is gone.
    pub fn hear(&self) -> Option<ToSupervisor> {
        let mut frame = [0u8; 9];
        match nix::unistd::read(&self.requests, &mut frame) {
            Ok(9) => {}
            _ => return None,
        }
        let number = |at: usize| {
            i32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]])
        };
        Some(match frame[0] {
            b'c' => ToSupervisor::Continue,
            b't' => ToSupervisor::Stop,
            _ => ToSupervisor::Signal {
                // What is no signal must not become one, nor overflow as a part of an exit code.
                signal: number(1).clamp(1, 64),
                sender: number(5),
            },
        })
    }
}

/// The front's end.
pub struct SupervisorLink {
    pub answers: File,
    requests: File,
}

impl SupervisorLink {
    #[must_use]
    pub fn new(answers: OwnedFd, requests: OwnedFd) -> Self {
        Self {
            answers: File::from(answers),
            requests: File::from(requests),
        }
    }

    /// Frames are shorter than PIPE_BUF, so they arrive whole.
    pub fn tell(&mut self, message: ToSupervisor) {
        let (tag, first, second) = match message {
            ToSupervisor::Signal { signal, sender } => (b's', signal, sender),
            ToSupervisor::Continue => (b'c', 0, 0),
            ToSupervisor::Stop => (b't', 0, 0),
        };
        let mut frame = [0u8; 9];
        frame[0] = tag;
        frame[1..5].copy_from_slice(&first.to_le_bytes());
        frame[5..9].copy_from_slice(&second.to_le_bytes());
        drop(self.requests.write_all(&frame));
    }

    /// What the supervisor says next; an error when it is gone.
    pub fn hear(&mut self) -> io::Result<ToFront> {
        let mut head = [0u8; 9];
        self.answers.read_exact(&mut head)?;
        let value = i32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let length = u32::from_le_bytes([head[5], head[6], head[7], head[8]]);
        if length as usize > LONGEST_TEXT {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut text = vec![0u8; length as usize];
        self.answers.read_exact(&mut text)?;
        Ok(match head[0] {
            b't' => {
                let [signal, heard, ..] = value.to_le_bytes();
                let signal = i32::from(signal);
                ToFront::Stopped { signal, heard }
            }
            b'a' => ToFront::Say(text),
            b'j' => ToFront::Job(text),
            b'd' => ToFront::Done(value),
            _ => ToFront::Failed(value),
        })
    }
}

/// Where a descendant finds its supervisor: the pipe that it has at a descriptor. No other process ever
/// has that pipe, so whoever finds it there has found the supervisor, and not a later process of its
/// pid or one of that number in another pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub pid: i32,
    pub fd: i32,
    pub pipe: Object,
}

impl Address {
    #[must_use]
    pub fn to_text(self) -> String {
        let Object { dev, ino } = self.pipe;
        format!("{}.{}.{dev}.{ino}", self.pid, self.fd)
    }

    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let address = Self {
            pid: parts.next()?.parse().ok()?,
            fd: parts.next()?.parse().ok()?,
            pipe: Object {
                dev: parts.next()?.parse().ok()?,
                ino: parts.next()?.parse().ok()?,
            },
        };
        (parts.next().is_none() && address.pid > 1 && address.fd >= 0).then_some(address)
    }

    /// Whether the supervisor is there, and has the pipe.
    #[must_use]
    pub fn is_live(self) -> bool {
        fds::object_of(self.pid, self.fd) == Some(self.pipe)
    }

    #[must_use]
    pub fn pipe_path(self) -> String {
        format!("/proc/{}/fd/{}", self.pid, self.fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip_and_reject_nonsense() {
        let address = Address {
            pid: 42,
            fd: 12,
            pipe: Object {
                dev: 14,
                ino: 81_342,
            },
        };
        assert_eq!(Address::from_text(&address.to_text()), Some(address));
        for bad in [
            "",
            "1.2.3.4",
            "42.7.9",
            "42.-1.7.9",
            "42.3.7.9.1",
            "x.7.9.3",
            "42.3.7.x",
            "-5.1.1.1",
        ] {
            assert_eq!(Address::from_text(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_address_leads_to_one_pipe() {
        let (_out, end) = fds::pipe().unwrap();
        let (_other, other) = fds::pipe().unwrap();
        let fd = end.as_raw_fd();
        let here = Address {
            pid: std::process::id().cast_signed(),
            fd,
            pipe: fds::object(fd).unwrap(),
        };
        assert!(here.is_live());
        let wrong = fds::object(other.as_raw_fd()).unwrap();
        assert!(
            !Address {
                pipe: wrong,
                ..here
            }
            .is_live()
        );
        assert!(
            !Address {
                fd: other.as_raw_fd(),
                ..here
            }
            .is_live()
        );
        assert!(!Address { pid: 1, ..here }.is_live());
    }
}

//! The kinds of stdout and stderr that harnesses give: pipes, socketpairs, files, terminals.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

/// What a call's stdout and stderr are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    /// Two pipes (Codex, Python).
    Pipe,
    /// Two socketpairs (OpenCode, Gemini).
    Socket,
    /// Two regular files opened with `O_TRUNC`.
    Truncated,
    /// One regular file opened with `O_APPEND`, one description for both streams (Claude Code).
    Appended,
    /// A terminal for all three streams, the controlling one of the call's own session.
    Terminal,
    /// A terminal for stdout and stderr that controls no session.
    Screen,
    /// `/dev/null` for both.
    Null,
}

/// The test's ends of a call's streams.
pub(super) enum Ends {
    /// Read until end-of-file: stdout, then stderr where it is another object.
    Live(Vec<OwnedFd>),
    /// Read once the call is over.
    Files(Vec<PathBuf>),
}

/// The child's ends, and ours.
pub(super) struct Opened {
    pub(super) stdin: Option<Stdio>,
    pub(super) stdout: Stdio,
    pub(super) stderr: Stdio,
    pub(super) ends: Ends,
}

impl Streams {
    /// Whether a job may hold on to them for as long as it runs.
    pub(super) fn may_be_held(self) -> bool {
        matches!(self, Self::Terminal | Self::Screen)
    }

    /// `name` makes the paths of file streams; they must not exist.
    pub(super) fn open(self, name: &std::path::Path) -> Opened {
        match self {
            Self::Null => Opened {
                stdin: None,
                stdout: Stdio::null(),
                stderr: Stdio::null(),
                ends: Ends::Files(Vec::new()),
            },
            Self::Pipe => pair_of_two(|| nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap()),
            Self::Socket => pair_of_two(|| {
                let kind = (AddressFamily::Unix, SockType::Stream);
                socketpair(kind.0, kind.1, None, SockFlag::SOCK_CLOEXEC).unwrap()
            }),
            Self::Truncated => {
                let paths = vec![name.with_extension("out"), name.with_extension("err")];
                let mut files = paths.iter().map(|path| File::create(path).unwrap());
                Opened {
                    stdin: None,
                    stdout: files.next().unwrap().into(),
                    stderr: files.next().unwrap().into(),
                    ends: Ends::Files(paths.clone()),
                }
            }
            Self::Appended => {
                let path = name.with_extension("both");
                let options = OpenOptions::new().append(true).create_new(true).open(&path);
                let file = options.unwrap();
                Opened {
                    stdin: None,
                    stdout: file.try_clone().unwrap().into(),
                    stderr: file.into(),
                    ends: Ends::Files(vec![path]),
                }
            }
            Self::Terminal | Self::Screen => {
                let (leader, follower) = terminal();
                let is_stdin = self == Self::Terminal;
                Opened {
                    stdin: is_stdin.then(|| follower.try_clone().unwrap().into()),
                    stdout: follower.try_clone().unwrap().into(),
                    stderr: follower.into(),
                    ends: Ends::Live(vec![leader]),
                }
            }
        }
    }
}

fn pair_of_two(make: impl Fn() -> (OwnedFd, OwnedFd)) -> Opened {
    let (out, err) = (make(), make());
    Opened {
        stdin: None,
        stdout: out.1.into(),
        stderr: err.1.into(),
        ends: Ends::Live(vec![out.0, err.0]),
    }
}

/// A new terminal of 24 lines and 80 columns: its leader and its follower.
pub(crate) fn terminal() -> (OwnedFd, File) {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let leader: PtyMaster = posix_openpt(flags).unwrap();
    grantpt(&leader).unwrap();
    unlockpt(&leader).unwrap();
    let follower = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open(ptsname_r(&leader).unwrap())
        .unwrap();
    let leader = leader.as_fd().try_clone_to_owned().unwrap();
    (leader, follower)
}

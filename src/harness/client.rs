//! The process of a harness, as its hooks see it: whether it lives, and whether it can still be spoken to.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::sys::{proc, session};

/// A harness's process, held by a handle: its number may be another's tomorrow.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) pid: i32,
    handle: OwnedFd,
}

impl Client {
    /// The process that the harness names, else the one that started our shell.
    pub(crate) fn find(env: impl Fn(&str) -> Option<OsString>, name: &str) -> io::Result<Self> {
        let named = env(name).and_then(|pid| pid.to_str()?.parse::<i32>().ok());
        let pid = named
            .filter(|&pid| pid > 1 && is_ancestor(pid))
            .unwrap_or_else(|| {
                // Hooks run as `sh -c COMMAND`; some shells exec the command, some stay in between.
                let parent = session::parent_pid();
                let is_shell = proc::comm(parent).is_some_and(|name| name.ends_with("sh"));
                let above = proc::ppid(parent).filter(|&pid| pid > 1);
                above.filter(|_| is_shell).unwrap_or(parent)
            });
        Self::of(pid)
    }

    /// This process.
    pub(crate) fn of(pid: i32) -> io::Result<Self> {
        Ok(Self {
            pid,
            handle: proc::pidfd_open(pid)?,
        })
    }

    pub(crate) fn lives(&self) -> bool {
        !proc::pidfd_wait(&self.handle, Some(Duration::ZERO)).unwrap_or(true)
    }

    /// Ready when it has gone.
    pub(crate) fn gone(&self) -> PollFd<'_> {
        PollFd::new(self.handle.as_fd(), PollFlags::POLLIN)
    }

    /// One of these is ready when it has gone, or when nothing more will be said to it: its stdin, where
    /// that is a pipe (a session that is fed by a program), has been closed at the other end. The client
    /// waits for its hooks then, so they must not stay.
    pub(crate) fn unreachable<'a>(&'a self, stdin: Option<&'a File>) -> Vec<PollFd<'a>> {
        // No event is asked for: a hang-up is always reported, and what is to be read is not ours.
        let stdin = stdin.map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::empty()));
        [self.gone()].into_iter().chain(stdin).collect()
    }

    /// Whether its stdin is a pipe that nobody can write to any more.
    pub(crate) fn has_lost_its_input(&self) -> bool {
        let Some(pipe) = self.stdin_pipe() else {
            return false;
        };
        let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::empty())];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|count| count > 0)
    }

    /// A second reading end of its stdin, if that is a pipe. Nothing is ever read from it.
    pub(crate) fn stdin_pipe(&self) -> Option<File> {
        let path = format!("/proc/{}/fd/0", self.pid);
        let target = std::fs::read_link(&path).ok()?;
        if !target.to_string_lossy().starts_with("pipe:") {
            return None;
        }
        let mut options = File::options();
        let options = options.read(true).custom_flags(libc::O_NONBLOCK);
        options.open(path).ok()
    }
}

/// Whether `pid` is above us: a number from the environment may be an old one.
fn is_ancestor(pid: i32) -> bool {
    let mut above = session::parent_pid();
    for _ in 0..16 {
        if above == pid {
            return true;
        }
        match proc::ppid(above) {
            Some(next) if next > 1 => above = next,
            _ => return false,
        }
    }
    false
}

//! What a job writes to: a pseudo-terminal, or a pipe where there is none or none is wanted.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use crate::job::Degraded;
use crate::settings::Capture;
use crate::sys::fds::{self, Object};
use crate::sys::{pty, session};

/// The channel of a job's output, and the second one that its stderr has where the call has two streams.
pub(super) const STDOUT: usize = 0;
pub(super) const STDERR: usize = 1;

/// The leader of a pseudo-terminal, or the read end of a pipe.
pub(in crate::supervisor) struct Channel {
    pub(super) leader: OwnedFd,
    /// Our copy of the job's end, so that its own closing is not taken for the end.
    follower: Option<OwnedFd>,
    pub(super) object: Option<Object>,
    /// The events that the loop waits for: output to read, room for input.
    watched: EpollFlags,
}

impl Channel {
    fn is_abandoned(&self) -> bool {
        self.follower.is_none() && fds::consumer_is_gone(self.leader.as_raw_fd())
    }

    /// Adds to, or takes from, the events that the loop waits for. A channel without any is not watched at
    /// all: its hang-up would be reported for ever.
    pub(super) fn watch(&mut self, epoll: &Epoll, token: u64, what: EpollFlags, on: bool) {
        let mut wanted = self.watched;
        wanted.set(what, on);
        if wanted == self.watched {
            return;
        }
        let mut event = EpollEvent::new(wanted, token);
        let result = if wanted.is_empty() {
            epoll.delete(&self.leader)
        } else if self.watched.is_empty() {
            epoll.add(&self.leader, event)
        } else {
            epoll.modify(&self.leader, &mut event)
        };
        if result.is_ok() {
            self.watched = wanted;
        }
    }
}

/// A channel with the path by which the job opens its end.
pub(in crate::supervisor) struct Opened {
    pub(super) channel: Channel,
    pub(super) path: String,
    pub(in crate::supervisor) tty: bool,
}

/// What a job writes to.
pub(in crate::supervisor) struct Output {
    pub(super) main: Channel,
    /// `Some` iff its stderr is kept apart.
    errors: Option<Channel>,
}

impl Output {
    pub(super) fn new(main: Channel, errors: Option<Channel>) -> Self {
        Self { main, errors }
    }

    pub(super) fn channels(&self) -> impl Iterator<Item = &Channel> {
        std::iter::once(&self.main).chain(&self.errors)
    }

    pub(super) fn channel(&mut self, number: usize) -> Option<&mut Channel> {
        match number {
            STDOUT => Some(&mut self.main),
            _ => self.errors.as_mut(),
        }
    }

    /// The channel that one of these is the job's end of.
    pub(in crate::supervisor) fn find(&self, streams: &[Option<Object>]) -> Option<usize> {
        self.channels()
            .position(|channel| channel.object.is_some() && streams.contains(&channel.object))
    }

    /// Gives up our copies of the job's ends.
    pub(super) fn let_go(&mut self) {
        self.main.follower = None;
        if let Some(errors) = &mut self.errors {
            errors.follower = None;
        }
    }

    /// Whether nobody but us has the job's ends open any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.channels().all(Channel::is_abandoned)
    }

    pub(super) fn follower(&self) -> Option<&OwnedFd> {
        self.main.follower.as_ref()
    }

    pub(in crate::supervisor) fn descriptors(&self) -> impl Iterator<Item = i32> {
        self.channels().flat_map(|channel| {
            let follower = channel.follower.as_ref().map(AsRawFd::as_raw_fd);
            std::iter::once(channel.leader.as_raw_fd()).chain(follower)
        })
    }
}

/// A pseudo-terminal for a job, or a pipe where there is none or none is wanted.
pub(in crate::supervisor) fn open_channel(
    capture: Capture,
    degraded: &mut Vec<Degraded>,
) -> Option<Opened> {
    if capture == Capture::Pty {
        match pty::open(pty::Use::Output) {
            Ok(pty) => return Some(on_terminal(pty)),
            Err(_) => degraded.push(Degraded::NoPty),
        }
    }
    let (leader, end) = fds::pipe().ok()?;
    fds::set_nonblocking(leader.as_fd()).ok()?;
    let path = format!("/proc/{}/fd/{}", session::pid(), end.as_raw_fd());
    Some(opened(leader, end, path, false))
}

fn opened(leader: OwnedFd, follower: OwnedFd, path: String, tty: bool) -> Opened {
    let channel = Channel {
        leader,
        object: fds::object(follower.as_raw_fd()),
        follower: Some(follower),
        watched: EpollFlags::empty(),
    };
    Opened { channel, path, tty }
}

fn on_terminal(pty: pty::Pty) -> Opened {
    opened(pty.leader, pty.follower, pty.path, true)
}

/// A pseudo-terminal that is a job's stdin as well. Without one it cannot be what was asked for.
pub(in crate::supervisor) fn open_interactive() -> std::io::Result<Opened> {
    pty::open(pty::Use::Seat).map(on_terminal)
}

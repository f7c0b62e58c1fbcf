//! The request pipe: frames in, requests out. Registering, typing at a job's terminal, and notice of a
//! kill all come this way.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::Supervisor;
use crate::sys::{fds, session};
use crate::wire::{Address, Request};

/// How much is read of the pipe before other events get their turn.
const ONE_TURN: usize = 64 * 1024;

pub(super) struct Inbox {
    requests: OwnedFd,
    /// What was read and is no whole frame yet.
    bytes: Vec<u8>,
    address: Address,
}

impl Inbox {
    pub(super) fn open() -> std::io::Result<Self> {
        let (requests, end) = fds::pipe()?;
        fds::set_nonblocking(requests.as_fd())?;
        let fd = end.as_raw_fd();
        // Nothing below `/proc` is read before the shell runs: the first access to a new process makes
        // the kernel build its directory there, and take it down again at its end.
        let pipe = fds::object(fd).ok_or_else(std::io::Error::last_os_error)?;
        let pid = session::pid();
        // The other end is kept open on purpose: `requests` must never report its end.
        std::mem::forget(end);
        Ok(Self {
            requests,
            bytes: Vec::new(),
            address: Address { pid, fd, pipe },
        })
    }

    /// Where others find the pipe.
    pub(super) fn address(&self) -> Address {
        self.address
    }

    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [self.requests.as_raw_fd(), self.address.fd]
    }

    pub(super) fn watch(&self, epoll: &Epoll, token: u64) {
        let _ = epoll.add(&self.requests, EpollEvent::new(EpollFlags::EPOLLIN, token));
    }

    /// Reads what is in the pipe, up to a turn's worth. Gives whether that was all.
    fn fill(&mut self) -> bool {
        let mut bytes = [0u8; 8192];
        let mut left = ONE_TURN;
        loop {
            match nix::unistd::read(&self.requests, &mut bytes) {
                Ok(0) => return true,
                Ok(count) => {
                    self.bytes.extend(&bytes[..count]);
                    left = left.saturating_sub(count);
                    if left == 0 {
                        return false;
                    }
                }
                Err(Errno::EINTR) => {}
                Err(_) => return true,
            }
        }
    }

    fn take(&mut self) -> Option<Request> {
        Request::take(&mut self.bytes)
    }

    /// Each write is whole in the pipe or not in it. What is left of an empty pipe belongs to nobody,
    /// and must not be taken for the beginning of what comes next.
    fn drop_fragment(&mut self) {
        self.bytes.clear();
    }
}

impl Supervisor {
    pub(super) fn read_requests(&mut self) {
        let was_all = self.inbox.fill();
        while let Some(request) = self.inbox.take() {
            match request {
                Request::Register(request) => self.register(&request),
                Request::Ask(ask) => self.answer_ask(ask),
                Request::KillSet(named) => self.note_kill_set(&named),
            }
        }
        if was_all {
            self.inbox.drop_fragment();
        }
    }
}

//! The link to the front, as long as that is there: messages of the front, its end, and messages to it.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::stops::StoppedFront;
use crate::supervisor::Supervisor;
use crate::supervisor::state::{Event, SignalKind};
use crate::sys::fds;
use crate::wire::{FrontLink, ToFront, ToSupervisor};

pub(in crate::supervisor) struct Front {
    pub(super) pid: i32,
    /// `Some` as long as it is there.
    link: Option<FrontLink>,
    /// `Some` iff it was stopped with the shell.
    pub(super) stopped: Option<StoppedFront>,
    /// How often it wanted the shell to go on.
    pub(super) continues: u8,
}

/// A signal that the front passes on, and who sent it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::supervisor) struct PassedOn {
    pub(in crate::supervisor) signal: i32,
    pub(in crate::supervisor) sender: i32,
}

impl Front {
    pub(in crate::supervisor) fn new(pid: i32) -> Self {
        Self {
            pid,
            link: None,
            stopped: None,
            continues: 0,
        }
    }

    pub(in crate::supervisor) fn connect(&mut self, link: FrontLink, epoll: &Epoll, token: u64) {
        let _ = epoll.add(&link.requests, EpollEvent::new(EpollFlags::EPOLLIN, token));
        self.link = Some(link);
    }

    pub(in crate::supervisor) fn is_there(&self) -> bool {
        self.link.is_some()
    }

    pub(in crate::supervisor) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.link.iter().flat_map(FrontLink::descriptors)
    }

    pub(super) fn link(&self) -> Option<&FrontLink> {
        self.link.as_ref()
    }

    /// Sends a message. Gives whether somebody was there to get it.
    pub(in crate::supervisor) fn send(&mut self, message: &ToFront) -> bool {
        let Some(link) = &mut self.link else {
            return false;
        };
        link.tell(message);
        true
    }

    /// Has it print this on stderr.
    pub(in crate::supervisor) fn print(&mut self, text: String) {
        self.send(&ToFront::Say(text.into_bytes()));
    }

    /// The next message. The outer `None`: there is none yet, or there is no front; the inner one: the
    /// front has gone.
    fn receive(&self) -> Option<Option<ToSupervisor>> {
        let link = self.link.as_ref()?;
        // A read would wait for the next message.
        fds::wait_readable(&[link.requests.as_raw_fd()], 0)[0].then(|| link.hear())
    }

    pub(in crate::supervisor) fn close(&mut self, epoll: &Epoll) {
        if let Some(link) = self.link.take() {
            let _ = epoll.delete(link.requests.as_fd());
        }
    }
}

impl Supervisor {
    /// Takes every message that the front has sent by now, so that what follows is decided with it.
    pub(in crate::supervisor) fn read_front_to_end(&mut self) {
        while self.read_front() {}
    }

    /// Takes a message of the front. Gives whether there was one: an event of the loop may be about one
    /// that was read since.
    pub(in crate::supervisor) fn read_front(&mut self) -> bool {
        let Some(message) = self.call.front.receive() else {
            return false;
        };
        match message {
            Some(ToSupervisor::Signal { signal, sender }) => self.forward(signal, sender),
            Some(ToSupervisor::Continue) => self.call.continue_shell(&self.setup),
            Some(ToSupervisor::Stop) => self.call.stop_front(libc::SIGSTOP, &self.setup),
            None => self.apply(Event::FrontGone),
        }
        true
    }

    fn forward(&mut self, signal: i32, sender: i32) {
        let kind = match SignalKind::of(signal) {
            SignalKind::JobControl => SignalKind::JobControl,
            // `kill 0`: the front is in the group that it meant, and so is everybody else.
            _ if self.setup.shares_group && self.call.is_of_foreground(sender) => {
                SignalKind::OwnGroup
            }
            kind => kind,
        };
        self.apply_signal(Event::Signal(kind), PassedOn { signal, sender });
    }
}

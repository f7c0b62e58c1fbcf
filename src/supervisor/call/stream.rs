//! Passing the foreground's output on: feeds are the pipes that the shell writes to, sinks are the
//! harness's own descriptors. Nothing here ever blocks, and nothing is ever dropped on the way.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use crate::sys::clock;
use crate::sys::fds::{self, Kind, Object};

/// A write to a pipe or terminal that was just reported writable cannot block up to this size.
const SAFE_CHUNK: usize = 4096;
/// How much of the jobs' output waits for a harness that is slow to read.
const MOST_OFFERED: usize = 1024 * 1024;
/// One that has read nothing for so long is not waited for by a job.
pub(in crate::supervisor) const STALLED: Duration = Duration::from_secs(1);
/// How much of the foreground's last output is kept for a record of its death.
const TAIL: usize = 2048;

/// How to write to a sink without blocking and without changing it for its other holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A pipe or terminal opened anew, non-blocking.
    Own,
    /// Shared: ask `poll`, then write a little.
    Chunks,
    Socket,
    /// Files and devices: a write does not wait for anybody.
    Direct,
}

/// One of the harness's output descriptors.
pub(in crate::supervisor) struct Sink {
    fd: OwnedFd,
    /// The harness's own open file description, to tell a job's redirection from inheritance.
    original: OwnedFd,
    way: Way,
    pending: Vec<u8>,
    /// How much of `pending` has to be written: up to the last byte of the foreground.
    owed: usize,
    /// When some of `pending` was taken last, or began to wait.
    moved_at: Duration,
    token: u64,
    watched: bool,
    pub(super) is_terminal: bool,
    /// Nobody reads it any more.
    pub(super) gone: bool,
}

impl Sink {
    pub(in crate::supervisor) fn new(fd: RawFd, kind: Kind, token: u64) -> io::Result<Self> {
        let original = fds::duplicate(fd)?;
        let (fd, way) = match kind {
            Kind::Pipe | Kind::Terminal => match fds::reopen_nonblocking(fd) {
                Some(own) => (own, Way::Own),
                None => (fds::duplicate(fd)?, Way::Chunks),
            },
            Kind::Socket => (fds::duplicate(fd)?, Way::Socket),
            _ => (fds::duplicate(fd)?, Way::Direct),
        };
        let is_terminal = kind == Kind::Terminal;
        Ok(Self {
            fd,
            original,
            way,
            pending: Vec::new(),
            owed: 0,
            moved_at: Duration::ZERO,
            token,
            watched: false,
            is_terminal,
            gone: false,
        })
    }

    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [self.fd.as_raw_fd(), self.original.as_raw_fd()]
    }

    pub(super) fn original(&self) -> RawFd {
        self.original.as_raw_fd()
    }

    /// Starts watching for a consumer that goes away. Files cannot be watched and need not be.
    pub(super) fn watch(&mut self, epoll: &Epoll) {
        if self.way != Way::Direct {
            let event = EpollEvent::new(EpollFlags::empty(), self.token);
            self.watched = epoll.add(&self.fd, event).is_ok();
        }
    }

    pub(super) fn unwatch(&mut self, epoll: &Epoll) {
        if std::mem::take(&mut self.watched) {
            let _ = epoll.delete(&self.fd);
        }
    }

    /// Whether the foreground has to wait until the harness has read.
    pub(super) fn is_full(&self) -> bool {
        !self.gone && self.owed > 0
    }

    /// Whether anything waits for the harness, be it a job's.
    pub(super) fn is_behind(&self) -> bool {
        !self.gone && !self.pending.is_empty()
    }

    /// Whether nothing of what waits was taken for so long.
    pub(super) fn has_stalled(&self, patience: Duration) -> bool {
        clock::boottime().saturating_sub(self.moved_at) >= patience
    }

    /// Whether jobs wait for it: it has much to take, and takes it.
    pub(super) fn holds_jobs(&self) -> bool {
        let much = self.is_behind() && self.pending.len() >= MOST_OFFERED / 2;
        much && !self.has_stalled(STALLED)
    }

    /// Writes what can be written now and keeps the rest.
    pub(super) fn push(&mut self, bytes: &[u8], epoll: &Epoll) {
        self.add(bytes, epoll);
        self.owed = self.pending.len();
    }

    /// The same for output that is kept elsewhere: a harness that does not read loses what is more than
    /// can wait. Gives whether the writer should wait, as it would with the harness's own pipe.
    pub(super) fn offer(&mut self, bytes: &[u8], epoll: &Epoll) -> bool {
        let over = |sink: &Self| sink.is_behind() && sink.pending.len() >= MOST_OFFERED;
        if over(self) && self.has_stalled(STALLED) {
            return false;
        }
        self.add(bytes, epoll);
        over(self)
    }

    fn add(&mut self, bytes: &[u8], epoll: &Epoll) {
        if self.gone || bytes.is_empty() {
            return;
        }
        let waited = !self.pending.is_empty();
        let written = if waited { 0 } else { self.write_some(bytes) };
        if written == bytes.len() || self.gone {
            return;
        }
        self.pending.extend(&bytes[written..]);
        if !waited {
            self.moved_at = clock::boottime();
            self.want_room(epoll, true);
        }
    }

    /// Gives up what was kept.
    pub(super) fn take_pending(&mut self) -> Vec<u8> {
        self.owed = 0;
        std::mem::take(&mut self.pending)
    }

    /// Goes on with what was kept.
    pub(super) fn flush(&mut self, epoll: &Epoll) {
        let pending = std::mem::take(&mut self.pending);
        let written = self.write_some(&pending);
        self.owed = self.owed.saturating_sub(written);
        if written > 0 {
            self.moved_at = clock::boottime();
        }
        if written < pending.len() && !self.gone {
            self.pending = pending;
            self.pending.drain(..written);
        } else {
            self.want_room(epoll, false);
        }
    }

    fn want_room(&self, epoll: &Epoll, want: bool) {
        if self.watched {
            let flags = if want {
                EpollFlags::EPOLLOUT
            } else {
                EpollFlags::empty()
            };
            let _ = epoll.modify(&self.fd, &mut EpollEvent::new(flags, self.token));
        }
    }

    fn write_some(&mut self, bytes: &[u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            let result = match self.way {
                Way::Own | Way::Direct => {
                    nix::unistd::write(&self.fd, rest).map_err(io::Error::from)
                }
                Way::Socket => fds::send_nonblocking(self.fd.as_raw_fd(), rest),
                Way::Chunks if !fds::has_room(self.fd.as_raw_fd()) => break,
                Way::Chunks => {
                    let chunk = &rest[..rest.len().min(SAFE_CHUNK)];
                    nix::unistd::write(&self.fd, chunk).map_err(io::Error::from)
                }
            };
            match result {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.gone = true;
                    break;
                }
            }
        }
        done
    }
}

/// A pipe that the shell and whatever it starts write to.
pub(in crate::supervisor) struct Feed {
    fd: OwnedFd,
    /// The sink it is for, as long as the call lasts.
    pub(super) sink: usize,
    /// The job that gets what is written after the call.
    pub(super) owner: Option<usize>,
    /// Tells whether a process still has this pipe as its stdout or stderr.
    pub(super) object: Object,
    pub(super) tail: Vec<u8>,
    token: u64,
    watched: bool,
}

impl Feed {
    /// The feed and the end for the shell.
    pub(in crate::supervisor) fn new(sink: usize, token: u64) -> io::Result<(Self, OwnedFd)> {
        let (fd, end) = fds::pipe()?;
        fds::set_nonblocking(fd.as_fd())?;
        let object = fds::object(fd.as_raw_fd()).ok_or_else(io::Error::last_os_error)?;
        let feed = Self {
            fd,
            sink,
            owner: None,
            object,
            tail: Vec::new(),
            token,
            watched: false,
        };
        Ok((feed, end))
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Listens, or (when its sink is full) does not.
    pub(super) fn listen(&mut self, epoll: &Epoll, on: bool) {
        if on == self.watched {
            return;
        }
        let result = if on {
            epoll.add(&self.fd, EpollEvent::new(EpollFlags::EPOLLIN, self.token))
        } else {
            epoll.delete(&self.fd)
        };
        if result.is_ok() {
            self.watched = on;
        }
    }

    /// Reads once; `Ok(0)` is the end, `WouldBlock` nothing for the moment.
    pub(super) fn read(&self, buffer: &mut Buffer) -> io::Result<usize> {
        buffer.fill(&self.fd)
    }

    /// Remembers the last bytes.
    pub(super) fn remember(&mut self, bytes: &[u8]) {
        if bytes.len() >= TAIL {
            self.tail.clear();
            self.tail.extend(&bytes[bytes.len() - TAIL..]);
            return;
        }
        let excess = (self.tail.len() + bytes.len()).saturating_sub(TAIL);
        self.tail.drain(..excess);
        self.tail.extend(bytes);
    }
}

/// What output is read into: a page, until something longer comes. Most commands say little, and memory
/// that was never touched costs nothing.
#[derive(Default)]
pub(in crate::supervisor) struct Buffer(Vec<u8>);

impl Buffer {
    const SMALL: usize = 4 * 1024;
    const LARGE: usize = 64 * 1024;

    /// Reads once from `fd`, and gives how much; the bytes stand at the beginning.
    pub(in crate::supervisor) fn fill(&mut self, fd: impl AsFd) -> io::Result<usize> {
        if self.0.is_empty() {
            self.0.resize(Self::SMALL, 0);
        }
        let count = nix::unistd::read(fd, &mut self.0)?;
        if count == Self::SMALL {
            self.0.resize(Self::LARGE, 0);
        }
        Ok(count)
    }

    pub(in crate::supervisor) fn bytes(&self, count: usize) -> &[u8] {
        &self.0[..count]
    }
}

//! `unix:`: one line to whoever listens on a socket. Nothing is made here, and only a listener of our
//! own user is spoken to. A listener that is busy, or that never takes what it is sent, costs its time
//! and no more: the limit is over connecting and writing together.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket,
    sockopt::PeerCredentials,
};

use super::{Event, Sent, left_ms};
use crate::error::cause;
use crate::sys::{fds, fsx};
use crate::text;

const LIMIT: Duration = Duration::from_secs(10);
/// The kernel does not tell when a full queue of callers has room again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(super) fn send(path: &Path, event: &Event, limit: Duration) -> Sent {
    let limit = limit.min(LIMIT);
    let deadline = Instant::now() + limit;
    let failed = |error: io::Error| {
        let why = match error.kind() {
            io::ErrorKind::TimedOut => {
                format!("took nothing within {}", text::short_duration(limit))
            }
            _ => cause(&error),
        };
        Sent::failed(format!("'{}': {why}", path.display()))
    };
    let mut stream = match dial(path, deadline) {
        Ok(stream) => stream,
        Err(error) => return failed(error),
    };
    match getsockopt(&stream, PeerCredentials) {
        Ok(peer) if peer.uid() == fsx::euid() => {}
        Ok(peer) => {
            return Sent::failed(format!(
                "'{}' belongs to another user ({})",
                path.display(),
                peer.uid()
            ));
        }
        Err(errno) => return failed(errno.into()),
    }
    let line = format!("{}\n", event.json);
    let written = write_all(&mut stream, line.as_bytes(), deadline)
        .and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    match written {
        Ok(()) => Sent::Delivered,
        Err(error) => failed(error),
    }
}

/// Connects without ever blocking. Where too many callers wait already, the kernel says so and nothing
/// else: it is asked again.
fn dial(path: &Path, deadline: Instant) -> io::Result<UnixStream> {
    let address = UnixAddr::new(path)?;
    loop {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        match connect(fd.as_raw_fd(), &address) {
            Ok(()) => return Ok(fd.into()),
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::park_timeout(left.min(LOOK_AGAIN));
    }
}

fn write_all(stream: &mut UnixStream, bytes: &[u8], deadline: Instant) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let Some(wait) = left_ms(deadline) else {
                    return Err(io::ErrorKind::TimedOut.into());
                };
                let _ = fds::wait_writable(stream.as_raw_fd(), wait);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    const SHORT: Duration = Duration::from_millis(300);

    fn event(size: usize) -> Event {
        Event {
            id: "7f3k.exit".to_owned(),
            json: "x".repeat(size),
            notice: String::new(),
        }
    }

    #[test]
    fn a_listener_with_a_full_queue_costs_its_time_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        // Whoever connects waits in its queue; it accepts nobody.
        let mut waiting = Vec::new();
        let mut first = Sent::Delivered;
        for _ in 0..10_000 {
            let stream = match dial(&path, Instant::now()) {
                Ok(stream) => stream,
                Err(_) => {
                    first = send(&path, &event(100), SHORT);
                    break;
                }
            };
            waiting.push(stream);
        }
        assert!(
            matches!(&first, Sent::Failed(why, _) if why.contains("took nothing within")),
            "{first:?}"
        );
    }

    #[test]
    fn a_listener_that_never_reads_costs_its_time_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let held = std::thread::spawn(move || listener.accept().unwrap().0);
        let sent = send(&path, &event(8 << 20), SHORT);
        assert!(
            matches!(&sent, Sent::Failed(why, _) if why.contains("took nothing within")),
            "{sent:?}"
        );
        drop(held.join().unwrap());
    }

    #[test]
    fn a_listener_that_reads_slowly_gets_it_all() {
        use std::io::Read;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let heard = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            listener
                .accept()
                .unwrap()
                .0
                .read_to_end(&mut bytes)
                .unwrap();
            bytes.len()
        });
        let sent = send(&path, &event(4 << 20), Duration::from_secs(60));
        assert_eq!(sent, Sent::Delivered);
        assert_eq!(heard.join().unwrap(), (4 << 20) + 1);
    }
}

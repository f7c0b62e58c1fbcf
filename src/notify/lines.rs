//! `unix:`: one line to whoever listens on a socket. Nothing is made here, and only a listener of our
//! own user is spoken to.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use super::{Event, Sent};
use crate::error::cause;
use crate::sys::fsx;

pub(super) fn send(path: &Path, event: &Event, limit: Duration) -> Sent {
    let failed =
        |error: std::io::Error| Sent::failed(format!("'{}': {}", path.display(), cause(&error)));
    let mut stream = match UnixStream::connect(path) {
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
    let written = stream
        .set_write_timeout(Some(limit.max(Duration::from_millis(100))))
        .and_then(|()| stream.write_all(line.as_bytes()))
        .and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    match written {
        Ok(()) => Sent::Delivered,
        Err(error) => failed(error),
    }
}

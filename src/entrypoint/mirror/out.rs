//! The container's stdout: lines that are bounded, and no waiting for whoever reads them at the end.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::sys::fds::{self, Kind};
use crate::sys::signal::SignalFd;
use crate::text;

/// The longest line, with its label and its newline. A pipe takes so much whole.
const LONGEST: usize = 4096;
/// At the end, a reader that takes nothing for so long is not waited for.
const STALLED: Duration = Duration::from_millis(500);

/// One line, cut where it is too long. The last one of a job says where the rest is.
pub(super) fn write_line(out: &mut Out, label: &str, text: &str, room: &mut usize) {
    if *room == 0 {
        return;
    }
    let shown = text::first_bytes(text, LONGEST - label.len() - 1);
    let line = format!("{label}{shown}\n");
    let id = label.trim_matches(|letter: char| !letter.is_alphanumeric());
    let last = format!("{label}(its output is longer: agent-sh logs {id})\n");
    if line.len() + last.len() > *room {
        *room = 0;
        out.write(last.as_bytes());
    } else {
        *room -= line.len();
        out.write(line.as_bytes());
    }
}

/// The container's stdout.
pub(super) struct Out {
    fd: OwnedFd,
    is_socket: bool,
    pub(super) signals: SignalFd,
    /// `Some` once PID 1 wants us to leave: until when a reader may take nothing.
    ends_at: Option<Instant>,
    /// Nobody reads it, or not in time.
    pub(super) is_gone: bool,
}

impl Out {
    /// Takes stdout, and holds nothing else.
    pub(super) fn take(signals: SignalFd) -> io::Result<Self> {
        let kind = fds::kind(1);
        // A file of our own, so that not blocking stays our own affair.
        let own = match kind {
            Kind::Pipe | Kind::Terminal => fds::reopen_nonblocking(1),
            _ => None,
        };
        let fd = own.map_or_else(|| fds::duplicate(1), Ok)?;
        let null = fds::open_path("/dev/null", libc::O_RDWR)?;
        for stream in 0..3 {
            fds::put(null.as_raw_fd(), stream)?;
        }
        drop(null);
        fds::close_all_but(3, &mut [fd.as_raw_fd(), signals.as_raw_fd()]);
        Ok(Self {
            fd,
            is_socket: kind == Kind::Socket,
            signals,
            ends_at: None,
            is_gone: false,
        })
    }

    /// Whether PID 1 wants us to leave.
    pub(super) fn ends(&mut self) -> bool {
        if self.ends_at.is_none() && self.signals.next().is_some() {
            self.ends_at = Some(Instant::now() + STALLED);
        }
        self.ends_at.is_some()
    }

    fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_gone {
            let limit = self.ends_at.map_or(-1, |at| {
                let left = at.saturating_duration_since(Instant::now());
                i32::try_from(left.as_millis()).unwrap_or(i32::MAX)
            });
            let wanted = [
                (self.fd.as_raw_fd(), libc::POLLOUT),
                (self.signals.as_raw_fd(), libc::POLLIN),
            ];
            let ready = fds::wait_for_any(&wanted, limit);
            if !ready[0] {
                let late = self.ends_at.is_some_and(|at| at <= Instant::now());
                self.is_gone |= late;
                self.ends();
                continue;
            }
            let written = if self.is_socket {
                fds::send_nonblocking(self.fd.as_raw_fd(), bytes)
            } else {
                nix::unistd::write(&self.fd, bytes).map_err(io::Error::from)
            };
            match written {
                Ok(count) => {
                    bytes = &bytes[count..];
                    if let Some(at) = &mut self.ends_at {
                        *at = Instant::now() + STALLED;
                    }
                }
                Err(error) => {
                    let again = [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted];
                    self.is_gone = !again.contains(&error.kind());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;
    use crate::sys::signal;

    fn out() -> (Out, std::fs::File) {
        let (reader, writer) = fds::pipe().unwrap();
        let signals = SignalFd::new(&[libc::SIGTERM]).unwrap();
        let out = Out {
            fd: writer,
            is_socket: false,
            signals,
            ends_at: None,
            is_gone: false,
        };
        (out, reader.into())
    }

    #[test]
    fn lines_are_cut_and_counted() {
        let (mut out, mut reader) = out();
        let mut room = 2 * LONGEST;
        write_line(&mut out, "[7f3k] ", &"é".repeat(3000), &mut room);
        write_line(&mut out, "[7f3k] ", "short", &mut room);
        write_line(&mut out, "[7f3k] ", &"x".repeat(9000), &mut room);
        write_line(&mut out, "[7f3k] ", "never", &mut room);
        assert_eq!(room, 0);
        drop(out);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!((LONGEST - 3..LONGEST).contains(&lines[0].len()));
        assert!(lines[0].ends_with('é'), "cut between letters");
        assert_eq!(lines[1], "[7f3k] short");
        assert_eq!(
            lines[2],
            "[7f3k] (its output is longer: agent-sh logs 7f3k)"
        );
    }

    #[test]
    fn nobody_is_waited_for_at_the_end() {
        let (mut out, reader) = out();
        out.ends_at = Some(Instant::now());
        let more_than_a_pipe_holds = vec![b'x'; 4 * 1024 * 1024];
        fds::set_nonblocking(out.fd.as_fd()).unwrap();
        out.write(&more_than_a_pipe_holds);
        assert!(out.is_gone);
        let (mut out, closed) = self::out();
        drop((reader, closed));
        signal::ignore(&[libc::SIGPIPE]);
        out.write(b"x");
        assert!(out.is_gone);
    }
}

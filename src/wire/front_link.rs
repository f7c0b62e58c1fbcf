//! The front and its supervisor: two pipes that only they hold.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::sys::fds;

/// From the supervisor to the front.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ToFront {
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
pub(crate) enum ToSupervisor {
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
pub(crate) struct FrontLink {
    pub requests: OwnedFd,
    answers: File,
}

impl FrontLink {
    #[must_use]
    pub(crate) fn new(requests: OwnedFd, answers: OwnedFd) -> Self {
        Self {
            requests,
            answers: File::from(answers),
        }
    }

    /// Tells the front; one that is gone needs to be told nothing.
    pub(crate) fn tell(&mut self, message: &ToFront) {
        drop(self.answers.write_all(&message.encode()));
    }

    /// Whether the front has ended.
    #[must_use]
    pub(crate) fn is_gone(&self) -> bool {
        fds::consumer_is_gone(self.answers.as_raw_fd())
    }

    #[must_use]
    pub(crate) fn descriptors(&self) -> [i32; 2] {
        [self.requests.as_raw_fd(), self.answers.as_raw_fd()]
    }

    /// What the front says next; `None` when it is gone.
    pub(crate) fn hear(&self) -> Option<ToSupervisor> {
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
pub(crate) struct SupervisorLink {
    pub answers: File,
    requests: File,
}

impl SupervisorLink {
    #[must_use]
    pub(crate) fn new(answers: OwnedFd, requests: OwnedFd) -> Self {
        Self {
            answers: File::from(answers),
            requests: File::from(requests),
        }
    }

    /// Frames are shorter than PIPE_BUF, so they arrive whole.
    pub(crate) fn tell(&mut self, message: ToSupervisor) {
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
    pub(crate) fn hear(&mut self) -> io::Result<ToFront> {
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

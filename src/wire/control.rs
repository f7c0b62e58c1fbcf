//! The control channel: what `send`, `attach` and `top` ask of the supervisor of a job whose stdin is
//! its terminal, and its answers.
//!
//! A request names the job and where the answer is to go: a pipe of the asker's, opened by the
//! supervisor through `/proc` as the asker opened the request pipe. Bytes for the job are answered
//! when they are with its terminal, so whoever waits for the answer paces itself; and an asker that
//! has left takes back what its job did not read.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::job::JobId;
use crate::sys::fds::{self, Kind};
use crate::sys::{proc, session};
use crate::wire::Address;
use crate::wire::codec::{BLANK, NUL, Reader, Writer};
use crate::wire::frame::{HEAD, LONGEST, frame};

/// The most bytes for a job in one request.
pub(crate) const INPUT_LIMIT: usize = LONGEST - HEAD - 96;
/// Larger terminals do not exist.
const LARGEST_SIDE: u16 = 4000;

/// What is wanted of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Nothing: whether it can be asked, and the size of its terminal.
    Look,
    /// These bytes are typed.
    Input(Vec<u8>),
    /// The end of input is typed, as the terminal has it.
    Eof,
    Resize(Size),
}

/// Of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub rows: u16,
    pub columns: u16,
}

impl Size {
    #[must_use]
    pub fn is_sane(self) -> bool {
        let sane = 1..=LARGEST_SIDE;
        sane.contains(&self.rows) && sane.contains(&self.columns)
    }

    fn write(self, fields: Writer) -> Writer {
        fields.field(self.rows).field(self.columns)
    }

    fn read(fields: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            rows: fields.field()?,
            columns: fields.field()?,
        })
    }
}

/// A request about one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub job: JobId,
    /// Comes back with the answer.
    pub serial: u32,
    /// The process that waits for the answer, and its descriptor to write it to.
    pub answer_pid: i32,
    pub answer_fd: i32,
    pub what: What,
}

impl Ask {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (kind, payload) = match &self.what {
            What::Look => (b'l', Vec::new()),
            What::Input(bytes) => (b'i', bytes[..bytes.len().min(INPUT_LIMIT)].to_vec()),
            What::Eof => (b'e', Vec::new()),
            What::Resize(size) => (b'w', size.write(Writer::new(BLANK)).done()),
        };
        let content = Writer::new(NUL)
            .field(&self.job)
            .field(self.serial)
            .field(self.answer_pid)
            .field(self.answer_fd)
            .bytes(&payload);
        frame(kind, &content.done())
    }

    pub(super) fn read(kind: u8, content: &[u8]) -> Option<Self> {
        let mut fields = Reader::new(content, NUL);
        let job = fields.field()?;
        let (serial, answer_pid, answer_fd) = (fields.field()?, fields.field()?, fields.field()?);
        let payload = fields.rest()?;
        let what = match kind {
            b'l' => What::Look,
            b'i' => What::Input(payload.to_vec()),
            b'e' => What::Eof,
            b'w' => What::Resize(Size::read(&mut Reader::new(payload, BLANK))?),
            _ => return None,
        };
        Some(Self {
            job,
            serial,
            answer_pid,
            answer_fd,
            what,
        })
    }
}

/// What a supervisor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Done,
    /// It has no such job, or no more.
    NoJob,
    /// The job's stdin is no terminal of ours.
    NoStdin,
    /// Too much waits already for the job to read it.
    Full,
    /// A size that no terminal has.
    Refused,
}

impl Verdict {
    const WORDS: [(Self, &'static str); 5] = [
        (Self::Done, "done"),
        (Self::NoJob, "no-job"),
        (Self::NoStdin, "no-stdin"),
        (Self::Full, "full"),
        (Self::Refused, "refused"),
    ];
}

/// The answer to an [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub serial: u32,
    pub verdict: Verdict,
    /// 0x0 where there is none.
    pub size: Size,
}

impl Answer {
    #[must_use]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut words = Verdict::WORDS.iter();
        let word = words
            .find(|(verdict, _)| *verdict == self.verdict)
            .map_or("refused", |(_, word)| word);
        let line = Writer::new(BLANK).field(self.serial).field(word);
        let mut line = self.size.write(line).done();
        line.push(b'\n');
        line
    }

    fn read(line: &str) -> Option<Self> {
        let mut fields = Reader::new(line.as_bytes(), BLANK);
        let serial = fields.field()?;
        let word = fields.text()?;
        let (verdict, _) = *Verdict::WORDS.iter().find(|(_, known)| *known == word)?;
        let size = Size::read(&mut fields)?;
        Some(Self {
            serial,
            verdict,
            size,
        })
    }
}

/// Opens an asker's pipe for its answer. Anything else behind that descriptor is left alone.
#[must_use]
pub(crate) fn open_answer(pid: i32, fd: i32) -> Option<OwnedFd> {
    let path = format!("/proc/{pid}/fd/{fd}");
    let pipe = fds::open_path(&path, libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY).ok()?;
    (fds::kind(pipe.as_raw_fd()) == Kind::Pipe).then_some(pipe)
}

/// Why a supervisor cannot be asked, or did not answer.
#[derive(Debug)]
pub(crate) enum Silence {
    /// It runs in another pid namespace (a container): its descriptors cannot be reached from here.
    Elsewhere,
    /// It is gone.
    Gone,
    /// The time is over. For bytes that means: the job does not read.
    Late,
    Failed(io::Error),
}

/// The asker's end.
pub(crate) struct Control {
    job: JobId,
    requests: OwnedFd,
    supervisor: OwnedFd,
    answers: OwnedFd,
    /// Only its number is used: the supervisor opens it by that.
    answer_end: OwnedFd,
    bytes: Vec<u8>,
    serial: u32,
}

impl Control {
    /// Finds the supervisor. Its pid alone would not do: another process may have it by now.
    /// `pidns` is the namespace in which it has that pid.
    pub(crate) fn open(address: Address, pidns: u64, job: &JobId) -> Result<Self, Silence> {
        if pidns != proc::pidns() {
            return Err(Silence::Elsewhere);
        }
        let supervisor = proc::pidfd_open(address.pid).map_err(|_| Silence::Gone)?;
        if !address.is_live() {
            return Err(Silence::Gone);
        }
        let flags = libc::O_WRONLY | libc::O_NONBLOCK;
        let requests = fds::open_path(&address.pipe_path(), flags).map_err(|error| match error
            .raw_os_error()
        {
            Some(libc::ENOENT | libc::ESRCH | libc::ENXIO) => Silence::Gone,
            _ => Silence::Failed(error),
        })?;
        if fds::kind(requests.as_raw_fd()) != Kind::Pipe {
            return Err(Silence::Gone);
        }
        let (answers, answer_end) = fds::pipe().map_err(Silence::Failed)?;
        fds::set_nonblocking(answers.as_fd()).map_err(Silence::Failed)?;
        Ok(Self {
            job: job.clone(),
            requests,
            supervisor,
            answers,
            answer_end,
            bytes: Vec::new(),
            serial: 0,
        })
    }

    /// Asks, and gives the serial number of the answer to come.
    pub(crate) fn tell(&mut self, what: What) -> Result<u32, Silence> {
        self.serial = self.serial.wrapping_add(1);
        let ask = Ask {
            job: self.job.clone(),
            serial: self.serial,
            answer_pid: session::pid(),
            answer_fd: self.answer_end.as_raw_fd(),
            what,
        };
        match nix::unistd::write(&self.requests, &ask.encode()) {
            Ok(_) => Ok(self.serial),
            Err(Errno::EAGAIN) => Err(Silence::Late),
            Err(Errno::EPIPE) => Err(Silence::Gone),
            Err(error) => Err(Silence::Failed(error.into())),
        }
    }

    /// The next answer that is there.
    pub(crate) fn hear(&mut self) -> Option<Answer> {
        let mut buffer = [0u8; 512];
        while let Ok(count @ 1..) = nix::unistd::read(&self.answers, &mut buffer) {
            self.bytes.extend(&buffer[..count]);
        }
        loop {
            let end = self.bytes.iter().position(|&byte| byte == b'\n')?;
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]).into_owned();
            if let Some(answer) = Answer::read(&line) {
                return Some(answer);
            }
        }
    }

    /// Asks and waits for the answer.
    pub(crate) fn ask(&mut self, what: What, patience: Duration) -> Result<Answer, Silence> {
        let deadline = Instant::now() + patience;
        let serial = loop {
            match self.tell(what.clone()) {
                // The pipe is full: a supervisor that was stopped, or that many askers.
                Err(Silence::Late) if Instant::now() < deadline => {
                    self.wait(deadline, self.requests.as_fd(), PollFlags::POLLOUT)?;
                }
                other => break other?,
            }
        };
        loop {
            while let Some(answer) = self.hear() {
                if answer.serial == serial {
                    return Ok(answer);
                }
            }
            if !self.wait(deadline, self.answers.as_fd(), PollFlags::POLLIN)? {
                return Err(Silence::Late);
            }
        }
    }

    /// `false`: the time is over.
    fn wait(
        &self,
        deadline: Instant,
        on: std::os::fd::BorrowedFd<'_>,
        flags: PollFlags,
    ) -> Result<bool, Silence> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let mut fds = [
            PollFd::new(on, flags),
            PollFd::new(self.supervisor.as_fd(), PollFlags::POLLIN),
        ];
        let time = u16::try_from(left.as_millis().saturating_add(1)).unwrap_or(u16::MAX);
        match poll(&mut fds, PollTimeout::from(time)) {
            Ok(0) | Err(Errno::EINTR) => Ok(true),
            Ok(_) if fds[0].any().unwrap_or(true) => Ok(true),
            Ok(_) => Err(Silence::Gone),
            Err(error) => Err(Silence::Failed(error.into())),
        }
    }

    /// Readable when an answer is there.
    #[must_use]
    pub(crate) fn answers(&self) -> &OwnedFd {
        &self.answers
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Request;
    use super::*;

    #[test]
    fn requests_round_trip_within_one_write() {
        for what in [
            What::Look,
            What::Input(Vec::new()),
            What::Input((0..=255).collect()),
            What::Input(vec![b'x'; INPUT_LIMIT]),
            What::Eof,
            What::Resize(Size {
                rows: 50,
                columns: 160,
            }),
        ] {
            let ask = Ask {
                job: "7f3k2mnp".parse().unwrap(),
                serial: u32::MAX,
                answer_pid: i32::MAX,
                answer_fd: i32::MAX,
                what,
            };
            let mut bytes = ask.encode();
            assert!(bytes.len() <= LONGEST, "{} bytes", bytes.len());
            assert_eq!(Request::take(&mut bytes), Some(Request::Ask(ask)));
            assert!(bytes.is_empty());
        }
    }

    #[test]
    fn answers_round_trip() {
        for (verdict, _) in Verdict::WORDS {
            let answer = Answer {
                serial: 7,
                verdict,
                size: Size {
                    rows: 24,
                    columns: 80,
                },
            };
            let line = String::from_utf8(answer.encode()).unwrap();
            assert_eq!(Answer::read(line.trim_end()), Some(answer));
        }
        for bad in ["", "7", "7 done", "7 done 1", "x done 1 1", "7 maybe 1 1"] {
            assert_eq!(Answer::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes() {
        let sane = |rows, columns| Size { rows, columns }.is_sane();
        assert!(sane(24, 80) && sane(1, 1) && sane(4000, 4000));
        assert!(!sane(0, 80) && !sane(24, 0) && !sane(24, 4001));
    }
}

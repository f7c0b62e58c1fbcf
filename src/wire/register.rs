//! A process asks to become a job, and is told where to write.

use crate::plan::asked::Asked;
use crate::wire::codec::{NUL, Reader, Writer};
use crate::wire::frame::frame;

/// A request to make a process a job. Encoded in at most PIPE_BUF bytes, so that it arrives whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// One word, so that a supervisor that was started before an update does not stumble on it.
    pub asked: Asked,
    /// The process that becomes the job.
    pub pid: i32,
    /// The process that waits for the answer, and its descriptor to write it to.
    pub answer_pid: i32,
    pub answer_fd: i32,
    /// The command as people should see it.
    pub text: Vec<u8>,
}

pub(super) const KIND: u8 = b'r';
/// Longest text in a request; what is longer is cut.
const TEXT_LIMIT: usize = 3000;

impl Register {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let text = &self.text[..self.text.len().min(TEXT_LIMIT)];
        let content = Writer::new(NUL)
            .bytes(&self.asked.word())
            .field(self.pid)
            .field(self.answer_pid)
            .field(self.answer_fd)
            .bytes(text);
        frame(KIND, &content.done())
    }

    pub(super) fn read(content: &[u8]) -> Option<Self> {
        let mut fields = Reader::new(content, NUL);
        Some(Self {
            asked: Asked::read(fields.bytes()?),
            pid: fields.field()?,
            answer_pid: fields.field()?,
            answer_fd: fields.field()?,
            text: fields.rest()?.to_vec(),
        })
    }
}

/// The answer to a [`Register`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// The job's id; empty when nothing can be recorded.
    pub id: String,
    /// What to open for the streams to be replaced; empty: none.
    pub output: String,
    /// What to open for stderr, if not the same; empty: the same.
    pub errors: String,
    /// Whether stdout and stderr are to be replaced.
    pub stdout: bool,
    pub stderr: bool,
    /// Whether the output is a terminal, so that pagers must be kept from waiting for a person.
    pub tty: bool,
    /// Whether the caller of it all had INT and QUIT ignored.
    pub int_ignored: bool,
    pub quit_ignored: bool,
    /// Whether the shell has a controlling terminal whose hang-up a forked subshell must survive.
    pub hangups: bool,
    /// Whether stdin is to be replaced, by `/dev/null`.
    pub stdin: bool,
    /// The real shell, for scripts without a `#!` line.
    pub shell: String,
}

impl Registered {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let flags = [
            self.stdout,
            self.stderr,
            self.tty,
            self.int_ignored,
            self.quit_ignored,
            self.hangups,
            self.stdin,
        ];
        let flags: String = flags
            .iter()
            .map(|&flag| if flag { '1' } else { '0' })
            .collect();
        let mut line = Writer::new(NUL)
            .field(&self.id)
            .field(&self.output)
            .field(flags)
            .field(&self.shell)
            .field(&self.errors)
            .done();
        line.push(b'\n');
        line
    }

    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Reader::new(bytes.strip_suffix(b"\n")?, NUL);
        let (id, output, flags) = (fields.text()?, fields.text()?, fields.bytes()?);
        let flag = |at: usize| flags.get(at) == Some(&b'1');
        Some(Self {
            id: id.to_owned(),
            output: output.to_owned(),
            stdout: flag(0),
            stderr: flag(1),
            tty: flag(2),
            int_ignored: flag(3),
            quit_ignored: flag(4),
            hangups: flag(5),
            stdin: flag(6),
            shell: fields.text()?.to_owned(),
            // A supervisor that was started before an update does not say it.
            errors: fields.text().unwrap_or_default().to_owned(),
        })
    }

    /// Each stream that is to be replaced, with what to open for it.
    pub fn replaced(&self) -> impl Iterator<Item = (i32, &str)> {
        let errors = [&self.errors, &self.output].into_iter();
        let errors = errors.map(String::as_str).find(|path| !path.is_empty());
        let stdout = self.stdout.then_some((1, self.output.as_str()));
        let stderr = errors.filter(|_| self.stderr).map(|path| (2, path));
        let known = |(_, path): &(i32, &str)| !path.is_empty();
        stdout.into_iter().chain(stderr).filter(known)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Request;
    use super::*;
    use crate::job::How;

    #[test]
    fn requests_arrive_whole_one_after_the_other() {
        let one = Register {
            asked: Asked {
                pipe: true,
                ..Asked::plain(How::Nohup)
            },
            pid: 5,
            answer_pid: 6,
            answer_fd: 7,
            text: b"sleep \xff 1".to_vec(),
        };
        let two = Register {
            asked: Asked::read(b"setsid"),
            text: vec![b'x'; 9000],
            ..one.clone()
        };
        let mut bytes = one.encode();
        assert!(two.encode().len() <= 4096, "more than PIPE_BUF");
        bytes.extend(two.encode());
        assert_eq!(Request::take(&mut bytes), Some(Request::Register(one)));
        let Some(Request::Register(cut)) = Request::take(&mut bytes) else {
            panic!("no second request");
        };
        assert_eq!(cut.text.len(), TEXT_LIMIT);
        assert_eq!(cut.asked, two.asked);
        assert_eq!(Request::take(&mut bytes), None);
    }

    #[test]
    fn answers_round_trip() {
        let answer = Registered {
            id: "7f3k22".into(),
            output: "/dev/pts/7".into(),
            stdout: true,
            tty: true,
            hangups: true,
            stdin: true,
            shell: "/bin/bash".into(),
            ..Registered::default()
        };
        assert_eq!(Registered::decode(&answer.encode()), Some(answer.clone()));
        let apart = Registered {
            stderr: true,
            errors: "/dev/pts/8".into(),
            ..answer
        };
        assert_eq!(Registered::decode(&apart.encode()), Some(apart.clone()));
        let replaced: Vec<_> = apart.replaced().collect();
        assert_eq!(replaced, [(1, "/dev/pts/7"), (2, "/dev/pts/8")]);
        assert_eq!(Registered::decode(b"cut"), None);
        // As one that was started before an update says it.
        let old = Registered::decode(b"7f3k22\0/dev/pts/7\x00110000\0/bin/bash\n").unwrap();
        assert_eq!((old.shell.as_str(), old.errors.as_str()), ("/bin/bash", ""));
        let replaced: Vec<_> = old.replaced().collect();
        assert_eq!(replaced, [(1, "/dev/pts/7"), (2, "/dev/pts/7")]);
    }
}

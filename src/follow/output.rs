//! Where a job's output is to be read: its transcript, and the files that its streams were sent to.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

use crate::error::{Error, Result};
use crate::job::JobId;
use crate::screen::{self, Clean};
use crate::store::{Chunk, JobView, Mark, Reading, TranscriptReader};
use crate::sys::fds;

/// Bytes of one read.
pub(crate) const CHUNK: usize = 64 * 1024;

/// One place that a job writes to.
pub(crate) struct Source {
    from: From,
    /// What to watch for more.
    pub(crate) path: PathBuf,
    /// It holds nothing but stderr.
    pub(crate) is_stderr: bool,
    /// What was written there was drawn on a terminal.
    tty: bool,
    /// Sizes that the terminal got, with the offset from which they hold.
    sizes: Vec<Mark>,
    /// The one that was given last.
    size: Option<(u16, u16)>,
}

enum From {
    Transcript(TranscriptReader),
    /// With the position, to notice when it was truncated.
    File(File, u64),
}

/// What comes next from a source.
pub(crate) enum Piece<'a> {
    Bytes(&'a [u8]),
    /// So many bytes are not kept.
    Gap(u64),
    /// The file was truncated, and goes on at its beginning.
    Truncated,
}

/// How far a job's output was read, by offsets in the places that it may go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    stdout: u64,
    stderr: u64,
    transcript: u64,
}

impl Position {
    /// All that is there now.
    pub(crate) fn end_of(job: &JobView) -> Result<Self> {
        let mut position = Self::default();
        for mut source in sources(job)?.0 {
            source.skip_to_last(0)?;
            *position.of(&source) = source.offset();
        }
        Ok(position)
    }

    pub(super) fn of(&mut self, source: &Source) -> &mut u64 {
        match (source.is_file(), source.is_stderr) {
            (false, _) => &mut self.transcript,
            (true, false) => &mut self.stdout,
            (true, true) => &mut self.stderr,
        }
    }
}

/// As an argument of a process of ours.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.stdout, self.stderr, self.transcript)
    }
}

impl FromStr for Position {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let numbers = text.split(',').map(str::parse);
        let numbers: Vec<u64> = numbers
            .collect::<std::result::Result<_, _>>()
            .map_err(drop)?;
        let [stdout, stderr, transcript] = numbers[..] else {
            return Err(());
        };
        Ok(Self {
            stdout,
            stderr,
            transcript,
        })
    }
}

/// A stream that was sent elsewhere.
pub(crate) struct Redirected {
    pub(crate) is_stderr: bool,
    pub(crate) what: Redirection,
}

/// What became of a redirection.
pub(crate) enum Redirection {
    /// One of the sources is that file.
    File(String),
    /// A device, a pipe, or another thing whose bytes went elsewhere.
    Elsewhere(String),
    /// It cannot be read now.
    Failed(PathBuf, io::Error),
}

impl Redirected {
    /// Why the output is not to be had, if it is not.
    pub(crate) fn complaint(&self, id: &JobId) -> Option<String> {
        let whose = if self.is_stderr { "its stderr " } else { "" };
        match &self.what {
            Redirection::File(_) => None,
            Redirection::Elsewhere(target) if is_terminal(target) => Some(format!(
                "job {id} writes {whose}to the terminal of its call ('{target}'): that is not kept"
            )),
            Redirection::Elsewhere(target) => Some(format!(
                "job {id} writes {whose}to '{target}', which cannot be read again"
            )),
            Redirection::Failed(path, error) => {
                let target = path.display();
                let cause = crate::error::cause(error);
                Some(format!(
                    "job {id} writes {whose}to '{target}', which cannot be read: {cause}"
                ))
            }
        }
    }
}

fn is_terminal(target: &str) -> bool {
    let device = target.strip_prefix("/dev/").unwrap_or_default();
    ["pts/", "tty", "console"]
        .iter()
        .any(|name| device.starts_with(name))
}

/// The files that stdout and stderr went to, if they did, and the transcript, which comes last.
pub(crate) fn sources(job: &JobView) -> Result<(Vec<Source>, Vec<Redirected>)> {
    let mut found = Vec::new();
    let mut redirected = Vec::new();
    let launch = &job.launch;
    let stdout = launch.facts.redirected_to.iter().map(|path| (false, path));
    let stderr = launch
        .facts
        .redirected_stderr
        .iter()
        .map(|path| (true, path));
    for (is_stderr, target) in stdout.chain(stderr) {
        let path = Path::new(target);
        let what = match open_regular(path) {
            Ok(Some(file)) => {
                found.push(Source {
                    from: From::File(file, 0),
                    path: path.to_owned(),
                    is_stderr,
                    tty: false,
                    sizes: Vec::new(),
                    size: None,
                });
                Redirection::File(target.clone())
            }
            Ok(None) => Redirection::Elsewhere(target.clone()),
            // A terminal that is gone, or somebody else's by now.
            Err(_) if is_terminal(target) => Redirection::Elsewhere(target.clone()),
            Err(error) => Redirection::Failed(path.to_owned(), error),
        };
        redirected.push(Redirected { is_stderr, what });
    }
    found.push(transcript(job)?);
    Ok((found, redirected))
}

/// The transcript alone.
pub(crate) fn transcript(job: &JobView) -> Result<Source> {
    let sizes = job.times().into_iter();
    Ok(Source {
        from: From::Transcript(job.read_transcript(Reading::Marked)?),
        path: transcript_dir(job),
        is_stderr: false,
        tty: job.launch.facts.tty,
        sizes: sizes.filter(|mark| mark.size.is_some()).collect(),
        size: None,
    })
}

/// The directory in which the transcript grows.
pub(crate) fn transcript_dir(job: &JobView) -> PathBuf {
    let parent = job.transcript_path().parent().map(Path::to_owned);
    parent.unwrap_or_else(|| job.dir.clone())
}

/// Opens a plain file. `None`: it is no such thing.
fn open_regular(path: &Path) -> io::Result<Option<File>> {
    if !path.is_absolute() {
        return Ok(None);
    }
    // Not blocking, for a FIFO would hold us; the kind is checked on what was really opened.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    Ok(file.metadata()?.is_file().then_some(file))
}

impl Source {
    /// A fresh reader of its text.
    pub(crate) fn clean(&self) -> Clean {
        if self.tty {
            Clean::default()
        } else {
            Clean::of_file()
        }
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self.from, From::File(..))
    }

    /// Whether our own output goes to that very file: showing it would never end.
    pub(crate) fn is_own_stdout(&self) -> bool {
        use std::os::fd::AsRawFd;
        let own = fds::object(io::stdout().as_raw_fd());
        match &self.from {
            From::File(file, _) => own.is_some() && own == fds::object(file.as_raw_fd()),
            From::Transcript(_) => false,
        }
    }

    /// When a file was last written to.
    pub(crate) fn changed_at(&self) -> Option<SystemTime> {
        match &self.from {
            From::File(file, _) => file.metadata().and_then(|facts| facts.modified()).ok(),
            From::Transcript(_) => None,
        }
    }

    /// Whether it is a file that ends before this offset: it was truncated since somebody read that far.
    pub(crate) fn ends_before(&self, offset: u64) -> bool {
        match &self.from {
            From::File(file, _) => file.metadata().is_ok_and(|facts| facts.len() < offset),
            From::Transcript(_) => false,
        }
    }

    /// Reads on, at most up to where the terminal gets another size. `None`: there is nothing, for now.
    pub(crate) fn next<'b>(&mut self, buffer: &'b mut [u8]) -> Result<Option<Piece<'b>>> {
        let chunk = loop {
            match self.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::io("read", &self.path, source)),
                Ok(None) => return Ok(Some(Piece::Truncated)),
                Ok(Some(chunk)) => break chunk,
            }
        };
        Ok(match chunk {
            Chunk::Bytes(read) => Some(Piece::Bytes(&buffer[..read])),
            Chunk::Gap(bytes) => Some(Piece::Gap(bytes)),
            Chunk::End => None,
        })
    }

    /// `None`: it was truncated.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<Chunk>> {
        match &mut self.from {
            From::Transcript(reader) => {
                let offset = reader.offset();
                let next = self.sizes.iter().find(|mark| mark.offset > offset);
                let until = next.map_or(u64::MAX, |mark| mark.offset);
                let most = usize::try_from(until.saturating_sub(offset)).unwrap_or(usize::MAX);
                let most = buffer.len().min(most.max(1));
                reader.next(&mut buffer[..most]).map(Some)
            }
            From::File(file, position) => {
                let read = file.read(buffer)?;
                if read == 0 && file.metadata()?.len() < *position {
                    *position = 0;
                    file.seek(SeekFrom::Start(0))?;
                    return Ok(None);
                }
                *position += read as u64;
                Ok(Some(if read > 0 {
                    Chunk::Bytes(read)
                } else {
                    Chunk::End
                }))
            }
        }
    }

    /// The size that the terminal has from here on, if it changed.
    pub(crate) fn new_size(&mut self) -> Option<(u16, u16)> {
        let From::Transcript(reader) = &self.from else {
            return None;
        };
        let offset = reader.offset();
        let last = self.sizes.iter().rfind(|mark| mark.offset <= offset);
        let size = last.and_then(|mark| mark.size);
        (std::mem::replace(&mut self.size, size) != size).then_some(size)?
    }

    /// Goes to where `most` bytes are left. `false`: to the beginning.
    pub(crate) fn skip_to_last(&mut self, most: u64) -> Result<bool> {
        self.size = None;
        match &mut self.from {
            From::Transcript(reader) => Ok(reader.skip_to_last(most)),
            From::File(file, position) => {
                let failed = |source| Error::io("read", &self.path, source);
                let end = file.metadata().map_err(failed)?.len();
                *position = end.saturating_sub(most);
                file.seek(SeekFrom::Start(*position)).map_err(failed)?;
                Ok(*position > 0)
            }
        }
    }

    /// Goes to an offset.
    pub(crate) fn skip_to(&mut self, offset: u64) -> Result<()> {
        self.size = None;
        match &mut self.from {
            From::Transcript(reader) => reader.skip_to(offset),
            From::File(file, position) => {
                *position = offset;
                file.seek(SeekFrom::Start(offset))
                    .map_err(|source| Error::io("read", &self.path, source))?;
            }
        }
        Ok(())
    }

    pub(crate) fn offset(&self) -> u64 {
        match &self.from {
            From::Transcript(reader) => reader.offset(),
            From::File(_, position) => *position,
        }
    }

    /// Reads what there is now: each piece goes through `take`.
    pub(crate) fn read_on(
        &mut self,
        buffer: &mut [u8],
        mut take: impl FnMut(&mut Self, Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        while let Some(piece) = self.next(buffer)? {
            take(self, piece)?;
        }
        Ok(())
    }
}

/// The last line of a job's output that says something, as clean text.
pub(crate) fn latest_line(job: &JobView) -> Option<String> {
    const ENOUGH: u64 = 8 * 1024;
    let mut latest = None;
    for mut source in sources(job).ok()?.0 {
        source.skip_to_last(ENOUGH).ok()?;
        let mut bytes = vec![0; ENOUGH as usize];
        let mut all = Vec::new();
        source
            .read_on(&mut bytes, |_, piece| {
                if let Piece::Bytes(bytes) = piece {
                    all.extend(bytes);
                }
                Ok(())
            })
            .ok()?;
        let text = screen::clean_tail(&all, ENOUGH as usize);
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        latest = latest.or_else(|| line.map(str::to_owned));
    }
    latest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_as_arguments() {
        let position = Position {
            stdout: 1,
            stderr: 0,
            transcript: u64::MAX,
        };
        assert_eq!(position.to_string().parse(), Ok(position));
        for bad in ["", "1", "1,2", "1,2,3,4", "1,2,x", "-1,0,0"] {
            assert_eq!(bad.parse::<Position>(), Err(()), "{bad}");
        }
    }
}

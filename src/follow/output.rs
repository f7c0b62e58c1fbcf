//! Where a job's output is to be read: its transcript, and the files that its streams were sent to.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
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
    /// With the position, to notice when it was cut.
    File(File, u64),
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
    /// What a person has to be told, if the output is not to be had.
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
    found.push(Source {
        from: From::Transcript(job.read_transcript(Reading::Marked)?),
        path: transcript_dir(job),
        is_stderr: false,
        tty: job.launch.facts.tty,
        sizes: job
            .times()
            .into_iter()
            .filter(|mark| mark.size.is_some())
            .collect(),
        size: None,
    });
    Ok((found, redirected))
}

/// The directory in which the transcript grows.
fn transcript_dir(job: &JobView) -> PathBuf {
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

    /// Reads on, at most up to where the terminal gets another size.
    pub(crate) fn next(&mut self, buffer: &mut [u8]) -> Result<Chunk> {
        loop {
            match self.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::io("read", &self.path, source)),
                Ok(chunk) => return Ok(chunk),
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Chunk> {
        match &mut self.from {
            From::Transcript(reader) => {
                let offset = reader.offset();
                let next = self.sizes.iter().find(|mark| mark.offset > offset);
                let until = next.map_or(u64::MAX, |mark| mark.offset);
                let most = usize::try_from(until.saturating_sub(offset)).unwrap_or(usize::MAX);
                let most = buffer.len().min(most.max(1));
                reader.next(&mut buffer[..most])
            }
            From::File(file, position) => {
                let mut read = file.read(buffer)?;
                if read == 0 && file.metadata()?.len() < *position {
                    // It was cut and begins anew.
                    *position = 0;
                    file.seek(SeekFrom::Start(0))?;
                    read = file.read(buffer)?;
                }
                *position += read as u64;
                Ok(if read > 0 {
                    Chunk::Bytes(read)
                } else {
                    Chunk::End
                })
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

    /// Reads what there is now: each piece goes through `take`, a gap as `None`.
    pub(crate) fn read_on(
        &mut self,
        buffer: &mut [u8],
        mut take: impl FnMut(&mut Self, Option<&[u8]>, u64) -> Result<()>,
    ) -> Result<()> {
        loop {
            match self.next(buffer)? {
                Chunk::Bytes(read) => take(self, Some(&buffer[..read]), 0)?,
                Chunk::Gap(bytes) => take(self, None, bytes)?,
                Chunk::End => return Ok(()),
            }
        }
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
            .read_on(&mut bytes, |_, piece, _| {
                all.extend(piece.unwrap_or_default());
                Ok(())
            })
            .ok()?;
        let text = screen::clean_tail(&all, ENOUGH as usize);
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        latest = latest.or_else(|| line.map(str::to_owned));
    }
    latest
}

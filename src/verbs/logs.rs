//! `logs`: what a job wrote, and what it goes on to write.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::cli::Logs;
use crate::error::{Error, Result};
use crate::message;
use crate::store::{JobView, Reading};
use crate::sys::fds;
use crate::verbs::clean::Clean;
use crate::verbs::format::sentence;
use crate::verbs::{Context, row};

/// Bytes of one read.
const CHUNK: usize = 64 * 1024;
/// A notice of the kernel can be missed (another host wrote, a queue ran over): then we look anyway.
const RESCAN_MS: u16 = 2000;
/// The same where there are no notices at all.
const RESCAN_BLIND_MS: u16 = 250;

pub(crate) fn logs(context: &Context, logs: &Logs) -> Result<u8> {
    let job = context.find(&logs.job)?;
    let follow = logs.follow && !job.state.is_terminal();
    let mut streams = sources(&job, logs.raw, follow)?
        .into_iter()
        .map(|source| Stream::new(source, logs))
        .collect::<Result<Vec<_>>>()?;
    if !follow {
        return streams.iter_mut().try_for_each(Stream::finish).map(|()| 0);
    }
    // Watch first, read afterwards: what is written in between wakes us.
    let watch = watch(&streams);
    let ended = ending_of(&job)?;
    loop {
        streams.iter_mut().try_for_each(Stream::catch_up)?;
        if sleep(watch.as_ref(), &ended) {
            break;
        }
    }
    streams.iter_mut().try_for_each(Stream::finish)?;
    if let Some(now) = job.reload()? {
        message::say(sentence(&row(&now)));
    }
    Ok(0)
}

/// Where a job's output is to be read.
struct Source {
    reader: Box<dyn Read>,
    /// What to watch for more.
    path: PathBuf,
    /// A second handle of a plain file, to set its position.
    file: Option<File>,
}

/// The file that stdout went to, if it did, and the transcript.
fn sources(job: &JobView, raw: bool, follow: bool) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    if let Some(target) = &job.launch.redirected_to {
        let path = Path::new(target);
        let id = &job.launch.id;
        match open_regular(path) {
            Ok(Some(file)) if is_own_stdout(&file) => {
                return Err(Error::Failed {
                    text: format!(
                        "job {id} writes to '{target}', which is also this call's output"
                    ),
                    hint: Some("read that file, or send the output of 'logs' elsewhere".to_owned()),
                });
            }
            Ok(Some(file)) => {
                let verb = if follow { "following" } else { "showing" };
                message::say(format!("job {id} writes to '{target}': {verb} that file"));
                let reader = file.try_clone().map_err(|e| Error::io("read", path, e))?;
                found.push(Source {
                    reader: Box::new(reader),
                    path: path.to_owned(),
                    file: Some(file),
                });
            }
            Ok(None) => {
                message::say(format!(
                    "job {id} writes to '{target}', which cannot be read again"
                ));
            }
            // Its other stream may still be in the transcript.
            Err(error) if job.bytes_total() > 0 => {
                message::say(Error::io("read", path, error));
            }
            Err(source) => return Err(Error::io("read", path, source)),
        }
    }
    let reading = if raw { Reading::Raw } else { Reading::Marked };
    found.push(Source {
        reader: Box::new(job.read_transcript(reading)?),
        path: transcript_dir(job),
        file: None,
    });
    Ok(found)
}

/// Whether our own output goes to that very file: showing it would never end.
fn is_own_stdout(file: &File) -> bool {
    use std::os::fd::AsRawFd;
    let own = fds::object(std::io::stdout().as_raw_fd());
    own.is_some() && own == fds::object(file.as_raw_fd())
}

/// The directory in which the transcript grows.
fn transcript_dir(job: &JobView) -> PathBuf {
    let parent = job.transcript_path().parent().map(Path::to_owned);
    parent.unwrap_or_else(|| job.dir.clone())
}

/// Opens a plain file. `None`: it is a device, a pipe, or another thing whose bytes went elsewhere.
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

/// One source on its way to stdout.
struct Stream {
    source: Source,
    raw: bool,
    clean: Clean,
    /// The last lines so far; `Some` while older ones may have to be forgotten.
    last: Option<LastLines>,
}

impl Stream {
    fn new(mut source: Source, logs: &Logs) -> Result<Self> {
        // A file may be huge: begin where its last lines begin. Both handles share one position.
        if let (Some(lines), Some(file)) = (logs.lines, &mut source.file) {
            seek_to_last_lines(file, lines)
                .map_err(|error| Error::io("read", &source.path, error))?;
        }
        Ok(Self {
            source,
            raw: logs.raw,
            clean: Clean::default(),
            last: logs.lines.map(LastLines::new),
        })
    }

    /// Prints what there is now; from here on everything is printed.
    fn catch_up(&mut self) -> Result<()> {
        self.read_on()?;
        self.release()
    }

    /// Prints the rest, with a last line that has no newline.
    fn finish(&mut self) -> Result<()> {
        self.read_on()?;
        if let Some(line) = self.clean.finish() {
            self.put(format!("{line}\n").as_bytes())?;
        }
        self.release()
    }

    fn read_on(&mut self) -> Result<()> {
        let mut buffer = vec![0; CHUNK];
        loop {
            match self.source.reader.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) if self.raw => self.put(&buffer[..read])?,
                Ok(read) => {
                    let mut lines = String::with_capacity(read);
                    self.clean.push(&buffer[..read], |line| {
                        lines.push_str(&line);
                        lines.push('\n');
                    });
                    self.put(lines.as_bytes())?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::io("read", &self.source.path, source)),
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.last {
            Some(last) => {
                last.push(bytes);
                Ok(())
            }
            None if bytes.is_empty() => Ok(()),
            None => message::out_bytes(bytes),
        }
    }

    fn release(&mut self) -> Result<()> {
        match self.last.take() {
            Some(last) => message::out_bytes(&last.bytes()),
            None => Ok(()),
        }
    }
}

/// The last lines of what passes; a line without a newline at the end counts as one.
struct LastLines {
    most: usize,
    lines: VecDeque<Vec<u8>>,
}

impl LastLines {
    fn new(most: usize) -> Self {
        Self {
            most,
            lines: VecDeque::new(),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            match self.lines.back_mut() {
                Some(line) if line.last() != Some(&b'\n') => line.extend(piece),
                _ => self.lines.push_back(piece.to_vec()),
            }
            while self.lines.len() > self.most {
                self.lines.pop_front();
            }
        }
    }

    fn bytes(self) -> Vec<u8> {
        self.lines.into_iter().flatten().collect()
    }
}

/// Sets the position to the beginning of the last lines.
fn seek_to_last_lines(file: &mut File, lines: usize) -> io::Result<()> {
    let end = file.seek(SeekFrom::End(0))?;
    let mut start = end;
    let mut newlines = 0;
    let mut block = vec![0; CHUNK];
    while start > 0 {
        let size = start.min(CHUNK as u64);
        start -= size;
        let block = &mut block[..size as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(block)?;
        for (place, _) in block.iter().enumerate().rev().filter(|(_, b)| **b == b'\n') {
            // The newline at the very end closes the last line, it does not begin one.
            let after = start + place as u64 + 1;
            newlines += usize::from(after < end);
            if newlines >= lines && after < end || lines == 0 {
                file.seek(SeekFrom::Start(if lines == 0 { end } else { after }))?;
                return Ok(());
            }
        }
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(())
}

/// Asks the kernel to tell when more is written. `None`: it cannot.
fn watch(streams: &[Stream]) -> Option<Inotify> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?;
    let flags = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
    for stream in streams {
        inotify.add_watch(&stream.source.path, flags).ok()?;
    }
    Some(inotify)
}

/// A pipe that ends when the job has ended.
fn ending_of(job: &JobView) -> Result<PipeReader> {
    let failed = |source| Error::sys("wait", source);
    let (reader, writer) = io::pipe().map_err(failed)?;
    let job = job.clone();
    std::thread::Builder::new()
        .spawn(move || {
            // A wait that failed ends the following too: nothing would ever tell its end.
            drop(job.wait(None));
            drop(writer);
        })
        .map_err(failed)?;
    Ok(reader)
}

/// Blocks until there may be more; `true`: the job has ended.
fn sleep(watch: Option<&Inotify>, ended: &PipeReader) -> bool {
    let mut fds = vec![PollFd::new(ended.as_fd(), PollFlags::POLLIN)];
    fds.extend(watch.map(|watch| PollFd::new(watch.as_fd(), PollFlags::POLLIN)));
    let time = if watch.is_some() {
        RESCAN_MS
    } else {
        RESCAN_BLIND_MS
    };
    match poll(&mut fds, PollTimeout::from(time)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(_) => return true,
    }
    let is_over = fds[0].any().unwrap_or(true);
    if let Some(watch) = watch {
        // What happened does not matter, only that it is not told again.
        drop(watch.read_events());
    }
    is_over
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_last_lines() {
        for (most, pieces, wanted) in [
            (2, &["a\nb\n", "c\n"][..], "b\nc\n"),
            (2, &["a\nb\nc"], "b\nc"),
            (1, &["a\nlo", "ng", " line\n"], "long line\n"),
            (0, &["a\nb"], ""),
            (5, &["a\nb"], "a\nb"),
        ] {
            let mut last = LastLines::new(most);
            pieces.iter().for_each(|piece| last.push(piece.as_bytes()));
            assert_eq!(last.bytes(), wanted.as_bytes(), "{most} {pieces:?}");
        }
    }

    #[test]
    fn the_last_lines_of_a_file() {
        let long = "x".repeat(CHUNK);
        let big = format!("a\n{long}\nb\n{long}\nc\n");
        for (lines, text, wanted) in [
            (2, "a\nb\nc\n", "b\nc\n"),
            (2, "a\nb\nc", "b\nc"),
            (9, "a\nb\nc", "a\nb\nc"),
            (3, "a\nb\nc\n", "a\nb\nc\n"),
            (0, "a\nb\n", ""),
            (1, "", ""),
            (1, &big, "c\n"),
            (3, &big, &big[big.len() - CHUNK - 5..]),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            seek_to_last_lines(&mut file, lines).unwrap();
            let mut rest = String::new();
            file.read_to_string(&mut rest).unwrap();
            assert!(rest == wanted, "{lines} of {} bytes", text.len());
        }
    }
}

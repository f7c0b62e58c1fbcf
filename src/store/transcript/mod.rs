//! What a job wrote, byte for byte, up to a cap.
//!
//! The first eighth of the cap is kept in `out`, and the newest of the rest in a ring of segments
//! `out.1`, `out.2`, …: a job that prints for ever keeps its beginning and its end. Segment numbers
//! only rise and each but the last is full, so a reader can tell from names and sizes alone how much
//! was written. Nothing is buffered: what was read from the job is with the kernel when `write`
//! returns. A full disk loses bytes, counted, and never blocks the job.

pub(super) mod reader;
pub(super) mod times;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use crate::job::record::OutputFacts;
use crate::store::transcript::times::Times;
use crate::sys::{clock, fsx};

/// After the disk refused, it is asked again this much later.
const RETRY: Duration = Duration::from_secs(1);
const SEGMENTS: u64 = 8;
/// Smaller segments would cost more in files than they are worth.
const LEAST_SEGMENT: u64 = 4096;
/// A job that fills a segment every microsecond comes here after thirty-five years.
const LAST_INDEX: u64 = 1 << 50;

/// How a cap is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Layout {
    head: u64,
    pub(in crate::store) segment: u64,
    segments: u64,
}

impl Layout {
    pub(in crate::store) fn of(cap: u64) -> Self {
        let head = cap / SEGMENTS;
        let rest = cap - head;
        let segments = (rest / LEAST_SEGMENT).clamp(1, SEGMENTS);
        Self {
            head,
            segment: (rest / segments).max(1),
            segments,
        }
    }

    pub(in crate::store) fn limit(&self, index: u64) -> u64 {
        if index == 0 { self.head } else { self.segment }
    }

    /// How many bytes were stored before those of a file.
    pub(in crate::store) fn start(&self, index: u64) -> u64 {
        match index.checked_sub(1) {
            None => 0,
            // The number may come from the name of a file, and the cap from `run.json`.
            Some(before) => self
                .head
                .saturating_add(before.saturating_mul(self.segment)),
        }
    }
}

pub(in crate::store) fn file_name(index: u64) -> String {
    if index == 0 {
        "out".to_owned()
    } else {
        format!("out.{index}")
    }
}

/// The writing end, held by the supervisor.
#[derive(Debug)]
pub struct Transcript {
    dir: Arc<OwnedFd>,
    layout: Layout,
    keeps: bool,
    tty: bool,
    /// The file that is written to; `Some` iff the last of `files` is open.
    current: Option<File>,
    /// Index and size of each file that is kept; the head first, if it exists.
    files: VecDeque<(u64, u64)>,
    total: u64,
    dropped: u64,
    capped: bool,
    /// Boot time before which the disk is not asked.
    blocked_until: Option<Duration>,
    times: Times,
}

impl Transcript {
    pub(in crate::store) fn new(dir: Arc<OwnedFd>, cap: u64, tty: bool) -> Self {
        Self {
            dir,
            layout: Layout::of(cap),
            keeps: cap > 0,
            tty,
            current: None,
            files: VecDeque::new(),
            total: 0,
            dropped: 0,
            capped: false,
            blocked_until: None,
            times: Times::new(),
        }
    }

    /// Takes the bytes. Never fails: what cannot be kept is counted.
    pub fn write(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if !self.keeps {
            return;
        }
        if self.blocked_until.is_none() && !bytes.is_empty() {
            let offset = self.stored();
            self.times.mark(&self.dir, offset);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            if !self.is_ready() {
                self.dropped += rest.len() as u64;
                return;
            }
            match self.write_some(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.blocked_until = Some(clock::boottime() + RETRY);
                    // A descriptor whose write failed may be stale (a remount, a revoked file).
                    self.current = None;
                }
            }
        }
    }

    /// Where the next byte will be, counting those that are no longer kept.
    fn stored(&self) -> u64 {
        let (index, size) = self.files.back().copied().unwrap_or((0, 0));
        self.layout.start(index).saturating_add(size)
    }

    /// The job's terminal has another size from here on.
    pub fn resized(&mut self, rows: u16, columns: u16) {
        if self.keeps {
            let offset = self.stored();
            self.times.resized(&self.dir, offset, (rows, columns));
        }
    }

    fn is_ready(&mut self) -> bool {
        match self.blocked_until {
            Some(until) if clock::boottime() < until => false,
            _ => {
                self.blocked_until = None;
                true
            }
        }
    }

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (index, size) = self.files.back().copied().unwrap_or((0, 0));
        let full = size >= self.layout.limit(index);
        if full {
            self.next_segment(index + 1)?;
        } else if self.current.is_none() {
            self.current = Some(self.open(index)?);
            if self.files.is_empty() {
                self.files.push_back((0, 0));
            }
        }
        let (Some(file), Some((index, size))) = (&mut self.current, self.files.back_mut()) else {
            return Err(io::ErrorKind::Other.into());
        };
        let room = self.layout.limit(*index) - *size;
        let now = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        match file.write(&bytes[..now])? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            written => {
                *size += written as u64;
                Ok(written)
            }
        }
    }

    /// Creates the file, or opens the one that is there already and goes on at its end.
    fn open(&self, index: u64) -> io::Result<File> {
        use std::io::Seek;
        let name = file_name(index);
        match fsx::create_at(&*self.dir, name.as_str()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mut file = fsx::open_rw_at(&*self.dir, name.as_str())?;
                file.seek(io::SeekFrom::End(0))?;
                Ok(file)
            }
            other => other,
        }
    }

    fn next_segment(&mut self, index: u64) -> io::Result<()> {
        // The oldest goes first, so that a full disk has room for the new one.
        while self.ring_len() >= self.layout.segments {
            self.drop_oldest();
            self.capped = true;
        }
        self.current = None;
        self.current = Some(self.open(index)?);
        self.files.push_back((index, 0));
        Ok(())
    }

    fn ring_len(&self) -> u64 {
        self.files.iter().filter(|(index, _)| *index > 0).count() as u64
    }

    fn drop_oldest(&mut self) {
        let oldest = self.files.iter().position(|(index, _)| *index > 0);
        if let Some((index, _)) = oldest.and_then(|at| self.files.remove(at)) {
            drop(fsx::unlink_at(&*self.dir, file_name(index).as_str()));
        }
    }

    /// Gives space back for the record: a segment of the ring, or the end of the head.
    /// `false`: there is nothing to give.
    pub(in crate::store) fn give_up_space(&mut self) -> bool {
        self.current = None;
        if self.times.give_up(&self.dir) {
            return true;
        }
        if self.ring_len() > 0 {
            self.drop_oldest();
            self.capped = true;
            return true;
        }
        let Some((0, size)) = self.files.back_mut() else {
            return false;
        };
        let less = size.saturating_sub(64 * 1024);
        if less == *size {
            return false;
        }
        let cut = fsx::open_rw_at(&*self.dir, "out").and_then(|file| file.set_len(less));
        self.dropped += *size - less;
        *size = less;
        cut.is_ok()
    }

    /// Closes the file, to free a descriptor. Writing opens it again.
    pub(in crate::store) fn close(&mut self) {
        self.current = None;
        self.times.close();
    }

    /// Makes the file exist even if the job never writes, so that its path can be read.
    pub(in crate::store) fn touch(&self) {
        if self.files.is_empty() {
            drop(fsx::create_at(&*self.dir, "out"));
        }
    }

    /// Asks the disk to have it all.
    pub fn sync(&self) -> io::Result<()> {
        self.current.as_ref().map_or(Ok(()), File::sync_data)
    }

    #[must_use]
    pub fn bytes_total(&self) -> u64 {
        self.total
    }

    #[must_use]
    pub fn facts(&self) -> OutputFacts {
        OutputFacts {
            bytes_total: self.total,
            bytes_kept: sum(&self.files),
            dropped_bytes: self.dropped,
            capped: self.capped,
            tty: self.tty,
            missing_since: None,
        }
    }

    /// The last `most` bytes that are kept.
    #[must_use]
    pub fn tail(&self, most: usize) -> Vec<u8> {
        tail_of(
            &*self.dir,
            &self.files.iter().copied().collect::<Vec<_>>(),
            most,
        )
    }
}

/// Which file of a transcript has this name, if we could have made it: `out.007` and `out.+7` are
/// strangers, and so is a number that no job has ever come to.
fn index_of(name: &str) -> Option<u64> {
    let index = match name.strip_prefix("out")? {
        "" => 0,
        rest => rest.strip_prefix('.')?.parse().ok()?,
    };
    (index <= LAST_INDEX && name == file_name(index)).then_some(index)
}

/// All bytes of these files. A sparse file can claim to have more than there can be.
fn sum<'a>(files: impl IntoIterator<Item = &'a (u64, u64)>) -> u64 {
    let sizes = files.into_iter().map(|(_, size)| *size);
    sizes.fold(0, u64::saturating_add)
}

/// Index and size of each file of a transcript, in order.
pub(in crate::store) fn list(dir: impl AsFd) -> Vec<(u64, u64)> {
    let names = fsx::names(dir.as_fd()).unwrap_or_default();
    let mut files: Vec<(u64, u64)> = names
        .iter()
        .filter_map(|name| name.to_str())
        .filter_map(index_of)
        .filter_map(|index| {
            let stat = fsx::stat_at(dir.as_fd(), file_name(index).as_str()).ok()?;
            fsx::is_regular(&stat).then(|| (index, stat.st_size.unsigned_abs()))
        })
        .collect();
    files.sort_unstable();
    files
}

/// The names of its files, in order.
pub(in crate::store) fn names(dir: impl AsFd) -> Vec<String> {
    let files = list(dir).into_iter();
    files.map(|(index, _)| file_name(index)).collect()
}

fn tail_of(dir: impl AsFd, files: &[(u64, u64)], most: usize) -> Vec<u8> {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let mut left = most as u64;
    for &(index, size) in files.iter().rev() {
        if left == 0 {
            break;
        }
        let wanted = size.min(left);
        let mut piece = vec![0; usize::try_from(wanted).unwrap_or(0)];
        let read = fsx::open_at(dir.as_fd(), file_name(index).as_str())
            .and_then(|file| file.read_exact_at(&mut piece, size - wanted));
        if read.is_err() {
            break;
        }
        left -= wanted;
        pieces.push(piece);
    }
    pieces.reverse();
    pieces.concat()
}

/// What the files of a transcript say of its size.
pub(in crate::store) fn facts_on_disk(dir: impl AsFd, cap: u64, tty: bool) -> OutputFacts {
    let files = list(dir);
    let layout = Layout::of(cap);
    let kept = sum(&files);
    let total = match files.last() {
        Some(&(last, size)) if last > 0 && cap > 0 => layout.start(last).saturating_add(size),
        _ => kept,
    };
    OutputFacts {
        bytes_total: total.max(kept),
        bytes_kept: kept,
        dropped_bytes: 0,
        capped: files.iter().any(|&(index, _)| index > layout.segments),
        tty,
        missing_since: None,
    }
}

pub(in crate::store) fn tail_on_disk(dir: impl AsFd, most: usize) -> Vec<u8> {
    let files = list(dir.as_fd());
    tail_of(dir, &files, most)
}

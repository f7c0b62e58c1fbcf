//! When a job wrote what: a small file `times` beside its transcript.
//!
//! A line is `MS OFFSET`, the wall time in milliseconds and how many bytes had been stored by then,
//! or `MS OFFSET ROWSxCOLUMNS` where the terminal got another size. Output that follows within the
//! step belongs to the mark before it, so a job that prints all the time costs one small write now
//! and then. When the file is full, the step is doubled and marks that are too close go. Losing it
//! loses nothing but times.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::UNIX_EPOCH;

use crate::sys::{clock, fsx};

const NAME: &str = "times";
/// Milliseconds.
const FIRST_STEP: u64 = 50;
/// About 1.5 MB.
const MOST: usize = 1 << 16;
/// No file of ours is larger.
const LARGEST: u64 = 4 << 20;

/// No terminal of ours has more rows or columns.
const LARGEST_SIDE: u16 = 4000;

/// Everything from `offset` on, up to the next mark, was written at `at_ms` or a moment later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Wall time, in milliseconds since 1970.
    pub at_ms: u64,
    /// Bytes of the transcript before it, those included that are no longer kept.
    pub offset: u64,
    /// Rows and columns, from here on.
    pub size: Option<(u16, u16)>,
}

impl Mark {
    fn line(&self) -> String {
        match self.size {
            None => format!("{} {}\n", self.at_ms, self.offset),
            Some((rows, columns)) => {
                format!("{} {} {rows}x{columns}\n", self.at_ms, self.offset)
            }
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let at_ms = words.next()?.parse().ok()?;
        let offset = words.next()?.parse().ok()?;
        let size = match words.next() {
            None => None,
            Some(size) => {
                let (rows, columns) = size.split_once('x')?;
                let side = |text: &str| {
                    let side = text.parse::<u16>().ok();
                    // A screen of that size will be made: what no terminal has is not believed.
                    side.filter(|side| (1..=LARGEST_SIDE).contains(side))
                };
                Some((side(rows)?, side(columns)?))
            }
        };
        Some(Self {
            at_ms,
            offset,
            size,
        })
    }
}

/// The writing end.
#[derive(Debug)]
pub(in crate::store) struct Times {
    step: u64,
    last_ms: Option<u64>,
    count: usize,
    file: Option<File>,
    /// It could not be written, or was given up: there are no times.
    off: bool,
}

impl Times {
    pub(in crate::store) fn new() -> Self {
        Self {
            step: FIRST_STEP,
            last_ms: None,
            count: 0,
            file: None,
            off: false,
        }
    }

    /// To be called before bytes are stored at `offset`. Cheap: mostly it only asks the clock.
    pub(in crate::store) fn mark(&mut self, dir: &OwnedFd, offset: u64) {
        if self.off {
            return;
        }
        let now = now_ms();
        // A wall clock that was set back gets a mark too.
        if self
            .last_ms
            .is_some_and(|last| now.abs_diff(last) < self.step)
        {
            return;
        }
        self.last_ms = Some(now);
        self.add(
            dir,
            &Mark {
                at_ms: now,
                offset,
                size: None,
            },
        );
    }

    pub(in crate::store) fn resized(&mut self, dir: &OwnedFd, offset: u64, size: (u16, u16)) {
        if !self.off {
            let mark = Mark {
                at_ms: now_ms(),
                offset,
                size: Some(size),
            };
            self.add(dir, &mark);
        }
    }

    fn add(&mut self, dir: &OwnedFd, mark: &Mark) {
        let written = self
            .open(dir)
            .and_then(|file| file.write_all(mark.line().as_bytes()));
        self.count += 1;
        if written.is_err() || (self.count >= MOST && self.thin(dir).is_err()) {
            self.off = true;
            self.file = None;
        }
    }

    fn open(&mut self, dir: &OwnedFd) -> io::Result<&mut File> {
        if self.file.is_none() {
            use std::io::Seek;
            let file = match fsx::create_at(dir, NAME) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let mut file = fsx::open_rw_at(dir, NAME)?;
                    file.seek(io::SeekFrom::End(0))?;
                    file
                }
                other => other?,
            };
            self.file = Some(file);
        }
        self.file
            .as_mut()
            .ok_or_else(|| io::ErrorKind::Other.into())
    }

    /// Doubles the step until half of the marks are enough.
    fn thin(&mut self, dir: &OwnedFd) -> io::Result<()> {
        let mut marks = read(dir);
        while marks.len() > MOST / 2 {
            self.step = self.step.saturating_mul(2);
            marks = thinned(&marks, self.step);
        }
        let text: String = marks.iter().map(Mark::line).collect();
        let temporary = format!("{NAME}.tmp");
        drop(fsx::unlink_at(dir, temporary.as_str()));
        let mut file = fsx::create_at(dir, temporary.as_str())?;
        file.write_all(text.as_bytes())?;
        fsx::rename_at(dir, temporary.as_str(), dir, NAME)?;
        self.count = marks.len();
        self.file = Some(file);
        Ok(())
    }

    /// Closes the file, to free a descriptor.
    pub(in crate::store) fn close(&mut self) {
        self.file = None;
    }

    /// Gives the space back. `false`: there was none.
    pub(in crate::store) fn give_up(&mut self, dir: &OwnedFd) -> bool {
        self.close();
        !std::mem::replace(&mut self.off, true) && fsx::unlink_at(dir, NAME).is_ok()
    }
}

/// What is closer to the mark before than a step goes; sizes stay, but a flood of them does not.
fn thinned(marks: &[Mark], step: u64) -> Vec<Mark> {
    let mut kept: Vec<Mark> = Vec::new();
    for mark in marks {
        match kept.last_mut() {
            Some(last) if mark.at_ms.abs_diff(last.at_ms) < step => {
                if mark.size.is_some() {
                    last.size = mark.size;
                }
            }
            _ => kept.push(*mark),
        }
    }
    kept
}

fn now_ms() -> u64 {
    let since = clock::wall().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as u64)
}

/// The marks in order. What is no mark (a torn last line) is passed over.
pub(in crate::store) fn read(dir: impl AsFd) -> Vec<Mark> {
    let Ok(file) = fsx::open_at(dir, NAME) else {
        return Vec::new();
    };
    let mut text = Vec::new();
    if !fsx::stat_of(&file).is_ok_and(|stat| fsx::is_regular(&stat))
        || file.take(LARGEST).read_to_end(&mut text).is_err()
    {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&text);
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut marks: Vec<Mark> = whole.lines().filter_map(Mark::parse).collect();
    // Offsets only rise; anything else was not written by us.
    let mut highest = 0;
    marks.retain(|mark| {
        let rises = mark.offset >= highest;
        highest = highest.max(mark.offset);
        rises
    });
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_ms: u64, offset: u64) -> Mark {
        Mark {
            at_ms,
            offset,
            size: None,
        }
    }

    #[test]
    fn lines_are_read_back() {
        let sized = Mark {
            size: Some((40, 132)),
            ..at(5, 6)
        };
        for mark in [at(0, 0), at(1_763_276_400_123, 1 << 40), sized] {
            assert_eq!(Mark::parse(mark.line().trim_end()), Some(mark));
        }
        for bad in [
            "",
            "1",
            "x 1",
            "1 -1",
            "1 2 3",
            "1 2 axb",
            "1 2 65535x65535",
            "1 2 0x0",
        ] {
            assert_eq!(Mark::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_file_stays_small_and_its_times_right() {
        let keep = tempfile::tempdir().unwrap();
        let dir = fsx::open_dir(keep.path()).unwrap();
        let mut times = Times::new();
        for number in 0..200_000u64 {
            times.add(&dir, &at(number * 60, number * 10));
        }
        let marks = read(&dir);
        assert!(
            marks.len() < MOST && marks.len() > MOST / 8,
            "{}",
            marks.len()
        );
        assert!(times.step > FIRST_STEP);
        for pair in marks.windows(2) {
            // What lies between two marks was written within two steps of the first: halving and
            // halving again adds up.
            let last = (pair[1].offset - 10) / 10 * 60;
            assert!(last - pair[0].at_ms < 2 * times.step, "{pair:?}");
        }
        assert!(times.give_up(&dir) && !times.give_up(&dir));
        assert!(read(&dir).is_empty());
    }
}

//! Reading a transcript: in order, from its end, or from a point in what was written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;

use crate::store::transcript::{Layout, file_name, list};
use crate::sys::fsx;

/// Whether a reader says where bytes are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Only what the job wrote.
    Raw,
    /// Gaps too.
    Marked,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// So many bytes, at least one.
    Bytes(usize),
    /// So many bytes are not kept.
    Gap(u64),
    /// Nothing, for now.
    End,
}

/// Reads a transcript in order. At its end there is nothing, and more when the job wrote more.
#[derive(Debug)]
pub struct TranscriptReader {
    dir: OwnedFd,
    reading: Reading,
    layout: Layout,
    /// The bytes missing between head and ring, where the record says so exactly.
    missing: Option<u64>,
    index: u64,
    position: u64,
    file: Option<File>,
    gaps: VecDeque<u64>,
}

impl TranscriptReader {
    pub(in crate::store) fn new(
        dir: OwnedFd,
        cap: u64,
        missing: Option<u64>,
        reading: Reading,
    ) -> Self {
        Self {
            dir,
            reading,
            layout: Layout::of(cap),
            missing,
            index: 0,
            position: 0,
            file: None,
            gaps: VecDeque::new(),
        }
    }

    /// How many bytes were stored before the next one, those included that are no longer kept.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.layout.start(self.index).saturating_add(self.position)
    }

    /// Goes to where `most` of the kept bytes are left to be read, or to the beginning. Gives
    /// whether anything is passed over.
    pub fn skip_to_last(&mut self, most: u64) -> bool {
        let files = list(&self.dir);
        let mut left = most;
        for &(index, size) in files.iter().rev() {
            if size > left {
                self.go_to(index, size - left);
                return true;
            }
            left -= size;
        }
        self.go_to(0, 0);
        false
    }

    /// Goes to an offset, or to the first byte after it that is kept.
    pub fn skip_to(&mut self, offset: u64) {
        let files = list(&self.dir);
        let holds =
            |&&(index, size): &&(u64, u64)| offset < self.layout.start(index).saturating_add(size);
        match files.iter().find(holds) {
            Some(&(index, _)) => {
                let start = self.layout.start(index);
                self.go_to(index, offset.saturating_sub(start));
            }
            // At or after the end: there it will come.
            None => match files.last() {
                Some(&(index, size)) => self.go_to(index, size),
                None => self.go_to(0, 0),
            },
        }
    }

    fn go_to(&mut self, index: u64, position: u64) {
        self.index = index;
        self.position = position;
        self.file = None;
        self.gaps.clear();
    }

    /// Reads on.
    pub fn next(&mut self, buffer: &mut [u8]) -> io::Result<Chunk> {
        loop {
            if let Some(gap) = self.gaps.pop_front() {
                return Ok(Chunk::Gap(gap));
            }
            let read = self.read_here(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(Chunk::Bytes(read));
            }
            let next = list(&self.dir)
                .into_iter()
                .map(|(index, _)| index)
                .find(|&index| index > self.index);
            let Some(next) = next else {
                return Ok(Chunk::End);
            };
            // The writer may have filled this file between our read and our look at the next.
            let read = self.read_here(buffer)?;
            if read > 0 {
                return Ok(Chunk::Bytes(read));
            }
            if next - self.index > 1 {
                self.note_gap(next);
            }
            self.index = next;
            self.position = 0;
            self.file = None;
        }
    }

    fn read_here(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.file.is_none() {
            match fsx::open_at(&self.dir, file_name(self.index).as_str()) {
                Ok(mut file) => {
                    file.seek(SeekFrom::Start(self.position))?;
                    self.file = Some(file);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
                Err(error) => return Err(error),
            }
        }
        let Some(file) = &mut self.file else {
            return Ok(0);
        };
        let read = file.read(buffer)?;
        self.position = self.position.saturating_add(read as u64);
        Ok(read)
    }

    fn note_gap(&mut self, next: u64) {
        let passed = self.layout.limit(self.index).saturating_sub(self.position);
        let between = (next - self.index - 1).saturating_mul(self.layout.segment);
        let gap = match self.missing.take() {
            Some(exact) => exact,
            None => passed.saturating_add(between),
        };
        if gap > 0 && self.reading == Reading::Marked {
            self.gaps.push_back(gap);
        }
    }
}

/// The bytes alone.
impl Read for TranscriptReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.next(buffer)? {
                Chunk::Bytes(read) => return Ok(read),
                Chunk::Gap(_) => {}
                Chunk::End => return Ok(0),
            }
        }
    }
}

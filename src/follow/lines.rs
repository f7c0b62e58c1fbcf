//! The output of a job as clean text.
//!
//! [`Stream`] is one source with the emulator that reads it. [`Lines`] are all sources of a job, line by
//! line as somebody at its terminal would have seen them: this is what `wait --for-output` and
//! `notify --on-output` hold their patterns against.

use std::time::Duration;

use super::output::{CHUNK, Piece, Position, Source};
use super::sleep::Sleeper;
use crate::error::Result;
use crate::screen::Clean;

/// Nothing has moved for so long: what is drawn again and again may be shown, and a prompt.
pub(crate) const AT_REST: Duration = Duration::from_millis(300);
/// So many pieces are read before others get their turn: a job may write faster than anybody reads.
const ONE_TURN: usize = 64;

/// One source on its way through the emulator.
pub(crate) struct Stream {
    pub(crate) source: Source,
    clean: Clean,
    buffer: Vec<u8>,
    /// The unfinished line that was given last.
    unfinished: String,
}

/// What was read.
pub(crate) enum Text<'a> {
    /// One that is complete.
    Line(&'a str),
    /// So many bytes are not kept.
    Gap(u64),
    /// Bytes as they came.
    Raw(&'a [u8]),
}

impl Stream {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            clean: source.clean(),
            buffer: vec![0; CHUNK],
            unfinished: String::new(),
            source,
        }
    }

    /// Begins anew with the text, wherever the source is.
    pub(crate) fn restart(&mut self) {
        self.clean = self.source.clean();
    }

    /// Reads what there is now, as bytes or as lines that can no longer change. Gives whether there was
    /// anything.
    pub(crate) fn read_on(
        &mut self,
        raw: bool,
        mut take: impl FnMut(Text<'_>) -> Result<()>,
    ) -> Result<bool> {
        let mut any = false;
        while self.read(raw, &mut take)? {
            any = true;
        }
        Ok(any)
    }

    /// Reads one piece of at most a buffer's size. `false`: there is nothing, for now.
    pub(crate) fn read(
        &mut self,
        raw: bool,
        take: impl FnMut(Text<'_>) -> Result<()>,
    ) -> Result<bool> {
        let read = self.read_within(raw, u64::MAX, take)?;
        Ok(read.is_some())
    }

    /// The same of at most `limit` bytes; one that reaches the limit ends with a line, where one ends in
    /// it. Gives how many bytes were looked at.
    pub(crate) fn read_within(
        &mut self,
        raw: bool,
        limit: u64,
        mut take: impl FnMut(Text<'_>) -> Result<()>,
    ) -> Result<Option<u64>> {
        let Self {
            source,
            clean,
            buffer,
            ..
        } = self;
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let most = most.min(buffer.len());
        let mut piece = source.next(&mut buffer[..most])?;
        let mut read = 0;
        if let Some(Piece::Bytes(bytes)) = &mut piece {
            read = bytes.len() as u64;
            if read == limit {
                *bytes = give_back_last_line(source, bytes)?;
            }
        }
        let Some(piece) = piece else {
            return Ok(None);
        };
        let mut result = Ok(());
        let mut line = |line: &str| {
            if result.is_ok() {
                result = take(Text::Line(line));
            }
        };
        match piece {
            Piece::Bytes(bytes) if raw => return take(Text::Raw(bytes)).map(|()| Some(read)),
            Piece::Gap(_) | Piece::Truncated if raw => return Ok(Some(read)),
            Piece::Bytes(bytes) => {
                clean.push(bytes, line);
                // A read ends where the size changes.
                if let Some((rows, columns)) = source.new_size() {
                    clean.resize(rows, columns);
                }
            }
            Piece::Truncated => clean.finish(line),
            Piece::Gap(bytes) => {
                clean.finish(&mut line);
                result?;
                result = take(Text::Gap(bytes));
            }
        }
        result.map(|()| Some(read))
    }

    /// Reads up to this offset, for what still stands on the screen there.
    pub(crate) fn read_up_to(&mut self, offset: u64) -> Result<()> {
        loop {
            let left = offset.saturating_sub(self.source.offset());
            let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            self.buffer.truncate(most);
            let more = most > 0 && self.read(false, |_| Ok(()))?;
            self.buffer.resize(CHUNK, 0);
            if !more {
                self.clean.settle(true, |_| {});
                return Ok(());
            }
        }
    }

    /// Gives the lines that are complete now, though they may still be drawn over; those that are drawn
    /// again and again only `at_rest`.
    pub(crate) fn settle(&mut self, at_rest: bool, line: impl FnMut(&str)) {
        self.clean.settle(at_rest, line);
    }

    /// Gives the rest, with a last line that has no newline.
    pub(crate) fn finish(&mut self, line: impl FnMut(&str)) {
        self.clean.finish(line);
    }

    /// The line that is being written, so far.
    pub(crate) fn current(&self) -> String {
        self.clean.current()
    }

    /// Whether what was read began in the middle of a full-screen program.
    pub(crate) fn began_in_full_screen(&self) -> bool {
        self.clean.began_in_full_screen()
    }

    /// Reads one piece, and gives every state that a line was left in. Gives how many bytes it was;
    /// `None`: there is nothing, for now.
    fn read_seen(&mut self, each: &mut impl FnMut(Seen<'_>)) -> Result<Option<u64>> {
        let Self {
            source,
            clean,
            buffer,
            unfinished,
        } = self;
        let Some(piece) = source.next(buffer)? else {
            return Ok(None);
        };
        let Piece::Bytes(bytes) = piece else {
            // What was begun there was given already.
            clean.finish(|_| {});
            unfinished.clear();
            return Ok(Some(0));
        };
        let mut before = std::mem::take(unfinished);
        let mut last = String::new();
        clean.push_seen(bytes, |line| {
            line.clone_into(&mut last);
            let before = std::mem::take(&mut before);
            // Nothing is being written, or nothing new: a newline came, or the cursor moved.
            if line.is_empty() || line == before {
                return;
            }
            let continues = !before.is_empty() && line.starts_with(&before);
            each(Seen { line, continues });
        });
        *unfinished = last;
        if let Some((rows, columns)) = source.new_size() {
            clean.resize(rows, columns);
        }
        Ok(Some(bytes.len() as u64))
    }
}

/// What is left without the beginning of a line behind the last newline; that is read again later.
fn give_back_last_line<'b>(source: &mut Source, bytes: &'b [u8]) -> Result<&'b [u8]> {
    let taken = memchr::memrchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
    if taken < bytes.len() {
        let rest = (bytes.len() - taken) as u64;
        source.skip_to(source.offset() - rest)?;
    }
    Ok(&bytes[..taken])
}

/// A line as it was at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen<'a> {
    pub(crate) line: &'a str,
    /// It is the unfinished line that was given before, grown.
    pub(crate) continues: bool,
}

/// All that a job writes, as it is seen.
pub(crate) struct Lines {
    streams: Vec<Stream>,
    /// There is more to be read at once.
    pub(crate) is_behind: bool,
}

impl Lines {
    pub(crate) fn new(sources: Vec<Source>) -> Self {
        Self {
            streams: sources.into_iter().map(Stream::new).collect(),
            is_behind: false,
        }
    }

    /// Passes over what was written before.
    pub(crate) fn skip_to(&mut self, mut position: Position) -> Result<()> {
        for Stream { source, clean, .. } in &mut self.streams {
            source.skip_to(*position.of(source))?;
            if let Some((rows, columns)) = source.new_size() {
                clean.resize(rows, columns);
            }
        }
        Ok(())
    }

    /// Wakes the sleeper up when there is more.
    pub(crate) fn watch(&self, sleeper: &mut Sleeper, number: usize) {
        for stream in &self.streams {
            sleeper.watch_output(&stream.source.path, number);
        }
    }

    /// Reads on for one turn, and gives each line in every state that it was left in: what was drawn
    /// over was seen too, and a prompt has no newline. Gives how many bytes there were.
    pub(crate) fn read_on(&mut self, mut each: impl FnMut(Seen<'_>)) -> Result<u64> {
        let mut total = 0;
        self.is_behind = false;
        for stream in &mut self.streams {
            for turn in 1.. {
                match stream.read_seen(&mut each)? {
                    Some(bytes) => total += bytes,
                    None => break,
                }
                if turn == ONE_TURN {
                    self.is_behind = true;
                    break;
                }
            }
        }
        Ok(total)
    }
}

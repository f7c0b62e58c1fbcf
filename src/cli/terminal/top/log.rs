//! The clean log of a job, to scroll through.

use std::collections::VecDeque;

use crate::cli::format::columns;
use crate::error::Result;
use crate::follow::lines::{Stream, Text};
use crate::follow::output;
use crate::store::JobView;

/// So many lines can be scrolled through; `agent-sh logs` has them all.
const MOST: usize = 20_000;
/// So many pieces are read before the screen is drawn.
const ONE_TURN: usize = 64;

/// What a job wrote, as lines, growing.
pub(super) struct Log {
    streams: Vec<Stream>,
    lines: VecDeque<String>,
    /// The line that is not complete yet.
    unfinished: String,
    /// The line at the top; `None`: the end is shown, whatever comes.
    from: Option<usize>,
    /// Whether there is more to read at once.
    pub(super) is_behind: bool,
}

impl Log {
    pub(super) fn of(job: &JobView) -> Result<Self> {
        let (sources, _) = output::sources(job)?;
        let mut log = Self::new(sources.into_iter().map(Stream::new).collect());
        log.catch_up()?;
        Ok(log)
    }

    fn new(streams: Vec<Stream>) -> Self {
        Self {
            streams,
            lines: VecDeque::new(),
            unfinished: String::new(),
            from: None,
            is_behind: false,
        }
    }

    /// Reads on, one turn.
    pub(super) fn catch_up(&mut self) -> Result<()> {
        self.is_behind = false;
        let mut streams = std::mem::take(&mut self.streams);
        let result = streams.iter_mut().try_for_each(|stream| self.read(stream));
        self.streams = streams;
        let mut unfinished = self.streams.iter().map(Stream::current);
        self.unfinished = unfinished.find(|line| !line.is_empty()).unwrap_or_default();
        result
    }

    fn read(&mut self, stream: &mut Stream) -> Result<()> {
        for _ in 0..ONE_TURN {
            let lines = &mut self.lines;
            let more = stream.read(false, |text| {
                if let Text::Line(line) = text {
                    lines.push_back(line.to_owned());
                }
                Ok(())
            })?;
            if !more {
                stream.settle(true, |line| lines.push_back(line.to_owned()));
                self.forget();
                return Ok(());
            }
            self.forget();
        }
        self.is_behind = true;
        Ok(())
    }

    fn forget(&mut self) {
        let excess = self.lines.len().saturating_sub(MOST);
        self.lines.drain(..excess);
        if let Some(from) = &mut self.from {
            *from = from.saturating_sub(excess);
        }
    }

    fn line(&self, at: usize) -> Option<String> {
        if at == self.lines.len() {
            return Some(self.unfinished.clone()).filter(|line| !line.is_empty());
        }
        self.lines.get(at).cloned()
    }

    fn len(&self) -> usize {
        self.lines.len() + usize::from(!self.unfinished.is_empty())
    }

    /// The first line of the last page.
    fn last_page(&self, rows: usize, width: usize) -> usize {
        let mut from = self.len();
        let mut filled = 0;
        while from > 0 {
            let height = self
                .line(from - 1)
                .map_or(1, |line| folded(&line, width).len());
            if filled + height > rows {
                break;
            }
            filled += height;
            from -= 1;
        }
        // A line taller than the page is shown from its beginning.
        from.min(self.len().saturating_sub(1))
    }

    /// The rows of the page.
    pub(super) fn page(&self, rows: u16, width: u16) -> Vec<String> {
        let (rows, width) = (usize::from(rows), usize::from(width));
        let from = self.from.unwrap_or_else(|| self.last_page(rows, width));
        let mut page = Vec::new();
        for at in from..self.len() {
            if page.len() >= rows {
                break;
            }
            page.extend(
                self.line(at)
                    .map(|line| folded(&line, width))
                    .unwrap_or_default(),
            );
        }
        page.truncate(rows);
        page
    }

    /// Moves by so many lines; at the end it follows.
    pub(super) fn scroll(&mut self, by: isize, rows: u16, width: u16) {
        let end = self.last_page(usize::from(rows), usize::from(width));
        let from = self.from.unwrap_or(end).saturating_add_signed(by);
        self.from = (from < end).then_some(from);
    }

    /// What of it is shown, for the title.
    pub(super) fn place(&self) -> String {
        match self.from {
            None => format!("{} lines, end", self.len()),
            Some(from) => format!("line {} of {}", from + 1, self.len()),
        }
    }
}

/// A line in pieces of at most so many columns; at least one.
fn folded(line: &str, width: usize) -> Vec<String> {
    let line = line.replace('\t', "    ");
    if columns(&line) <= width {
        return vec![line];
    }
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut filled = 0;
    for letter in line.chars() {
        let wide = columns(letter.encode_utf8(&mut [0; 4]));
        if filled + wide > width.max(1) && !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
            filled = 0;
        }
        piece.push(letter);
        filled += wide;
    }
    pieces.push(piece);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Log {
        let mut log = Log::new(Vec::new());
        log.lines = text.lines().map(str::to_owned).collect();
        log
    }

    #[test]
    fn pages() {
        let text: String = (1..=100).map(|n| format!("line {n}\n")).collect();
        let mut log = log(&text);
        assert_eq!(log.page(3, 80), ["line 98", "line 99", "line 100"]);
        log.scroll(-2, 3, 80);
        assert_eq!(log.page(3, 80), ["line 96", "line 97", "line 98"]);
        log.scroll(-1000, 3, 80);
        assert_eq!(log.page(2, 80), ["line 1", "line 2"]);
        log.scroll(1000, 3, 80);
        assert_eq!(log.page(1, 80), ["line 100"]);
        assert_eq!(log.page(0, 0), Vec::<String>::new());
    }

    #[test]
    fn long_lines_are_folded() {
        let log = log("short\n0123456789\n");
        assert_eq!(log.page(4, 4), ["0123", "4567", "89"]);
        assert_eq!(log.page(9, 4), ["shor", "t", "0123", "4567", "89"]);
        assert_eq!(folded("日本語", 4), ["日本", "語"]);
        assert_eq!(folded("", 4), [""]);
        assert_eq!(folded("ab", 0), ["a", "b"]);
    }
}

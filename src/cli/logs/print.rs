//! Lines on their way to stdout: chosen, dressed, and kept back if only the last are wanted.

use std::collections::VecDeque;

use regex::Regex;
use serde_json::json;

use super::args::Logs;
use crate::cli::format::size;
use crate::error::Result;
use crate::follow::lines::Text;
use crate::message;
use crate::text;

pub(super) struct Printer {
    grep: Option<Regex>,
    json: bool,
    /// Somebody comes back for the rest of a line that is not complete.
    portions: bool,
    /// The last lines so far; `Some` while older ones may have to be forgotten.
    last: Option<LastLines>,
    out: Vec<u8>,
    /// What was printed of a line that is not complete.
    begun: String,
}

impl Printer {
    pub(super) fn new(logs: &Logs) -> Self {
        Self {
            grep: logs.grep.clone(),
            json: logs.json,
            portions: logs.cursor.is_some(),
            last: logs.lines.map(LastLines::new),
            out: Vec::new(),
            begun: String::new(),
        }
    }

    pub(super) fn line(&mut self, line: &str) {
        if self
            .grep
            .as_ref()
            .is_some_and(|wanted| !wanted.is_match(line))
        {
            return;
        }
        let begun = std::mem::take(&mut self.begun);
        if self.json {
            return self.line_object(&begun, line, false);
        }
        match line.strip_prefix(begun.as_str()) {
            Some(rest) => self.put(rest.as_bytes()),
            None => {
                self.put(b"\n");
                self.put(line.as_bytes());
            }
        }
        self.put(b"\n");
    }

    /// Of a line that was begun earlier only the rest, unless it was written anew.
    fn line_object(&mut self, begun: &str, line: &str, unfinished: bool) {
        let rest = line.strip_prefix(begun).filter(|_| !begun.is_empty());
        let mut object = json!({ "line": rest.unwrap_or(line) });
        if !begun.is_empty() {
            let how = if rest.is_some() {
                "continued"
            } else {
                "redrawn"
            };
            object[how] = true.into();
        }
        if unfinished {
            object["unfinished"] = true.into();
        }
        self.put(text::escape_json(&object.to_string()).as_bytes());
        self.put(b"\n");
    }

    /// This much of a line was printed by an earlier call.
    pub(super) fn has_begun(&mut self, line: &str) {
        if self.grep.is_none() {
            line.clone_into(&mut self.begun);
        }
    }

    pub(super) fn text(&mut self, text: &Text<'_>) {
        match text {
            Text::Raw(bytes) => self.put(bytes),
            Text::Line(line) => self.line(line),
            Text::Gap(bytes) => self.gap(*bytes),
        }
    }

    pub(super) fn gap(&mut self, bytes: u64) {
        let line = if self.json {
            json!({ "left_out": bytes }).to_string()
        } else {
            gap_line(bytes)
        };
        self.put(format!("{line}\n").as_bytes());
    }

    /// Shows a line that is not complete, such as a prompt, as far as it is.
    pub(super) fn unfinished(&mut self, line: &str) {
        if self.grep.is_some() || line.is_empty() || self.json && !self.portions {
            return;
        }
        if self.json {
            let begun = std::mem::replace(&mut self.begun, line.to_owned());
            if begun != line {
                self.line_object(&begun, line, true);
            }
            return;
        }
        match line.strip_prefix(self.begun.as_str()) {
            Some(rest) => self.put(rest.as_bytes()),
            None => {
                self.put(b"\n");
                self.put(line.as_bytes());
            }
        }
        line.clone_into(&mut self.begun);
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        match &mut self.last {
            Some(last) => last.push(bytes),
            None => self.out.extend(bytes),
        }
    }

    /// Writes what has gathered; lines that are kept back stay.
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let result = message::out_bytes(&self.out);
        self.out.clear();
        result
    }

    /// From here on everything is printed.
    pub(super) fn release(&mut self) -> Result<()> {
        if let Some(last) = self.last.take() {
            self.out = last.bytes();
        }
        self.flush()
    }
}

/// What stands where the middle of a long output was not kept.
pub(super) fn gap_line(bytes: u64) -> String {
    format!("[... {} left out ...]", size(bytes))
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
            while self.lines.len() > self.most.max(1) {
                self.lines.pop_front();
            }
        }
    }

    fn bytes(self) -> Vec<u8> {
        if self.most == 0 {
            return Vec::new();
        }
        self.lines.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_prompt_is_finished_where_it_began() {
        let mut printer = Printer {
            grep: None,
            json: false,
            portions: false,
            last: None,
            out: Vec::new(),
            begun: String::new(),
        };
        printer.line("one");
        printer.unfinished("Name? ");
        printer.unfinished("Name? jo");
        printer.line("Name? joe");
        printer.unfinished("50%");
        printer.line("done");
        assert_eq!(printer.out, b"one\nName? joe\n50%\ndone\n");
        assert_eq!(gap_line(12_900_000), "[... 12.3 MiB left out ...]");
    }
}

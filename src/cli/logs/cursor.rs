//! Reading a job's output in portions: where one ended, the next begins.
//!
//! A cursor names the job and, for each place that it writes to, the bytes that were read: `7f3k2m.t512` for the
//! transcript, with `o` and `e` for the files that stdout and stderr were redirected to. What stood on the terminal
//! at that point is drawn again before reading on, unseen, so a line that was only begun is continued and not
//! repeated, and what overwrites earlier lines is understood.

use std::fmt;
use std::str::FromStr;

use serde_json::json;

use super::{BEFORE, Shown};
use crate::error::{Error, Result};
use crate::follow::output::Source;
use crate::job::JobId;
use crate::message;
use crate::store::JobView;

/// More is not needed to tell one cursor from another, and nothing longer is one.
const LONGEST: usize = 128;

/// How far a reader has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cursor {
    /// From the first byte.
    Start,
    At {
        job: JobId,
        places: Vec<(char, u64)>,
    },
}

impl FromStr for Cursor {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if ["0", "start"].contains(&text) {
            return Ok(Self::Start);
        }
        parse(text).ok_or_else(|| "that is no cursor of 'agent-sh logs'".to_owned())
    }
}

fn parse(text: &str) -> Option<Cursor> {
    let mut parts = text.split('.').filter(|_| text.len() <= LONGEST);
    let job = parts.next()?.parse().ok()?;
    let mut places = Vec::new();
    for part in parts {
        let mut letters = part.chars();
        let place = letters.next().filter(|letter| "teo".contains(*letter))?;
        let digits = letters.as_str();
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        places.push((place, digits.parse().ok().filter(|_| plain)?));
    }
    (!places.is_empty()).then_some(Cursor::At { job, places })
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::At { job, places } = self else {
            return f.write_str("0");
        };
        write!(f, "{job}")?;
        let mut places = places.iter();
        places.try_for_each(|(place, offset)| write!(f, ".{place}{offset}"))
    }
}

impl Cursor {
    /// What a caller gave. A cursor of another job would skip what this one wrote.
    pub(super) fn wanted(text: Option<&str>, job: &JobView) -> Result<Option<Self>> {
        let wrong = |text: String| Error::Usage {
            text,
            hint: Some("'--cursor 0' reads from the beginning".to_owned()),
        };
        let Some(text) = text else { return Ok(None) };
        let cursor: Self = text.parse().map_err(wrong)?;
        match &cursor {
            Self::At { job: other, .. } if other != job.id() => {
                let id = job.id();
                Err(wrong(format!(
                    "that cursor belongs to job {other}, not to job {id}"
                )))
            }
            _ => Ok(Some(cursor)),
        }
    }

    /// Where to go on in one place. A place that was unknown then is read from its beginning.
    pub(super) fn offset(&self, source: &Source) -> u64 {
        let Self::At { places, .. } = self else {
            return 0;
        };
        let found = places.iter().find(|(place, _)| *place == letter(source));
        found.map_or(0, |(_, offset)| *offset)
    }

    /// Says where the next call is to begin: the last line of stderr, or of the JSON.
    pub(super) fn tell(&self, job: &JobView, shown: &mut [Shown], json: bool) -> Result<()> {
        let next = self.after(job, shown);
        if !json {
            return message::err(&format!("cursor: {next}\n"));
        }
        let mut more = false;
        for one in shown {
            more |= one.has_more()?;
        }
        message::out_json(&json!({ "cursor": next.to_string(), "more": more }))
    }

    /// Where the streams stand now. Places that are not read this time keep what the old cursor says of them.
    fn after(&self, job: &JobView, shown: &[Shown]) -> Self {
        let mut places: Vec<(char, u64)> = shown
            .iter()
            .map(|one| (letter(&one.stream.source), one.stream.source.offset()))
            .collect();
        if let Self::At { places: old, .. } = self {
            let read: Vec<char> = places.iter().map(|(place, _)| *place).collect();
            places.extend(old.iter().filter(|(place, _)| !read.contains(place)));
        }
        Self::At {
            job: job.id().clone(),
            places,
        }
    }
}

fn letter(source: &Source) -> char {
    match (source.is_file(), source.is_stderr) {
        (false, _) => 't',
        (true, true) => 'e',
        (true, false) => 'o',
    }
}

impl Shown {
    /// Goes to where the last portion ended, with what stood on the terminal then. What was dropped since is told.
    pub(super) fn resume(&mut self, offset: u64) -> Result<()> {
        let source = &mut self.stream.source;
        if source.ends_before(offset) {
            return source.skip_to(0);
        }
        source.skip_to(offset)?;
        let kept = source.offset();
        if kept > offset {
            self.printer.gap(kept - offset);
            return Ok(());
        }
        if self.raw || offset == 0 {
            return Ok(());
        }
        source.skip_to(offset.saturating_sub(BEFORE))?;
        self.stream.read_up_to(offset)?;
        self.printer.has_begun(&self.stream.current());
        Ok(())
    }

    /// Reads at most so many bytes, up to the end of a line where there is one.
    pub(super) fn read_at_most(&mut self, limit: u64) -> Result<()> {
        let mut left = limit;
        while left > 0 {
            let printer = &mut self.printer;
            let read = self.stream.read_within(self.raw, left, |text| {
                printer.text(&text);
                Ok(())
            })?;
            self.printer.flush()?;
            let Some(read) = read else { break };
            self.has_news |= read > 0;
            left -= read;
        }
        Ok(())
    }

    /// Whether there is something behind what was read.
    fn has_more(&mut self) -> Result<bool> {
        let source = &mut self.stream.source;
        let here = source.offset();
        let more = source.next(&mut [0])?.is_some();
        source.skip_to(here)?;
        Ok(more)
    }

    /// Shows what was read, an unfinished line too; more of it may come.
    pub(super) fn pause(&mut self) -> Result<()> {
        self.settle(true, true)?;
        self.printer.release()
    }

    /// The same for a job that has ended: a last line is complete, but where more is left to be read.
    pub(super) fn finish_portion(&mut self) -> Result<()> {
        if self.has_more()? {
            return self.pause();
        }
        if self.has_news && !self.raw {
            let printer = &mut self.printer;
            self.stream.finish(|line| printer.line(line));
        }
        self.printer.release()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_come_back_as_they_went() {
        for text in [
            "22222a.t0",
            "22222a.t512",
            "22222a.o7.e9.t18446744073709551615",
        ] {
            assert_eq!(text.parse::<Cursor>().unwrap().to_string(), text);
        }
        assert_eq!("start".parse(), Ok(Cursor::Start));
        assert_eq!("0".parse(), Ok(Cursor::Start));
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        for text in [
            "",
            "1",
            "22222a",
            "22222a.",
            "22222a.t",
            "22222a.t-1",
            "22222a.t+1",
            "22222a.x1",
            "22222a.t18446744073709551616",
            "../../x.t1",
            "22222a.t1.é",
        ] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
        let long = format!("22222a{}", ".t1".repeat(100));
        assert!(long.parse::<Cursor>().is_err());
    }
}

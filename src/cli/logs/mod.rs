//! `logs`: what a job wrote, and what it goes on to write.

mod args;
mod cast;
mod cursor;
mod print;

use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde_json::json;

use crate::cli::format::sentence;
use crate::cli::row;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::follow::lines::{AT_REST, Stream, Text};
use crate::follow::output::{self, CHUNK, Piece, Redirected, Redirection, Source};
use crate::follow::sleep::{Event, Sleeper};
use crate::message;
use crate::screen::{self, Screen};
use crate::store::JobView;
use crate::sys::clock;
pub(crate) use args::Logs;
use cursor::Cursor;
use print::Printer;

/// What never rests is shown so often.
const RESTLESS: Duration = Duration::from_secs(3);
/// So much before a point in time is read for what still stood on the screen then.
const BEFORE: u64 = 64 * 1024;
/// A screen is drawn from the whole output up to this size, and else from so much of its end.
const SCREENFUL: u64 = 8 << 20;

pub(crate) fn logs(context: &Context, logs: &Logs) -> Result<u8> {
    let job = context.find(&logs.job)?;
    if logs.screen {
        return show_screen(&job, logs);
    }
    if logs.cast {
        return cast::cast(&job).map(|()| 0);
    }
    let cursor = Cursor::wanted(logs.cursor.as_deref(), &job)?;
    let follow = logs.follow && !job.state.is_terminal();
    let sources = sources(&job, logs, follow)?;
    let mut sleeper = follow.then(Sleeper::new);
    let mut shown = Vec::with_capacity(sources.len());
    for (number, source) in sources.into_iter().enumerate() {
        // Watch first, read afterwards: what is written in between wakes us.
        if let Some(sleeper) = &mut sleeper {
            sleeper.watch_output(&source.path, number);
        }
        let mut one = Shown::new(source, logs);
        one.begin(&job, logs, cursor.as_ref(), follow)?;
        shown.push(one);
    }
    if let Some(sleeper) = &mut sleeper {
        sleeper.watch_end(&job, 0);
        follow_until_end(sleeper, &mut shown)?;
    }
    let is_over = follow || job.state.is_terminal();
    for one in &mut shown {
        match &cursor {
            Some(_) if !is_over => one.pause()?,
            Some(_) => one.finish_portion()?,
            None => one.finish()?,
        }
    }
    if follow && let Some(now) = job.reload()? {
        message::say(sentence(&row(&now)));
    }
    match &cursor {
        Some(cursor) => cursor.tell(&job, &mut shown, logs.json).map(|()| 0),
        None => Ok(0),
    }
}

/// Where the output is, with a word on stderr for each stream that went elsewhere.
fn sources(job: &JobView, logs: &Logs, follow: bool) -> Result<Vec<Source>> {
    let (mut found, mut redirected) = output::sources(job)?;
    let id = &job.launch.id;
    if logs.stderr {
        redirected.retain(|redirected| redirected.is_stderr);
        if redirected.is_empty() {
            message::say(format!(
                "job {id} writes its stderr where its stdout goes: both are shown"
            ));
            redirected = output::sources(job)?.1;
        } else {
            found.retain(|source| source.is_stderr);
        }
    }
    let transcript = job.bytes_total() > 0;
    for Redirected { is_stderr, what } in redirected {
        let whose = if is_stderr { " its stderr" } else { "" };
        match what {
            Redirection::File(target) => {
                let source = found
                    .iter()
                    .find(|source| source.path == Path::new(&target));
                if source.is_some_and(Source::is_own_stdout) {
                    return Err(Error::Failed {
                        text: format!(
                            "job {id} writes{whose} to '{target}', which is also this call's output"
                        ),
                        hint: Some(
                            "read that file, or send the output of 'logs' elsewhere".to_owned(),
                        ),
                    });
                }
                let verb = if follow { "following" } else { "showing" };
                message::say(format!(
                    "job {id} writes{whose} to '{target}': {verb} that file"
                ));
            }
            // The other stream may still be had.
            Redirection::Failed(path, error)
                if !transcript && !found.iter().any(Source::is_file) =>
            {
                return Err(Error::io("read", &path, error));
            }
            what => {
                let complaint = Redirected { is_stderr, what }.complaint(id);
                complaint.into_iter().for_each(message::say);
            }
        }
    }
    Ok(found)
}

fn follow_until_end(sleeper: &mut Sleeper, shown: &mut [Shown]) -> Result<()> {
    let alone = shown.len() == 1;
    let mut moved: Option<Instant> = Some(Instant::now());
    let mut rested = Instant::now();
    loop {
        let events = sleeper.sleep(moved.map(|last| last + AT_REST));
        let mut ended = None;
        let at_rest = events.is_empty() || rested.elapsed() > RESTLESS;
        for event in events {
            match event {
                Event::Changed(number) => {
                    if shown[number].read_on()? {
                        moved = Some(Instant::now());
                    }
                }
                Event::Ended(_, waited) => ended = Some(waited),
            }
        }
        if at_rest {
            rested = Instant::now();
        }
        for one in shown.iter_mut() {
            one.settle(at_rest, at_rest && alone)?;
        }
        if at_rest {
            moved = None;
        }
        match ended {
            Some(Ok(_)) => return Ok(()),
            Some(Err(error)) => return Err(error),
            None => {}
        }
    }
}

/// One source on its way to stdout.
struct Shown {
    stream: Stream,
    raw: bool,
    printer: Printer,
    /// Something was read that no earlier call has shown.
    has_news: bool,
}

impl Shown {
    fn new(source: Source, logs: &Logs) -> Self {
        Self {
            stream: Stream::new(source),
            raw: logs.raw,
            printer: Printer::new(logs),
            has_news: false,
        }
    }

    /// Goes to where it is to begin and reads what there is. A follower is shown it now.
    fn begin(
        &mut self,
        job: &JobView,
        logs: &Logs,
        cursor: Option<&Cursor>,
        follow: bool,
    ) -> Result<()> {
        if let (Some(Cursor::Start), Some(lines), None, None) =
            (cursor, logs.lines, &logs.grep, logs.limit)
        {
            // The last of all: there is no need to read all.
            self.read_last(lines)?;
        } else if let Some(cursor) = cursor {
            self.resume(cursor.offset(&self.stream.source))?;
            self.read_at_most(logs.limit.unwrap_or(u64::MAX))?;
        } else if let Some(since) = logs.since {
            self.pass_older(job, since)?;
            self.read_on()?;
        } else {
            match logs.lines {
                Some(lines) if logs.grep.is_none() => self.read_last(lines)?,
                _ => {
                    self.read_on()?;
                }
            }
        }
        if follow {
            self.settle(true, false)?;
            self.printer.release()?;
        }
        Ok(())
    }

    /// Reads enough of the end for the last lines. What stands within a screen of the first byte
    /// may be drawn wrong, for its beginning is missing: lines that have left the paper are counted,
    /// so there is a screenful more.
    fn read_last(&mut self, lines: usize) -> Result<()> {
        let mut bytes = (lines as u64).saturating_mul(128).max(CHUNK as u64);
        while self.stream.source.skip_to_last(bytes)? {
            let start = self.stream.source.offset();
            let enough = self.count_lines()? > lines && !self.stream.began_in_full_screen();
            self.stream.source.skip_to(start)?;
            if enough {
                break;
            }
            bytes = bytes.saturating_mul(4);
        }
        self.stream.restart();
        self.read_on()?;
        Ok(())
    }

    fn count_lines(&mut self) -> Result<usize> {
        let mut count = 0;
        self.stream.restart();
        self.stream.read_on(self.raw, |text| {
            match text {
                Text::Raw(bytes) => count += memchr::memchr_iter(b'\n', bytes).count(),
                Text::Line(_) => count += 1,
                Text::Gap(_) => {}
            }
            Ok(())
        })?;
        Ok(count)
    }

    /// Passes over what was written before. What is drawn on later counts as written then.
    fn pass_older(&mut self, job: &JobView, since: Duration) -> Result<()> {
        let source = &mut self.stream.source;
        let cutoff = clock::wall().checked_sub(since).unwrap_or(UNIX_EPOCH);
        if source.is_file() {
            if source.changed_at().is_some_and(|last| last < cutoff) {
                source.skip_to_last(0)?;
            } else {
                message::say("no timestamps for a file's content: showing all of it");
            }
            return Ok(());
        }
        let marks = job.times();
        if marks.is_empty() {
            if job.bytes_total() > 0 {
                message::say("no timestamps for this output: showing all of it");
            }
            return Ok(());
        }
        let cutoff = cutoff.duration_since(UNIX_EPOCH).unwrap_or_default();
        let newer = |at_ms: u64| u128::from(at_ms) >= cutoff.as_millis();
        let first = marks.iter().find(|mark| newer(mark.at_ms));
        let offset = first.map_or(u64::MAX, |mark| mark.offset);
        if self.raw {
            return source.skip_to(offset);
        }
        match first {
            Some(_) => source.skip_to(offset.saturating_sub(BEFORE))?,
            None => drop(source.skip_to_last(BEFORE)?),
        }
        self.stream.read_up_to(offset)
    }

    /// Reads what there is now; gives whether there was anything.
    fn read_on(&mut self) -> Result<bool> {
        let Self {
            stream,
            raw,
            printer,
            has_news,
        } = self;
        let mut any = false;
        loop {
            let more = stream.read(*raw, |text| {
                printer.text(&text);
                Ok(())
            })?;
            printer.flush()?;
            if !more {
                return Ok(any);
            }
            any = true;
            *has_news = true;
        }
    }

    /// For a follower: shows what is complete, and at rest also what is not.
    fn settle(&mut self, at_rest: bool, unfinished: bool) -> Result<()> {
        if !self.raw {
            let printer = &mut self.printer;
            self.stream.settle(at_rest, |line| printer.line(line));
            if unfinished {
                self.printer.unfinished(&self.stream.current());
            }
        }
        self.printer.flush()
    }

    /// Prints the rest, with a last line that has no newline.
    fn finish(&mut self) -> Result<()> {
        self.read_on()?;
        let printer = &mut self.printer;
        if !self.raw {
            self.stream.finish(|line| printer.line(line));
        }
        self.printer.release()
    }
}

/// What a person would see now.
fn show_screen(job: &JobView, logs: &Logs) -> Result<u8> {
    let (mut sources, _) = output::sources(job)?;
    let mut screen = Screen::new(screen::ROWS, screen::COLUMNS);
    // The transcript: a file has no screen.
    if let Some(source) = sources.last_mut() {
        source.skip_to_last(SCREENFUL)?;
        if let Some((rows, columns)) = source.new_size() {
            screen.resize(rows, columns);
        }
        source.read_on(&mut vec![0; CHUNK], |source, piece| {
            if let Piece::Bytes(bytes) = piece {
                screen.push(bytes);
            }
            if let Some((rows, columns)) = source.new_size() {
                screen.resize(rows, columns);
            }
            Ok(())
        })?;
    }
    let text = screen.text();
    if logs.json {
        let (rows, columns) = screen.size();
        let (row, column) = screen.cursor();
        let lines: Vec<&str> = text.lines().collect();
        message::out_json(&json!({
            "rows": rows, "columns": columns, "cursor": [row, column],
            "full_screen": screen.is_full_screen(), "lines": lines,
        }))?;
    } else {
        message::out(&text)?;
    }
    Ok(0)
}

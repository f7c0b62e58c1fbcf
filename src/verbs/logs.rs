//! `logs`: what a job wrote, and what it goes on to write.

mod cast;
mod cursor;
mod print;

use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde_json::json;

use crate::cli::Logs;
use crate::error::{Error, Result};
use crate::message;
use crate::screen::{self, Clean, Screen};
use crate::store::{Chunk, JobView};
use crate::sys::clock;
use crate::verbs::format::sentence;
use crate::verbs::output::{self, CHUNK, Redirected, Redirection, Source};
use crate::verbs::watch::{Event, Watch};
use crate::verbs::{Context, row};
use cursor::Cursor;
use print::Printer;

/// Nothing has moved for so long: what is drawn again and again may be shown, and a prompt.
const AT_REST: Duration = Duration::from_millis(300);
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
    let mut watch = if follow { Some(Watch::new()?) } else { None };
    let mut streams = Vec::with_capacity(sources.len());
    for (number, source) in sources.into_iter().enumerate() {
        // Watch first, read afterwards: what is written in between wakes us.
        if let Some(watch) = &mut watch {
            watch.add_output(&source.path, number);
        }
        let mut stream = Stream::new(source, logs);
        stream.begin(&job, logs, cursor.as_ref(), follow)?;
        streams.push(stream);
    }
    if let Some(watch) = &mut watch {
        watch.add_end(&job, 0)?;
        follow_until_end(watch, &mut streams)?;
    }
    let is_over = follow || job.state.is_terminal();
    for stream in &mut streams {
        match &cursor {
            Some(_) if !is_over => stream.pause()?,
            Some(_) => stream.finish_portion()?,
            None => stream.finish()?,
        }
    }
    if follow && let Some(now) = job.reload()? {
        message::say(sentence(&row(&now)));
    }
    match &cursor {
        Some(cursor) => cursor.tell(&job, &mut streams, logs.json).map(|()| 0),
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

fn follow_until_end(watch: &mut Watch, streams: &mut [Stream]) -> Result<()> {
    let alone = streams.len() == 1;
    let mut moved: Option<Instant> = Some(Instant::now());
    let mut rested = Instant::now();
    loop {
        let events = watch.next(moved.map(|last| last + AT_REST));
        let mut ended = None;
        let at_rest = events.is_empty() || rested.elapsed() > RESTLESS;
        for event in events {
            match event {
                Event::Changed(number) => {
                    if streams[number].read_on()? {
                        moved = Some(Instant::now());
                    }
                }
                Event::Ended(_, waited) => ended = Some(waited),
            }
        }
        if at_rest {
            rested = Instant::now();
        }
        for stream in streams.iter_mut() {
            stream.settle(at_rest, at_rest && alone)?;
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
struct Stream {
    source: Source,
    raw: bool,
    clean: Clean,
    printer: Printer,
    buffer: Vec<u8>,
    /// Something was read that no earlier call has shown.
    has_news: bool,
}

impl Stream {
    fn new(source: Source, logs: &Logs) -> Self {
        Self {
            raw: logs.raw,
            clean: source.clean(),
            printer: Printer::new(logs),
            buffer: vec![0; CHUNK],
            has_news: false,
            source,
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
            self.resume(cursor.offset(&self.source))?;
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
        while self.source.skip_to_last(bytes)? {
            let start = self.source.offset();
            let enough = self.count_lines()? > lines && !self.clean.began_in_full_screen();
            self.source.skip_to(start)?;
            if enough {
                break;
            }
            bytes = bytes.saturating_mul(4);
        }
        self.clean = self.source.clean();
        self.read_on()?;
        Ok(())
    }

    fn count_lines(&mut self) -> Result<usize> {
        let Self {
            source,
            raw,
            clean,
            buffer,
            ..
        } = self;
        *clean = source.clean();
        let mut count = 0;
        source.read_on(buffer, |source, piece, _| {
            match piece {
                Some(bytes) if *raw => count += memchr::memchr_iter(b'\n', bytes).count(),
                Some(bytes) => feed(source, clean, bytes, |_| count += 1),
                None => clean.finish(|_| count += 1),
            }
            Ok(())
        })?;
        Ok(count)
    }

    /// Passes over what was written before. What is drawn on later counts as written then.
    fn pass_older(&mut self, job: &JobView, since: Duration) -> Result<()> {
        let cutoff = clock::wall().checked_sub(since).unwrap_or(UNIX_EPOCH);
        if self.source.is_file() {
            if self.source.changed_at().is_some_and(|last| last < cutoff) {
                self.source.skip_to_last(0)?;
            } else {
                message::say("a file does not tell when what was written: all of it is shown");
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
            return self.source.skip_to(offset);
        }
        match first {
            Some(_) => self.source.skip_to(offset.saturating_sub(BEFORE))?,
            None => drop(self.source.skip_to_last(BEFORE)?),
        }
        loop {
            let left = offset.saturating_sub(self.source.offset());
            let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            if most == 0 {
                break;
            }
            match self.source.next(&mut self.buffer[..most])? {
                Chunk::Bytes(read) => {
                    feed(
                        &mut self.source,
                        &mut self.clean,
                        &self.buffer[..read],
                        |_| {},
                    );
                }
                Chunk::Gap(_) => self.clean.finish(|_| {}),
                Chunk::End => break,
            }
        }
        self.clean.settle(true, |_| {});
        Ok(())
    }

    /// Reads what there is now; gives whether there was anything.
    fn read_on(&mut self) -> Result<bool> {
        let Self {
            source,
            raw,
            clean,
            printer,
            buffer,
            has_news,
        } = self;
        let mut any = false;
        source.read_on(buffer, |source, piece, gap| {
            any = true;
            *has_news = true;
            match piece {
                Some(bytes) if *raw => printer.put(bytes),
                Some(bytes) => feed(source, clean, bytes, |line| printer.line(line)),
                None if *raw => {}
                None => {
                    clean.finish(|line| printer.line(line));
                    printer.gap(gap);
                }
            }
            printer.flush()
        })?;
        Ok(any)
    }

    /// For a follower: shows what is complete, and at rest also what is not.
    fn settle(&mut self, at_rest: bool, unfinished: bool) -> Result<()> {
        if !self.raw {
            let printer = &mut self.printer;
            self.clean.settle(at_rest, |line| printer.line(line));
            if unfinished {
                self.printer.unfinished(&self.clean.current());
            }
        }
        self.printer.flush()
    }

    /// Prints the rest, with a last line that has no newline.
    fn finish(&mut self) -> Result<()> {
        self.read_on()?;
        let printer = &mut self.printer;
        if !self.raw {
            self.clean.finish(|line| printer.line(line));
        }
        self.printer.release()
    }
}

/// One piece through the emulator, on a terminal of the size that it then had.
fn feed(source: &mut Source, clean: &mut Clean, bytes: &[u8], line: impl FnMut(&str)) {
    clean.push(bytes, line);
    // A read ends where the size changes.
    if let Some((rows, columns)) = source.new_size() {
        clean.resize(rows, columns);
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
        source.read_on(&mut vec![0; CHUNK], |source, piece, _| {
            screen.push(piece.unwrap_or_default());
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

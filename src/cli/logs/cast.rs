//! `logs --cast`: the transcript with its times, as asciicast v2 (one JSON value a line), for players.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::cli::logs::print::gap_line;
use crate::error::Result;
use crate::follow::output::CHUNK;
use crate::message;
use crate::screen::{self, Newlines};
use crate::store::{Chunk, JobView, Reading};
use crate::text;

pub(super) fn cast(job: &JobView) -> Result<()> {
    let marks = job.times();
    let started = humantime::parse_rfc3339(&job.launch.facts.started_at).unwrap_or(UNIX_EPOCH);
    let first = marks.first().map(|mark| mark.at_ms);
    let zero = match millis(started) {
        0 => first.unwrap_or(0),
        started => first.map_or(started, |first| first.min(started)),
    };
    let mut header = json!({
        "version": 2,
        "width": screen::COLUMNS,
        "height": screen::ROWS,
        "timestamp": zero / 1000,
        "command": job.launch.facts.command.text,
    });
    if let (Some(name), Value::Object(header)) = (&job.launch.facts.name, &mut header) {
        header.insert("title".to_owned(), json!(name));
    }
    message::out_json(&header)?;
    let mut writer = Events::default();
    let mut marks = marks.into_iter().peekable();
    let mut reader = job.read_transcript(Reading::Marked)?;
    let mut buffer = vec![0; CHUNK];
    let failed = |source| crate::error::Error::io("read", &job.transcript_path(), source);
    loop {
        // Each read ends where the next mark begins.
        while let Some(mark) = marks.next_if(|mark| mark.offset <= reader.offset()) {
            writer.at(mark.at_ms.saturating_sub(zero));
            if let Some((rows, columns)) = mark.size {
                writer.event("r", &format!("{columns}x{rows}"));
            }
        }
        let until = marks.peek().map_or(u64::MAX, |mark| mark.offset);
        let left = usize::try_from(until.saturating_sub(reader.offset())).unwrap_or(CHUNK);
        match reader
            .next(&mut buffer[..left.clamp(1, CHUNK)])
            .map_err(failed)?
        {
            Chunk::Bytes(read) => writer.output(&buffer[..read]),
            Chunk::Gap(bytes) => writer.output(format!("\n{}\n", gap_line(bytes)).as_bytes()),
            Chunk::End => break,
        }
        writer.flush(CHUNK)?;
    }
    writer.finish()
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

#[derive(Default)]
struct Events {
    now_ms: u64,
    newlines: Newlines,
    /// A character that is not whole yet.
    cut: Vec<u8>,
    out: String,
}

impl Events {
    /// A clock that was set back does not turn time around.
    fn at(&mut self, ms: u64) {
        self.now_ms = self.now_ms.max(ms);
    }

    fn output(&mut self, bytes: &[u8]) {
        let mut all = std::mem::take(&mut self.cut);
        self.newlines.push(bytes, &mut all);
        let mut text = String::with_capacity(all.len());
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let bad = chunk.invalid();
            let cut = chunks.peek().is_none()
                && std::str::from_utf8(bad).is_err_and(|error| error.error_len().is_none());
            if cut {
                self.cut = bad.to_vec();
            } else if !bad.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        if !text.is_empty() {
            self.event("o", &text);
        }
    }

    fn event(&mut self, kind: &str, data: &str) {
        let time = self.now_ms as f64 / 1000.0;
        let event = json!([time, kind, data]).to_string();
        self.out.push_str(&text::escape_json(&event));
        self.out.push('\n');
    }

    fn flush(&mut self, most: usize) -> Result<()> {
        if self.out.len() >= most {
            message::out(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        if !self.cut.is_empty() {
            self.event("o", "\u{fffd}");
        }
        self.flush(0)
    }
}

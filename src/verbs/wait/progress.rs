//! The quiet line on a terminal while somebody waits: how long, and what the job said last.

use std::time::{Duration, Instant};

use crate::message;
use crate::store::JobView;
use crate::verbs::format::{fit, short_duration};
use crate::verbs::output;

const EVERY: Duration = Duration::from_secs(1);
/// What is over at once needs no line.
const FIRST: Duration = Duration::from_millis(500);

pub(super) struct Progress {
    /// The columns there are; `None`: nobody looks.
    width: Option<usize>,
    due: Instant,
    began: Instant,
    shown: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            width: message::stderr_width(),
            due: now + FIRST,
            began: now,
            shown: false,
        }
    }

    /// When it wants to be drawn.
    pub(super) fn due(&self) -> Option<Instant> {
        self.width.map(|_| self.due)
    }

    /// Draws it if it is time, for the jobs that are still waited for.
    pub(super) fn draw(&mut self, waiting: &[&JobView]) {
        let now = Instant::now();
        if self.width.is_none() || now < self.due {
            return;
        }
        self.due = now + EVERY;
        // The terminal may have another size by now.
        self.width = message::stderr_width();
        let (Some(width), Some(first)) = (self.width, waiting.first()) else {
            return;
        };
        let time = match first.duration_ms() {
            Some(ms) if waiting.len() == 1 => Duration::from_millis(ms),
            _ => self.began.elapsed(),
        };
        let mut line = match waiting.len() {
            1 => format!("{} {}", first.launch.id, short_duration(time)),
            many => format!("{many} jobs {}", short_duration(time)),
        };
        if let ([only], Some(said)) = (waiting, output::latest_line(first)) {
            let _ = only;
            line = format!("{line}  {said}");
        }
        // One column less: a full row would begin the next.
        message::progress(&fit(&line, width.saturating_sub(1)));
        self.shown = true;
    }

    /// Takes it away, before anything else is said.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            message::progress("");
            self.due = Instant::now() + EVERY;
        }
    }
}

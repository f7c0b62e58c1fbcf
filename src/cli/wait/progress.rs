//! The quiet line on a terminal while somebody waits: how long, and what the job said last.

use std::time::{Duration, Instant};

use crate::cli::format::{columns, short_duration};
use crate::follow::output;
use crate::message;
use crate::store::JobView;

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
        if waiting.len() == 1
            && let Some(said) = output::latest_line(first)
        {
            line = format!("{line}  {}", said.trim());
        }
        // One column less: a full row would begin the next.
        message::progress(&cut(&line, width.saturating_sub(1)));
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

/// As much of a line as fits; blanks stay, for a bar is drawn with them.
fn cut(line: &str, width: usize) -> String {
    let line = line.replace('\t', " ");
    if columns(&line) <= width {
        return line;
    }
    let mut shown = String::new();
    for letter in line.chars() {
        let mut more = shown.clone();
        more.push(letter);
        if columns(&more) >= width {
            break;
        }
        shown = more;
    }
    shown.push('…');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_to_the_width() {
        for (line, width, wanted) in [
            ("short", 10, "short"),
            ("[==>     ] 3/9\tx", 16, "[==>     ] 3/9 x"),
            ("0123456789", 5, "0123…"),
            ("漢字漢字", 5, "漢字…"),
            ("", 5, ""),
        ] {
            assert_eq!(cut(line, width), wanted, "{line}");
            assert!(columns(&cut(line, width)) <= width);
        }
    }
}

//! Workflow commands of GitHub Actions: a line for each job that needs attention.
//!
//! The runner reads every line of a step's output. All that is not ours is escaped as its parser wants it, so
//! that nothing in a job's output or command begins a line or a property of its own.

use super::{Case, Report, Verdict};
use crate::text;

/// How much of a job's output goes into a message; the runner keeps 4096 characters.
const TAIL: usize = 2000;

pub(super) fn text(report: &Report) -> String {
    let running = if report.fail_on.counts_running() {
        "error"
    } else {
        "warning"
    };
    let failed = report.having(Verdict::Failed).into_iter();
    let alive = report.having(Verdict::Running).into_iter();
    let lines = failed.map(|case| line("error", case));
    lines.chain(alive.map(|case| line(running, case))).collect()
}

fn line(level: &str, case: &Case) -> String {
    let mut message = format!("{}: {}", case.headline(), case.command);
    let tail = text::last_bytes(&case.tail, TAIL);
    if !tail.is_empty() {
        message.push('\n');
        message.push_str(tail);
    }
    let title = format!("agent-sh: {}", case.headline());
    format!("::{level} title={}::{}\n", property(&title), data(&message))
}

/// The message of a command.
fn data(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '%' => safe.push_str("%25"),
            '\r' => safe.push_str("%0D"),
            '\n' => safe.push_str("%0A"),
            _ => safe.push(letter),
        }
    }
    safe
}

/// The value of a property, which a colon or a comma would end.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

//! The summary as Markdown. What is not ours stands in code spans and in fences longer than any run of
//! backticks in it: there nothing is read as Markdown or HTML.

use std::fmt::Write;

use super::{Case, Report, Verdict};
use crate::text;

/// How much of a job's output is shown.
const TAIL: usize = 4096;
/// So many jobs of a kind are listed, the newest; the others are counted.
const MOST: usize = 100;
/// Kept free for what stands behind a part that is left out.
const RESERVE: usize = 4096;

/// At most `room` bytes.
pub(super) fn text(report: &Report, room: usize) -> String {
    // The file may end without a newline, or within a list.
    let mut page = Page {
        text: String::from("\n## Background jobs\n\n"),
        room: room.saturating_sub(RESERVE),
    };
    let counts = report.counts();
    let _ = writeln!(page.text, "{}.", capital(&counts));
    page.all(&report.having(Verdict::Failed), failed);
    let running = report.having(Verdict::Running);
    if !running.is_empty() {
        page.text.push_str("\n### ⏳ Still running\n\n");
        page.all(&running, item);
    }
    let succeeded = report.having(Verdict::Succeeded);
    if !succeeded.is_empty() {
        let count = succeeded.len();
        let head = format!("\n<details><summary>✅ {count} succeeded</summary>\n\n");
        page.text.push_str(&head);
        page.all(&succeeded, item);
        page.text.push_str("\n</details>\n");
    }
    if page.text.len() > room {
        // Not even the list fits; a summary that is too long would take what stands there with it.
        return String::new();
    }
    page.text
}

struct Page {
    text: String,
    /// How long the text may become.
    room: usize,
}

impl Page {
    fn all(&mut self, cases: &[&Case], show: fn(&Case) -> String) {
        let shown = cases.len().min(MOST);
        let mut left_out = cases.len() - shown;
        for case in &cases[left_out..] {
            let part = show(case);
            if self.text.len() + part.len() > self.room {
                left_out += 1;
            } else {
                self.text.push_str(&part);
            }
        }
        if left_out > 0 {
            let _ = writeln!(self.text, "\nand {left_out} more: `agent-sh ps -a`");
        }
    }
}

fn failed(case: &Case) -> String {
    let mut part = format!(
        "\n### ❌ Job {}{} {}\n\n",
        case.id,
        named(case),
        case.ending
    );
    let _ = writeln!(part, "{}", span(&case.command));
    let tail = text::last_bytes(&case.tail, TAIL);
    if !tail.is_empty() {
        let fence = "`".repeat(longest_run(tail).max(2) + 1);
        let _ = write!(part, "\n{fence}text\n{tail}\n{fence}\n");
    }
    part
}

fn item(case: &Case) -> String {
    let (id, named, ending) = (&case.id, named(case), &case.ending);
    format!("- job {id}{named} {ending}: {}\n", span(&case.command))
}

fn named(case: &Case) -> String {
    let name = case.name.as_ref();
    name.map_or_else(String::new, |name| format!(" ({})", span(name)))
}

/// A code span around a text without newlines.
fn span(text: &str) -> String {
    if text.trim().is_empty() {
        return "(no command)".to_owned();
    }
    let ticks = "`".repeat(longest_run(text) + 1);
    // One blank at both ends is taken off again, and keeps a backtick of the text from the delimiter's.
    let pad = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// The same for the output of a step, which GitHub's runner reads for commands line by line: none of them may be
/// a job's.
pub(super) fn without_commands(markdown: &str) -> String {
    let mut safe = String::with_capacity(markdown.len());
    for line in markdown.split_inclusive('\n') {
        let words = line.trim_start();
        let blanks = line.len() - words.len();
        safe.push_str(&line[..blanks]);
        if words.starts_with("::") {
            safe.push('\\');
        }
        safe.push_str(&words.replace("##[", "##\\["));
    }
    safe
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|letter| letter != '`').map(str::len);
    runs.max().unwrap_or(0)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

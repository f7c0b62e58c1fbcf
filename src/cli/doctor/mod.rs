//! `doctor`: tries out what agent-sh needs on this machine, in this sandbox, with these settings.

mod place;
mod trials;

use std::fmt::Write;

use serde_json::{Value, json};

use crate::cli::format::columns;
use crate::context::Context;
use crate::error::Result;
use crate::message::{self, Colour, Palette};
use crate::settings;
use crate::text;
use clap::Args;

/// Check that agent-sh works on this machine
#[derive(Debug, Args)]
#[command(after_help = "\
Tests the real thing: opens a terminal, orphans a process, takes a lock, and runs a job from start to end. \
'warn' marks what agent-sh can do without, or a setting that has no effect; 'fail' marks what it needs. \
The line below says what to do.

Example:
  agent-sh doctor
  agent-sh doctor --json

Exit codes: 0 everything needed works, 1 something does not, 2 wrong usage.")]
pub(super) struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print the table of settings in the documentation
    #[arg(long, hide = true, conflicts_with = "json")]
    pub settings_table: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ok,
    /// Works, but less well, or not as somebody may think.
    Warn,
    /// Needed, and missing.
    Fail,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }

    fn colour(self) -> Colour {
        match self {
            Self::Ok => Colour::Green,
            Self::Warn => Colour::Yellow,
            Self::Fail => Colour::Red,
        }
    }
}

/// One line of the report.
#[derive(Debug)]
struct Finding {
    status: Status,
    what: &'static str,
    detail: String,
    /// What to do about it.
    hint: Option<String>,
}

fn ok(what: &'static str, detail: impl Into<String>) -> Finding {
    Finding {
        status: Status::Ok,
        what,
        detail: detail.into(),
        hint: None,
    }
}

fn warn(what: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding {
        status: Status::Warn,
        hint: Some(hint.into()),
        ..ok(what, detail)
    }
}

fn fail(what: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding {
        status: Status::Fail,
        hint: Some(hint.into()),
        ..ok(what, detail)
    }
}

pub(crate) fn doctor(context: &Context, doctor: &Doctor) -> Result<u8> {
    if doctor.settings_table {
        return message::out(&settings::markdown()).map(|()| 0);
    }
    let mut findings = place::program();
    findings.extend(place::state(context));
    findings.extend(trials::all());
    findings.extend(place::sandbox());
    findings.extend(place::callers(context));
    findings.extend(place::settings(context));
    // A report is pasted into places where everybody reads it, and holds what others wrote.
    let safe = |words: &str| text::redact(&text::sanitize(words.as_bytes()));
    for finding in &mut findings {
        finding.detail = safe(&finding.detail);
        finding.hint = finding.hint.as_deref().map(safe);
    }
    if doctor.json {
        let rows: Vec<Value> = findings.iter().map(as_json).collect();
        message::out_json(&Value::from(rows))?;
    } else {
        let palette = Palette::of_stdout(|name| context.env(name));
        message::out(&as_text(&findings, message::width(), palette))?;
    }
    let failed = |finding: &Finding| finding.status == Status::Fail;
    Ok(u8::from(findings.iter().any(failed)))
}

fn as_json(finding: &Finding) -> Value {
    json!({
        "check": finding.what,
        "status": finding.status.word(),
        "detail": finding.detail,
        "hint": finding.hint,
    })
}

/// The widest word of the second column, and what stands before the text.
const LABEL: usize = 15;
const INDENT: usize = 4 + 2 + LABEL + 2;

fn as_text(findings: &[Finding], width: Option<usize>, palette: Palette) -> String {
    let mut out = String::new();
    let room = width.unwrap_or(100).saturating_sub(INDENT).max(30);
    for finding in findings {
        let status = format!("{:<4}", finding.status.word());
        let status = palette.paint(finding.status.colour(), &status);
        let lines = wrapped(&finding.detail, room);
        let hints = finding.hint.iter().flat_map(|hint| {
            let lines = wrapped(hint, room.saturating_sub(3));
            let marks = std::iter::once("-> ").chain(std::iter::repeat("   "));
            marks
                .zip(lines)
                .map(|(mark, line)| format!("{mark}{line}"))
                .collect::<Vec<_>>()
        });
        for (place, line) in lines.into_iter().chain(hints).enumerate() {
            if place == 0 {
                let _ = writeln!(out, "{status}  {:<LABEL$}  {line}", finding.what);
            } else {
                let _ = writeln!(out, "{:INDENT$}{line}", "");
            }
        }
    }
    let count = |status| findings.iter().filter(|f| f.status == status).count();
    let _ = writeln!(
        out,
        "\n{} ok, {}, {}",
        count(Status::Ok),
        counted(count(Status::Warn), "warning"),
        counted(count(Status::Fail), "failure")
    );
    out
}

/// Lines of at most so many columns, broken at blanks; a word that is longer stays whole, so that a
/// path can be copied.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(word) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

/// A number of things, one or many.
fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_at_sixty_columns() {
        let findings = [
            ok("program", "agent-sh 0.1.0, /usr/local/bin/agent-sh"),
            fail(
                "orphans",
                "a process that lost its parent was not handed to us",
                "jobs end with the call here; use a newer kernel",
            ),
        ];
        let wanted = "\
ok    program          agent-sh 0.1.0,
                       /usr/local/bin/agent-sh
fail  orphans          a process that lost its parent was
                       not handed to us
                       -> jobs end with the call here; use a
                          newer kernel

1 ok, 0 warnings, 1 failure
";
        assert_eq!(as_text(&findings, Some(60), Palette::OFF), wanted);
    }
}

//! `ps --from`, `top --from`: the jobs of all machines.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::Fleet;
use crate::cli::format::{columns, fit};
use crate::cli::ps::{Ps, json_lines};
use crate::context::Context;
use crate::error::Result;
use crate::fleet::job::{Job, Jobs, MAYBE_LOST};
use crate::fleet::source::Reader;
use crate::fleet::{Extent, failed};
use crate::follow::lists::{ListSleeper, Woken};
use crate::job::State;
use crate::message::{self, Colour, Palette};
use crate::sys::{clock, signal};
use crate::text;

const RECENT: Duration = Duration::from_secs(3600);
const TICK: Duration = Duration::from_secs(1);
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
const COMMAND_IN_PIPE: usize = 120;
const COMMAND_LEAST: usize = 16;

pub(crate) fn ps(context: &Context, ps: &Ps) -> Result<u8> {
    let mut source = ps.fleet.open(Extent::Latest)?;
    let mut jobs = Jobs::default();
    jobs.take(source.read(None).map_err(failed)?);
    if ps.watch {
        return watch(context, ps, &mut *source, &mut jobs);
    }
    let now = clock::wall();
    let found = select(&jobs, ps, now);
    if ps.quiet {
        let ids: String = found
            .iter()
            .map(|job| format!("{}/{}\n", job.machine, job.id))
            .collect();
        return message::out(&ids).map(|()| 0);
    }
    if ps.json {
        let rows: Vec<Value> = found.iter().map(|job| job.row(now)).collect();
        return message::out(&text::escape_json(&json_lines(&rows))).map(|()| 0);
    }
    if found.is_empty() {
        message::say("no jobs of the fleet that are running, or ended in the last hour");
        return Ok(0);
    }
    message::out(&table(context, &found, now, None)).map(|()| 0)
}

/// The fleet on a full screen: the list, brought up to date.
pub(crate) fn top(context: &Context, fleet: &Fleet) -> Result<u8> {
    self::ps(
        context,
        &Ps {
            all: false,
            all_sessions: true,
            session: None,
            state: Vec::new(),
            failed: false,
            watch: true,
            quiet: false,
            json: false,
            fleet: fleet.clone(),
        },
    )
}

fn select<'a>(jobs: &'a Jobs, ps: &Ps, now: SystemTime) -> Vec<&'a Job> {
    let states: Vec<&str> = ps
        .state
        .iter()
        .map(|&word| State::from(word).word())
        .collect();
    let recent = |job: &Job| {
        let ended = job
            .settled_at()
            .and_then(|time| humantime::parse_rfc3339(time).ok());
        ended.is_none_or(|ended| {
            now.duration_since(ended).is_ok_and(|age| age <= RECENT) || ended > now
        })
    };
    let mut found = jobs.list();
    found.retain(|job| {
        let in_session = ps.session.is_none() || job.text("session") == ps.session.as_deref();
        let in_state = states.is_empty() || states.contains(&job.state(now));
        in_session && in_state && (!ps.failed || job.has_failed(now)) && (ps.all || recent(job))
    });
    found
}

fn table(context: &Context, jobs: &[&Job], now: SystemTime, most: Option<usize>) -> String {
    const HEADS: [&str; 7] = ["STATE", "ID", "MACHINE", "TIME", "EXIT", "HOW", "SESSION"];
    let jobs = &jobs[most.map_or(0, |most| jobs.len().saturating_sub(most))..];
    let cells: Vec<[String; 7]> = jobs
        .iter()
        .map(|job| {
            [
                job.state(now).to_owned(),
                job.id.clone(),
                job.machine.clone(),
                job.took(now),
                job.exit_word(),
                job.text("how").unwrap_or("-").to_owned(),
                fit(job.text("session").unwrap_or("-"), 12),
            ]
        })
        .collect();
    let width = |column: usize| {
        let widest = cells.iter().map(|row| columns(&row[column])).max();
        widest.unwrap_or(0).max(HEADS[column].len())
    };
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let before = widths.iter().sum::<usize>() + 2 * widths.len();
    let room = message::width().map_or(COMMAND_IN_PIPE, |width| {
        width.saturating_sub(before).max(COMMAND_LEAST)
    });
    let line = |cells: &[&str]| -> String {
        let padded = cells.iter().zip(&widths);
        padded
            .map(|(cell, width)| {
                format!(
                    "{cell}{}",
                    " ".repeat(width.saturating_sub(columns(cell)) + 2)
                )
            })
            .collect()
    };
    let palette = Palette::of_stdout(|name| context.env(name));
    let mut out = format!(
        "{}\n",
        palette.paint(Colour::Dim, &(line(&HEADS) + "COMMAND"))
    );
    for (job, cells) in jobs.iter().zip(&cells) {
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        let text = line(&cells);
        let (state, rest) = text.split_at(widths[0]);
        let colour = match (job.state(now), job.exit_word().as_str()) {
            ("running", _) => Colour::Blue,
            ("stopped" | MAYBE_LOST, _) => Colour::Yellow,
            ("exited", "0") => Colour::Green,
            _ => Colour::Red,
        };
        let row = job.row(now);
        let command = row["command"].as_str().unwrap_or_default();
        let label = job
            .text("name")
            .map_or_else(|| command.to_owned(), |name| format!("({name}) {command}"));
        let _ = writeln!(
            out,
            "{}{rest}{}",
            palette.paint(colour, state),
            fit(&label, room)
        );
    }
    out
}

/// Shows the list, and shows it again until Ctrl-C.
fn watch(context: &Context, ps: &Ps, source: &mut dyn Reader, jobs: &mut Jobs) -> Result<u8> {
    let on_terminal = message::is_shown() && !ps.json;
    let signals = [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGWINCH,
    ];
    let mut sleeper = ListSleeper::new(if on_terminal { &signals } else { &[] });
    if on_terminal {
        message::out(ENTER)?;
    }
    let mut before = String::new();
    let left = loop {
        let now = clock::wall();
        let found = select(jobs, ps, now);
        let text = if ps.json {
            let rows: Vec<Value> = found.iter().map(|job| job.row(now)).collect();
            format!("{}\n", Value::from(rows))
        } else {
            let most = message::height().map(|rows| rows.saturating_sub(2).max(1));
            table(context, &found, now, most.filter(|_| on_terminal))
        };
        if on_terminal {
            let lines: Vec<String> = text
                .lines()
                .map(|line| format!("{line}\u{1b}[K\r\n"))
                .collect();
            message::out(&format!("\u{1b}[H{}\u{1b}[J", lines.concat()))?;
        } else {
            let states: String = found
                .iter()
                .map(|job| format!("{}{}{}\n", job.machine, job.id, job.state(now)))
                .collect();
            if states != before {
                message::out(&format!("{text}\n"))?;
                before = states;
            }
        }
        match sleeper.sleep(TICK) {
            Woken::ReaderGone => break None,
            Woken::Signal(signal) if signal != libc::SIGWINCH => break Some(signal),
            _ => {}
        }
        match source.read(None) {
            Ok(seen) => jobs.take(seen),
            Err(why) => {
                if on_terminal {
                    message::out(LEAVE)?;
                }
                return Err(failed(why));
            }
        }
    };
    if on_terminal {
        message::out(LEAVE)?;
    }
    if let Some(signal) = left.filter(|&signal| signal != libc::SIGINT) {
        signal::die_by(signal);
    }
    Ok(0)
}

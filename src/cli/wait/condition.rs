//! What of a job can be waited for besides its end.

use std::time::{Duration, Instant, SystemTime};

use regex::Regex;

use super::args::Wait;
use crate::cli::format::short_duration;
use crate::cli::wait::port::Port;
use crate::error::Result;
use crate::follow::lines::{Lines, Seen};
use crate::follow::output;
use crate::follow::sleep::Sleeper;
use crate::message;
use crate::store::JobView;
use crate::sys::clock;

/// One condition of one job.
pub(super) enum Condition {
    Output {
        wanted: Regex,
        lines: Lines,
    },
    Port(u16, Box<Port>),
    Idle {
        job: Box<JobView>,
        limit: Duration,
        last: Instant,
    },
}

/// What was waited for has happened: what to say of it, and the line that matched.
pub(super) struct Happened {
    pub(super) text: String,
    pub(super) line: Option<String>,
}

impl Condition {
    /// What the options ask for. `None`: only the end.
    pub(super) fn of(
        wait: &Wait,
        job: &JobView,
        number: usize,
        sleeper: &mut Sleeper,
    ) -> Result<Option<Self>> {
        if let Some(wanted) = &wait.for_output {
            return Ok(Some(Self::Output {
                wanted: wanted.clone(),
                lines: watched(job, number, sleeper)?,
            }));
        }
        if let Some(number) = wait.for_port {
            return Ok(match Port::new(job, number) {
                Ok(port) => Some(Self::Port(number, Box::new(port))),
                // What has ended listens no more, wherever it was.
                Err(_) if job.state.is_terminal() => None,
                Err(error) => return Err(error),
            });
        }
        if let Some(limit) = wait.idle {
            drop(watched(job, number, sleeper)?);
            return Ok(Some(Self::Idle {
                job: Box::new(job.clone()),
                limit,
                last: last_output(job),
            }));
        }
        Ok(None)
    }

    /// Looks whether it has happened. `wrote`: there may be more output than before.
    pub(super) fn check(&mut self, wrote: bool) -> Result<Option<Happened>> {
        match self {
            Self::Output { wanted, lines } => {
                if !wrote && !lines.is_behind {
                    return Ok(None);
                }
                let mut found: Option<String> = None;
                lines.read_on(|Seen { line, .. }| {
                    if found.is_none() && wanted.is_match(line) {
                        found = Some(line.to_owned());
                    }
                })?;
                Ok(found.map(|line| Happened {
                    text: format!("wrote: {line}"),
                    line: Some(line),
                }))
            }
            Self::Port(number, port) => Ok(port.is_open().then(|| Happened {
                text: format!("listens on port {number}"),
                line: None,
            })),
            Self::Idle { job, limit, last } => {
                // Other files of the job wake us too: ask those that hold its output.
                if wrote {
                    *last = last_output(job).max(*last);
                }
                Ok((last.elapsed() >= *limit).then(|| Happened {
                    text: format!("has been silent for {}", short_duration(*limit)),
                    line: None,
                }))
            }
        }
    }

    /// When to look again, if nothing is written before.
    pub(super) fn due(&self) -> Option<Instant> {
        match self {
            Self::Output { .. } => self.is_behind().then(Instant::now),
            Self::Port(_, port) => Some(port.due()),
            Self::Idle { limit, last, .. } => Some(*last + *limit),
        }
    }

    /// Whether it can still be found once the job has ended: what was written stays.
    pub(super) fn outlives(&self) -> bool {
        matches!(self, Self::Output { .. })
    }

    /// Whether there is more to be read at once.
    pub(super) fn is_behind(&self) -> bool {
        matches!(self, Self::Output { lines, .. } if lines.is_behind)
    }
}

/// What the job writes, watched.
fn watched(job: &JobView, number: usize, sleeper: &mut Sleeper) -> Result<Lines> {
    let (sources, redirected) = output::sources(job)?;
    let complaints = redirected.iter();
    complaints
        .filter_map(|redirected| redirected.complaint(&job.launch.id))
        .for_each(message::say);
    let lines = Lines::new(sources);
    lines.watch(sleeper, number);
    Ok(lines)
}

/// When the job last wrote: never before it started.
fn last_output(job: &JobView) -> Instant {
    let now = Instant::now();
    let age = |time: SystemTime| clock::wall().duration_since(time).unwrap_or_default();
    let mut youngest = Duration::from_millis(job.duration_ms().unwrap_or(0));
    let launch = &job.launch;
    let files = [&launch.facts.redirected_to, &launch.facts.redirected_stderr].into_iter();
    let files = files.flatten().map(Into::into);
    for path in job.transcript_files().into_iter().chain(files) {
        // An empty file was only made, not written to.
        let facts = std::fs::metadata(path).ok().filter(|facts| facts.len() > 0);
        if let Some(written) = facts.and_then(|facts| facts.modified().ok()) {
            youngest = youngest.min(age(written));
        }
    }
    now.checked_sub(youngest).unwrap_or(now)
}

//! What of a job can be waited for besides its end.

use std::time::{Duration, Instant, SystemTime};

use regex::Regex;

use super::args::Wait;
use crate::cli::format::short_duration;
use crate::cli::wait::port::Port;
use crate::error::Result;
use crate::follow::output::{self, CHUNK, Source};
use crate::follow::sleep::Watch;
use crate::message;
use crate::screen::Clean;
use crate::store::JobView;
use crate::sys::clock;

/// One condition of one job.
pub(super) enum Condition {
    Output {
        wanted: Regex,
        streams: Vec<(Source, Clean)>,
        buffer: Vec<u8>,
    },
    Port(u16, Port),
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
        watch: &mut Watch,
    ) -> Result<Option<Self>> {
        if let Some(wanted) = &wait.for_output {
            let streams = watched(job, number, watch)?;
            let streams = streams.into_iter().map(|source| {
                let clean = source.clean();
                (source, clean)
            });
            return Ok(Some(Self::Output {
                wanted: wanted.clone(),
                streams: streams.collect(),
                buffer: vec![0; CHUNK],
            }));
        }
        if let Some(number) = wait.for_port {
            return Ok(match Port::new(job, number) {
                Ok(port) => Some(Self::Port(number, port)),
                // What has ended listens no more, wherever it was.
                Err(_) if job.state.is_terminal() => None,
                Err(error) => return Err(error),
            });
        }
        if let Some(limit) = wait.idle {
            drop(watched(job, number, watch)?);
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
            Self::Output {
                wanted,
                streams,
                buffer,
            } => {
                if !wrote {
                    return Ok(None);
                }
                for (source, clean) in streams {
                    if let Some(line) = find(source, clean, buffer, wanted)? {
                        return Ok(Some(Happened {
                            text: format!("wrote: {line}"),
                            line: Some(line),
                        }));
                    }
                }
                Ok(None)
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
            Self::Output { .. } => None,
            Self::Port(_, port) => Some(port.due()),
            Self::Idle { limit, last, .. } => Some(*last + *limit),
        }
    }

    /// Whether it can still be found once the job has ended: what was written stays.
    pub(super) fn outlives(&self) -> bool {
        matches!(self, Self::Output { .. })
    }
}

/// Where the job writes, watched.
fn watched(job: &JobView, number: usize, watch: &mut Watch) -> Result<Vec<Source>> {
    let (sources, redirected) = output::sources(job)?;
    let complaints = redirected.iter();
    complaints
        .filter_map(|redirected| redirected.complaint(&job.launch.id))
        .for_each(message::say);
    for source in &sources {
        watch.add_output(&source.path, number);
    }
    Ok(sources)
}

/// Reads on until a line matches, in any state that it was in.
fn find(
    source: &mut Source,
    clean: &mut Clean,
    buffer: &mut [u8],
    wanted: &Regex,
) -> Result<Option<String>> {
    let mut found: Option<String> = None;
    source.read_on(buffer, |source, piece, _| {
        if let (Some(bytes), None) = (piece, &found) {
            clean.push_seen(bytes, |line| {
                if found.is_none() && wanted.is_match(line) {
                    found = Some(line.to_owned());
                }
            });
            if let Some((rows, columns)) = source.new_size() {
                clean.resize(rows, columns);
            }
        }
        Ok(())
    })?;
    Ok(found)
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

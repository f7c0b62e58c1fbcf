//! `ci report`: what a build has to know of the jobs that it started.

mod annotations;
mod args;
mod junit;
mod markdown;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::format::{Row, ending};
use super::row;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::{How, State};
use crate::store::JobView;
use crate::sys::fsx;
use crate::{message, notify, text};

pub(super) use args::Ci;
use args::{CiReport, CiWhat, FailOn};

/// Where GitHub takes the summary of a step from.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";
/// How much of a command is shown.
const COMMAND: usize = 200;

pub(crate) fn ci(context: &Context, ci: &Ci) -> Result<u8> {
    match &ci.what {
        CiWhat::Report(report) => self::report(context, report),
    }
}

fn report(context: &Context, wanted: &CiReport) -> Result<u8> {
    let session = wanted.session.clone().or_else(|| context.session());
    let mut jobs = context.jobs()?;
    jobs.retain(|job| {
        let ours = session.is_none() || job.launch.facts.session == session;
        ours && job.launch.facts.how != How::Foreground
    });
    let report = Report::new(session, &jobs, wanted.fail_on);
    let in_step = context.env(STEP_SUMMARY).filter(|path| !path.is_empty());
    let nothing_else = wanted.junit.is_none() && !wanted.annotations;
    let summary = wanted.summary.clone().or(in_step.map(PathBuf::from));
    let summary = summary.or_else(|| nothing_else.then(|| PathBuf::from("-")));
    // One file that cannot be written is no reason to withhold the others.
    let mut results = Vec::new();
    if wanted.annotations {
        results.push(message::out(&annotations::text(&report)));
    }
    if let Some(path) = summary {
        let room = room_in(&path);
        results.push(append(&path, &markdown::text(&report, room)));
    }
    if let Some(path) = &wanted.junit {
        results.push(replace(path, &junit::text(&report)));
    }
    message::say(report.counts());
    results.into_iter().collect::<Result<Vec<()>>>()?;
    Ok(u8::from(report.is_failure()))
}

/// What became of a job, as far as a build cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Failed,
    Running,
    Succeeded,
}

/// A job in a report. All texts are on one line and free of control characters, but for the tail's newlines
/// and tabs.
struct Case {
    id: String,
    name: Option<String>,
    verdict: Verdict,
    state: State,
    /// `exited with 3 after 4.2s`
    ending: String,
    command: String,
    seconds: f64,
    started_at: String,
    /// The end of its output; empty unless it failed.
    tail: String,
}

struct Report {
    session: Option<String>,
    cases: Vec<Case>,
    fail_on: FailOn,
}

impl Report {
    fn new(session: Option<String>, jobs: &[JobView], fail_on: FailOn) -> Self {
        let cases = jobs.iter().map(Case::new).collect();
        Self {
            session,
            cases,
            fail_on,
        }
    }

    fn having(&self, verdict: Verdict) -> Vec<&Case> {
        let cases = self.cases.iter();
        cases.filter(|case| case.verdict == verdict).collect()
    }

    /// `4 background jobs: 1 failed, 3 succeeded`
    fn counts(&self) -> String {
        let all = self.cases.len();
        if all == 0 {
            return "no background jobs".to_owned();
        }
        let part = |verdict, word| match self.having(verdict).len() {
            0 => None,
            count => Some(format!("{count} {word}")),
        };
        let parts = [
            part(Verdict::Failed, "failed"),
            part(Verdict::Running, "still running"),
            part(Verdict::Succeeded, "succeeded"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let jobs = if all == 1 { "job" } else { "jobs" };
        format!("{all} background {jobs}: {}", parts.join(", "))
    }

    fn is_failure(&self) -> bool {
        let any = |verdict| self.cases.iter().any(|case| case.verdict == verdict);
        self.fail_on.counts_failed() && any(Verdict::Failed)
            || self.fail_on.counts_running() && any(Verdict::Running)
    }
}

impl Case {
    fn new(job: &JobView) -> Self {
        let row: Row = row(job);
        let verdict = match (row.state, row.exit_code) {
            (State::Running | State::Stopped, _) => Verdict::Running,
            (State::Exited, Some(0)) => Verdict::Succeeded,
            (State::Exited | State::Signaled | State::Lost, _) => Verdict::Failed,
        };
        let tail = match verdict {
            Verdict::Failed => text::sanitize(notify::tail(job).as_bytes()),
            Verdict::Running | Verdict::Succeeded => String::new(),
        };
        Self {
            ending: ending(&row),
            verdict,
            state: row.state,
            seconds: row.took.unwrap_or_default().as_secs_f64(),
            started_at: job.launch.facts.started_at.clone(),
            name: row.name.map(|name| text::shorten(&name, COMMAND)),
            command: text::shorten(&row.command, COMMAND),
            id: row.id,
            tail: tail.trim_end().to_owned(),
        }
    }

    /// `job 7f3k exited with 3 after 4.2s`
    fn headline(&self) -> String {
        format!("job {} {}", self.id, self.ending)
    }

    /// What people call it.
    fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.command)
    }
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// How many bytes the summary may still take: GitHub drops the whole summary of a step that has more than
/// 1 MiB.
fn room_in(path: &Path) -> usize {
    const MOST: u64 = 1024 * 1024;
    let used = fs::metadata(path).map_or(0, |facts| if facts.is_file() { facts.len() } else { 0 });
    usize::try_from(MOST.saturating_sub(used)).unwrap_or_default()
}

fn append(path: &Path, content: &str) -> Result<()> {
    if is_stdout(path) {
        return message::out(&markdown::without_commands(content));
    }
    let file = OpenOptions::new().append(true).create(true).open(path);
    let written = file.and_then(|mut file| file.write_all(content.as_bytes()));
    written.map_err(|source| Error::io("write", path, source))
}

/// Puts the whole file in its place at once: a reader meets the old one or the new one. What is no regular
/// file, or stands in a directory that is closed to us, is written to.
fn replace(path: &Path, content: &str) -> Result<()> {
    if is_stdout(path) {
        return message::out(content);
    }
    let failed = |source| Error::io("write", path, source);
    // A link stays a link, and leads to the new content.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let there = fs::metadata(&target).ok();
    let is_plain = there.as_ref().is_none_or(fs::Metadata::is_file);
    let beside = target.file_name().filter(|_| is_plain).map(|name| {
        let mut name = name.to_owned();
        name.push(format!(".{:08x}.tmp", fsx::random()));
        target.with_file_name(name)
    });
    let new = |path: &PathBuf| {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .ok()
    };
    let Some((mut file, beside)) = beside.and_then(|path| Some((new(&path)?, path))) else {
        return fs::write(&target, content).map_err(failed);
    };
    let permitted = there.map_or(Ok(()), |facts| file.set_permissions(facts.permissions()));
    let written = permitted
        .and_then(|()| file.write_all(content.as_bytes()))
        .and_then(|()| fs::rename(&beside, &target));
    if written.is_err() {
        drop(fs::remove_file(&beside));
    }
    written.map_err(failed)
}

#[cfg(test)]
mod tests;

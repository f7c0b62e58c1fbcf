//! `wait`: blocks until jobs have ended, or until something that they do has happened.

mod args;
mod condition;
mod follow;
pub(super) mod notify;
mod port;
mod progress;

use std::time::Instant;

use serde_json::Value;

use crate::cli::format::{fit, sentence, short_duration};
use crate::cli::row;
use crate::context::Context;
use crate::error::Result;
use crate::follow::sleep::{Event, Watch};
use crate::message;
use crate::store::JobView;
use crate::store::outbox::acknowledged;
pub(crate) use args::Wait;
use condition::{Condition, Happened};
use progress::Progress;

/// The exit code when the time is over, as `timeout` has it.
pub(crate) const TIMED_OUT: u8 = 124;
/// The job ended before the condition was met.
const NOT_SO: u8 = 1;

pub(crate) fn wait(context: &Context, wait: &Wait) -> Result<u8> {
    let jobs = if wait.jobs.is_empty() && wait.has_condition() {
        // What has ended will not do anything any more.
        context.running()?
    } else if wait.jobs.is_empty() {
        context.awaited_in(context.session().as_deref())?
    } else {
        context.find_all(&wait.jobs)?
    };
    if jobs.is_empty() {
        message::say("nothing to wait for: no job is running");
        return Ok(0);
    }
    let mut waiting = Waiting::begin(wait, jobs)?;
    while let Some((place, report)) = waiting.next()? {
        waiting.progress.clear();
        tell(context, &waiting.jobs[place], &report, wait)?;
        waiting.codes[place] = Some(report.code(&waiting.jobs[place]));
        // With a condition, the end of one job leaves the others to be hoped for.
        let decided = matches!(report, Report::Happened(_)) || !wait.has_condition();
        if wait.any && decided {
            return Ok(waiting.codes[place].unwrap_or_default());
        }
    }
    waiting.progress.clear();
    let left = waiting.left();
    if let (Some(first), Some(timeout)) = (left.first(), wait.timeout) {
        let which = match left.len() {
            1 => format!("job {} is", first.launch.id),
            many => format!("{many} jobs are"),
        };
        let after = short_duration(timeout);
        let id = &first.launch.id;
        message::say_with_hint(
            format!("{which} still running after {after} of waiting"),
            format!("'agent-sh logs {id}' shows its output, 'agent-sh wait {id}' waits on"),
        );
        return Ok(TIMED_OUT);
    }
    Ok(overall(waiting.codes.iter().copied().flatten()))
}

/// What is told of one job.
enum Report {
    /// It has ended, and nothing else was waited for.
    Ended,
    Happened(Happened),
    EndedWithout,
}

impl Report {
    fn code(&self, job: &JobView) -> u8 {
        match self {
            Self::Ended => code(job),
            Self::Happened(_) => 0,
            Self::EndedWithout => NOT_SO,
        }
    }
}

/// All jobs that are waited for, as they were last seen.
struct Waiting {
    jobs: Vec<JobView>,
    codes: Vec<Option<u8>>,
    /// `None`: the end, or nothing any more.
    conditions: Vec<Option<Condition>>,
    has_condition: bool,
    watch: Watch,
    deadline: Option<Instant>,
    progress: Progress,
    /// What has happened and was not given yet, in order.
    ready: std::collections::VecDeque<(usize, Report)>,
}

impl Waiting {
    fn begin(wait: &Wait, jobs: Vec<JobView>) -> Result<Self> {
        let deadline = wait.timeout.map(|time| Instant::now() + time);
        let mut watch = Watch::new()?;
        let mut conditions = Vec::with_capacity(jobs.len());
        for (place, job) in jobs.iter().enumerate() {
            conditions.push(Condition::of(wait, job, place, &mut watch)?);
        }
        let mut waiting = Self {
            codes: vec![None; jobs.len()],
            conditions,
            has_condition: wait.has_condition(),
            watch,
            deadline,
            progress: Progress::new(),
            ready: std::collections::VecDeque::new(),
            jobs,
        };
        waiting.look_first(wait.any)?;
        for (place, job) in waiting.jobs.iter().enumerate() {
            if !job.state.is_terminal() && !waiting.is_told(place) {
                waiting.watch.add_end(job, place)?;
            }
        }
        Ok(waiting)
    }

    /// What is so already. Of those that had ended before, the one that ended first comes first if
    /// only one is wanted.
    fn look_first(&mut self, any: bool) -> Result<()> {
        let mut places: Vec<usize> = (0..self.jobs.len()).collect();
        if any && !self.has_condition {
            places.sort_by_key(|&place| self.jobs[place].settled_at().map(str::to_owned));
        }
        for place in places {
            if self.jobs[place].state.is_terminal() {
                self.has_ended(place)?;
            } else {
                self.check(place, true)?;
            }
        }
        Ok(())
    }

    fn is_told(&self, place: usize) -> bool {
        self.codes[place].is_some() || self.ready.iter().any(|(ready, _)| *ready == place)
    }

    /// The next job of which there is something to tell. `None`: all are told, or the time is over.
    fn next(&mut self) -> Result<Option<(usize, Report)>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Ok(Some(ready));
            }
            let open: Vec<usize> = (0..self.jobs.len())
                .filter(|&place| !self.is_told(place))
                .collect();
            let over = self.deadline.is_some_and(|end| Instant::now() >= end);
            if open.is_empty() || over {
                return Ok(None);
            }
            let left: Vec<&JobView> = open.iter().map(|&place| &self.jobs[place]).collect();
            self.progress.draw(&left);
            let dues = open
                .iter()
                .filter_map(|&place| self.conditions[place].as_ref()?.due());
            let until = dues.chain(self.deadline).chain(self.progress.due()).min();
            let mut wrote = vec![false; self.jobs.len()];
            for event in self.watch.next(until) {
                match event {
                    Event::Changed(place) => wrote[place] = true,
                    Event::Ended(place, waited) => {
                        self.jobs[place] = crate::cli::ended(&self.jobs[place], waited?)?;
                    }
                }
            }
            for place in open {
                if self.jobs[place].state.is_terminal() {
                    self.has_ended(place)?;
                } else {
                    self.check(place, wrote[place])?;
                }
            }
        }
    }

    fn check(&mut self, place: usize, wrote: bool) -> Result<()> {
        if let Some(condition) = &mut self.conditions[place]
            && let Some(happened) = condition.check(wrote)?
        {
            self.ready.push_back((place, Report::Happened(happened)));
        }
        Ok(())
    }

    fn has_ended(&mut self, place: usize) -> Result<()> {
        if !self.has_condition {
            self.ready.push_back((place, Report::Ended));
            return Ok(());
        }
        if self.conditions[place]
            .as_ref()
            .is_some_and(Condition::outlives)
        {
            self.check(place, true)?;
        }
        if !self.is_told(place) {
            self.ready.push_back((place, Report::EndedWithout));
        }
        Ok(())
    }

    fn left(&self) -> Vec<&JobView> {
        let open = self.jobs.iter().zip(&self.codes);
        open.filter_map(|(job, code)| code.is_none().then_some(job))
            .collect()
    }
}

fn tell(context: &Context, job: &JobView, report: &Report, wait: &Wait) -> Result<()> {
    let id = &job.launch.id;
    if let Report::Happened(happened) = report {
        if !wait.json {
            return say_line(&format!("job {id} {}", happened.text));
        }
        let mut facts = crate::cli::show::facts(job);
        if let Value::Object(facts) = &mut facts {
            facts.insert("happened".to_owned(), happened.text.clone().into());
            facts.insert("matched".to_owned(), happened.line.clone().into());
        }
        return message::out_json(&facts);
    }
    tell_end(context, job, wait.json)?;
    if matches!(report, Report::EndedWithout) && !wait.json {
        message::say(format!("job {id} ended before the condition was met"));
    }
    Ok(())
}

/// On a terminal it takes one line.
fn say_line(line: &str) -> Result<()> {
    match message::width() {
        Some(width) => message::out(&format!("{}\n", fit(line, width))),
        None => message::out(&format!("{line}\n")),
    }
}

/// Says how a job ended, to the agent of its session among others.
pub(crate) fn tell_end(context: &Context, job: &JobView, json: bool) -> Result<()> {
    context.report(job, || {
        if json {
            message::out_json(&crate::cli::show::facts(job))
        } else {
            say_line(&sentence(&row(job)))
        }
    })?;
    acknowledged::mark_waited(job);
    Ok(())
}

/// The code of one job that has ended.
pub(crate) fn code(job: &JobView) -> u8 {
    job.outcome().map_or(125, |outcome| outcome.shell_code())
}

/// The first that is not 0, in the order given.
pub(crate) fn overall(codes: impl Iterator<Item = u8>) -> u8 {
    let mut codes = codes;
    codes.find(|&code| code != 0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_not_zero() {
        for (codes, wanted) in [
            (&[][..], 0),
            (&[0, 0], 0),
            (&[0, 3, 4], 3),
            (&[143, 0], 143),
            (&[0, 125, 1], 125),
        ] {
            assert_eq!(overall(codes.iter().copied()), wanted, "{codes:?}");
        }
    }
}

//! The jobs that are waited for, until each has ended or done what is waited for.

use std::collections::VecDeque;
use std::time::Instant;

use super::args::Wait;
use super::condition::{Condition, Happened};
use super::progress::Progress;
use crate::error::Result;
use crate::follow::sleep::{Event, Sleeper};
use crate::store::JobView;

/// The job ended before the condition was met.
const NOT_MET: u8 = 1;

/// What there is to say of one job.
pub(super) enum Report {
    /// It has ended, and nothing else was waited for.
    Ended,
    Happened(Happened),
    EndedWithout,
}

impl Report {
    pub(super) fn code(&self, job: &JobView) -> u8 {
        match self {
            Self::Ended => super::code(job),
            Self::Happened(_) => 0,
            Self::EndedWithout => NOT_MET,
        }
    }
}

/// All jobs that are waited for, as they were last seen.
pub(super) struct Waiting {
    pub(super) jobs: Vec<JobView>,
    pub(super) codes: Vec<Option<u8>>,
    /// `None`: the end, or nothing any more.
    conditions: Vec<Option<Condition>>,
    has_condition: bool,
    sleeper: Sleeper,
    deadline: Option<Instant>,
    progress: Progress,
    /// What has happened and was not given yet, in order.
    ready: VecDeque<(usize, Report)>,
}

impl Waiting {
    pub(super) fn begin(wait: &Wait, jobs: Vec<JobView>) -> Result<Self> {
        let deadline = wait.timeout.map(|time| Instant::now() + time);
        let mut sleeper = Sleeper::new();
        let mut conditions = Vec::with_capacity(jobs.len());
        for (place, job) in jobs.iter().enumerate() {
            conditions.push(Condition::of(wait, job, place, &mut sleeper)?);
        }
        let mut waiting = Self {
            codes: vec![None; jobs.len()],
            conditions,
            has_condition: wait.has_condition(),
            sleeper,
            deadline,
            progress: Progress::new(),
            ready: VecDeque::new(),
            jobs,
        };
        waiting.check_all(wait.any)?;
        for (place, job) in waiting.jobs.iter().enumerate() {
            if !job.state.is_terminal() && !waiting.is_decided(place) {
                waiting.sleeper.watch_end(job, place);
            }
        }
        Ok(waiting)
    }

    /// What is so already. Of those that had ended before, the one that ended first comes first if
    /// only one is wanted.
    fn check_all(&mut self, any: bool) -> Result<()> {
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

    fn is_decided(&self, place: usize) -> bool {
        self.codes[place].is_some() || self.ready.iter().any(|(ready, _)| *ready == place)
    }

    /// The next job of which there is something to say. `None`: that was all, or the time is over.
    pub(super) fn next(&mut self) -> Result<Option<(usize, Report)>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                self.progress.clear();
                return Ok(Some(ready));
            }
            let open: Vec<usize> = (0..self.jobs.len())
                .filter(|&place| !self.is_decided(place))
                .collect();
            let over = self.deadline.is_some_and(|end| Instant::now() >= end);
            if open.is_empty() || over {
                self.progress.clear();
                return Ok(None);
            }
            let left: Vec<&JobView> = open.iter().map(|&place| &self.jobs[place]).collect();
            self.progress.draw(&left);
            let wrote = self.sleep(&open)?;
            for place in open {
                if self.jobs[place].state.is_terminal() {
                    self.has_ended(place)?;
                } else {
                    self.check(place, wrote[place])?;
                }
            }
        }
    }

    /// Sleeps until something may have happened; gives which jobs may have written. Those that have
    /// ended are brought up to date.
    fn sleep(&mut self, open: &[usize]) -> Result<Vec<bool>> {
        let dues = open
            .iter()
            .filter_map(|&place| self.conditions[place].as_ref()?.due());
        let until = dues.chain(self.deadline).chain(self.progress.due()).min();
        let mut wrote = vec![false; self.jobs.len()];
        for event in self.sleeper.sleep(until) {
            match event {
                Event::Changed(place) => wrote[place] = true,
                Event::Ended(place, waited) => {
                    self.jobs[place] = crate::cli::ended(&self.jobs[place], waited?)?;
                }
            }
        }
        Ok(wrote)
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
        while let Some(condition) = &mut self.conditions[place]
            && condition.outlives()
        {
            let happened = condition.check(true)?;
            let is_behind = condition.is_behind();
            if let Some(happened) = happened {
                self.ready.push_back((place, Report::Happened(happened)));
                return Ok(());
            }
            if !is_behind {
                break;
            }
        }
        self.ready.push_back((place, Report::EndedWithout));
        Ok(())
    }

    /// The jobs of which nothing was said.
    pub(super) fn left(&self) -> Vec<&JobView> {
        let open = self.jobs.iter().zip(&self.codes);
        open.filter_map(|(job, code)| code.is_none().then_some(job))
            .collect()
    }
}

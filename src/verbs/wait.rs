//! `wait`: blocks until jobs have ended, on their leases, one thread each.

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use crate::cli::Wait;
use crate::error::{Error, Result};
use crate::message;
use crate::store::{JobView, Waited};
use crate::verbs::format::{sentence, short_duration};
use crate::verbs::{Context, row};

/// The exit code when the time is over, as `timeout` has it.
pub(crate) const TIMED_OUT: u8 = 124;
/// Enough for a record to be read; the default would be 2 MiB a job.
const STACK: usize = 512 * 1024;

pub(crate) fn wait(context: &Context, wait: &Wait) -> Result<u8> {
    let jobs = if wait.jobs.is_empty() {
        context.running()?
    } else {
        context.find_all(&wait.jobs)?
    };
    if jobs.is_empty() {
        message::say("nothing to wait for: no job is running");
        return Ok(0);
    }
    let deadline = wait.timeout.map(|time| Instant::now() + time);
    if wait.any
        && let Some(first) = first_ended(&jobs)
    {
        tell(context, first, wait.json)?;
        return Ok(code(first));
    }
    let mut codes: Vec<Option<u8>> = vec![None; jobs.len()];
    for (job, code_of) in jobs.iter().zip(&mut codes) {
        if job.state.is_terminal() {
            tell(context, job, wait.json)?;
            *code_of = Some(code(job));
        }
    }
    let results = watch(&jobs)?;
    while let Some((place, result)) = next(&results, deadline) {
        let ended = super::ended(&jobs[place], result?)?;
        tell(context, &ended, wait.json)?;
        codes[place] = Some(code(&ended));
        if wait.any {
            return Ok(code(&ended));
        }
    }
    let left: Vec<&JobView> = jobs
        .iter()
        .zip(&codes)
        .filter_map(|(job, code)| code.is_none().then_some(job))
        .collect();
    match (left.first(), wait.timeout) {
        (Some(first), Some(timeout)) => {
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
            Ok(TIMED_OUT)
        }
        _ => Ok(overall(codes.into_iter().flatten())),
    }
}

type Answer = (usize, Result<Waited>);

/// Waits for all that run, at once. The receiver ends when each has an answer.
fn watch(jobs: &[JobView]) -> Result<mpsc::Receiver<Answer>> {
    let (sender, receiver) = mpsc::channel();
    let running = jobs.iter().enumerate();
    for (place, job) in running.filter(|(_, job)| !job.state.is_terminal()) {
        let sender = sender.clone();
        let job = job.clone();
        thread::Builder::new()
            .stack_size(STACK)
            // With --any the receiver has gone once the first has ended.
            .spawn(move || drop(sender.send((place, job.wait(None)))))
            .map_err(|source| Error::sys("start a thread", source))?;
    }
    Ok(receiver)
}

/// The next answer. `None`: all are there, or the deadline is over.
fn next(results: &mpsc::Receiver<Answer>, deadline: Option<Instant>) -> Option<Answer> {
    match deadline {
        None => results.recv().ok(),
        Some(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now());
            results.recv_timeout(left).ok()
        }
    }
}

/// Of those that had ended before, the one that ended first.
fn first_ended(jobs: &[JobView]) -> Option<&JobView> {
    let ended = jobs.iter().filter(|job| job.state.is_terminal());
    ended.min_by_key(|job| job.settled_at().map(str::to_owned))
}

/// Says how a job ended, to the agent of its session among others.
pub(crate) fn tell(context: &Context, job: &JobView, json: bool) -> Result<()> {
    context.report(job, || {
        if json {
            message::out_json(&super::show::facts(job))
        } else {
            message::out(&format!("{}\n", sentence(&row(job))))
        }
    })
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

//! `wait`: blocks until jobs have ended, or until something that they do has happened.

mod args;
mod condition;
mod follow;
mod port;
mod print;
mod progress;
mod subscribers;
mod waiting;

use crate::cli::format::short_duration;
use crate::context::Context;
use crate::error::Result;
use crate::message;
use crate::store::JobView;
pub(crate) use args::Wait;
use subscribers::Subscribers;
use waiting::{Report, Waiting};

/// The exit code when the time is over, as `timeout` has it.
pub(crate) const TIMED_OUT: u8 = 124;
/// A delivery was given up.
const UNDELIVERED: u8 = 125;

pub(crate) fn wait(context: &Context, wait: &Wait) -> Result<u8> {
    let mut subscribers = Subscribers::new(context, wait)?;
    if wait.delivery.follow {
        return follow::follow(&mut subscribers, wait);
    }
    let jobs = chosen(context, wait)?;
    if jobs.is_empty() {
        message::say("nothing to wait for: no job is running");
        return Ok(0);
    }
    for job in &jobs {
        subscribers.add_job(job)?;
    }
    let mut waiting = Waiting::begin(wait, jobs)?;
    let mut undelivered = false;
    while let Some((place, report)) = waiting.next()? {
        let job = &waiting.jobs[place];
        match report {
            // The sinks come first: who is to print the end, they say.
            Report::Ended if subscribers.are_given() => {
                undelivered |= !subscribers.deliver(job, true)?;
            }
            _ => print::report(context, job, &report, wait.json)?,
        }
        let code = report.code(job);
        waiting.codes[place] = Some(code);
        // With a condition, the end of one job leaves the others to be hoped for.
        let decided = matches!(report, Report::Happened(_)) || !wait.has_condition();
        if wait.any && decided {
            return Ok(if undelivered { UNDELIVERED } else { code });
        }
    }
    if undelivered {
        return Ok(UNDELIVERED);
    }
    let left = waiting.left();
    if left.is_empty() {
        return Ok(overall(waiting.codes.iter().copied().flatten()));
    }
    print_timed_out(wait, &left, subscribers.are_given());
    Ok(TIMED_OUT)
}

/// The jobs that are meant.
fn chosen(context: &Context, wait: &Wait) -> Result<Vec<JobView>> {
    if !wait.jobs.is_empty() {
        return context.find_all(&wait.jobs);
    }
    let session = wait.delivery.session.clone().or_else(|| context.session());
    if wait.has_condition() {
        // What has ended will not do anything any more.
        context.running_in(session.as_deref())
    } else {
        context.awaited_in(session.as_deref())
    }
}

fn print_timed_out(wait: &Wait, left: &[&JobView], is_pending: bool) {
    let (Some(first), Some(timeout)) = (left.first(), wait.timeout) else {
        return;
    };
    let id = &first.launch.id;
    let which = match left.len() {
        1 => format!("job {id} is"),
        many => format!("{many} jobs are"),
    };
    let after = short_duration(timeout);
    let hint = if is_pending {
        "the notification stays pending".to_owned()
    } else {
        format!("'agent-sh logs {id}' shows its output, 'agent-sh wait {id}' waits on")
    };
    message::say_with_hint(
        format!("{which} still running after {after} of waiting"),
        hint,
    );
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

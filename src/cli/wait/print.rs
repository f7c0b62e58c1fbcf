//! What `wait` prints of a job.

use serde_json::Value;

use super::waiting::Report;
use crate::cli::format::{fit, sentence};
use crate::cli::{row, show};
use crate::context::Context;
use crate::error::Result;
use crate::message;
use crate::store::JobView;
use crate::store::outbox::acknowledged;

pub(super) fn report(context: &Context, job: &JobView, report: &Report, json: bool) -> Result<()> {
    let id = &job.launch.id;
    if let Report::Happened(happened) = report {
        if !json {
            return line(&format!("job {id} {}", happened.text));
        }
        let mut facts = show::facts(job);
        if let Value::Object(facts) = &mut facts {
            facts.insert("happened".to_owned(), happened.text.clone().into());
            facts.insert("matched".to_owned(), happened.line.clone().into());
        }
        return message::out_json(&facts);
    }
    end(context, job, json)?;
    if matches!(report, Report::EndedWithout) && !json {
        message::say(format!("job {id} ended before the condition was met"));
    }
    Ok(())
}

/// How a job ended, for the agent of its session among others.
pub(super) fn end(context: &Context, job: &JobView, json: bool) -> Result<()> {
    context.report(job, || {
        if json {
            message::out_json(&show::facts(job))
        } else {
            line(&sentence(&row(job)))
        }
    })?;
    acknowledged::mark_waited(job);
    Ok(())
}

/// On a terminal it takes one line.
fn line(line: &str) -> Result<()> {
    match message::width() {
        Some(width) => message::out(&format!("{}\n", fit(line, width))),
        None => message::out(&format!("{line}\n")),
    }
}

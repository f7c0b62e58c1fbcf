//! `rm`: removes ended jobs with their output and records.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::message;
use crate::store::{JobView, Store};
use crate::text;

/// Remove ended jobs, with their output and records
#[derive(Debug, Args)]
#[command(after_help = "\
A running job is left alone; 'agent-sh kill' ends it first. So is a job whose end somebody is still to be notified of, \
unless --force is given. 'agent-sh gc' removes old jobs by age and size.

Example:
  agent-sh rm 7f3k
  agent-sh rm $(agent-sh ps -a --failed -q)

Exit codes: 0 all of them are removed, 1 one is running or has notifications to deliver, 2 wrong usage, 125 no such job \
or agent-sh failed.")]
pub(super) struct Rm {
    /// Ids, unique prefixes of ids, names, or 'last'
    #[arg(value_name = "ID", required = true)]
    pub jobs: Vec<String>,
    /// Remove also what somebody is still to be notified of
    #[arg(short, long)]
    pub force: bool,
    /// Print the removed jobs as JSON, one per line
    #[arg(long)]
    pub json: bool,
}

pub(super) fn rm(context: &Context, rm: &Rm) -> Result<u8> {
    let mut worst = 0;
    let mut jobs: Vec<JobView> = Vec::new();
    // All are found before the first is removed: 'last' means one job throughout.
    for wanted in &rm.jobs {
        match context.find(wanted) {
            Ok(job) if jobs.iter().any(|before| before.dir == job.dir) => {}
            Ok(job) => jobs.push(job),
            Err(error) => worst = worst.max(message::error(&error)),
        }
    }
    let stores = context.stores();
    for job in &jobs {
        worst = worst.max(remove(&stores, job, rm)?);
    }
    Ok(worst)
}

fn remove(stores: &[Store], job: &JobView, rm: &Rm) -> Result<u8> {
    let id = job.id();
    let command = text::shorten(&job.launch.facts.command.text, 120);
    if !job.state.is_terminal() {
        message::say_with_hint(
            format!("job {id} is {} and was not removed: {command}", job.state),
            format!("'agent-sh kill {id}' ends it"),
        );
        return Ok(1);
    }
    let Some(store) = stores
        .iter()
        .find(|store| job.dir.starts_with(store.path()))
    else {
        return Err(Error::Failed {
            text: format!("job {id} is in no state directory that is in use"),
            hint: None,
        });
    };
    if !rm.force && store.has_undelivered(job) {
        message::say_with_hint(
            format!(
                "somebody is still to be notified of job {id}, and it was not removed: {command}"
            ),
            "'agent-sh notify list' shows whom; --force removes it all the same".to_owned(),
        );
        return Ok(1);
    }
    let row = job.to_row_json();
    match store.remove(id) {
        Ok(true) if rm.json => message::out_json(&row)?,
        Ok(true) => message::out(&format!("removed job {id}: {command}\n"))?,
        Ok(false) if rm.json => message::out_json(&json!({ "id": id }))?,
        Ok(false) => message::say(format!("job {id} was removed already")),
        Err(error) => return Ok(message::error(&error)),
    }
    Ok(0)
}

//! `restart`: the same command once more, as a new job.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::run::{print_id, refuse_to_lose};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::KillCause;
use crate::kill::{self, Report, Wish};
use crate::message;
use crate::settings;
use crate::store::JobView;
use crate::wire::{RunJob, RunRequest};

/// Start a job's command again, as a new job
#[derive(Debug, Args)]
#[command(after_help = "\
A running job is ended first, as 'agent-sh kill' does it. The new job has the same command, directory, name and session, \
and the caller's environment. Prints its id.

Example:
  agent-sh restart web
  agent-sh restart 7f3k --grace 30s

Exit codes: 0 started, 1 the running job does not end, 2 wrong usage, 125 no such job, its command is not known as a whole, or \
agent-sh failed.")]
pub(super) struct Restart {
    /// Id, unique prefix of an id, name, or 'last'
    #[arg(value_name = "ID")]
    pub job: String,
    /// How long a running job may take to end before it gets KILL
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, default_value = "5s", value_parser = settings::duration)]
    pub grace: Duration,
    /// Print the new job as JSON
    #[arg(long)]
    pub json: bool,
}

pub(super) fn restart(context: &Context, restart: &Restart) -> Result<u8> {
    let job = context.find(&restart.job)?;
    let request = request(&job, restart.json)?;
    // Before the old one is ended.
    refuse_to_lose(context)?;
    if !job.state.is_terminal() && !end(context, &job, restart.grace)? {
        return Ok(1);
    }
    let (code, text) = context.start(request)?;
    print_id(&text).map(|()| code)
}

/// What starts it again. Refused where the record does not have the whole command: half a command must not
/// run.
fn request(job: &JobView, json: bool) -> Result<RunRequest> {
    let facts = &job.launch.facts;
    let id = job.id();
    let unknown = |why: &str| Error::Failed {
        text: format!("cannot restart job '{id}': {why}"),
        hint: Some("'agent-sh run' starts it with a command of your own".to_owned()),
    };
    if facts.command.redacted {
        return Err(unknown("a secret was taken out of its stored command"));
    }
    if facts.command.truncated {
        return Err(unknown("its command is too long to be stored as a whole"));
    }
    if facts.command.text.is_empty() {
        return Err(unknown("its command is not known"));
    }
    let cwd = Some(PathBuf::from(&facts.cwd)).filter(|dir| dir.is_absolute());
    if let Some(dir) = cwd.as_ref().filter(|dir| !dir.is_dir()) {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(Error::io("enter", dir, source));
    }
    Ok(RunRequest {
        argv: vec![facts.command.text.clone().into()],
        is_text: true,
        job: RunJob {
            name: facts.name.clone(),
            session: facts.session.clone(),
            cwd,
            interactive: job.launch.interactive,
            json,
            ..RunJob::default()
        },
    })
}

/// Ends the running one. `false`: something of it would not go, and was named.
fn end(context: &Context, job: &JobView, grace: Duration) -> Result<bool> {
    let session = context.session();
    let wish = Wish {
        signal: libc::SIGTERM,
        grace,
        by: KillCause::of_verb(session.is_some()),
        session: session.as_deref(),
    };
    let whole = kill::end_whole(job, std::slice::from_ref(job), &wish)?;
    let stays = |report: &Report| matches!(report, Report::Left(..) | Report::Sent);
    let left = stays(&whole.report) || whole.daemons.iter().any(|(_, report)| stays(report));
    if left {
        message::say(format!(
            "job {} does not end, and was not started again",
            job.id()
        ));
    }
    Ok(!left)
}

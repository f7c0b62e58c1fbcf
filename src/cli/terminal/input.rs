//! The way from a verb to the terminal of a job: finding its supervisor, and saying why that cannot be.

use std::time::Duration;

use crate::cli::format::ending;
use crate::cli::kill::already;
use crate::cli::row;
use crate::error::{Error, Result};
use crate::store::JobView;
use crate::sys::signal;
use crate::wire::Address;
use crate::wire::control::{Answer, Control, Silence, Verdict, What};

/// How long a supervisor may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(5);

/// Finds whoever can type at the job, and asks whether it will. Gives the size of the terminal too.
pub(crate) fn reach(job: &JobView) -> Result<(Control, Answer)> {
    if job.state.is_terminal() {
        return Err(has_ended(job));
    }
    if job.launch_known && !job.launch.interactive {
        return Err(no_terminal(job));
    }
    // A supervisor that goes away while we write to it is told as an error, not by a signal.
    signal::ignore(&[libc::SIGPIPE]);
    let address = job.launch.control.as_deref().and_then(Address::from_text);
    let Some(address) = address else {
        return Err(failed(
            format!("the supervisor of job {} takes no requests", job.id()),
            Some("it had no /proc to be reached through".to_owned()),
        ));
    };
    let mut control = Control::open(address, job.launch.supervisor.pidns, job.id())
        .map_err(|silence| explain(job, &silence))?;
    let answer = control
        .ask(What::Look, PATIENCE)
        .map_err(|silence| explain(job, &silence))?;
    check_answer(job, &answer)?;
    Ok((control, answer))
}

/// An answer that is not the wanted one, as an error.
pub(crate) fn check_answer(job: &JobView, answer: &Answer) -> Result<()> {
    match answer.verdict {
        Verdict::Done => Ok(()),
        Verdict::NoStdin => Err(no_terminal(job)),
        Verdict::NoJob => Err(has_ended(job)),
        Verdict::Full => Err(failed(
            format!("job {} is not reading its input", job.id()),
            None,
        )),
        Verdict::Refused => Err(failed(
            format!("the terminal of job {} refused that", job.id()),
            None,
        )),
    }
}

pub(crate) fn explain(job: &JobView, silence: &Silence) -> Error {
    let id = job.id();
    match silence {
        Silence::Elsewhere => failed(
            format!("job {id} runs in another pid namespace, such as a container"),
            Some("call agent-sh inside of it".to_owned()),
        ),
        Silence::Gone => match job.reload() {
            Ok(Some(now)) if now.state.is_terminal() => has_ended(&now),
            _ => failed(
                format!("the supervisor of job {id} is gone: nobody can type at it any more"),
                Some(format!(
                    "'agent-sh logs {id}' shows its output, 'agent-sh kill {id}' ends it"
                )),
            ),
        },
        Silence::Late => failed(
            format!("the supervisor of job {id} does not answer"),
            Some("it may be stopped; the job itself runs on".to_owned()),
        ),
        Silence::Failed(error) => failed(
            format!(
                "cannot reach the supervisor of job {id}: {}",
                crate::error::cause(error)
            ),
            None,
        ),
    }
}

fn no_terminal(job: &JobView) -> Error {
    failed(
        format!(
            "job {} has no terminal as its stdin: nothing can be typed at it",
            job.id()
        ),
        Some("'agent-sh run -i -- COMMAND' starts a job that has one".to_owned()),
    )
}

fn has_ended(job: &JobView) -> Error {
    let now = job.reload().ok().flatten();
    let job = now.as_ref().unwrap_or(job);
    let id = job.id();
    let text = if job.state.is_terminal() {
        format!("job {id} {}", already(&ending(&row(job))))
    } else {
        format!("job {id} has ended")
    };
    failed(text, Some(format!("'agent-sh logs {id}' shows its output")))
}

fn failed(text: String, hint: Option<String>) -> Error {
    Error::Failed { text, hint }
}

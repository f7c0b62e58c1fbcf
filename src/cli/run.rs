//! `run`: what the caller asked for, checked. Starting it is another role's work.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::caller;
use crate::cli::format::sentence;
use crate::cli::terminal::{attach, raw};
use crate::cli::values::{name, variable};
use crate::cli::{misuse, row, wait};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::KillCause;
use crate::message;
use crate::settings::{self, Linger};
use crate::store::{JobView, Reading};
use crate::sys::{session, signal};
use crate::wire::{RunJob, RunRequest};
use clap::Args;

/// Start a job
#[derive(Debug, Args)]
#[command(after_help = "\
A single argument with spaces is a command for the real shell; several words are a program and its arguments.
Prints the job's id. With -i the job accepts input ('agent-sh send', 'agent-sh attach'); with -i --wait at a terminal \
you are attached at once, and Ctrl-] detaches. A signal to --wait ends the waiting, not the job; where every \
process ends with this call (PID 1 of a container), it goes to the job, and 'run' without --wait stays until the job has ended. \
With --wait, a pipe or file as stdin is passed to the job; otherwise its stdin is /dev/null. A name refers to the newest running job that has it, else the newest.

Example:
  agent-sh run --name web -- npm run dev
  agent-sh run --wait --timeout 10m 'make clean && make'
  agent-sh run --env PORT=3001 -- npm run dev
  agent-sh run -i -- python3

Exit codes: 0 started; with --wait the job's own, 128+n after signal n, 124 when --timeout or --idle-timeout \
expired; 126 or 127 when the program cannot be started, 2 wrong usage, 125 agent-sh failed.")]
pub(super) struct Run {
    /// Give the job a terminal as stdin, so that it accepts input
    #[arg(short, long)]
    pub interactive: bool,
    /// A name to use instead of the id
    #[arg(long, value_parser = name)]
    pub name: Option<String>,
    /// The working directory
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// The session that the job belongs to [default: the caller's]
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// Set a variable in the job's environment; may be given more than once
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Stop the job after this time: 90, 90s, 10m, 2h
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration)]
    pub timeout: Option<Duration>,
    /// Stop the job when it has written nothing for this time
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration)]
    pub idle_timeout: Option<Duration>,
    /// Wait for the job, print its output, and exit with its exit code
    #[arg(long)]
    pub wait: bool,
    /// Print the job as JSON
    #[arg(long, conflicts_with = "wait")]
    pub json: bool,
    /// The program and its arguments, or one command for the shell
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub command: Vec<OsString>,
}

pub(crate) fn run(context: &Context, run: Run) -> Result<u8> {
    if let Some(name) = &run.name {
        tell_of_namesake(context, name);
    }
    let sits = run.interactive && run.wait && raw::is_there();
    let mut request = request(run)?;
    if !request.job.wait {
        refuse_to_lose(context)?;
    }
    if !sits {
        let (code, text) = context.start(request)?;
        return print_id(&text).map(|()| code);
    }
    request.job.wait = false;
    request.job.size = Some(raw::size());
    let (code, text) = context.start(request)?;
    if code != 0 {
        return Ok(code);
    }
    let job = context.find(String::from_utf8_lossy(&text).trim())?;
    match attach::attach_to(&job) {
        Ok(code) => Ok(timed_out(&job)?.unwrap_or(code)),
        Err(error) => match job.reload()? {
            // It was over before we could sit down.
            Some(now) if now.state.is_terminal() => {
                show(&now)?;
                message::say(sentence(&row(&now)));
                Ok(timed_out(&now)?.unwrap_or_else(|| wait::code(&now)))
            }
            _ => Err(error),
        },
    }
}

/// Where everything ends with this call, and it is not to stay, the job would be lost without a word.
pub(super) fn refuse_to_lose(context: &Context) -> Result<()> {
    let never = context.settings.linger == Linger::Never;
    if never && caller::dies_with_the_call(session::pid() == 1, session::parent_pid()) {
        return Err(Error::Failed {
            text: "cannot start a job: every process here ends with this call".to_owned(),
            hint: Some(
                "use --wait, or leave AGENT_SH_LINGER at 'auto', and the call stays with the job"
                    .to_owned(),
            ),
        });
    }
    Ok(())
}

/// Prints what is to be printed of a job that runs now. Its id must reach the caller: if not there, then
/// with the error.
pub(super) fn print_id(text: &[u8]) -> Result<()> {
    signal::ignore(&[libc::SIGPIPE]);
    message::out_bytes(text).map_err(|error| {
        let text = String::from_utf8_lossy(text);
        let json = serde_json::from_str::<serde_json::Value>(&text).ok();
        let id = json.as_ref().and_then(|json| json["id"].as_str());
        let id = id.unwrap_or(text.trim());
        Error::Failed {
            text: format!("{error}; job {id} was started all the same"),
            hint: Some(format!(
                "'agent-sh show {id}' shows it, 'agent-sh kill {id}' ends it"
            )),
        }
    })
}

/// The first word of a command, if it looks like an option of ours. A program may be called like that: then
/// it stands behind `--`.
fn misspelt_option(command: &[OsString], words: &[OsString]) -> Option<String> {
    let first = command.first()?;
    let at = words.iter().position(|word| word == first)?;
    let meant = at > 0 && words[at - 1] == "--";
    let text = first.to_string_lossy();
    (text.starts_with('-') && !meant).then(|| text.into_owned())
}

/// A name means the newest job that has it, so the older one can only be reached by its id.
fn tell_of_namesake(context: &Context, name: &str) {
    let Ok(job) = context.find(name) else { return };
    if job.launch.facts.name.as_deref() == Some(name) && !job.state.is_terminal() {
        message::say(format!(
            "job {} is called '{name}' too and still running; the name now means the new one",
            job.id()
        ));
    }
}

/// Says that a job's time was over, and gives the code for that, as `run --wait` has it.
fn timed_out(job: &JobView) -> Result<Option<u8>> {
    let now = job.reload()?;
    let asked = now
        .as_ref()
        .and_then(|now| now.record.as_ref()?.data.kill_requested.as_ref());
    let limit = asked.filter(|kill| matches!(kill.by, KillCause::Timeout | KillCause::IdleTimeout));
    Ok(limit.map(|kill| {
        message::say(format!("timed out (--{})", kill.by));
        wait::TIMED_OUT
    }))
}

fn show(job: &JobView) -> Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    let mut reader = job.read_transcript(Reading::Raw)?;
    loop {
        let read = reader
            .read(&mut buffer)
            .map_err(|source| Error::sys("read the transcript", source))?;
        if read == 0 {
            return Ok(());
        }
        message::out_bytes(&buffer[..read])?;
    }
}

pub(crate) fn request(run: Run) -> Result<RunRequest> {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(option) = misspelt_option(&run.command, &words) {
        return Err(misuse::no_option("run", &option));
    }
    let cwd = match run.cwd {
        None => None,
        Some(dir) => {
            let whole =
                std::path::absolute(&dir).map_err(|source| Error::io("enter", &dir, source))?;
            let meta =
                std::fs::metadata(&whole).map_err(|source| Error::io("enter", &dir, source))?;
            if !meta.is_dir() {
                let source = std::io::Error::from(std::io::ErrorKind::NotADirectory);
                return Err(Error::io("enter", &dir, source));
            }
            Some(whole)
        }
    };
    Ok(RunRequest {
        is_text: is_text(&run.command),
        argv: run.command,
        job: RunJob {
            name: run.name,
            cwd,
            session: run.session,
            interactive: run.interactive,
            timeout: run.timeout,
            idle_timeout: run.idle_timeout,
            size: None,
            wait: run.wait,
            json: run.json,
            env: run.env,
        },
    })
}

/// One word that no program's name would be.
fn is_text(words: &[OsString]) -> bool {
    let blank = |byte: &u8| byte.is_ascii_whitespace();
    matches!(words, [only] if only.as_bytes().iter().any(blank))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_with_blanks_is_text() {
        for (words, text) in [
            (&["make"][..], false),
            (&["make", "a b"], false),
            (&["make all"], true),
            (&["a\nb"], true),
            (&["a;b"], false),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(is_text(&words), text, "{words:?}");
        }
    }
}

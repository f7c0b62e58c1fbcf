//! `run`: what the caller asked for, checked. Starting it is another role's work.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::caller;
use crate::cli::Run;
use crate::error::{Error, Result};
use crate::handoff::control::Size;
use crate::message;
use crate::settings::Linger;
use crate::store::{JobView, Reading};
use crate::sys::{session, signal};
use crate::verbs::format::sentence;
use crate::verbs::{Context, attach, misuse, row, terminal, wait};

/// A job to be started outright.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRequest {
    /// The program and its arguments. With `is_text` it is one word: text for the real shell.
    pub argv: Vec<OsString>,
    pub is_text: bool,
    pub name: Option<String>,
    /// Absolute, and a directory when it was looked at.
    pub cwd: Option<PathBuf>,
    pub session: Option<String>,
    pub interactive: bool,
    pub timeout: Option<Duration>,
    pub idle_timeout: Option<Duration>,
    /// Of its terminal, if not the usual.
    pub size: Option<Size>,
    pub wait: bool,
    pub json: bool,
}

pub(crate) fn run(context: &Context, run: Run) -> Result<u8> {
    if let Some(name) = &run.name {
        tell_of_namesake(context, name);
    }
    let sits = run.interactive && run.wait && terminal::is_there();
    let mut request = request(run)?;
    if !request.wait {
        refuse_to_lose(context)?;
    }
    if !sits {
        let (code, text) = context.start(request)?;
        return print_id(&text).map(|()| code);
    }
    request.wait = false;
    request.size = Some(terminal::size());
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
fn refuse_to_lose(context: &Context) -> Result<()> {
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
fn print_id(text: &[u8]) -> Result<()> {
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
    if job.launch.name.as_deref() == Some(name) && !job.state.is_terminal() {
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
    let limit = asked.filter(|kill| ["timeout", "idle-timeout"].contains(&kill.by.as_str()));
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
        name: run.name,
        cwd,
        session: run.session,
        interactive: run.interactive,
        timeout: run.timeout,
        idle_timeout: run.idle_timeout,
        size: None,
        wait: run.wait,
        json: run.json,
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

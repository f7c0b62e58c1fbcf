//! `send`: types at a job's terminal.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use crate::cli::terminal::input;
use crate::cli::terminal::keys;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::message;
use crate::store::JobView;
use crate::wire::control::{Control, INPUT_LIMIT, Silence, Verdict, What};
use clap::Args;
use std::ffi::OsString;

/// Send input to a job's terminal
#[derive(Debug, Args)]
#[command(after_help = "\
For jobs started with 'agent-sh run -i'. Several words are joined by a space. Adds Enter, unless -n or --key is given. \
A newline in TEXT is Enter too. Order: TEXT, keys as given, end of input.
Keys: enter tab space escape backspace delete insert up down left right home end page-up page-down f1 to f12, \
ctrl-a to ctrl-z (ctrl-c interrupts), alt- and a key, or any one character.
Exits when the job's terminal has accepted everything. Terminals limit a line to 4095 bytes.

Example:
  agent-sh send 7f3k 'print(6 * 7)'
  agent-sh send 7f3k --key up enter
  agent-sh send 7f3k --eof

Exit codes: 0 sent, 1 the job did not read for 5 s, 2 wrong usage, 125 no such job, it has ended, or it accepts no input.")]
pub(crate) struct Send {
    /// Id, unique prefix of an id, name, or 'last'
    #[arg(value_name = "ID")]
    pub job: String,
    /// The text to send; after '--' if it begins with a dash
    #[arg(value_name = "TEXT")]
    pub text: Vec<OsString>,
    /// Do not add Enter
    #[arg(short = 'n', long)]
    pub no_enter: bool,
    /// Send this key, or several in order
    #[arg(long = "key", value_name = "NAME", num_args = 1.., allow_hyphen_values = false)]
    pub keys: Vec<String>,
    /// Send end of input, as Ctrl-D does at the start of a line
    #[arg(long)]
    pub eof: bool,
}

/// How long a job may take to read what fills its terminal.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much of what the job wrote last is looked through for the mode of its terminal.
const LOOK_BACK: usize = 256 * 1024;
/// The exit code when the job did not take it all.
const NOT_TAKEN: u8 = 1;

pub(crate) fn send(context: &Context, send: &Send) -> Result<u8> {
    if send.text.is_empty() && send.keys.is_empty() && !send.eof {
        return Err(Error::Usage {
            text: "nothing to send".to_owned(),
            hint: Some("give a TEXT, --key NAME or --eof".to_owned()),
        });
    }
    // Wrong names are told before anything is typed.
    for name in &send.keys {
        key(name, false)?;
    }
    let job = context.find(&send.job)?;
    let (mut control, _) = input::reach(&job)?;
    let mut bytes = typed(&send.text);
    if !send.text.is_empty() && !send.no_enter && send.keys.is_empty() {
        bytes.push(b'\r');
    }
    if !send.keys.is_empty() {
        let application = keys::wants_application_keys(&job.tail(LOOK_BACK));
        for name in &send.keys {
            bytes.extend(key(name, application)?);
        }
    }
    let mut taken = 0;
    for piece in bytes.chunks(INPUT_LIMIT) {
        if !ask(&job, &mut control, What::Input(piece.to_vec()))? {
            return Ok(not_taken(&job, taken, bytes.len()));
        }
        taken += piece.len();
    }
    if send.eof && !ask(&job, &mut control, What::Eof)? {
        return Ok(not_taken(&job, taken, bytes.len()));
    }
    Ok(0)
}

/// `false`: the job does not read.
fn ask(job: &JobView, control: &mut Control, what: What) -> Result<bool> {
    match control.ask(what, PATIENCE) {
        Ok(answer) if answer.verdict == Verdict::Full => Ok(false),
        Ok(answer) => input::check_answer(job, &answer).map(|()| true),
        Err(Silence::Late) => Ok(false),
        Err(silence) => Err(input::explain(job, &silence)),
    }
}

fn not_taken(job: &JobView, taken: usize, all: usize) -> u8 {
    let id = job.id();
    message::say_with_hint(
        format!("job {id} is not reading its input: {taken} of {all} bytes were taken"),
        format!(
            "'agent-sh show {id}' tells whether it is stopped, 'agent-sh logs {id}' what it does"
        ),
    );
    NOT_TAKEN
}

/// The words with a blank between them; the end of a line is what the Enter key sends.
fn typed(words: &[std::ffi::OsString]) -> Vec<u8> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let text = words.join(&b' ');
    let mut typed = Vec::with_capacity(text.len());
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'\n' if at > 0 && text[at - 1] == b'\r' => {}
            b'\n' => typed.push(b'\r'),
            _ => typed.push(byte),
        }
    }
    typed
}

fn key(name: &str, application: bool) -> Result<Vec<u8>> {
    keys::bytes(name, application).map_err(|why| Error::Usage {
        text: format!("key '{name}': {why}"),
        hint: Some("'agent-sh help send' lists the keys".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_as_a_keyboard_sends_it() {
        for (words, wanted) in [
            (&["ls"][..], "ls"),
            (&["a", "b  c"], "a b  c"),
            (&["one\ntwo\r\nthree"], "one\rtwo\rthree"),
            (&["\n"], "\r"),
            (&[""], ""),
        ] {
            let words: Vec<std::ffi::OsString> = words.iter().map(Into::into).collect();
            assert_eq!(typed(&words), wanted.as_bytes(), "{words:?}");
        }
    }
}

//! The command line of the verbs: clap types and their help, nothing else.
//!
//! `-c` and the other forms of a shell are told apart before any of this is built.

mod setup;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use setup::{ClaudeCode, Codex, Gemini, Hook, How, Opencode, Setup, SetupWhat, Shims};

use crate::job::State;
use crate::settings;

const OVERVIEW: &str = "\
A job is background work: 'cmd &', 'nohup cmd', 'cmd & disown', 'setsid cmd', a daemon, or 'agent-sh run'.
It outlives the call that started it, keeps its output, and ends in one record: exited, signaled or lost.
ID is a job's id, any unique beginning of it, its name, or 'last'.

Called with what a shell takes (-c COMMAND, a script, nothing), agent-sh is that shell.

Example:
  agent-sh -c 'cargo build &'   the call returns at once and names the job, say 7f3k
  agent-sh wait 7f3k            blocks until it ends, with its exit code
  agent-sh logs 7f3k            its output

Exit codes: 0 done, 1 not so, 2 wrong usage, 124 time over, 125 agent-sh failed, else the job's own.";

#[derive(Debug, Parser)]
#[command(
    name = "agent-sh",
    bin_name = "agent-sh",
    version,
    about = "A stand-in for the shell of coding agents: background work outlives the call and leaves a record",
    after_help = OVERVIEW,
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs",
    max_term_width = 100
)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    Run(Run),
    Ps(Ps),
    Show(Show),
    Logs(Logs),
    Wait(Wait),
    Kill(Kill),
    Notify(Notify),
    Parse(Parse),
    Setup(Setup),
    Hook(Hook),
}

/// Start a job outright
#[derive(Debug, Args)]
#[command(after_help = "\
One argument with blanks in it is text for the real shell; several words are a program and its arguments.

Example:
  agent-sh run --name web -- npm run dev
  agent-sh run --wait --timeout 10m 'make clean && make'

Exit codes: 0 started; with --wait the job's own, 128+n after signal n, 124 when --timeout ended it; \
126 or 127 when the program cannot be started, 2 wrong usage, 125 agent-sh failed.")]
pub struct Run {
    /// Give the job its terminal as stdin, so that it can be interactive
    #[arg(short, long, conflicts_with = "wait")]
    pub interactive: bool,
    /// A name that the other verbs take instead of the id
    #[arg(long, value_parser = name)]
    pub name: Option<String>,
    /// Where to run it
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// The session it belongs to, if not the caller's
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// End it after this time: 90, 90s, 10m, 2h
    #[arg(long, value_name = "DURATION", value_parser = settings::duration)]
    pub timeout: Option<Duration>,
    /// Stay, show its output, and end with its exit code
    #[arg(long)]
    pub wait: bool,
    /// Print the job as JSON
    #[arg(long, conflicts_with = "wait")]
    pub json: bool,
    /// The program and its arguments, or one text for the shell
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub command: Vec<OsString>,
}

/// List jobs: those running and those that ended in the last hour
#[derive(Debug, Args)]
#[command(after_help = "\
Within a session (an agent's conversation) only its jobs are listed, else all. Newest last.
TIME is how long a job has run, or took. EXIT is its exit code, or the signal that ended it.
--json prints an array of objects with: id name state exit_code signal pid command how session harness cwd \
started_at ended_at duration_ms transcript redirected_to bytes_total degraded.

Example:
  agent-sh ps
  agent-sh ps --all --state exited --state lost --json

Exit codes: 0 also when there are none, 2 wrong usage, 125 agent-sh failed.")]
pub struct Ps {
    /// All jobs that are kept, however long ago they ended
    #[arg(short, long)]
    pub all: bool,
    /// Jobs of every session
    #[arg(short = 'A', long)]
    pub all_sessions: bool,
    /// Jobs of this session only
    #[arg(long, value_name = "KEY", conflicts_with = "all_sessions")]
    pub session: Option<String>,
    /// Jobs in this state only; may be given more than once
    #[arg(long, value_name = "STATE")]
    pub state: Vec<StateWord>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Show everything known of a job
#[derive(Debug, Args)]
#[command(after_help = "\
--json prints the record (a CloudEvent, 'type' dev.agent-sh.job.exited.v1) of a job that has ended. Of one that \
still runs it prints the object of 'ps --json' with one more key, 'launch': the facts written at its start.

Example:
  agent-sh show 7f3k
  agent-sh show last --json

Exit codes: 0 shown, 2 wrong usage, 125 no such job.")]
pub struct Show {
    /// Id, unique beginning of one, name, or 'last'
    #[arg(value_name = "ID")]
    pub job: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Print what a job wrote
#[derive(Debug, Args)]
#[command(after_help = "\
Clean text: escape sequences are gone, a progress line shows only what it said last.
If the job's output was redirected to a file, that file is shown, and stderr says so.

Example:
  agent-sh logs 7f3k -n 50
  agent-sh logs 7f3k -f        follows until the job ends

Exit codes: 0 shown, 2 wrong usage, 125 no such job or no output to be found.")]
pub struct Logs {
    /// Id, unique beginning of one, name, or 'last'
    #[arg(value_name = "ID")]
    pub job: String,
    /// Only the last N lines
    #[arg(short = 'n', long, value_name = "N")]
    pub lines: Option<usize>,
    /// Go on printing until the job ends
    #[arg(short, long)]
    pub follow: bool,
    /// The bytes as the job wrote them, escape sequences included
    #[arg(long)]
    pub raw: bool,
}

/// Block until jobs have ended
#[derive(Debug, Args)]
#[command(after_help = "\
Without an ID: all running jobs of the caller's session, or of every session if the caller has none.
One line per job is printed when it ends; with --json its record, one a line.

Example:
  agent-sh wait 7f3k && echo built
  agent-sh wait 7f3k 9m2p --any --timeout 10m
  agent-sh wait 7f3k --notify dir:/home/you/events
  agent-sh wait --follow --notify stdout

With --notify the end is also delivered to sinks ('agent-sh notify add --help' lists them), and the verb ends \
once that is done. What could not be delivered stays pending for the next agent-sh that runs.

Exit codes: the job's own, 128+n after signal n, 125 when it is lost or unknown; of several jobs the first that \
is not 0, in the order given; with --any that of the first to end; 124 when --timeout is over; 125 when a delivery was given up; 2 wrong usage.")]
pub struct Wait {
    /// Ids, unique beginnings of one, names, or 'last'
    #[arg(value_name = "ID")]
    pub jobs: Vec<String>,
    /// Until the first of them ends
    #[arg(long)]
    pub any: bool,
    /// Until all of them have ended (the default)
    #[arg(long, conflicts_with = "any")]
    pub all: bool,
    /// Give up after this time: 90, 90s, 10m, 2h. The jobs run on
    #[arg(long, value_name = "DURATION", value_parser = settings::duration)]
    pub timeout: Option<Duration>,
    /// Print records as JSON, one a line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub tell: WaitTell,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Telling others")]
pub struct WaitTell {
    /// Deliver the end to this sink, or to the subscriber of this name; may be given more than once
    #[arg(long, value_name = "SINK")]
    pub notify: Vec<String>,
    /// Who is told: the same subscriber is never told twice
    #[arg(long = "as", value_name = "NAME", value_parser = name, requires = "notify")]
    pub subscriber: Option<String>,
    /// Go on with all jobs of the session, as they start and end
    #[arg(long, conflicts_with_all = ["any", "jobs"])]
    pub follow: bool,
    /// The session whose jobs are meant, if not the caller's
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    #[command(flatten)]
    pub watch: Watching,
    #[command(flatten)]
    pub web: Webhook,
}

#[derive(Clone, Debug, Args)]
pub struct Watching {
    /// Tell of lines that match this regular expression, while the job runs
    #[arg(long, value_name = "RE", value_parser = pattern)]
    pub on_output: Option<String>,
    /// Tell that a job that writes is alive, this often
    #[arg(long, value_name = "DURATION", value_parser = settings::duration)]
    pub heartbeat: Option<Duration>,
}

#[derive(Clone, Debug, Args)]
pub struct Webhook {
    /// The key that signs webhooks (whsec_…), in a file that only you can read
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Webhooks may go to addresses of private networks
    #[arg(long)]
    pub allow_private: bool,
}

/// Say who is to be told when jobs end
#[derive(Debug, Args)]
#[command(after_help = "\
A subscription stands until it is removed: whatever job ends, its supervisor tells. What cannot be delivered \
is tried again, and stays pending for the next agent-sh that runs.

Example:
  agent-sh notify add dir:/home/you/events
  agent-sh notify list

Exit codes: 0 done, 2 wrong usage, 125 no such subscription, not delivered, or agent-sh failed.")]
pub struct Notify {
    #[command(subcommand)]
    pub what: NotifyWhat,
}

#[derive(Debug, Subcommand)]
pub enum NotifyWhat {
    Add(NotifyAdd),
    List(NotifyList),
    Remove(NotifyName),
    Test(NotifyTest),
}

/// Subscribe a sink to the ends of jobs
#[derive(Debug, Args)]
#[command(after_help = "\
Sinks:
  dir:/DIRECTORY   one file EVENT.json per event, complete or not there
  exec:/PROGRAM    the event on stdin; no shell, empty environment, 10 seconds
  https://URL      a signed POST (Standard Webhooks); http:// only to this machine
  unix:/SOCKET     one line to whoever listens, if it is yours
  claude-code, codex, opencode, agentapi
                   the agent that started the job, through its harness
  auto             whichever of these started the job

Example:
  agent-sh notify add dir:/home/you/events --on failure
  agent-sh notify add https://example.com/hook --as web --secret-file ~/.config/hook.key
  agent-sh notify add auto --on-output 'listening on|error'

Exit codes: 0 done, 2 wrong usage, 125 there is one of that name, or agent-sh failed.")]
pub struct NotifyAdd {
    /// Where events go
    pub sink: String,
    /// The name of the subscription; made from the sink unless given
    #[arg(long = "as", value_name = "NAME", value_parser = name)]
    pub subscriber: Option<String>,
    /// Only jobs of this session
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// Which ends
    #[arg(long, value_name = "WHICH", default_value = "always")]
    pub on: OnWord,
    #[command(flatten)]
    pub watch: Watching,
    #[command(flatten)]
    pub web: Webhook,
}

/// List subscriptions with what is pending, delivered and dead
#[derive(Debug, Args)]
pub struct NotifyList {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Remove a subscription; nothing more is delivered to it
#[derive(Debug, Args)]
pub struct NotifyName {
    /// The name of the subscription
    pub name: String,
}

/// Send a test event now, and say what became of it
#[derive(Debug, Args)]
pub struct NotifyTest {
    /// The name of the subscription
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnWord {
    Success,
    Failure,
    Always,
}

/// End jobs: TERM, then KILL, to the whole process tree
#[derive(Debug, Args)]
#[command(after_help = "\
Says how each job ended, also when it had ended before. TERM, INT, QUIT, ABRT are followed by KILL when the \
grace is over. Other signals (HUP, USR1, STOP, CONT …) are sent once, and nothing follows.

Example:
  agent-sh kill 7f3k
  agent-sh kill web db -s INT --grace 30s

Exit codes: 0 all of them are gone (or the signal was sent), 1 one is still there, 2 wrong usage, 125 no such job \
or agent-sh failed.")]
pub struct Kill {
    /// Ids, unique beginnings of one, names, or 'last'
    #[arg(value_name = "ID", required = true)]
    pub jobs: Vec<String>,
    /// The first signal: TERM, SIGTERM or 15
    #[arg(short, long, value_name = "SIGNAL", default_value = "TERM", value_parser = signal)]
    pub signal: i32,
    /// How long the job may take to end before KILL
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = settings::duration)]
    pub grace: Duration,
    /// Print records as JSON, one a line
    #[arg(long)]
    pub json: bool,
}

/// Say which parts of a command (on stdin) would become jobs
#[derive(Debug, Args)]
#[command(after_help = "\
--json prints {\"ok\":BOOL,\"amps\":[OFFSET…],\"jobs\":[{\"start\":,\"end\":,\"how\":,\"attended\":}],\"why\":null|TEXT}; \
offsets are bytes. An attended job is one that the command itself waits for; it is left to the shell.

Example:
  echo 'make & sleep 1' | agent-sh parse --json

Exit codes: 0 also when the text cannot be read ('ok' is then false), 2 wrong usage.")]
pub struct Parse {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Whose syntax it is: that of $AGENT_SH_SHELL, else bash, unless given
    #[arg(long, visible_alias = "shell", value_name = "SHELL")]
    pub dialect: Option<DialectWord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StateWord {
    Running,
    Stopped,
    Exited,
    Signaled,
    Lost,
}

impl From<StateWord> for State {
    fn from(word: StateWord) -> Self {
        match word {
            StateWord::Running => Self::Running,
            StateWord::Stopped => Self::Stopped,
            StateWord::Exited => Self::Exited,
            StateWord::Signaled => Self::Signaled,
            StateWord::Lost => Self::Lost,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DialectWord {
    Bash,
    #[value(aliases = ["sh", "dash", "ash", "ksh", "mksh"])]
    Posix,
    Zsh,
}

/// `TERM`, `sigterm`, `15`.
fn signal(text: &str) -> Result<i32, String> {
    let wrong = || "not a signal such as TERM, INT or 15".to_owned();
    if let Ok(number) = text.parse::<i32>() {
        return if (1..=64).contains(&number) {
            Ok(number)
        } else {
            Err(wrong())
        };
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    format!("SIG{name}")
        .parse::<nix::sys::signal::Signal>()
        .map(|signal| signal as i32)
        .map_err(|_| wrong())
}

/// A regular expression that can be used.
fn pattern(text: &str) -> Result<String, String> {
    match regex::Regex::new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => {
            let lines = error.to_string();
            Err(lines
                .lines()
                .last()
                .unwrap_or("cannot be read")
                .trim()
                .to_owned())
        }
    }
}

/// A name must not look like an option, hide another job, or upset a terminal.
fn name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if text == "last" {
        Err("'last' always means the newest job".to_owned())
    } else if text.is_empty()
        || text.len() > 64
        || text.starts_with('-')
        || !text.bytes().all(plain)
    {
        Err("a name is at most 64 letters, digits, dots, dashes or underscores".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn clap_finds_no_contradiction() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_is_known_and_has_an_example() {
        let command = Cli::command();
        let mut named: Vec<_> = command
            .get_subcommands()
            .map(|sub| sub.get_name())
            .collect();
        named.push("help");
        assert_eq!(named, crate::invocation::VERBS);
        for sub in command.get_subcommands() {
            let help = sub.get_after_help().unwrap().to_string();
            let example = format!("agent-sh {}", sub.get_name());
            assert!(help.contains(&example), "{help}");
            assert!(help.contains("Exit codes:"), "{help}");
        }
    }

    #[test]
    fn signals() {
        for (text, number) in [
            ("TERM", 15),
            ("SIGTERM", 15),
            ("int", 2),
            ("9", 9),
            ("64", 64),
        ] {
            assert_eq!(signal(text), Ok(number), "{text}");
        }
        for text in ["", "0", "65", "-9", "SIG", "TERMINATE"] {
            assert!(signal(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names() {
        for good in ["web", "a.b-c_9", "7f3k"] {
            assert!(name(good).is_ok(), "{good}");
        }
        for bad in ["", "last", "-x", "a b", "a/b", "é", "\u{1b}[2J"] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn words_after_run_belong_to_the_command() {
        let words = ["agent-sh", "run", "--name", "x", "make", "--name", "-j2"];
        let Verb::Run(run) = Cli::try_parse_from(words).unwrap().verb else {
            panic!("not run")
        };
        assert_eq!(run.name.as_deref(), Some("x"));
        assert_eq!(run.command, ["make", "--name", "-j2"]);
    }
}

//! The command line of the verbs: clap types and their help, nothing else.
//!
//! `-c` and the other forms of a shell are told apart before any of this is built.

mod entrypoint;
mod notify;
mod seat;
mod setup;
mod tools;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use regex::Regex;

pub use entrypoint::Entrypoint;
pub use notify::*;
pub use seat::{Attach, Send, Top};
pub use setup::{ClaudeCode, Codex, Gemini, Hook, How, Opencode, Setup, SetupWhat, Shims};
pub use tools::*;
pub use values::signal;

use crate::job::State;
use crate::settings;
use values::{count, name, port, regex, subscriber};

const OVERVIEW: &str = "\
A job is background work: 'cmd &', 'nohup cmd &', 'cmd & disown', 'setsid cmd &', a daemon, or 'agent-sh run'.
It outlives the call that started it, keeps its output, and ends in one record: exited, signaled or lost.
ID is a job's id, any unique beginning of it, its name, or 'last'.

Called with what a shell takes (-c COMMAND, a script, nothing), agent-sh is that shell; one argument that is no verb
is a command for it too, because some harnesses pass the whole command so.

Example:
  agent-sh -c 'cargo build &'   returns at once and names the job, say 7f3k
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
    Send(Send),
    Attach(Attach),
    Top(Top),
    Notify(Notify),
    Events(Events),
    Gc(Gc),
    Parse(Parse),
    Entrypoint(Entrypoint),
    Setup(Setup),
    Hook(Hook),
    Doctor(Doctor),
    Init(Init),
    Completions(Completions),
    Man(Man),
}

/// Start a job outright
#[derive(Debug, Args)]
#[command(after_help = "\
One argument with blanks in it is text for the real shell; several words are a program and its arguments.
The job's id is printed. With -i it can be typed at ('agent-sh send', 'agent-sh attach'); with -i --wait at a terminal \
it is attached to at once, and Ctrl-] detaches. A signal to --wait ends the waiting, not the job. With --wait a pipe or a file \
as stdin is the job's; else it has none. A name means the newest running job that has it, else the newest.

Example:
  agent-sh run --name web -- npm run dev
  agent-sh run --wait --timeout 10m 'make clean && make'
  agent-sh run -i -- python3

Exit codes: 0 started; with --wait the job's own, 128+n after signal n, 124 when --timeout or --idle-timeout \
ended it; \
126 or 127 when the program cannot be started, 2 wrong usage, 125 agent-sh failed.")]
pub struct Run {
    /// Give the job its terminal as stdin, so that it can be interactive
    #[arg(short, long)]
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
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration)]
    pub timeout: Option<Duration>,
    /// End it when it has written nothing to its terminal for this time
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration)]
    pub idle_timeout: Option<Duration>,
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
--watch refreshes in place until Ctrl-C; where there is no terminal it prints the list again whenever it changed.
--json prints an array of objects with: id name state exit_code signal pid command how session harness cwd \
started_at ended_at duration_ms transcript redirected_to redirected_stderr bytes_total degraded.

Example:
  agent-sh ps
  agent-sh ps --all --state exited --state lost --json
  agent-sh ps --watch

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
    /// Stay and show changes
    #[arg(short, long)]
    pub watch: bool,
    /// Print ids only, one a line
    #[arg(short, long, conflicts_with_all = ["json", "watch"])]
    pub quiet: bool,
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
Clean text, as a person would have seen it: no escape sequences, progress bars as they stood last, nothing of \
full-screen programs. If a stream was redirected to a file, that file is shown, and stderr says so; --stderr shows \
that of stderr alone.
--json prints {\"line\":TEXT} for each line, and {\"left_out\":BYTES} where the middle of a long output was not kept.

Example:
  agent-sh logs 7f3k -n 50
  agent-sh logs 7f3k --since 5m --grep 'error|warning'
  agent-sh logs 7f3k -f             follows until the job ends
  agent-sh logs 7f3k --screen       the screen of a full-screen program
  agent-sh logs 7f3k --cast > a.cast; asciinema play a.cast

Exit codes: 0 shown, 2 wrong usage, 125 no such job or no output to be found.")]
pub struct Logs {
    /// Id, unique beginning of one, name, or 'last'
    #[arg(value_name = "ID")]
    pub job: String,
    /// Only the last N lines
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = count, conflicts_with_all = ["screen", "cast"])]
    pub lines: Option<usize>,
    /// Go on printing until the job ends
    #[arg(short, long, conflicts_with_all = ["screen", "cast"])]
    pub follow: bool,
    /// Only what was written in the last 90s, 10m, 2h
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration, conflicts_with_all = ["screen", "cast"])]
    pub since: Option<Duration>,
    /// Only lines that match this regular expression
    #[arg(long, value_name = "RE", value_parser = regex, conflicts_with_all = ["raw", "screen", "cast"])]
    pub grep: Option<Regex>,
    /// The bytes as the job wrote them, escape sequences included
    #[arg(long, conflicts_with_all = ["screen", "cast", "json"])]
    pub raw: bool,
    /// Only the file that its stderr was sent to, where that is one of its own
    #[arg(long, conflicts_with_all = ["screen", "cast"])]
    pub stderr: bool,
    /// What stands on the job's screen now
    #[arg(long, conflicts_with = "cast")]
    pub screen: bool,
    /// The output with its times, as asciicast v2
    #[arg(long, conflicts_with = "json")]
    pub cast: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// Block until jobs have ended, or until one writes, listens or is silent
#[derive(Debug, Args)]
#[command(after_help = "\
Without an ID: the running jobs of the caller's session (of every session if the caller has none), and those of it that \
ended and that no 'wait' has reported yet; with --for-output, --for-port or --idle only those that run.
One line per job is printed when it ends; with --json its record, one a line.
--for-output looks at all lines since the job's start, as clean text, a prompt without a newline included. \
--for-port waits until a process of the job itself listens on that TCP port.

Example:
  agent-sh wait 7f3k && echo built
  agent-sh wait 7f3k 9m2p --any --timeout 10m
  agent-sh wait web --for-port 3000 --timeout 60s
  agent-sh wait web --for-output 'ready in|error'
  agent-sh wait 7f3k --idle 30s
  agent-sh wait 7f3k --notify dir:/home/you/events
  agent-sh wait --follow --notify stdout

With --notify the end is also delivered to sinks ('agent-sh notify add --help' lists them), and the verb ends \
once that is done. What could not be delivered stays pending for the next agent-sh that runs.

Exit codes: the job's own, 128+n after signal n, 125 when it is lost or unknown; of several jobs the first that \
is not 0, in the order given; with --any that of the first to end. With --for-output, --for-port, --idle: 0 when \
it happened, 1 when the job ended without it. 124 when --timeout is over; 125 when a delivery was given up; \
2 wrong usage.")]
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
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration)]
    pub timeout: Option<Duration>,
    /// Until a line of output matches this regular expression
    #[arg(long, value_name = "RE", value_parser = regex, conflicts_with_all = ["for_port", "idle"])]
    pub for_output: Option<Regex>,
    /// Until the job listens on this TCP port
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = port, conflicts_with = "idle")]
    pub for_port: Option<u16>,
    /// Until the job has written nothing for this time
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration)]
    pub idle: Option<Duration>,
    /// Print records as JSON, one a line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub tell: WaitTell,
}

impl Wait {
    /// Something else than the end is waited for.
    #[must_use]
    pub fn has_condition(&self) -> bool {
        self.for_output.is_some() || self.for_port.is_some() || self.idle.is_some()
    }
}

/// End jobs: TERM, then KILL, to the whole process tree
#[derive(Debug, Args)]
#[command(after_help = "\
Says how each job ended, also when it had ended before. TERM, INT, QUIT, ABRT are followed by KILL when the \
grace is over. Other signals (HUP, USR1, STOP, CONT …) are sent once, and nothing follows. The record says that \
agent-sh asked. -9, -KILL and the like work as with kill.

Example:
  agent-sh kill 7f3k
  agent-sh kill web db -s INT --grace 30s
  agent-sh kill --session \"$AGENT_SH_SESSION\"      all that run in it

Exit codes: 0 all of them are gone (or the signal was sent), 1 one is still there, 2 wrong usage, 125 no such job \
or agent-sh failed.")]
pub struct Kill {
    /// Ids, unique beginnings of one, names, or 'last'
    #[arg(value_name = "ID", required_unless_present = "session")]
    pub jobs: Vec<String>,
    /// All running jobs of this session; with IDs: where 'last' and names are looked for
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// The first signal: TERM, SIGTERM or 15
    #[arg(short, long, value_name = "SIGNAL", default_value = "TERM", value_parser = signal)]
    pub signal: i32,
    /// How long the job may take to end before KILL
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, default_value = "5s", value_parser = settings::duration)]
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
    fn words_after_run_belong_to_the_command() {
        let words = ["agent-sh", "run", "--name", "x", "make", "--name", "-j2"];
        let Verb::Run(run) = Cli::try_parse_from(words).unwrap().verb else {
            panic!("not run")
        };
        assert_eq!(run.name.as_deref(), Some("x"));
        assert_eq!(run.command, ["make", "--name", "-j2"]);
    }
}

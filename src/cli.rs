//! The command line of the verbs: clap types and their help, nothing else.
//!
//! `-c` and the other forms of a shell are told apart before any of this is built.

mod entrypoint;
mod fleet;
mod mcp;
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
pub use fleet::Fleet;
pub use mcp::Mcp;
pub use notify::*;
pub use seat::{Attach, Send, Top};
pub use setup::{ClaudeCode, Codex, Gemini, Hook, How, Opencode, Setup, SetupWhat, Shims};
pub use tools::*;
pub use values::signal;

use crate::job::State;
use crate::settings;
use values::{count, limit, name, port, regex, subscriber};

const OVERVIEW: &str = "\
A job is background work: 'cmd &', 'nohup cmd &', 'cmd & disown', 'setsid cmd &', a daemon, or 'agent-sh run'.
It outlives the call that started it, keeps its output, and ends in one record: exited, signaled or lost.
ID is a job's id, any unique prefix of it, its name, or 'last'.

Called with shell arguments (-c COMMAND, a script, nothing), agent-sh acts as that shell. A single argument that is no verb
is run as a command, because some harnesses pass the whole command that way.

Example:
  agent-sh -c 'cargo build &'   returns at once and names the job, say 7f3k
  agent-sh wait 7f3k            blocks until it ends, exits with its exit code
  agent-sh logs 7f3k            prints its output

Exit codes: 0 success, 1 condition not met, 2 wrong usage, 124 timed out, 125 agent-sh failed, else the job's own.";

#[derive(Debug, Parser)]
#[command(
    name = "agent-sh",
    bin_name = "agent-sh",
    version,
    about = "A drop-in shell for coding agents: background work outlives the call and leaves a record",
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
    Mcp(Mcp),
}

/// Start a job
#[derive(Debug, Args)]
#[command(after_help = "\
A single argument with spaces is a command for the real shell; several words are a program and its arguments.
Prints the job's id. With -i the job accepts input ('agent-sh send', 'agent-sh attach'); with -i --wait at a terminal \
you are attached at once, and Ctrl-] detaches. A signal to --wait ends the waiting, not the job. With --wait, a pipe or file \
as stdin is passed to the job; otherwise its stdin is /dev/null. A name refers to the newest running job that has it, else the newest.

Example:
  agent-sh run --name web -- npm run dev
  agent-sh run --wait --timeout 10m 'make clean && make'
  agent-sh run -i -- python3

Exit codes: 0 started; with --wait the job's own, 128+n after signal n, 124 when --timeout or --idle-timeout \
expired; 126 or 127 when the program cannot be started, 2 wrong usage, 125 agent-sh failed.")]
pub struct Run {
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

/// List jobs: running, and ended in the last hour
#[derive(Debug, Args)]
#[command(after_help = "\
Within a session (an agent's conversation) lists the jobs of that session, otherwise all. Newest last.
TIME is how long a job has run, or ran. EXIT is its exit code, or the signal that ended it.
--watch refreshes in place until Ctrl-C; without a terminal it prints the list again whenever it changes.
--json prints an array of objects with: id name state exit_code signal pid command how session harness cwd \
started_at ended_at duration_ms transcript redirected_to redirected_stderr bytes_total degraded.

Example:
  agent-sh ps
  agent-sh ps --all --state exited --state lost --json
  agent-sh ps --watch
  agent-sh ps --from nats://127.0.0.1/JOBS

Exit codes: 0 success, even if there are no jobs, 2 wrong usage, 125 agent-sh failed.")]
pub struct Ps {
    /// All jobs that are kept, no matter when they ended
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
    /// Keep running and show changes
    #[arg(short, long)]
    pub watch: bool,
    /// Print only ids, one per line
    #[arg(short, long, conflicts_with_all = ["json", "watch"])]
    pub quiet: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub fleet: Fleet,
}

/// Show everything known about a job
#[derive(Debug, Args)]
#[command(after_help = "\
--json prints the record (a CloudEvent, 'type' dev.agent-sh.job.exited.v1) of a job that has ended. For a running \
job it prints the object of 'ps --json' with one more key, 'launch': the facts recorded at its start.

Example:
  agent-sh show 7f3k
  agent-sh show last --json

Exit codes: 0 success, 2 wrong usage, 125 no such job.")]
pub struct Show {
    /// Id, unique prefix of an id, name, or 'last'
    #[arg(value_name = "ID")]
    pub job: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub fleet: Fleet,
}

/// Print a job's output
#[derive(Debug, Args)]
#[command(after_help = "\
Prints clean text, as a person would have seen it: no escape sequences, progress bars in their last state, nothing of \
full-screen programs. If a stream was redirected to a file, prints that file and says so on stderr; --stderr prints \
only stderr's own file.
--cursor reads in portions: 'cursor: C', the last line of stderr, is where the next call begins. With --limit a \
portion is bounded, and what is left comes with the next one.
--json prints {\"line\":TEXT} for each line, and {\"left_out\":BYTES} where the middle of a long output was not kept; \
with --cursor a line that is not complete has \"unfinished\":true, its rest \"continued\":true (or, written anew, \"redrawn\":true), and the last object is {\"cursor\":C,\"more\":BOOL}.

Example:
  agent-sh logs 7f3k -n 50
  agent-sh logs 7f3k --since 5m --grep 'error|warning'
  agent-sh logs 7f3k -f             follow until the job ends
  agent-sh logs 7f3k --cursor 0     all so far, and a cursor for the rest
  agent-sh logs 7f3k --screen       the screen of a full-screen program
  agent-sh logs 7f3k --cast > a.cast; asciinema play a.cast

Exit codes: 0 success, 2 wrong usage, 125 no such job, or its output cannot be found.")]
pub struct Logs {
    /// Id, unique prefix of an id, name, or 'last'
    #[arg(value_name = "ID")]
    pub job: String,
    /// Only the last N lines
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = count, conflicts_with_all = ["screen", "cast"])]
    pub lines: Option<usize>,
    /// Follow the output until the job ends
    #[arg(short, long, conflicts_with_all = ["screen", "cast"])]
    pub follow: bool,
    /// Only what was written in the last 90s, 10m, 2h
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration, conflicts_with_all = ["screen", "cast"])]
    pub since: Option<Duration>,
    /// Only what was written after this cursor, and print the next one; '0' is the beginning
    #[arg(long, value_name = "C", allow_hyphen_values = true, conflicts_with_all = ["since", "screen", "cast"])]
    pub cursor: Option<String>,
    /// At most this much from the cursor on, in whole lines: 64K, 1M
    #[arg(long, value_name = "SIZE", value_parser = limit, requires = "cursor", conflicts_with = "follow")]
    pub limit: Option<u64>,
    /// Only lines that match this regular expression
    #[arg(long, value_name = "RE", value_parser = regex, conflicts_with_all = ["raw", "screen", "cast"])]
    pub grep: Option<Regex>,
    /// The bytes as the job wrote them, with escape sequences
    #[arg(long, conflicts_with_all = ["screen", "cast", "json"])]
    pub raw: bool,
    /// Only the file that stderr was redirected to
    #[arg(long, conflicts_with_all = ["screen", "cast"])]
    pub stderr: bool,
    /// The job's current screen
    #[arg(long, conflicts_with = "cast")]
    pub screen: bool,
    /// The output with timestamps, as asciicast v2
    #[arg(long, conflicts_with = "json")]
    pub cast: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    pub json: bool,
}

/// Wait until jobs end, or until one writes, listens or goes quiet
#[derive(Debug, Args)]
#[command(after_help = "\
Without an ID: the running jobs of the caller's session (of every session if the caller has none), and its jobs that have \
ended and that no 'wait' has reported yet; with --for-output, --for-port or --idle only running jobs.
Prints one line per job when it ends; with --json its record, one per line.
--for-output matches all lines since the job's start, as clean text, including a prompt without a newline. \
--for-port waits until a process of the job listens on that TCP port.

Example:
  agent-sh wait 7f3k && echo built
  agent-sh wait 7f3k 9m2p --any --timeout 10m
  agent-sh wait web --for-port 3000 --timeout 60s
  agent-sh wait web --for-output 'ready in|error'
  agent-sh wait 7f3k --idle 30s
  agent-sh wait 7f3k --notify dir:/home/you/events
  agent-sh wait --follow --notify stdout
  agent-sh wait 7f3k --from nats://127.0.0.1/JOBS
  agent-sh wait --follow --from nats://127.0.0.1/JOBS --group wakers --notify exec:/usr/local/bin/wake

With --notify the end is also delivered to sinks ('agent-sh notify add --help' lists them) before this command exits. \
A notification that cannot be delivered stays pending for the next agent-sh that runs.

Exit codes: the job's own, 128+n after signal n, 125 when it is lost or unknown; of several jobs the first that \
is not 0, in the order given; with --any that of the first to end. With --for-output, --for-port, --idle: 0 when \
the condition was met, 1 when the job ended before. 124 when --timeout expired; 125 when a delivery was given up; \
2 wrong usage.")]
pub struct Wait {
    /// Ids, unique prefixes of ids, names, or 'last'
    #[arg(value_name = "ID")]
    pub jobs: Vec<String>,
    /// Wait until the first of them ends
    #[arg(long)]
    pub any: bool,
    /// Wait until all of them have ended (the default)
    #[arg(long, conflicts_with = "any")]
    pub all: bool,
    /// Give up after this time: 90, 90s, 10m, 2h. The jobs keep running
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration)]
    pub timeout: Option<Duration>,
    /// Wait until a line of output matches this regular expression
    #[arg(long, value_name = "RE", value_parser = regex, conflicts_with_all = ["for_port", "idle"])]
    pub for_output: Option<Regex>,
    /// Wait until the job listens on this TCP port
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = port, conflicts_with = "idle")]
    pub for_port: Option<u16>,
    /// Wait until the job has written nothing for this time
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = settings::duration)]
    pub idle: Option<Duration>,
    /// Print records as JSON, one per line
    #[arg(long)]
    pub json: bool,
    /// Wait for jobs of other machines, as this stream tells: nats://HOST/STREAM, redis://HOST/DB/STREAM
    #[arg(long, value_name = "URL")]
    pub from: Option<String>,
    /// With --follow --from: the name under which any number of readers share the ends
    #[arg(long, value_name = "NAME", value_parser = subscriber, requires_all = ["from", "follow"])]
    pub group: Option<String>,
    #[command(flatten)]
    pub tell: WaitTell,
}

impl Wait {
    /// Where the jobs of other machines are read from.
    #[must_use]
    pub fn fleet(&self) -> Fleet {
        Fleet {
            from: self.from.clone(),
            creds_file: self.tell.web.creds_file.clone(),
            password_file: self.tell.web.password_file.clone(),
            allow_private: self.tell.web.allow_private,
        }
    }

    /// Something else than the end is waited for.
    #[must_use]
    pub fn has_condition(&self) -> bool {
        self.for_output.is_some() || self.for_port.is_some() || self.idle.is_some()
    }
}

/// Stop jobs: TERM, then KILL, to the whole process tree
#[derive(Debug, Args)]
#[command(after_help = "\
Says how each job ended, even if it had ended before. TERM, INT, QUIT and ABRT are followed by KILL after the \
grace period. Other signals (HUP, USR1, STOP, CONT …) are sent once. The record says that agent-sh asked. \
-9, -KILL and so on work as with kill.

Example:
  agent-sh kill 7f3k
  agent-sh kill web db -s INT --grace 30s
  agent-sh kill --session \"$AGENT_SH_SESSION\"      all running jobs of the session

Exit codes: 0 all of them have ended (or the signal was sent), 1 something is still running, 2 wrong usage, 125 no such \
job or agent-sh failed.")]
pub struct Kill {
    /// Ids, unique prefixes of ids, names, or 'last'
    #[arg(value_name = "ID", required_unless_present = "session")]
    pub jobs: Vec<String>,
    /// All running jobs of this session; with IDs: the session that 'last' and names refer to
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// The first signal: TERM, SIGTERM or 15
    #[arg(short, long, value_name = "SIGNAL", default_value = "TERM", value_parser = signal)]
    pub signal: i32,
    /// How long the job may take to end before it gets KILL
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, default_value = "5s", value_parser = settings::duration)]
    pub grace: Duration,
    /// Print records as JSON, one per line
    #[arg(long)]
    pub json: bool,
}

/// Show which parts of a command (on stdin) would become jobs
#[derive(Debug, Args)]
#[command(after_help = "\
--json prints {\"ok\":BOOL,\"amps\":[OFFSET…],\"jobs\":[{\"start\":,\"end\":,\"how\":,\"attended\":}],\"why\":null|TEXT}; \
offsets are in bytes. An attended job is one that the command itself waits for; it is left to the shell.

Example:
  echo 'make & sleep 1' | agent-sh parse --json

Exit codes: 0 success, even if the text cannot be parsed ('ok' is then false), 2 wrong usage.")]
pub struct Parse {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Whose syntax to use [default: that of $AGENT_SH_SHELL, else bash]
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

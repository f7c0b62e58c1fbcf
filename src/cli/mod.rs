//! The verbs: what people, agents and programs ask about jobs. One file or folder each, with its
//! arguments and what it does.
//!
//! Data goes to stdout, talk to stderr, both through `message`. A verb gives its exit code, or an
//! error that `main` prints. Verbs read the store and signal processes; they never write a record.
//! `-c` and the other forms of a shell are told apart before any of this is built.

mod ci;
mod completions;
mod doctor;
mod entrypoint;
mod events;
mod fleet;
mod format;
mod gc;
mod hook;
mod init;
mod kill;
mod logs;
mod man;
mod mcp;
mod misuse;
mod notify;
mod parse;
mod ps;
mod restart;
mod rm;
mod run;
mod setup;
mod show;
mod terminal;
mod values;
mod wait;

use std::ffi::OsString;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::context::{Context, Hooks};
use crate::error::{Error, Result};
use crate::job::How;
use crate::message;
use crate::store::{JobView, Summary, Waited};
use crate::sys::fds;
use format::Row;
pub(crate) use misuse::{after_bare_word, unknown};
use terminal::{attach, send, top};

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
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Run),
    Ps(ps::Ps),
    Show(show::Show),
    Logs(logs::Logs),
    Wait(wait::Wait),
    Kill(kill::Kill),
    Restart(restart::Restart),
    Rm(rm::Rm),
    Send(send::Send),
    Attach(attach::Attach),
    Top(top::TopArgs),
    Notify(notify::Notify),
    Events(events::Events),
    Gc(gc::Gc),
    Parse(parse::Parse),
    Ci(ci::Ci),
    Entrypoint(entrypoint::Entrypoint),
    Setup(setup::Setup),
    Hook(hook::Hook),
    Doctor(doctor::Doctor),
    Init(init::Init),
    Completions(completions::Completions),
    Man(man::Man),
    Mcp(mcp::Mcp),
}

/// Runs a verb: the arguments with the program's name first. Gives the exit code.
#[must_use]
pub(crate) fn main(args: Vec<OsString>, hooks: Hooks) -> u8 {
    // No descriptor of ours may take the number of a stream that is closed.
    message::note_closed_stdout(fds::kind(1) == fds::Kind::Closed);
    fds::fill_closed_streams();
    let verb = args.get(1).map(|word| word.to_string_lossy().into_owned());
    let args = match verb.as_deref() {
        Some("kill") => kill::readable(args),
        _ => args,
    };
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return told(misuse::explain(&error, verb.as_deref())),
    };
    told(dispatch(cli.verb, hooks))
}

fn told(result: Result<u8>) -> u8 {
    result.unwrap_or_else(|error| message::error(&error))
}

fn dispatch(verb: Verb, hooks: Hooks) -> Result<u8> {
    // These work, or explain what is wrong, whatever the settings say.
    let context = match verb {
        Verb::Doctor(_) | Verb::Completions(_) | Verb::Man(_) => Context::read_leniently(hooks),
        Verb::Hook(_) => match Context::read(hooks) {
            Ok(context) => context,
            Err(error) => {
                // It must not break a session.
                message::error(&error);
                return Ok(0);
            }
        },
        _ => Context::read(hooks)?,
    };
    if !matches!(verb, Verb::Run(_) | Verb::Restart(_) | Verb::Mcp(_)) {
        // A file that must not grow is an error to be told. What `run` starts keeps the caller's mask.
        crate::sys::signal::block(&[libc::SIGXFSZ]);
    }
    let is_about_jobs = !matches!(
        verb,
        Verb::Run(_)
            | Verb::Parse(_)
            | Verb::Entrypoint(_)
            | Verb::Setup(_)
            | Verb::Hook(_)
            | Verb::Init(_)
            | Verb::Doctor(_)
            | Verb::Completions(_)
            | Verb::Man(_)
    );
    if is_about_jobs {
        // What stayed behind is delivered by whoever comes next; that is us.
        crate::notify::start::nudge(&context.stores());
    }
    match verb {
        Verb::Hook(hook) => Ok(hook::hook(&context, &hook)),
        Verb::Run(run) => run::run(&context, run),
        Verb::Parse(parse) => parse::parse(&context, &parse),
        Verb::Ci(ci) => ci::ci(&context, &ci),
        // Taken care of before clap; only its help leads here.
        Verb::Entrypoint(_) => Ok(0),
        Verb::Setup(setup) => setup::setup(&context, &setup),
        Verb::Ps(ps) if ps.fleet.from.is_some() => fleet::ps(&context, &ps),
        Verb::Show(show) if show.fleet.from.is_some() => fleet::show(&context, &show),
        Verb::Events(events) if events.fleet.from.is_some() => fleet::events(&events),
        Verb::Top(top) if top.fleet.from.is_some() => fleet::top(&context, &top.fleet),
        Verb::Wait(wait) if wait.from.is_some() => fleet::wait(&wait),
        Verb::Ps(ps) => ps::ps(&context, &ps),
        Verb::Show(show) => show::show(&context, &show),
        Verb::Logs(logs) => logs::logs(&context, &logs),
        Verb::Notify(notify) => notify::notify(&context, &notify),
        Verb::Wait(wait) => wait::wait(&context, &wait),
        Verb::Kill(kill) => kill::kill(&context, &kill),
        Verb::Restart(restart) => restart::restart(&context, &restart),
        Verb::Rm(rm) => rm::rm(&context, &rm),
        Verb::Events(events) => events::events(&context, &events),
        Verb::Gc(gc) => gc::gc(&context, &gc),
        Verb::Init(init) => init::init(&context, &init),
        Verb::Send(send) => send::send(&context, &send),
        Verb::Attach(attach) => attach::attach(&context, &attach),
        Verb::Top(_) => top::top(&context),
        Verb::Doctor(doctor) => doctor::doctor(&context, &doctor),
        Verb::Completions(completions) => completions::completions(&completions),
        Verb::Man(man) => man::man(&man),
        Verb::Mcp(mcp) => mcp::mcp(context, mcp),
    }
}

/// The job at its end, from a wait without a deadline.
pub(crate) fn ended(job: &JobView, waited: Waited) -> Result<JobView> {
    match waited {
        Waited::Ended(ended) => Ok(*ended),
        Waited::Gone | Waited::TimedOut => Err(Error::Failed {
            text: format!(
                "job '{}' was removed while it was waited for",
                job.launch.id
            ),
            hint: None,
        }),
    }
}

/// What people are shown of a job.
pub(crate) fn row(job: &JobView) -> Row {
    row_of(&job.summary())
}

/// The same of a job in a list.
pub(crate) fn row_of(job: &Summary) -> Row {
    Row {
        unsupervised: job.is_unsupervised(),
        id: job.id.to_string(),
        name: job.name.clone(),
        state: job.state,
        took: job.duration_ms.map(Duration::from_millis),
        exit_code: job.exit_code,
        signal: job.signal,
        reason: job.reason.map(|reason| reason.word().to_owned()),
        how: job.how.unwrap_or(How::Stray),
        session: job.session.clone(),
        command: job.command.clone().unwrap_or_default(),
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
    fn words_after_run_belong_to_the_command() {
        let words = ["agent-sh", "run", "--name", "x", "make", "--name", "-j2"];
        let Verb::Run(run) = Cli::try_parse_from(words).unwrap().verb else {
            panic!("not run")
        };
        assert_eq!(run.name.as_deref(), Some("x"));
        assert_eq!(run.command, ["make", "--name", "-j2"]);
    }
}

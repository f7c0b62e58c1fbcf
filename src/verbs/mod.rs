//! The verbs: what people, agents and programs ask about jobs. One file each.
//!
//! Data goes to stdout, talk to stderr, both through `message`. A verb gives its exit code, or an
//! error that `main` tells. Verbs read the store and signal processes; they never write a record.

mod attach;
mod completions;
mod doctor;
mod events;
mod format;
mod gc;
mod hook;
mod init;
mod keys;
mod kill;
mod live;
mod logs;
mod man;
mod notify;
mod output;
mod parse;
mod ps;
pub mod run;
mod send;
mod setup;
mod show;
mod terminal;
mod top;
mod typing;
mod wait;
mod wait_follow;
mod wait_notify;
mod watch;
mod watcher;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::{Cli, Verb};
use crate::error::{Error, Result};
use crate::invocation::VERBS;
use crate::job::How;
use crate::message;
use crate::settings::{self, Settings};
use crate::store::{self, JobView, Store, Summary, Waited};
use format::Row;
use run::RunRequest;

/// What the verbs need from other roles, which they may not import.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// Starts a job, and gives the exit code of the verb and what it prints.
    pub run: fn(RunRequest) -> Result<(u8, Vec<u8>)>,
    /// The session of the caller: from the settings, the environment, or the harness above us.
    pub session: fn(&Settings) -> Option<String>,
}

/// Runs a verb: the arguments with the program's name first. Gives the exit code.
#[must_use]
pub fn main(args: Vec<OsString>, hooks: Hooks) -> u8 {
    let verb = args.get(1).map(|word| word.to_string_lossy().into_owned());
    let args = match verb.as_deref() {
        Some("kill") => kill::readable(args),
        _ => args,
    };
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return told(misuse(&error, verb.as_deref())),
    };
    told(dispatch(cli.verb, hooks))
}

/// Answers a first word that is no verb.
#[must_use]
pub fn unknown(word: &OsStr) -> u8 {
    let word = word.to_string_lossy();
    let hint = match nearest(&word) {
        Some(verb) => format!("did you mean '{verb}'? 'agent-sh help' lists the verbs"),
        None => "'agent-sh help' lists the verbs, 'agent-sh -c COMMAND' runs a command".to_owned(),
    };
    message::error(&Error::Usage {
        text: format!("no verb '{word}'"),
        hint: Some(hint),
    })
}

/// Words for which a person or a model may look in vain, and what they are called here.
const OTHER_WORDS: [(&str, &str); 14] = [
    ("jobs", "ps"),
    ("list", "ps"),
    ("status", "ps"),
    ("info", "show"),
    ("inspect", "show"),
    ("describe", "show"),
    ("output", "logs"),
    ("tail", "logs"),
    ("follow", "logs"),
    ("stop", "kill"),
    ("cancel", "kill"),
    ("start", "run"),
    ("clean", "gc"),
    ("version", "--version"),
];

/// One word that is no verb was run as a command, because harnesses pass whole commands like that. If
/// the shell found no such command, a verb was meant. What a shell knows is never commented on, but
/// for `jobs` at a terminal: there no harness calls.
pub fn after_bare_word(word: &OsStr, code: u8) {
    let word = word.to_string_lossy();
    let other = OTHER_WORDS.iter().find(|(other, _)| *other == word);
    let meant = other.map(|(_, verb)| *verb).or_else(|| nearest(&word));
    let at_terminal = word == "jobs" && message::is_terminal();
    if let Some(verb) = meant.filter(|_| code == 127 || at_terminal) {
        let text = if code == 127 {
            format!("'{word}' is no verb either")
        } else {
            format!("'{word}' is no verb; the shell's own was run")
        };
        message::say_with_hint(
            text,
            format!("did you mean 'agent-sh {verb}'? 'agent-sh help' lists the verbs"),
        );
    }
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
    let is_about_jobs = !matches!(
        verb,
        Verb::Run(_)
            | Verb::Parse(_)
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
        Verb::Setup(setup) => setup::setup(&context, &setup),
        Verb::Ps(ps) => ps::ps(&context, &ps),
        Verb::Show(show) => show::show(&context, &show),
        Verb::Logs(logs) => logs::logs(&context, &logs),
        Verb::Notify(notify) => notify::notify(&context, &notify),
        Verb::Wait(wait) if wait_notify::is_meant(&wait) => wait_notify::wait(&context, &wait),
        Verb::Wait(wait) => wait::wait(&context, &wait),
        Verb::Kill(kill) => kill::kill(&context, &kill),
        Verb::Events(events) => events::events(&context, &events),
        Verb::Gc(gc) => gc::gc(&context, &gc),
        Verb::Init(init) => init::init(&context, &init),
        Verb::Send(send) => send::send(&context, &send),
        Verb::Attach(attach) => attach::attach(&context, &attach),
        Verb::Top(_) => top::top(&context),
        Verb::Doctor(doctor) => doctor::doctor(&context, &doctor),
        Verb::Completions(completions) => completions::completions(&completions),
        Verb::Man(man) => man::man(&man),
    }
}

/// What every verb may ask: the settings, the session, the jobs.
pub(crate) struct Context {
    settings: Settings,
    hooks: Hooks,
}

impl Context {
    fn read(hooks: Hooks) -> Result<Self> {
        let env = |name: &str| std::env::var_os(name);
        let file = settings::config_path(env);
        let config = match &file {
            None => None,
            Some(path) => match std::fs::read_to_string(path) {
                Ok(text) => Some(text),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(source) => return Err(Error::io("read", path, source)),
            },
        };
        let settings = Settings::read(env, config.as_deref());
        settings.check(file.as_deref())?;
        // Jobs went elsewhere then, and so do we; but whoever named the directory should know.
        if let Some((path, why)) = Store::refusal(&settings) {
            message::say_with_hint(
                format!("cannot use the state directory '{}': {why}", path.display()),
                "other places are looked at; 'agent-sh doctor' says which is used",
            );
        }
        Ok(Self { settings, hooks })
    }

    /// For the verb that explains what is wrong: a bad value is no reason to stop.
    fn read_leniently(hooks: Hooks) -> Self {
        let env = |name: &str| std::env::var_os(name);
        let text = settings::config_path(env).and_then(|path| std::fs::read_to_string(path).ok());
        let settings = Settings::read(env, text.as_deref());
        Self { settings, hooks }
    }

    pub(crate) fn env(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    /// The caller's session: the conversation, where its client has said which one it is having.
    pub(crate) fn session(&self) -> Option<String> {
        let key = (self.hooks.session)(&self.settings)?;
        if !store::is_client_key(&key) {
            return Some(key);
        }
        let stores = self.stores();
        let told = stores.iter().find_map(|store| store.conversation(&key));
        Some(told.unwrap_or(key))
    }

    fn start(&self, request: RunRequest) -> Result<(u8, Vec<u8>)> {
        (self.hooks.run)(request)
    }

    fn stores(&self) -> Vec<Store> {
        Store::readers(&self.settings, |name| self.env(name))
    }

    /// Says how a job ended. If that tells the agent of the job's own session, it is not told again:
    /// once the words are out, not before.
    pub(crate) fn report(&self, job: &JobView, say: impl FnOnce() -> Result<()>) -> Result<()> {
        let ours = job.launch.session.is_some() && self.session() == job.launch.session;
        let claim = if ours { store::told::claim(job) } else { None };
        say()?;
        if let Some(claim) = claim {
            // A marker that cannot be written means a second notice, no failure.
            drop(claim.done());
        }
        Ok(())
    }

    /// Every job that is kept, the newest last.
    pub(crate) fn jobs(&self) -> Result<Vec<JobView>> {
        store::all_jobs(&self.stores())
    }

    /// The rows of all jobs; those that ended longer ago than this may be left out.
    pub(crate) fn rows(&self, ended_within: Option<Duration>) -> Result<Vec<Summary>> {
        store::summaries(&self.stores(), ended_within)
    }

    /// The state directory that new things go to, made if it is missing.
    pub(crate) fn open_store(&self) -> Result<Store> {
        Store::open(&self.settings, |name| self.env(name))
    }

    /// Where directories of jobs appear.
    pub(crate) fn job_dirs(&self) -> Vec<PathBuf> {
        let stores = self.stores();
        stores.iter().map(Store::jobs_path).collect()
    }

    /// The jobs of the caller's session that have not ended; of all sessions if there is none.
    pub(crate) fn running(&self) -> Result<Vec<JobView>> {
        self.running_in(self.session().as_deref())
    }

    pub(crate) fn running_in(&self, session: Option<&str>) -> Result<Vec<JobView>> {
        let mut jobs = store::running_jobs(&self.stores())?;
        jobs.retain(|job| session.is_none() || job.launch.session.as_deref() == session);
        Ok(jobs)
    }

    pub(crate) fn find(&self, wanted: &str) -> Result<JobView> {
        self.find_in(wanted, None)
    }

    /// The same; `last` and names are those of this session, if one is given.
    pub(crate) fn find_in(&self, wanted: &str, session: Option<&str>) -> Result<JobView> {
        let session = session.map(str::to_owned).or_else(|| self.session());
        store::find(&self.stores(), wanted, session.as_deref())
    }

    /// Each job once, in the order given.
    pub(crate) fn find_all(&self, wanted: &[String]) -> Result<Vec<JobView>> {
        let stores = self.stores();
        let session = self.session();
        let mut jobs: Vec<JobView> = Vec::with_capacity(wanted.len());
        for word in wanted {
            let job = store::find(&stores, word, session.as_deref())?;
            if jobs.iter().all(|before| before.dir != job.dir) {
                jobs.push(job);
            }
        }
        Ok(jobs)
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

/// Turns what clap has to say into our words: help and version to stdout, the rest to an error.
fn misuse(error: &clap::Error, verb: Option<&str>) -> Result<u8> {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            return message::out(&text).map(|()| 0);
        }
        ErrorKind::InvalidSubcommand if verb.is_some_and(|verb| verb == "help") => {}
        ErrorKind::InvalidSubcommand if verb.is_some_and(|verb| !VERBS.contains(&verb)) => {
            return Ok(unknown(OsStr::new(verb.unwrap_or_default())));
        }
        _ => {}
    }
    let known = verb.filter(|verb| VERBS.contains(verb));
    let help = match known {
        Some("help") | None => "'agent-sh help' lists the verbs".to_owned(),
        Some(verb) => format!("'agent-sh {verb} --help' shows an example"),
    };
    let suggestion = [ContextKind::SuggestedArg, ContextKind::SuggestedValue]
        .into_iter()
        .find_map(|kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.clone()),
            Some(ContextValue::Strings(texts)) => texts.first().cloned(),
            _ => None,
        });
    let hint = match suggestion {
        Some(other) => format!("did you mean '{other}'? {help}"),
        None => help,
    };
    let text = match (error.kind(), known) {
        (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, Some(verb)) => {
            format!("'agent-sh {verb}' needs more words")
        }
        (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, None) => "no verb".to_owned(),
        _ => plain_text(&text),
    };
    Err(Error::Usage {
        text,
        hint: Some(hint),
    })
}

/// The first paragraph of clap's message on one line, in our style.
fn plain_text(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or(text);
    let words: Vec<&str> = paragraph
        .trim_start_matches("error: ")
        .split_whitespace()
        .collect();
    words.join(" ")
}

/// The verb that was meant, if one is near.
fn nearest(word: &str) -> Option<&'static str> {
    let (distance, verb) = VERBS
        .iter()
        .map(|verb| (distance(word, verb), verb))
        .min()?;
    // Of a short word one letter, of a long one more: 'make' is no misspelt 'man'.
    (distance <= (verb.len() / 3).max(1)).then_some(verb)
}

/// Edits between two words: insert, delete, replace, or swap neighbours, each costs one.
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().take(64).collect();
    let other: Vec<char> = other.chars().collect();
    let mut table = vec![vec![0; other.len() + 1]; one.len() + 1];
    for i in 0..=one.len() {
        for j in 0..=other.len() {
            table[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let differs = usize::from(one[i - 1] != other[j - 1]);
                let mut least = (table[i - 1][j] + 1)
                    .min(table[i][j - 1] + 1)
                    .min(table[i - 1][j - 1] + differs);
                if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                    least = least.min(table[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    table[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_find_their_verb() {
        for (typed, meant) in [
            ("wiat", Some("wait")),
            ("log", Some("logs")),
            ("kil", Some("kill")),
            ("stauts", None),
            ("sp", Some("ps")),
            ("make", None),
            ("evnts", Some("events")),
            ("docter", Some("doctor")),
            ("complete", None),
            ("parser", Some("parse")),
            ("", None),
        ] {
            assert_eq!(nearest(typed), meant, "{typed}");
        }
    }

    #[test]
    fn clap_speaks_our_language() {
        let say = |words: &[&str]| {
            let error = Cli::try_parse_from(words).unwrap_err();
            match misuse(&error, words.get(1).copied()) {
                Err(error) => format!("{error} | {}", error.hint().unwrap_or_default()),
                Ok(code) => format!("code {code}"),
            }
        };
        for (words, wanted) in [
            (
                &["agent-sh", "wait", "--timeut", "5"][..],
                "unexpected argument '--timeut' found | did you mean '--timeout'? 'agent-sh wait --help' shows an example",
            ),
            (
                &["agent-sh", "wait", "--timeout", "soon"],
                "invalid value 'soon' for '--timeout <DURATION>': expected a duration like '100s', '2m' or '1h 30m' | 'agent-sh wait --help' shows an example",
            ),
            (
                &["agent-sh", "show"],
                "the following required arguments were not provided: <ID> | 'agent-sh show --help' shows an example",
            ),
            (
                &["agent-sh", "ps", "--state", "runing"],
                "invalid value 'runing' for '--state <STATE>' [possible values: running, stopped, exited, signaled, lost] | did you mean 'running'? 'agent-sh ps --help' shows an example",
            ),
            (
                &["agent-sh", "setup"],
                "'agent-sh setup' needs more words | 'agent-sh setup --help' shows an example",
            ),
            (
                &["agent-sh", "help", "nonsense"],
                "unrecognized subcommand 'nonsense' | 'agent-sh help' lists the verbs",
            ),
        ] {
            assert_eq!(say(words), wanted, "{words:?}");
        }
    }
}

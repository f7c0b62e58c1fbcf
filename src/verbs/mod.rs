//! The verbs: what people, agents and programs ask about jobs. One file each.
//!
//! Data goes to stdout, talk to stderr, both through `message`. A verb gives its exit code, or an
//! error that `main` tells. Verbs read the store and signal processes; they never write a record.

mod attach;
mod completions;
mod doctor;
mod events;
pub(crate) mod format;
mod gc;
mod hook;
mod init;
mod keys;
mod kill;
mod live;
mod logs;
mod man;
mod misuse;
mod notify;
mod output;
mod parse;
pub(crate) mod ps;
pub mod run;
mod send;
mod setup;
mod show;
mod terminal;
mod top;
mod typing;
pub(crate) mod wait;
mod wait_follow;
mod wait_notify;
pub(crate) mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::cli::{Cli, Verb};
use crate::configured::{self, ConfigFile};
use crate::error::{Error, Result};
use crate::job::How;
use crate::message;
use crate::settings::Settings;
use crate::shell::Ourselves;
use crate::store::{self, JobView, Store, Summary, Waited};
use crate::sys::fds;
use format::Row;
pub use misuse::{after_bare_word, unknown};
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
    if !matches!(verb, Verb::Run(_) | Verb::Mcp(_)) {
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
        // Taken care of before clap; only its help leads here.
        Verb::Entrypoint(_) => Ok(0),
        Verb::Setup(setup) => setup::setup(&context, &setup),
        Verb::Ps(ps) if ps.fleet.from.is_some() => crate::fleet::ps(&context, &ps),
        Verb::Show(show) if show.fleet.from.is_some() => crate::fleet::show(&context, &show),
        Verb::Events(events) if events.fleet.from.is_some() => crate::fleet::events(&events),
        Verb::Top(top) if top.fleet.from.is_some() => crate::fleet::top(&context, &top.fleet),
        Verb::Wait(wait) if wait.from.is_some() && wait.tell.follow => crate::fleet::follow(&wait),
        Verb::Wait(wait) if wait.from.is_some() => crate::fleet::wait(&wait),
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
        Verb::Mcp(mcp) => crate::mcp::serve(context, mcp.session),
    }
}

/// What every verb may ask: the settings, the session, the jobs.
pub(crate) struct Context {
    settings: Settings,
    hooks: Hooks,
}

impl Context {
    fn read(hooks: Hooks) -> Result<Self> {
        let file = ConfigFile::read().map_err(|(path, source)| Error::io("read", &path, source))?;
        let settings = file.checked(&Ourselves::find());
        if let Some((path, why)) = &settings.distrusted {
            message::say_with_hint(
                format!("ignoring the config file '{}': {why}", path.display()),
                "it has to be yours (or root's), in a directory that is, and 'chmod go-w' closes both",
            );
        }
        settings.check(file.path.as_deref())?;
        for unknown in settings.unknown(file.path.as_deref()) {
            message::warn(&unknown);
        }
        // Jobs went elsewhere then, and so do we; but whoever named the directory should know.
        if let Some((path, why)) = Store::refusal(&settings) {
            message::say_with_hint(
                format!("cannot use the state directory '{}': {why}", path.display()),
                "new jobs go elsewhere, and are found there; 'agent-sh doctor' says where",
            );
        }
        Ok(Self { settings, hooks })
    }

    /// For the verb that explains what is wrong: a bad value is no reason to stop.
    fn read_leniently(hooks: Hooks) -> Self {
        let settings = configured::settings(&Ourselves::find());
        Self { settings, hooks }
    }

    pub(crate) fn env(&self, name: &str) -> Option<OsString> {
        configured::env(name)
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
        // Somebody who was at it meanwhile may have found no way to the agent.
        let again = || ours.then(|| store::told::claim_patiently(job)).flatten();
        let claim = claim.or_else(again);
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
        Store::open_writable(&self.settings, |name| self.env(name))
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

    /// What a `wait` without ids means: the jobs of the session that run, and those that ended and that
    /// no `wait` has reported yet. Without a session, all that run, and of the others those without one.
    pub(crate) fn awaited_in(&self, session: Option<&str>) -> Result<Vec<JobView>> {
        let mut jobs = self.running_in(session)?;
        for store in self.stores() {
            for row in store::summaries(std::slice::from_ref(&store), None)? {
                let ours = row.session.as_deref() == session && row.how != Some(How::Foreground);
                if !ours || !row.state.is_terminal() {
                    continue;
                }
                // One that cannot be read is no reason to leave the others unreported.
                let Ok(Some(job)) = store.load(&row.id) else {
                    continue;
                };
                let reported = store::told::is_waited(&job) || was_waited_for_by_its_starter(&job);
                // It may have ended since those that run were looked for.
                let known = jobs.iter().any(|other| other.dir == job.dir);
                if job.state.is_terminal() && !reported && !known {
                    jobs.push(job);
                }
            }
        }
        jobs.sort_by(|a, b| {
            let key = |job: &JobView| (job.launch.started_at.clone(), job.launch.proc.pid);
            key(a).cmp(&key(b))
        });
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

/// `run --wait` gave its end to the caller: no other run ends before its call.
fn was_waited_for_by_its_starter(job: &JobView) -> bool {
    let record = job.record.as_ref();
    record.is_some_and(|record| record.data.how == How::Run && record.data.during_call)
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

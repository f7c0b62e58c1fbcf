//! What every verb and every hook of a harness may ask: the settings, the caller's session, the jobs.

use std::ffi::OsString;
use std::time::Duration;

use crate::config::{self, ConfigFile};
use crate::error::{Error, Result};
use crate::job::How;
use crate::message;
use crate::settings::Settings;
use crate::shell::Ourselves;
use crate::store::{self, JobView, Store, Summary};
use crate::wire::RunRequest;

/// What the verbs need from other roles, which they may not import.
#[derive(Clone, Copy)]
pub(crate) struct Hooks {
    /// Starts a job, and gives the exit code of the verb and what it prints.
    pub run: fn(RunRequest) -> Result<(u8, Vec<u8>)>,
    /// The session of the caller: from the settings, the environment, or the harness above us.
    pub session: fn(&Settings) -> Option<String>,
}

/// What every verb may ask: the settings, the session, the jobs.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    hooks: Hooks,
}

impl Context {
    pub(crate) fn read(hooks: Hooks) -> Result<Self> {
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
    pub(crate) fn read_leniently(hooks: Hooks) -> Self {
        let settings = config::settings(&Ourselves::find());
        Self { settings, hooks }
    }

    pub(crate) fn env(&self, name: &str) -> Option<OsString> {
        config::env(name)
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

    pub(crate) fn start(&self, request: RunRequest) -> Result<(u8, Vec<u8>)> {
        (self.hooks.run)(request)
    }

    pub(crate) fn stores(&self) -> Vec<Store> {
        Store::readers(&self.settings, |name| self.env(name))
    }

    /// Says how a job ended. If that tells the agent of the job's own session, it is not told again:
    /// once the words are out, not before.
    pub(crate) fn report(&self, job: &JobView, say: impl FnOnce() -> Result<()>) -> Result<()> {
        let ours = job.launch.facts.session.is_some() && self.session() == job.launch.facts.session;
        let claim = if ours {
            store::outbox::acknowledged::claim(job)
        } else {
            None
        };
        say()?;
        // Somebody who was at it meanwhile may have found no way to the agent.
        let again = || {
            ours.then(|| store::outbox::acknowledged::claim_patiently(job))
                .flatten()
        };
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

    /// The jobs of a session that have not ended; of all sessions if none is given.
    pub(crate) fn running_in(&self, session: Option<&str>) -> Result<Vec<JobView>> {
        let mut jobs = store::running_jobs(&self.stores())?;
        jobs.retain(|job| session.is_none() || job.launch.facts.session.as_deref() == session);
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
                let reported = store::outbox::acknowledged::is_waited(&job)
                    || was_waited_for_by_its_starter(&job);
                // It may have ended since those that run were looked for.
                let known = jobs.iter().any(|other| other.dir == job.dir);
                if job.state.is_terminal() && !reported && !known {
                    jobs.push(job);
                }
            }
        }
        jobs.sort_by(|a, b| {
            let key = |job: &JobView| {
                (
                    job.launch.facts.started_at.clone(),
                    job.launch.facts.proc.pid,
                )
            };
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
    record.is_some_and(|record| record.data.facts.how == How::Run && record.data.during_call)
}

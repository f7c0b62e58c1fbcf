//! The agent that started a job, reached through its harness. It is told of an end once, by whichever
//! way is first: see `store::told`.

use std::sync::OnceLock;

use crate::job::record::Launch;
use crate::store::JobView;
use crate::store::outbox::acknowledged::{self, Told};
use crate::store::outbox::waiter;

use super::{Event, Sent};

/// Which harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ClaudeCode,
    Codex,
    OpenCode,
    AgentApi,
    /// Only what `auto` may lead to: it has no word of its own.
    Gemini,
    /// The one that the job was started from.
    Auto,
}

const WORDS: [(Kind, &str); 5] = [
    (Kind::ClaudeCode, "claude-code"),
    (Kind::Codex, "codex"),
    (Kind::OpenCode, "opencode"),
    (Kind::AgentApi, "agentapi"),
    (Kind::Auto, "auto"),
];

const GEMINI: (Kind, &str) = (Kind::Gemini, "gemini");

impl Kind {
    #[must_use]
    pub fn word(self) -> &'static str {
        let mut known = WORDS.iter().chain([&GEMINI]);
        let found = known.find(|(kind, _)| *kind == self);
        found.map_or("auto", |(_, word)| word)
    }

    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let found = WORDS.iter().find(|(_, known)| *known == word);
        found.map(|(kind, _)| *kind)
    }

    /// What `auto` means for this job. `None`: it was started from nothing that can be told.
    fn of(self, launch: &Launch) -> Option<Self> {
        if self != Self::Auto {
            return Some(self);
        }
        if launch.wake.keys().any(|name| name.starts_with("AGENTAPI_")) {
            return Some(Self::AgentApi);
        }
        let word = launch.facts.harness.as_deref()?;
        if word == GEMINI.1 {
            return Some(Self::Gemini);
        }
        Self::from_word(word).filter(|kind| *kind != Self::Auto)
    }
}

/// One wake-up: what a harness needs to reach its session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waking<'a> {
    pub notice: &'a str,
    pub session: &'a str,
    pub launch: &'a Launch,
}

/// What became of a wake-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The agent has it.
    Told,
    /// Nobody can be reached from here; a hook of the harness tells it at its next occasion.
    Later(String),
    Failed(String),
}

/// Wakes one kind of harness.
pub(crate) type Wake = fn(&Waking<'_>) -> Woken;

/// The ways to wake that there are, as `harness` names them. A harness without one is told by its own hooks.
static WAKES: OnceLock<&[(Kind, Wake)]> = OnceLock::new();

/// Sets how each kind of harness is woken, once in a process.
pub(crate) fn set_wakes(wakes: &'static [(Kind, Wake)]) {
    // A second call would bring the same table.
    WAKES.get_or_init(|| wakes);
}

const KNOWS: &str = "the agent knows";

/// Why this end is no news to the agent of its session, if so.
#[must_use]
pub(crate) fn is_no_news(job: &JobView) -> Option<&'static str> {
    job.record.as_ref()?.is_no_news()
}

/// The same, or that it was told already.
pub(super) fn is_known(job: &JobView) -> Option<&'static str> {
    is_no_news(job).or_else(|| acknowledged::is_told(job).then_some(KNOWS))
}

/// Tells the agent, unless it knows.
pub(super) fn tell(kind: Kind, event: &Event, job: &JobView) -> Sent {
    let Some(session) = job.launch.facts.session.as_deref() else {
        return Sent::Spared("the job belongs to no session");
    };
    let Some(kind) = kind.of(&job.launch) else {
        return Sent::Spared("no harness that could be told started the job");
    };
    let waking = Waking {
        notice: &event.notice,
        session,
        launch: &job.launch,
    };
    // What a running job does is news each time; its end is news once.
    if job.record.is_none() {
        return wake(kind, &waking);
    }
    if let Some(why) = is_no_news(job) {
        return Sent::Spared(why);
    }
    // A waiter of the session's own harness is nearer, and must not find the telling taken.
    if waiter::is_waited_for(job) {
        return Sent::Failed(
            "a hook of its harness is waiting to tell it".to_owned(),
            Some(std::time::Duration::from_secs(20)),
        );
    }
    let claim = match acknowledged::try_claim(job) {
        Ok(claim) => claim,
        Err(Told::Done) => return Sent::Spared(KNOWS),
        Err(_) => return Sent::failed("the agent is being told"),
    };
    let sent = wake(kind, &waking);
    if sent == Sent::Delivered
        && let Err(error) = claim.done()
    {
        return Sent::failed(crate::error::cause(&error));
    }
    sent
}

/// Tries a harness out: as for a job that this launch describes.
#[must_use]
pub(crate) fn test(kind: Kind, event: &Event, launch: &Launch) -> Sent {
    let (Some(session), Some(kind)) = (launch.facts.session.as_deref(), kind.of(launch)) else {
        return Sent::Refused("this is no session of a harness that could be told".to_owned());
    };
    wake(
        kind,
        &Waking {
            notice: &event.notice,
            session,
            launch,
        },
    )
}

fn wake(kind: Kind, waking: &Waking<'_>) -> Sent {
    let Some((_, wake)) = WAKES
        .get()
        .and_then(|all| all.iter().find(|(known, _)| *known == kind))
    else {
        return Sent::Failed(
            format!("{} is told by its own hooks", kind.word()),
            Some(std::time::Duration::from_secs(60)),
        );
    };
    match wake(waking) {
        Woken::Told => Sent::Delivered,
        Woken::Later(why) => Sent::Failed(why, Some(std::time::Duration::from_secs(60))),
        Woken::Failed(why) => Sent::failed(why),
    }
}

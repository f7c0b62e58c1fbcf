//! `ps`: the list of jobs.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::cli::format::{Row, table};
use crate::cli::row_of;
use crate::context::Context;
use crate::error::Result;
use crate::follow::lists::{ListSleeper, Woken};
use crate::job::State;
use crate::message::{self, Palette};
use crate::store::Summary;
use crate::sys::{clock, signal};
use crate::text;
use clap::{Args, ValueEnum};

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
pub(super) struct Ps {
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
    /// Jobs that failed only: that exited with another code than 0, were killed, or are lost
    #[arg(long, conflicts_with = "state")]
    pub failed: bool,
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
    pub fleet: super::fleet::Fleet,
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

/// How long an ended job is still news.
const RECENT: Duration = Duration::from_secs(3600);

/// How often the times of a watched list are brought up to date.
const TICK: Duration = Duration::from_secs(1);
/// The other screen without a cursor, and back. Each frame overwrites the one before, so nothing flickers.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

pub(crate) fn ps(context: &Context, ps: &Ps) -> Result<u8> {
    let session = if ps.all_sessions {
        None
    } else {
        ps.session.clone().or_else(|| context.session())
    };
    let session = session.as_deref();
    if ps.watch {
        return watch(context, ps, session);
    }
    let jobs = select(context, ps, session)?;
    if ps.quiet {
        let ids: String = jobs.iter().map(|job| format!("{}\n", job.id)).collect();
        return message::out(&ids).map(|()| 0);
    }
    if ps.json {
        let rows: Vec<Value> = jobs.iter().map(Summary::to_json).collect();
        return message::out(&text::escape_json(&json_lines(&rows))).map(|()| 0);
    }
    if jobs.is_empty() {
        message::say_with_hint(none_text(ps, session), none_hint(ps, session));
        return Ok(0);
    }
    message::out(&listed(context, ps, session, &jobs, None))?;
    if jobs.iter().any(Summary::is_unsupervised) {
        message::say(ALONE);
    }
    Ok(0)
}

const ALONE: &str = "* its supervisor is gone: it runs on, but its exit code may never be known";

/// The jobs that were asked for, the newest last.
fn select(context: &Context, ps: &Ps, session: Option<&str>) -> Result<Vec<Summary>> {
    let states: Vec<State> = ps.state.iter().map(|&word| word.into()).collect();
    let now = clock::wall();
    let mut jobs = context.rows((!ps.all).then_some(RECENT))?;
    jobs.retain(|job| {
        let in_session = session.is_none() || job.session.as_deref() == session;
        let in_state = states.is_empty() || states.contains(&job.state);
        let wanted = in_state && (!ps.failed || job.has_failed());
        in_session && wanted && (ps.all || is_news(job.state, job.settled_at.as_deref(), now))
    });
    Ok(jobs)
}

/// The table; of more jobs than `most` the newest.
fn listed(
    context: &Context,
    ps: &Ps,
    session: Option<&str>,
    jobs: &[Summary],
    most: Option<usize>,
) -> String {
    let newest = most.map_or(0, |most| jobs.len().saturating_sub(most));
    let rows: Vec<Row> = jobs[newest..].iter().map(row_of).collect();
    let palette = Palette::of_stdout(|name| context.env(name));
    // Where the list can mix sessions, and does.
    let with_session =
        ps.all_sessions || session.is_none() && rows.iter().any(|row| row.session.is_some());
    table(&rows, with_session, message::width(), palette)
}

/// Shows the list, and shows it again.
fn watch(context: &Context, ps: &Ps, session: Option<&str>) -> Result<u8> {
    let on_terminal = message::is_shown() && !ps.json;
    let signals = [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGTSTP,
        libc::SIGWINCH,
    ];
    let mut sleeper = ListSleeper::new(if on_terminal { &signals } else { &[] });
    if on_terminal {
        message::out(ENTER)?;
    }
    let result = refresh(context, ps, session, &mut sleeper, on_terminal);
    if on_terminal {
        message::out(LEAVE)?;
    }
    match result? {
        // Ctrl-C is how one leaves.
        Some(signal) if signal != libc::SIGINT => {
            signal::die_by(signal);
            Ok(0)
        }
        _ => Ok(0),
    }
}

/// Until a signal (which is given back) or the reader leaves.
fn refresh(
    context: &Context,
    ps: &Ps,
    session: Option<&str>,
    sleeper: &mut ListSleeper,
    on_terminal: bool,
) -> Result<Option<i32>> {
    let mut before = None;
    loop {
        let jobs = select(context, ps, session)?;
        let running: Vec<&Summary> = jobs.iter().filter(|job| !job.state.is_terminal()).collect();
        let mut wanted: HashSet<PathBuf> = HashSet::new();
        for store in context.stores() {
            wanted.insert(store.jobs_path());
            wanted.extend(running.iter().map(|job| store.job_path(&job.id)));
        }
        sleeper.watch_only(&wanted);
        // What happened between the look and the watch shows a tick later.
        if on_terminal {
            message::out(&frame(context, ps, session, &jobs))?;
        } else {
            let now: Vec<_> = jobs.iter().map(|job| (job.id.clone(), job.state)).collect();
            if before.as_ref() != Some(&now) {
                message::out(&again(context, ps, session, &jobs))?;
                before = Some(now);
            }
        }
        match sleeper.sleep(TICK) {
            Woken::ReaderGone => return Ok(None),
            Woken::Signal(libc::SIGTSTP) => {
                message::out(LEAVE)?;
                signal::stop_self();
                message::out(ENTER)?;
            }
            Woken::Signal(signal) if signal != libc::SIGWINCH => return Ok(Some(signal)),
            _ => {}
        }
    }
}

/// One screen: it begins at the top, each line clears its rest, the end clears what is below.
fn frame(context: &Context, ps: &Ps, session: Option<&str>, jobs: &[Summary]) -> String {
    // The head, and a last line that must not scroll.
    let most = message::height().map(|rows| rows.saturating_sub(2).max(1));
    let mut text = listed(context, ps, session, jobs, most);
    if jobs.is_empty() {
        text = format!("{}\n", none_text(ps, session));
    }
    let lines: Vec<String> = text
        .lines()
        .map(|line| format!("{line}\u{1b}[K\r\n"))
        .collect();
    format!("\u{1b}[H{}\u{1b}[J", lines.concat())
}

/// The list where no terminal is: one after the other, JSON as one line each.
fn again(context: &Context, ps: &Ps, session: Option<&str>, jobs: &[Summary]) -> String {
    if ps.json {
        let rows: Vec<Value> = jobs.iter().map(Summary::to_json).collect();
        return format!("{}\n", Value::from(rows));
    }
    let list = if jobs.is_empty() {
        format!("{}\n", none_text(ps, session))
    } else {
        listed(context, ps, session, jobs, None)
    };
    format!("{list}\n")
}

/// Whether a job runs, or ended just now.
pub(crate) fn is_news(state: State, settled_at: Option<&str>, now: SystemTime) -> bool {
    if !state.is_terminal() {
        return true;
    }
    let ended = settled_at.and_then(|time| humantime::parse_rfc3339(time).ok());
    // A clock that was set back makes an end lie in the future: that is news too.
    ended
        .is_none_or(|ended| now.duration_since(ended).is_ok_and(|age| age <= RECENT) || ended > now)
}

/// An array with one object a line: whole as JSON, and readable by lines.
pub(crate) fn json_lines(rows: &[Value]) -> String {
    if rows.is_empty() {
        return "[]\n".to_owned();
    }
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    format!("[{}]\n", lines.join(",\n"))
}

fn none_text(ps: &Ps, session: Option<&str>) -> String {
    let which = if ps.failed {
        "failed ".to_owned()
    } else if ps.state.is_empty() {
        String::new()
    } else {
        let words: Vec<&str> = ps
            .state
            .iter()
            .map(|&word| State::from(word).word())
            .collect();
        format!("{} ", words.join(" or "))
    };
    let place = session.map_or_else(String::new, |key| format!(" in session '{key}'"));
    let time = match (ps.all, ps.state.is_empty() && !ps.failed) {
        (true, _) => "",
        (false, true) => " running, or ended in the last hour",
        (false, false) => " now or in the last hour",
    };
    format!("no {which}jobs{place}{time}")
}

fn none_hint(ps: &Ps, session: Option<&str>) -> &'static str {
    match (ps.all, session.is_some()) {
        (false, true) => "'agent-sh ps --all --all-sessions' lists every job that is kept",
        (false, false) => "'agent-sh ps --all' lists every job that is kept",
        (true, true) => "'agent-sh ps --all --all-sessions' lists those of every session",
        (true, false) => "'agent-sh run -- COMMAND' starts one",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_is_an_array_with_a_job_a_line() {
        assert_eq!(json_lines(&[]), "[]\n");
        let rows = [json!({"id": "a"}), json!({"id": "b"})];
        assert_eq!(json_lines(&rows), "[{\"id\":\"a\"},\n{\"id\":\"b\"}]\n");
    }

    #[test]
    fn an_empty_list_says_what_was_asked() {
        let mut ps = Ps {
            all: false,
            all_sessions: false,
            session: None,
            state: Vec::new(),
            failed: false,
            watch: false,
            quiet: false,
            json: false,
            fleet: crate::cli::fleet::Fleet::default(),
        };
        assert_eq!(
            none_text(&ps, None),
            "no jobs running, or ended in the last hour"
        );
        ps.state = vec![StateWord::Stopped];
        assert_eq!(
            none_text(&ps, None),
            "no stopped jobs now or in the last hour"
        );
        ps.all = true;
        ps.state = vec![StateWord::Lost, StateWord::Exited];
        assert_eq!(
            none_text(&ps, Some("x")),
            "no lost or exited jobs in session 'x'"
        );
    }
}

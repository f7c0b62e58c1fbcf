//! `ps`: the list of jobs.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::cli::Ps;
use crate::error::Result;
use crate::job::State;
use crate::message::{self, Palette};
use crate::store::JobView;
use crate::sys::clock;
use crate::text;
use crate::verbs::format::{Row, table};
use crate::verbs::{Context, row};

/// How long an ended job is still news.
const RECENT: Duration = Duration::from_secs(3600);

pub(crate) fn ps(context: &Context, ps: &Ps) -> Result<u8> {
    let session = if ps.all_sessions {
        None
    } else {
        ps.session.clone().or_else(|| context.session())
    };
    let states: Vec<State> = ps.state.iter().map(|&word| word.into()).collect();
    let now = clock::wall();
    let mut jobs = context.jobs()?;
    jobs.retain(|job| {
        let in_session = session.is_none() || job.launch.session == session;
        let in_state = states.is_empty() || states.contains(&job.state);
        in_session && in_state && (ps.all || is_news(job, now))
    });
    if ps.json {
        let rows: Vec<Value> = jobs.iter().map(JobView::to_row_json).collect();
        return message::out(&text::escape_json(&json_lines(&rows))).map(|()| 0);
    }
    if jobs.is_empty() {
        message::say_with_hint(
            none_text(ps, session.as_deref()),
            none_hint(ps, session.as_deref()),
        );
        return Ok(0);
    }
    let rows: Vec<Row> = jobs.iter().map(row).collect();
    let palette = Palette::of_stdout(|name| context.env(name));
    // Where the list can mix sessions, and does.
    let with_session =
        ps.all_sessions || session.is_none() && rows.iter().any(|row| row.session.is_some());
    message::out(&table(&rows, with_session, message::width(), palette))?;
    if rows
        .iter()
        .any(|row| row.unsupervised && !row.state.is_terminal())
    {
        message::say("* its supervisor is gone: it runs on, but its exit code may never be known");
    }
    Ok(0)
}

fn is_news(job: &JobView, now: SystemTime) -> bool {
    if !job.state.is_terminal() {
        return true;
    }
    let ended = job
        .settled_at()
        .and_then(|time| humantime::parse_rfc3339(time).ok());
    // A clock that was set back makes an end lie in the future: that is news too.
    ended
        .is_none_or(|ended| now.duration_since(ended).is_ok_and(|age| age <= RECENT) || ended > now)
}

/// An array with one object a line: whole as JSON, and readable by lines.
fn json_lines(rows: &[Value]) -> String {
    if rows.is_empty() {
        return "[]\n".to_owned();
    }
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    format!("[{}]\n", lines.join(",\n"))
}

fn none_text(ps: &Ps, session: Option<&str>) -> String {
    let which = if ps.state.is_empty() {
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
    let time = match (ps.all, ps.state.is_empty()) {
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
    use crate::cli::StateWord;
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
            json: false,
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

//! Words for receivers that show what they get: chats and phones. Pure.
//!
//! What a job wrote is in these words too. It can neither address anybody nor format anything.

use serde_json::{Value, json};

use super::Event;
use crate::text;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Template {
    Text,
    Slack,
    Discord,
    Ntfy,
}

pub(crate) const NAMES: [&str; 4] = ["text", "slack", "discord", "ntfy"];

/// A body, what it is, and what else is said of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) body: String,
    pub(super) content_type: &'static str,
    pub(super) headers: Vec<(&'static str, String)>,
}

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
/// What the services take, less some room.
const SLACK: usize = 3000;
const DISCORD: usize = 1900;
const NTFY: usize = 4000;

impl Template {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "text" => Self::Text,
            "slack" => Self::Slack,
            "discord" => Self::Discord,
            "ntfy" => Self::Ntfy,
            _ => return None,
        })
    }

    pub(super) fn words(self, event: &Event) -> Words {
        let said = event.notice.trim_end();
        let plain = |body: String, headers| Words {
            body,
            content_type: PLAIN,
            headers,
        };
        let json = |value: &Value| Words {
            body: value.to_string(),
            content_type: JSON,
            headers: Vec::new(),
        };
        match self {
            Self::Text => plain(format!("{said}\n"), Vec::new()),
            Self::Slack => {
                let said = bounded(said, SLACK);
                let said = said
                    .replace('&', "&amp;")
                    .replace('<', "&lt;")
                    .replace('>', "&gt;");
                json(&json!({ "text": said, "unfurl_links": false, "unfurl_media": false }))
            }
            Self::Discord => json(&json!({
                "content": bounded(said, DISCORD), "allowed_mentions": { "parse": [] }, "flags": 4,
            })),
            Self::Ntfy => plain(bounded(said, NTFY), headers(event)),
        }
    }
}

/// The beginning, which is the fact, and a mark where something is missing. Counted in bytes, which is never too little.
fn bounded(said: &str, most: usize) -> String {
    match said.len() <= most {
        true => said.to_owned(),
        false => format!("{}\n…", text::first_bytes(said, most - 4)),
    }
}

/// The title, and how urgent it is. Headers are ASCII: the words are ours and the job's id.
fn headers(event: &Event) -> Vec<(&'static str, String)> {
    let value: Value = serde_json::from_str(&event.json).unwrap_or_default();
    let data = &value["data"];
    let job = value["subject"].as_str().unwrap_or_default();
    let job: String = job
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(16)
        .collect();
    let (title, priority, tag) = match (data["state"].as_str(), data["exit_code"].as_u64()) {
        (Some("exited"), Some(0)) => (format!("Job {job} finished"), "3", "white_check_mark"),
        (Some("exited"), Some(code)) => (format!("Job {job} failed: exit {code}"), "4", "x"),
        (Some("signaled"), _) => (format!("Job {job} was killed"), "4", "x"),
        (Some("lost"), _) => (format!("Job {job} is lost"), "4", "question"),
        (Some(_), _) => (format!("Job {job} is running"), "2", "hourglass"),
        (None, _) => ("agent-sh".to_owned(), "2", "information_source"),
    };
    let pairs = [
        ("Title", title),
        ("Priority", priority.to_owned()),
        ("Tags", tag.to_owned()),
    ];
    pairs.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(code: u8, notice: &str) -> Event {
        let data = json!({"state": "exited", "exit_code": code});
        Event {
            id: "7f3k2m.exit".to_owned(),
            json: json!({"subject": "7f3k2m", "data": data}).to_string(),
            notice: notice.to_owned(),
        }
    }

    #[test]
    fn nobody_is_addressed() {
        let said = "Job 7f3k2m finished\n<!channel> @everyone & more\n";
        let slack = Template::Slack.words(&event(0, said));
        assert!(
            slack.body.contains("&lt;!channel&gt; @everyone &amp; more"),
            "{}",
            slack.body
        );
        let discord: Value =
            serde_json::from_str(&Template::Discord.words(&event(0, said)).body).unwrap();
        assert_eq!(discord["allowed_mentions"]["parse"], json!([]));
        assert_eq!(Template::Text.words(&event(0, said)).body, said);
    }

    #[test]
    fn words_fit() {
        let long = format!("the fact\n{}", "é".repeat(9000));
        for (template, most) in [
            (Template::Slack, 4000),
            (Template::Discord, 2000),
            (Template::Ntfy, 4096),
        ] {
            let words = template.words(&event(3, &long));
            let shown = match template {
                Template::Ntfy => words.body.clone(),
                _ => {
                    let value: Value = serde_json::from_str(&words.body).unwrap();
                    let key = if template == Template::Slack {
                        "text"
                    } else {
                        "content"
                    };
                    value[key].as_str().unwrap().to_owned()
                }
            };
            assert!(
                shown.len() <= most && shown.starts_with("the fact"),
                "{template:?}"
            );
        }
        let words = Template::Ntfy.words(&event(3, &long));
        assert_eq!(
            words.headers[0],
            ("Title", "Job 7f3k2m failed: exit 3".to_owned())
        );
        assert!(NAMES.iter().all(|name| Template::named(name).is_some()));
    }
}

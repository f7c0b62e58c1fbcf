//! The tools as calls of verbs.

use std::process::Stdio;
use std::time::Duration;

use rmcp::model::{CallToolResult, JsonObject};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::Scope;
use super::answer::{self, MOST_OUTPUT, UNTRUSTED, facts};
use super::arguments::Arguments;
use crate::error::{Error, Result};
use crate::invocation::OWN_NAME;
use crate::settings;
use crate::store::JobView;

/// Ourselves, also if the file was replaced meanwhile.
const SELF: &str = "/proc/self/exe";
/// The exit code of a `wait` whose time is over.
const TIMED_OUT: i32 = 124;
/// How much of what a verb prints is kept: its end.
const MOST_PRINTED: usize = 4 << 20;
/// How long `wait_for_job` waits, and how long it may be told to: clients give up on slow tools.
const WAIT: Duration = Duration::from_secs(60);
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// The lines of output that are shown where nobody said how many.
const LINES: u64 = 100;

/// What a verb did.
struct Done {
    code: i32,
    out: String,
    /// The beginning of `out` is missing.
    cut: bool,
    talk: String,
}

impl Done {
    /// What it said, without the name that each line begins with.
    fn failure(&self) -> CallToolResult {
        let prefix = format!("{OWN_NAME}: ");
        let lines = self.talk.lines();
        let lines: Vec<&str> = lines
            .map(|line| line.strip_prefix(&prefix).unwrap_or(line))
            .collect();
        match lines.is_empty() {
            true => answer::failure(&format!("failed with exit code {}", self.code)),
            false => answer::failure(&lines.join("\n")),
        }
    }
}

/// The calls of one request.
pub(super) struct Calls<'a> {
    pub(super) scope: &'a Scope,
    pub(super) cancelled: CancellationToken,
}

impl Calls<'_> {
    pub(super) async fn list_jobs(&self, given: &JsonObject) -> Result<CallToolResult> {
        Arguments::new(given, &[])?;
        let done = self.run(&["ps", "--json"]).await?;
        if done.code != 0 {
            return Ok(done.failure());
        }
        let printed: Value = serde_json::from_str(&done.out).unwrap_or_default();
        Ok(answer::success(answer::jobs(&printed)))
    }

    pub(super) async fn start_job(&self, given: &JsonObject) -> Result<CallToolResult> {
        let given = Arguments::new(given, &["command", "name", "cwd", "timeout"])?;
        let mut words = vec!["run".to_owned(), "--json".to_owned(), "-i".to_owned()];
        for (option, value) in [
            ("--name", given.text("name")?.map(str::to_owned)),
            ("--cwd", given.text("cwd")?.map(str::to_owned)),
            ("--timeout", given.time("timeout")?),
        ] {
            words.extend(value.map(|value| format!("{option}={value}")));
        }
        words.push("--".to_owned());
        words.push(as_text(given.needed("command")?));
        let done = self.run(&words).await?;
        let printed: Value = serde_json::from_str(&done.out).unwrap_or_default();
        let (0, Some(id)) = (done.code, printed["id"].as_str()) else {
            return Ok(done.failure());
        };
        let mut facts = facts(&self.scope.find(id)?);
        facts.insert("cursor".to_owned(), "0".into());
        Ok(answer::success(facts))
    }

    pub(super) async fn job_logs(&self, given: &JsonObject) -> Result<CallToolResult> {
        let given = Arguments::new(given, &["id", "cursor", "lines"])?;
        // Looked at first: if it had ended, what is read next is all there is.
        let job = self.scope.find(given.needed("id")?)?;
        let (cursor, lines) = (given.text("cursor")?, given.number("lines")?);
        let mut words = vec!["logs".to_owned(), "--json".to_owned(), job.id().to_string()];
        words.push(format!("--cursor={}", cursor.unwrap_or("0")));
        match (cursor, lines) {
            (Some(_), None) => words.push(format!("--limit={MOST_OUTPUT}")),
            (_, lines) => words.push(format!("--lines={}", lines.unwrap_or(LINES))),
        }
        let done = self.run(&words).await?;
        let portion = answer::portion(&done.out, done.cut);
        let (0, Some(cursor)) = (done.code, portion.cursor) else {
            return Ok(done.failure());
        };
        let mut facts = facts(&job);
        for (name, value) in [
            ("untrusted", UNTRUSTED.into()),
            ("output", portion.text.into()),
            ("cursor", cursor.into()),
            ("more", Value::from(portion.more)),
            ("left_out", portion.left_out.into()),
        ] {
            facts.insert(name.to_owned(), value);
        }
        Ok(answer::success(facts))
    }

    pub(super) async fn wait_for_job(&self, given: &JsonObject) -> Result<CallToolResult> {
        let known = ["id", "timeout", "for_output", "for_port", "idle"];
        let given = Arguments::new(given, &known)?;
        let job = self.scope.find(given.needed("id")?)?;
        let mut words = vec!["wait".to_owned(), "--json".to_owned(), job.id().to_string()];
        words.push(format!("--timeout={}ms", patience(&given)?.as_millis()));
        let pattern = given.text("for_output")?.map(str::to_owned);
        let port = given.number("for_port")?.map(|port| port.to_string());
        let mut has_condition = false;
        for (option, value) in [
            ("--for-output", pattern),
            ("--for-port", port),
            ("--idle", given.time("idle")?),
        ] {
            has_condition |= value.is_some();
            words.extend(value.map(|value| format!("{option}={value}")));
        }
        let done = self.run(&words).await?;
        let timed_out = done.code == TIMED_OUT && done.out.is_empty();
        let printed: Value = serde_json::from_str(&done.out).unwrap_or_default();
        if !timed_out && !printed.is_object() {
            return Ok(done.failure());
        }
        let now = reload(job)?;
        let mut facts = facts(&now);
        facts.insert("duration_ms".to_owned(), now.duration_ms().into());
        facts.insert("timed_out".to_owned(), timed_out.into());
        let happened = has_condition.then_some(!timed_out && done.code == 0);
        facts.insert("happened".to_owned(), happened.into());
        if let Some(line) = printed["matched"].as_str() {
            facts.insert("untrusted".to_owned(), UNTRUSTED.into());
            let line = crate::text::shorten(line, 1000);
            facts.insert("matched".to_owned(), line.into());
        }
        Ok(answer::success(facts))
    }

    pub(super) async fn kill_job(&self, given: &JsonObject) -> Result<CallToolResult> {
        let given = Arguments::new(given, &["id", "signal"])?;
        let job = self.scope.find(given.needed("id")?)?;
        let mut words = vec!["kill".to_owned(), "--json".to_owned()];
        let signal = given.word("signal")?;
        words.extend(signal.map(|signal| format!("--signal={signal}")));
        words.push(job.id().to_string());
        let done = self.run(&words).await?;
        if done.code != 0 {
            return Ok(done.failure());
        }
        let now = reload(job)?;
        let mut facts = facts(&now);
        facts.insert("ended".to_owned(), now.state.is_terminal().into());
        Ok(answer::success(facts))
    }

    pub(super) async fn send_input(&self, given: &JsonObject) -> Result<CallToolResult> {
        let given = Arguments::new(given, &["id", "text", "keys"])?;
        let job = self.scope.find(given.needed("id")?)?;
        let id = job.id().to_string();
        // The answer comes behind what is there now.
        let end = ["logs", "--json", "--cursor=0", "--lines=0", &id];
        let end = self.run(&end).await?;
        let Some(cursor) = answer::portion(&end.out, false).cursor else {
            return Ok(end.failure());
        };
        let mut words = vec!["send".to_owned(), id];
        let keys = given.texts("keys")?;
        words.extend(keys.iter().map(|key| format!("--key={key}")));
        if let Some(text) = given.text("text")? {
            words.extend(["--".to_owned(), text.to_owned()]);
        }
        let done = self.run(&words).await?;
        if done.code != 0 {
            return Ok(done.failure());
        }
        let mut facts = facts(&reload(job)?);
        facts.insert("cursor".to_owned(), cursor.into());
        Ok(answer::success(facts))
    }

    /// Runs a verb to its end. One that the client no longer wants is ended.
    async fn run<S: AsRef<str>>(&self, words: &[S]) -> Result<Done> {
        let failed = |source| Error::sys("run the verb", source);
        let mut command = Command::new(SELF);
        command
            .arg0(OWN_NAME)
            .args(words.iter().map(AsRef::as_ref))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(session) = self.scope.session() {
            command.env("AGENT_SH_SESSION", session);
        }
        let mut child = command.spawn().map_err(failed)?;
        let (out, talk) = (child.stdout.take(), child.stderr.take());
        let all = async {
            let (out, talk) = tokio::join!(end_of(out), end_of(talk));
            (child.wait().await, out, talk)
        };
        let (status, (out, cut), (talk, _)) = tokio::select! {
            done = all => done,
            () = self.cancelled.cancelled() => {
                return Err(Error::Failed { text: "cancelled".to_owned(), hint: None });
            }
        };
        Ok(Done {
            code: status.map_err(failed)?.code().unwrap_or(-1),
            out,
            cut,
            talk,
        })
    }
}

/// Reads a stream to its end and keeps the last of it; gives whether anything was forgotten.
async fn end_of(stream: Option<impl AsyncRead + Unpin>) -> (String, bool) {
    let Some(mut stream) = stream else {
        return (String::new(), false);
    };
    let mut kept: Vec<u8> = Vec::new();
    let mut cut = false;
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        kept.extend(&buffer[..read]);
        if kept.len() > 2 * MOST_PRINTED {
            kept.drain(..kept.len() - MOST_PRINTED);
            cut = true;
        }
    }
    (String::from_utf8_lossy(&kept).into_owned(), cut)
}

/// How long to wait: what was asked for, within bounds.
fn patience(given: &Arguments<'_>) -> Result<Duration> {
    let Some(text) = given.time("timeout")? else {
        return Ok(WAIT);
    };
    let asked = settings::duration(&text).map_err(|why| Error::Usage {
        text: format!("'timeout': {why}"),
        hint: None,
    })?;
    Ok(asked.min(LONGEST_WAIT))
}

fn reload(job: JobView) -> Result<JobView> {
    Ok(job.reload()?.unwrap_or(job))
}

/// A command for the shell. `run` takes one word without a blank for a program's name, which is the same only where
/// nothing in it means something to a shell.
fn as_text(command: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/+-".contains(&byte);
    let blank = command.bytes().any(|byte| byte.is_ascii_whitespace());
    match blank || command.bytes().all(plain) {
        true => command.to_owned(),
        false => format!("{command}\n"),
    }
}

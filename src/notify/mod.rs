//! Telling others: one file per way out, behind one enum. What is to be told, and whether it was, is
//! the store's business (`store::outbox`); this room only carries it.
//!
//! Every way out has a time limit, and none is trusted: what a receiver answers is cut short and only
//! ever becomes the reason of a failure.

pub(crate) mod address;
pub(crate) mod agent;
pub(crate) mod beat;
pub(crate) mod broker;
pub(crate) mod deliver;
pub(crate) mod exec;
mod files;
pub(crate) mod http;
mod lines;
#[cfg(feature = "nats")]
pub(crate) mod nats;
pub(crate) mod otlp;
#[cfg(feature = "redis")]
pub(crate) mod redis;
pub(crate) mod sign;
mod sink;
pub mod start;
pub(crate) mod template;
#[cfg(any(feature = "nats", feature = "redis"))]
mod tls;
pub(crate) mod watch;

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) use exec::become_hook;
pub use sink::Sink;
pub(crate) use sink::shown;

use crate::error::{Error, Result};
use crate::job::notice::{self, Reader};
use crate::job::record::{LONGEST_TAIL, Record};
use crate::screen::clean_tail;
use crate::store::JobView;
use crate::store::outbox::Subscription;
use crate::sys::fsx;
use crate::text;

/// How much of the transcript is looked at for the tail of a notice.
const TAIL: usize = 8 * 1024;

/// Something to tell.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Derived from the job, the same in every delivery.
    pub id: String,
    /// A CloudEvent as one line of JSON, for programs.
    pub json: String,
    /// The same in words, for models.
    pub notice: String,
}

/// What became of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Delivered,
    /// There is nothing to say to this one, and why.
    Spared(&'static str),
    /// Not now: why, and how long the receiver asks to be left alone.
    Failed(String, Option<Duration>),
    /// Never: the receiver refuses this event.
    Refused(String),
    /// Never again anything: the receiver wants no more of them.
    Unwanted(String),
}

impl Sent {
    fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into(), None)
    }
}

impl Event {
    /// The end of a job.
    #[must_use]
    pub(crate) fn exit(job: &JobView, record: &Record) -> Self {
        Self {
            id: record.id.clone(),
            json: record.to_value().to_string(),
            notice: notice::text(record, &tail(job), Reader::default()),
        }
    }

    /// A harmless event that tries a sink out.
    #[must_use]
    pub(crate) fn test(name: &str, id: String, source: String, time: String) -> Self {
        let said = format!("Test notice of agent-sh for '{}'", text::shorten(name, 64));
        let json = serde_json::json!({
            "specversion": "1.0",
            "id": id,
            "source": source,
            "type": "dev.agent-sh.notify.test.v1",
            "subject": name,
            "time": time,
            "datacontenttype": "application/json",
            "data": { "notice": said },
        });
        Self {
            id,
            json: json.to_string(),
            notice: format!("{said}\nNothing ended; there is nothing to do.\n"),
        }
    }
}

/// The clean end of a job's output: of its transcript, or of what its record kept of it.
#[must_use]
pub(crate) fn tail(job: &JobView) -> String {
    if let Some(kept) = job
        .record
        .as_ref()
        .and_then(|record| record.data.tail.clone())
    {
        // Older versions kept it as it was.
        return text::redact(&kept);
    }
    let bytes = match &job.launch.facts.redirected_to {
        Some(path) => tail_of_file(Path::new(path)).unwrap_or_default(),
        None => job.tail(TAIL),
    };
    text::redact(&clean_tail(&bytes, LONGEST_TAIL))
}

/// The end of the file that a job wrote to, if it is one: a device or a pipe is left alone.
fn tail_of_file(path: &Path) -> io::Result<Vec<u8>> {
    let (file, stat) = fsx::open_regular(path)?;
    let from = stat.st_size.unsigned_abs().saturating_sub(TAIL as u64);
    let mut bytes = vec![0; TAIL];
    let read = file.read_at(&mut bytes, from)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// What is left until a deadline, for a call that waits in milliseconds; rounded up, or the last one
/// would be spent spinning. `None`: nothing.
fn left_ms(deadline: Instant) -> Option<i32> {
    let left = deadline.saturating_duration_since(Instant::now());
    let ms = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
    (!left.is_zero()).then(|| ms.saturating_add(1))
}

/// Makes one attempt. `limit` is all the time there is.
#[must_use]
pub(crate) fn send(
    sub: &Subscription,
    event: &Event,
    job: Option<&JobView>,
    limit: Duration,
) -> Sent {
    let sink: Sink = match sub.sink.parse() {
        Ok(sink) => sink,
        Err(why) => return Sent::Refused(why),
    };
    match &sink {
        Sink::Exec(path) => exec::run(path, event, limit),
        Sink::Http(url) => http::post(url, sub, event, limit),
        Sink::Unix(path) => lines::send(path, event, limit),
        Sink::Otlp(url) => otlp::send(url, sub, event, limit),
        Sink::Broker(url) => broker::send(url, sub, event, limit),
        Sink::Dir(path) => files::put(path, &sub.name, event),
        Sink::Stdout => match crate::message::out(&format!("{}\n", event.notice.trim_end())) {
            Ok(()) => Sent::Delivered,
            Err(error) => Sent::failed(error.to_string()),
        },
        Sink::Agent(kind) => match job {
            Some(job) => agent::tell(*kind, event, job),
            None => Sent::Refused("an agent is only told of jobs".to_owned()),
        },
    }
}

/// Makes sure that a sink can be used, and makes what it needs: before it is relied on.
pub(crate) fn prepare(sink: &Sink) -> Result<()> {
    match sink {
        Sink::Exec(path) => exec::check(path).map_err(|why| Error::Failed {
            text: format!("cannot use 'exec:{}': {why}", path.display()),
            hint: Some("a hook is a program that only you (or root) can change".to_owned()),
        }),
        Sink::Dir(path) => files::make(path),
        _ => Ok(()),
    }
}

//! NATS JetStream. Delivered means that the server has acknowledged the message.
//!
//! The client needs a runtime. It lives in the thread that delivers to one subscriber, in the helper process or in a verb
//! that waits, and is never part of a front, a launcher or a supervisor. The JetStream API is JSON over requests, and
//! used as such.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::{Client, ConnectErrorKind, ConnectOptions, HeaderMap, RequestErrorKind};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use super::broker::{Message, Proof, Url, failed};
use super::{Sent, tls};
use crate::store::outbox::Subscription;
use crate::text;

/// Codes of the JetStream API: the subject has a message already; the stream takes no roll-ups; there is no such stream.
const WRONG_LAST_SEQUENCE: [u64; 2] = [10_071, 10_164];
const NO_ROLLUP: u64 = 10_111;
pub(crate) const NO_STREAM: u64 = 10_059;
/// How long a stream of our making keeps an event.
const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// For how long the server recognises the id of a message that it has seen.
const WINDOW: Duration = Duration::from_secs(120);

/// Why a request has no good answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nobody listens on that subject.
    NoResponders,
    /// The server refuses: its code and words.
    Refused(u64, String),
    Broken(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoResponders => f.write_str("no stream takes that subject"),
            Self::Refused(_, why) | Self::Broken(why) => f.write_str(why),
        }
    }
}

/// A connection with the runtime that it lives in.
pub(crate) struct Link {
    runtime: Runtime,
    pub(crate) client: Client,
    complaint: Arc<Complaint>,
    limit: Duration,
}

/// What the server said between answers: a refused permission is told in no other way.
#[derive(Default)]
struct Complaint {
    text: Mutex<Option<String>>,
    said: Notify,
}

impl Complaint {
    fn take(&self) -> Option<String> {
        self.text.lock().ok()?.take()
    }
}

impl Link {
    pub(crate) fn open(
        url: &Url,
        proof: &Proof,
        allow_private: bool,
        limit: Duration,
    ) -> Result<Self, String> {
        let addresses = url.addresses(allow_private)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| crate::error::cause(&error))?;
        let complaint = Arc::new(Complaint::default());
        let heard = Arc::clone(&complaint);
        let mut options = ConnectOptions::new()
            .name("agent-sh")
            .connection_timeout(limit)
            .request_timeout(None)
            .max_reconnects(1)
            .ignore_discovered_servers()
            .event_callback(move |event| {
                let heard = Arc::clone(&heard);
                async move {
                    if let async_nats::Event::ServerError(error) = event {
                        if let Ok(mut text) = heard.text.lock() {
                            *text = Some(error.to_string());
                        }
                        heard.said.notify_one();
                    }
                }
            });
        if url.encrypted {
            options = options.tls_client_config(tls::config()).require_tls(true);
        }
        if let Some(creds) = &proof.creds {
            options = options.credentials(creds).map_err(|error| {
                format!(
                    "the credentials cannot be used: {}",
                    crate::error::cause(&error)
                )
            })?;
        }
        options = match (&url.user, &proof.password) {
            (Some(user), Some(password)) => {
                options.user_and_password(user.clone(), password.clone())
            }
            (None, Some(token)) => options.token(token.clone()),
            _ => options,
        };
        // By its name where the certificate must bear it; else the very address that was looked at.
        let to: Vec<String> = match url.encrypted {
            true => vec![format!("tls://{}", bracketed(&url.host, url.port))],
            false => addresses
                .iter()
                .map(|address| format!("nats://{address}"))
                .collect(),
        };
        let connecting = async { tokio::time::timeout(limit, options.connect(to)).await };
        let client = match runtime.block_on(connecting) {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(refusal(&error, limit)),
            Err(_) => return Err(silence(limit)),
        };
        Ok(Self {
            runtime,
            client,
            complaint,
            limit,
        })
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// One question and its answer, as JSON. Fails at once where the server complains.
    pub(crate) fn request(
        &self,
        subject: &str,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Value, Fault> {
        self.runtime.block_on(async {
            drop(self.complaint.take());
            let subject = subject.to_owned();
            let asking = self
                .client
                .request_with_headers(subject, headers, body.into());
            let answer = tokio::select! {
                answer = tokio::time::timeout(self.limit, asking) => answer,
                () = self.complaint.said.notified() => {
                    return Err(Fault::Broken(self.complaint.take().unwrap_or_default()));
                }
            };
            let answer = answer.map_err(|_| Fault::Broken(silence(self.limit)))?;
            let answer = answer.map_err(|error| match error.kind() {
                RequestErrorKind::NoResponders => Fault::NoResponders,
                RequestErrorKind::TimedOut => Fault::Broken(silence(self.limit)),
                _ => Fault::Broken(error.to_string()),
            })?;
            let value: Value = serde_json::from_slice(&answer.payload)
                .map_err(|_| Fault::Broken("an answer that is no JSON".to_owned()))?;
            match value["error"]["description"].as_str() {
                Some(why) => {
                    let code = value["error"]["err_code"].as_u64().unwrap_or_default();
                    Err(Fault::Refused(code, text::shorten(why, 200)))
                }
                None => Ok(value),
            }
        })
    }

    /// A call of the JetStream API.
    pub(crate) fn api(&self, call: &str, body: &Value) -> Result<Value, Fault> {
        let body = body.to_string().into_bytes();
        match self.request(&format!("$JS.API.{call}"), HeaderMap::new(), body) {
            Err(Fault::NoResponders) => {
                Err(Fault::Broken("JetStream is not enabled there".to_owned()))
            }
            other => other,
        }
    }

    /// Makes the stream of an address. What it keeps, and for how long, is in docs/fleet.md.
    fn make_stream(&self, name: &str) -> Result<(), Fault> {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let config = json!({
            "name": name,
            "description": "jobs of agent-sh",
            "subjects": [format!("{name}.>")],
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_msg_size": -1, "max_msgs_per_subject": -1,
            "max_age": nanoseconds(KEPT),
            "duplicate_window": nanoseconds(WINDOW),
            "num_replicas": 1,
            "allow_rollup_hdrs": true,
            "allow_direct": true,
        });
        self.api(&format!("STREAM.CREATE.{name}"), &config)
            .map(drop)
    }
}

fn bracketed(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

fn silence(limit: Duration) -> String {
    format!("no answer within {}", text::short_duration(limit))
}

fn refusal(error: &async_nats::ConnectError, limit: Duration) -> String {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation => {
            "the server refuses these credentials".to_owned()
        }
        ConnectErrorKind::Authentication => "the credentials cannot be used".to_owned(),
        ConnectErrorKind::TimedOut => silence(limit),
        ConnectErrorKind::Tls | ConnectErrorKind::Io => {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            let cause = cause.unwrap_or_else(|| error.to_string());
            let cause = cause.split(" (os error").next().unwrap_or_default();
            match cause.contains("certificate") || error.kind() == ConnectErrorKind::Tls {
                true => format!("TLS failed: {cause}"),
                false => format!("cannot connect: {cause}"),
            }
        }
        _ => error.to_string(),
    }
}

/// Which connection a thread has: it serves one subscriber.
struct Held {
    name: (String, Option<PathBuf>, Option<PathBuf>),
    link: Link,
    until: Instant,
}

/// A connection is made anew now and then, and with it what was resolved and read.
const LONGEST: Duration = Duration::from_secs(300);

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

pub(super) fn publish(
    url: &Url,
    sub: &Subscription,
    message: &Message<'_>,
    limit: Duration,
) -> Sent {
    HELD.with_borrow_mut(|held| {
        let name = (
            url.to_string(),
            sub.creds_file.clone(),
            sub.password_file.clone(),
        );
        let fits = |held: &Held| held.name == name && Instant::now() < held.until;
        if !held.as_ref().is_some_and(fits) {
            *held = None;
            let proof = Proof::read(sub.creds_file.as_deref(), sub.password_file.as_deref());
            let link = proof.and_then(|proof| Link::open(url, &proof, sub.allow_private, limit));
            match link {
                Ok(link) => {
                    let until = Instant::now() + LONGEST;
                    *held = Some(Held { name, link, until });
                }
                Err(why) => return failed(url, &why),
            }
        }
        let Some(Held { link, .. }) = held else {
            return failed(url, "not connected");
        };
        match put(link, &url.stream, message) {
            Ok(()) => Sent::Delivered,
            Err(fault) => {
                *held = None;
                failed(url, &fault.to_string())
            }
        }
    })
}

/// Publishes one message; makes the stream if there is none.
fn put(link: &Link, stream: &str, message: &Message<'_>) -> Result<(), Fault> {
    match put_once(link, stream, message, true) {
        Err(Fault::NoResponders) => {
            link.make_stream(stream).map_err(|fault| {
                Fault::Broken(format!("there is no stream '{stream}' that takes '{stream}.>', and it cannot be made: {fault}"))
            })?;
            put_once(link, stream, message, true)
        }
        Err(Fault::Refused(NO_ROLLUP, _)) => put_once(link, stream, message, false),
        other => other,
    }
}

fn put_once(link: &Link, stream: &str, message: &Message<'_>, rollup: bool) -> Result<(), Fault> {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", message.unique());
    headers.insert("content-type", "application/cloudevents+json");
    for name in ["specversion", "id", "source", "type", "subject", "time"] {
        if let Some(value) = message.value[name].as_str() {
            headers.insert(format!("ce-{name}").as_str(), value);
        }
    }
    if message.is_single() {
        headers.insert("Nats-Expected-Last-Subject-Sequence", "0");
    }
    // Of signs of life only the last one counts.
    if message.kind() == "beat" && rollup {
        headers.insert("Nats-Rollup", "sub");
    }
    let body = message.event.json.clone().into_bytes();
    match link.request(&message.subject(stream), headers, body) {
        Ok(ack) => match ack["stream"].as_str() {
            Some(name) if name == stream => Ok(()),
            Some(other) => Err(Fault::Broken(format!(
                "its subjects belong to the stream '{other}'"
            ))),
            None => Err(Fault::Broken("no acknowledgement came back".to_owned())),
        },
        // It is there already: sent by one that died before it could note it.
        Err(Fault::Refused(code, _))
            if message.is_single() && WRONG_LAST_SEQUENCE.contains(&code) =>
        {
            Ok(())
        }
        Err(fault) => Err(fault),
    }
}

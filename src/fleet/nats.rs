//! Reading a stream of JetStream, by consumers that the client pulls from.

use std::time::{Duration, Instant, SystemTime};

use async_nats::{Client, Message, StatusCode, Subscriber};
use serde_json::{Value, json};

use super::Extent;
use super::source::{self, Seen};
use crate::notify::broker::{Proof, Url};
use crate::notify::nats::{Fault, Link, NO_STREAM};

const BATCH: usize = 500;
/// A consumer that nobody pulls from is removed by the server.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// For how long a message is one reader's alone.
const HELD: Duration = Duration::from_secs(30);
/// How long a pull waits at most.
const PULL: Duration = Duration::from_secs(5);

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A consumer of a stream, and the place its messages come to.
struct Consumer {
    link: Link,
    stream: String,
    name: String,
    inbox: String,
    messages: Subscriber,
}

/// What a pull brought.
enum Pulled {
    Message(Box<Message>),
    Nothing,
}

impl Consumer {
    fn new(link: Link, stream: &str, name: String) -> Result<Self, String> {
        let client: Client = link.client.clone();
        let inbox = client.new_inbox();
        let messages = link
            .block_on(client.subscribe(inbox.clone()))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            link,
            stream: stream.to_owned(),
            name,
            inbox,
            messages,
        })
    }

    fn ask(&self, batch: usize, wait: Option<Duration>) -> Result<(), String> {
        let body = match wait {
            Some(wait) => json!({"batch": batch, "expires": nanoseconds(wait)}),
            None => json!({"batch": batch, "no_wait": true}),
        };
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", self.stream, self.name);
        let body = body.to_string().into_bytes();
        let client = &self.link.client;
        self.link
            .block_on(async {
                client
                    .publish_with_reply(subject, self.inbox.clone(), body.into())
                    .await?;
                client
                    .flush()
                    .await
                    .map_err(|error| error.to_string().into())
            })
            .map_err(|error: Box<dyn std::error::Error + Send + Sync>| error.to_string())
    }

    /// The next message of what was asked for.
    fn next(&mut self, limit: Duration) -> Result<Pulled, String> {
        use futures_util::StreamExt;
        let messages = &mut self.messages;
        let next = async { tokio::time::timeout(limit, messages.next()).await };
        match self.link.block_on(next) {
            Err(_) => Err("no answer".to_owned()),
            Ok(None) => Err("the connection was lost".to_owned()),
            Ok(Some(message)) => match message.status {
                None => Ok(Pulled::Message(Box::new(message))),
                Some(StatusCode::NOT_FOUND | StatusCode::TIMEOUT) => Ok(Pulled::Nothing),
                Some(code) => Err(format!("the consumer is gone ({code})")),
            },
        }
    }
}

fn missing(stream: &str, fault: &Fault) -> String {
    match fault {
        Fault::Refused(NO_STREAM, _) => format!("there is no stream '{stream}'"),
        other => other.to_string(),
    }
}

/// When the server stored a message: the eighth part of where it is acknowledged, or the sixth from its end.
fn stored_at(message: &Message) -> SystemTime {
    let reply = message.reply.as_ref().map_or("", |reply| reply.as_str());
    let parts: Vec<&str> = reply.split('.').collect();
    // $JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<sequence>.<time>.<pending>
    let at = if parts.len() == 9 {
        parts.get(7)
    } else {
        parts.get(9)
    };
    let nanoseconds = at.and_then(|text| text.parse().ok()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds)
}

fn seen(message: &Message) -> Option<Seen> {
    let event = serde_json::from_slice(&message.payload).ok()?;
    Some(Seen {
        at: stored_at(message),
        event,
    })
}

/// Reads for itself; the server forgets it when it has gone.
pub(crate) struct Reader {
    consumer: Consumer,
}

impl Reader {
    pub(crate) fn open(
        url: &Url,
        proof: &Proof,
        allow_private: bool,
        limit: Duration,
        extent: Extent,
    ) -> Result<Self, String> {
        let link = Link::open(url, proof, allow_private, limit)?;
        let stream = url.stream.as_str();
        let policy = match extent {
            Extent::Latest => "last_per_subject",
            Extent::All => "all",
        };
        let config = json!({
            "stream_name": stream,
            "config": {
                "deliver_policy": policy, "ack_policy": "none", "replay_policy": "instant",
                "filter_subject": format!("{stream}.>"), "inactive_threshold": nanoseconds(FORGOTTEN), "mem_storage": true,
                "num_replicas": 1,
            },
        });
        let made = link.api(&format!("CONSUMER.CREATE.{stream}"), &config);
        let made = made.map_err(|fault| missing(stream, &fault))?;
        let name = made["name"].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            consumer: Consumer::new(link, stream, name)?,
        })
    }
}

impl source::Reader for Reader {
    fn read(&mut self, wait: Option<Duration>) -> Result<Vec<Seen>, String> {
        let mut found = Vec::new();
        loop {
            self.consumer.ask(BATCH, None)?;
            let mut count = 0;
            while count < BATCH {
                match self.consumer.next(crate::notify::broker::LIMIT)? {
                    Pulled::Message(message) => found.extend(seen(&message)),
                    Pulled::Nothing => break,
                }
                count += 1;
            }
            if count < BATCH {
                break;
            }
        }
        if let (true, Some(wait)) = (found.is_empty(), wait) {
            let wait = wait.clamp(Duration::from_millis(10), PULL);
            self.consumer.ask(1, Some(wait))?;
            if let Pulled::Message(message) = self.consumer.next(wait + PULL)? {
                found.extend(seen(&message));
            }
        }
        Ok(found)
    }
}

/// One of many readers that share the work: each message goes to one of them, and to another if it is not acknowledged.
pub(crate) struct Member {
    consumer: Consumer,
    current: Option<Box<Message>>,
}

impl Member {
    pub(crate) fn join(
        url: &Url,
        proof: &Proof,
        allow_private: bool,
        limit: Duration,
        group: &str,
    ) -> Result<Self, String> {
        let link = Link::open(url, proof, allow_private, limit)?;
        let stream = url.stream.as_str();
        let info = link.api(&format!("CONSUMER.INFO.{stream}.{group}"), &json!({}));
        if info.is_err() {
            let config = json!({
                "stream_name": stream,
                "config": {
                    "durable_name": group, "deliver_policy": "new", "ack_policy": "explicit", "replay_policy": "instant",
                    "filter_subject": format!("{stream}.*.*.*.exit"), "ack_wait": nanoseconds(HELD), "max_deliver": -1,
                    "max_ack_pending": 10_000,
                },
            });
            let made = link.api(
                &format!("CONSUMER.DURABLE.CREATE.{stream}.{group}"),
                &config,
            );
            made.map_err(|fault| missing(stream, &fault))?;
        }
        Ok(Self {
            consumer: Consumer::new(link, stream, group.to_owned())?,
            current: None,
        })
    }
}

impl source::Member for Member {
    fn next(&mut self, wait: Duration) -> Result<Option<Value>, String> {
        let wait = wait.clamp(Duration::from_millis(10), PULL);
        let until = Instant::now() + wait;
        self.consumer.ask(1, Some(wait))?;
        let left = until.saturating_duration_since(Instant::now()) + PULL;
        match self.consumer.next(left)? {
            Pulled::Nothing => Ok(None),
            Pulled::Message(message) => {
                let event = serde_json::from_slice(&message.payload).ok();
                self.current = Some(message);
                match event {
                    Some(event) => Ok(Some(event)),
                    // Nobody could ever deliver it.
                    None => self.answer("+TERM").map(|()| None),
                }
            }
        }
    }

    fn settle(&mut self) -> Result<(), String> {
        self.answer("+ACK")
    }

    fn give_back(&mut self, pause: Duration) -> Result<(), String> {
        self.answer(&format!("-NAK {{\"delay\": {}}}", nanoseconds(pause)))
    }
}

impl Member {
    fn answer(&mut self, word: &str) -> Result<(), String> {
        let Some(reply) = self
            .current
            .take()
            .and_then(|message| message.reply.clone())
        else {
            return Ok(());
        };
        let client = self.consumer.link.client.clone();
        let body = word.to_owned().into_bytes();
        // Asked for an answer, the server says when it has noted it: an acknowledgement that is lost would be a repetition.
        let done = async {
            let asked = client.request(reply, body.into());
            tokio::time::timeout(crate::notify::broker::LIMIT, asked).await
        };
        match self.consumer.link.block_on(done) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("an acknowledgement was not answered".to_owned()),
        }
    }
}

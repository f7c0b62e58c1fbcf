//! Reading a Redis stream.

use std::time::{Duration, SystemTime};

use redis::{Connection, FromRedisValue, RedisError, Value as Reply};
use serde_json::Value;

use super::source::{self, Seen};
use crate::notify::broker::{LIMIT, Proof, Url};
use crate::notify::redis::{open, words};
use crate::sys::fsx;

const BATCH: usize = 1000;
/// For how long an entry is one reader's alone, in milliseconds.
const HELD: u64 = 30_000;
/// How long a read waits at most; less than a connection's own limit.
const BLOCK: Duration = Duration::from_secs(5);

struct Entry {
    id: String,
    kind: String,
    event: Option<Value>,
}

/// The entries of a reply: `[[id, [field, value, …]], …]`. A deleted one has no fields.
fn entries(reply: &Reply) -> Vec<Entry> {
    let Reply::Array(items) = reply else {
        return Vec::new();
    };
    let entry = |item: &Reply| -> Option<Entry> {
        let Reply::Array(parts) = item else {
            return None;
        };
        let text = |reply: &Reply| String::from_redis_value(reply.clone()).ok();
        let mut entry = Entry {
            id: text(parts.first()?)?,
            kind: String::new(),
            event: None,
        };
        if let Some(Reply::Array(fields)) = parts.get(1) {
            for pair in fields.chunks_exact(2) {
                match text(&pair[0])?.as_str() {
                    "type" => entry.kind = text(&pair[1])?,
                    "event" => entry.event = serde_json::from_str(&text(&pair[1])?).ok(),
                    _ => {}
                }
            }
        }
        Some(entry)
    };
    items.iter().filter_map(entry).collect()
}

/// The entries of one stream in the reply of a read: `[[stream, entries]]`, or nothing.
fn of_stream(reply: &Reply) -> Vec<Entry> {
    let Reply::Array(streams) = reply else {
        return Vec::new();
    };
    match streams.first() {
        Some(Reply::Array(parts)) => parts.get(1).map(entries).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn say(error: &RedisError) -> String {
    words(error, LIMIT)
}

fn milliseconds(wait: Duration) -> u64 {
    let wait = wait.clamp(Duration::from_millis(1), BLOCK);
    u64::try_from(wait.as_millis()).unwrap_or(1)
}

pub(crate) struct Reader {
    connection: Connection,
    stream: String,
    last: String,
}

impl Reader {
    pub(crate) fn open(
        url: &Url,
        proof: &Proof,
        allow_private: bool,
        limit: Duration,
    ) -> Result<Self, String> {
        let mut connection = open(url, proof, allow_private, limit)?;
        let there: u64 = redis::cmd("EXISTS")
            .arg(&url.stream)
            .query(&mut connection)
            .map_err(|error| say(&error))?;
        if there == 0 {
            return Err(format!("there is no stream '{}'", url.stream));
        }
        Ok(Self {
            connection,
            stream: url.stream.clone(),
            last: "0-0".to_owned(),
        })
    }

    fn ask(&mut self, block: Option<Duration>) -> Result<Vec<Entry>, String> {
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(BATCH);
        if let Some(wait) = block {
            command.arg("BLOCK").arg(milliseconds(wait));
        }
        command.arg("STREAMS").arg(&self.stream).arg(&self.last);
        let reply: Reply = command
            .query(&mut self.connection)
            .map_err(|error| say(&error))?;
        let found = of_stream(&reply);
        if let Some(entry) = found.last() {
            self.last.clone_from(&entry.id);
        }
        Ok(found)
    }
}

impl source::Reader for Reader {
    fn read(&mut self, wait: Option<Duration>) -> Result<Vec<Seen>, String> {
        let mut found = Vec::new();
        loop {
            let some = self.ask(None)?;
            let whole = some.len() == BATCH;
            found.extend(some.into_iter().filter_map(seen));
            if !whole {
                break;
            }
        }
        if found.is_empty() && wait.is_some() {
            found.extend(self.ask(wait)?.into_iter().filter_map(seen));
        }
        Ok(found)
    }
}

/// An entry's id begins with the server's time.
fn seen(entry: Entry) -> Option<Seen> {
    let at = entry.id.split('-').next()?.parse().ok()?;
    Some(Seen {
        at: SystemTime::UNIX_EPOCH + Duration::from_millis(at),
        event: entry.event?,
    })
}

/// One of many readers that share the work: each entry goes to one of them, and to another if it is not acknowledged.
pub(crate) struct Member {
    connection: Connection,
    stream: String,
    group: String,
    /// What the server calls this reader.
    name: String,
    current: Option<String>,
}

impl Member {
    pub(crate) fn join(
        url: &Url,
        proof: &Proof,
        allow_private: bool,
        limit: Duration,
        group: &str,
    ) -> Result<Self, String> {
        let mut connection = open(url, proof, allow_private, limit)?;
        let made: Result<(), RedisError> = redis::cmd("XGROUP")
            .arg("CREATE")
            .arg(&url.stream)
            .arg(group)
            .arg("$")
            .arg("MKSTREAM")
            .query(&mut connection);
        match made {
            Err(error) if error.code() != Some("BUSYGROUP") => return Err(say(&error)),
            _ => {}
        }
        Ok(Self {
            connection,
            stream: url.stream.clone(),
            group: group.to_owned(),
            name: format!("{}-{:08x}", std::process::id(), fsx::random()),
            current: None,
        })
    }
}

impl Member {
    /// Starts and signs of life wake nobody.
    fn take(&mut self, entry: Entry) -> Result<Option<Value>, String> {
        self.current = Some(entry.id);
        let is_end = [
            "dev.agent-sh.job.exited.v1",
            "dev.agent-sh.command.killed.v1",
        ];
        match entry
            .event
            .filter(|_| is_end.contains(&entry.kind.as_str()))
        {
            Some(event) => Ok(Some(event)),
            None => source::Member::settle(self).map(|()| None),
        }
    }
}

impl source::Member for Member {
    /// First one that a reader held for too long, then a new one.
    fn next(&mut self, wait: Duration) -> Result<Option<Value>, String> {
        let reply: Reply = redis::cmd("XAUTOCLAIM")
            .arg(&self.stream)
            .arg(&self.group)
            .arg(&self.name)
            .arg(HELD)
            .arg("0-0")
            .arg("COUNT")
            .arg(1)
            .query(&mut self.connection)
            .map_err(|error| say(&error))?;
        let claimed = match &reply {
            Reply::Array(parts) => parts.get(1).map(entries).unwrap_or_default(),
            _ => Vec::new(),
        };
        if let Some(entry) = claimed.into_iter().next() {
            return self.take(entry);
        }
        let reply: Reply = redis::cmd("XREADGROUP")
            .arg("GROUP")
            .arg(&self.group)
            .arg(&self.name)
            .arg("COUNT")
            .arg(1)
            .arg("BLOCK")
            .arg(milliseconds(wait))
            .arg("STREAMS")
            .arg(&self.stream)
            .arg(">")
            .query(&mut self.connection)
            .map_err(|error| say(&error))?;
        match of_stream(&reply).into_iter().next() {
            Some(entry) => self.take(entry),
            None => Ok(None),
        }
    }

    fn settle(&mut self) -> Result<(), String> {
        let Some(entry) = self.current.take() else {
            return Ok(());
        };
        redis::cmd("XACK")
            .arg(&self.stream)
            .arg(&self.group)
            .arg(entry)
            .query::<u64>(&mut self.connection)
            .map(drop)
            .map_err(|error| say(&error))
    }

    /// It is claimed again when it was held for too long, by whoever comes first.
    fn give_back(&mut self, _pause: Duration) -> Result<(), String> {
        self.current = None;
        Ok(())
    }
}

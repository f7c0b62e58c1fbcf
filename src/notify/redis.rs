//! Redis Streams. One entry per event, with the fields `id`, `type` and `event`.
//!
//! An event is added by a script that looks first whether it is there: a key beside the stream remembers each id for as
//! long as a helper may come back with it. Redis runs a script as one step, so two helpers cannot both find nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use redis::{
    Client, Connection, ConnectionAddr, ErrorKind, IntoConnectionInfo, RedisConnectionInfo,
    RedisError,
};

use super::broker::{Message, Proof, Url, failed};
use super::{Sent, tls};
use crate::store::outbox::Subscription;
use crate::text;

/// How many entries a stream keeps, about.
const MOST: u64 = 1_000_000;
/// For how long an event is recognised.
const REMEMBERED: Duration = Duration::from_secs(86_400);

/// The marker comes last: if there is no room for the entry, nothing may say that it is there.
const ADD: &str = "\
if redis.call('EXISTS', KEYS[2]) == 1 then return '' end
local entry = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'id', ARGV[3], 'type', ARGV[4], 'event', ARGV[5])
redis.call('SET', KEYS[2], entry, 'EX', ARGV[2])
return entry";

pub(crate) fn open(
    url: &Url,
    proof: &Proof,
    allow_private: bool,
    limit: Duration,
) -> Result<Connection, String> {
    let addresses = url.addresses(allow_private)?;
    let address = match (url.encrypted, addresses.first()) {
        (true, _) => {
            tls::provide();
            ConnectionAddr::TcpTls {
                host: url.host.clone(),
                port: url.port,
                insecure: false,
                tls_params: None,
            }
        }
        // The very address that was looked at.
        (false, Some(address)) => ConnectionAddr::Tcp(address.ip().to_string(), url.port),
        (false, None) => return Err("no such host".to_owned()),
    };
    let mut settings = RedisConnectionInfo::default().set_db(url.db);
    if let Some(user) = &url.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &proof.password {
        settings = settings.set_password(password);
    }
    let say = |error: RedisError| words(&error, limit);
    let info = address
        .into_connection_info()
        .map_err(say)?
        .set_redis_settings(settings);
    let client = Client::open(info).map_err(say)?;
    let connection = client.get_connection_with_timeout(limit).map_err(say)?;
    connection.set_read_timeout(Some(limit)).map_err(say)?;
    connection.set_write_timeout(Some(limit)).map_err(say)?;
    Ok(connection)
}

/// The reason in words, without what was sent.
pub(crate) fn words(error: &RedisError, limit: Duration) -> String {
    if error.is_timeout() {
        return format!("no answer within {}", text::short_duration(limit));
    }
    let detail = error.detail().unwrap_or_default();
    let code = error.code().unwrap_or_default();
    match (error.kind(), code) {
        (ErrorKind::AuthenticationFailed, _) | (_, "WRONGPASS" | "NOAUTH") => {
            "the server refuses these credentials".to_owned()
        }
        (_, "NOPERM") => format!("this user may not do that: {detail}"),
        (_, "OOM") => "it has no memory left for more".to_owned(),
        (ErrorKind::Io, _) if error.to_string().contains("ertificate") => {
            format!("TLS failed: {error}")
        }
        (ErrorKind::Io, _) => format!("cannot connect: {error}"),
        _ => error.to_string(),
    }
}

/// Which connection a thread has, and the last sign of life of each job, to be taken back with the next.
struct Held {
    name: (String, Option<PathBuf>),
    connection: Connection,
    beats: HashMap<String, String>,
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
        let name = (url.to_string(), sub.password_file.clone());
        let fits = |held: &Held| held.name == name && Instant::now() < held.until;
        if !held.as_ref().is_some_and(fits) {
            let beats = held.take().map(|held| held.beats).unwrap_or_default();
            let proof = Proof::read(None, sub.password_file.as_deref());
            match proof.and_then(|proof| open(url, &proof, sub.allow_private, limit)) {
                Ok(connection) => {
                    *held = Some(Held {
                        name,
                        connection,
                        beats,
                        until: Instant::now() + LONGEST,
                    });
                }
                Err(why) => return failed(url, &why),
            }
        }
        let Some(link) = held else {
            return failed(url, "not connected");
        };
        match put(link, &url.stream, message) {
            Ok(()) => Sent::Delivered,
            Err(error) => {
                let why = words(&error, limit);
                link.until = Instant::now();
                failed(url, &why)
            }
        }
    })
}

fn put(held: &mut Held, stream: &str, message: &Message<'_>) -> Result<(), RedisError> {
    let unique = message.unique();
    // In a cluster both keys must be in one place: what is in braces decides.
    let marker = format!("{{{stream}}}:seen:{unique}");
    let entry: String = redis::cmd("EVAL")
        .arg(ADD)
        .arg(2)
        .arg(stream)
        .arg(marker)
        .arg(MOST)
        .arg(REMEMBERED.as_secs())
        .arg(&unique)
        .arg(message.type_name())
        .arg(&message.event.json)
        .query(&mut held.connection)?;
    if message.kind() == "beat" {
        let old = held.beats.insert(message.job().to_owned(), entry);
        withdraw(held, stream, old);
    }
    Ok(())
}

/// Of signs of life only the last one counts; one too many does no harm.
fn withdraw(held: &mut Held, stream: &str, entry: Option<String>) {
    if let Some(entry) = entry.filter(|entry| !entry.is_empty()) {
        let deleted = redis::cmd("XDEL")
            .arg(stream)
            .arg(entry)
            .query::<u64>(&mut held.connection);
        drop(deleted);
    }
}

/// The job has ended: its last sign of life need not stay.
pub(super) fn forget(url: &Url, job: &str) {
    HELD.with_borrow_mut(|held| {
        if let Some(held) = held.as_mut().filter(|held| held.name.0 == url.to_string()) {
            let entry = held.beats.remove(job);
            withdraw(held, &url.stream, entry);
        }
    });
}

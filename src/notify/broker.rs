//! `nats://`, `tls://`, `redis://`, `rediss://`: streams of a broker that others read.
//!
//! What the engines have in common: the address, the credentials, which of them may be reached, what an event is called
//! there. A broker keeps an event once, however often it is sent: the helper that sends may die before it has noted the
//! answer, and the next one sends again.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::str::FromStr;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use super::address::{Forbidden, Guard, Place, place};
use super::{Event, Sent, sign};
use crate::job::JobId;
use crate::store::outbox::Subscription;
use crate::text;

/// How long one exchange may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);
const LONGEST_NAME: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Nats,
    Redis,
}

/// Where a stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    text: String,
    pub engine: Engine,
    pub encrypted: bool,
    pub user: Option<String>,
    /// Without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
    /// Redis alone.
    pub db: i64,
    pub stream: String,
}

const SCHEMES: [(&str, Engine, bool, u16); 4] = [
    ("nats", Engine::Nats, false, 4222),
    ("tls", Engine::Nats, true, 4222),
    ("redis", Engine::Redis, false, 6379),
    ("rediss", Engine::Redis, true, 6379),
];

/// Whether a text begins like one of ours.
pub(super) fn is_scheme(scheme: &str) -> bool {
    SCHEMES.iter().any(|(known, ..)| *known == scheme)
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("this address {why}");
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("has no host"))?;
        let known = SCHEMES.iter().find(|(known, ..)| *known == scheme);
        let &(_, engine, encrypted, port) = known.ok_or_else(|| wrong("is none of a broker"))?;
        let form = match engine {
            Engine::Nats => "is not of the form nats://[USER@]HOST[:PORT]/STREAM",
            Engine::Redis => "is not of the form redis://[USER@]HOST[:PORT]/DB/STREAM",
        };
        let (authority, path) = rest.split_once('/').ok_or_else(|| wrong(form))?;
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        if user.is_some_and(|user| user.contains(':')) {
            return Err(wrong(
                "has a password in it; '--password-file FILE' names a file with it",
            ));
        }
        let (host, port) = host_and_port(place, port).ok_or_else(|| wrong(form))?;
        let (db, stream) = match engine {
            Engine::Nats => (0, path),
            Engine::Redis => {
                let (db, stream) = path.split_once('/').ok_or_else(|| wrong(form))?;
                let db = db.parse().ok().filter(|db| (0..=65_535).contains(db));
                (
                    db.ok_or_else(|| wrong("has a database that is no number"))?,
                    stream,
                )
            }
        };
        let more: &[u8] = if engine == Engine::Redis { b":." } else { b"" };
        let plain = |byte: u8| {
            byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || more.contains(&byte)
        };
        if stream.is_empty() || stream.len() > LONGEST_NAME || !stream.bytes().all(plain) {
            return Err(wrong(
                "has no stream of letters, digits, '-' and '_' at its end",
            ));
        }
        Ok(Self {
            text: text.to_owned(),
            engine,
            encrypted,
            user: user.filter(|user| !user.is_empty()).map(str::to_owned),
            host: host.to_owned(),
            port,
            db,
            stream: stream.to_owned(),
        })
    }
}

fn host_and_port(text: &str, usual: u16) -> Option<(&str, u16)> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|&port| port > 0)?,
        None if rest.is_empty() => usual,
        None => return None,
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    (!host.is_empty() && host.bytes().all(plain)).then_some((host, port))
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Url {
    fn is_loopback(&self) -> bool {
        let is_loopback = |ip: IpAddr| place(ip) == Place::Loopback;
        self.host.eq_ignore_ascii_case("localhost") || self.host.parse().is_ok_and(is_loopback)
    }

    /// Whom to name in a message.
    #[must_use]
    pub fn server(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The addresses that may be connected to. Not encrypted: this machine, and private networks where they are allowed.
    pub(crate) fn addresses(&self, allow_private: bool) -> Result<Vec<SocketAddr>, String> {
        let guard = Guard {
            loopback: self.is_loopback(),
            allow_private,
        };
        let found = resolve(&self.host, self.port)?;
        let mut allowed = Vec::new();
        for address in found {
            if !guard.allows(address.ip()) {
                return Err(format!("{}: {}", self.server(), Forbidden(address.ip())));
            }
            if !self.encrypted && place(address.ip()) == Place::Public {
                let name = if self.engine == Engine::Nats {
                    "tls"
                } else {
                    "rediss"
                };
                return Err(format!(
                    "{}: it is at a public address ({}), which only {name}:// may reach",
                    self.server(),
                    address.ip()
                ));
            }
            allowed.push(address);
        }
        Ok(allowed)
    }
}

/// Asks for the addresses of a name, for a limited time: the system's resolver has no limit of its own.
fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    if let Ok(ip) = host.parse() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let (tell, told) = mpsc::channel();
    let name = (host.to_owned(), port);
    let ask = move || {
        let found = name.to_socket_addrs().map(|found| found.take(16).collect());
        drop(tell.send(found));
    };
    let thread = std::thread::Builder::new().stack_size(256 * 1024);
    thread
        .spawn(ask)
        .map_err(|error| crate::error::cause(&error))?;
    match told.recv_timeout(LIMIT) {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(format!(
            "{host}: no such host ({})",
            crate::error::cause(&error)
        )),
        Err(_) => Err(format!("{host}: the name server does not answer")),
    }
}

/// What proves who we are. Read anew for each connection: files are replaced.
#[derive(Clone, Default)]
pub(crate) struct Proof {
    pub(crate) password: Option<String>,
    pub(crate) creds: Option<String>,
}

impl Proof {
    pub(crate) fn read(creds: Option<&Path>, password: Option<&Path>) -> Result<Self, String> {
        let read =
            |path: Option<&Path>, what| path.map(|path| sign::read_private(path, what)).transpose();
        let password = read(password, "the password")?;
        Ok(Self {
            password: password.map(|text| text.trim_end_matches(['\r', '\n']).to_owned()),
            creds: read(creds, "the credentials")?,
        })
    }
}

/// Whether a subscription's files fit its broker and can be used.
pub(super) fn check(url: &Url, sub: &Subscription) -> Result<(), String> {
    if url.engine == Engine::Redis && sub.creds_file.is_some() {
        return Err("--creds-file is for NATS; Redis takes --password-file".to_owned());
    }
    if url.user.is_some() && sub.password_file.is_none() {
        return Err("an address with a user needs --password-file".to_owned());
    }
    Proof::read(sub.creds_file.as_deref(), sub.password_file.as_deref()).map(drop)
}

/// An event on its way to a broker.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) event: &'a Event,
    pub(crate) value: Value,
}

impl<'a> Message<'a> {
    pub(crate) fn new(event: &'a Event) -> Self {
        let value = serde_json::from_str(&event.json).unwrap_or_default();
        Self { event, value }
    }

    fn attribute(&self, name: &str) -> &str {
        self.value[name].as_str().unwrap_or_default()
    }

    pub(crate) fn kind(&self) -> &'static str {
        let kind = self.attribute("type");
        let kind = kind.strip_prefix("dev.agent-sh.").unwrap_or(kind);
        match kind {
            "job.started.v1" => "start",
            "job.exited.v1" | "command.killed.v1" => "exit",
            "job.beat.v1" => "beat",
            "notify.test.v1" => "test",
            _ => "output",
        }
    }

    /// There is one of each job.
    pub(crate) fn is_single(&self) -> bool {
        ["start", "exit"].contains(&self.kind())
    }

    pub(crate) fn type_name(&self) -> &str {
        self.attribute("type")
    }

    pub(crate) fn job(&self) -> &str {
        self.attribute("subject")
    }

    /// `<source>/<id>`: never the same for two events, always the same for one.
    pub(crate) fn unique(&self) -> String {
        format!("{}/{}", self.attribute("source"), self.event.id)
    }

    /// `STREAM.<machine>.<session>.<job>.<kind>`
    pub(crate) fn subject(&self, stream: &str) -> String {
        let session = match self.attribute("correlationid") {
            "" => "none".to_owned(),
            key => token(key),
        };
        let machine = machine_of(self.attribute("source"));
        format!(
            "{stream}.{machine}.{session}.{}.{}",
            token(self.job()),
            self.kind()
        )
    }
}

/// The machine and the store of a source, as one word.
#[must_use]
pub(crate) fn machine_of(source: &str) -> String {
    let parts = source.strip_prefix("urn:agent-sh:").unwrap_or(source);
    let mut parts = parts.split(':');
    let (machine, store) = (parts.next().unwrap_or_default(), parts.nth(1));
    match store {
        Some(store) => token(&format!("{machine}-{store}")),
        None => token(machine),
    }
}

/// A word that may stand between two dots of a subject.
#[must_use]
pub(crate) fn token(text: &str) -> String {
    use fmt::Write;
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) {
            token.push(char::from(byte));
        } else {
            let _ = write!(token, "={byte:02X}");
        }
    }
    token
}

/// Why something could not be done, short enough for a list.
pub(super) fn failed(url: &Url, why: &str) -> Sent {
    Sent::failed(format!("{}: {}", url.server(), text::shorten(why, 200)))
}

pub(super) fn send(url: &Url, sub: &Subscription, event: &Event, limit: Duration) -> Sent {
    let message = Message::new(event);
    let limit = limit.min(LIMIT).max(Duration::from_secs(1));
    match url.engine {
        #[cfg(feature = "nats")]
        Engine::Nats => super::nats::publish(url, sub, &message, limit),
        #[cfg(feature = "redis")]
        Engine::Redis => super::redis::publish(url, sub, &message, limit),
        #[cfg(not(all(feature = "nats", feature = "redis")))]
        _ => Sent::Refused("this agent-sh was built without that broker".to_owned()),
    }
}

/// A job has ended: what only said that it lives may go.
pub(super) fn forget(url: &Url, job: &JobId) {
    #[cfg(feature = "redis")]
    if url.engine == Engine::Redis {
        super::redis::forget(url, job.as_str());
    }
    let _ = (url, job);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (text, host, port, db, stream, user) in [
            ("nats://127.0.0.1/JOBS", "127.0.0.1", 4222, 0, "JOBS", None),
            (
                "tls://nats.example.com:4443/a-b_c",
                "nats.example.com",
                4443,
                0,
                "a-b_c",
                None,
            ),
            (
                "redis://localhost/3/jobs:all",
                "localhost",
                6379,
                3,
                "jobs:all",
                None,
            ),
            (
                "rediss://me@[::1]:7000/0/jobs",
                "::1",
                7000,
                0,
                "jobs",
                Some("me"),
            ),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((url.host.as_str(), url.port), (host, port), "{text}");
            assert_eq!(
                (url.db, url.stream.as_str(), url.user.as_deref()),
                (db, stream, user)
            );
            assert_eq!(url.to_string(), text);
        }
        for text in [
            "nats://",
            "nats://host",
            "nats://host/",
            "nats:///JOBS",
            "nats://host:0/JOBS",
            "nats://host:x/JOBS",
            "nats://host/a.b",
            "nats://host/a/b",
            "nats://me:secret@host/JOBS",
            "redis://host/jobs",
            "redis://host/x/jobs",
            "redis://host/-1/jobs",
            "redis://host/0/a b",
            "redis://ho st/0/a",
        ] {
            let why = text.parse::<Url>().unwrap_err();
            assert!(!why.contains("secret"), "{why}");
        }
    }

    #[test]
    fn only_encrypted_to_the_public() {
        let allowed = |text: &str, private| text.parse::<Url>().unwrap().addresses(private).is_ok();
        assert!(allowed("nats://127.0.0.1/J", false) && allowed("redis://[::1]/0/j", false));
        assert!(!allowed("nats://10.0.0.1/J", false) && allowed("nats://10.0.0.1/J", true));
        assert!(!allowed("nats://8.8.8.8/J", true) && allowed("tls://8.8.8.8/J", false));
        assert!(!allowed("rediss://169.254.169.254/0/j", true));
    }

    #[test]
    fn subjects_have_plain_tokens() {
        let event = Event {
            id: "7f3k2m.exit".to_owned(),
            json: serde_json::json!({
                "source": "urn:agent-sh:abc:1000:s7", "type": "dev.agent-sh.job.exited.v1", "subject": "7f3k2m",
                "correlationid": "a.b *>é",
            })
            .to_string(),
            notice: String::new(),
        };
        let message = Message::new(&event);
        assert_eq!(
            message.subject("JOBS"),
            "JOBS.abc-s7.a=2Eb=20=2A=3E=C3=A9.7f3k2m.exit"
        );
        assert_eq!(message.unique(), "urn:agent-sh:abc:1000:s7/7f3k2m.exit");
        assert_eq!(machine_of("urn:agent-sh:abc:1000"), "abc");
    }
}

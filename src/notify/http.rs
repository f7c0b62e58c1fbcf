//! `https://` and `http://`: a signed CloudEvent in structured mode, by the Standard Webhooks rules.
//!
//! | answer | what it means |
//! | --- | --- |
//! | 2xx | delivered |
//! | 410 | the receiver wants no more: the subscription is disabled |
//! | 408, 425, 429, 5xx, no answer | tried again later; `Retry-After` is kept |
//! | any other, redirects too | this event is dead: the same request would be refused again |

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::unversioned::transport::DefaultConnector;

use super::address::{Guard, Place, place};
use super::sign::Secret;
use super::template::{Template, Words};
use super::{Event, Sent};
use crate::store::outbox::Subscription;
use crate::sys::clock;

const LIMIT: Duration = Duration::from_secs(15);
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);
const CONTENT_TYPE: &str = "application/cloudevents+json";
/// So much of an answer is read, for politeness, and thrown away.
const ANSWER: u64 = 4 * 1024;

/// A URL that may be called: no password in it, and encrypted unless it names this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    text: String,
    origin: String,
    loopback: bool,
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |why: &str| Err(format!("this URL {why}"));
        if text.contains('#') {
            return wrong("has a fragment");
        }
        let Ok(uri) = text.parse::<Uri>() else {
            return wrong("cannot be read");
        };
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return wrong("has no host");
        };
        if authority.as_str().contains('@') {
            return wrong("has a user or password in it, which requests must not carry");
        }
        let host = authority.host();
        if host.is_empty() || (authority.as_str().ends_with(':')) {
            return wrong("has no host");
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback = |ip| place(ip) == Place::Loopback;
        let loopback =
            bare.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_loopback);
        match scheme {
            "https" => {}
            "http" if loopback => {}
            "http" => {
                return wrong("is not encrypted; only this machine may be reached by http://");
            }
            _ => return wrong("is neither http nor https"),
        }
        Ok(Self {
            text: text.to_owned(),
            origin: format!("{scheme}://{authority}"),
            loopback,
        })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Url {
    /// What may be shown: a path or a query is often a password.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The port, if this machine itself is named.
    #[must_use]
    pub fn port_here(&self) -> Option<u16> {
        let uri = self.text.parse::<Uri>().ok().filter(|_| self.loopback)?;
        let usual = if self.is_encrypted() { 443 } else { 80 };
        Some(uri.port_u16().unwrap_or(usual))
    }

    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.text.starts_with("https:")
    }
}

/// The roots that this machine trusts, for as long as the process lives.
fn roots() -> RootCerts {
    let found = rustls_native_certs::load_native_certs();
    let certs: Vec<Certificate<'static>> = found
        .certs
        .iter()
        .map(|cert| Certificate::from_der(cert).to_owned())
        .collect();
    RootCerts::new_with_certs(&certs)
}

/// An agent that follows nothing, asks no proxy and connects only where it may.
fn agent(url: &Url, allow_private: bool, limit: Duration) -> Agent {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let tls = if url.is_encrypted() {
        tls.root_certs(roots())
    } else {
        tls.root_certs(RootCerts::new_with_certs(&[]))
    };
    let config = Agent::config_builder()
        .max_redirects(0)
        .http_status_as_error(false)
        .proxy(None)
        .timeout_global(Some(limit))
        .max_idle_connections(0)
        .max_response_header_size(16 * 1024)
        .user_agent(concat!("agent-sh/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls.build())
        .build();
    let guard = Guard {
        loopback: url.loopback,
        allow_private,
    };
    Agent::with_parts(config, DefaultConnector::default(), guard)
}

pub(super) fn post(url: &Url, sub: &Subscription, event: &Event, limit: Duration) -> Sent {
    let Some(path) = &sub.secret_file else {
        return Sent::Refused("the subscription has no secret to sign with".to_owned());
    };
    let secret = match Secret::read(path) {
        Ok(secret) => secret,
        Err(why) => return Sent::failed(why),
    };
    let timestamp = clock::wall()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let template = sub.template.as_deref().and_then(Template::named);
    let words = template.map_or_else(
        || Words {
            body: event.json.clone(),
            content_type: CONTENT_TYPE,
            headers: Vec::new(),
        },
        |template| template.words(event),
    );
    let signature = secret.sign(&event.id, timestamp, words.body.as_bytes());
    let limit = limit.min(LIMIT).max(Duration::from_secs(1));
    let mut request = agent(url, sub.allow_private, limit).post(&url.text);
    for (name, value) in &words.headers {
        request = request.header(*name, value);
    }
    let answer = request
        .header("content-type", words.content_type)
        .header("webhook-id", &event.id)
        .header("webhook-timestamp", timestamp.to_string())
        .header("webhook-signature", signature)
        .send(words.body.as_bytes());
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return Sent::failed(format!("{}: {}", url.origin, reason(&error, limit))),
    };
    judged(url, answer)
}

/// Posts a body to a receiver that knows no signatures.
pub(super) fn post_body(
    url: &Url,
    allow_private: bool,
    content_type: &str,
    body: &str,
    limit: Duration,
) -> Sent {
    let limit = limit.min(LIMIT).max(Duration::from_secs(1));
    let request = agent(url, allow_private, limit)
        .post(&url.text)
        .header("content-type", content_type);
    match request.send(body.as_bytes()) {
        Ok(answer) => judged(url, answer),
        Err(error) => Sent::failed(format!("{}: {}", url.origin, reason(&error, limit))),
    }
}

/// What an answer means; a short one is read to its end.
fn judged(url: &Url, mut answer: ureq::http::Response<ureq::Body>) -> Sent {
    let status = answer.status().as_u16();
    let header = |name| {
        answer
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let after = header("retry-after").and_then(|text| retry_after(text, clock::wall()));
    let length: Option<u64> = header("content-length").and_then(|text| text.parse().ok());
    if length.is_some_and(|length| length <= ANSWER) {
        drop(answer.body_mut().with_config().limit(ANSWER).read_to_vec());
    }
    outcome_of(&url.origin, status, after)
}

/// Posts JSON to a harness, unsigned: the status, or why there is none.
pub(crate) fn post_json(
    url: &Url,
    authorization: Option<&str>,
    body: &str,
    limit: Duration,
) -> Result<u16, String> {
    let mut request = agent(url, false, limit)
        .post(&url.text)
        .header("content-type", "application/json");
    if let Some(value) = authorization {
        request = request.header("authorization", value);
    }
    match request.send(body.as_bytes()) {
        Ok(answer) => Ok(answer.status().as_u16()),
        Err(error) => Err(format!("{}: {}", url.origin, reason(&error, limit))),
    }
}

/// What an answer means.
fn outcome_of(origin: &str, status: u16, after: Option<Duration>) -> Sent {
    let why = format!("{origin} answered {status}");
    match status {
        200..=299 => Sent::Delivered,
        410 => Sent::Unwanted(why),
        408 | 425 | 429 | 500..=599 => Sent::Failed(why, after),
        300..=399 => Sent::Refused(format!("{why}; redirects are not followed")),
        _ => Sent::Refused(why),
    }
}

/// Seconds, or a date.
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let asked = match text.trim().parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text)
            .ok()?
            .duration_since(now)
            .ok()?,
    };
    Some(asked.min(LONGEST_RETRY_AFTER))
}

/// The reason without what was asked for: a URL may be a password.
fn reason(error: &ureq::Error, limit: Duration) -> String {
    match error {
        ureq::Error::Timeout(_) => {
            format!("no answer within {}", crate::text::short_duration(limit))
        }
        ureq::Error::Io(error) => crate::error::cause(error),
        ureq::Error::HostNotFound => "no such host".to_owned(),
        ureq::Error::ConnectionFailed => "cannot connect".to_owned(),
        ureq::Error::Other(inner) => inner.to_string(),
        other => crate::text::shorten(&other.to_string(), 160),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for good in [
            "https://example.com",
            "https://example.com:8443/a?b=c",
            "http://localhost:9/",
            "http://127.0.0.1/x",
            "http://[::1]:80/",
            "https://10.0.0.1/",
        ] {
            assert!(good.parse::<Url>().is_ok(), "{good}");
        }
        for bad in [
            "http://example.com/",
            "http://10.0.0.1/",
            "https://u@example.com/",
            "https://u:p@example.com/",
            "https:///x",
            "https://example.com/#x",
            "http://127.0.0.1.example.com/",
            "http://localhost.example.com/",
            "not a url",
        ] {
            let why = bad.parse::<Url>().unwrap_err();
            assert!(!why.contains("u:p"), "{why}");
        }
        let url: Url = "https://hooks.example.com/T0/SECRET?key=SECRET"
            .parse()
            .unwrap();
        assert_eq!(url.origin(), "https://hooks.example.com");
    }

    #[test]
    fn answers() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        assert_eq!(outcome_of("o", 204, None), Sent::Delivered);
        assert!(matches!(outcome_of("o", 410, None), Sent::Unwanted(_)));
        for status in [301, 302, 307, 400, 401, 404] {
            assert!(
                matches!(outcome_of("o", status, None), Sent::Refused(_)),
                "{status}"
            );
        }
        let after = retry_after("7", now);
        for status in [408, 425, 429, 500, 503] {
            let sent = outcome_of("o", status, after);
            assert!(
                matches!(sent, Sent::Failed(_, Some(pause)) if pause.as_secs() == 7),
                "{status}"
            );
        }
        let date = "Thu, 01 Jan 1970 00:20:00 GMT";
        assert_eq!(retry_after(date, now), Some(Duration::from_secs(200)));
        assert_eq!(retry_after("soon", now), None);
        let long = retry_after("999999999", now);
        assert_eq!(long, Some(LONGEST_RETRY_AFTER));
        for strange in [
            "18446744073709551615",
            "18446744073709551616",
            "-1",
            "1e99",
            "",
            "Fri, 31 Dec 9999 23:59:59 GMT",
            "Thu, 99 Foo 99999 99:99:99 GMT",
            "Thu, 01 Jan 0000 00:00:00 GMT",
            "\u{202e}7",
        ] {
            let asked = retry_after(strange, now);
            assert!(
                asked.is_none_or(|asked| asked <= LONGEST_RETRY_AFTER),
                "{strange}"
            );
        }
    }
}

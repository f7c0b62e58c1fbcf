//! The text of a sink: `dir:/path`, `https://…`, `claude-code`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use sha2::Digest;

use super::agent::Kind;
use super::broker;
use super::http::Url;

/// Where events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// A program, the event on its stdin.
    Exec(PathBuf),
    Http(Url),
    /// A stream of a broker.
    Broker(broker::Url),
    /// A collector of traces and metrics.
    Otlp(Url),
    /// A socket, the event as one line.
    Unix(PathBuf),
    /// A directory, one file per event.
    Dir(PathBuf),
    /// The stdout of the verb that waits.
    Stdout,
    /// The agent that started the job.
    Agent(Kind),
}

/// What was typed, in an error.
fn shown_word(text: &str) -> String {
    crate::text::redact(&crate::text::shorten(text, 80))
}

const FORMS: &str = "a sink is exec:/PROGRAM, https://URL, http://URL, unix:/SOCKET, dir:/DIRECTORY, nats://HOST/STREAM, redis://HOST/DB/STREAM (tls://, rediss://), otlp:http://HOST:4318, stdout, claude-code, codex, opencode, agentapi or auto";

impl FromStr for Sink {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let absolute = |path: &str| {
            let path = PathBuf::from(path);
            if path.is_absolute() && !path.as_os_str().as_encoded_bytes().contains(&0) {
                Ok(path)
            } else {
                Err(format!("'{}' needs an absolute path", shown_word(text)))
            }
        };
        if let Some(kind) = Kind::from_word(text) {
            return Ok(Self::Agent(kind));
        }
        if text == "stdout" {
            return Ok(Self::Stdout);
        }
        match text.split_once(':') {
            Some(("exec", path)) => absolute(path).map(Self::Exec),
            Some(("unix", path)) => absolute(path).map(Self::Unix),
            Some(("dir", path)) => absolute(path).map(Self::Dir),
            Some((scheme, _))
                if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") =>
            {
                text.parse().map(Self::Http)
            }
            Some(("otlp", url)) => url.parse().map(Self::Otlp),
            Some((scheme, _)) if broker::is_scheme(scheme) => text.parse().map(Self::Broker),
            _ => {
                // Of what looks like a URL only the scheme: the rest may be a password.
                let shown = match text.split_once("://") {
                    Some((scheme, _)) => format!("{scheme}://…"),
                    None => text.to_owned(),
                };
                let shown = crate::text::shorten(&shown, 80);
                Err(format!("no sink '{shown}': {FORMS}"))
            }
        }
    }
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec(path) => write!(f, "exec:{}", path.display()),
            Self::Http(url) => write!(f, "{url}"),
            Self::Broker(url) => write!(f, "{url}"),
            Self::Otlp(url) => write!(f, "otlp:{url}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Dir(path) => write!(f, "dir:{}", path.display()),
            Self::Stdout => f.write_str("stdout"),
            Self::Agent(kind) => f.write_str(kind.word()),
        }
    }
}

/// A sink's text as it may be shown: of a URL only where it leads, for the rest is often a password.
#[must_use]
pub(crate) fn shown(text: &str) -> String {
    match text.parse() {
        Ok(Sink::Http(url)) => url.origin().to_owned(),
        Ok(Sink::Otlp(url)) => format!("otlp:{}", url.origin()),
        _ => shown_word(text),
    }
}

impl Sink {
    /// The name of a subscriber that nobody named: the same for the same sink.
    #[must_use]
    pub fn default_name(&self) -> String {
        let kind = match self {
            Self::Exec(_) => "exec",
            Self::Http(_) => "http",
            Self::Otlp(_) => "otlp",
            Self::Broker(url) => match url.engine {
                broker::Engine::Nats => "nats",
                broker::Engine::Redis => "redis",
            },
            Self::Unix(_) => "unix",
            Self::Dir(_) => "dir",
            Self::Stdout => "stdout",
            Self::Agent(kind) => return kind.word().to_owned(),
        };
        let hash = sha2::Sha256::digest(self.to_string().as_bytes());
        let short: String = hash
            .iter()
            .take(4)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{kind}-{short}")
    }

    /// Whether it also hears of starts, and that jobs live.
    #[must_use]
    pub fn hears_of_running(&self) -> bool {
        matches!(self, Self::Broker(_) | Self::Otlp(_))
    }

    /// Whether it is told in words, as the agent that asked.
    #[must_use]
    pub fn is_agent(&self) -> bool {
        matches!(self, Self::Agent(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinks_are_read_and_written() {
        for text in [
            "exec:/bin/true",
            "unix:/run/x.sock",
            "dir:/tmp/a b",
            "stdout",
            "claude-code",
            "codex",
            "opencode",
            "agentapi",
            "auto",
            "https://example.com/hook?x=1",
            "http://127.0.0.1:8080/",
            "nats://127.0.0.1:4222/JOBS",
            "otlp:http://127.0.0.1:4318",
            "rediss://me@example.com/0/jobs",
        ] {
            let sink: Sink = text.parse().unwrap();
            assert_eq!(sink.to_string(), text);
            assert!(
                crate::store::outbox::is_name(&sink.default_name()),
                "{text}"
            );
        }
        for bad in [
            "",
            "exec:true",
            "exec:",
            "dir:relative",
            "unix:@abstract",
            "ftp://x/",
            "nonsense",
            "gemini",
            "https://",
            "https://user:pass@example.com/",
            "http://example.com/",
            "file:///etc/passwd",
            "nats://127.0.0.1",
            "otlp:http://example.com:4318",
            "otlp:127.0.0.1:4318",
            "redis://me:secret@127.0.0.1/0/jobs",
        ] {
            assert!(bad.parse::<Sink>().is_err(), "{bad}");
        }
        let (one, other): (Sink, Sink) = ("dir:/a".parse().unwrap(), "dir:/b".parse().unwrap());
        assert_ne!(one.default_name(), other.default_name());
    }
}

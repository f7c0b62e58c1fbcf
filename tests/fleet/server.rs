//! Real brokers on loopback, each with a directory of its own, ended with the test.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{DEADLINE, Sandbox, has, wait_until};

/// A server, and how to start it again.
pub(super) struct Server {
    child: Child,
    command: Vec<String>,
    pub(super) port: u16,
    log: PathBuf,
}

impl Server {
    fn start(sandbox: &Sandbox, name: &str, port: u16, command: Vec<String>) -> Self {
        let log = sandbox.path(format!("{name}.log"));
        let child = spawn(&command, &log);
        let server = Self {
            child,
            command,
            port,
            log,
        };
        server.wait_for();
        server
    }

    fn wait_for(&self) {
        let log = || fs::read_to_string(&self.log).unwrap_or_default();
        wait_until(&format!("a server listens: {}", log()), || {
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    /// Ends it as a power cut would.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The same server with what it kept.
    pub(super) fn again(&mut self) {
        self.child = spawn(&self.command, &self.log);
        self.wait_for();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn spawn(command: &[String], log: &PathBuf) -> Child {
    let log = File::options().create(true).append(true).open(log).unwrap();
    Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// A port that nobody listens on now.
pub(super) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// NATS with JetStream; `more` is added to its settings.
pub(super) fn nats(sandbox: &Sandbox, more: &str) -> Option<Server> {
    if !has("nats-server") {
        return None;
    }
    let port = free_port();
    let dir = sandbox.path(format!("nats{port}"));
    let conf = sandbox.path(format!("nats{port}.conf"));
    let text = format!(
        "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\" }}\n{more}\n",
        dir.display()
    );
    fs::write(&conf, text).unwrap();
    let words = ["nats-server", "-c", conf.to_str().unwrap()];
    let words = words.map(str::to_owned).to_vec();
    Some(Server::start(sandbox, "nats", port, words))
}

pub(super) fn redis(sandbox: &Sandbox, more: &[&str]) -> Option<Server> {
    if !has("redis-server") || !has("redis-cli") {
        return None;
    }
    let port = free_port();
    let dir = sandbox.path(format!("redis{port}"));
    fs::create_dir(&dir).unwrap();
    let port_text = port.to_string();
    // Every write is on disk before it is answered: a killed server has what it said it has.
    let words = [
        "redis-server",
        "--port",
        &port_text,
        "--bind",
        "127.0.0.1",
        "--dir",
        dir.to_str().unwrap(),
        "--save",
        "",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ];
    let words = words.iter().chain(more).map(|word| (*word).to_owned());
    Some(Server::start(sandbox, "redis", port, words.collect()))
}

/// What `redis-cli` prints.
#[track_caller]
pub(super) fn redis_cli(server: &Server, args: &[&str]) -> String {
    let output = Command::new("redis-cli")
        .args(["-p", &server.port.to_string()])
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The events of a Redis stream, in order.
pub(super) fn redis_events(server: &Server, stream: &str) -> Vec<Value> {
    let text = redis_cli(server, &["xrange", stream, "-", "+"]);
    let events = text.lines().filter(|line| line.starts_with('{'));
    events
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The smallest client of NATS that can ask.
pub(super) struct Nats {
    stream: BufReader<TcpStream>,
}

/// A message with its headers.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) subject: String,
    pub(super) headers: String,
    pub(super) event: Value,
}

impl Nats {
    pub(super) fn new(server: &Server, connect: &Value) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut client = Self {
            stream: BufReader::new(stream),
        };
        client.line();
        let mut options = json!({"verbose": false, "headers": true, "no_responders": true});
        for (key, value) in connect.as_object().unwrap() {
            options[key] = value.clone();
        }
        client.write(&format!("CONNECT {options}\r\nSUB _INBOX.x 1\r\n"));
        client
    }

    fn write(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line
    }

    /// The body of the next message.
    fn next(&mut self) -> Vec<u8> {
        loop {
            let line = self.line();
            assert!(!line.starts_with("-ERR"), "{line}");
            if line.starts_with("PING") {
                self.write("PONG\r\n");
            } else if line.starts_with("MSG") || line.starts_with("HMSG") {
                let length: usize = line.split_whitespace().last().unwrap().parse().unwrap();
                let mut body = vec![0; length + 2];
                self.stream.read_exact(&mut body).unwrap();
                body.truncate(length);
                return body;
            }
        }
    }

    pub(super) fn api(&mut self, call: &str, body: &Value) -> Value {
        let body = body.to_string();
        let length = body.len();
        self.write(&format!(
            "PUB $JS.API.{call} _INBOX.x {length}\r\n{body}\r\n"
        ));
        serde_json::from_slice(&self.next()).unwrap()
    }

    /// Every message of a stream.
    pub(super) fn all(&mut self, stream: &str) -> Vec<Kept> {
        use base64::Engine;
        let info = self.api(&format!("STREAM.INFO.{stream}"), &json!({}));
        let Some(last) = info["state"]["last_seq"].as_u64() else {
            return Vec::new();
        };
        let first = info["state"]["first_seq"].as_u64().unwrap();
        let mut found = Vec::new();
        for seq in first..=last {
            let got = self.api(&format!("STREAM.MSG.GET.{stream}"), &json!({"seq": seq}));
            let message = &got["message"];
            if !message.is_object() {
                continue;
            }
            let text = |key: &str| {
                let text = message[key].as_str().unwrap_or_default();
                base64::engine::general_purpose::STANDARD
                    .decode(text)
                    .unwrap()
            };
            found.push(Kept {
                subject: message["subject"].as_str().unwrap().to_owned(),
                headers: String::from_utf8(text("hdrs")).unwrap(),
                event: serde_json::from_slice(&text("data")).unwrap(),
            });
        }
        found
    }
}

/// A server that takes connections and never says a word.
pub(super) fn mute() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// How long a broker may make a helper wait, with room.
pub(super) const PATIENCE: Duration = Duration::from_secs(55);

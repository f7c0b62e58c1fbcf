//! A web server of a few lines that does what it is told, also what no good server does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use hmac::{Hmac, Mac};

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) at: Instant,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// Checks the signature by the reference scheme, written down here once more.
    pub(super) fn is_signed_with(&self, secret: &str) -> bool {
        let base64 = base64::engine::general_purpose::STANDARD;
        let key = base64
            .decode(secret.trim().strip_prefix("whsec_").unwrap())
            .unwrap();
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
        let (id, time) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        mac.update(format!("{id}.{time}.").as_bytes());
        mac.update(&self.body);
        let signature = base64.encode(mac.finalize().into_bytes());
        self.header("webhook-signature") == format!("v1,{signature}")
    }

    pub(super) fn event(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What the server does with a request.
pub(super) enum Reply {
    Status(u16, &'static str),
    /// Only after this time.
    Late(Duration, u16),
    /// The connection is closed without a word.
    Hangup,
    /// Nothing, ever.
    Silence,
}

pub(super) struct Server {
    pub(super) port: u16,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Serves until the test's process ends.
    pub(super) fn start(reply: impl Fn(usize) -> Reply + Send + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), reply)
    }

    pub(super) fn on(
        listener: TcpListener,
        reply: impl Fn(usize) -> Reply + Send + 'static,
    ) -> Self {
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                serve(stream, &all, &reply);
            }
        });
        Self { port, seen }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a server that is slow on purpose"
)]
fn serve(stream: TcpStream, seen: &Mutex<Vec<Request>>, reply: &impl Fn(usize) -> Reply) {
    let Some(request) = read(&stream) else { return };
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(request);
        seen.len()
    };
    let mut stream = stream;
    let (status, extra) = match reply(number) {
        Reply::Status(status, extra) => (status, extra),
        Reply::Late(time, status) => {
            std::thread::sleep(time);
            (status, "")
        }
        Reply::Hangup => return,
        Reply::Silence => {
            std::thread::spawn(move || {
                // Until the other side gives up.
                drop(stream.read(&mut [0]));
            });
            return;
        }
    };
    drop(write!(
        stream,
        "HTTP/1.1 {status} x\r\n{extra}content-length: 2\r\nconnection: close\r\n\r\nok"
    ));
}

fn read(stream: &TcpStream) -> Option<Request> {
    let at = Instant::now();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length?.1.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Request {
        path,
        headers,
        body,
        at,
    })
}

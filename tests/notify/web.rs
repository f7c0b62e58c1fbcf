use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;

use super::server::{Reply, Request, Server};
use super::{count, finished_job, listed, refused, verb};
use crate::support::{Sandbox, stands_in, wait_until};

/// Subscribes the server under the name `web`, and gives the key.
fn subscribe(sandbox: &Sandbox, server: &Server) -> String {
    let added = sandbox.agent_sh(["notify", "add", &server.url(), "--as", "web"]);
    assert!(added.succeeded(), "{added:?}");
    let secret = fs::read_to_string(sandbox.state().join("v1/subs/web/secret")).unwrap();
    assert!(added.errors().contains("v1/subs/web/secret"), "{added:?}");
    assert!(!added.errors().contains(secret.trim()), "{added:?}");
    secret.trim().to_owned()
}

fn wait_for_requests(server: &Server, count: usize) -> Vec<Request> {
    wait_until(&format!("{count} requests came"), || {
        server.requests().len() >= count
    });
    server.requests()
}

fn settled(sandbox: &Sandbox, state: &str, wanted: usize) -> Value {
    wait_until(&format!("{wanted} {state}"), || {
        count(&listed(sandbox, "web"), state) == wanted
    });
    listed(sandbox, "web")
}

#[test]
fn a_signed_event_that_names_no_secret() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let server = Server::start(|_| Reply::Status(200, ""));
    let secret = subscribe(&sandbox, &server);
    let job = finished_job(&sandbox, 7);
    let requests = wait_for_requests(&server, 1);
    let request = &requests[0];
    assert_eq!(request.path, "/hook");
    assert_eq!(
        request.header("content-type"),
        "application/cloudevents+json"
    );
    assert_eq!(request.header("webhook-id"), format!("{job}.exit"));
    assert!(request.is_signed_with(&secret), "{request:?}");
    let wrong = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    assert!(!request.is_signed_with(wrong));
    let shown: Value = serde_json::from_str(&verb(&sandbox, ["show", &job, "--json"])).unwrap();
    assert_eq!(request.event(), shown);
    settled(&sandbox, "delivered", 1);
    // A key of one's own.
    let key = sandbox.path("key");
    fs::write(&key, format!("{wrong}\n")).unwrap();
    let open = [
        "notify",
        "add",
        &server.url(),
        "--as",
        "own",
        "--secret-file",
        key.to_str().unwrap(),
    ];
    refused(&sandbox.agent_sh(open), 125, "chmod 600");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&key, mode).unwrap();
    assert!(sandbox.agent_sh(open).succeeded());
    verb(&sandbox, ["notify", "test", "own"]);
    let requests = wait_for_requests(&server, 2);
    assert!(requests[1].is_signed_with(wrong));
    assert_eq!(requests[1].event()["type"], "dev.agent-sh.notify.test.v1");
    // The key is in its file alone.
    let hits = sandbox
        .real_call("grep")
        .args(["-rlF", &secret, sandbox.state().to_str().unwrap()])
        .run();
    assert_eq!(hits.text().lines().count(), 1, "{hits:?}");
    assert!(!verb(&sandbox, ["notify", "list", "--json"]).contains(&secret));
}

#[test]
fn a_server_in_trouble_is_asked_again() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let server = Server::start(|number| match number {
        1 => Reply::Status(500, ""),
        2 => Reply::Hangup,
        3 => Reply::Status(429, "retry-after: 3\r\n"),
        4 => Reply::Late(Duration::from_secs(1), 200),
        _ => Reply::Status(500, ""),
    });
    let secret = subscribe(&sandbox, &server);
    finished_job(&sandbox, 0);
    let requests = wait_for_requests(&server, 4);
    assert!(
        requests
            .iter()
            .all(|request| request.is_signed_with(&secret))
    );
    let ids: Vec<&str> = requests.iter().map(|r| r.header("webhook-id")).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert!(
        requests[3].at - requests[2].at >= Duration::from_secs(3),
        "Retry-After"
    );
    let web = settled(&sandbox, "delivered", 1);
    assert_eq!(web["delivered"][0]["attempts"], 4);
    sandbox.assert_no_survivors();
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn a_server_that_wants_no_more_is_left_alone() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let server = Server::start(|_| Reply::Status(410, ""));
    subscribe(&sandbox, &server);
    finished_job(&sandbox, 0);
    let web = settled(&sandbox, "dead", 1);
    assert!(web["disabled"].as_str().unwrap().contains("410"), "{web:#}");
    finished_job(&sandbox, 0);
    sandbox.assert_no_survivors();
    assert_eq!(server.requests().len(), 1);
    assert!(verb(&sandbox, ["notify", "list"]).contains("disabled: http://127.0.0.1"));
}

#[test]
fn redirects_and_refusals_are_not_followed() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let elsewhere = Server::start(|_| Reply::Status(200, ""));
    let target = format!("location: {}\r\n", elsewhere.url());
    let target: &'static str = Box::leak(target.into_boxed_str());
    let server = Server::start(move |number| match number {
        1 => Reply::Status(302, target),
        _ => Reply::Status(403, ""),
    });
    subscribe(&sandbox, &server);
    finished_job(&sandbox, 0);
    let web = settled(&sandbox, "dead", 1);
    let why = web["dead"][0]["why"].as_str().unwrap();
    assert!(why.contains("302") && why.contains("redirects"), "{why}");
    finished_job(&sandbox, 0);
    let web = settled(&sandbox, "dead", 2);
    assert_eq!(web["disabled"], Value::Null, "only 410 ends a subscription");
    sandbox.assert_no_survivors();
    assert_eq!(
        (server.requests().len(), elsewhere.requests().len()),
        (2, 0)
    );
}

#[test]
fn a_server_that_is_away_gets_it_later() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let place = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = place.local_addr().unwrap();
    drop(place);
    let url = format!("http://{address}/?token=hunter2");
    assert!(
        sandbox
            .agent_sh(["notify", "add", &url, "--as", "web"])
            .succeeded()
    );
    let job = finished_job(&sandbox, 0);
    wait_until("it was tried in vain", || {
        let web = listed(&sandbox, "web");
        web["pending"][0]["attempts"].as_u64().unwrap_or(0) >= 1
    });
    let pending = verb(&sandbox, ["notify", "list"]);
    assert!(
        pending.contains("refused") && !pending.contains("hunter2"),
        "{pending}"
    );
    let waited = sandbox.agent_sh(["wait", &job, "--notify", "web", "--timeout", "60"]);
    refused(&waited, 125, "was not delivered to 'web'");
    assert!(!waited.errors().contains("hunter2"), "{waited:?}");
    let server = Server::on(TcpListener::bind(address).unwrap(), |_| {
        Reply::Status(200, "")
    });
    // Whatever runs next brings it.
    wait_until("it came", || {
        verb(&sandbox, ["ps"]);
        !server.requests().is_empty()
    });
    assert_eq!(server.requests()[0].path, "/?token=hunter2");
    settled(&sandbox, "delivered", 1);
}

#[test]
fn a_silent_server_holds_nobody_for_long() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let server = Server::start(|_| Reply::Silence);
    subscribe(&sandbox, &server);
    refused(
        &sandbox.agent_sh(["notify", "test", "web"]),
        125,
        "no answer within 15s",
    );
}

#[test]
fn addresses_that_only_this_machine_reaches_are_refused() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    for (name, url, words) in [
        (
            "private",
            "https://10.255.255.1/",
            "private address (10.255.255.1)",
        ),
        (
            "metadata",
            "https://169.254.169.254/latest",
            "never allowed",
        ),
        ("mapped", "https://[::ffff:10.0.0.1]/", "private address"),
    ] {
        assert!(
            sandbox
                .agent_sh(["notify", "add", url, "--as", name])
                .succeeded()
        );
        refused(&sandbox.agent_sh(["notify", "test", name]), 125, words);
    }
}

/// A server with a certificate of an authority that only this test trusts.
const TLS_SERVER: &str = r#"
import http.server, ssl, sys
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204); self.end_headers()
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

#[test]
fn certificates_are_verified() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem \
        -addext basicConstraints=critical,CA:TRUE && \
        openssl req -newkey rsa:2048 -nodes -subj /CN=hook -keyout hook.key -out hook.csr && \
        printf 'subjectAltName=IP:127.0.0.1' > names && \
        openssl x509 -req -in hook.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out hook.pem";
    let made = sandbox.real_call("bash").c(make).run();
    assert!(made.succeeded(), "{made:?}");
    let file = |name: &str| sandbox.work().join(name).to_str().unwrap().to_owned();
    let mut server = std::process::Command::new("python3")
        .args(["-c", TLS_SERVER, &file("hook.pem"), &file("hook.key")])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut port = String::new();
    let stdout = server.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut port).unwrap();
    for (name, host) in [("right", "127.0.0.1"), ("wrong-name", "localhost")] {
        let url = format!("https://{host}:{}/", port.trim());
        assert!(
            sandbox
                .agent_sh(["notify", "add", &url, "--as", name])
                .succeeded()
        );
    }
    let test = |name: &str, authority: &str| {
        let call = sandbox.call("agent-sh").args(["notify", "test", name]);
        call.env("SSL_CERT_FILE", authority).run()
    };
    let trusted = test("right", &file("ca.pem"));
    assert!(trusted.succeeded(), "{trusted:?}");
    refused(&test("right", "/dev/null"), 125, "certificate");
    refused(&test("wrong-name", &file("ca.pem")), 125, "certificate");
    server.kill().unwrap();
    server.wait().unwrap();
}

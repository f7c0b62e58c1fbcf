//! Webhooks in words, traces, and collectors.

use std::fs;

use serde_json::{Value, json};

use super::server::{Reply, Request, Server};
use super::{count, listed};
use crate::support::{Sandbox, Status, stands_in, wait_until};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[track_caller]
fn run(sandbox: &Sandbox, text: &str) -> String {
    let call = sandbox
        .call("agent-sh")
        .env("TRACEPARENT", TRACE)
        .env("TRACESTATE", "a=1");
    let started = call.args(["run", text]).run();
    assert!(started.succeeded(), "{started:?}");
    started.text().trim().to_owned()
}

#[track_caller]
fn requests(server: &Server, count: usize) -> Vec<Request> {
    wait_until("all requests came", || server.requests().len() >= count);
    server.requests()
}

#[test]
fn chats_and_phones_get_words() {
    if !stands_in() {
        return;
    }
    for name in ["text", "slack", "discord", "ntfy"] {
        let sandbox = Sandbox::new();
        let server = Server::start(|_| Reply::Status(200, ""));
        let added = sandbox.agent_sh([
            "notify",
            "add",
            &server.url(),
            "--as",
            "web",
            "--template",
            name,
        ]);
        assert!(added.succeeded(), "{added:?}");
        let job = run(&sandbox, "echo '<!channel> & @everyone'; exit 7");
        let request = requests(&server, 1).remove(0);
        let secret = fs::read_to_string(sandbox.state().join("v1/subs/web/secret")).unwrap();
        assert!(request.is_signed_with(&secret), "{name}: {request:?}");
        let body = String::from_utf8(request.body.clone()).unwrap();
        let fact = format!("Background job {job} finished: exit 7");
        match name {
            "slack" => {
                let text = request.event()["text"].as_str().unwrap().to_owned();
                assert!(
                    text.starts_with(&fact) && text.contains("&lt;!channel&gt; &amp; @everyone"),
                    "{text}"
                );
            }
            "discord" => {
                let event = request.event();
                assert!(
                    event["content"].as_str().unwrap().starts_with(&fact),
                    "{event}"
                );
                assert_eq!(event["allowed_mentions"], json!({"parse": []}));
            }
            _ => {
                assert!(body.starts_with(&fact), "{body}");
                assert!(
                    request.header("content-type").starts_with("text/plain"),
                    "{request:?}"
                );
            }
        }
        if name == "ntfy" {
            assert_eq!(request.header("title"), format!("Job {job} failed: exit 7"));
            assert_eq!(
                (request.header("priority"), request.header("tags")),
                ("4", "x")
            );
        }
    }
    let sandbox = Sandbox::new();
    let path = format!("dir:{}", sandbox.path("events").display());
    for (sink, template) in [(path.as_str(), "slack"), ("http://127.0.0.1:1/", "fax")] {
        let ended = sandbox.agent_sh(["notify", "add", sink, "--template", template]);
        assert_eq!(ended.status, Status::Exited(2), "{ended:?}");
    }
}

#[test]
fn a_trace_goes_with_the_record() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let job = run(&sandbox, "true");
    assert!(sandbox.agent_sh(["wait", &job]).succeeded());
    let printed = sandbox.agent_sh(["events"]).text();
    let events: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.len(), 2, "{printed}");
    for event in events {
        assert_eq!(
            (&event["traceparent"], &event["tracestate"]),
            (&json!(TRACE), &json!("a=1"))
        );
    }
    // A job in the background of a command has its caller's; what is no trace is nobody's.
    for (value, wanted) in [(TRACE, json!(TRACE)), ("nonsense", Value::Null)] {
        let call = sandbox.call("bash").env("TRACEPARENT", value);
        assert!(call.c("sleep 0.2 &").run().succeeded());
        let waited = sandbox.agent_sh(["wait", "last", "--json"]);
        let record: Value = serde_json::from_str(&waited.text()).unwrap();
        assert_eq!(record["traceparent"], wanted, "{record}");
    }
}

#[test]
fn collectors_get_spans_and_counts() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    // The first attempt at the second request fails: what came before is not sent again under another id.
    let server = Server::start(|number| Reply::Status(if number == 3 { 503 } else { 200 }, ""));
    let sink = format!("otlp:http://127.0.0.1:{}", server.port);
    let added = sandbox.agent_sh(["notify", "add", &sink, "--as", "web"]);
    assert!(added.succeeded(), "{added:?}");
    let job = run(&sandbox, "exit 3");
    wait_until("both are delivered", || {
        count(&listed(&sandbox, "web"), "delivered") == 2
    });
    let all = server.requests();
    let of = |path: &str| -> Vec<Value> {
        let found = all.iter().filter(|request| request.path == path);
        found.map(Request::event).collect()
    };
    let spans = of("/v1/traces");
    let span = &spans[0]["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(
        (&span["parentSpanId"], &span["traceState"]),
        (&json!("00f067aa0ba902b7"), &json!("a=1"))
    );
    assert_eq!(
        (
            &span["status"]["code"],
            span["spanId"].as_str().unwrap().len()
        ),
        (&json!(2), 16)
    );
    let nanoseconds = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(nanoseconds("endTimeUnixNano") >= nanoseconds("startTimeUnixNano"));
    let attributes = span["attributes"].as_array().unwrap();
    let attribute =
        |key: &str| attributes.iter().find(|pair| pair["key"] == key).unwrap()["value"].clone();
    assert_eq!(attribute("agent_sh.job"), json!({"stringValue": job}));
    assert_eq!(attribute("process.exit.code"), json!({"intValue": "3"}));
    assert!(
        spans.iter().all(|other| other == &spans[0]),
        "a repetition is another span"
    );
    let metrics = of("/v1/metrics");
    let names = |value: &Value| -> Vec<String> {
        let all = value["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
            .as_array()
            .unwrap();
        all.iter()
            .map(|metric| metric["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(&metrics[0]),
        ["agent_sh.jobs.started", "agent_sh.jobs.running"]
    );
    let wanted = [
        "agent_sh.jobs.running",
        "agent_sh.jobs.failed",
        "agent_sh.job.duration",
    ];
    assert_eq!(names(metrics.last().unwrap()), wanted);
    assert!(sandbox.agent_sh(["notify", "test", "web"]).succeeded());
}

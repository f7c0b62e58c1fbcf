//! `otlp:http://HOST:4318`: each job as a span, and what there is to count, over OTLP/HTTP in JSON.
//!
//! The ids of a span are derived from the event, so a repeated delivery is the same span. Counts are sent as differences;
//! a repetition after a crash counts twice.

use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::broker::Message;
use super::http::{self, Url};
use super::{Event, Sent};
use crate::job::record::{self, trace};
use crate::store::outbox::Subscription;

const SCOPE: &str = "agent-sh";
/// The bounds of the duration's histogram, in seconds.
const BOUNDS: [f64; 10] = [
    0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0,
];
/// Differences, not totals.
const DELTA: u8 = 1;

pub(super) fn send(base: &Url, sub: &Subscription, event: &Event, limit: Duration) -> Sent {
    let message = Message::new(event);
    let value = &message.value;
    let bodies = match message.kind() {
        "start" => vec![("v1/metrics", metrics(value, false))],
        "exit" => vec![
            ("v1/traces", traces(value)),
            ("v1/metrics", metrics(value, true)),
        ],
        "test" => vec![("v1/traces", json!({ "resourceSpans": [] }))],
        _ => return Sent::Spared("only starts and ends become spans and counts"),
    };
    for (path, body) in bodies {
        let url: Url = match format!("{}/{path}", base.to_string().trim_end_matches('/')).parse() {
            Ok(url) => url,
            Err(why) => return Sent::Refused(why),
        };
        match http::post_body(
            &url,
            sub.allow_private,
            "application/json",
            &body.to_string(),
            limit,
        ) {
            Sent::Delivered => {}
            other => return other,
        }
    }
    Sent::Delivered
}

fn nanoseconds(time: Option<&str>) -> String {
    let time = time.and_then(|text| humantime::parse_rfc3339(text).ok());
    let since = time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.unwrap_or_default().as_nanos().to_string()
}

fn text(key: &str, value: &Value) -> Option<Value> {
    let text = value.as_str()?;
    Some(json!({ "key": key, "value": { "stringValue": text } }))
}

fn number(key: &str, value: &Value) -> Option<Value> {
    let number = value.as_i64()?;
    Some(json!({ "key": key, "value": { "intValue": number.to_string() } }))
}

/// Who speaks: one store of one machine.
fn resource(event: &Value) -> Value {
    let machine = super::broker::machine_of(event["source"].as_str().unwrap_or_default());
    let attributes: Vec<Value> = [
        text("service.name", &SCOPE.into()),
        text("service.version", &env!("CARGO_PKG_VERSION").into()),
        text("host.id", &machine.into()),
    ]
    .into_iter()
    .flatten()
    .collect();
    json!({ "attributes": attributes })
}

/// Hexadecimal digits that always come out the same for one event.
fn derived(event: &Value, what: &str, digits: usize) -> String {
    let unique = format!("{what}\n{}\n{}", event["source"], event["subject"]);
    let hash = record::hex(&Sha256::digest(unique.as_bytes()));
    crate::text::first_bytes(&hash, digits).to_owned()
}

fn traces(event: &Value) -> Value {
    let data = &event["data"];
    let parent = event["traceparent"].as_str().and_then(trace::ids);
    let trace = parent.map_or_else(
        || derived(event, "trace", 32),
        |(trace, _)| trace.to_owned(),
    );
    let end = data["ended_at"].as_str().or_else(|| event["time"].as_str());
    let attributes: Vec<Value> = [
        text("agent_sh.job", &data["job"]),
        text("agent_sh.state", &data["state"]),
        text("agent_sh.how", &data["how"]),
        text("session.id", &data["session"]),
        text("agent_sh.harness", &data["harness"]),
        text("process.command_line", &data["command"]["text"]),
        text("process.working_directory", &data["cwd"]),
        number("process.pid", &data["proc"]["pid"]),
        number("process.exit.code", &data["exit_code"]),
        number("agent_sh.signal", &data["signal"]),
    ]
    .into_iter()
    .flatten()
    .collect();
    let good = data["exit_code"] == 0;
    let mut span = json!({
        "traceId": trace,
        "spanId": derived(event, "span", 16),
        "name": data["name"].as_str().unwrap_or("job"),
        "kind": 1,
        "startTimeUnixNano": nanoseconds(data["started_at"].as_str()),
        "endTimeUnixNano": nanoseconds(end),
        "attributes": attributes,
        "status": if good { json!({ "code": 1 }) } else { json!({ "code": 2, "message": data["state"] }) },
    });
    if let Some((_, span_id)) = parent {
        span["parentSpanId"] = span_id.into();
    }
    if let Some(state) = event["tracestate"].as_str() {
        span["traceState"] = state.into();
    }
    json!({ "resourceSpans": [{
        "resource": resource(event), "scopeSpans": [{ "scope": { "name": SCOPE }, "spans": [span] }],
    }] })
}

fn metrics(event: &Value, is_end: bool) -> Value {
    let data = &event["data"];
    let (start, end) = (
        nanoseconds(data["started_at"].as_str()),
        nanoseconds(event["time"].as_str()),
    );
    let point = |value: i64| json!({ "startTimeUnixNano": start, "timeUnixNano": end, "asInt": value.to_string(), "attributes": [] });
    let sum = |name: &str, value: i64, grows: bool| {
        json!({ "name": name, "unit": "{job}", "sum": {
            "aggregationTemporality": DELTA, "isMonotonic": grows, "dataPoints": [point(value)],
        } })
    };
    let mut all = Vec::new();
    if is_end {
        all.push(sum("agent_sh.jobs.running", -1, false));
        if data["exit_code"] != 0 {
            all.push(sum("agent_sh.jobs.failed", 1, true));
        }
        if let Some(ms) = data["duration_ms"].as_u64() {
            let seconds = Duration::from_millis(ms).as_secs_f64();
            let mut counts = vec![0u8; BOUNDS.len() + 1];
            counts[BOUNDS.iter().filter(|&&bound| seconds > bound).count()] = 1;
            let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
            all.push(
                json!({ "name": "agent_sh.job.duration", "unit": "s", "histogram": {
                "aggregationTemporality": DELTA,
                "dataPoints": [{
                    "startTimeUnixNano": start, "timeUnixNano": end, "count": "1", "sum": seconds,
                    "bucketCounts": counts, "explicitBounds": BOUNDS, "attributes": [],
                }],
            } }),
            );
        }
    } else {
        all.push(sum("agent_sh.jobs.started", 1, true));
        all.push(sum("agent_sh.jobs.running", 1, false));
    }
    json!({ "resourceMetrics": [{
        "resource": resource(event), "scopeMetrics": [{ "scope": { "name": SCOPE }, "metrics": all }],
    }] })
}

//! Events of a job that still runs.

use std::time::Duration;

use serde_json::json;

use crate::job::notice::{self, Happened, Reader};
use crate::job::record::{self, LONGEST_TAIL, ORIGIN};
use crate::notify::Event;
use crate::store::JobView;
use crate::sys::{clock, fsx};
use crate::text;

pub(super) fn new(
    job: &JobView,
    id: String,
    kind: &str,
    happened: &Happened<'_>,
    output: &str,
    pattern: Option<&str>,
) -> Event {
    let launch = &job.launch;
    let ran = job.duration_ms().map(Duration::from_millis);
    let headline = notice::headline_of_running(launch, ran, happened);
    let output = text::last_bytes(output, LONGEST_TAIL);
    let last = matches!(happened, Happened::Matched { last: true, .. });
    let json = json!({
        "specversion": "1.0",
        "id": id,
        "source": record::source_of(launch, fsx::euid()),
        "type": format!("dev.agent-sh.job.{kind}.v1"),
        "subject": launch.id,
        "time": record::rfc3339(clock::wall()),
        "datacontenttype": "application/json",
        "correlationid": launch.facts.session,
        "data": {
            "job": launch.id,
            "state": job.state,
            "pattern": pattern,
            "last": last,
            "notice": headline,
            "command": launch.facts.command,
            "session": launch.facts.session,
            "harness": launch.facts.harness,
            "cwd": launch.facts.cwd,
            "name": launch.facts.name,
            "started_at": launch.facts.started_at,
            "duration_ms": job.duration_ms(),
            "untrusted_output_tail": output,
            "origin": ORIGIN,
        },
    });
    let mut json = json;
    // CloudEvents has no null attributes.
    if let Some(object) = json.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
    Event {
        id,
        json: json.to_string(),
        notice: notice::text_of_running(&headline, launch.id.as_str(), output, Reader::default()),
    }
}

//! What the program wrote down, read as a stranger would: from the files and from `ps --json`.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::{DEADLINE, Sandbox, holds_within};

/// A terminal record: the CloudEvents file of one job.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) job: String,
    pub(crate) event: Value,
}

impl Record {
    pub(crate) fn data(&self, name: &str) -> &Value {
        &self.event["data"][name]
    }

    pub(crate) fn state(&self) -> &str {
        self.data("state").as_str().unwrap_or("no state")
    }

    pub(crate) fn exit_code(&self) -> Option<i64> {
        self.data("exit_code").as_i64()
    }

    pub(crate) fn how(&self) -> &str {
        self.data("how").as_str().unwrap_or("no how")
    }
}

/// Every job's directory, finished or not.
pub(crate) fn job_dirs(sandbox: &Sandbox) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = fs::read_dir(sandbox.state().join("v1/jobs"))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect();
    dirs.sort();
    dirs
}

/// Every terminal record there is, ordered by job.
pub(crate) fn records(sandbox: &Sandbox) -> Vec<Record> {
    let mut found = Vec::new();
    for dir in job_dirs(sandbox) {
        let Ok(text) = fs::read(dir.join("exit.json")) else {
            continue;
        };
        let event: Value = serde_json::from_slice(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        let job = dir.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(event["specversion"], "1.0", "{event:#}");
        assert_eq!(event["id"], format!("{job}.exit"), "{event:#}");
        found.push(Record { job, event });
    }
    found
}

/// The records of background jobs: all but those of foreground commands that were killed.
pub(crate) fn job_records(sandbox: &Sandbox) -> Vec<Record> {
    let mut found = records(sandbox);
    found.retain(|record| record.how() != "foreground");
    found
}

/// Waits until there are records of `count` background jobs, and then for the end of everything, to see
/// that there are no more of them.
#[track_caller]
pub(crate) fn wait_for_records(sandbox: &Sandbox, count: usize) -> Vec<Record> {
    let came = holds_within(DEADLINE, || job_records(sandbox).len() >= count);
    let found = job_records(sandbox);
    assert!(came, "{} of {count} records: {found:#?}", found.len());
    sandbox.assert_no_survivors();
    let found = job_records(sandbox);
    assert_eq!(found.len(), count, "too many records: {found:#?}");
    found
}

/// `ps --json` over every job of every session.
#[track_caller]
pub(crate) fn ps_json(sandbox: &Sandbox) -> Vec<Value> {
    let ended = sandbox.agent_sh(["ps", "-a", "-A", "--json"]);
    assert!(ended.succeeded(), "{ended:?}");
    match serde_json::from_slice(&ended.stdout) {
        Ok(Value::Array(jobs)) => jobs,
        other => panic!("ps --json gave {other:?} from {ended:?}"),
    }
}

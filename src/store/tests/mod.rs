//! The store with real files, real locks and real processes.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;
use crate::job::record::{CommandText, ExitFacts, KillIntent, KilledBy, Usage};
use crate::job::{Evidence, How, LostReason, Observer, Outcome, State};
use crate::settings::RecordCommand;
use crate::sys::lock;

mod damage;
mod disk;
mod finding;
mod ids;
mod places;
mod reconciling;
mod records;
mod removal;
mod timeline;
mod transcripts;
mod waiting;

pub(super) fn settings(root: &Path) -> Settings {
    Settings {
        state: Some(root.to_owned()),
        ..Settings::default()
    }
}

pub(super) fn no_env(_: &str) -> Option<OsString> {
    None
}

pub(super) fn store_in(root: &Path) -> Store {
    let store = Store::open(&settings(root), no_env).unwrap();
    assert_eq!(store.path(), root);
    store
}

pub(super) fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(&dir.path().join("state"));
    (dir, store)
}

/// A process that has ended, so that nobody can take it for alive.
pub(super) fn dead() -> crate::job::record::ProcIdentity {
    let mut child = Command::new("true").spawn().unwrap();
    let who = identity(child.id() as i32).unwrap();
    child.wait().unwrap();
    who
}

pub(super) fn draft() -> Draft {
    let command = CommandText::new(b"npm run dev", RecordCommand::Redacted, |_| String::new());
    Draft::new(command, How::Ampersand, "/work".to_owned(), dead())
}

pub(super) fn exited(code: u8) -> ExitFacts {
    ExitFacts::new(
        Outcome::Exited(code),
        Observer::Supervisor,
        Evidence::WaitId,
        moment(),
    )
}

/// Gives a job up and waits until its lease is free: a child that another test's thread forks at this
/// very moment holds it until its exec.
pub(super) fn give_up(job: LiveJob) {
    let run = std::fs::File::open(job.dir().join("run.json")).unwrap();
    drop(job);
    while lock::is_written(&run).unwrap_or(false) {
        std::thread::yield_now();
    }
}

pub(super) fn view(store: &Store, id: &JobId) -> JobView {
    store.load(id).unwrap().unwrap()
}

pub(super) fn records(store: &Store, id: &JobId) -> Vec<String> {
    let dir = store.path().join("v1/jobs").join(id.as_str());
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("exit"))
        .collect()
}

/// Changes `run.json` behind everybody's back.
pub(super) fn edit_run(store: &Store, id: &JobId, change: impl Fn(&mut serde_json::Value)) {
    let path = store
        .path()
        .join("v1/jobs")
        .join(id.as_str())
        .join("run.json");
    let mut value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(&path, serde_json::to_vec(&value).unwrap()).unwrap();
}

/// A job whose supervisor is gone.
pub(super) fn abandoned(store: &Store, draft: Draft) -> JobId {
    let job = store.create_job(draft).unwrap();
    let id = job.id().clone();
    give_up(job);
    id
}

pub(super) fn reason(view: &JobView) -> Option<LostReason> {
    assert_eq!(view.exit_code(), None);
    view.reason()
}

pub(super) fn sleeper() -> Child {
    let script = "read x; exit 7";
    Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

pub(super) fn draft_of(child: &Child) -> Draft {
    let mut draft = draft();
    draft.facts.proc = identity(child.id() as i32).unwrap();
    draft
}

pub(super) fn job_dir(store: &Store, id: &JobId) -> PathBuf {
    store.path().join("v1/jobs").join(id.as_str())
}

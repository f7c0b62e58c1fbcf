use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use agent_sh::testing::{
    CommandText, Draft, Evidence, ExitFacts, How, Observer, Outcome, RecordCommand, Settings, Sink,
    Store, identity, moment, start,
};

use super::server::{Reply, Server};
use crate::support::{DEADLINE, holds_within, program, stands_in};

const JOBS: usize = 500;

fn end_a_job(store: &Store, number: usize) -> String {
    let text = format!("job {number}");
    let command = CommandText::new(text.as_bytes(), RecordCommand::Full, |_| String::new());
    let who = identity(i32::try_from(std::process::id()).unwrap()).unwrap();
    let draft = Draft::new(command, How::Ampersand, "/".to_owned(), who);
    let mut live = store.create_job(draft).unwrap();
    let code = u8::try_from(number % 256).unwrap();
    let facts = ExitFacts::new(
        Outcome::Exited(code),
        Observer::Supervisor,
        Evidence::WaitId,
        moment(),
    );
    live.commit(&facts).unwrap();
    live.id().to_string()
}

/// 500 ends, two subscribers, and a notifier that is killed again and again at random instants, while
/// ends still come. Each subscriber has every event; a directory never has one twice.
#[test]
fn killed_notifiers_lose_nothing() {
    if !stands_in() {
        return;
    }
    // In memory, so that the disk's confirmations do not make up the test's time.
    let memory = std::path::Path::new("/dev/shm");
    let place = if memory.is_dir() {
        memory
    } else {
        std::path::Path::new("/tmp")
    };
    let home = tempfile::Builder::new()
        .prefix("ash-")
        .tempdir_in(place)
        .unwrap();
    let settings = Settings {
        state: Some(home.path().join("state")),
        ..Settings::default()
    };
    let store = Store::open(&settings, |_| None).unwrap();
    let events = home.path().join("events");
    // Every fiftieth request is cut off after it was heard: the notifier cannot know, and comes again.
    let server = Server::start(|number| match number % 50 {
        0 => Reply::Hangup,
        _ => Reply::Status(204, ""),
    });
    for sink in [format!("dir:{}", events.display()), server.url()] {
        let sink = sink.parse().unwrap();
        let sub = start::subscription(&Sink::default_name(&sink), &sink, true);
        start::subscribe(&store, &sub).unwrap();
    }
    let deliver = || {
        Command::new(program("agent-sh"))
            .args([
                "@agent-sh-deliver".as_ref(),
                home.path().join("state").as_os_str(),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut jobs = Vec::new();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut killed = 0;
    while jobs.len() < JOBS {
        // Two at once, as two supervisors that end together would start them.
        let mut notifiers = [deliver(), deliver()];
        for _ in 0..20.min(JOBS - jobs.len()) {
            jobs.push(end_a_job(&store, jobs.len()));
        }
        for notifier in &mut notifiers {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let limit = Duration::from_millis(random % 120);
            if !holds_within(limit, || notifier.try_wait().unwrap().is_some()) {
                notifier.kill().unwrap();
                killed += 1;
            }
            notifier.wait().unwrap();
        }
    }
    assert!(killed > 5, "only {killed} were killed");
    // The next ones that are left alone bring the rest.
    let done = || {
        let subs = store.subscriptions();
        subs.iter()
            .all(|sub| store.pending(sub).unwrap().is_empty())
    };
    assert!(holds_within(DEADLINE * 2, || {
        drop(deliver().wait());
        done()
    }));
    jobs.sort();
    let mut files: Vec<String> = fs::read_dir(&events)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let wanted: Vec<String> = jobs.iter().map(|id| format!("{id}.exit.json")).collect();
    assert_eq!(files, wanted, "one file per event and nothing else");
    let mut heard: BTreeMap<String, usize> = BTreeMap::new();
    for request in server.requests() {
        let event = request.event();
        assert_eq!(event["id"], request.header("webhook-id"));
        *heard
            .entry(event["subject"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    assert!(heard.keys().eq(jobs.iter()), "{} of {JOBS}", heard.len());
    // Nothing of the claims is left, and no job is held back from being removed.
    assert!(store.undelivered().is_empty());
    for sub in store.subscriptions() {
        let standings = store.standings(&sub.name).unwrap();
        let delivered = standings.iter().filter(|one| one.state == "done").count();
        assert_eq!(delivered, JOBS, "{}", sub.name);
    }
}

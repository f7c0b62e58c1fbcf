//! `dir:`: one file per event, complete or not there, for programs that watch a directory.
//!
//! The file is `<event id>.json`. An id is unique in its store, not among all: where that name holds an
//! event of another source, the source's mark is put in between, so that neither is lost.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Event, Sent};
use crate::error::{Error, Result, cause};
use crate::job::record::hex;
use crate::sys::fsx;
use crate::text;

/// No event of ours is larger, and no more of a file is read to see whose it is.
const LARGEST: u64 = 1 << 20;

/// Makes the directory, for its owner alone, if it is missing.
pub(super) fn make(path: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(path)
        .map_err(|source| Error::io("make", path, source))
}

/// Puts the event there. A file of its name and source is the event itself, delivered before a crash.
pub(super) fn put(path: &Path, subscriber: &str, event: &Event) -> Sent {
    match try_put(path, subscriber, event) {
        Ok(()) => Sent::Delivered,
        Err(error) => Sent::failed(format!("'{}': {}", path.display(), cause(&error))),
    }
}

/// What makes an event that event.
#[derive(Deserialize)]
struct Whose {
    #[serde(default)]
    id: String,
    #[serde(default)]
    source: String,
}

/// What stands under a name.
#[derive(Debug, PartialEq, Eq)]
enum Held {
    Nothing,
    ThisEvent,
    Another,
}

fn held(dir: impl AsFd, name: &str, ours: &Whose) -> Held {
    let file = match fsx::open_at(dir, name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Held::Nothing,
        Err(_) => return Held::Another,
    };
    let mut bytes = Vec::new();
    let read = file.take(LARGEST).read_to_end(&mut bytes);
    match read
        .ok()
        .and_then(|_| serde_json::from_slice::<Whose>(&bytes).ok())
    {
        Some(whose) if whose.id == ours.id && whose.source == ours.source => Held::ThisEvent,
        _ => Held::Another,
    }
}

fn try_put(path: &Path, subscriber: &str, event: &Event) -> io::Result<()> {
    // The directory may be a link of the user's, so it is followed.
    let dir = fsx::open_dir_followed(path)?;
    let ours: Whose = serde_json::from_str(&event.json)?;
    // Always the same name: what a crash left is written over, not left behind. The claim keeps
    // others of the same name away, and the mark those of another store.
    let hash = hex(&Sha256::digest(ours.source.as_bytes()));
    let mark = text::first_bytes(&hash, 16);
    let temporary = format!(".{subscriber}.{}.{mark}.tmp", event.id);
    let mut written = false;
    let names = [
        format!("{}.json", event.id),
        format!("{}.{mark}.json", event.id),
    ];
    for name in names {
        match held(&dir, &name, &ours) {
            Held::ThisEvent => {
                drop(fsx::unlink_at(&dir, temporary.as_str()));
                return Ok(());
            }
            Held::Another => continue,
            Held::Nothing => {}
        }
        if !written {
            drop(fsx::unlink_at(&dir, temporary.as_str()));
            write(&path.join(&temporary), event).inspect_err(|_| {
                drop(fsx::unlink_at(&dir, temporary.as_str()));
            })?;
            written = true;
        }
        match fsx::rename_new_at(&dir, temporary.as_str(), &dir, name.as_str()) {
            Ok(()) => return fsx::sync_dir(&dir),
            // Somebody was first: whose it is, is looked at once more.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if held(&dir, &name, &ours) == Held::ThisEvent {
                    drop(fsx::unlink_at(&dir, temporary.as_str()));
                    return Ok(());
                }
            }
            Err(error) => {
                drop(fsx::unlink_at(&dir, temporary.as_str()));
                return Err(error);
            }
        }
    }
    drop(fsx::unlink_at(&dir, temporary.as_str()));
    Err(io::ErrorKind::AlreadyExists.into())
}

fn write(path: &Path, event: &Event) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(format!("{}\n", event.json).as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(source: &str, words: &str) -> Event {
        let json = serde_json::json!({"id": "7f3k.exit", "source": source, "data": words});
        Event {
            id: "7f3k.exit".to_owned(),
            json: json.to_string(),
            notice: String::new(),
        }
    }

    #[test]
    fn an_event_is_there_once_and_never_in_the_place_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let count = || std::fs::read_dir(dir.path()).unwrap().count();
        for (source, words, files) in [
            ("urn:agent-sh:m:1:a", "one", 1),
            ("urn:agent-sh:m:1:a", "one", 1),
            ("urn:agent-sh:m:1:b", "two", 2),
            ("urn:agent-sh:m:1:b", "two", 2),
            ("urn:agent-sh:m:1", "three", 3),
            ("urn:agent-sh:m:1:a", "one", 1 + 2),
        ] {
            assert_eq!(put(dir.path(), "s", &event(source, words)), Sent::Delivered);
            assert_eq!(count(), files, "{source}");
        }
        let plain = std::fs::read_to_string(dir.path().join("7f3k.exit.json")).unwrap();
        assert!(plain.contains("one"), "the first has the plain name");
        let all: String = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
            .collect();
        assert!(
            ["one", "two", "three"]
                .iter()
                .all(|word| all.contains(word))
        );
    }

    #[test]
    fn what_is_no_event_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("7f3k.exit.json"), "not JSON").unwrap();
        let sent = put(dir.path(), "s", &event("urn:agent-sh:m:1:a", "one"));
        assert_eq!(sent, Sent::Delivered);
        let kept = std::fs::read_to_string(dir.path().join("7f3k.exit.json")).unwrap();
        assert_eq!(kept, "not JSON");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let sent = put(&pipe, "s", &event("x", "one"));
        assert!(matches!(sent, Sent::Failed(..)), "{sent:?}");
    }
}

//! Which conversation a client's process is having, for harnesses whose commands do not tell: a hook of
//! theirs notes it here, under the key that the process gives to its jobs. A job that starts then belongs
//! to the conversation, which goes on when the process has ended.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::job::JobId;
use crate::job::record::ProcIdentity;
use crate::store::gc::sweep::is_old;
use crate::store::jobs::live::Draft;
use crate::store::{Store, root};
use crate::sys::{fsx, proc};

const DIR: &str = "clients";
/// A client that was killed leaves its file. Taken from one that lives, it comes again with its next turn.
const LEFT_BEHIND: std::time::Duration = std::time::Duration::from_secs(86_400);
/// So many conversations of one process are remembered.
const MOST: usize = 64;
/// No file of ours is longer.
const LONGEST: u64 = 64 * 1024;

/// What a client's process serves.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Client {
    pub proc: ProcIdentity,
    /// All its conversations; the last is the one it is at.
    pub sessions: Vec<String>,
    /// What a wake-up will need, besides what the environment of a command tells.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub wake: BTreeMap<String, String>,
    /// The jobs whose ends went out with its last prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<JobId>,
}

impl Client {
    /// Whether the process may still be there. One of another namespace cannot be seen from here.
    #[must_use]
    pub fn may_live(&self) -> bool {
        let known = &self.proc;
        if known.boot_id != proc::boot_id() {
            return known.machine != proc::machine();
        }
        known.pidns != proc::pidns()
            || proc::stat(known.pid)
                .is_some_and(|stat| stat.starttime == known.starttime && !stat.is_dead())
    }
}

/// Whether this is the key of a process, `name-pid-start`, and so may be a name of a file here.
#[must_use]
pub(crate) fn is_key(key: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = key.rsplitn(3, '-');
    let numbers = parts.next().is_some_and(digits) && parts.next().is_some_and(digits);
    let plain = |name: &str| {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        name.starts_with(|first: char| first.is_ascii_lowercase()) && name.bytes().all(letter)
    };
    numbers && key.len() <= 80 && parts.next().is_some_and(plain)
}

impl Store {
    /// Notes what the process of this key serves now.
    pub fn note_client(&self, key: &str, now: Client) -> io::Result<()> {
        let old = self.client(key);
        let mut new = now;
        if let Some(old) = old.clone() {
            let mut sessions = old.sessions;
            sessions.retain(|session| !new.sessions.contains(session));
            sessions.append(&mut new.sessions);
            let extra = sessions.len().saturating_sub(MOST);
            new.sessions = sessions.split_off(extra);
            new.told = old.told;
        }
        if old.as_ref() == Some(&new) {
            return Ok(());
        }
        self.write_client(key, &new)
    }

    /// Notes which ends went out with the last prompt of a client that was noted before.
    pub fn note_told(&self, key: &str, told: Vec<JobId>) -> io::Result<()> {
        match self.client(key) {
            Some(mut client) if client.told != told => {
                client.told = told;
                self.write_client(key, &client)
            }
            _ => Ok(()),
        }
    }

    fn write_client(&self, key: &str, client: &Client) -> io::Result<()> {
        if !is_key(key) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let dir = root::inner(&self.base, DIR, true).map_err(io::Error::other)?;
        let beside = format!(".{key}.{:08x}", fsx::random());
        let written = fsx::create_at(&dir, beside.as_str())
            .and_then(|mut file| file.write_all(&serde_json::to_vec(client)?))
            .and_then(|()| fsx::rename_at(&dir, beside.as_str(), &dir, key));
        if written.is_err() {
            drop(fsx::unlink_at(&dir, beside.as_str()));
        }
        written
    }

    /// What the process of this key serves, if that was noted.
    #[must_use]
    pub fn client(&self, key: &str) -> Option<Client> {
        if !is_key(key) {
            return None;
        }
        let dir = fsx::open_dir_at(&self.base, DIR).ok()?;
        // After a reboot another process may have the same key.
        read(&dir, key).filter(|client| client.proc.boot_id == proc::boot_id())
    }

    /// The conversation that a job with this key belongs to.
    #[must_use]
    pub fn conversation(&self, key: &str) -> Option<String> {
        self.client(key)?.sessions.pop()
    }

    /// A job of a client's process belongs to the conversation that the process is at.
    pub(super) fn place_in_conversation(&self, draft: &mut Draft) {
        let client = draft
            .facts
            .session
            .as_deref()
            .and_then(|key| self.client(key));
        if let Some(mut client) = client
            && let Some(session) = client.sessions.pop()
        {
            draft.wake.extend(client.wake);
            draft.facts.session = Some(session);
        }
    }

    /// All clients that were noted.
    #[must_use]
    pub fn clients(&self) -> Vec<Client> {
        let Ok(dir) = fsx::open_dir_at(&self.base, DIR) else {
            return Vec::new();
        };
        let names = fsx::names(&dir).unwrap_or_default();
        let keys = names
            .iter()
            .filter_map(|name| name.to_str())
            .filter(|name| is_key(name));
        keys.filter_map(|key| read(&dir, key)).collect()
    }

    /// The process has ended.
    pub fn forget_client(&self, key: &str) {
        if let Ok(dir) = fsx::open_dir_at(&self.base, DIR)
            && is_key(key)
        {
            drop(fsx::unlink_at(&dir, key));
        }
    }

    /// Removes the files of clients that were killed.
    pub(super) fn sweep_clients(&self) {
        let Ok(dir) = fsx::open_dir_at(&self.base, DIR) else {
            return;
        };
        for name in fsx::names(&dir).unwrap_or_default() {
            let Some(name) = name.to_str() else { continue };
            let old = fsx::stat_at(&dir, name).is_ok_and(|stat| is_old(&stat, LEFT_BEHIND));
            let lives = || read(&dir, name).is_some_and(|client| client.may_live());
            if old && !lives() {
                drop(fsx::unlink_at(&dir, name));
            }
        }
    }
}

fn read(dir: &std::os::fd::OwnedFd, key: &str) -> Option<Client> {
    let file = fsx::open_at(dir, key).ok()?;
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::own_identity;
    use crate::store::tests::{draft, store};

    #[test]
    fn only_keys_of_processes_are_names() {
        for (key, good) in [
            ("gemini-12-3456", true),
            ("claude-code-1-2", true),
            ("gemini-12", false),
            ("gemini-12-x", false),
            ("-1-2", false),
            ("../gemini-1-2", false),
            ("0c6e7d1f-aaaa-4bbb-8ccc-1234567890ab", false),
            ("", false),
        ] {
            assert_eq!(is_key(key), good, "{key}");
        }
    }

    #[test]
    fn a_job_gets_the_conversation_that_its_client_is_at() {
        let (_root, store) = store();
        let key = "gemini-1-2";
        let client = |session: &str| Client {
            proc: own_identity().clone(),
            sessions: vec![session.to_owned()],
            wake: [("GEMINI_CWD".to_owned(), "/x".to_owned())].into(),
            told: Vec::new(),
        };
        let place = || {
            let mut draft = draft();
            draft.facts.session = Some(key.to_owned());
            store.place_in_conversation(&mut draft);
            (draft.facts.session.unwrap_or_default(), draft.wake.len())
        };
        assert_eq!(place(), (key.to_owned(), 0));
        for (session, all) in [
            ("a", vec!["a"]),
            ("b", vec!["a", "b"]),
            ("a", vec!["b", "a"]),
        ] {
            store.note_client(key, client(session)).unwrap();
            assert_eq!(store.client(key).unwrap().sessions, all);
            assert_eq!(place(), (session.to_owned(), 1));
        }
        let told: Vec<JobId> = vec!["7f3k2m".parse().unwrap()];
        store.note_told(key, told.clone()).unwrap();
        store.note_client(key, client("c")).unwrap();
        assert_eq!(store.client(key).unwrap().told, told, "it outlives a note");
        assert!(store.note_client("../x-1-2", client("a")).is_err());
        // After a reboot it is another process's key.
        let mut old = client("d");
        old.proc.boot_id = "another".to_owned();
        assert!(!old.may_live() && client("d").may_live());
        store.write_client(key, &old).unwrap();
        assert_eq!(place(), (key.to_owned(), 0));
        store.forget_client(key);
        assert!(store.clients().is_empty());
    }
}

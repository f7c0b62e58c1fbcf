//! Who a store is, and which ids it has given out.
//!
//! `v1/store` is made once, with a random id and a random key. The id is part of every event's source,
//! so what two stores say is never taken for the same. The key goes into the hash of each command.
//!
//! An id is used once in the life of a store. It comes from the clock, and a clock can be set back; so
//! it is taken in three steps, of which each closes what the one before leaves open:
//!
//! 1. A directory gets it as its name in `tmp`, where no other has it. Jobs are published from there by
//!    a rename, so nobody else can publish this id from now on.
//! 2. There is no job of that id.
//! 3. It is above the floor. `v1/floor` is raised, on the disk, before a job is removed, at least to that
//!    job's id: whatever was given out and is gone is not above it.
//!
//! A number may be skipped, by a crash or by two that look at once; none is given out twice.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::UNIX_EPOCH;

use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::job::record::{FORMAT, hex};
use crate::job::{JobId, Serial};
use crate::store::jobs::files::{self, Content};
use crate::store::{Store, fsx};
use crate::sys::{clock, lock};

const OWN: &str = "store";
const FLOOR: &str = "floor";
/// A store in which so many ids in a row are taken is broken.
const ID_ATTEMPTS: u32 = 256;
/// So many notices of one job's output there are at most, for all subscribers together.
const MOST_NOTICES: u32 = 4096;
/// How often a floor is read again that is being written.
const LOOKS: u32 = 8;

/// `v1/store`.
#[derive(Clone, Serialize, Deserialize)]
pub struct Own {
    format: u64,
    id: String,
    key: String,
}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Own({})", self.id)
    }
}

impl Own {
    fn random() -> Self {
        Self {
            format: FORMAT,
            id: hex(&fsx::random_bytes::<12>()),
            key: hex(&fsx::random_bytes::<32>()),
        }
    }

    fn read(base: &OwnedFd) -> io::Result<Option<Self>> {
        let Content::Bytes(bytes, _) = files::read(base, OWN)? else {
            return Ok(None);
        };
        let own: Option<Self> = serde_json::from_slice(&bytes).ok();
        Ok(own.filter(|own| own.format <= FORMAT && is_store_id(&own.id) && own.key.len() >= 32))
    }

    /// The random part of the source of this store's events.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A hash of a text that means nothing to whoever does not have the key: the same text has the same
    /// hash in one store, and nobody can try out what it was.
    #[must_use]
    pub fn hash(&self, text: &[u8]) -> String {
        match Hmac::<Sha256>::new_from_slice(self.key.as_bytes()) {
            Ok(mut mac) => {
                mac.update(text);
                hex(&mac.finalize().into_bytes())
            }
            // HMAC takes keys of any length.
            Err(_) => String::new(),
        }
    }

    pub(in crate::store) fn shift(&self) -> u64 {
        let hash = Sha256::digest(self.id.as_bytes());
        let (first, _) = hash.split_at(4);
        first
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }
}

/// Whether a text may stand in a source.
fn is_store_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=64).contains(&text.len()) && text.bytes().all(plain)
}

/// The first serial of this moment.
fn now() -> Serial {
    let since = clock::wall().duration_since(UNIX_EPOCH);
    Serial::at(since.map_or(0, |time| time.as_secs()))
}

impl Store {
    /// Who this store is; made if it is missing. Where nothing can be written, who this process takes it
    /// for: nobody else has that id either.
    #[must_use]
    pub fn own(&self) -> &Own {
        self.own.get_or_init(|| match Own::read(&self.base) {
            Ok(Some(own)) => own,
            _ => self.make_own().unwrap_or_else(|_| Own::random()),
        })
    }

    fn make_own(&self) -> io::Result<Own> {
        let _alone = self.alone();
        if let Some(own) = Own::read(&self.base)? {
            return Ok(own);
        }
        if fsx::stat_at(&self.base, OWN).is_ok() {
            let aside = format!("{OWN}.corrupt.{:08x}", fsx::random());
            fsx::rename_new_at(&self.base, OWN, &self.base, aside.as_str())?;
        }
        let own = Own::random();
        let mut bytes = serde_json::to_vec(&own)?;
        bytes.push(b'\n');
        let temporary = format!("{OWN}.tmp.{:08x}", fsx::random());
        let made = files::write_new(&self.base, &temporary, &bytes)
            .and_then(|file| file.sync_all())
            .and_then(|()| fsx::rename_new_at(&self.base, temporary.as_str(), &self.base, OWN));
        if let Err(error) = made {
            drop(fsx::unlink_at(&self.base, temporary.as_str()));
            // Where there are no locks, another may have been first.
            return Own::read(&self.base)?.ok_or(error);
        }
        // It is written over in place later, and a full disk has room for that.
        drop(self.write_floor(None));
        fsx::sync_dir(&self.base)?;
        Ok(own)
    }

    /// One process at a time, as long as the value lives. Where there are no locks, nobody is kept out.
    fn alone(&self) -> Option<OwnedFd> {
        let dir = fsx::open_dir_at(&self.base, ".").ok()?;
        lock::exclusive(&dir).ok()?;
        Some(dir)
    }

    /// Finds an id that was never given out. `place` gives the directory of the job to be this name in
    /// `tmp`, and fails if it is taken.
    pub(in crate::store) fn take_id(
        &self,
        mut place: impl FnMut(&str) -> io::Result<()>,
    ) -> io::Result<JobId> {
        let shift = self.own().shift();
        let mut first = now();
        let mut candidate = Some(first);
        for attempt in 0..ID_ATTEMPTS {
            let Some(serial) = candidate else { break };
            let id = serial.id(shift);
            match place(id.as_str()) {
                Ok(()) => {
                    let is_free = fsx::stat_at(&self.jobs, id.as_str()).is_err();
                    // In this order: a job that is gone by now was below the floor before it went.
                    match self.floor() {
                        Some(floor) if floor >= serial => {
                            first = floor;
                            candidate = floor.next();
                            continue;
                        }
                        _ if is_free => return Ok(id),
                        _ => {}
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            candidate = first.nearby(attempt, fsx::random());
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The number of a notice among all of this job's, whoever is told: the same for the same `whose`,
    /// and another one for every other.
    pub fn notice_number(&self, job: &JobId, whose: &str) -> io::Result<u32> {
        let dir = fsx::open_dir_at(&self.jobs, job.as_str())?;
        for number in 1..=MOST_NOTICES {
            let name = format!("notice.{number}");
            match files::write_new(&dir, &name, whose.as_bytes()) {
                Ok(_) => return Ok(number),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            if let Content::Bytes(bytes, _) = files::read(&dir, &name)?
                && bytes == whose.as_bytes()
            {
                return Ok(number);
            }
        }
        Err(io::ErrorKind::QuotaExceeded.into())
    }

    /// The highest serial of a job that was removed.
    pub(in crate::store) fn floor(&self) -> Option<Serial> {
        let file = fsx::open_at(&self.base, FLOOR).ok()?;
        (0..LOOKS).find_map(|_| read_floor(&file)).flatten()
    }

    /// Makes sure that the ids of these jobs, which are about to be removed, are never given out again.
    pub(in crate::store) fn raise_floor<'a>(
        &self,
        ids: impl Iterator<Item = &'a JobId>,
    ) -> io::Result<()> {
        let (own, now) = (self.own(), now());
        let serials = ids.filter_map(|id| {
            let serial = Serial::of(id, own.shift())?;
            // What an older version gave out can read as any day: those to come must stay free.
            let ours = || self.label(id)?.store.filter(|store| *store == own.id);
            (serial <= now || ours().is_some()).then_some(serial)
        });
        let Some(highest) = serials.max() else {
            return Ok(());
        };
        if self.floor().is_some_and(|floor| floor >= highest) {
            return Ok(());
        }
        let _alone = self.alone();
        if self.floor().is_some_and(|floor| floor >= highest) {
            return Ok(());
        }
        self.write_floor(Some(highest))
    }

    pub(in crate::store) fn write_floor(&self, floor: Option<Serial>) -> io::Result<()> {
        let file = match fsx::open_rw_at(&self.base, FLOOR) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fsx::create_at(&self.base, FLOOR)?
            }
            // One that is there stays as it is.
            Ok(_) if floor.is_none() => return Ok(()),
            other => other?,
        };
        let number = floor.map_or(0, Serial::number);
        // Twice, so that nobody takes half of it for the whole; in one sector, so that the disk has it
        // whole or not at all.
        file.write_all_at(format!("{number:020} {number:020}\n").as_bytes(), 0)?;
        file.sync_data()
    }
}

/// `None`: it is being written. `Some(None)`: there is none.
fn read_floor(file: &File) -> Option<Option<Serial>> {
    let mut bytes = [0; 42];
    let read = file.read_at(&mut bytes, 0).ok()?;
    if read == 0 {
        return Some(None);
    }
    let text = std::str::from_utf8(&bytes).ok()?.strip_suffix('\n')?;
    let (one, other) = text.split_once(' ')?;
    let number: u64 = (one == other).then(|| one.parse().ok())??;
    Some(Serial::from_number(number).filter(|serial| serial.number() > 0))
}

/// The id of the store that a directory of a job is in, if it has one.
pub(in crate::store) fn store_of(job: &std::path::Path) -> Option<String> {
    let base = fsx::open_dir(job.parent()?.parent()?).ok()?;
    Own::read(&base).ok()?.map(|own| own.id)
}

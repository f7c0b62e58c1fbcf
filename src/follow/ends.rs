//! The ends of any number of jobs, without a thread for each.
//!
//! A job ends when its record appears: the supervisor commits it by a rename, which inotify reports. A
//! supervisor that is killed commits nothing; then its pidfd is readable and the store decides what became
//! of its jobs. Where neither can be watched (the supervisor is gone already, it runs in another pid
//! namespace or on another machine, there are no watches left), a thread blocks on the lease, which is
//! the truth in every case.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, mpsc};

use nix::sys::inotify::{InotifyEvent, WatchDescriptor};

use super::changes::{self, Changes};
use crate::error::{Error, Result};
use crate::store::{JobView, Waited};
use crate::sys::proc;

/// Enough for a record to be read; the default would be 2 MiB a job.
const STACK: usize = 512 * 1024;

/// The end of the job that was added with this number.
pub(super) type Ended = (usize, Result<Waited>);

#[derive(Default)]
pub(super) struct Ends {
    watched: Vec<Watched>,
    /// The supervisors of those; one may have many jobs.
    supervisors: Vec<Supervisor>,
    /// Threads that wait for leases; made when the first is needed.
    leases: Option<Leases>,
    /// What was found and not taken yet.
    found: Vec<Ended>,
}

/// A job that is waited for without a thread.
struct Watched {
    job: JobView,
    number: usize,
    place: WatchDescriptor,
    /// Pid and start time.
    supervisor: (i32, u64),
}

struct Supervisor {
    who: (i32, u64),
    handle: OwnedFd,
}

impl Ends {
    pub(super) fn add(
        &mut self,
        job: &JobView,
        number: usize,
        changes: &mut Changes,
    ) -> Result<()> {
        if job.state.is_terminal() {
            let ended = Waited::Ended(Box::new(job.clone()));
            self.found.push((number, Ok(ended)));
            return Ok(());
        }
        let place = changes.add(&job.dir, changes::END);
        let (Some(place), Some(supervisor)) = (place, self.watch_supervisor(job)) else {
            return self.wait_for_lease(job, number);
        };
        // It may have ended before it was watched.
        match look(job) {
            Some(ended) => self.found.push((number, ended)),
            None => self.watched.push(Watched {
                job: job.clone(),
                number,
                place,
                supervisor,
            }),
        }
        Ok(())
    }

    /// A handle on the supervisor of this job, if it can be seen from here.
    fn watch_supervisor(&mut self, job: &JobView) -> Option<(i32, u64)> {
        let identity = &job.launch.supervisor;
        let is_here = job.launch_known
            && identity.pidns == proc::pidns()
            && identity.timens == proc::timens()
            && identity.boot_id == proc::boot_id();
        let who = (identity.pid, identity.starttime);
        if !is_here || self.supervisors.iter().any(|known| known.who == who) {
            return is_here.then_some(who);
        }
        let handle = proc::pidfd_open_checked(who.0, who.1).ok()?;
        self.supervisors.push(Supervisor { who, handle });
        Some(who)
    }

    fn wait_for_lease(&mut self, job: &JobView, number: usize) -> Result<()> {
        if self.leases.is_none() {
            self.leases = Some(Leases::new()?);
        }
        match &self.leases {
            Some(leases) => leases.wait(job, number),
            None => Ok(()),
        }
    }

    /// Whether there is something to take at once.
    pub(super) fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Readable when a job may have ended.
    pub(super) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let supervisors = self.supervisors.iter();
        let leases = self.leases.iter().map(|leases| leases.woken.as_fd());
        supervisors
            .map(|supervisor| supervisor.handle.as_fd())
            .chain(leases)
            .collect()
    }

    /// The ends since the last call. `ready` says which of `fds` are readable.
    pub(super) fn take(&mut self, events: &[InotifyEvent], ready: &[bool]) -> Vec<Ended> {
        let overflowed = changes::overflowed(events);
        let mut gone = Vec::new();
        let mut at = 0;
        self.supervisors.retain(|supervisor| {
            let is_gone = ready.get(at).copied().unwrap_or(false);
            at += 1;
            gone.extend(is_gone.then_some(supervisor.who));
            !is_gone
        });
        let watched = std::mem::take(&mut self.watched);
        for one in watched {
            let is_alone = gone.contains(&one.supervisor);
            let may_have_ended =
                is_alone || overflowed || changes::reports(events, one.place, changes::END);
            match may_have_ended.then(|| look(&one.job)).flatten() {
                Some(ended) => self.found.push((one.number, ended)),
                // It lives on without its supervisor, or another process has taken over its lease.
                None if is_alone => {
                    if let Err(error) = self.wait_for_lease(&one.job, one.number) {
                        self.found.push((one.number, Err(error)));
                    }
                }
                None => self.watched.push(one),
            }
        }
        if let Some(leases) = self
            .leases
            .as_mut()
            .filter(|_| ready.get(at) == Some(&true))
        {
            self.found.extend(leases.take());
        }
        std::mem::take(&mut self.found)
    }
}

/// Asks the store. `None`: the job has not ended.
fn look(job: &JobView) -> Option<Result<Waited>> {
    match job.reload() {
        Ok(Some(now)) if now.state.is_terminal() => Some(Ok(Waited::Ended(Box::new(now)))),
        Ok(Some(_)) => None,
        Ok(None) => Some(Ok(Waited::Gone)),
        // It was removed while we looked.
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Some(Ok(Waited::Gone))
        }
        Err(error) => Some(Err(error)),
    }
}

/// Threads that each block on the lease of a job.
struct Leases {
    ends: mpsc::Receiver<Ended>,
    sender: mpsc::Sender<Ended>,
    woken: PipeReader,
    waker: Arc<PipeWriter>,
}

impl Leases {
    fn new() -> Result<Self> {
        let (woken, waker) = io::pipe().map_err(|source| Error::sys("wait", source))?;
        let (sender, ends) = mpsc::channel();
        Ok(Self {
            ends,
            sender,
            woken,
            waker: Arc::new(waker),
        })
    }

    fn wait(&self, job: &JobView, number: usize) -> Result<()> {
        let (sender, waker) = (self.sender.clone(), Arc::clone(&self.waker));
        let job = job.clone();
        let wait = move || {
            // Whoever waited may have left.
            if sender.send((number, job.wait(None))).is_ok() {
                drop((&*waker).write(&[0]));
            }
        };
        let started = std::thread::Builder::new().stack_size(STACK).spawn(wait);
        started
            .map(drop)
            .map_err(|source| Error::sys("start a thread", source))
    }

    fn take(&mut self) -> Vec<Ended> {
        drop(self.woken.read(&mut [0; 512]));
        self.ends.try_iter().collect()
    }
}

//! The ends of any number of jobs, without a thread for each while they run.
//!
//! The lease of a job is the truth, but a lock can only be waited for by blocking. So the jobs' processes
//! and their supervisors are watched by pidfds, in one `poll`. When one of them is gone, the record is
//! about to come, or the store has to decide what became of the job; only then a thread blocks on the
//! lease. The same is done at once where there is no such process to be seen: in another pid namespace,
//! on another machine, or when the supervisor is gone already.
//!
//! Whoever waits for one job and for nothing else blocks on its lease directly. inotify would report the
//! record just as soon, but it makes the process that used it end late (see `changes`).

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, mpsc};

use crate::error::{Error, Result};
use crate::job::record::ProcIdentity;
use crate::store::{JobView, Waited};
use crate::sys::proc;

/// Enough for a record to be read; the default would be 2 MiB a job.
const STACK: usize = 512 * 1024;

/// The end of the job that was added with this number.
pub(super) type Ended = (usize, Result<Waited>);

#[derive(Default)]
pub(super) struct Ends {
    /// Not watched yet.
    added: Vec<(JobView, usize)>,
    watched: Vec<Watched>,
    /// The supervisors of those; one may have many jobs.
    supervisors: Vec<Supervisor>,
    /// Threads that wait for leases; made when the first is needed.
    leases: Option<Leases>,
    /// What was found and not taken yet.
    found: Vec<Ended>,
}

/// A job whose process runs.
struct Watched {
    job: JobView,
    number: usize,
    leader: OwnedFd,
    /// Pid and start time.
    supervisor: (i32, u64),
}

struct Supervisor {
    who: (i32, u64),
    handle: OwnedFd,
}

impl Ends {
    pub(super) fn add(&mut self, job: &JobView, number: usize) {
        if job.state.is_terminal() {
            let ended = Waited::Ended(Box::new(job.clone()));
            self.found.push((number, Ok(ended)));
        } else {
            self.added.push((job.clone(), number));
        }
    }

    /// Blocks until the only job has ended. `None`: there are others, or none.
    pub(super) fn wait_for_the_only_one(&mut self) -> Option<Ended> {
        let none_else = self.watched.is_empty() && self.leases.is_none() && self.found.is_empty();
        if !none_else || self.added.len() != 1 {
            return None;
        }
        let (job, number) = self.added.pop()?;
        Some((number, job.wait(None)))
    }

    /// Begins to watch the jobs that were added since the last call.
    pub(super) fn watch_added(&mut self) {
        for (job, number) in std::mem::take(&mut self.added) {
            let leader = if job.launch_known {
                handle_on(&job.launch.facts.proc)
            } else {
                None
            };
            let supervisor = leader.is_some().then(|| self.watch_supervisor(&job));
            match (leader, supervisor.flatten()) {
                (Some(leader), Some(supervisor)) => self.watched.push(Watched {
                    job,
                    number,
                    leader,
                    supervisor,
                }),
                _ => self.wait_for_lease(job, number),
            }
        }
    }

    fn watch_supervisor(&mut self, job: &JobView) -> Option<(i32, u64)> {
        let identity = &job.launch.supervisor;
        let who = (identity.pid, identity.starttime);
        if self.supervisors.iter().all(|known| known.who != who) {
            let handle = handle_on(identity)?;
            self.supervisors.push(Supervisor { who, handle });
        }
        Some(who)
    }

    fn wait_for_lease(&mut self, job: JobView, number: usize) {
        let leases = match self.leases.take() {
            Some(leases) => Ok(leases),
            None => Leases::new(),
        };
        match leases.and_then(|leases| leases.wait(job, number).map(|()| leases)) {
            Ok(leases) => self.leases = Some(leases),
            Err(error) => self.found.push((number, Err(error))),
        }
    }

    /// Whether there is something to take at once.
    pub(super) fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Readable when a job may have ended.
    pub(super) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let leaders = self.watched.iter().map(|watched| watched.leader.as_fd());
        let supervisors = self.supervisors.iter();
        let leases = self.leases.iter().map(|leases| leases.woken.as_fd());
        leaders
            .chain(supervisors.map(|supervisor| supervisor.handle.as_fd()))
            .chain(leases)
            .collect()
    }

    /// The ends since the last call. `ready` says which of `fds` are readable.
    pub(super) fn take(&mut self, ready: &[bool]) -> Vec<Ended> {
        let (leaders, ready) = ready.split_at(self.watched.len());
        let (supervisors, leases) = ready.split_at(self.supervisors.len());
        if let Some(leases) = self.leases.as_mut().filter(|_| leases.contains(&true)) {
            self.found.extend(leases.take());
        }
        let mut is_gone = supervisors.iter();
        let gone: Vec<Supervisor> = self
            .supervisors
            .extract_if(.., |_| is_gone.next() == Some(&true))
            .collect();
        let is_gone = |who| gone.iter().any(|supervisor| supervisor.who == who);
        let watched = std::mem::take(&mut self.watched);
        for (watched, &has_ended) in watched.into_iter().zip(leaders) {
            if has_ended || is_gone(watched.supervisor) {
                self.wait_for_lease(watched.job, watched.number);
            } else {
                self.watched.push(watched);
            }
        }
        std::mem::take(&mut self.found)
    }
}

/// A handle on a process, if it runs and can be seen from here.
fn handle_on(who: &ProcIdentity) -> Option<OwnedFd> {
    let is_here = who.pidns == proc::pidns()
        && who.timens == proc::timens()
        && who.boot_id == proc::boot_id();
    let handle = is_here.then(|| proc::pidfd_open_checked(who.pid, who.starttime));
    handle?.ok()
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

    fn wait(&self, job: JobView, number: usize) -> Result<()> {
        let (sender, waker) = (self.sender.clone(), Arc::clone(&self.waker));
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

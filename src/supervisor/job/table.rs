//! All jobs of this supervisor, those that have ended too. A job is known by its place.

use std::ops::{Index, IndexMut};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::channel::Output;
use super::{Job, Limits, Shown, Watch};
use crate::store::LiveJob;
use crate::supervisor::Supervisor;
use crate::supervisor::event_loop::TOKEN_JOB;
use crate::supervisor::processes::Ending;
use crate::supervisor::publisher::Start;
use crate::sys::clock;
use crate::sys::fds::Object;
use crate::sys::proc::{self, Stat};
use crate::wire::LoneJob;

pub(in crate::supervisor) struct Jobs {
    all: Vec<Job>,
    /// The only job that the text can start, until somebody is it.
    pub(super) lone: Option<LoneJob>,
    /// How often files were looked for that jobs write to.
    pub(super) file_checks: usize,
    /// `Some` iff a record could not be written: until when that is tried.
    pub(super) give_up_at: Option<Duration>,
    /// The code of `run` for a job that started, or did not.
    pub(super) start_code: u8,
}

impl Index<usize> for Jobs {
    type Output = Job;

    fn index(&self, index: usize) -> &Job {
        &self.all[index]
    }
}

impl IndexMut<usize> for Jobs {
    fn index_mut(&mut self, index: usize) -> &mut Job {
        &mut self.all[index]
    }
}

impl Jobs {
    pub(in crate::supervisor) fn new(lone: Option<LoneJob>) -> Self {
        Self {
            all: Vec::new(),
            lone,
            file_checks: 0,
            give_up_at: None,
            start_code: 0,
        }
    }

    pub(in crate::supervisor) fn len(&self) -> usize {
        self.all.len()
    }

    /// How `run` without `--wait` ends, as a wait status.
    pub(in crate::supervisor) fn start_status(&self) -> i32 {
        i32::from(self.start_code) << 8
    }

    pub(in crate::supervisor) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(in crate::supervisor) fn iter(&self) -> std::slice::Iter<'_, Job> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Job> {
        self.all.iter_mut()
    }

    pub(in crate::supervisor) fn push(&mut self, job: Job) {
        self.all.push(job);
    }

    /// The job that a process is.
    pub(in crate::supervisor) fn running(&self, pid: i32) -> Option<usize> {
        self.iter().position(|job| job.pid == pid && !job.ended)
    }

    /// Whether a job runs.
    pub(in crate::supervisor) fn any_running(&self) -> bool {
        self.iter().any(|job| !job.ended)
    }

    /// Whether `pid` is a job, be it one that has ended: the shell may have left it to us unreaped.
    pub(in crate::supervisor) fn includes(&self, pid: i32) -> bool {
        let starttime = proc::starttime(pid);
        self.iter()
            .any(|job| job.pid == pid && Some(job.starttime) == starttime)
    }

    /// The latest job of a pid.
    pub(in crate::supervisor) fn latest(&self, pid: i32) -> Option<&Job> {
        self.iter().rev().find(|job| job.pid == pid)
    }

    /// The processes of every running job but one that is `root` itself.
    pub(in crate::supervisor) fn trees_beside(&self, root: i32, table: &[Stat]) -> Vec<i32> {
        let jobs = self.iter().filter(|job| !job.ended && job.pid != root);
        jobs.flat_map(|job| proc::tree_in(table, job.pid))
            .map(|stat| stat.pid)
            .collect()
    }

    /// The jobs that ended so lately that their processes may still be ending with them.
    pub(in crate::supervisor) fn recent_endings(&self) -> Vec<Ending> {
        let now = clock::boottime();
        let endings = self.iter().filter_map(|job| job.ending);
        endings.filter(|ending| now < ending.until).collect()
    }

    /// Ended jobs whose terminals others may still write to.
    pub(in crate::supervisor) fn ended_with_output(&self) -> Vec<usize> {
        (0..self.len())
            .filter(|&index| self[index].ended && self[index].output.is_some())
            .collect()
    }

    /// The one of these whose terminal is among the streams.
    pub(in crate::supervisor) fn writer_of(
        &self,
        among: &[usize],
        streams: &[Option<Object>],
    ) -> Option<usize> {
        among.iter().copied().find(|&index| {
            let output = self[index].output.as_ref();
            output.is_some_and(|output| output.find(streams).is_some())
        })
    }

    /// Who gets what is still written to the call's own pipes: a job with a record, if there is one.
    pub(in crate::supervisor) fn receiver(&self) -> Option<usize> {
        let recorded = |job: &Job| !job.ended && job.live.is_some();
        let found = self.iter().position(recorded);
        found.or_else(|| self.iter().position(|job| !job.ended))
    }

    /// Whether a job's output waits for the harness.
    pub(in crate::supervisor) fn any_held(&self) -> bool {
        self.iter().any(Job::is_held)
    }

    pub(in crate::supervisor) fn resume_held(&mut self, epoll: &Epoll) {
        for job in self.iter_mut().filter(|job| job.shown.is_held) {
            job.shown.is_held = false;
            job.listen(epoll, true);
        }
    }

    /// Holds back, or goes on with, the jobs that write to a sink.
    pub(in crate::supervisor) fn listen_to_mirrors(
        &mut self,
        sink: usize,
        epoll: &Epoll,
        on: bool,
    ) {
        for job in self.iter_mut().filter(|job| job.mirrors_to(sink)) {
            job.listen(epoll, on);
        }
    }

    /// The call is over: nobody is shown their output any more.
    pub(in crate::supervisor) fn stop_mirroring(&mut self, epoll: &Epoll) {
        self.iter_mut().for_each(|job| job.stop_mirroring(epoll));
    }

    pub(in crate::supervisor) fn do_housekeeping(&mut self) {
        self.iter_mut().for_each(Job::do_housekeeping);
    }

    /// The terminals of an ended job go to one that was started from it and could not be given its own;
    /// else they are closed.
    pub(in crate::supervisor) fn pass_on_output(&mut self, from: usize, epoll: &Epoll) {
        let job = &mut self[from];
        job.listen(epoll, false);
        let Some(output) = job.output.take() else {
            return;
        };
        let mirrors = job.shown.mirrors;
        let next = self
            .iter_mut()
            .find(|job| !job.ended && job.output.is_none() && job.writes_to(&output));
        if let Some(next) = next {
            next.output = Some(output);
            next.shown.mirrors = mirrors;
            next.listen(epoll, true);
        }
    }

    /// The descriptors by which jobs are watched, read and typed at. Their leases are in the records.
    pub(in crate::supervisor) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.iter().flat_map(|job| {
            let output = job.output.iter().flat_map(Output::descriptors);
            let pidfd = job.watch.pidfd.as_ref().map(AsRawFd::as_raw_fd);
            output.chain(pidfd)
        })
    }
}

impl Supervisor {
    /// A job of a process, not in the table yet.
    pub(in crate::supervisor) fn new_job(&self, start: &Start<'_>, live: Option<LiveJob>) -> Job {
        let (pid, index) = (start.pid, self.jobs.len());
        let pidfd = self.can_watch().then(|| proc::pidfd_open(pid).ok());
        let pidfd = pidfd.flatten();
        if let Some(pidfd) = &pidfd {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, index as u64 | TOKEN_JOB);
            let _ = self.poller.epoll.add(pidfd, event);
        }
        let published = live.as_ref().map(|live| live.launch().facts.proc.starttime);
        Job {
            pid,
            starttime: published.or_else(|| proc::starttime(pid)).unwrap_or(0),
            text: start.text.to_vec(),
            former_leader: None,
            live,
            is_stray: false,
            watch: Watch {
                pidfd,
                ..Watch::default()
            },
            output: None,
            shown: Shown::default(),
            redirected: [start.redirected_to.clone(), start.redirected_stderr.clone()],
            typing: None,
            limits: Limits::default(),
            stopped_seen: false,
            ended: false,
            ended_in_call: false,
            ending: None,
            unwritten: None,
            expected: None,
            index,
        }
    }
}

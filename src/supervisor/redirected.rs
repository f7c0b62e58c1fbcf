//! Where the output of a compound job goes: `cd dir && make > log &`.
//!
//! The subshell registers before it runs anything, so the record of such a job names no file; and a
//! word that is expanded twice may mean another file the second time. So its processes are looked at a
//! few times soon after the call. As long as nothing was written to the job's own terminal and exactly
//! one file is written to, that file is where a reader will find the output, and it is noted beside
//! the record. A job that is over sooner stays without.

use std::time::Duration;

use super::Supervisor;
use crate::sys::{clock, fds, proc};

/// When to look, counted from the look before.
const LOOKS: [Duration; 5] = [
    Duration::from_millis(20),
    Duration::from_millis(80),
    Duration::from_millis(400),
    Duration::from_secs(2),
    Duration::from_secs(10),
];
/// More processes than this are not one program's.
const MOST: usize = 64;

/// The looks that are still to come: how many were taken, and when the next is due.
pub(super) type Looks = Option<(usize, Duration)>;

impl Supervisor {
    /// At the end of the call.
    pub(super) fn expect_redirections(&mut self) {
        let any = (0..self.jobs.len()).any(|index| self.is_silent(index));
        self.looks = any.then(|| (0, clock::boottime() + LOOKS[0]));
    }

    /// Looks once, and plans the next look if that may tell more.
    pub(super) fn look_for_files(&mut self) {
        let Some((taken, _)) = self.looks.take() else {
            return;
        };
        for index in 0..self.jobs.len() {
            if self.is_silent(index)
                && let Some(path) = self.only_file(index)
            {
                let job = &mut self.jobs[index];
                if let Some(live) = &mut job.live {
                    live.set_redirected(&path);
                }
                job.redirected_to = Some(path);
            }
        }
        let any = (0..self.jobs.len()).any(|index| self.is_silent(index));
        let next = LOOKS.get(taken + 1).filter(|_| any);
        self.looks = next.map(|wait| (taken + 1, clock::boottime() + *wait));
    }

    /// Whether it runs and has used neither its own terminal nor a file that we know of.
    fn is_silent(&mut self, index: usize) -> bool {
        let job = &mut self.jobs[index];
        let wrote = |live: &mut crate::store::LiveJob| live.transcript().facts().bytes_total > 0;
        !job.ended
            && job.redirected_to.is_none()
            && job.output.is_some()
            && job.live.as_mut().is_some_and(|live| !wrote(live))
    }

    /// The one file that the processes of a job have as their stdout, if no program of it has another
    /// place where somebody would look.
    fn only_file(&self, index: usize) -> Option<String> {
        let job = &self.jobs[index];
        let own = job.output.as_ref()?.main.object;
        let shell = proc::cmdline(job.pid);
        let mut tree = vec![job.pid];
        let mut next = 0;
        let mut found: Option<String> = None;
        while let Some(&pid) = tree.get(next) {
            next += 1;
            tree.extend(proc::children(pid));
            if tree.len() > MOST {
                return None;
            }
            if fds::is_regular_of(pid, 1) {
                let path = super::jobs::target(pid, 1)?;
                if found.as_ref().is_some_and(|other| *other != path) {
                    return None;
                }
                found = Some(path);
            } else if fds::object_of(pid, 1) == own && proc::cmdline(pid) != shell {
                return None;
            }
        }
        found
    }
}

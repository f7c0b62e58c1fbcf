//! Where the output of a compound job goes: `cd dir && make > log &`.
//!
//! The subshell registers before it runs anything, so the record of such a job names no file; and a
//! word that is expanded twice may mean another file the second time. So its processes are looked at a
//! few times soon after the call. As long as nothing was written to the job's own terminal and exactly
//! one file is written to, that file is where a reader will find the output, and it is noted beside
//! the record; so is that of stderr. A job that is over sooner stays without.

use std::time::Duration;

use super::Supervisor;
use super::jobs::Job;
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

/// So many looks are taken for the stderr of a job whose stdout is known, or was used.
const LOOKS_FOR_STDERR: usize = 3;

impl Supervisor {
    /// At the end of the call.
    pub(super) fn expect_redirections(&mut self) {
        self.looks = self.next_look(0);
    }

    /// Looks once, and plans the next look if that may tell more.
    pub(super) fn look_for_files(&mut self) {
        let Some((taken, _)) = self.looks.take() else {
            return;
        };
        for index in 0..self.jobs.len() {
            let stdout = if self.is_silent(index) {
                self.only_file(index, 1)
            } else {
                None
            };
            let stderr = if self.jobs[index].may_redirect_stderr() {
                self.only_file(index, 2)
            } else {
                None
            };
            self.jobs[index].note_redirections(stdout, stderr);
        }
        self.looks = self.next_look(taken + 1);
    }

    fn next_look(&mut self, taken: usize) -> Looks {
        let silent = (0..self.jobs.len()).any(|index| self.is_silent(index));
        let any =
            silent || taken < LOOKS_FOR_STDERR && self.jobs.iter().any(Job::may_redirect_stderr);
        let wait = LOOKS.get(taken).filter(|_| any)?;
        Some((taken, clock::boottime() + *wait))
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

    /// The one file that the processes of a job have at `fd`, if no program of it has another place
    /// there where somebody would look.
    fn only_file(&self, index: usize, fd: i32) -> Option<String> {
        let job = &self.jobs[index];
        let own = job.output.as_ref()?;
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
            if fds::is_regular_of(pid, fd) {
                let path = super::jobs::target(pid, fd)?;
                if found.as_ref().is_some_and(|other| *other != path) {
                    return None;
                }
                found = Some(path);
            } else if own.find(&[fds::object_of(pid, fd)]).is_some() && proc::cmdline(pid) != shell
            {
                return None;
            }
        }
        found
    }
}

impl Job {
    /// Whether its stderr was its own when it registered, and may be a file by now.
    fn may_redirect_stderr(&self) -> bool {
        !self.ended && self.redirected_stderr.is_none() && self.output.is_some()
    }

    fn note_redirections(&mut self, stdout: Option<String>, stderr: Option<String>) {
        let Some(live) = &mut self.live else { return };
        if let Some(path) = stdout {
            live.set_redirected(&path);
            self.redirected_to = Some(path);
        }
        if let Some(path) = stderr.filter(|path| Some(path) != self.redirected_to.as_ref()) {
            live.set_redirected_stderr(&path);
            self.redirected_stderr = Some(path);
        }
    }
}

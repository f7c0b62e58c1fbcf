//! Where the output of a compound job goes: `cd dir && make > log &`.
//!
//! The subshell registers before it runs anything, so the record of such a job names no file; and a
//! word that is expanded twice may mean another file the second time. So its processes are looked at a
//! few times soon after the call. As long as nothing was written to the job's own terminal and exactly
//! one file is written to, that file is where a reader will find the output, and it is noted beside
//! the record; so is that of stderr. A job that is over sooner stays without.

use std::time::Duration;

use super::Job;
use crate::supervisor::Supervisor;
use crate::supervisor::timers::Timer;
use crate::sys::{clock, fds, proc};

/// When to check, counted from the check before.
const CHECKS: [Duration; 5] = [
    Duration::from_millis(20),
    Duration::from_millis(80),
    Duration::from_millis(400),
    Duration::from_secs(2),
    Duration::from_secs(10),
];
/// More processes than this are not one program's.
const MOST: usize = 64;

/// So many checks are made for the stderr of a job whose stdout is known, or was used.
const STDERR_CHECKS: usize = 3;

impl Supervisor {
    /// At the end of the call.
    pub(in crate::supervisor) fn plan_file_checks(&mut self) {
        self.plan_file_check(0);
    }

    /// Checks once, and plans the next check if that may tell more.
    pub(in crate::supervisor) fn check_files(&mut self) {
        for index in 0..self.jobs.len() {
            let job = &mut self.jobs[index];
            let wanted = [job.has_written_nothing(), job.may_redirect_stderr()];
            let [stdout, stderr] = job.only_files(wanted);
            job.note_redirections(stdout, stderr);
        }
        self.plan_file_check(self.jobs.file_checks + 1);
    }

    fn plan_file_check(&mut self, made: usize) {
        self.jobs.file_checks = made;
        let any = self.jobs.iter_mut().any(Job::has_written_nothing)
            || made < STDERR_CHECKS && self.jobs.iter().any(Job::may_redirect_stderr);
        let wait = CHECKS.get(made).filter(|_| any);
        let at = wait.map(|wait| clock::boottime() + *wait);
        self.timers.set_to(Timer::OutputFiles, at);
    }
}

impl Job {
    /// Whether it runs and has used neither its own terminal nor a file that we know of.
    fn has_written_nothing(&mut self) -> bool {
        let wrote = |live: &mut crate::store::LiveJob| live.transcript().facts().bytes_total > 0;
        !self.ended
            && self.redirected[0].is_none()
            && self.output.is_some()
            && self.live.as_mut().is_some_and(|live| !wrote(live))
    }

    /// For each stream that is wanted the one file that the processes of a job have there, if no program
    /// of it has another place there where somebody would look.
    fn only_files(&self, mut wanted: [bool; 2]) -> [Option<String>; 2] {
        const NONE: [Option<String>; 2] = [None, None];
        let Some(own) = &self.output else { return NONE };
        let shell = proc::cmdline(self.pid);
        let mut tree = vec![self.pid];
        let mut next = 0;
        let mut found = NONE;
        while let Some(&pid) = tree.get(next).filter(|_| wanted.contains(&true)) {
            next += 1;
            tree.extend(proc::children(pid));
            if tree.len() > MOST {
                return NONE;
            }
            for (at, fd) in [1, 2]
                .into_iter()
                .enumerate()
                .filter(move |(at, _)| wanted[*at])
            {
                let file = &mut found[at];
                if fds::is_regular_of(pid, fd) {
                    let path = target(pid, fd);
                    wanted[at] = path.is_some() && (file.is_none() || *file == path);
                    *file = path;
                } else if own.find(&[fds::object_of(pid, fd)]).is_some() {
                    wanted[at] = proc::cmdline(pid) == shell;
                }
            }
        }
        let [stdout, stderr] = found;
        [stdout.filter(|_| wanted[0]), stderr.filter(|_| wanted[1])]
    }

    /// Whether its stderr was its own when it registered, and may be a file by now.
    fn may_redirect_stderr(&self) -> bool {
        !self.ended && self.redirected[1].is_none() && self.output.is_some()
    }

    fn note_redirections(&mut self, stdout: Option<String>, stderr: Option<String>) {
        let Some(live) = &mut self.live else { return };
        if let Some(path) = stdout {
            live.set_redirected(&path);
            self.redirected[0] = Some(path);
        }
        if let Some(path) = stderr.filter(|path| Some(path) != self.redirected[0].as_ref()) {
            live.set_redirected_stderr(&path);
            self.redirected[1] = Some(path);
        }
    }
}

/// Where a descriptor of a process leads, when that is a file with a name.
fn target(pid: i32, fd: i32) -> Option<String> {
    let path = proc::link(pid, &format!("fd/{fd}"))?;
    path.is_absolute()
        .then(|| path.to_string_lossy().into_owned())
}

/// Where stdout and stderr of a process lead, as far as they are not ours to read. One place is named
/// once.
pub(in crate::supervisor) fn redirections(pid: i32, ours: [bool; 2]) -> [Option<String>; 2] {
    let of = |fd: i32, ours: bool| (!ours).then(|| target(pid, fd)).flatten();
    let stdout = of(1, ours[0]);
    let stderr = of(2, ours[1]).filter(|path| Some(path) != stdout.as_ref());
    [stdout, stderr]
}

//! `wait --follow`: every job of a session, as they start and end, until somebody stops it.
//!
//! The kernel tells of new jobs (their directories appear by a rename) and of ends (leases); between
//! them it sleeps. What had ended before is past, unless it was promised to this subscriber.

use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::cli::Wait;
use crate::error::{Error, Result};
use crate::store::{JobView, Waited, told};
use crate::sys::fds;
use crate::verbs::wait::TIMED_OUT;
use crate::verbs::wait_notify::{Audience, STACK, is_news};

/// How often to look where the kernel cannot tell of new jobs.
const BLIND: Duration = Duration::from_secs(2);

type Answer = (JobView, Result<Waited>);

pub(super) fn follow(audience: &mut Audience<'_>, wait: &Wait) -> Result<u8> {
    let session = wait
        .tell
        .session
        .clone()
        .or_else(|| audience.context.session());
    let deadline = wait.timeout.map(|time| Instant::now() + time);
    let (sender, answers) = mpsc::channel();
    audience.context.open_store()?;
    let wake = Wake::new(audience.context.job_dirs())?;
    let mut known: BTreeSet<PathBuf> = BTreeSet::new();
    let mut first = true;
    loop {
        // Asked before looking, so that nothing falls between.
        wake.drain();
        for job in audience.context.jobs()? {
            let ours = session.is_none() || job.launch.session == session;
            if !ours || !known.insert(job.dir.clone()) {
                continue;
            }
            if job.state.is_terminal() {
                let wanted = if first {
                    audience.owes(&job)?
                } else {
                    is_news(&job)
                };
                if wanted {
                    audience.want(&job)?;
                    end(audience, &job)?;
                }
                continue;
            }
            audience.want(&job)?;
            audience.follow(&job)?;
            wait_for(&job, sender.clone(), wake.bell()?)?;
        }
        first = false;
        while let Ok((job, waited)) = answers.try_recv() {
            end(audience, &super::ended(&job, waited?)?)?;
        }
        if deadline.is_some_and(|at| at <= Instant::now()) {
            return Ok(TIMED_OUT);
        }
        wake.sleep(deadline);
    }
}

/// Waits for the end of a job in a thread of its own, and rings.
fn wait_for(job: &JobView, sender: mpsc::Sender<Answer>, bell: Bell) -> Result<()> {
    let job = job.clone();
    let wait = move || {
        let waited = job.wait(None);
        drop(sender.send((job, waited)));
        drop(bell);
    };
    std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(wait)
        .map(drop)
        .map_err(|source| Error::sys("start a thread", source))
}

/// One end. What the agent of our own session knows is not said to it again.
fn end(audience: &mut Audience<'_>, job: &JobView) -> Result<()> {
    let ours =
        audience.context.session().is_some() && audience.context.session() == job.launch.session;
    let known = ours && (told::is_told(job) || !is_news(job));
    audience.deliver(job, !known).map(drop)
}

/// What ends the sleep: a new job, or the end of one.
struct Wake {
    inotify: Option<Inotify>,
    reader: std::io::PipeReader,
    writer: std::io::PipeWriter,
}

/// Writes one byte when it is dropped.
struct Bell(std::io::PipeWriter);

impl Drop for Bell {
    fn drop(&mut self) {
        use std::io::Write;
        drop(self.0.write(b"x"));
    }
}

impl Wake {
    fn new(dirs: Vec<PathBuf>) -> Result<Self> {
        let failed = |source| Error::sys("wait", source);
        let (reader, writer) = std::io::pipe().map_err(failed)?;
        use std::os::fd::AsFd;
        fds::set_nonblocking(reader.as_fd()).map_err(failed)?;
        let watch = || {
            let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?;
            let flags = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
            for dir in &dirs {
                inotify.add_watch(dir, flags).ok()?;
            }
            Some(inotify)
        };
        Ok(Self {
            inotify: watch(),
            reader,
            writer,
        })
    }

    fn bell(&self) -> Result<Bell> {
        let copy = self.writer.try_clone();
        copy.map(Bell).map_err(|source| Error::sys("wait", source))
    }

    fn drain(&self) {
        use std::io::Read;
        let mut bytes = [0; 64];
        while (&self.reader).read(&mut bytes).is_ok_and(|read| read > 0) {}
        if let Some(inotify) = &self.inotify {
            drop(inotify.read_events());
        }
    }

    fn sleep(&self, deadline: Option<Instant>) {
        use std::os::fd::AsFd;
        let mut left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if self.inotify.is_none() {
            left = Some(left.map_or(BLIND, |left| left.min(BLIND)));
        }
        let wait = left.map_or(-1, |left| {
            i32::try_from(left.as_millis())
                .unwrap_or(i32::MAX)
                .saturating_add(1)
        });
        let mut watched = vec![self.reader.as_raw_fd()];
        watched.extend(self.inotify.as_ref().map(|i| i.as_fd().as_raw_fd()));
        drop(fds::wait_readable(&watched, wait));
    }
}

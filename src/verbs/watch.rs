//! Sleeping until jobs write or end: in the kernel, on inotify and on their leases.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use crate::error::{Error, Result};
use crate::store::{JobView, Waited};

/// A notice of the kernel can be missed (another host wrote, a queue ran over): then we look anyway.
const RESCAN: Duration = Duration::from_secs(2);
/// The same where there are no notices at all.
const RESCAN_BLIND: Duration = Duration::from_millis(250);
/// Enough for a record to be read; the default would be 2 MiB a job.
const STACK: usize = 512 * 1024;

/// What happened. The number is the one that the job was added with.
pub(crate) enum Event {
    /// There may be more output.
    Output(usize),
    Ended(usize, Result<Waited>),
}

pub(crate) struct Watch {
    /// `None`: the kernel gives no notices here.
    inotify: Option<Inotify>,
    places: Vec<(WatchDescriptor, usize)>,
    /// Whose output is of interest.
    outputs: Vec<usize>,
    scanned: Instant,
    ends: mpsc::Receiver<(usize, Result<Waited>)>,
    sender: mpsc::Sender<(usize, Result<Waited>)>,
    woken: PipeReader,
    waker: Arc<PipeWriter>,
}

impl Watch {
    pub(crate) fn new() -> Result<Self> {
        let (woken, waker) = io::pipe().map_err(|source| Error::sys("wait", source))?;
        let (sender, ends) = mpsc::channel();
        Ok(Self {
            inotify: Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok(),
            places: Vec::new(),
            outputs: Vec::new(),
            scanned: Instant::now(),
            ends,
            sender,
            woken,
            waker: Arc::new(waker),
        })
    }

    /// Asks to be told when something is written at `path`: a file, or a directory of files. To be
    /// called before what is there is read.
    pub(crate) fn add_output(&mut self, path: &Path, number: usize) {
        let flags =
            AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
        let added = self.inotify.as_ref().map(|it| it.add_watch(path, flags));
        match added {
            Some(Ok(descriptor)) => self.places.push((descriptor, number)),
            // Too many watches, or a file system without: then we look.
            _ => self.inotify = None,
        }
        if !self.outputs.contains(&number) {
            self.outputs.push(number);
        }
    }

    /// Asks to be told of the end of a job.
    pub(crate) fn add_end(&mut self, job: &JobView, number: usize) -> Result<()> {
        let (sender, waker) = (self.sender.clone(), Arc::clone(&self.waker));
        let job = job.clone();
        std::thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || {
                let waited = job.wait(None);
                // Whoever waited may have left.
                if sender.send((number, waited)).is_ok() {
                    drop((&*waker).write(&[0]));
                }
            })
            .map_err(|source| Error::sys("start a thread", source))?;
        Ok(())
    }

    /// Blocks until something happened, or `deadline` is over: then there is nothing in the list.
    pub(crate) fn next(&mut self, deadline: Option<Instant>) -> Vec<Event> {
        loop {
            let now = Instant::now();
            let rescan = (!self.outputs.is_empty()).then(|| {
                let every = if self.inotify.is_some() {
                    RESCAN
                } else {
                    RESCAN_BLIND
                };
                self.scanned + every
            });
            let end = [deadline, rescan].into_iter().flatten().min();
            self.sleep(end.map(|end| end.saturating_duration_since(now)));
            let mut events = self.outputs_now(rescan);
            events.extend(
                self.ends
                    .try_iter()
                    .map(|(n, waited)| Event::Ended(n, waited)),
            );
            if !events.is_empty() || deadline.is_some_and(|end| Instant::now() >= end) {
                return events;
            }
        }
    }

    fn sleep(&mut self, left: Option<Duration>) {
        let time = match left {
            None => PollTimeout::NONE,
            // Rounded up, or the last millisecond would be spent spinning.
            Some(left) => {
                let ms = left.as_micros().div_ceil(1000).min(i32::MAX as u128);
                PollTimeout::try_from(ms as i32).unwrap_or(PollTimeout::MAX)
            }
        };
        let mut fds = vec![PollFd::new(self.woken.as_fd(), PollFlags::POLLIN)];
        fds.extend(
            self.inotify
                .as_ref()
                .map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)),
        );
        let woken = match poll(&mut fds, time) {
            Ok(_) => fds[0].any().unwrap_or(false),
            Err(Errno::EINTR) => false,
            // Cannot happen with descriptors of ours; better slow than busy.
            Err(_) => {
                std::thread::park_timeout(RESCAN_BLIND);
                false
            }
        };
        if woken {
            drop(self.woken.read(&mut [0; 512]));
        }
    }

    fn outputs_now(&mut self, rescan: Option<Instant>) -> Vec<Event> {
        let now = Instant::now();
        let mut numbers: Vec<usize> = Vec::new();
        let mut all = rescan.is_some_and(|due| now >= due);
        while let Some(Ok(events)) = self.inotify.as_ref().map(Inotify::read_events) {
            all |= events
                .iter()
                .any(|event| event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW));
            // A directory may be watched for several jobs, so one descriptor may have many numbers.
            for (descriptor, number) in &self.places {
                let told = events.iter().any(|event| event.wd == *descriptor);
                if told && !numbers.contains(number) {
                    numbers.push(*number);
                }
            }
        }
        if all {
            self.scanned = now;
            numbers.clone_from(&self.outputs);
        }
        numbers.into_iter().map(Event::Output).collect()
    }
}

//! `--mirror`: what jobs write, also on the container's stdout, as lines `[ID] text`.
//!
//! A process of its own follows the transcripts, so neither PID 1 nor a job ever waits for whoever reads that
//! stdout. TERM from PID 1 tells it to write what is left, and to leave.

mod out;

use std::collections::HashSet;
use std::ffi::{CStr, OsString};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};

use crate::follow::lines::{AT_REST, Stream, Text};
use crate::follow::output;
use crate::follow::sleep::{Event, Sleeper};
use crate::invocation::{MIRROR, OWN_NAME};
use crate::job::{How, JobId};
use crate::settings::Settings;
use crate::shell::Ourselves;
use crate::store::{JobView, Store};
use crate::sys::fds::{self, Kind};
use crate::sys::process::{self, Image};
use crate::sys::signal::{self, Saved, SignalFd};
use crate::sys::{clock, proc, session};
use crate::wire::MIRROR_VARIABLE;
use crate::{config, text};

use out::{Out, write_line};

const TITLE: &CStr = c"agent-sh mirror";

/// So much is shown of one job.
const MOST: usize = 8 * 1024 * 1024;
/// How often to look for a place for jobs where there is none yet.
const NO_STORE: Duration = Duration::from_millis(500);
/// The number under which new jobs are watched for; those of jobs are below.
const JOBS: usize = usize::MAX;

/// Starts the process, with the streams that this one has now. `None`: there is no stdout, or it cannot be
/// started.
pub(super) fn start(saved: &Saved) -> Option<i32> {
    if fds::kind(1) == Kind::Closed {
        return None;
    }
    let since = clock::boottime().as_millis().to_string();
    let words = [OWN_NAME.into(), MIRROR.into(), OsString::from(since)];
    let image = Image::new(Path::new("/proc/self/exe"), &words, &[]);
    let mut failed = false;
    let parent = session::pid();
    let pid = process::spawn_sharing(&mut || {
        session::child_die_with(parent);
        drop(session::child_new_session());
        saved.child_restore(&[libc::SIGCHLD]);
        drop(image.child_exec());
        failed = true;
        126
    });
    let pid = pid.ok()?;
    if failed {
        process::wait_for(pid);
        return None;
    }
    Some(pid)
}

/// What tells supervisors below which streams show every job already, so that they show none there
/// themselves.
pub(super) fn variable() -> Vec<u8> {
    let streams = [1, 2].map(|fd| {
        let object = fds::object(fd);
        object.map_or_else(String::new, |object| object.to_string())
    });
    format!("{MIRROR_VARIABLE}={}", streams.join(" ")).into_bytes()
}

/// The process. The word is the time of the machine's clock from which on jobs are of interest.
#[must_use]
pub(crate) fn main(words: &[OsString]) -> u8 {
    let since = words.first().and_then(|word| word.to_str()?.parse().ok());
    let settings = config::settings(&Ourselves::find());
    session::set_title(TITLE);
    signal::ignore(&[libc::SIGPIPE]);
    // Only PID 1 may end this process: a terminal's signals are for the command.
    let others = [libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];
    let Ok(signals) = SignalFd::deaf_to(&others, &[libc::SIGTERM]) else {
        return 125;
    };
    let Ok(out) = Out::take(signals) else {
        return 125;
    };
    drop(std::env::set_current_dir("/"));
    let mut mirror = Mirror {
        out,
        settings,
        since: since.unwrap_or(0),
        store: None,
        sleeper: Sleeper::new(),
        has_new: true,
        seen: HashSet::new(),
        numbers: 0..JOBS,
        followed: Vec::new(),
    };
    while !mirror.out.is_gone {
        let last = mirror.out.ends();
        mirror.find_jobs(last);
        mirror.follow(last);
        if last {
            break;
        }
        mirror.sleep();
    }
    0
}

struct Mirror {
    out: Out,
    settings: Settings,
    /// In milliseconds since boot.
    since: u64,
    store: Option<Store>,
    sleeper: Sleeper,
    /// There may be jobs that were not seen yet.
    has_new: bool,
    seen: HashSet<JobId>,
    /// Those that no job had yet.
    numbers: std::ops::Range<usize>,
    followed: Vec<Followed>,
}

impl Mirror {
    /// Finds jobs that have begun since. `last`: also if none was reported.
    fn find_jobs(&mut self, last: bool) {
        if self.store.is_none() {
            self.store = Store::open_writable(&self.settings, config::env).ok();
            if let Some(store) = &self.store {
                self.sleeper.watch_entries(&store.jobs_path(), JOBS);
            }
        }
        let Some(store) = &self.store else { return };
        if !std::mem::take(&mut self.has_new) && !last {
            return;
        }
        let new = store.new_jobs(None, &mut self.seen).unwrap_or_default();
        for job in new.into_iter().filter(|job| is_ours(job, self.since)) {
            let (Ok(source), Some(number)) = (output::transcript(&job), self.numbers.next()) else {
                continue;
            };
            self.sleeper.watch_output(&source.path, number);
            let stream = Stream::new(source);
            self.followed.push(Followed::new(job, stream, number));
        }
    }

    /// Shows what there is. `all`: also what may still change.
    fn follow(&mut self, all: bool) {
        let Self {
            out,
            followed,
            sleeper,
            ..
        } = self;
        followed.retain_mut(|job| {
            if job.is_changed || all {
                job.show(out, all);
            } else if job.rests_at.is_some_and(|at| at <= Instant::now()) {
                job.settle(out);
            }
            if job.is_over {
                sleeper.forget(job.number);
            }
            !job.is_over
        });
    }

    /// Until something is written or begins, a drawing is finished, or TERM comes.
    fn sleep(&mut self) {
        let rests = self.followed.iter().filter_map(|job| job.rests_at);
        let look = self.store.is_none().then(|| Instant::now() + NO_STORE);
        let until = rests.chain(look).min();
        let term = [PollFd::new(self.out.signals.as_fd(), PollFlags::POLLIN)];
        for event in self.sleeper.sleep_with(&term, until).0 {
            match event {
                Event::Changed(JOBS) => self.has_new = true,
                Event::Changed(number) | Event::Ended(number, _) => {
                    let mut jobs = self.followed.iter_mut();
                    if let Some(job) = jobs.find(|job| job.number == number) {
                        job.is_changed = true;
                    }
                }
            }
        }
    }
}

/// Whether it runs here, has begun since, and its output is its own.
fn is_ours(job: &JobView, since: u64) -> bool {
    let launch = &job.launch;
    let proc = &launch.facts.proc;
    let here = proc.pidns == proc::pidns() && proc.boot_id == proc::boot_id();
    let new = launch.started_boot_ms >= since;
    here && new && launch.facts.how != How::Foreground && launch.transcript.is_none()
}

/// A job, and how far it was shown.
struct Followed {
    job: JobView,
    stream: Stream,
    number: usize,
    /// How many bytes may still be shown of it.
    room: usize,
    is_changed: bool,
    /// `Some` iff something was read since the last rest.
    rests_at: Option<Instant>,
    is_over: bool,
}

impl Followed {
    fn new(job: JobView, stream: Stream, number: usize) -> Self {
        Self {
            job,
            stream,
            number,
            room: MOST,
            is_changed: true,
            rests_at: None,
            is_over: false,
        }
    }

    fn label(&self) -> String {
        format!("[{}] ", self.job.id())
    }

    /// Reads on and shows it; `all`: to its end, whatever may follow.
    fn show(&mut self, out: &mut Out, all: bool) {
        self.is_changed = false;
        // Asked before the last read: what came before the end is there then.
        let ended = match self.job.reload() {
            Ok(Some(job)) => job.state.is_terminal(),
            Ok(None) | Err(_) => true,
        };
        let label = self.label();
        let Self { stream, room, .. } = self;
        while *room > 0 && !out.is_gone {
            let read = stream.read(false, |text| {
                match text {
                    Text::Line(text) => write_line(out, &label, text, room),
                    Text::Gap(bytes) => {
                        let text = format!("[... {} left out ...]", text::size(bytes));
                        write_line(out, &label, &text, room);
                    }
                    Text::Raw(_) => {}
                }
                Ok(())
            });
            if !read.unwrap_or(false) {
                break;
            }
            stream.settle(false, |text| write_line(out, &label, text, room));
            self.rests_at = Some(Instant::now() + AT_REST);
        }
        if ended || all {
            stream.finish(|text| write_line(out, &label, text, room));
            self.is_over = true;
        }
        // Nothing more of it will be shown.
        self.is_over |= *room == 0;
    }

    fn settle(&mut self, out: &mut Out) {
        self.rests_at = None;
        let label = self.label();
        let Self { stream, room, .. } = self;
        stream.settle(true, |text| write_line(out, &label, text, room));
    }
}

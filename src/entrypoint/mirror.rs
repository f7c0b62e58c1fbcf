//! `--mirror`: what jobs write, also on the container's stdout, as lines `[ID] text`.
//!
//! A process of its own follows the transcripts, so neither PID 1 nor a job ever waits for whoever reads that
//! stdout. TERM from PID 1 tells it to write what is left, and to leave.

mod out;

use std::collections::HashSet;
use std::ffi::{CStr, OsString};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use crate::handoff::MIRROR_VARIABLE;
use crate::invocation::{MIRROR, OWN_NAME};
use crate::job::{How, JobId};
use crate::screen::Clean;
use crate::settings::Settings;
use crate::shell::Ourselves;
use crate::store::{Chunk, JobView, Reading, Store, TranscriptReader};
use crate::sys::fds::{self, Kind};
use crate::sys::process::{self, Image};
use crate::sys::signal::{self, Saved, SignalFd};
use crate::sys::{clock, proc, session};
use crate::{configured, text};

use out::{Out, write_line};

const TITLE: &CStr = c"agent-sh mirror";

/// So much is shown of one job.
const MOST: usize = 8 * 1024 * 1024;
/// A job that has written nothing for so long has finished its drawing.
const AT_REST: Duration = Duration::from_millis(200);
/// How often to look where the kernel cannot tell.
const BLIND: Duration = Duration::from_millis(500);
/// Bytes of one read.
const CHUNK: usize = 16 * 1024;

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
pub fn main(words: &[OsString]) -> u8 {
    let since = words.first().and_then(|word| word.to_str()?.parse().ok());
    let settings = configured::settings(&Ourselves::find());
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
        inotify: Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok(),
        is_blind: false,
        seen: HashSet::new(),
        followed: Vec::new(),
    };
    while !mirror.out.is_gone {
        let last = mirror.out.ends();
        mirror.look();
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
    inotify: Option<Inotify>,
    /// Something is to be watched and cannot be.
    is_blind: bool,
    seen: HashSet<JobId>,
    followed: Vec<Followed>,
}

impl Mirror {
    /// Finds jobs that have begun since.
    fn look(&mut self) {
        if self.store.is_none() {
            self.store = Store::open_writable(&self.settings, configured::env).ok();
            if let Some(store) = &self.store {
                let dir = store.jobs_path();
                self.watch(&dir);
            }
        }
        let Some(store) = &self.store else { return };
        let mut new = store.ids().unwrap_or_default();
        new.retain(|id| !self.seen.contains(id));
        let loaded = new.iter().filter_map(|id| store.load(id).ok().flatten());
        let found: Vec<JobView> = loaded.filter(|job| self.is_ours(job)).collect();
        self.seen.extend(new);
        for job in found {
            if let Ok(reader) = job.read_transcript(Reading::Marked) {
                let path = job.transcript_path();
                let watch = self.watch(path.parent().unwrap_or(&job.dir));
                self.followed.push(Followed::new(job, reader, watch));
            }
        }
    }

    /// Whether it runs here and its output is its own.
    fn is_ours(&self, job: &JobView) -> bool {
        let launch = &job.launch;
        let here = launch.proc.pidns == proc::pidns() && launch.proc.boot_id == proc::boot_id();
        let new = launch.started_boot_ms >= self.since;
        here && new && launch.how != How::Foreground && launch.transcript.is_none()
    }

    fn watch(&mut self, dir: &Path) -> Option<WatchDescriptor> {
        let flags =
            AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
        let inotify = self.inotify.as_ref()?;
        let added = inotify.add_watch(dir, flags).ok();
        self.is_blind |= added.is_none();
        added
    }

    /// Shows what there is. `all`: also what may still change.
    fn follow(&mut self, all: bool) {
        let Self { out, followed, .. } = self;
        followed.retain_mut(|job| {
            if job.is_changed || all {
                job.show(out, all);
            } else if job.rests_at.is_some_and(|at| at <= Instant::now()) {
                job.settle(out);
            }
            !job.is_over
        });
    }

    /// Until something is written or begins, a drawing is finished, or TERM comes.
    fn sleep(&mut self) {
        let now = Instant::now();
        let rest = self.followed.iter().filter_map(|job| job.rests_at).min();
        let mut limit = rest.map(|at| at.saturating_duration_since(now));
        let blind = self.is_blind || self.inotify.is_none() || self.store.is_none();
        if blind {
            limit = Some(limit.map_or(BLIND, |limit| limit.min(BLIND)));
        }
        let limit = limit.map_or(-1, |limit| {
            i32::try_from(limit.as_millis()).map_or(i32::MAX, |ms| ms.saturating_add(1))
        });
        let inotify = self.inotify.as_ref().map_or(-1, |inotify| {
            let fd = inotify.as_fd();
            fd.as_raw_fd()
        });
        let signals = self.out.signals.as_raw_fd();
        drop(fds::wait_readable(&[signals, inotify], limit));
        let mut overflow = blind;
        while let Some(Ok(events)) = self.inotify.as_ref().map(Inotify::read_events) {
            for event in &events {
                overflow |= event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW);
                let of = |job: &&mut Followed| job.watch == Some(event.wd);
                self.followed
                    .iter_mut()
                    .filter(of)
                    .for_each(|job| job.is_changed = true);
            }
            if events.is_empty() {
                break;
            }
        }
        if overflow {
            self.followed
                .iter_mut()
                .for_each(|job| job.is_changed = true);
        }
    }
}

/// A job, and how far it was shown.
struct Followed {
    job: JobView,
    reader: TranscriptReader,
    watch: Option<WatchDescriptor>,
    clean: Clean,
    /// How many bytes may still be shown of it.
    room: usize,
    is_changed: bool,
    /// `Some` iff something was read since the last rest.
    rests_at: Option<Instant>,
    is_over: bool,
}

impl Followed {
    fn new(job: JobView, reader: TranscriptReader, watch: Option<WatchDescriptor>) -> Self {
        let clean = if job.launch.tty {
            Clean::default()
        } else {
            Clean::of_file()
        };
        Self {
            job,
            reader,
            watch,
            clean,
            room: MOST,
            is_changed: true,
            rests_at: None,
            is_over: false,
        }
    }

    /// Reads on and shows it; `all`: to its end, whatever may follow.
    fn show(&mut self, out: &mut Out, all: bool) {
        self.is_changed = false;
        // Asked before the last read: what came before the end is there then.
        let ended = match self.job.reload() {
            Ok(Some(job)) => job.state.is_terminal(),
            Ok(None) | Err(_) => true,
        };
        let mut buffer = vec![0; CHUNK];
        let label = format!("[{}] ", self.job.id());
        while self.room > 0 && !out.is_gone {
            let room = &mut self.room;
            let mut line = |text: &str| write_line(out, &label, text, room);
            match self.reader.next(&mut buffer) {
                Ok(Chunk::Bytes(read)) => {
                    self.clean.push(&buffer[..read], &mut line);
                    self.clean.settle(false, &mut line);
                    self.rests_at = Some(Instant::now() + AT_REST);
                }
                Ok(Chunk::Gap(bytes)) => {
                    self.clean.finish(&mut line);
                    line(&format!("[... {} left out ...]", text::size(bytes)));
                }
                Ok(Chunk::End) | Err(_) => break,
            }
        }
        if ended || all {
            let room = &mut self.room;
            self.clean
                .finish(|text| write_line(out, &label, text, room));
            self.is_over = true;
        }
        // Nothing more of it will be shown.
        self.is_over |= self.room == 0;
    }

    fn settle(&mut self, out: &mut Out) {
        self.rests_at = None;
        let label = format!("[{}] ", self.job.id());
        let room = &mut self.room;
        let show = |text: &str| write_line(out, &label, text, room);
        self.clean.settle(true, show);
    }
}

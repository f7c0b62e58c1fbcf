//! The role of PID 1, or of a reaper below it: runs one command, passes signals on, reaps whatever is
//! handed to it, and leaves when the command has ended and its jobs are accounted for.
//!
//! It waits in `sigtimedwait` and holds nothing: no descriptor but a terminal that has to be handed on,
//! no directory. Supervisors of jobs are its children, because their own parents have gone: it sees
//! them end, and tells them to end their jobs by a signal with a number ([`END_JOBS`]). They write the
//! records and have subscribers notified; this process only waits for that.

mod command;
mod mirror;
mod options;
mod stage;

use std::ffi::{CStr, OsString};
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::error::Error;
use crate::invocation::DELIVER;
use crate::message;
use crate::notify::deliver::TITLE as DELIVERY_TITLE;
use crate::sys::fds::{self, Kind};
use crate::sys::init::{self, AllSignals};
use crate::sys::process;
use crate::sys::signal::{self, Saved};
use crate::sys::{clock, proc, session};
use crate::wire::{END_JOBS, SUPERVISOR_TITLE};

pub(crate) use mirror::main as mirror;
use options::{Options, Refused};
use stage::{Effect, Event, Stage, step};

/// What `ps` shows: not the command, which `pkill -f` means when it names it.
const TITLE: &CStr = c"agent-sh entrypoint";

/// How long records and notifications may take after everything was killed.
const SETTLING: Duration = Duration::from_millis(1500);
/// How often jobs are looked for while the end is near: one that starts then is told too, and a
/// supervisor that is nobody's child of ours ends unseen.
const LOOK: Duration = Duration::from_millis(250);

/// How long the last lines of jobs may take to a reader that reads. One that does not is given up earlier.
const MIRROR_END: Duration = Duration::from_secs(10);

/// Whether the arguments were meant for this role; `None`: clap has to explain them.
#[must_use]
pub(crate) fn run(words: &[OsString]) -> Option<u8> {
    match Options::read(words) {
        Ok(options) => Some(serve(options)),
        Err(Refused::Help) => None,
        Err(Refused::Wrong(text)) => Some(message::error(&Error::Usage {
            text,
            hint: Some("'agent-sh entrypoint --help' shows the options".to_owned()),
        })),
    }
}

/// The command and what is known of its end.
struct Entrypoint {
    options: Options,
    child: i32,
    /// `Some` iff it has ended.
    status: Option<i32>,
    stage: Stage,
    /// When the stage is over.
    deadline: Option<Duration>,
    /// Whether stdin is a terminal that is handed on.
    has_terminal: bool,
    /// The process that shows what jobs write; `None`: nobody does.
    mirror: Option<i32>,
    /// When the first TERM came.
    stopped_at: Option<Duration>,
}

fn serve(options: Options) -> u8 {
    let is_init = session::pid() == 1;
    if options.subreaper
        && let Err(source) = session::become_subreaper()
    {
        return message::error(&Error::sys("become a subreaper", source));
    }
    if !is_init && !options.subreaper {
        message::say_with_hint(
            "this is not PID 1, so orphans and jobs are left to whoever is",
            "'-s' makes this process their reaper",
        );
    }
    if let Some(signal) = options.parent_death
        && let Err(source) = init::signal_at_parents_death(signal)
    {
        return message::error(&Error::sys("set the parent death signal", source));
    }
    let saved = Saved::now(&[libc::SIGCHLD]);
    let signals = AllSignals::block();
    // Ignored, the kernel would reap for us, and nobody could be waited for.
    signal::reset(&[libc::SIGCHLD]);
    let has_terminal = fds::kind(0) == Kind::Terminal;
    // Before the command can look for its own words.
    session::set_title(TITLE);
    let mirror = options.mirror.then(|| mirror::start(&saved)).flatten();
    if options.mirror && mirror.is_none() {
        message::say("cannot show the output of jobs: there is no stdout, or no /proc");
    }
    let extra = mirror.map(|_| mirror::variable()).into_iter().collect();
    let child = match command::start(&options.command, extra, &saved, has_terminal) {
        Ok(child) => child,
        Err(error) => {
            if let Some(mirror) = mirror {
                init::pass_on(mirror, libc::SIGKILL, false);
                process::wait_for(mirror);
            }
            return options.exit_code(message::error(&error));
        }
    };
    hold_nothing(has_terminal);
    let mut entrypoint = Entrypoint {
        options,
        child,
        status: None,
        stage: Stage::Serving,
        deadline: None,
        has_terminal,
        mirror,
        stopped_at: None,
    };
    while entrypoint.stage != Stage::Done {
        entrypoint.turn(&signals);
    }
    entrypoint.end_mirror(&signals);
    entrypoint.exit_code()
}

/// Whether the terminal at stdin is ours to hand on.
fn is_in_foreground() -> bool {
    fds::with_borrowed(0, |fd| session::foreground_group(&fd)) == Some(session::own_group())
}

/// Lets go of everything that somebody may wait for the end of, or wish to unmount.
fn hold_nothing(has_terminal: bool) {
    if let Ok(null) = fds::open_path("/dev/null", libc::O_RDWR) {
        for fd in i32::from(has_terminal)..3 {
            drop(fds::put(null.as_raw_fd(), fd));
        }
    }
    fds::close_all_but(3, &mut []);
    drop(std::env::set_current_dir("/"));
    init::forget_start();
}

impl Entrypoint {
    /// Waits for one signal, or the end of this stage, and does what it asks for.
    fn turn(&mut self, signals: &AllSignals) {
        let now = clock::boottime();
        let left = self.deadline.map(|at| at.saturating_sub(now));
        let limit = match self.stage {
            Stage::Serving => left,
            _ => Some(left.map_or(LOOK, |left| left.min(LOOK))),
        };
        match signals.wait(limit) {
            Some(libc::SIGCHLD) => self.reap(),
            Some(signal) => self.take(signal),
            None => {}
        }
        if self.deadline.is_some_and(|at| at <= clock::boottime()) {
            self.happen(Event::Deadline);
        }
        if self.stage.ends_jobs() {
            self.end_jobs();
        }
        if self.stage != Stage::Serving && self.status.is_some() {
            self.look();
        }
    }

    /// A signal for this process is one for the command; TERM is a wish to stop.
    fn take(&mut self, signal: i32) {
        if signal == libc::SIGCONT {
            self.hand_terminal_on();
        }
        if self.status.is_none()
            && let Some(signal) = self.options.rewritten(signal)
        {
            init::pass_on(
                self.child,
                signal,
                self.options.group || is_job_control(signal),
            );
        }
        let impatient = matches!(signal, libc::SIGINT | libc::SIGQUIT | libc::SIGHUP);
        if signal == libc::SIGTERM {
            self.stopped_at.get_or_insert_with(clock::boottime);
        }
        if signal == libc::SIGTERM || impatient && self.stage == Stage::Draining {
            self.happen(Event::Stop);
        }
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = init::reap_next() {
            if pid == self.child {
                self.status = Some(status);
            }
            self.mirror.take_if(|mirror| *mirror == pid);
        }
        if self.status.is_some() {
            if self.has_terminal {
                // Ctrl-C is for us from here on.
                session::child_take_terminal(0, session::own_group());
            }
            self.happen(Event::Ended);
        } else if init::stopped_by(self.child).is_some() && self.has_terminal && session::pid() != 1
        {
            // Whoever started us has to see that the command has stopped.
            signal::stop_self();
        }
    }

    /// Back from a stop: the command has the terminal again, if we have.
    fn hand_terminal_on(&self) {
        if self.has_terminal && self.status.is_none() && is_in_foreground() {
            session::child_take_terminal(0, self.child);
        }
    }

    fn happen(&mut self, event: Event) {
        let (next, effects) = step(self.stage, event, self.options.group);
        if next != self.stage {
            let time = match next {
                Stage::Serving | Stage::Done => None,
                Stage::Draining => Some(self.options.drain),
                Stage::Stopping => Some(self.options.budget),
                Stage::Grace | Stage::Leftovers => Some(self.options.grace),
                Stage::Killed => Some(SETTLING),
            };
            self.deadline = time.map(|time| clock::boottime().saturating_add(time));
            self.stage = next;
        }
        for effect in effects {
            match effect {
                Effect::EndLeftovers => self.end_leftovers(),
                Effect::Kill => {
                    if self.status.is_none() {
                        init::pass_on(self.child, libc::SIGKILL, self.options.group);
                    }
                }
            }
        }
    }

    /// After the end of the command: whether anything is left to wait for.
    fn look(&mut self) {
        let all = self.below();
        if all.is_empty() {
            self.happen(Event::Empty);
        } else if !all.iter().any(is_ours) {
            self.happen(Event::Quiet);
        }
    }

    /// Tells every supervisor to end its jobs before this stage is over.
    fn end_jobs(&self) {
        let left = self.deadline.map(|at| at.saturating_sub(clock::boottime()));
        let left = match self.stage {
            Stage::Killed => 0,
            _ => i32::try_from(left.unwrap_or_default().as_millis()).unwrap_or(i32::MAX),
        };
        // One that does not block the signal yet would die of it.
        let told = |stat: &&proc::Stat| is_supervisor(stat) && proc::blocks(stat.pid, END_JOBS);
        for stat in self.below().iter().filter(told) {
            drop(init::queue(stat.pid, END_JOBS, left));
        }
    }

    /// Tells what is neither the command nor a job to end. Jobs are their supervisors' to end.
    fn end_leftovers(&self) {
        let all = self.below();
        let mut spared = vec![self.child];
        for supervisor in all.iter().filter(|stat| is_ours(stat)) {
            spared.extend(
                proc::tree_in(&all, supervisor.pid)
                    .iter()
                    .map(|stat| stat.pid),
            );
        }
        for stat in all.iter().filter(|stat| !spared.contains(&stat.pid)) {
            init::pass_on(stat.pid, libc::SIGTERM, false);
        }
    }

    /// Every process that ends with us: all of the pid namespace for its init, else our descendants.
    fn below(&self) -> Vec<proc::Stat> {
        let own = session::pid();
        let table = proc::table();
        let mut all = if own == 1 {
            table
        } else {
            proc::tree_in(&table, own)
        };
        all.retain(|stat| stat.pid != own && Some(stat.pid) != self.mirror && !stat.is_dead());
        all
    }

    /// Lets the last lines of jobs out, but waits for no reader beyond the time that there is.
    fn end_mirror(&mut self, signals: &AllSignals) {
        let Some(mirror) = self.mirror else { return };
        let now = clock::boottime();
        let all = self.options.budget.saturating_add(SETTLING);
        let left = self.stopped_at.map_or(MIRROR_END, |at| {
            at.saturating_add(all).saturating_sub(now).min(MIRROR_END)
        });
        let until = now.saturating_add(left.max(LOOK));
        init::pass_on(mirror, libc::SIGTERM, false);
        while self.mirror.is_some() {
            let left = until.saturating_sub(clock::boottime());
            if left.is_zero() {
                // Not PID 1, nobody else would end it.
                init::pass_on(mirror, libc::SIGKILL, false);
                return;
            }
            if signals.wait(Some(left)) == Some(libc::SIGCHLD) {
                self.reap();
            }
        }
    }

    fn exit_code(&self) -> u8 {
        let code = self.status.map_or(128 + libc::SIGKILL as u8, |status| {
            crate::job::Outcome::from_wait_status(status).shell_code()
        });
        self.options.exit_code(code)
    }
}

/// Signals that a terminal sends to a group.
fn is_job_control(signal: i32) -> bool {
    matches!(signal, libc::SIGTSTP | libc::SIGCONT)
}

fn is_supervisor(stat: &proc::Stat) -> bool {
    is_named(stat, SUPERVISOR_TITLE)
}

/// A supervisor, or a helper that carries notifications, also one that has yet to name itself. In the middle of
/// its exec it has neither a name nor arguments, only the program.
fn is_ours(stat: &proc::Stat) -> bool {
    if is_supervisor(stat) || is_named(stat, DELIVERY_TITLE) {
        return true;
    }
    let words = proc::cmdline(stat.pid).unwrap_or_default();
    match words.get(1) {
        Some(word) => word == DELIVER,
        None => {
            let program = || proc::link(session::pid(), "exe");
            let its = proc::link(stat.pid, "exe");
            words.is_empty() && its.is_some() && its == program()
        }
    }
}

/// The kernel keeps 15 bytes of a name.
fn is_named(stat: &proc::Stat, title: &CStr) -> bool {
    let title = title.to_bytes();
    stat.comm() == &title[..title.len().min(15)]
}

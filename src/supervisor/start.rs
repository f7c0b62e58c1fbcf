//! Becoming a supervisor.
//!
//! Order matters: subreaper before the shell exists, or an early orphan would go to init; the request
//! pipe before the shell exists, or an early job would find nobody; with a terminal, the new session
//! only after the fork (the shell stays in the caller's) and before the shell may run (a kill of the
//! caller's group must not hit a supervisor that already has a command to answer for).

mod shell;

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::Supervisor;
use super::call::{Buffer, Call, Feed, Front, Relay, Shell, Sink};
use super::drain::Drain;
use super::event_loop::{Poller, TOKEN_CHILD, TOKEN_FEED, TOKEN_LINK, TOKEN_REQUESTS, TOKEN_SINK};
use super::inbox::Inbox;
use super::job::{Jobs, PreparedRun, can_begin};
use super::kill_set::KillSet;
use super::linger::Linger;
use super::notifications::Notifications;
use super::publisher::Publisher;
use super::setup::Setup;
use super::state::Event;
use super::strays::Strays;
use super::timers::{Timer, Timers};
use super::warm::Warm;
use crate::job::Degraded;
use crate::sys::fds::{self, FileLimit, Kind};
use crate::sys::signal;
use crate::sys::{clock, session};
use crate::wire::{
    Address, CALLER_VARIABLE, FrontLink, SUPERVISOR_TITLE, SUPERVISOR_VARIABLE, ToFront, Work,
};

pub(super) use shell::child_restore;

/// The streams of the shell: for stdout and stderr what to put there, `None` for "as inherited".
struct Streams {
    sinks: Vec<Sink>,
    feeds: Vec<Option<Feed>>,
    ends: [Option<usize>; 2],
    pipes: Vec<OwnedFd>,
}

/// All that is opened before the shell exists. Until then everything may fail: then the front runs the
/// shell itself. Afterwards nothing may.
struct Opened {
    poller: Poller,
    inbox: Inbox,
    streams: Streams,
    limit: FileLimit,
    degraded: Vec<Degraded>,
}

/// The shell, or the program of `agent-sh run` behind its gate.
struct Started {
    shell: Shell,
    run: Option<PreparedRun>,
}

pub(super) fn start(mut work: Work) -> Option<Supervisor> {
    let mut link = work.link.take()?;
    // None may end or stop a supervisor: an agent's `pkill` means the job, and a limit of the caller's is
    // not ours to die of. All are blocked at once; those that it starts get the caller's mask back.
    signal::block_all();
    match begin(work, &mut link) {
        Ok((mut supervisor, is_waited_for)) => {
            let Supervisor { call, poller, .. } = &mut supervisor;
            call.front.connect(link, &poller.epoll, TOKEN_LINK);
            if !is_waited_for {
                supervisor.apply(Event::RunStarted);
            }
            Some(supervisor)
        }
        Err(error) => {
            link.tell(&ToFront::Failed(error.raw_os_error().unwrap_or(libc::EIO)));
            None
        }
    }
}

/// Gives whether the front waits for the command.
fn begin(work: Work, link: &mut FrontLink) -> std::io::Result<(Supervisor, bool)> {
    let mut opened = open(work.run.is_some())?;
    let started = start_command(&work, &mut opened)?;
    if let Some(shell_pid) = work.shell_pid {
        shell_pid.store(started.shell.pid, Ordering::Release);
    }
    session::set_title(SUPERVISOR_TITLE);
    let limit = opened.limit;
    let run = work.run.clone();
    let mut supervisor = assemble(work, opened, started.shell);
    let mut keep = supervisor.descriptors();
    keep.extend(link.descriptors());
    keep.extend(started.run.iter().flat_map(PreparedRun::descriptors));
    let_go_of_the_harness(&mut keep);
    limit.raise();
    let is_waited_for = match (started.run, run) {
        (Some(prepared), Some(run)) => supervisor.begin_run(prepared, &run, link),
        _ => true,
    };
    let Supervisor {
        poller,
        inbox,
        call,
        ..
    } = &mut supervisor;
    inbox.watch(&poller.epoll, TOKEN_REQUESTS);
    poller.watch_children(TOKEN_CHILD);
    call.relay.watch(&poller.epoll);
    supervisor.prepare_for_jobs();
    Ok((supervisor, is_waited_for))
}

fn open(is_run: bool) -> std::io::Result<Opened> {
    // Without the subreaper bit strays go to init: the call works, the reaper net does not hold.
    let mut degraded = Vec::new();
    if session::become_subreaper().is_err() {
        degraded.push(Degraded::NoSubreaper);
    }
    let poller = Poller::new()?;
    let inbox = Inbox::open()?;
    let streams = set_up_streams(is_run)?;
    let limit = FileLimit::now();
    if !can_begin(limit.most(), streams.pipes.len(), inbox.descriptors()[0]) {
        return Err(std::io::Error::from_raw_os_error(libc::EMFILE));
    }
    Ok(Opened {
        poller,
        inbox,
        streams,
        limit,
        degraded,
    })
}

fn start_command(work: &Work, opened: &mut Opened) -> std::io::Result<Started> {
    let own_session = session::own_session();
    let leads_session = work.terminal.is_none() && !fds::at_terminal();
    let marker = marker(opened.inbox.address(), work.caller);
    let run = match &work.run {
        Some(run) => Some(PreparedRun::fork(work, run, &marker, &mut opened.degraded)?),
        None => None,
    };
    let pid = match &run {
        Some(run) => run.pid(),
        None => {
            let children = opened.poller.children();
            let streams = &mut opened.streams;
            let pid = shell::start_shell(work, leads_session, &marker, streams, children)?;
            streams.pipes.clear();
            pid
        }
    };
    let session = if leads_session { pid } else { own_session };
    let shell = Shell::new(pid, session, clock::boottime());
    Ok(Started { shell, run })
}

/// What descendants find their supervisor and its caller by, as `NAME=value`.
fn marker(address: Address, caller: i32) -> [Vec<u8>; 2] {
    [
        format!("{SUPERVISOR_VARIABLE}={}", address.to_text()).into_bytes(),
        format!("{CALLER_VARIABLE}={caller}").into_bytes(),
    ]
}

/// Puts the parts together; what of the work is left over is dropped.
fn assemble(mut work: Work, opened: Opened, shell: Shell) -> Supervisor {
    let mut timers = Timers::default();
    let promotion = work
        .settings
        .promote_after
        .map(|after| shell.started + after);
    timers.set_to(Timer::Promotion, promotion);
    let warm = Warm::new(work.affinity.take(), shell.started, &mut timers);
    let publisher = Publisher::new(&work, opened.degraded, opened.inbox.address());
    let relay = Relay::new(opened.streams.sinks, opened.streams.feeds);
    let jobs = Jobs::new(work.lone.take());
    let setup = Setup::new(work, fds::object(0), opened.limit.most());
    Supervisor {
        poller: opened.poller,
        timers,
        call: Call::new(shell, Front::new(setup.front), relay),
        jobs,
        inbox: opened.inbox,
        publisher,
        notifications: Notifications::default(),
        kill_set: KillSet::default(),
        strays: Strays::default(),
        drain: Drain::default(),
        linger: Linger::default(),
        warm,
        setup,
        buffer: Buffer::default(),
    }
}

/// Everything of the harness but the sinks is closed; its directory is left, so that it can be
/// unmounted while a job runs.
fn let_go_of_the_harness(keep: &mut [i32]) {
    if let Ok(null) = fds::open_path("/dev/null", libc::O_RDWR) {
        for fd in 0..3 {
            drop(fds::put(null.as_raw_fd(), fd));
        }
    }
    fds::close_all_but(3, keep);
    drop(std::env::set_current_dir("/"));
}

/// Sinks for whatever the harness gave, feeds for what has to be relayed (DESIGN: a file that is not
/// appended to, a terminal and /dev/null are handed through).
fn set_up_streams(is_run: bool) -> std::io::Result<Streams> {
    let mut streams = Streams {
        sinks: Vec::new(),
        feeds: Vec::new(),
        ends: [None; 2],
        pipes: Vec::new(),
    };
    let objects = [fds::object(1), fds::object(2)];
    for (slot, fd) in [1, 2].into_iter().enumerate() {
        let kind = fds::kind(fd);
        if kind == Kind::Closed || !fds::is_writable(fd) {
            continue;
        }
        if slot == 1 && objects[0] == objects[1] && !streams.sinks.is_empty() {
            streams.ends[1] = streams.ends[0];
            continue;
        }
        let index = streams.sinks.len();
        streams
            .sinks
            .push(Sink::new(fd, kind, TOKEN_SINK + index as u64)?);
        let relayed = match kind {
            Kind::Pipe | Kind::Socket => !fds::consumer_is_gone(fd),
            Kind::File { append } => append,
            _ => false,
        };
        if relayed && !is_run {
            let (feed, end) = Feed::new(index, TOKEN_FEED + streams.feeds.len() as u64)?;
            streams.feeds.push(Some(feed));
            streams.ends[slot] = Some(streams.pipes.len());
            streams.pipes.push(end);
        }
    }
    Ok(streams)
}

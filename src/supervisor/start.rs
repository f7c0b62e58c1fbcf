//! Becoming a supervisor and starting the real shell.
//!
//! Order matters: subreaper before the shell exists, or an early orphan would go to init; the request
//! pipe before the shell exists, or an early job would find nobody; with a terminal, the new session
//! only after the fork (the shell stays in the caller's) and before the shell may run (a kill of the
//! caller's group must not hit a supervisor that already has a command to answer for).

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags};

use super::jobs::Output;
use super::kills::Kills;
use super::ledger::Ledger;
use super::stream::{Buffer, Feed, Sink};
use super::{
    Phase, Shell, Supervisor, TOKEN_CHILD, TOKEN_FEED, TOKEN_LINK, TOKEN_REGISTER, TOKEN_SINK,
};
use super::{jobs, run, scarce};
use crate::handoff::{
    Address, CALLER_VARIABLE, CHANGED_SIGNALS, END_JOBS, FrontLink, Group, SUPERVISOR_TITLE,
    SUPERVISOR_VARIABLE, ToFront, Work,
};
use crate::sys::fds::{self, FileLimit, Kind};
use crate::sys::process::{self, Forked, Image};
use crate::sys::signal::{self, SignalFd};
use crate::sys::{clock, pty, session};

/// How long a supervisor stays on the processor where the call began.
const SETTLING_IN: Duration = Duration::from_millis(10);

/// The streams of the shell: for stdout and stderr what to put there, `None` for "as inherited".
struct Streams {
    sinks: Vec<Sink>,
    feeds: Vec<Option<Feed>>,
    ends: [Option<usize>; 2],
    pipes: Vec<OwnedFd>,
}

pub(super) fn start(mut work: Work) -> Option<Supervisor> {
    let mut link = work.link.take()?;
    // None may end or stop a supervisor: an agent's `pkill` means the job, and a limit of the caller's is
    // not ours to die of. Blocked at one stroke; those that it starts get the caller's mask back.
    signal::block_all();
    match begin(work, &mut link) {
        Ok(mut supervisor) => {
            if supervisor.phase == Phase::Released {
                // `agent-sh run` has been answered; the front is as good as gone.
                supervisor.release();
                return Some(supervisor);
            }
            supervisor.watch(&link.requests, TOKEN_LINK);
            supervisor.link = Some(link);
            if supervisor.phase == Phase::Lingering {
                supervisor.say_announcement();
            }
            Some(supervisor)
        }
        Err(error) => {
            link.tell(&ToFront::Failed(error.raw_os_error().unwrap_or(libc::EIO)));
            None
        }
    }
}

fn begin(mut work: Work, link: &mut FrontLink) -> std::io::Result<Supervisor> {
    // Without the subreaper bit strays go to init: the call works, the reaper net does not hold.
    let mut degraded = Vec::new();
    if session::become_subreaper().is_err() {
        degraded.push("no-subreaper".to_owned());
    }
    let own_session = session::own_session();
    let leads_session = work.terminal.is_none() && !fds::at_terminal();
    // From here to the start of the shell everything may fail: then the front runs the shell itself.
    // Afterwards nothing may.
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let children = SignalFd::new(&[libc::SIGCHLD, END_JOBS])?;
    let (requests, request_end) = fds::pipe()?;
    fds::set_nonblocking(requests.as_fd())?;
    // Nothing below `/proc` is looked at before the shell runs: the first look at a new process makes
    // the kernel build its directory there, and take it down again at its end.
    let address = own_address(request_end.as_raw_fd())?;
    let marker = [
        format!("{SUPERVISOR_VARIABLE}={}", address.to_text()).into_bytes(),
        format!("{CALLER_VARIABLE}={}", work.caller).into_bytes(),
    ];
    let mut streams = set_up_streams(work.run.is_some())?;
    let limit = FileLimit::now();
    if !scarce::can_begin(limit.most(), streams.pipes.len(), requests.as_raw_fd()) {
        return Err(std::io::Error::from_raw_os_error(libc::EMFILE));
    }
    let mut started_run = None;
    let pid = match work.run.clone() {
        Some(run) => {
            drop(session::child_new_session());
            let opened = if run.interactive {
                jobs::open_seat()?
            } else {
                jobs::open_channel(work.settings.capture, &mut degraded)
                    .ok_or_else(std::io::Error::last_os_error)?
            };
            let (output, tty) = (Output::new(opened.channel, None), opened.tty);
            if let Some(size) = run.size {
                drop(pty::set_size(&output.main.leader, size.rows, size.columns));
            }
            let follower = output
                .follower()
                .ok_or_else(std::io::Error::last_os_error)?;
            let waiting = run::fork_program(&work, &run, follower, tty, &marker)?;
            let pid = waiting.pid;
            started_run = Some((waiting, output, tty, run));
            pid
        }
        None => {
            let pid = start_shell(&work, leads_session, &marker, &streams, &children)?;
            streams.pipes.clear();
            pid
        }
    };
    let started = clock::boottime();
    if let Some(shell_pid) = work.shell_pid {
        shell_pid.store(pid, Ordering::Release);
    }
    session::set_title(SUPERVISOR_TITLE);
    // The other end is kept open on purpose: `requests` must never report its end.
    std::mem::forget(request_end);
    work.terminal = work.terminal.filter(|_| work.run.is_none());
    let ledger = Ledger::new(&work, degraded, address);
    let mut supervisor = Supervisor {
        epoll,
        children,
        link: None,
        requests,
        request_bytes: Vec::new(),
        address,
        shell: Shell {
            pid,
            session: if leads_session { pid } else { own_session },
            status: None,
            started,
        },
        phase: Phase::Foreground,
        killing: None,
        doomed: None,
        bystanders: Vec::new(),
        stdin: fds::object(0),
        sinks: streams.sinks,
        feeds: streams.feeds,
        jobs: Vec::new(),
        ledger,
        spares: Vec::new(),
        most_files: limit.most(),
        promote_at: work.settings.promote_after.map(|after| started + after),
        settings: work.settings,
        saved: work.saved,
        has_spots: work.has_spots,
        lone: work.lone,
        has_terminal: work.terminal.is_some(),
        shares_group: matches!(work.group, Group::Shared),
        is_anchored: matches!(work.group, Group::Anchored(_)),
        stopped_front: None,
        continues: 0,
        command: work.command,
        shell_path: work.shell,
        shell_argv: work.argv,
        run: work.run,
        caller: work.caller,
        front: work.front,
        staying: super::linger::Staying::default(),
        dies_with_the_call: std::cell::OnceCell::new(),
        ourselves: work.ourselves,
        last_tail: Vec::new(),
        leftovers_at: None,
        dying_until: None,
        kills: Kills::default(),
        settle_down_at: None,
        program_name: std::cell::OnceCell::new(),
        looks: None,
        settled_in_at: work.affinity.is_some().then(|| started + SETTLING_IN),
        affinity: work.affinity,
        retry_at: None,
        give_up_at: None,
        introduced: 0,
        news: false,
        helpers: Vec::new(),
        buffer: Buffer::default(),
    };
    drop((work.terminal, work.group));
    let mut keep = supervisor.descriptors();
    keep.extend(link.descriptors());
    if let Some((waiting, output, ..)) = &started_run {
        keep.extend(waiting.descriptors());
        keep.extend(output.descriptors());
    }
    let_go_of_the_harness(&mut keep);
    limit.raise();
    if let Some((waiting, output, tty, run)) = started_run {
        supervisor.begin_run(&waiting, output, tty, &run, link);
    }
    supervisor.watch(&supervisor.requests, TOKEN_REGISTER);
    fds::with_borrowed(supervisor.children.as_raw_fd(), |fd| {
        supervisor.watch(fd, TOKEN_CHILD)
    });
    let Supervisor {
        epoll,
        sinks,
        feeds,
        ..
    } = &mut supervisor;
    sinks.iter_mut().for_each(|sink| sink.watch(epoll));
    feeds
        .iter_mut()
        .flatten()
        .for_each(|feed| feed.listen(epoll, true));
    if supervisor.has_spots {
        supervisor.program_name();
    }
    // Where there are few descriptors, none is taken before it is needed.
    if supervisor.has_spots && supervisor.has_plenty() {
        supervisor.ledger.prepare();
        let lone = supervisor.lone.as_ref().map(|lone| lone.asked);
        let capture = lone.map_or(supervisor.settings.capture, |asked| {
            supervisor.capture(asked)
        });
        // One for each stream that the harness tells apart.
        for _ in 0..supervisor.sinks.len().max(1) {
            let opened = jobs::open_channel(capture, &mut Vec::new());
            supervisor.spares.extend(opened);
        }
        if let Some(affinity) = &supervisor.affinity {
            affinity.come_home();
        }
    }
    Ok(supervisor)
}

fn own_address(fd: i32) -> std::io::Result<Address> {
    Ok(Address {
        pid: session::pid(),
        fd,
        pipe: fds::object(fd).ok_or_else(std::io::Error::last_os_error)?,
    })
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

/// Starts the real shell and gives its pid once it has been exec'd.
fn start_shell(
    work: &Work,
    leads_session: bool,
    marker: &[Vec<u8>],
    streams: &Streams,
    children: &SignalFd,
) -> std::io::Result<i32> {
    let end = |slot: usize| streams.ends[slot].map(|index| streams.pipes[index].as_raw_fd());
    let ends = [end(0), end(1)];
    let put_streams = || {
        for (fd, end) in [1, 2].into_iter().zip(ends) {
            if let Some(end) = end {
                drop(fds::put(end, fd));
            }
        }
    };
    // The text grew by our insertions, and the environment by a marker: both can be the straw too
    // much. The last try is what would have run without us.
    let tries: [(&[std::ffi::OsString], &[Vec<u8>]); 3] = [
        (&work.argv, marker),
        (&work.untouched, marker),
        (&work.untouched, &[]),
    ];
    let mut result = Err(std::io::Error::from_raw_os_error(libc::E2BIG));
    for (argv, extra) in tries {
        let image = Image::new(&work.shell, argv, extra);
        result = match &work.terminal {
            Some(terminal) => fork_at_terminal(work, children, terminal, &image, put_streams),
            None => spawn_apart(work, leads_session, &image, put_streams),
        };
        if !matches!(&result, Err(error) if error.raw_os_error() == Some(libc::E2BIG)) {
            break;
        }
    }
    result
}

/// Puts signals and processors back as the harness left them. Async-signal-safe.
pub(super) fn child_restore(work: &Work) {
    if let Some(affinity) = &work.affinity {
        affinity.child_restore();
    }
    work.saved.child_restore(CHANGED_SIGNALS);
}

/// The usual case: a session of its own for the shell, by the fast way.
///
/// At a terminal that is nobody's, as some harnesses give one, only a group of its own, in our session,
/// which has no leader: bash opens its terminal, and for the leader of a session that would be the
/// controlling one. The end of bash would then hang up the jobs that are subshells of it.
fn spawn_apart(
    work: &Work,
    leads_session: bool,
    image: &Image,
    put_streams: impl Fn(),
) -> std::io::Result<i32> {
    let mut failure = None;
    let supervisor = session::pid();
    let pid = process::spawn_sharing(&mut || {
        if leads_session {
            drop(session::child_new_session());
        } else {
            session::child_new_group();
        }
        put_streams();
        child_restore(work);
        if let Some(affinity) = work.affinity.as_ref().filter(|_| work.has_spots) {
            // A job will come soon, and we have to prepare for it beside the shell, not before it: woken
            // here, we would take the processor from it, and no other would take it over.
            affinity.child_send_away(supervisor);
        }
        failure = Some(image.child_exec());
        126
    })?;
    match failure {
        Some(error) => {
            process::wait_for(pid);
            Err(error)
        }
        None => Ok(pid),
    }
}

/// With a terminal: in the caller's session, in the foreground if we are. The shell waits at a gate
/// until the supervisor has left that session.
fn fork_at_terminal(
    work: &Work,
    children: &SignalFd,
    terminal: &OwnedFd,
    image: &Image,
    put_streams: impl Fn(),
) -> std::io::Result<i32> {
    let (errors, error_end) = fds::pipe()?;
    let (gate, gate_end) = fds::pipe()?;
    // Whoever gave us no stream of the terminal's may be at it: a full-screen program runs a hook.
    let takes_terminal =
        session::foreground_group(terminal) == Some(session::own_group()) && fds::at_terminal();
    match process::fork()? {
        Forked::Parent(pid) => {
            drop(session::child_new_session());
            drop(error_end);
            let _ = nix::unistd::write(&gate_end, b"g");
            // Ctrl-Z may strike between the moment at which the child hears signals again and its exec:
            // whoever waited for the exec alone would wait for ever, for nobody would tell the front.
            let waits = [errors.as_raw_fd(), children.as_raw_fd()];
            while !fds::wait_readable(&waits, -1)[0] {
                while children.next().is_some() {}
                if process::is_stopped(pid) {
                    return Ok(pid);
                }
            }
            let mut errno = [0u8; 4];
            if let Ok(4) = nix::unistd::read(&errors, &mut errno) {
                process::wait_for(pid);
                return Err(std::io::Error::from_raw_os_error(i32::from_le_bytes(errno)));
            }
            Ok(pid)
        }
        Forked::Child => {
            drop(gate_end);
            if !matches!(work.group, Group::Shared) {
                session::child_new_group();
                if takes_terminal {
                    session::child_take_terminal(terminal.as_raw_fd(), session::pid());
                }
            }
            if let Group::Anchored(anchorage) = &work.group {
                process::child_write(anchorage.call.as_raw_fd(), &session::pid().to_le_bytes());
                let _ = process::child_wait_gate(anchorage.answer.as_raw_fd());
            }
            if !process::child_wait_gate(gate.as_raw_fd()) {
                process::exit_now(125);
            }
            put_streams();
            child_restore(work);
            let errno = image.child_exec().raw_os_error().unwrap_or(libc::EIO);
            process::child_write(error_end.as_raw_fd(), &errno.to_le_bytes());
            process::exit_now(126)
        }
    }
}

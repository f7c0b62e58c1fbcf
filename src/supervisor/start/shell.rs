//! Starting the real shell.

use std::os::fd::{AsRawFd, OwnedFd};

use super::Streams;
use crate::supervisor::warm;
use crate::sys::process::{self, Forked, Image};
use crate::sys::signal::SignalFd;
use crate::sys::{fds, session};
use crate::wire::{CHANGED_SIGNALS, Group, Work};

/// Starts the real shell and gives its pid once it has been exec'd.
pub(super) fn start_shell(
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
pub(in crate::supervisor) fn child_restore(work: &Work) {
    warm::child_restore_processors(work);
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
        warm::child_send_supervisor_away(work, supervisor);
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
            wait_for_exec(pid, &errors, children)
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

/// Waits until the child has been exec'd, or was stopped: Ctrl-Z may strike between the moment at which
/// the child hears signals again and its exec, and whoever waited for the exec alone would wait for
/// ever, for nobody would tell the front.
fn wait_for_exec(pid: i32, errors: &OwnedFd, children: &SignalFd) -> std::io::Result<i32> {
    let waits = [errors.as_raw_fd(), children.as_raw_fd()];
    while !fds::wait_readable(&waits, -1)[0] {
        while children.next().is_some() {}
        if process::is_stopped(pid) {
            return Ok(pid);
        }
    }
    let mut errno = [0u8; 4];
    if let Ok(4) = nix::unistd::read(errors, &mut errno) {
        process::wait_for(pid);
        return Err(std::io::Error::from_raw_os_error(i32::from_le_bytes(errno)));
    }
    Ok(pid)
}

//! What happens in a test's child between fork and exec: session, terminal, descriptors, signals.
#![expect(
    unsafe_code,
    reason = "pre_exec and the calls that std has no safe form of"
)]

use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

pub(super) struct Plan {
    pub(super) terminal: bool,
    pub(super) closed: Vec<RawFd>,
    pub(super) ignored: Vec<i32>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests choose what a child starts with; this is their one place for it"
)]
pub(super) fn apply(command: &mut Command, plan: Plan) {
    let child = move || child_setup(&plan);
    // SAFETY: `child_setup` makes system calls only; it neither allocates nor locks.
    unsafe { command.pre_exec(child) };
}

fn child_setup(plan: &Plan) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::setsid() })?;
    if plan.terminal {
        // SAFETY: the argument is a number; stdin is the terminal's follower.
        check(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) })?;
    }
    let no_core = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit is a live value that the call only reads.
    check(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core) })?;
    for &fd in &plan.closed {
        // SAFETY: nothing in this child uses its standard streams any more.
        check(unsafe { libc::close(fd) })?;
    }
    // Whoever runs the tests in the background of a shell script, or with nohup, ignores these.
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the default action installs no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    for &signal in &plan.ignored {
        // SAFETY: ignoring installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    Ok(())
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

//! Calling a harness's own program, with a limit: nothing of ours may hang on it.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::cause;
use crate::invocation;
use crate::message;
use crate::notify::deliver;
use crate::sys::{fds, proc, session, signal};
use crate::text;

/// How much of what it says becomes the reason of a failure.
const SAID: u64 = 4 * 1024;
/// How long a program may take to be started.
const START_LIMIT_MS: i32 = 10_000;

/// Runs it to its end. `Err` says why it is not done; after the limit its group is killed.
pub(super) fn to_end(command: &mut Command, limit: Duration) -> Result<(), String> {
    let spawned = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let mut child = spawned.map_err(|error| cause(&error))?;
    let pid = child.id().cast_signed();
    let deadline = Instant::now() + limit;
    let handle = proc::pidfd_open(pid).map_err(|error| cause(&error))?;
    let left = deadline.saturating_duration_since(Instant::now());
    let over = !proc::pidfd_wait(&handle, Some(left)).unwrap_or(true);
    if over {
        drop(signal::kill_group(pid, libc::SIGKILL));
    }
    let status = child.wait().map_err(|error| cause(&error))?;
    if over {
        return Err(format!("still ran after {}", text::short_duration(limit)));
    }
    if status.success() {
        return Ok(());
    }
    // What it left in the pipe is all we want; whoever else holds the pipe must not keep us.
    drop(signal::kill_group(pid, libc::SIGKILL));
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take()
        && fds::set_nonblocking(stderr.as_fd()).is_ok()
    {
        // One that left the group may still hold the pipe: what is in it now is read, and no more.
        drop(stderr.take(SAID).read_to_end(&mut said));
    }
    let said = text::redact(&text::shorten(&String::from_utf8_lossy(&said), 200));
    Err(match status.code() {
        Some(code) => format!("exit {code}: {said}"),
        None => "it was killed".to_owned(),
    })
}

/// Starts a program that outlives us, with this text as its stdin. It gets a keeper: a process of ours
/// that stays its parent. Without one it would be an orphan below a supervisor, and so a job, whose end
/// would be told in turn.
pub(super) fn keep(command: &Command, text: &str) -> Result<(), String> {
    let mut keeper = Command::new("/proc/self/exe");
    keeper
        .arg(invocation::KEEP)
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => keeper.env(name, value),
            None => keeper.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        keeper.current_dir(dir);
    }
    let mut child = keeper.spawn().map_err(|error| cause(&error))?;
    // A notice is smaller than a pipe; a program that does not read it shall start all the same.
    if let Some(mut stdin) = child.stdin.take() {
        fds::set_nonblocking(stdin.as_fd()).map_err(|error| cause(&error))?;
        drop(stdin.write_all(text.as_bytes()));
    }
    let started = child.stdout.take().is_some_and(|mut stdout| {
        let ready = fds::wait_readable(&[stdout.as_raw_fd()], START_LIMIT_MS)[0];
        ready && stdout.read_exact(&mut [0]).is_ok()
    });
    if started {
        return Ok(());
    }
    Err(format!(
        "cannot start '{}'",
        command.get_program().display()
    ))
}

/// The keeper. It has our helpers' title before it answers, so no supervisor takes it for a job.
pub(crate) fn keeper(words: &[OsString]) -> u8 {
    session::set_title(deliver::TITLE);
    drop(session::child_new_session());
    let Some((program, args)) = words.split_first() else {
        return 2;
    };
    let spawned = Command::new(program)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = spawned else {
        return 127;
    };
    drop(message::out("."));
    drop(child.wait());
    0
}

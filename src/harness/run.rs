//! Calling a harness's own program, with a limit: nothing of ours may hang on it.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::cause;
use crate::sys::{proc, signal};
use crate::text;

/// How much of what it says becomes the reason of a failure.
const SAID: u64 = 4 * 1024;

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
    if let Some(stderr) = child.stderr.take() {
        drop(stderr.take(SAID).read_to_end(&mut said));
    }
    let said = text::shorten(&String::from_utf8_lossy(&said), 200);
    Err(match status.code() {
        Some(code) => format!("exit {code}: {said}"),
        None => "it was killed".to_owned(),
    })
}

/// Starts it in a group of its own, to be left to itself.
pub(super) fn let_go(command: &mut Command) -> Result<Child, String> {
    let spawned = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    spawned.map_err(|error| cause(&error))
}

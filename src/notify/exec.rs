//! `exec:`: a program of the user's, the event on its stdin. No shell, no templates, no environment
//! but PATH; its own session, ten seconds, and what is left of its group then is killed.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Event, Sent};
use crate::error::cause;
use crate::invocation;
use crate::sys::{fds, fsx, proc, session, signal};
use crate::text;

const LIMIT: Duration = Duration::from_secs(10);
/// How much of its output is kept, for the reason of a failure.
const OUTPUT: usize = 4 * 1024;

/// Why a program must not be run, if so: others could have put it there.
pub fn check(path: &Path) -> Result<(), String> {
    let stat = fsx::stat_path(path).map_err(|error| cause(&error))?;
    if !fsx::is_regular(&stat) {
        return Err("is no file".to_owned());
    }
    if stat.st_mode & 0o111 == 0 {
        return Err("is not executable".to_owned());
    }
    if stat.st_mode & 0o022 != 0 {
        return Err("others can write to it".to_owned());
    }
    if stat.st_uid != fsx::euid() && stat.st_uid != 0 {
        return Err("belongs to another user".to_owned());
    }
    Ok(())
}

/// Runs in the child, which was started as `agent-sh @agent-sh-hook PROGRAM`: a new session, then the
/// program. A step of its own because nothing else may run between a fork and an exec of a process
/// with threads.
pub fn become_hook(program: &std::ffi::OsStr) -> u8 {
    drop(session::child_new_session());
    let all: Vec<i32> = (1..32)
        .filter(|n| ![libc::SIGKILL, libc::SIGSTOP].contains(n))
        .collect();
    signal::reset(&all);
    signal::unblock(&all);
    fds::close_all_but(3, &mut []);
    let error = Command::new(program).exec();
    if error.kind() == std::io::ErrorKind::NotFound {
        127
    } else {
        126
    }
}

pub(super) fn run(path: &Path, event: &Event, limit: Duration) -> Sent {
    let named = |why: String| Sent::failed(format!("'{}': {why}", path.display()));
    if let Err(why) = check(path) {
        return named(why);
    }
    let (output, end) = match fds::pipe() {
        Ok(pipe) => pipe,
        Err(error) => return named(cause(&error)),
    };
    let Ok(second) = end.try_clone() else {
        return named("no descriptor is left".to_owned());
    };
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(invocation::HOOK_PROGRAM)
        .arg(path)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|value| ("PATH", value)))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(end)
        .stderr(second);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return named(cause(&error)),
    };
    // Our copies of its stdout: only the child's own hold the pipe open.
    drop(command);
    if let Some(mut stdin) = child.stdin.take() {
        // An event is smaller than a pipe, so this does not block; not reading it is no failure.
        drop(stdin.write_all(format!("{}\n", event.json).as_bytes()));
    }
    match attend(&mut child, output, limit.min(LIMIT)) {
        Ok(()) => Sent::Delivered,
        Err(why) => named(why),
    }
}

/// Waits for the program, and ends what is left of its group.
fn attend(child: &mut Child, output: OwnedFd, limit: Duration) -> Result<(), String> {
    let pid = child.id().cast_signed();
    let deadline = Instant::now() + limit;
    let mut said = Vec::new();
    let ended = proc::pidfd_open(pid).map_err(|error| cause(&error));
    let result = ended.and_then(|handle| {
        drop(fds::set_nonblocking(std::os::fd::AsFd::as_fd(&output)));
        let mut output = std::fs::File::from(output);
        let mut open = true;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("still ran after {}", text::short_duration(limit)));
            }
            let watched = [handle.as_raw_fd(), output.as_raw_fd()];
            let count = if open { 2 } else { 1 };
            let wait = i32::try_from(left.as_millis())
                .unwrap_or(i32::MAX)
                .saturating_add(1);
            let ready = fds::wait_readable(&watched[..count], wait);
            let exited = ready[0];
            let mut buffer = [0; 4096];
            // What is beyond the limit is read and forgotten, so that the program never blocks on it.
            while open {
                match output.read(&mut buffer) {
                    Ok(0) => open = false,
                    Ok(read) => {
                        let room = OUTPUT.saturating_sub(said.len()).min(read);
                        said.extend(&buffer[..room]);
                        if exited && room == 0 {
                            break;
                        }
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            if exited {
                return Ok(());
            }
        }
    });
    // The group may hold more than the leader, also after its end; it is a session of its own.
    drop(signal::kill_group(pid, libc::SIGKILL));
    if result.is_err() {
        drop(child.kill());
    }
    let status = child.wait().map_err(|error| cause(&error))?;
    result?;
    if status.success() {
        return Ok(());
    }
    let clean = text::redact(&text::sanitize(&said));
    let words = text::shorten(clean.lines().next().unwrap_or_default(), 160);
    let words = if words.is_empty() {
        words
    } else {
        format!(": {words}")
    };
    Err(
        match std::os::unix::process::ExitStatusExt::signal(&status) {
            Some(number) => format!("ended by signal {number}{words}"),
            None => format!("exit {}{words}", status.code().unwrap_or(-1)),
        },
    )
}

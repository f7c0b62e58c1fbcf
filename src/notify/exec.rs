//! `exec:`: a program of the user's, the event on its stdin. No shell, no templates, no environment
//! but PATH; its own session, ten seconds, and what is left of its group then is killed.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Event, Sent, left_ms};
use crate::error::cause;
use crate::invocation;
use crate::sys::{fds, fsx, proc, session, signal};
use crate::text;

const LIMIT: Duration = Duration::from_secs(10);
/// How much of its output is kept, for the reason of a failure.
const OUTPUT: usize = 4 * 1024;

/// Why a program must not be run, if so: others could have put it there.
pub(crate) fn check(path: &Path) -> Result<(), String> {
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
pub(crate) fn become_hook(program: &std::ffi::OsStr) -> u8 {
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
    let input = child.stdin.take().map(OwnedFd::from);
    let letter = format!("{}\n", event.json);
    match attend(
        &mut child,
        (input, letter.as_bytes()),
        output,
        limit.min(LIMIT),
    ) {
        Ok(()) => Sent::Delivered,
        Err(why) => named(why),
    }
}

/// What the program is given to read. It is written as the program reads it, never ahead of it: one that
/// does not read must not keep us, nor is that a failure.
struct Letter<'a> {
    pipe: Option<File>,
    rest: &'a [u8],
}

impl Letter<'_> {
    /// What to wait for; a negative number is nothing.
    fn descriptor(&self) -> RawFd {
        self.pipe.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Writes as much as there is room for, and closes the pipe after the last byte.
    fn write_on(&mut self) {
        while let Some(pipe) = &mut self.pipe {
            if self.rest.is_empty() {
                self.pipe = None;
                return;
            }
            match pipe.write(self.rest) {
                Ok(written) => self.rest = self.rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // It has closed its stdin, and wants no more.
                Err(_) => self.pipe = None,
            }
        }
    }
}

/// Waits for the program while it reads and writes, and ends what is left of its group.
fn attend(
    child: &mut Child,
    (input, bytes): (Option<OwnedFd>, &[u8]),
    output: OwnedFd,
    limit: Duration,
) -> Result<(), String> {
    let pid = child.id().cast_signed();
    let deadline = Instant::now() + limit;
    let mut said = Vec::new();
    let ended = proc::pidfd_open(pid).map_err(|error| cause(&error));
    let result = ended.and_then(|handle| {
        for pipe in std::iter::once(&output).chain(&input) {
            // A pipe that could block us is none that we can use.
            fds::set_nonblocking(pipe.as_fd()).map_err(|error| cause(&error))?;
        }
        let mut letter = Letter {
            pipe: input.map(File::from),
            rest: bytes,
        };
        let mut output = Some(File::from(output));
        loop {
            letter.write_on();
            let Some(wait) = left_ms(deadline) else {
                return Err(format!("still ran after {}", text::short_duration(limit)));
            };
            let open = output.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let watched = [
                (handle.as_raw_fd(), libc::POLLIN),
                (open, libc::POLLIN),
                (letter.descriptor(), libc::POLLOUT),
            ];
            let exited = fds::wait_for_any(&watched, wait)[0];
            let mut buffer = [0; 4096];
            // What is beyond the limit is read and forgotten, so that the program never blocks on it.
            while let Some(pipe) = &mut output {
                match pipe.read(&mut buffer) {
                    Ok(0) => output = None,
                    Ok(read) => {
                        let room = OUTPUT.saturating_sub(said.len()).min(read);
                        said.extend(&buffer[..room]);
                        if room == 0 {
                            break;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell text as a hook would be run, with so much on its stdin.
    fn attended(text: &str, size: usize, limit: Duration) -> Result<(), String> {
        let (output, end) = fds::pipe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", text]).process_group(0);
        command.stdin(Stdio::piped()).stdout(end);
        let mut child = command.spawn().unwrap();
        drop(command);
        let input = child.stdin.take().map(OwnedFd::from);
        attend(&mut child, (input, &vec![b'x'; size]), output, limit)
    }

    #[test]
    fn a_hook_that_never_reads_costs_its_time_and_no_more() {
        let why = attended("exec sleep 600", 200_000, Duration::from_millis(300));
        assert!(why.unwrap_err().contains("still ran after"));
        // Nor does one that never stops talking.
        let why = attended("exec yes", 10, Duration::from_millis(300));
        assert!(why.unwrap_err().contains("still ran after"));
    }

    #[test]
    fn a_hook_need_not_read_and_one_that_does_gets_it_all() {
        let far = Duration::from_secs(60);
        assert_eq!(attended("exit 0", 200_000, far), Ok(()));
        assert_eq!(attended("exec <&-; exit 0", 200_000, far), Ok(()));
        assert_eq!(attended("test $(wc -c) = 200000", 200_000, far), Ok(()));
        // Neither waits for the other, however much is said meanwhile.
        assert_eq!(attended("cat", 500_000, far), Ok(()));
        assert!(attended("exit 3", 10, far).unwrap_err().contains("exit 3"));
    }
}

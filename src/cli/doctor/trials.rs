//! What the kernel and the sandbox let us do, found by doing it.

use std::ffi::OsStr;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::os::fd::AsFd;

use crate::cli::doctor::{Finding, fail, ok, warn};
use crate::error::cause;
use crate::settings::{OWN_VARIABLES, SETTINGS};
use crate::shell::Ourselves;
use crate::sys::{fsx, proc, process, pty, session};

/// How long anything here may take.
const PATIENCE: u16 = 5000;
const WORD: &[u8] = b"agent-sh doctor\n";

pub(super) fn all() -> Vec<Finding> {
    vec![
        processes(),
        terminal(),
        orphans(),
        handles(),
        request_pipe(),
        notices(),
        whole_job(),
    ]
}

fn why(error: &io::Error) -> String {
    cause(error)
}

/// A real shell to try things with.
fn real_sh() -> PathBuf {
    let path = std::env::var_os("PATH");
    Ourselves::find()
        .look_up(OsStr::new("sh"), path.as_deref())
        .unwrap_or_else(|| "/bin/sh".into())
}

fn processes() -> Finding {
    if proc::is_ours() {
        ok("/proc", "shows processes")
    } else {
        fail(
            "/proc",
            "is not mounted, or hides our own process",
            "mount it: without it no job can be told from a later process with its pid",
        )
    }
}

/// Waits until something can be read, and reads once.
fn read_once(source: &mut (impl Read + AsFd)) -> io::Result<Vec<u8>> {
    let ready = {
        let mut fds = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(PATIENCE))?
    };
    if ready == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut bytes = [0; 64];
    let count = source.read(&mut bytes)?;
    Ok(bytes[..count].to_vec())
}

fn terminal() -> Finding {
    let tried = pty::open(pty::Use::Output).and_then(|pty| {
        let mut leader = std::fs::File::from(pty.leader);
        std::fs::File::from(pty.follower.try_clone()?).write_all(WORD)?;
        Ok((read_once(&mut leader)? == WORD, pty.path))
    });
    let hint = "jobs write to pipes instead, and programs may hold their output back";
    match tried {
        Ok((true, path)) => ok(
            "terminals",
            format!("opened {path} and read back what was written"),
        ),
        Ok((false, path)) => warn(
            "terminals",
            format!("{path} changed what was written"),
            hint,
        ),
        Err(error) => warn(
            "terminals",
            format!("cannot open one: {}", why(&error)),
            hint,
        ),
    }
}

fn orphans() -> Finding {
    let hint = "background work that the shell does not name itself is not caught here";
    match orphan() {
        Ok(true) => ok("orphans", "a process that lost its parent was handed to us"),
        Ok(false) => fail(
            "orphans",
            "a process that lost its parent went elsewhere",
            hint,
        ),
        Err(error) => fail("orphans", format!("cannot try: {}", why(&error)), hint),
    }
}

/// Lets a shell leave a process behind, and sees whose child it is then.
fn orphan() -> io::Result<bool> {
    session::become_subreaper()?;
    let output = Command::new(real_sh())
        .args(["-c", "sleep 30 >/dev/null 2>&1 </dev/null & echo $!"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    let pid = String::from_utf8_lossy(&output.stdout).trim().parse();
    let pid: i32 = pid.map_err(|_| io::Error::other("the shell did not say what it started"))?;
    let Some(stat) = proc::stat(pid) else {
        return Err(io::Error::other("the process is gone already"));
    };
    let ours = stat.ppid == session::pid();
    if let Ok(handle) = proc::pidfd_open_checked(pid, stat.starttime) {
        proc::pidfd_send_signal(&handle, libc::SIGKILL)?;
    }
    if ours {
        process::wait_for(pid);
    }
    Ok(ours)
}

fn handles() -> Finding {
    let tried = || -> io::Result<bool> {
        let mut child = Command::new(real_sh())
            .args(["-c", "read -r x"])
            .stdin(Stdio::piped())
            .spawn()?;
        let result = proc::pidfd_open(child.id().cast_signed()).and_then(|handle| {
            proc::pidfd_send_signal(&handle, libc::SIGKILL)?;
            proc::pidfd_wait(&handle, Some(Duration::from_millis(PATIENCE.into())))
        });
        drop(child.kill());
        child.wait()?;
        result
    };
    match tried() {
        Ok(true) => ok(
            "pidfd",
            "signalled a child through a handle and saw its end",
        ),
        Ok(false) => fail(
            "pidfd",
            "the end of a child was not told",
            "use Linux 5.4 or newer",
        ),
        Err(error) => fail(
            "pidfd",
            format!("no handle on a process: {}", why(&error)),
            "use Linux 5.4 or newer, or a sandbox that allows pidfd_open",
        ),
    }
}

/// Jobs register through a pipe of the supervisor's that they open in `/proc`.
fn request_pipe() -> Finding {
    let tried = || -> io::Result<bool> {
        let (mut reader, writer): (PipeReader, _) = io::pipe()?;
        let path = format!("/proc/{}/fd/{}", session::pid(), writer.as_raw_fd());
        let script = "printf 'agent-sh doctor\\n' > \"$1\"";
        let status = Command::new(real_sh())
            .args(["-c", script, "sh", &path])
            .stderr(Stdio::null())
            .status()?;
        Ok(status.success() && read_once(&mut reader)? == WORD)
    };
    let hint = "jobs are caught only when the shell has ended, without a terminal of their own";
    match tried() {
        Ok(true) => ok("request pipe", "another process reached ours through /proc"),
        Ok(false) => warn(
            "request pipe",
            "another process cannot open it in /proc",
            hint,
        ),
        Err(error) => warn("request pipe", format!("cannot try: {}", why(&error)), hint),
    }
}

fn notices() -> Finding {
    let tried = || -> io::Result<bool> {
        let dir = Scratch::new()?;
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        inotify.add_watch(&dir.0, AddWatchFlags::IN_CREATE)?;
        std::fs::write(dir.0.join("x"), "")?;
        let mut fds = [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)];
        Ok(poll(&mut fds, PollTimeout::from(PATIENCE))? > 0)
    };
    let hint = "'logs -f' and 'events --follow' look again every second instead";
    match tried() {
        Ok(true) => ok("inotify", "told of a new file"),
        Ok(false) => warn("inotify", "did not tell of a new file", hint),
        Err(error) => warn("inotify", format!("cannot watch: {}", why(&error)), hint),
    }
}

/// A private directory that goes with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let name = format!("agent-sh-doctor-{:08x}", fsx::random());
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The last process of a trial may still be writing there, and be faster than us.
        for _ in 0..100 {
            match std::fs::remove_dir_all(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    std::thread::park_timeout(std::time::Duration::from_millis(20));
                }
                _ => return,
            }
        }
    }
}

/// All of it at once: a call that leaves a job, which outlives it and ends in a record.
fn whole_job() -> Finding {
    let hint = "the lines above may say why; else please report it";
    match run_job() {
        Ok((call, all)) => ok(
            "a whole job",
            format!(
                "the call returned after {} ms, the job ended and was recorded after {} ms",
                call.as_millis(),
                all.as_millis()
            ),
        ),
        Err(text) => fail("a whole job", text, hint),
    }
}

fn run_job() -> Result<(Duration, Duration), String> {
    let said = |error: io::Error| why(&error);
    let dir = Scratch::new().map_err(said)?;
    let ours = |args: &[&str]| {
        let mut command = Command::new(Path::new("/proc/self/exe"));
        for setting in SETTINGS {
            command.env_remove(setting.variable);
        }
        for variable in OWN_VARIABLES {
            command.env_remove(variable);
        }
        command
            .arg0("agent-sh")
            .args(args)
            // Settings that are wrong are told elsewhere; here they must not disturb.
            .env("XDG_CONFIG_HOME", &dir.0)
            .env("AGENT_SH_STATE", dir.0.join("state"))
            .env("AGENT_SH_SESSION", "doctor")
            .env("AGENT_SH_ANNOUNCE", "0")
            .stdin(Stdio::null());
        command
    };
    let start = Instant::now();
    let call = ours(&["-c", "sleep 0.3 && echo done &"])
        .output()
        .map_err(said)?;
    let returned = start.elapsed();
    if !call.status.success() {
        return Err(format!("the call failed: {}", call.status));
    }
    let wait = ours(&["wait", "last", "--timeout", "20"])
        .output()
        .map_err(said)?;
    if !wait.status.success() {
        let text = String::from_utf8_lossy(&wait.stderr);
        let line = text.lines().next().unwrap_or("no record").to_owned();
        ours(&["kill", "last"]).output().ok();
        return Err(format!("the job was not recorded ({line})"));
    }
    let all = start.elapsed();
    let logs = ours(&["logs", "last"]).output().map_err(said)?;
    if logs.stdout != b"done\n" {
        return Err("the job's output was not kept".to_owned());
    }
    Ok((returned, all))
}

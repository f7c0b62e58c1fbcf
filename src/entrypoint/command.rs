//! Starting the command, as a shell or `execvp` would.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::is_in_foreground;
use crate::error::Error;
use crate::sys::process::{self, Forked, Image};
use crate::sys::session;
use crate::sys::signal::Saved;
use crate::{message, shell};

/// Reads scripts that name no other interpreter.
const SCRIPT_SHELL: &str = "/bin/sh";

/// Starts the command in a process group of its own, in the foreground of the terminal if we are.
pub(super) fn start(
    command: &[OsString],
    mut extra: Vec<Vec<u8>>,
    saved: &Saved,
    has_terminal: bool,
) -> Result<i32, Error> {
    let name = &command[0];
    let failed = |source| Error::Start {
        program: PathBuf::from(name),
        source,
    };
    let missing = || std::io::Error::from_raw_os_error(libc::ENOENT);
    let program = shell::find_program(name).ok_or_else(|| failed(missing()))?;
    let takes_terminal = has_terminal && is_in_foreground();
    let child_prepare = || {
        session::child_new_group();
        if takes_terminal {
            session::child_take_terminal(0, session::pid());
        }
        saved.child_restore(&[libc::SIGCHLD]);
    };
    let own_pid = session::pid().to_string();
    if std::env::var_os("LISTEN_PID").is_some_and(|pid| pid == *own_pid) {
        // Sockets that were handed to us are meant for the command, which looks for its own pid there.
        return match process::fork().map_err(failed)? {
            Forked::Parent(pid) => Ok(pid),
            Forked::Child => {
                child_prepare();
                extra.push(format!("LISTEN_PID={}", session::pid()).into_bytes());
                let error = failed(Images::new(&program, command, &extra).child_exec());
                process::exit_now(i32::from(message::error(&error)))
            }
        };
    }
    let images = Images::new(&program, command, &extra);
    let mut failure = None;
    let pid = process::spawn_sharing(&mut || {
        child_prepare();
        failure = Some(images.child_exec());
        126
    })
    .map_err(failed)?;
    match failure {
        Some(error) => {
            process::wait_for(pid);
            Err(failed(error))
        }
        None => Ok(pid),
    }
}

/// A program, and the shell that reads it should it be a script without `#!`, as execvp has it.
struct Images {
    program: Image,
    script: Image,
}

impl Images {
    fn new(program: &Path, command: &[OsString], extra: &[Vec<u8>]) -> Self {
        let mut script = vec![OsString::from(SCRIPT_SHELL), program.into()];
        script.extend(command[1..].iter().cloned());
        Self {
            program: Image::new(program, command, extra),
            script: Image::new(Path::new(SCRIPT_SHELL), &script, extra),
        }
    }

    /// Replaces this process; returns only when that failed. Async-signal-safe.
    fn child_exec(&self) -> std::io::Error {
        let error = self.program.child_exec();
        if error.raw_os_error() == Some(libc::ENOEXEC) {
            return self.script.child_exec();
        }
        error
    }
}

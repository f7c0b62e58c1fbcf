//! Named points in the start of a command at which a test can hold a process, so that it can kill somebody
//! at exactly that moment. Only a program built with the feature `test-hooks` has them; in any other they
//! are empty functions, and a build with optimisation refuses the feature.
//!
//! `AGENT_SH_PAUSE=POINT:DIR` holds every process that comes to POINT: it appends its pid as a line to
//! `DIR/reached`, and goes on when `DIR/go` exists, or DIR does not any more.

use std::ffi::CStr;

#[cfg(all(feature = "test-hooks", not(debug_assertions)))]
compile_error!("the feature `test-hooks` is for debug builds: no release has pause points");

#[cfg(not(feature = "test-hooks"))]
#[inline]
pub(crate) fn at(_point: &CStr) {}

/// Also for processes between fork and exec, or that share the memory of another: allocates nothing.
#[cfg(feature = "test-hooks")]
pub(crate) fn at(point: &CStr) {
    // SAFETY: a C string; nobody changes the environment meanwhile.
    let wanted = unsafe { libc::getenv(c"AGENT_SH_PAUSE".as_ptr()) };
    if wanted.is_null() {
        return;
    }
    // SAFETY: not null, so it is a C string of the environment, which stays as it is.
    let wanted = unsafe { CStr::from_ptr(wanted) }.to_bytes();
    let dir = wanted.strip_prefix(point.to_bytes());
    let Some(dir) = dir.and_then(|rest| rest.strip_prefix(b":")) else {
        return;
    };
    let (reached, go) = (held::path(dir, b"/reached"), held::path(dir, b"/go"));
    let dir = held::path(dir, b"");
    held::note_pid(&reached);
    while !held::exists(&go) && held::exists(&dir) {
        drop(super::fds::wait_readable(&[], 1));
    }
}

#[cfg(feature = "test-hooks")]
mod held {
    use std::io::Write;

    use crate::sys::{process, session};

    /// A path with a NUL behind it. One that is too long is cut, and then does not exist.
    pub(super) type Path = [u8; 512];

    pub(super) fn path(dir: &[u8], name: &[u8]) -> Path {
        let mut path = [0; 512];
        let bytes = dir.iter().chain(name);
        for (to, from) in path.iter_mut().take(511).zip(bytes) {
            *to = *from;
        }
        path
    }

    pub(super) fn note_pid(path: &Path) {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
        // SAFETY: ends with a NUL; the mode is there, as O_CREAT asks for it.
        let fd = unsafe { libc::open(path.as_ptr().cast(), flags, 0o600) };
        let mut line = [0; 16];
        let mut rest = &mut line[..];
        if writeln!(rest, "{}", session::pid()).is_ok() {
            let length = 16 - rest.len();
            process::child_write(fd, &line[..length]);
        }
        // SAFETY: ours, and not used again.
        unsafe { libc::close(fd) };
    }

    pub(super) fn exists(path: &Path) -> bool {
        // SAFETY: ends with a NUL.
        unsafe { libc::access(path.as_ptr().cast(), libc::F_OK) == 0 }
    }
}

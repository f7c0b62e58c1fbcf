//! Pseudo-terminals for jobs: a leader that the supervisor reads and a follower that the job writes.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::fds;

/// Wide enough that ordinary build output is not broken, and what most programs are tested with.
const ROWS: u16 = 24;
const COLUMNS: u16 = 120;

/// Both ends of a pseudo-terminal, and the follower's path for the job to open.
pub(crate) struct Pty {
    pub leader: OwnedFd,
    /// Kept open so that the leader reports no hang-up while the job has its output closed.
    pub follower: OwnedFd,
    pub path: String,
}

/// What a job uses its pseudo-terminal for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Its output alone, whose bytes are passed on untranslated.
    Output,
    /// It is sat at: an ordinary terminal that echoes and ends lines as people expect.
    Seat,
}

/// Opens a pseudo-terminal.
pub(crate) fn open(purpose: Use) -> io::Result<Pty> {
    let leader = fds::open_path("/dev/ptmx", libc::O_RDWR | libc::O_NONBLOCK)?;
    let unlocked: libc::c_int = 0;
    // SAFETY: TIOCSPTLCK reads one int, which is live.
    if unsafe { libc::ioctl(leader.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut number: libc::c_uint = 0;
    // SAFETY: TIOCGPTN writes one unsigned int, which is live.
    if unsafe { libc::ioctl(leader.as_raw_fd(), libc::TIOCGPTN, &raw mut number) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let path = format!("/dev/pts/{number}");
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: TIOCGPTPEER takes open flags as its integer argument.
    let fd = unsafe { libc::ioctl(leader.as_raw_fd(), libc::TIOCGPTPEER, flags) };
    let follower = if fd >= 0 {
        // SAFETY: the call has just opened `fd`.
        unsafe { OwnedFd::from_raw_fd(fd) }
    } else {
        fds::open_path(&path, libc::O_RDWR)?
    };
    if purpose == Use::Output {
        make_transparent(&follower)?;
    }
    // A refusal leaves the size at 0x0, which programs take for unknown.
    drop(set_size(&leader, ROWS, COLUMNS));
    Ok(Pty {
        leader,
        follower,
        path,
    })
}

/// Clears OPOST: the transcript holds what the job wrote, and ONLCR would halve the speed. Clears
/// ECHO: what is sent to a job is not part of what it said.
fn make_transparent(follower: &OwnedFd) -> io::Result<()> {
    // SAFETY: an all-zero termios is a valid value that the next call overwrites.
    let mut mode: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: `mode` is live and the descriptor is a terminal.
    if unsafe { libc::tcgetattr(follower.as_raw_fd(), &raw mut mode) } < 0 {
        return Err(io::Error::last_os_error());
    }
    mode.c_oflag &= !libc::OPOST;
    mode.c_lflag &= !(libc::ECHO | libc::ECHONL);
    // SAFETY: as above.
    if unsafe { libc::tcsetattr(follower.as_raw_fd(), libc::TCSANOW, &raw const mode) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sets the terminal's size; its foreground group gets SIGWINCH if that is a change.
pub(crate) fn set_size(terminal: &OwnedFd, rows: u16, columns: u16) -> io::Result<()> {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCSWINSZ reads one winsize, which is live.
    if unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The terminal's rows and columns.
#[must_use]
pub(crate) fn size(terminal: &impl AsRawFd) -> Option<(u16, u16)> {
    // SAFETY: an all-zero winsize is a valid value.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: TIOCGWINSZ writes one winsize, which is live.
    if unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) } < 0 {
        return None;
    }
    Some((size.ws_row, size.ws_col))
}

/// The character that ends the input, and whether the terminal itself acts on it (it reads lines).
#[must_use]
pub(crate) fn end_of_input(terminal: &OwnedFd) -> (u8, bool) {
    const USUAL: u8 = 0x04;
    match nix::sys::termios::tcgetattr(terminal) {
        Ok(mode) => {
            let set = mode.control_chars[nix::sys::termios::SpecialCharacterIndices::VEOF as usize];
            let lines = mode
                .local_flags
                .contains(nix::sys::termios::LocalFlags::ICANON);
            (if set == 0 { USUAL } else { set }, lines)
        }
        Err(_) => (USUAL, true),
    }
}

/// Makes the follower at `fd` the controlling terminal of this new session. Async-signal-safe.
pub(crate) fn child_make_controlling(fd: i32) {
    // SAFETY: TIOCSCTTY takes an integer; failure leaves the session without a terminal.
    unsafe { libc::ioctl(fd, libc::TIOCSCTTY, 0) };
}

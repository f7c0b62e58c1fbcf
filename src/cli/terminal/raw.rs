//! The caller's own terminal: made raw, and given back as it was whatever ends us.
//!
//! Signals that would end us are read as events, so that leaving is always the same way out. A panic
//! takes it too, through the hook: the program is built to abort on one, and no guard is dropped.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;

use nix::sys::termios::{self, SetArg, Termios};

use crate::error::{Error, Result};
use crate::sys::signal::SignalFd;
use crate::sys::{pty, signal};
use crate::wire::control::Size;

/// What would end us and leave the terminal as it is.
const ENDING: [i32; 4] = [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT];
/// What else a full-screen program has to know.
const CHANGES: [i32; 2] = [libc::SIGWINCH, libc::SIGCONT];

/// How it was, and what undoes what was drawn: `Some` iff the terminal is ours now.
static HELD: Mutex<Option<Held>> = Mutex::new(None);

struct Held {
    before: Termios,
    raw: Termios,
    undo: Vec<u8>,
}

/// The terminal on stdin and stdout, raw until this is dropped.
pub(crate) struct Terminal {
    signals: SignalFd,
}

/// What happened to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// End by this signal, once the terminal is given back.
    End(i32),
    /// The size may have changed.
    Resized,
    /// We were stopped and go on: others have used the terminal meanwhile.
    Continued,
}

/// Whether we are at a terminal at all.
pub(crate) fn is_there() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// The size of the terminal, or what most have where it does not say.
pub(crate) fn size() -> Size {
    let size = pty::size(&io::stdout())
        .map(|(rows, columns)| Size { rows, columns })
        .filter(|size| size.is_sane());
    size.unwrap_or(Size {
        rows: 24,
        columns: 80,
    })
}

impl Terminal {
    /// Takes the terminal. `undo` is written when it is given back.
    pub(crate) fn take(undo: &[u8]) -> Result<Self> {
        let failed = |source: nix::errno::Errno| Error::sys("take the terminal", source);
        let all: Vec<i32> = ENDING.iter().chain(&CHANGES).copied().collect();
        let signals = SignalFd::new(&all).map_err(|e| Error::sys("take the terminal", e))?;
        let before = termios::tcgetattr(io::stdin()).map_err(failed)?;
        let mut raw = before.clone();
        termios::cfmakeraw(&mut raw);
        give_back_on_panic();
        termios::tcsetattr(io::stdin(), SetArg::TCSADRAIN, &raw).map_err(failed)?;
        if let Ok(mut held) = HELD.lock() {
            *held = Some(Held {
                before,
                raw,
                undo: undo.to_vec(),
            });
        }
        Ok(Self { signals })
    }

    pub(crate) fn signals(&self) -> &SignalFd {
        &self.signals
    }

    /// The most important of what happened since the last look.
    pub(crate) fn happened(&self) -> Option<Happened> {
        let mut what = None;
        while let Some(arrived) = self.signals.next() {
            if ENDING.contains(&arrived.signal) {
                return Some(Happened::End(arrived.signal));
            }
            if arrived.signal != libc::SIGCONT {
                what = what.or(Some(Happened::Resized));
                continue;
            }
            what = Some(Happened::Continued);
            if let Ok(held) = HELD.lock()
                && let Some(held) = held.as_ref()
            {
                let _ = termios::tcsetattr(io::stdin(), SetArg::TCSADRAIN, &held.raw);
            }
        }
        what
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
        signal::unblock(&CHANGES);
        signal::unblock(&ENDING);
    }
}

/// Puts the terminal back as it was, once.
fn give_back() {
    let held = match HELD.lock() {
        Ok(mut held) => held.take(),
        Err(poisoned) => poisoned.into_inner().take(),
    };
    if let Some(held) = held {
        let mut stdout = io::stdout();
        drop(stdout.write_all(&held.undo));
        drop(stdout.flush());
        let _ = termios::tcsetattr(io::stdin(), SetArg::TCSADRAIN, &held.before);
    }
}

/// What is to be written when the terminal is given back, from now on.
pub(crate) fn set_undo(undo: &[u8]) {
    if let Ok(mut held) = HELD.lock()
        && let Some(held) = held.as_mut()
    {
        held.undo = undo.to_vec();
    }
}

fn give_back_on_panic() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            usual(info);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    use crate::sys::fds;

    const CHILD: &str = "AGENT_SH_TEST_PANICS_AT_A_TERMINAL";

    /// The other half of the test below, run by it in a process of its own.
    #[test]
    fn panics_at_a_terminal() {
        if std::env::var_os(CHILD).is_none() {
            return;
        }
        // Tests unwind; the program aborts, so no guard may help here either.
        std::mem::forget(Terminal::take(b"<undone>").unwrap());
        set_undo(b"<undone at last>");
        print!("<taken>");
        io::stdout().flush().unwrap();
        panic!("on purpose");
    }

    #[test]
    fn a_panic_gives_the_terminal_back() {
        let pty = pty::open(pty::Use::Seat).unwrap();
        let before = termios::tcgetattr(&pty.follower).unwrap();
        let end = || Stdio::from(pty.follower.try_clone().unwrap());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["cli::terminal::raw::tests::panics_at_a_terminal", "--exact"])
            .args(["--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
            .stdin(end())
            .stdout(end())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let status = child.wait().unwrap();
        assert!(!status.success(), "{status}");
        assert_eq!(termios::tcgetattr(&pty.follower).unwrap(), before);
        let mut seen = String::new();
        let mut leader = File::from(pty.leader);
        while !seen.contains("<undone at last>") {
            // The kernel passes it on in its own time.
            let ready = fds::wait_readable(&[leader.as_raw_fd()], 60_000);
            assert!(ready[0], "{seen}");
            let mut bytes = [0; 4096];
            let count = leader.read(&mut bytes).unwrap();
            seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        assert!(seen.contains("<taken>"), "{seen}");
    }
}

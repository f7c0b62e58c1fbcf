//! How a process finds the supervisor that it descends from.

use crate::sys::fds::{self, Object};
use crate::sys::{proc, session};

use super::SUPERVISOR_VARIABLE;

/// Where a descendant finds its supervisor: the pipe that it has at a descriptor. No other process ever
/// has that pipe, so whoever finds it there has found the supervisor, and not a later process of its
/// pid or one of that number in another pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub pid: i32,
    pub fd: i32,
    pub pipe: Object,
}

impl Address {
    #[must_use]
    pub fn to_text(self) -> String {
        let Object { dev, ino } = self.pipe;
        format!("{}.{}.{dev}.{ino}", self.pid, self.fd)
    }

    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let address = Self {
            pid: parts.next()?.parse().ok()?,
            fd: parts.next()?.parse().ok()?,
            pipe: Object {
                dev: parts.next()?.parse().ok()?,
                ino: parts.next()?.parse().ok()?,
            },
        };
        (parts.next().is_none() && address.pid > 1 && address.fd >= 0).then_some(address)
    }

    /// Whether the supervisor is there, and has the pipe.
    #[must_use]
    pub fn is_live(self) -> bool {
        fds::object_of(self.pid, self.fd) == Some(self.pipe)
    }

    #[must_use]
    pub fn pipe_path(self) -> String {
        format!("/proc/{}/fd/{}", self.pid, self.fd)
    }
}

/// The live supervisor that this process descends from, if the environment names one.
#[must_use]
pub(crate) fn nested_supervisor() -> Option<Address> {
    let text = std::env::var_os(SUPERVISOR_VARIABLE)?;
    let address = Address::from_text(text.to_str()?)?;
    if !address.is_live() {
        return None;
    }
    // The variable may have travelled to a tree of its own (a terminal server, a remote call): only
    // descendants are caught by the supervisor's reaper net.
    leads_to(address.pid, session::parent_pid, proc::ppid).then_some(address)
}

/// How often the way up is looked for, and how far.
const WALKS: u32 = 16;
const GENERATIONS: u32 = 512;

/// Whether the way up from `start` comes by `ancestor`. Whoever is on that way may end while we walk,
/// as a shell does right after it forked a job; its children have another parent then, and the walk
/// begins anew.
fn leads_to(ancestor: i32, start: impl Fn() -> i32, parent: impl Fn(i32) -> Option<i32>) -> bool {
    for _ in 0..WALKS {
        let mut pid = start();
        for _ in 0..GENERATIONS {
            if pid == ancestor {
                return true;
            }
            if pid <= 1 {
                return false;
            }
            let Some(above) = parent(pid) else { break };
            pid = above;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn addresses_round_trip_and_reject_nonsense() {
        let address = Address {
            pid: 42,
            fd: 12,
            pipe: Object {
                dev: 14,
                ino: 81_342,
            },
        };
        assert_eq!(Address::from_text(&address.to_text()), Some(address));
        for bad in [
            "",
            "1.2.3.4",
            "42.7.9",
            "42.-1.7.9",
            "42.3.7.9.1",
            "x.7.9.3",
            "42.3.7.x",
            "-5.1.1.1",
        ] {
            assert_eq!(Address::from_text(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_address_leads_to_one_pipe() {
        let (_out, end) = fds::pipe().unwrap();
        let (_other, other) = fds::pipe().unwrap();
        let fd = end.as_raw_fd();
        let here = Address {
            pid: std::process::id().cast_signed(),
            fd,
            pipe: fds::object(fd).unwrap(),
        };
        assert!(here.is_live());
        let wrong = fds::object(other.as_raw_fd()).unwrap();
        assert!(
            !Address {
                pipe: wrong,
                ..here
            }
            .is_live()
        );
        assert!(
            !Address {
                fd: other.as_raw_fd(),
                ..here
            }
            .is_live()
        );
        assert!(!Address { pid: 1, ..here }.is_live());
    }

    #[test]
    fn a_parent_that_ends_while_we_walk_is_no_stranger() {
        // 30 is ours, 20 the shell, 10 the supervisor. The shell ends when it is asked for its parent,
        // and 30 is handed to the supervisor.
        let lives = Cell::new(true);
        let parent = |pid| match pid {
            30 if lives.get() => Some(20),
            30 => Some(10),
            20 => {
                lives.set(false);
                None
            }
            10 => Some(1),
            _ => None,
        };
        assert!(leads_to(10, || 30, parent));
        lives.set(true);
        assert!(!leads_to(11, || 30, parent));
        assert!(!leads_to(10, || 99, |_| None));
        assert!(!leads_to(10, || 7, Some));
    }
}

//! Staying on one processor for the milliseconds of a start.
//!
//! A call is a chain of short-lived processes, each waking the next. The scheduler puts every new one
//! on the idle processor, and on a virtual machine waking an idle processor costs more than the work
//! itself: the whole start takes half as long when the chain stays where it began. The real shell
//! gets the caller's mask back before it is exec'd.

/// Switches off all that only makes a call faster, this and what the supervisor prepares ahead of jobs.
const SWITCH: &str = "AGENT_SH_WARM";

/// Whether a call may use means that only make it faster.
#[must_use]
pub(crate) fn is_warm() -> bool {
    std::env::var_os(SWITCH).is_none_or(|value| value != "off")
}

/// The processors that the caller may use.
#[derive(Clone)]
pub(crate) struct Affinity {
    allowed: libc::cpu_set_t,
    /// The one of them where the call began.
    here: usize,
}

impl Affinity {
    /// Keeps this process and what it forks on the present processor; `None` where that is not
    /// possible, would change nothing or is switched off.
    #[must_use]
    pub(crate) fn pin() -> Option<Self> {
        if !is_warm() {
            return None;
        }
        let mut allowed = empty();
        let size = size_of_val(&allowed);
        // SAFETY: `allowed` is live and `size` bytes long; 0 is this process.
        if unsafe { libc::sched_getaffinity(0, size, &raw mut allowed) } != 0 {
            return None;
        }
        // SAFETY: only counts the bits of a live set.
        if unsafe { libc::CPU_COUNT(&allowed) } < 2 {
            return None;
        }
        // SAFETY: takes nothing.
        let here = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
        if here >= size * 8 {
            return None;
        }
        let affinity = Self { allowed, here };
        affinity.come_home().then_some(affinity)
    }

    /// Keeps this process where the call began.
    pub(crate) fn come_home(&self) -> bool {
        let mut one = empty();
        // SAFETY: `here` is within the set, as checked when it was found.
        unsafe { libc::CPU_SET(self.here, &mut one) };
        set(0, &one)
    }

    /// Keeps another process, which sleeps, off the processor where the call began: it wakes up beside
    /// us and not in our place. Async-signal-safe.
    pub(crate) fn child_send_away(&self, pid: i32) {
        let mut others = self.allowed;
        // SAFETY: as above.
        unsafe { libc::CPU_CLR(self.here, &mut others) };
        set(pid, &others);
    }

    /// Gives the caller's processors back. Async-signal-safe.
    pub(crate) fn child_restore(&self) {
        set(0, &self.allowed);
    }
}

fn empty() -> libc::cpu_set_t {
    // SAFETY: an all-zero set is the empty one.
    unsafe { std::mem::zeroed() }
}

fn set(pid: i32, processors: &libc::cpu_set_t) -> bool {
    // SAFETY: the set is live and its size is given; 0 is this process.
    unsafe { libc::sched_setaffinity(pid, size_of_val(processors), processors) == 0 }
}

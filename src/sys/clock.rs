//! The two clocks: wall time for people, boot time for durations.

use std::time::{Duration, SystemTime};

/// The wall clock; it may jump.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that asks the time"
)]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// Time since boot, suspended time included; it never jumps back.
#[must_use]
pub(crate) fn boottime() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a live timespec of ours that the call fills in.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    if result != 0 {
        return Duration::ZERO;
    }
    Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

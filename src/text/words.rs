//! Numbers as people read them.

use std::time::Duration;

/// `0.4s`, `12s`, `4m12s`, `2h05m`, `3d04h`.
#[must_use]
pub(crate) fn short_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{}.{}s", seconds, time.subsec_millis() / 100),
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// `TERM`, or the number of a signal without a name.
#[must_use]
pub(crate) fn signal_name(signal: i32) -> String {
    // The numbers of Linux on all machines but a few old ones.
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let known = usize::try_from(signal)
        .ok()
        .and_then(|number| NAMES.get(number.checked_sub(1)?));
    known.map_or_else(|| signal.to_string(), |&name| name.to_owned())
}

/// `512 B`, `1.5 KiB`, `64.0 MiB`.
#[must_use]
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}
/// The program that a command line names, if that name is one that nothing could be said with: short, and
/// of the letters that programs are called by.
#[must_use]
pub(crate) fn program_name(command: &str) -> Option<&str> {
    let first = command.split_whitespace().next()?;
    let name = first.rsplit('/').next().unwrap_or(first);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    let fits = (1..=24).contains(&name.len()) && !name.starts_with('-');
    (fits && name.bytes().all(plain)).then_some(name)
}

/// A path that can stand in a sentence of ours: nothing in it reads as anything but a path.
#[must_use]
pub(crate) fn plain_path(path: &str) -> Option<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._+-@%=:,~#".contains(&byte);
    let fits = path.starts_with('/') && path.len() <= 400;
    (fits && path.bytes().all(plain)).then_some(path)
}

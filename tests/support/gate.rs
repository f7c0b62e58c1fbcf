//! A FIFO that holds processes until the test lets them go.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;

/// A process waits by reading one byte (`read -r x <gate` in a shell reads exactly one empty line).
///
/// The gate keeps the FIFO open for both directions, so that opening it never blocks anyone and a
/// process that arrives after the release still finds its byte.
pub(crate) struct Gate {
    path: PathBuf,
    file: File,
}

impl Gate {
    pub(crate) fn new(path: &Path) -> Self {
        nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .unwrap();
        Self {
            path: path.to_owned(),
            file,
        }
    }

    pub(crate) fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// Lets `count` processes through, now or later.
    pub(crate) fn release(&self, count: usize) {
        (&self.file).write_all(&vec![b'\n'; count]).unwrap();
    }
}

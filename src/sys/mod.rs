//! The floor: all unsafe code, every fork, raw descriptors, clocks. Uses nothing of ours but `error`.

pub(crate) mod affinity;
pub(crate) mod clock;
pub(crate) mod detach;
pub(crate) mod fds;
pub(crate) mod fsx;
pub(crate) mod init;
pub(crate) mod listen;
pub(crate) mod lock;
pub(crate) mod pause;
pub(crate) mod proc;
pub(crate) mod process;
pub(crate) mod pty;
pub(crate) mod session;
pub(crate) mod signal;

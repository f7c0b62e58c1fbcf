//! The floor: all unsafe code, every fork, raw descriptors, clocks. Uses nothing of ours but `error`.

pub mod affinity;
pub mod clock;
pub mod detach;
pub mod fds;
pub mod fsx;
pub mod init;
pub mod listen;
pub mod lock;
pub mod pause;
pub mod proc;
pub mod process;
pub mod pty;
pub mod session;
pub mod signal;

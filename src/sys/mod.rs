//! The floor: all unsafe code, every fork, raw descriptors, clocks. Uses nothing of ours but `error`.

pub mod clock;

//! The C entry point, in place of Rust's own start-up (see `main.rs`, which alone includes this file:
//! a test binary has an entry point of its own).

use std::ffi::{c_char, c_int};

/// Called once, by the C library. Arguments and environment are read through `std::env`, which on
/// glibc gets them before `main`.
#[unsafe(no_mangle)]
extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
    c_int::from(agent_sh::run(std::env::args_os().collect()))
}

//! The C entry point, in place of Rust's own start-up (see `main.rs`, which alone includes this file:
//! a test binary has an entry point of its own).

use std::ffi::{c_char, c_int};

/// Called once, by the C library. Arguments and environment are read through `std::env`, which on
/// glibc gets them before `main`.
#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    let args = std::env::args_os().collect();
    // SAFETY: these are the vector and count that the C library gave us.
    unsafe { agent_sh::remember_arguments(argc, argv) };
    // The C library's exit handlers have nothing to do for us, and touch memory that is shared by then.
    agent_sh::exit_now(c_int::from(agent_sh::run(args)))
}

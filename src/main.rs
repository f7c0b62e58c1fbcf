//! The `agent-sh` program. Its C entry point replaces Rust's own start-up, which would set SIGPIPE to
//! ignored and open closed standard streams: the real shell has to find both as the caller left them.
#![no_main]

#[expect(unsafe_code, reason = "exports the C entry point")]
#[path = "sys/entry.rs"]
mod entry;

//! Joins the shell functions in `src/rewrite/prelude.*` to one line each, and links the `agent-sh` program
//! statically on glibc Linux when the static C library is there.
//!
//! A static, position-dependent program starts 0.4 to 0.5 ms sooner than a dynamic one, which is a
//! third of what a whole `bash -c true` takes. `-C target-feature=+crt-static` would be the usual way,
//! but without `--target` it also applies to procedural macros, which then cannot be built. So the
//! libraries that rustc names as dynamic are answered by linker scripts that name the static ones,
//! for the program alone. Where `libc.a` is missing, or on other targets, the program is dynamic and
//! works the same, a little slower.
//!
//! A release is laid out by `.cargo/layout.ld`, which says why.

#[path = "src/rewrite/join.rs"]
mod join;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(var("OUT_DIR"));
    join_shell_files(&out);
    link_statically(&out);
}

/// A variable that cargo sets.
fn var(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// `src/rewrite/prelude.rs` includes what this writes.
fn join_shell_files(out: &Path) {
    println!("cargo::rerun-if-changed=src/rewrite/join.rs");
    for name in ["prelude.bash", "prelude.zsh", "prelude.sh"] {
        let file = format!("src/rewrite/{name}");
        println!("cargo::rerun-if-changed={file}");
        let joined = fs::read_to_string(&file)
            .map_err(|error| error.to_string())
            .and_then(|text| join::join(&text))
            .and_then(|line| {
                fs::write(out.join(name), line).map_err(|error| format!("not written: {error}"))
            });
        if let Err(wrong) = joined {
            println!("cargo::error={file}: {wrong}");
        }
    }
}

fn link_statically(out: &Path) {
    println!("cargo::rerun-if-changed=.cargo/layout.ld");
    println!("cargo::rerun-if-env-changed=AGENT_SH_DYNAMIC");
    let native = var("HOST") == var("TARGET");
    let glibc = var("CARGO_CFG_TARGET_OS") == "linux" && var("CARGO_CFG_TARGET_ENV") == "gnu";
    if !native || !glibc || env::var_os("AGENT_SH_DYNAMIC").is_some() || !static_libraries_exist() {
        return;
    }
    let layout = PathBuf::from(var("CARGO_MANIFEST_DIR")).join(".cargo/layout.ld");
    for (library, archives) in [
        ("gcc_s", "-lgcc_eh"),
        // Each needs the others; GNU ld goes through them once, in this order.
        ("c", "libc.a -lgcc -lgcc_eh"),
        ("m", "libm.a"),
    ] {
        let script = out.join(format!("lib{library}.so"));
        if fs::write(script, format!("GROUP({archives})\n")).is_err() {
            return;
        }
    }
    println!("cargo::rustc-link-arg-bins=-L{}", out.display());
    println!("cargo::rustc-link-arg-bins=-no-pie");
    println!("cargo::rustc-link-arg-bins=-static");
    if var("PROFILE") == "release" && layout.is_file() && has_usual_linker() {
        println!("cargo::rustc-link-arg-bins=-T{}", layout.display());
    }
}

/// lld and GNU ld, one of which rustc uses unless told otherwise, both know how to add to their layout.
fn has_usual_linker() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    env::var_os("RUSTC_LINKER").is_none() && !flags.contains("link")
}

/// The C compiler answers with a bare name for a library that it cannot find.
fn static_libraries_exist() -> bool {
    ["libc.a", "libm.a", "libgcc_eh.a"].iter().all(|name| {
        let answer = Command::new("cc")
            .arg(format!("-print-file-name={name}"))
            .output();
        answer.is_ok_and(|a| a.status.success() && a.stdout.contains(&b'/'))
    })
}

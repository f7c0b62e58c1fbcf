//! The program on machines that have little, and what a release consists of.

/// The examples in `shims/docker`, without Docker.
mod docker;
/// What `shims/package` makes.
mod release;
/// Roots with a shell and nothing else.
mod roots;
/// `setup system`.
mod system;

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Call, Sandbox, program, real};

/// A root directory that is being filled.
struct Root {
    dir: PathBuf,
}

impl Root {
    fn new(sandbox: &Sandbox, name: &str) -> Self {
        let dir = sandbox.path(name);
        for inner in ["dev", "proc"] {
            fs::create_dir_all(dir.join(inner)).unwrap();
        }
        // For those inside to hold each other by.
        nix::unistd::mkfifo(
            &dir.join("gate"),
            nix::sys::stat::Mode::from_bits_truncate(0o666),
        )
        .unwrap();
        Self { dir }
    }

    /// Copies a file to a path within; what it is linked to comes with it.
    fn add(&self, sandbox: &Sandbox, from: &Path, to: &str) {
        self.copy(from, to);
        let needed = sandbox.real_call("ldd").arg(from).run().text();
        let paths = needed
            .split_whitespace()
            .filter(|word| word.starts_with('/'));
        for library in paths.filter(|path| Path::new(path).is_file()) {
            self.copy(Path::new(library), library);
        }
    }

    fn copy(&self, from: &Path, to: &str) {
        let target = self.dir.join(to.trim_start_matches('/'));
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(from, target).unwrap();
    }

    /// A root of busybox: its programs, each by its name.
    fn busybox(sandbox: &Sandbox, name: &str) -> Self {
        let root = Self::new(sandbox, name);
        root.add(sandbox, &real("busybox"), "/bin/busybox");
        for dir in ["tmp", "usr/bin", "usr/local/bin", "etc", "var/lib"] {
            fs::create_dir_all(root.dir.join(dir)).unwrap();
        }
        let list = sandbox.real_call("busybox").arg("--list").run().text();
        for applet in list.lines().filter(|applet| *applet != "busybox") {
            std::os::unix::fs::symlink("busybox", root.dir.join("bin").join(applet)).unwrap();
        }
        root
    }

    /// A call in there, whose first process is PID 1.
    fn call<'a>(&self, sandbox: &'a Sandbox, dir: &str, user: Option<&str>) -> Call<'a> {
        let enter = "mount -t proc proc \"$1/proc\" && mount --rbind /dev \"$1/dev\" || exit 99; \
                     root=$1 dir=$2 user=$3; shift 3; \
                     exec unshare --root \"$root\" --wd \"$dir\" ${user:+--setuid ${user%:*} --setgid ${user#*:}} -- \"$@\"";
        sandbox
            .unshare(&["--mount", "--pid", "--fork"])
            .args(["sh", "-c", enter, "sh"])
            .arg(&self.dir)
            .args([dir, user.unwrap_or("")])
            .env_remove("AGENT_SH_STATE")
            .env_remove("HOME")
            .env_remove("TMPDIR")
            .env_remove("XDG_RUNTIME_DIR")
    }
}

/// The program under test, if it needs nothing from the machine. Else the test is skipped.
fn static_program(sandbox: &Sandbox) -> Option<PathBuf> {
    let program = fs::canonicalize(program("agent-sh")).unwrap();
    let needed = sandbox.real_call("ldd").arg(&program).run();
    let is_static = !needed.succeeded();
    if !is_static {
        crate::support::skipped("a static program: the static C library is not installed");
    }
    is_static.then_some(program)
}

//! A directory, an environment and a state of its own for every test.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use super::call::{Call, Ended};
use super::process::{survivors, sweep};
use super::{DEADLINE, Gate, holds_within, skip};

/// The names under which the program is linked in a sandbox.
const LINKS: [&str; 9] = [
    "agent-sh",
    "agent-sh-bash",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "sh",
    "nohup",
    "setsid",
];

/// Where the real programs are.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// The real program called `name`, never a stand-in.
pub(crate) fn real(name: &str) -> PathBuf {
    let name = match name {
        "agent-sh" | "agent-sh-bash" => "bash",
        other => other,
    };
    look(name, PATH).unwrap_or_else(|| {
        panic!("'{name}' is not installed; tests/run installs what the tests need")
    })
}

fn look(name: &str, path: &str) -> Option<PathBuf> {
    path.split(':')
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.exists())
}

/// Whether calls in a sandbox find this tool. If not, the test that asks is skipped.
#[track_caller]
pub(crate) fn has(tool: &str) -> bool {
    let found = look(tool, PATH).is_some();
    if !found {
        skip::missing(tool);
    }
    found
}

/// The same for a tool that a part of a test needs.
#[track_caller]
pub(crate) fn has_for_part(tool: &str) -> bool {
    let found = look(tool, PATH).is_some();
    if !found {
        skip::fail_if_all_must_run(tool);
        skip::skipped_in_part(&format!("{tool}: not installed"));
    }
    found
}

/// The same for a tool that may be anywhere on the `PATH` of whoever runs the tests.
#[track_caller]
pub(crate) fn has_on_path(tool: &str) -> bool {
    let found = look(tool, &std::env::var("PATH").unwrap_or_default()).is_some();
    if !found {
        skip::missing(tool);
    }
    found
}

/// The program under test. `AGENT_SH_TEST_BIN` names another build of it, or `real`: then the real
/// shells take its place, which checks the tests themselves.
pub(crate) fn program(name: &str) -> PathBuf {
    match std::env::var_os("AGENT_SH_TEST_BIN") {
        Some(value) if value == "real" => real(name),
        Some(path) => path.into(),
        None => env!("CARGO_BIN_EXE_agent-sh").into(),
    }
}

/// False when the real shells take the place of the program.
pub(crate) fn stands_in() -> bool {
    std::env::var_os("AGENT_SH_TEST_BIN").is_none_or(|value| value != "real")
}

pub(crate) struct Sandbox {
    dir: Option<TempDir>,
    root: PathBuf,
    serial: AtomicUsize,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("ash-")
            .tempdir_in("/tmp")
            .unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        for name in ["home", "work", "tmp", "run", "links", "io"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        fs::set_permissions(root.join("run"), fs::Permissions::from_mode(0o700)).unwrap();
        for name in LINKS {
            symlink(program(name), root.join("links").join(name)).unwrap();
        }
        Self {
            dir: Some(dir),
            root,
            serial: AtomicUsize::new(0),
        }
    }

    /// One for calls in namespaces of their own. A normal user may make them in a user namespace, unless
    /// the system forbids it: then the test is skipped.
    pub(crate) fn with_namespaces() -> Option<Self> {
        let sandbox = Self::new();
        let call = sandbox.unshare(&["--mount", "--pid", "--fork"]);
        let tried = call.args(["mount", "-t", "tmpfs", "none", "/mnt"]).run();
        if !tried.succeeded() {
            skip::skipped("namespaces: not permitted to this user here");
            return None;
        }
        Some(sandbox)
    }

    /// A call of `unshare` for these namespaces (`--mount`, `--pid`, …).
    pub(crate) fn unshare(&self, kinds: &[&str]) -> Call<'_> {
        let call = self.real_call("unshare");
        if nix::unistd::geteuid().is_root() {
            call.args(kinds)
        } else {
            // The same user inside, who may mount all the same.
            call.args(["--map-current-user", "--keep-caps"]).args(kinds)
        }
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// The directory that calls start in, unless they say otherwise.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// The link with this name to the program.
    pub(crate) fn link(&self, name: &str) -> PathBuf {
        self.root.join("links").join(name)
    }

    /// A path of ours that nothing has used before.
    pub(super) fn fresh(&self, kind: &str) -> PathBuf {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        self.root.join("io").join(format!("{kind}{serial}"))
    }

    pub(crate) fn gate(&self) -> Gate {
        Gate::new(&self.fresh("gate"))
    }

    /// The whole environment of a call.
    pub(super) fn environment(&self) -> Vec<(OsString, OsString)> {
        let set = |name: &str, value: &OsStr| (name.into(), value.to_owned());
        vec![
            set("PATH", PATH.as_ref()),
            set("LANG", "C.UTF-8".as_ref()),
            set("HOME", self.path("home").as_ref()),
            set("TMPDIR", self.path("tmp").as_ref()),
            set("XDG_RUNTIME_DIR", self.path("run").as_ref()),
            set("AGENT_SH_STATE", self.state().as_ref()),
            set("AGENT_SH_ANNOUNCE", "0".as_ref()),
        ]
    }

    /// A call of the program under the name `name` (argv[0] is just that name).
    pub(crate) fn call(&self, name: &str) -> Call<'_> {
        Call::new(self, &self.link(name), name)
    }

    /// The same call of the real program.
    pub(crate) fn real_call(&self, name: &str) -> Call<'_> {
        Call::new(self, &real(name), name)
    }

    /// A verb, or any other arguments, for the program under its own name.
    pub(crate) fn agent_sh<const N: usize>(&self, args: [&str; N]) -> Ended {
        self.call("agent-sh").args(args).run()
    }

    /// Waits until nothing that was started here runs any more, else fails and names what does.
    #[track_caller]
    pub(crate) fn assert_no_survivors(&self) {
        let gone = holds_within(DEADLINE, || survivors(&self.root).is_empty());
        assert!(gone, "still running: {:#?}", survivors(&self.root));
    }

    /// The supervisors that were started here and still run, by the name they give themselves.
    pub(crate) fn supervisors(&self) -> Vec<i32> {
        self.titled("agent-sh superv")
    }

    /// The same of the helpers that deliver.
    pub(crate) fn deliverers(&self) -> Vec<i32> {
        self.titled("agent-sh deliv")
    }

    fn titled(&self, beginning: &str) -> Vec<i32> {
        let title = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let pids = survivors(&self.root).into_iter().map(|(who, _)| who.pid);
        pids.filter(|&pid| title(pid).starts_with(beginning))
            .collect()
    }

    /// Writes an executable script and gives its path.
    pub(crate) fn script(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Sandbox {
    #[expect(
        clippy::print_stderr,
        reason = "says where the traces of a failure are"
    )]
    fn drop(&mut self) {
        sweep(&self.root);
        if std::thread::panicking()
            && let Some(dir) = self.dir.take()
        {
            let _kept = dir.keep();
            eprintln!(
                "the sandbox of this failure is kept: {}",
                self.root.display()
            );
        }
    }
}

//! Holding a process of ours at a named point of its way (`src/sys/pause.rs`), where a test wants to kill
//! somebody. The program must be built with the feature `test-hooks`, as `tests/run` does.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{Call, Identity, Sandbox, program, skip, wait_until};

const VARIABLE: &str = "AGENT_SH_PAUSE";

/// Whether the program under test has pause points. If not, the test that asks is skipped.
pub(crate) fn has_pauses() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let found = *FOUND.get_or_init(|| contains_pauses(&program("agent-sh")));
    if !found {
        skip::fail_if_all_must_run("--features test-hooks");
        skip::skipped("pause points: built without --features test-hooks");
    }
    found
}

/// Whether a program was built with the feature: it knows the name of the variable.
pub(crate) fn contains_pauses(program: &Path) -> bool {
    let bytes = fs::read(program).unwrap();
    memchr::memmem::find(&bytes, VARIABLE.as_bytes()).is_some()
}

/// One point at which the processes of one call are held.
pub(crate) struct Pause {
    point: &'static str,
    dir: PathBuf,
}

impl Pause {
    pub(crate) fn new(sandbox: &Sandbox, point: &'static str) -> Self {
        let dir = sandbox.fresh("pause");
        fs::create_dir(&dir).unwrap();
        Self { point, dir }
    }

    /// The same call, held when it comes to the point.
    pub(crate) fn hold<'a>(&self, call: Call<'a>) -> Call<'a> {
        call.env(VARIABLE, format!("{}:{}", self.point, self.dir.display()))
    }

    /// Waits until `count` processes have come to the point, and gives the last of them.
    #[track_caller]
    pub(crate) fn reached(&self, count: usize) -> Identity {
        let mut last = None;
        wait_until(&format!("{count} came to {}", self.point), || {
            let text = fs::read_to_string(self.dir.join("reached")).unwrap_or_default();
            // The end of a line says that the number is whole.
            let mut pids = text
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            last = pids.nth(count - 1).map(|line| line.trim().parse().unwrap());
            last.is_some()
        });
        Identity::of(last.unwrap()).expect("it is held")
    }

    /// Lets all of them go on, and holds nobody any more.
    pub(crate) fn go(&self) {
        fs::write(self.dir.join("go"), "").unwrap();
    }
}

//! Saying that a test, or a part of one, cannot run here. The unit tests in `src` use this file, too.
//!
//! What is skipped is said on stderr at once, uncaptured, and goes to the list that `tests/run` sums up
//! at its end. A missing tool is a failure where everything must run: `.ci/run` says so.

use std::fs::OpenOptions;
use std::io::Write;

/// Names the file that `tests/run` reads: a reason and a test on each line.
const LIST: &str = "AGENT_SH_TEST_SKIPS";
/// Set to 1: every tool has to be there.
const ALL: &str = "AGENT_SH_TEST_ALL";

/// Notes that the running test, or a part of it, is skipped, and why.
pub(crate) fn skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("?");
    // One write each: tests run side by side, and in several processes.
    let told = format!("skipped: {test}: {why}\n");
    let _unheard = std::io::stderr().write_all(told.as_bytes());
    if let Some(list) = std::env::var_os(LIST) {
        let line = format!("{why}\t{test}\n");
        let file = OpenOptions::new().create(true).append(true).open(&list);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        assert!(written.is_ok(), "cannot write {list:?}: {written:?}");
    }
}

/// Notes that a tool is missing.
#[track_caller]
pub(crate) fn missing(tool: &str) {
    let all = std::env::var_os(ALL).is_some_and(|value| value == "1");
    assert!(
        !all,
        "'{tool}' is not installed, and {ALL} asks for every test"
    );
    skipped(&format!("{tool}: not installed"));
}

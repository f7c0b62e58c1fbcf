//! Nothing of ours stays behind: after 1,000 commands with jobs there is no process, FIFO, socket or
//! temporary file left, only the finished jobs' directories with their records.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::support::{DEADLINE, Sandbox, holds_within, in_parallel, job_dirs, records, stands_in};

const COMMANDS: usize = 1000;

/// Short jobs of every kind; each leaves one record.
const TEXTS: [&str; 10] = [
    "true &",
    "sh -c 'exit 3' & disown",
    "nohup true >/dev/null 2>&1 &",
    "setsid true &",
    "(true &)",
    "{ true; false; } &",
    "echo x | cat &",
    "f() { echo \"$v\"; }; v=1; f &",
    "eval 'echo evaled &'",
    "sleep 0.01 & echo mine",
];

/// What should not be there: everything in the sandbox's own temporary and runtime directories, anything
/// with our name in the shared ones, and in the state whatever is neither a finished job nor empty.
pub(crate) fn litter(sandbox: &Sandbox, before: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in ["tmp", "run", "home"] {
        found.extend(below(&sandbox.path(name)));
    }
    found.extend(shared().into_iter().filter(|path| !before.contains(path)));
    let jobs = sandbox.state().join("v1/jobs");
    for path in below(&sandbox.state()) {
        let kind = fs::symlink_metadata(&path).map(|meta| meta.file_type());
        let Ok(kind) = kind else { continue };
        let name = path.file_name().unwrap().to_string_lossy();
        let special = kind.is_fifo() || kind.is_socket() || kind.is_symlink();
        let temporary =
            name.contains("tmp") && !kind.is_dir() || name.starts_with('.') && !kind.is_dir();
        let unfinished = path.parent() == Some(&jobs) && !path.join("exit.json").exists();
        if special || temporary || unfinished {
            found.push(path);
        }
    }
    found
}

/// What has our name in the directories that all programs share. Taken before a test begins: others may
/// have left theirs.
pub(crate) fn shared() -> Vec<PathBuf> {
    let dirs = ["/tmp", "/dev/shm", "/run"].into_iter();
    let entries = dirs.flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    entries
        .filter(|entry| entry.file_name().to_string_lossy().contains("agent-sh"))
        .map(|entry| entry.path())
        .collect()
}

fn below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(below(&path));
        }
        found.push(path);
    }
    found
}

#[test]
fn nothing_stays_after_a_thousand_commands() {
    if !stands_in() {
        return;
    }
    let before = shared();
    let sandbox = Sandbox::new();
    let turns: Vec<usize> = (0..COMMANDS).collect();
    in_parallel(&turns, |_, _, &turn| {
        let shell = ["bash", "dash", "zsh"][turn % 3];
        let text = TEXTS[turn % TEXTS.len()];
        // In zsh a job that has ended by then makes `disown` fail, natively too.
        let text = if shell != "bash" {
            text.replace("& disown", "&")
        } else {
            text.to_owned()
        };
        let ended = sandbox.call(shell).c(&text).run();
        assert!(ended.succeeded(), "{shell} -c {text:?}: {ended:?}");
    });
    sandbox.assert_no_survivors();
    let whole = holds_within(DEADLINE, || records(&sandbox).len() == COMMANDS);
    assert!(whole, "{} of {COMMANDS} records", records(&sandbox).len());
    assert_eq!(job_dirs(&sandbox).len(), COMMANDS);
    let litter = litter(&sandbox, &before);
    assert!(
        litter.is_empty(),
        "{} things: {:#?}",
        litter.len(),
        &litter[..litter.len().min(20)]
    );
}

/// A plain command leaves nothing at all.
#[test]
fn a_command_without_jobs_leaves_nothing() {
    if !stands_in() {
        return;
    }
    let before = shared();
    let sandbox = Sandbox::new();
    for text in ["true", "exit 3", "kill -TERM $$", "echo a | cat", "if then"] {
        sandbox.call("bash").c(text).run();
    }
    sandbox.assert_no_survivors();
    assert!(job_dirs(&sandbox).is_empty());
    let litter = litter(&sandbox, &before);
    assert!(litter.is_empty(), "{litter:#?}");
}

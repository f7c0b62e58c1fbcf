//! One text under the real shell and under the program, compared.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Call, Sandbox, Status};

/// What is seen of a call: every line, whichever stream it came on (a job's own streams are one), and the
/// status. Lines are sorted, because a job and its shell write at once.
#[derive(Debug, PartialEq)]
struct Seen {
    lines: Vec<String>,
    status: Status,
}

fn seen<'a>(call: impl Fn() -> Call<'a>, shell: &str, text: &str) -> Seen {
    let options = if shell == "zsh" { &["-f"][..] } else { &[] };
    let mut ended = call().args(options).c(text).run();
    // zsh itself dies so now and then: see `run` of the other texts.
    for _ in 0..4 {
        if shell != "zsh" || ended.status != Status::Signaled(libc::SIGSEGV) {
            break;
        }
        ended = call().args(options).c(text).run();
    }
    let both = ended.text() + &ended.errors();
    let mut lines: Vec<String> = both.lines().map(str::to_owned).collect();
    lines.sort();
    // A text that recurses prints what it has room for.
    lines.dedup();
    Seen {
        lines,
        status: ended.status,
    }
}

/// Compares every text, each in a directory that `prepare` has filled, and names those that differ.
pub(super) fn compare(cases: &[(&str, String)], prepare: impl Fn(&Sandbox) + Sync) {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let sandbox = Sandbox::new();
                prepare(&sandbox);
                while let Some((shell, text)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let native = seen(|| sandbox.real_call(shell), shell, text);
                    let ours = seen(|| sandbox.call(shell), shell, text);
                    if native != ours {
                        failed.lock().unwrap().push(format!(
                            "{shell}: {text}\n  native {native:?}\n  ours   {ours:?}"
                        ));
                    }
                }
                sandbox.assert_no_survivors();
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "{} of {}:\n{}",
        failed.len(),
        cases.len(),
        failed.join("\n")
    );
}

/// The shells that the letters `b`, `d` and `z` name.
pub(super) fn shells(letters: &str) -> impl Iterator<Item = &'static str> {
    ["bash", "dash", "zsh"]
        .into_iter()
        .filter(move |shell| letters.contains(&shell[..1]))
}

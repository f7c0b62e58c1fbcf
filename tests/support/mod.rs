//! What every test stands on: a sandbox of its own, calls with chosen streams, gates, and the one wait.

mod call;
mod call_child;
mod dialogue;
mod gate;
mod pause;
mod process;
mod records;
mod sandbox;
mod skip;
mod streams;

use std::time::{Duration, Instant};

pub(crate) use call::{Call, Ended, Input, Running, Status, exit_of};
pub(crate) use dialogue::{Dialogue, INTERRUPT, PROMPT, STOP};
pub(crate) use gate::Gate;
pub(crate) use pause::{Pause, has_pauses};
pub(crate) use process::{Identity, group_kill, parent_of, signal, tree, tree_kill};
pub(crate) use records::{Record, job_dirs, job_records, ps_json, records, wait_for_records};
pub(crate) use sandbox::{Sandbox, has, has_for_part, has_on_path, program, real, stands_in};
pub(crate) use skip::skipped;
pub(crate) use streams::{Streams, terminal};

/// How long anything may take before its test fails. Generous: the cores are few and noisy, and no test
/// passes because of it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds, and fails the test when it does not within [`DEADLINE`].
#[track_caller]
pub(crate) fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    assert!(
        holds_within(DEADLINE, condition),
        "waited {DEADLINE:?} in vain until {what}"
    );
}

/// Whether `condition` comes to hold before `limit` is over.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that sleeps: between two looks at a condition"
)]
pub(crate) fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if condition() {
            return true;
        }
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// Runs `work` over `items` on two threads; a panic in either fails the test.
pub(crate) fn in_parallel<T: Sync>(items: &[T], work: impl Fn(usize, usize, &T) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let run = |thread: usize| {
            let (next, work) = (&next, &work);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    work(thread, index, item);
                }
            })
        };
        let threads = [run(0), run(1)];
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

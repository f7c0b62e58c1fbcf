//! The supervisor: the detached process, one per top-level command, that owns its jobs.
//!
//! It is an ancestor of the real shell and a child subreaper, so whatever the shell leaves behind
//! is handed to it by the kernel. It relays the foreground's output, registers jobs, writes their
//! transcripts and records, and goes away with the last of them. It never reaches out to a process
//! outside its own tree, and holds nothing of the harness once the call is over.
//!
//! One loop (`event_loop`) waits on everything; nothing in it blocks and nothing wakes it while all is
//! quiet. It turns what the kernel tells into events, has `state` decide what follows, and carries that
//! out. What a process is that nobody registered is decided by `processes`. Both are pure.

mod call;
mod children;
mod drain;
mod event_loop;
mod inbox;
mod job;
mod kill_set;
mod linger;
mod notifications;
mod processes;
mod publisher;
mod setup;
mod start;
mod state;
mod strays;
mod timers;
mod warm;

use crate::sys::process;
use crate::wire::Work;

/// The parts. Each owns its fields and sees nobody else's; what concerns several of them is done by
/// methods of this one, in the room that it is mostly about.
struct Supervisor {
    poller: event_loop::Poller,
    timers: timers::Timers,
    setup: setup::Setup,
    call: call::Call,
    jobs: job::Jobs,
    inbox: inbox::Inbox,
    publisher: publisher::Publisher,
    notifications: notifications::Notifications,
    kill_set: kill_set::KillSet,
    strays: strays::Strays,
    drain: drain::Drain,
    linger: linger::Linger,
    warm: warm::Warm,
    /// What output is read into.
    buffer: call::Buffer,
}

/// Runs a supervisor in this freshly forked process, to its end.
pub(crate) fn supervise(work: Work) -> ! {
    if let Some(mut supervisor) = start::start(work) {
        supervisor.run();
        supervisor.publisher.collect_garbage();
    }
    process::exit_now(0)
}

impl Supervisor {
    /// Every descriptor of ours that stays open when the harness's are closed. Together with the shell's
    /// pid and those of the jobs this is what a process would need that takes over from us.
    fn descriptors(&self) -> Vec<i32> {
        let mut all = Vec::with_capacity(16);
        all.extend(self.poller.descriptors());
        all.extend(self.inbox.descriptors());
        all.extend(self.call.descriptors());
        all.extend(self.jobs.descriptors());
        all
    }
}

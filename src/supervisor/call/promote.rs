//! The foreground command becomes a job: the harness would kill it soon, or just tried to.

use crate::job::How;
use crate::supervisor::Supervisor;
use crate::supervisor::job::redirections;
use crate::supervisor::publisher::Start;
use crate::supervisor::state::Event;
use crate::supervisor::timers::Timer;
use crate::sys::fds;

impl Supervisor {
    pub(in crate::supervisor) fn promote(&mut self) {
        let pid = self.call.shell.pid;
        let streams = [1, 2].map(|fd| fds::object_of(pid, fd));
        let ours = streams.map(|stream| self.call.relay.is_feed(stream));
        let [redirected_to, redirected_stderr] = redirections(pid, ours);
        let text = self.setup.command.clone();
        let start = Start {
            redirected_to,
            redirected_stderr,
            ..Start::new(How::Promoted, pid, &text)
        };
        let started = self.call.shell.started;
        let Some(live) = self.publisher.publish_since(&start, started) else {
            // Without a record nobody could find it again: leave it to the harness.
            self.timers.cancel(Timer::Promotion);
            return;
        };
        let index = self.jobs.len();
        let mut job = self.new_job(&start, Some(live));
        job.record_output(&self.call.relay.give_all(index));
        self.jobs.push(job);
        self.apply(Event::Promoted);
    }
}

//! What the front says, and what its silence means.

use std::os::fd::{AsFd, AsRawFd};

use super::{GRACE, Phase, Supervisor};
use crate::handoff::ToSupervisor;
use crate::settings::OnTerm;
use crate::sys::{clock, fds};

impl Supervisor {
    /// Hears whatever the front has said by now, so that what follows is judged with it.
    pub(super) fn hear_all(&mut self) {
        while let Some(link) = &self.link
            && fds::wait_readable(&[link.requests.as_raw_fd()], 0)[0]
        {
            self.hear_front();
        }
    }

    pub(super) fn hear_front(&mut self) {
        let Some(link) = &self.link else { return };
        if !fds::wait_readable(&[link.requests.as_raw_fd()], 0)[0] {
            // `hear_all` has read what this event was about; a read would wait for the next word.
            return;
        }
        match link.hear() {
            Some(ToSupervisor::Signal { signal, sender }) => self.forward(signal, sender),
            Some(ToSupervisor::Continue) => self.continue_shell(),
            Some(ToSupervisor::Stop) => self.stop_front(libc::SIGSTOP),
            None => self.front_died(),
        }
    }

    /// A signal for the front means the foreground, all of it.
    fn forward(&mut self, signal: i32, sender: i32) {
        if matches!(
            signal,
            libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU | libc::SIGWINCH
        ) {
            // Job control means groups, as without us.
            self.signal_group(signal);
            return;
        }
        if self.shares_group && self.is_of_foreground(sender) {
            // `kill 0`: the front is in the group that it meant, and so is everybody else.
            return;
        }
        if self.stop_with_jobs(signal) {
            return;
        }
        if self.phase != Phase::Foreground {
            // The shell has ended and its last output, or a job, holds the front: it may go.
            if !matches!(signal, libc::SIGUSR1 | libc::SIGUSR2) {
                self.bystanders = self.strays(true);
                self.adopt_strays(true);
                self.say_announcement();
                self.finish_call(signal);
            }
            return;
        }
        if self.run.is_some() {
            // `run --wait` only watches: whoever stops watching leaves the job alone.
            self.say_no_longer_watched(signal);
            self.finish_call((128 + signal) << 8);
            return;
        }
        let promotes = self.settings.on_term == OnTerm::Promote && signal == libc::SIGTERM;
        if promotes {
            self.promote();
            return;
        }
        if !matches!(signal, libc::SIGUSR1 | libc::SIGUSR2) {
            let mut killing = self.new_killing(signal, "signal");
            killing.sender = sender;
            killing.program = crate::sys::proc::comm(sender);
            self.killing = Some(killing);
        }
        self.signal_foreground(signal);
    }

    /// The front was killed, or its harness gave up on it: end the foreground, spare the jobs.
    fn front_died(&mut self) {
        self.drop_link();
        if self.killing.is_none() {
            self.bystanders = self.strays(true);
        }
        match self.phase {
            Phase::Foreground if self.run.is_some() => self.release(),
            Phase::Foreground => {
                let escalate_at = Some(clock::boottime() + GRACE);
                let mut killing = self.new_killing(libc::SIGKILL, "front-died");
                killing.escalate_at = escalate_at;
                self.killing = Some(killing);
                self.signal_foreground(libc::SIGTERM);
            }
            Phase::Lingering => self.release(),
            Phase::Settling(_) => {
                // Nobody waits for the rest of the output any more.
                self.sinks.iter_mut().for_each(|sink| sink.gone = true);
            }
            Phase::Released => {}
        }
    }

    pub(super) fn drop_link(&mut self) {
        if let Some(link) = self.link.take() {
            let _ = self.epoll.delete(link.requests.as_fd());
        }
    }
}

//! Requests: registering, typing at a job's terminal, and word of a kill.
//!
//! What is typed waits in the job's inbox until its terminal has room. Nothing here blocks, and a job
//! that does not read costs a bounded queue: its senders wait, each for the answer to one frame, and
//! one that leaves takes back what was not read.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;

use super::Supervisor;
use super::jobs::{Job, STDOUT};
use crate::sys::{fds, pty};
use crate::wire::Request;
use crate::wire::control::{Answer, Ask, Size, Verdict, What, open_answer};

/// What may wait for one job: so many requests, each of at most one page.
const MOST_WAITING: usize = 16;
/// How much is read of the request pipe before other events get their turn.
const ONE_TURN: usize = 64 * 1024;

/// What is to be typed at a job.
#[derive(Default)]
pub(super) struct Inbox {
    waiting: VecDeque<Letter>,
    /// The last byte that was typed: an end of input in the middle of a line needs two.
    last: Option<u8>,
}

/// One request's bytes, and where to say that they were typed.
struct Letter {
    /// `None`: the end of input, whose bytes depend on the terminal's mode when its turn comes.
    bytes: Option<Vec<u8>>,
    done: usize,
    serial: u32,
    answer: OwnedFd,
}

impl Letter {
    /// The asker has left: it was told, or saw, that this was not read.
    fn is_withdrawn(&self) -> bool {
        fds::consumer_is_gone(self.answer.as_raw_fd())
    }
}

impl Job {
    /// Whether it wrote nothing for its idle time. If it wrote, the next look is that much later.
    pub(super) fn is_silent(&mut self, now: Duration) -> bool {
        let Some((at, after)) = self.idle.filter(|(at, _)| *at <= now && !self.ended) else {
            return false;
        };
        let since = self.last_output.max(at.saturating_sub(after));
        if since + after > now {
            self.idle = Some((since + after, after));
            return false;
        }
        self.idle = None;
        true
    }

    fn size(&self) -> Size {
        let leader = self.output.as_ref().map(|output| &output.main.leader);
        let (rows, columns) = leader.and_then(pty::size).unwrap_or_default();
        Size { rows, columns }
    }
}

impl Supervisor {
    pub(super) fn read_requests(&mut self) {
        let mut bytes = [0u8; 8192];
        let mut left = ONE_TURN;
        let drained = loop {
            match nix::unistd::read(&self.requests, &mut bytes) {
                Ok(0) => break true,
                Ok(count) => {
                    self.request_bytes.extend(&bytes[..count]);
                    left = left.saturating_sub(count);
                    if left == 0 {
                        break false;
                    }
                }
                Err(Errno::EINTR) => {}
                Err(_) => break true,
            }
        };
        while let Some(request) = Request::take(&mut self.request_bytes) {
            match request {
                Request::Register(request) => self.register(&request),
                Request::Ask(ask) => self.obey(ask),
                Request::KillSet(told) => self.note_kill(&told),
            }
        }
        // Each write is whole in the pipe or not in it. What is left of an empty pipe belongs to
        // nobody, and must not be taken for the beginning of what comes next.
        if drained {
            self.request_bytes.clear();
        }
    }

    fn obey(&mut self, ask: Ask) {
        let Some(answer) = open_answer(ask.answer_pid, ask.answer_fd) else {
            return;
        };
        let index = self
            .jobs
            .iter()
            .position(|job| !job.ended && job.id() == Some(&ask.job));
        let Some(index) = index else {
            tell(&answer, ask.serial, Verdict::NoJob, Size::default());
            return;
        };
        let job = &mut self.jobs[index];
        let size = job.size();
        let Some(inbox) = &mut job.inbox else {
            tell(&answer, ask.serial, Verdict::NoStdin, size);
            return;
        };
        let bytes = match ask.what {
            What::Look => {
                tell(&answer, ask.serial, Verdict::Done, size);
                return;
            }
            What::Resize(wanted) => {
                let leader = job.output.as_ref().map(|output| &output.main.leader);
                let done = wanted.is_sane()
                    && leader.is_some_and(|leader| {
                        pty::set_size(leader, wanted.rows, wanted.columns).is_ok()
                    });
                let verdict = if done {
                    Verdict::Done
                } else {
                    Verdict::Refused
                };
                tell(&answer, ask.serial, verdict, job.size());
                return;
            }
            What::Input(bytes) => Some(bytes),
            What::Eof => None,
        };
        if inbox.waiting.len() >= MOST_WAITING {
            inbox.waiting.retain(|letter| !letter.is_withdrawn());
        }
        if inbox.waiting.len() >= MOST_WAITING {
            tell(&answer, ask.serial, Verdict::Full, size);
            return;
        }
        inbox.waiting.push_back(Letter {
            bytes,
            done: 0,
            serial: ask.serial,
            answer,
        });
        self.type_on(index);
    }

    pub(super) fn handle_terminal(&mut self, index: usize, flags: EpollFlags) {
        if flags.contains(EpollFlags::EPOLLOUT) {
            self.type_on(index);
        }
        if flags.intersects(!EpollFlags::EPOLLOUT) {
            self.read_tty(index, STDOUT);
        }
    }

    /// Types what there is room for, and asks to be told when there is more.
    fn type_on(&mut self, index: usize) {
        let Some(job) = self.jobs.get_mut(index) else {
            return;
        };
        let size = job.size();
        let (Some(inbox), Some(output)) = (&mut job.inbox, &job.output) else {
            return;
        };
        while let Some(letter) = inbox.waiting.front_mut() {
            if letter.is_withdrawn() {
                inbox.waiting.pop_front();
                continue;
            }
            let bytes = letter
                .bytes
                .get_or_insert_with(|| end_of_input(&output.main.leader, inbox.last));
            let rest = &bytes[letter.done..];
            match nix::unistd::write(&output.main.leader, rest) {
                Ok(0) if !rest.is_empty() => break,
                Ok(count) if count < rest.len() => letter.done += count,
                Ok(_) => {
                    inbox.last = bytes.last().copied().or(inbox.last);
                    tell(&letter.answer, letter.serial, Verdict::Done, size);
                    inbox.waiting.pop_front();
                }
                Err(Errno::EINTR) => {}
                // No room, or a terminal that nobody has open: its end will be noticed elsewhere.
                Err(_) => break,
            }
        }
        let waits = !inbox.waiting.is_empty();
        job.want_room(&self.epoll, waits);
    }

    /// The job has ended: whoever still waits is told so.
    pub(super) fn close_inbox(&mut self, index: usize) {
        let job = &mut self.jobs[index];
        for letter in job.inbox.take().into_iter().flat_map(|inbox| inbox.waiting) {
            tell(
                &letter.answer,
                letter.serial,
                Verdict::NoJob,
                Size::default(),
            );
        }
        job.want_room(&self.epoll, false);
    }
}

/// A terminal that reads lines ends the input only at the beginning of one: in the middle of a line
/// the character first passes on what was typed so far.
fn end_of_input(leader: &OwnedFd, last: Option<u8>) -> Vec<u8> {
    let (character, by_lines) = pty::end_of_input(leader);
    let at_start = last.is_none_or(|last| matches!(last, b'\n' | b'\r') || last == character);
    vec![character; if by_lines && !at_start { 2 } else { 1 }]
}

/// Nobody is kept waiting by an asker that does not read.
fn tell(pipe: &OwnedFd, serial: u32, verdict: Verdict, size: Size) {
    let answer = Answer {
        serial,
        verdict,
        size,
    };
    let _ = nix::unistd::write(pipe, &answer.encode());
}

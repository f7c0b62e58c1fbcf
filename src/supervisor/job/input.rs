//! Typing at a job's terminal.
//!
//! What is typed waits until the terminal has room. Nothing here blocks, and a job that does not read
//! costs a bounded queue: its senders wait, each for the answer to one frame, and one that leaves takes
//! back what was not read.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;

use super::Job;
use crate::supervisor::Supervisor;
use crate::sys::{fds, pty};
use crate::wire::control::{Answer, Ask, Size, Verdict, What, open_answer};

/// What may wait for one job: so many requests, each of at most one page.
const MOST_WAITING: usize = 16;

/// What is to be typed at a job.
#[derive(Default)]
pub(super) struct Typing {
    waiting: VecDeque<Input>,
    /// The last byte that was typed: an end of input in the middle of a line needs two.
    last: Option<u8>,
}

/// One request's bytes, and where to say that they were typed.
struct Input {
    /// `None`: the end of input, whose bytes depend on the terminal's mode when its turn comes.
    bytes: Option<Vec<u8>>,
    done: usize,
    asker: Asker,
}

/// Who asked.
struct Asker {
    pipe: OwnedFd,
    serial: u32,
}

impl Asker {
    /// Nobody is kept waiting by an asker that does not read.
    fn answer(&self, verdict: Verdict, size: Size) {
        let serial = self.serial;
        let answer = Answer {
            serial,
            verdict,
            size,
        };
        let _ = nix::unistd::write(&self.pipe, &answer.encode());
    }

    /// It knows that what it sent was not read.
    fn has_left(&self) -> bool {
        fds::consumer_is_gone(self.pipe.as_raw_fd())
    }
}

impl Typing {
    /// Makes room by what was taken back; `false` if there is none all the same.
    fn has_room(&mut self) -> bool {
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.retain(|input| !input.asker.has_left());
        }
        self.waiting.len() < MOST_WAITING
    }

    /// Types what the terminal has room for. Gives whether something is left.
    fn type_on(&mut self, leader: &OwnedFd, size: Size) -> bool {
        while let Some(input) = self.waiting.front_mut() {
            if input.asker.has_left() {
                self.waiting.pop_front();
                continue;
            }
            let bytes = input
                .bytes
                .get_or_insert_with(|| end_of_input(leader, self.last));
            let rest = &bytes[input.done..];
            match nix::unistd::write(leader, rest) {
                Ok(0) if !rest.is_empty() => break,
                Ok(count) if count < rest.len() => input.done += count,
                Ok(_) => {
                    self.last = bytes.last().copied().or(self.last);
                    input.asker.answer(Verdict::Done, size);
                    self.waiting.pop_front();
                }
                Err(Errno::EINTR) => {}
                // No room, or a terminal that nobody has open: its end will be noticed elsewhere.
                Err(_) => break,
            }
        }
        !self.waiting.is_empty()
    }
}

impl Job {
    fn size(&self) -> Size {
        let leader = self.output.as_ref().map(|output| &output.main.leader);
        let (rows, columns) = leader.and_then(pty::size).unwrap_or_default();
        Size { rows, columns }
    }

    fn resize(&self, wanted: Size) -> Verdict {
        let leader = self.output.as_ref().map(|output| &output.main.leader);
        let set = |leader: &OwnedFd| pty::set_size(leader, wanted.rows, wanted.columns).is_ok();
        if wanted.is_sane() && leader.is_some_and(set) {
            Verdict::Done
        } else {
            Verdict::Refused
        }
    }
}

impl Supervisor {
    pub(in crate::supervisor) fn answer_ask(&mut self, ask: Ask) {
        let Some(pipe) = open_answer(ask.answer_pid, ask.answer_fd) else {
            return;
        };
        let serial = ask.serial;
        let asker = Asker { pipe, serial };
        let is_meant = |job: &Job| !job.ended && job.id() == Some(&ask.job);
        let Some(index) = self.jobs.iter().position(is_meant) else {
            asker.answer(Verdict::NoJob, Size::default());
            return;
        };
        let job = &mut self.jobs[index];
        let size = job.size();
        let Some(typing) = &mut job.typing else {
            asker.answer(Verdict::NoStdin, size);
            return;
        };
        let bytes = match ask.what {
            What::Look => {
                asker.answer(Verdict::Done, size);
                return;
            }
            What::Resize(wanted) => {
                let verdict = job.resize(wanted);
                asker.answer(verdict, job.size());
                return;
            }
            What::Input(bytes) => Some(bytes),
            What::Eof => None,
        };
        if !typing.has_room() {
            asker.answer(Verdict::Full, size);
            return;
        }
        let done = 0;
        typing.waiting.push_back(Input { bytes, done, asker });
        self.type_at(index);
    }

    /// Types what there is room for, and waits for more room if that was not all.
    pub(super) fn type_at(&mut self, index: usize) {
        if index >= self.jobs.len() {
            return;
        }
        let job = &mut self.jobs[index];
        let size = job.size();
        let (Some(typing), Some(output)) = (&mut job.typing, &job.output) else {
            return;
        };
        let waits = typing.type_on(&output.main.leader, size);
        job.want_room(&self.poller.epoll, waits);
    }

    /// The job has ended: whoever still waits gets that for an answer.
    pub(super) fn close_typing(&mut self, index: usize) {
        let job = &mut self.jobs[index];
        let waiting = job.typing.take().map(|typing| typing.waiting);
        for input in waiting.into_iter().flatten() {
            input.asker.answer(Verdict::NoJob, Size::default());
        }
        job.want_room(&self.poller.epoll, false);
    }
}

/// A terminal that reads lines ends the input only at the beginning of one: in the middle of a line
/// the character first passes on what was typed so far.
fn end_of_input(leader: &OwnedFd, last: Option<u8>) -> Vec<u8> {
    let (character, by_lines) = pty::end_of_input(leader);
    let at_start = last.is_none_or(|last| matches!(last, b'\n' | b'\r') || last == character);
    vec![character; if by_lines && !at_start { 2 } else { 1 }]
}

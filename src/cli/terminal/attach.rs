//! `attach`: one's own terminal as that of a job.
//!
//! Keys go to the supervisor, one frame at a time; output comes from the transcript, so any number may
//! be attached to one job, and none of them can hold it up.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};

use crate::cli::format::{fit, sentence};
use crate::cli::row;
use crate::cli::terminal::input;
use crate::cli::terminal::live::Live;
use crate::cli::terminal::raw::{self, Happened, Terminal};
use crate::cli::wait::code;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::follow::output;
use crate::follow::sleep::{Event, Sleeper};
use crate::message;
use crate::store::JobView;
use crate::wire::control::{Control, INPUT_LIMIT, Silence, Size, Verdict, What};
use clap::Args;

/// Attach to a job's terminal
#[derive(Debug, Args)]
#[command(after_help = "\
For jobs started with 'agent-sh run -i'. Draws the screen, then behaves as if the job had been started here. Ctrl-] \
detaches, and the job keeps running; 'agent-sh send ID --key ctrl-]' sends that key to the job.
Several people may attach to one job; its terminal has the size of whoever resized last.

Example:
  agent-sh attach 7f3k

Exit codes: 0 detached, the job's own if it ended meanwhile, 2 wrong usage, 125 no such job, it has ended, it accepts no \
input, or there is no terminal here.")]
pub(crate) struct Attach {
    /// Id, unique prefix of an id, name, or 'last'
    #[arg(value_name = "ID")]
    pub job: String,
}

/// Ctrl-] as a byte, and as the sequences of keyboards that name every key (CSI u, modifyOtherKeys).
const DETACH: [&[u8]; 3] = [b"\x1d", b"\x1b[93;5u", b"\x1b[27;5;93~"];
/// Keys that wait for the job to read; what is typed beyond is lost, as at any terminal.
const MOST_TYPED: usize = 64 * 1024;
/// How long to wait before something is tried again.
const SOON: Duration = Duration::from_millis(100);

/// How many turns behind the job's output something is left out: about 16 MiB.
const PATIENCE: u32 = 256;

/// Modes that programs set, undone: keys, keyboards, mouse, paste, focus, character sets, insertion,
/// wrapping, origin, margins, colours, cursor.
const UNDO: &str = "\x1b[?1l\x1b>\x1b[<u\x1b[>4m\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\
\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b(B\x0f\x1b[4l\x1b[?7h\x1b[?6l\x1b[r\x1b[m\x1b[?25h";

const SAVE: &str = "\x1b7";
/// What was saved has colours and characters with it.
const RESTORE: &str = "\x1b8\x1b[m\x1b(B\x0f";

/// How we left.
pub(crate) enum Left {
    Detached,
    Ended(Box<JobView>),
    /// By this signal, the terminal being given back.
    Signal(i32),
}

pub(crate) fn attach(context: &Context, attach: &Attach) -> Result<u8> {
    let job = context.find(&attach.job)?;
    attach_to(&job)
}

/// Attaches, and prints at the end how it was left. Gives the job's code if it ended, else 0.
pub(crate) fn attach_to(job: &JobView) -> Result<u8> {
    let id = job.id();
    match attach_terminal(job)? {
        Left::Detached => {
            message::say(format!(
                "detached from job {id}; 'agent-sh attach {id}' comes back"
            ));
            Ok(0)
        }
        Left::Ended(ended) => {
            message::say(sentence(&row(&ended)));
            Ok(code(&ended))
        }
        Left::Signal(signal) => {
            crate::sys::signal::die_by(signal);
            Ok(128u8.wrapping_add(signal as u8))
        }
    }
}

/// Is attached to the job's terminal until somebody detaches or the job ends.
pub(crate) fn attach_terminal(job: &JobView) -> Result<Left> {
    let (control, answer) = input::reach(job)?;
    if !raw::is_there() {
        let id = job.id();
        return Err(Error::Failed {
            text: "attach needs a terminal as stdin and stdout".to_owned(),
            hint: Some(format!(
                "'agent-sh send {id} TEXT' types at the job, 'agent-sh logs -f {id}' follows its output"
            )),
        });
    }
    message::say(format!("attached to job {}, Ctrl-] detaches", job.id()));
    // Watch first, read afterwards: what is written in between wakes us.
    let mut sleeper = Sleeper::new();
    sleeper.watch_output(&output::transcript_dir(job), 0);
    sleeper.watch_end(job, 0);
    let live = Live::of(job, answer.size)?;
    let terminal = Terminal::take(UNDO.as_bytes())?;
    let mut attached = Attached {
        job,
        control,
        live,
        typed: VecDeque::new(),
        under_way: None,
        stuck: None,
        hint: false,
        has_typed: false,
    };
    let left = attached.run(&terminal, &mut sleeper);
    raw::set_undo(&attached.undo());
    left
}

/// When to try again.
fn soon() -> Instant {
    Instant::now() + SOON
}

struct Attached<'a> {
    job: &'a JobView,
    control: Control,
    live: Live,
    /// What was typed and is not with the supervisor yet.
    typed: VecDeque<u8>,
    /// The request that is not answered yet, and how much of `typed` it has.
    under_way: Option<(u32, usize)>,
    /// The job does not read: when to try again.
    stuck: Option<Instant>,
    /// Whether the last row shows how to leave.
    hint: bool,
    has_typed: bool,
}

impl Attached<'_> {
    fn run(&mut self, terminal: &Terminal, sleeper: &mut Sleeper) -> Result<Left> {
        self.follow_size();
        self.draw()?;
        loop {
            self.show_more()?;
            self.type_on()?;
            let (ended, keys) = self.sleep(terminal, sleeper);
            match terminal.happened() {
                Some(Happened::End(signal)) => return Ok(Left::Signal(signal)),
                // The terminal has moved its lines itself, and the job draws what it wants anew.
                Some(Happened::Resized) => self.follow_size(),
                Some(Happened::Continued) => {
                    self.follow_size();
                    self.draw()?;
                }
                None => {}
            }
            if ended {
                self.show_more()?;
                while self.live.is_behind() {
                    self.show_more()?;
                }
                return self.how_it_ended();
            }
            self.take_answers();
            if keys && !self.read_keys()? {
                return Ok(Left::Detached);
            }
        }
    }

    /// Blocks until there is something to do; says whether the job has ended, and whether there are keys.
    fn sleep(&self, terminal: &Terminal, sleeper: &mut Sleeper) -> (bool, bool) {
        let stdin = io::stdin();
        let polled = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let others = [
            polled(stdin.as_fd()),
            polled(self.control.answers().as_fd()),
            polled(terminal.signals().as_fd()),
        ];
        let until = self.live.is_behind().then(Instant::now).or(self.stuck);
        let (events, ready) = sleeper.sleep_with(&others, until);
        let ended = events.iter().any(|event| matches!(event, Event::Ended(..)));
        (ended, ready[0])
    }

    /// The job's terminal gets our size: whoever resized last decides.
    fn follow_size(&mut self) {
        let size = raw::size();
        self.live.screen.resize(size.rows, size.columns);
        // A supervisor that is gone will be noticed by the end of the job, or by the next key.
        drop(self.control.tell(What::Resize(size)));
    }

    /// Draws the whole screen anew. What stood on ours moves up, to where one can scroll.
    fn draw(&mut self) -> Result<()> {
        let Size { rows, .. } = raw::size();
        let screen = &self.live.screen;
        let mut out = UNDO.as_bytes().to_vec();
        out.extend(format!("\x1b[{rows};1H").bytes());
        if screen.is_full_screen() {
            out.extend(b"\x1b[?1049h");
        } else {
            out.extend(std::iter::repeat_n(b'\n', usize::from(rows)));
        }
        out.extend(b"\x1b[H\x1b[2J");
        out.extend(screen.formatted());
        out.extend(self.leaving());
        message::out_bytes(&out)
    }

    /// How to leave, on the last row if nothing else is there and until something is typed.
    fn leaving(&mut self) -> Vec<u8> {
        if self.has_typed {
            return Vec::new();
        }
        let screen = &self.live.screen;
        let (rows, columns) = screen.size();
        let cells = screen.cells();
        let last = rows.saturating_sub(1);
        let is_empty = (0..columns).all(|column| {
            cells
                .cell(last, column)
                .is_none_or(|cell| cell.contents().trim().is_empty())
        });
        let (row, column) = screen.cursor();
        self.hint = is_empty && !screen.is_full_screen() && row < last;
        if !self.hint {
            return Vec::new();
        }
        let text = format!("[job {}: Ctrl-] detaches]", self.job.id());
        let text = fit(&text, usize::from(columns));
        let mut out = format!("\x1b[{rows};1H\x1b[0;2m{text}\x1b[m").into_bytes();
        out.extend(format!("\x1b[{};{}H", row + 1, column + 1).bytes());
        out.extend(cells.attributes_formatted().into_bytes());
        out
    }

    fn show_more(&mut self) -> Result<()> {
        let (row, column) = self.live.screen.cursor();
        let attributes = self.live.screen.cells().attributes_formatted().into_bytes();
        let mut new: Vec<u8> = Vec::new();
        if !self.live.catch_up(|bytes| new.extend(bytes))? {
            return Ok(());
        }
        if self.live.is_hopeless(PATIENCE)
            && let Some(now) = self.job.reload()?
        {
            let (rows, columns) = self.live.screen.size();
            self.live = Live::of(&now, Size { rows, columns })?;
            return self.draw();
        }
        if !std::mem::take(&mut self.hint) {
            return message::out_bytes(&new);
        }
        let (rows, _) = self.live.screen.size();
        let mut out = format!("\x1b[{rows};1H\x1b[m\x1b[2K").into_bytes();
        out.extend(format!("\x1b[{};{}H", row + 1, column + 1).bytes());
        out.extend(attributes);
        out.extend(new);
        out.extend(self.leaving());
        message::out_bytes(&out)
    }

    /// Takes what was typed. `false`: we are to leave.
    fn read_keys(&mut self) -> Result<bool> {
        let mut buffer = [0u8; 4096];
        let count = match nix::unistd::read(io::stdin(), &mut buffer) {
            // The terminal is gone.
            Ok(0) | Err(Errno::EIO) => return Ok(false),
            Ok(count) => count,
            Err(Errno::EINTR | Errno::EAGAIN) => return Ok(true),
            Err(error) => return Err(Error::sys("read the terminal", error)),
        };
        let keys = &buffer[..count];
        let leave = DETACH
            .iter()
            .filter_map(|key| keys.windows(key.len()).position(|bytes| bytes == *key))
            .min();
        let room = MOST_TYPED.saturating_sub(self.typed.len());
        let keys = &keys[..leave.unwrap_or(count).min(room)];
        self.typed.extend(keys);
        self.has_typed = true;
        self.type_on()?;
        Ok(leave.is_none())
    }

    /// Hands on what was typed, if nothing is under way.
    fn type_on(&mut self) -> Result<()> {
        let waits = self.stuck.is_some_and(|until| Instant::now() < until);
        if waits || self.under_way.is_some() || self.typed.is_empty() {
            return Ok(());
        }
        self.stuck = None;
        let count = self.typed.len().min(INPUT_LIMIT);
        let bytes: Vec<u8> = self.typed.iter().take(count).copied().collect();
        match self.control.tell(What::Input(bytes)) {
            Ok(serial) => self.under_way = Some((serial, count)),
            Err(Silence::Late) => self.stuck = Some(soon()),
            // It may have ended just now; then that is what is reported.
            Err(silence) => match self.job.reload()? {
                Some(now) if now.state.is_terminal() => self.typed.clear(),
                _ => return Err(input::explain(self.job, &silence)),
            },
        }
        Ok(())
    }

    fn take_answers(&mut self) {
        while let Some(answer) = self.control.hear() {
            let Some((serial, count)) = self.under_way else {
                continue;
            };
            if answer.serial != serial {
                continue;
            }
            self.under_way = None;
            if answer.verdict == Verdict::Full {
                self.stuck = Some(soon());
            } else {
                self.typed.drain(..count.min(self.typed.len()));
            }
        }
    }

    fn how_it_ended(&self) -> Result<Left> {
        match self.job.reload()? {
            Some(now) if now.state.is_terminal() => Ok(Left::Ended(Box::new(now))),
            Some(_) => Err(input::explain(self.job, &Silence::Gone)),
            None => Err(Error::Failed {
                text: format!("job '{}' was removed", self.job.id()),
                hint: None,
            }),
        }
    }

    /// What gives the terminal back: off the full screen, modes undone, below what was shown.
    fn undo(&self) -> Vec<u8> {
        let screen = &self.live.screen;
        if screen.is_full_screen() {
            return [UNDO, "\x1b[?1049l\r\n"].concat().into_bytes();
        }
        // Some of it moves the cursor, hence save and restore around it.
        let newline = if screen.cursor().1 > 0 { "\r\n" } else { "" };
        [SAVE, UNDO, RESTORE, newline, "\x1b[J"]
            .concat()
            .into_bytes()
    }
}

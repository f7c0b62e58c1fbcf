//! `top`: all jobs and the live screen of one, on a full screen.
//!
//! Nothing is asked again and again: the kernel reports new jobs and new output. Once a second the
//! jobs that run are looked at, for their clocks and their ends.

mod draw;
mod keys;
mod log;
mod picture;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal as Canvas, TerminalOptions, Viewport};

use crate::cli::format::sentence;
use crate::cli::terminal::attach::{self, Left};
use crate::cli::terminal::live::Live;
use crate::cli::terminal::raw::{self, Happened, Terminal};
use crate::cli::{ps, row};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::follow::Changes;
use crate::follow::sleep::Sleeper;
use crate::job::JobId;
use crate::message::{self, Palette};
use crate::store::JobView;
use crate::sys::{clock, signal};
use crate::wire::Address;
use crate::wire::control::{Control, Size, What};
use clap::Args;
use log::Log;

/// Watch jobs on a full screen
#[derive(Debug, Args)]
#[command(after_help = "\
Jobs on the left, the live screen of the selected job on the right. Keys: arrows or j k select, enter or a attach, \
l log, x kill (asks first), / filter, A all sessions, ? help, q quit.

Example:
  agent-sh top
  agent-sh top --from nats://127.0.0.1/JOBS    the list of all machines, until Ctrl-C

Exit codes: 0 success, 2 wrong usage, 125 no terminal or agent-sh failed.")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub fleet: crate::cli::fleet::Fleet,
}

/// How often the clocks move on.
const TICK: Duration = Duration::from_secs(1);
/// The screen is drawn at most so often, however much a job writes.
const FRAME: Duration = Duration::from_millis(50);
/// How many turns behind a job's output something is left out: about 1 MiB.
const LAG: u32 = 16;
/// How long a supervisor may take to answer with the size of a job's terminal.
const PATIENCE: Duration = Duration::from_millis(200);

const ENTER: &[u8] = b"\x1b[?1049h\x1b[2J\x1b[H\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[m\x1b[?25h\x1b[?1049l";

enum Mode {
    List,
    Filter,
    /// Whether to kill this one.
    Confirm(JobId, String),
    Help,
    Log(Box<Log>),
}

/// Why the list is left.
enum Over {
    Quit,
    /// By this signal.
    Signal(i32),
    Attach(Box<JobView>),
}

/// The chosen job's screen.
struct Shown {
    dir: PathBuf,
    live: Live,
    output: Changes,
}

struct Top<'a> {
    context: &'a Context,
    session: Option<String>,
    all_sessions: bool,
    colours: bool,
    jobs: Vec<JobView>,
    /// Where new jobs appear; the sleeper watches them.
    places: Vec<PathBuf>,
    sleeper: Sleeper,
    chosen: Option<PathBuf>,
    filter: String,
    mode: Mode,
    note: Option<String>,
    live: Option<Shown>,
    log_page: (u16, u16),
    killers: Vec<Child>,
}

pub(crate) fn top(context: &Context) -> Result<u8> {
    if !raw::is_there() {
        return Err(Error::Failed {
            text: "top needs a terminal as stdin and stdout".to_owned(),
            hint: Some("'agent-sh ps' lists the jobs".to_owned()),
        });
    }
    let palette = Palette::of_stdout(|name| context.env(name));
    let mut top = Top {
        context,
        session: context.session(),
        all_sessions: false,
        colours: palette != Palette::OFF,
        jobs: Vec::new(),
        places: Vec::new(),
        sleeper: Sleeper::new(),
        chosen: None,
        filter: String::new(),
        mode: Mode::List,
        note: None,
        live: None,
        log_page: (0, 0),
        killers: Vec::new(),
    };
    top.list_all()?;
    loop {
        let job = match top.watch_jobs()? {
            Over::Quit => return Ok(0),
            Over::Signal(signal) => return Ok(end_by(signal)),
            Over::Attach(job) => job,
        };
        top.note = Some(match attach::attach_terminal(&job) {
            Ok(Left::Signal(signal)) => return Ok(end_by(signal)),
            Ok(Left::Ended(ended)) => sentence(&row(&ended)),
            Ok(Left::Detached) => format!("detached from job {}", job.id()),
            Err(error) => error.to_string(),
        });
        top.live = None;
        top.list_all()?;
    }
}

/// Ends as if the signal had not been caught; the terminal has been given back.
fn end_by(signal: i32) -> u8 {
    signal::die_by(signal);
    128u8.wrapping_add(signal as u8)
}

impl Top<'_> {
    /// Shows jobs until something else is wanted.
    fn watch_jobs(&mut self) -> Result<Over> {
        let terminal = Terminal::take(LEAVE)?;
        message::out_bytes(ENTER)?;
        let failed = |source: io::Error| Error::sys("draw on the terminal", source);
        let options = TerminalOptions {
            viewport: Viewport::Fixed(whole()),
        };
        let backend = CrosstermBackend::new(io::stdout());
        let mut canvas = Canvas::with_options(backend, options).map_err(failed)?;
        let mut tick = Instant::now() + TICK;
        loop {
            self.follow_chosen();
            let drawn = Instant::now();
            canvas.draw(|frame| self.draw(frame)).map_err(failed)?;
            let (keys, jobs) = self.sleep(&terminal, drawn, tick);
            match terminal.happened() {
                Some(Happened::End(signal)) => return Ok(Over::Signal(signal)),
                Some(Happened::Continued) => {
                    message::out_bytes(ENTER)?;
                    canvas.clear().map_err(failed)?;
                }
                // Also when the size is the same again: the terminal has moved things meanwhile.
                Some(Happened::Resized) => canvas.resize(whole()).map_err(failed)?,
                None => {}
            }
            if keys && let Some(over) = self.read_keys()? {
                return Ok(over);
            }
            if jobs {
                self.list_all()?;
            }
            if Instant::now() >= tick {
                tick = Instant::now() + TICK;
                self.refresh_running()?;
            }
        }
    }

    /// Blocks until there is something to do; says whether there are keys, and whether there are other
    /// jobs. Nobody is woken up by new output before the next frame is due.
    fn sleep(&mut self, terminal: &Terminal, drawn: Instant, tick: Instant) -> (bool, bool) {
        let polled = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let stdin = io::stdin();
        let shown = self.live.as_ref();
        let is_behind = match &self.mode {
            Mode::Log(log) => log.is_behind,
            _ => shown.is_some_and(|shown| shown.live.is_behind()),
        };
        let mut others = vec![polled(stdin.as_fd()), polled(terminal.signals().as_fd())];
        let (events, ready) = self.sleeper.sleep_with(&others, Some(drawn + FRAME));
        if is_behind || !events.is_empty() || ready.contains(&true) {
            return (ready[0], !events.is_empty());
        }
        others.extend(shown.and_then(|shown| shown.output.fd()).map(polled));
        let (events, ready) = self.sleeper.sleep_with(&others, Some(tick));
        (ready[0], !events.is_empty())
    }

    // --- jobs ---

    /// Reads the whole store; needed when jobs come or go.
    fn list_all(&mut self) -> Result<()> {
        let jobs = self.context.jobs()?;
        for home in jobs.iter().filter_map(|job| job.dir.parent()) {
            if !self.places.iter().any(|known| known == home) {
                self.places.push(home.to_owned());
                self.sleeper.watch_entries(home, 0);
            }
        }
        self.jobs = jobs;
        self.sort();
        Ok(())
    }

    /// Looks at the jobs that run. Where no place is known to watch for new ones, at all.
    fn refresh_running(&mut self) -> Result<()> {
        if self.places.is_empty() {
            self.list_all()?;
        }
        for job in &mut self.jobs {
            if !job.state.is_terminal()
                && let Ok(Some(now)) = job.reload()
            {
                *job = now;
            }
        }
        self.sort();
        self.reap_killers();
        Ok(())
    }

    /// Those that run first, the newest first; and only what is news.
    fn sort(&mut self) {
        let now = clock::wall();
        self.jobs
            .retain(|job| ps::is_news(job.state, job.settled_at(), now));
        self.jobs.sort_by(|a, b| {
            let key = |job: &JobView| {
                (
                    job.state.is_terminal(),
                    std::cmp::Reverse(job.launch.facts.started_at.clone()),
                )
            };
            key(a)
                .cmp(&key(b))
                .then_with(|| b.id().as_str().cmp(a.id().as_str()))
        });
    }

    /// The jobs on the list.
    fn shown(&self) -> Vec<&JobView> {
        let wanted = self.filter.to_lowercase();
        let is_wanted = |job: &&JobView| {
            let in_session = self.all_sessions
                || self.session.is_none()
                || job.launch.facts.session == self.session;
            let row = row(job);
            let name = row.name.unwrap_or_default();
            let text = format!(
                "{} {} {name} {} {}",
                row.id, row.state, row.command, row.how
            );
            in_session && text.to_lowercase().contains(&wanted)
        };
        self.jobs.iter().filter(is_wanted).collect()
    }

    /// The place of the chosen job on the list.
    fn place(&self) -> usize {
        let chosen = self.chosen.as_ref();
        let shown = self.shown();
        let mut dirs = shown.iter().map(|job| &job.dir);
        chosen
            .and_then(|chosen| dirs.position(|dir| dir == chosen))
            .unwrap_or(0)
    }

    fn chosen(&self) -> Option<&JobView> {
        self.shown().get(self.place()).copied()
    }

    fn choose(&mut self, place: usize) {
        let shown = self.shown();
        let last = shown.len().saturating_sub(1);
        self.chosen = shown.get(place.min(last)).map(|job| job.dir.clone());
    }

    /// Keeps the chosen job's screen, or log, up to date.
    fn follow_chosen(&mut self) {
        let Some(job) = self.chosen().cloned() else {
            self.live = None;
            return;
        };
        self.chosen.get_or_insert_with(|| job.dir.clone());
        if let Mode::Log(log) = &mut self.mode {
            drop(log.catch_up());
        }
        match &mut self.live {
            Some(shown) if shown.dir == job.dir && !shown.live.is_hopeless(LAG) => {
                shown.output.take();
                drop(shown.live.catch_up(|_| {}));
            }
            _ => {
                // Watch first, read afterwards: what is written in between wakes us.
                let output = Changes::of_transcript(&job);
                self.live = Live::of(&job, size_of(&job)).ok().map(|live| Shown {
                    dir: job.dir.clone(),
                    live,
                    output,
                });
            }
        }
    }

    // --- killing ---

    /// Kills by the verb, in a process of its own: it takes its time, and says how it went.
    fn kill(&mut self, id: &JobId) {
        let child = Command::new("/proc/self/exe")
            .arg0(crate::invocation::OWN_NAME)
            .args(["kill", id.as_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        match child {
            Ok(child) => {
                self.killers.push(child);
                self.note = Some(format!("killing job {id}"));
            }
            Err(error) => self.note = Some(Error::sys("start a process", error).to_string()),
        }
    }

    fn reap_killers(&mut self) {
        let mut left = Vec::new();
        for mut child in std::mem::take(&mut self.killers) {
            match child.try_wait() {
                Ok(None) => left.push(child),
                Ok(Some(_)) => {
                    if let Ok(output) = child.wait_with_output() {
                        let said = [output.stdout, output.stderr].concat();
                        let said = String::from_utf8_lossy(&said);
                        self.note = said.lines().next().map(str::to_owned);
                    }
                }
                Err(_) => {}
            }
        }
        self.killers = left;
    }
}

/// Where to draw; also on a terminal that does not know its size.
fn whole() -> Rect {
    let Size { rows, columns } = raw::size();
    Rect::new(0, 0, columns, rows)
}

/// The size of a job's terminal, if it is known; 0x0 means the usual.
fn size_of(job: &JobView) -> Size {
    let address = job.launch.control.as_deref().and_then(Address::from_text);
    let address = address.filter(|_| job.launch.interactive && !job.state.is_terminal());
    address
        .and_then(|address| Control::open(address, job.launch.supervisor.pidns, job.id()).ok())
        .and_then(|mut control| control.ask(What::Look, PATIENCE).ok())
        .map_or_else(Size::default, |answer| answer.size)
}

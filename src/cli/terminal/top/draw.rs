//! What `top` looks like: jobs on the left, the live screen of one on the right, a line of keys below.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use crate::cli::format::{columns, ending, fit, short_duration, signal_name};
use crate::cli::row;
use crate::cli::terminal::top::picture::picture;
use crate::cli::terminal::top::{Mode, Top};
use crate::job::State;
use crate::store::JobView;
use crate::text;

/// Below this only the list is shown.
const LEAST_FOR_TWO: u16 = 56;
/// The list: a third of the width, within reason.
const LIST: (u16, u16) = (34, 56);

const HELP: &[(&str, &str)] = &[
    ("up down, j k", "choose a job"),
    ("home end, g G", "the first, the last"),
    (
        "enter, a",
        "attach to it (jobs of 'run -i'; Ctrl-] comes back)",
    ),
    ("l", "its log; arrows, page-up, page-down, g, G scroll"),
    ("x, K", "kill it: TERM, then KILL after 5 s"),
    ("/", "show only jobs with this text; Esc shows all"),
    ("A", "jobs of every session, or of this one"),
    ("?", "this help"),
    ("q, Esc", "back, or quit"),
];

impl Top<'_> {
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        if area.height == 0 || area.width == 0 {
            return;
        }
        let [main, status] =
            Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(area);
        if matches!(self.mode, Mode::Log(_)) {
            self.draw_log(frame, main);
        } else if area.width < LEAST_FOR_TWO {
            self.draw_list(frame, main);
        } else {
            let list = (area.width / 3).clamp(LIST.0, LIST.1);
            let [left, right] =
                Layout::horizontal([Constraint::Length(list), Constraint::Min(0)]).areas(main);
            self.draw_list(frame, left);
            self.draw_screen(frame, right);
        }
        if matches!(self.mode, Mode::Help) {
            self.draw_help(frame, main);
        }
        self.draw_status(frame, status);
    }

    fn paint(&self, colour: Color) -> Style {
        if self.colours {
            Style::default().fg(colour)
        } else {
            Style::default()
        }
    }

    fn draw_list(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let shown = self.shown();
        let width = usize::from(area.width);
        let head = format!(
            "{} {}",
            if shown.len() == 1 {
                "1 job".to_owned()
            } else {
                format!("{} jobs", shown.len())
            },
            match (&self.session, self.all_sessions) {
                (Some(_), false) => "of this session",
                _ => "of all sessions",
            }
        );
        let bold = Style::default().add_modifier(Modifier::BOLD);
        let mut lines = vec![Line::styled(fit(&head, width), bold)];
        let rows = usize::from(area.height.saturating_sub(1));
        let place = self.place();
        let from = place.saturating_sub(rows.saturating_sub(1));
        for (at, job) in shown.iter().enumerate().skip(from).take(rows) {
            lines.push(self.entry(job, width, at == place));
        }
        if shown.is_empty() {
            let text = if self.filter.is_empty() {
                "none; 'agent-sh run' starts one"
            } else {
                "none with this text"
            };
            lines.push(Line::styled(
                fit(text, width),
                Style::default().add_modifier(Modifier::DIM),
            ));
        }
        frame.render_widget(Paragraph::new(lines), area);
    }

    /// `run  7f3k2m 4m12s cargo build`
    fn entry(&self, job: &JobView, width: usize, is_chosen: bool) -> Line<'static> {
        let row = row(job);
        let (word, colour) = match (job.state, row.exit_code, row.signal) {
            (State::Running, ..) if row.unsupervised => ("run*".to_owned(), Color::Yellow),
            (State::Running, ..) => ("run".to_owned(), Color::Blue),
            (State::Stopped, ..) => ("stop".to_owned(), Color::Yellow),
            (State::Exited, Some(0), _) => ("ok".to_owned(), Color::Green),
            (State::Exited, Some(code), _) => (code.to_string(), Color::Red),
            (State::Signaled, _, Some(signal)) => (signal_name(signal), Color::Red),
            _ => ("lost".to_owned(), Color::Red),
        };
        let word = fit(&word, 4);
        let took = row.took.map_or_else(|| "-".to_owned(), short_duration);
        let facts = format!(" {:<6} {took:>6} ", row.id);
        let label = match &row.name {
            Some(name) => format!("({name}) {}", row.command),
            None => row.command,
        };
        let room = width.saturating_sub(4 + facts.len());
        let label = if room == 0 {
            String::new()
        } else {
            fit(&label, room)
        };
        let gap = room.saturating_sub(columns(&label));
        let mut line = Line::from(vec![
            Span::styled(format!("{word:<4}"), self.paint(colour)),
            Span::raw(facts),
            Span::raw(label),
            Span::raw(" ".repeat(gap)),
        ]);
        if is_chosen {
            line = line.style(Style::default().add_modifier(Modifier::REVERSED));
        }
        line
    }

    fn draw_screen(&self, frame: &mut Frame<'_>, area: Rect) {
        let title = match self.chosen() {
            Some(job) => {
                let row = row(job);
                let text = format!("{} {}: {}", row.id, ending(&row), row.command);
                fit(&text, usize::from(area.width.saturating_sub(2)))
            }
            None => String::new(),
        };
        let block = Block::default()
            .borders(Borders::LEFT | Borders::TOP)
            .title(title)
            .border_style(Style::default().add_modifier(Modifier::DIM));
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let lines = match (self.chosen(), &self.live) {
            (Some(job), Some(live)) => {
                let mut lines = picture(&live.live.screen, inner.height, inner.width, self.colours);
                let is_silent = lines.iter().all(|line| line.width() == 0);
                if let Some(target) = job
                    .launch
                    .facts
                    .redirected_to
                    .as_deref()
                    .filter(|_| is_silent)
                {
                    let text = format!("its output goes to {target}; l shows it");
                    lines = vec![Line::styled(
                        fit(&text, usize::from(inner.width)),
                        Style::default().add_modifier(Modifier::DIM),
                    )];
                }
                lines
            }
            _ => Vec::new(),
        };
        frame.render_widget(Paragraph::new(lines), inner);
    }

    fn draw_log(&mut self, frame: &mut Frame<'_>, area: Rect) {
        self.log_page = (area.height.saturating_sub(1), area.width);
        let id = self.chosen().map(|job| job.id().to_string());
        let Mode::Log(log) = &self.mode else { return };
        let (rows, width) = self.log_page;
        let head = format!("log of job {} ({})", id.unwrap_or_default(), log.place());
        let bold = Style::default().add_modifier(Modifier::BOLD);
        let mut lines = vec![Line::styled(fit(&head, usize::from(width)), bold)];
        lines.extend(log.page(rows, width).into_iter().map(Line::from));
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn draw_help(&self, frame: &mut Frame<'_>, area: Rect) {
        let lines: Vec<Line<'static>> = HELP
            .iter()
            .map(|(keys, what)| {
                Line::from(vec![
                    Span::styled(
                        format!(" {keys:<14}"),
                        Style::default().add_modifier(Modifier::BOLD),
                    ),
                    Span::raw(*what),
                ])
            })
            .collect();
        let widest = lines.iter().map(Line::width).max().unwrap_or(0) + 3;
        let width = u16::try_from(widest).unwrap_or(u16::MAX).min(area.width);
        let height = u16::try_from(HELP.len() + 2)
            .unwrap_or(u16::MAX)
            .min(area.height);
        let place = Rect {
            x: area.x + (area.width - width) / 2,
            y: area.y + (area.height - height) / 2,
            width,
            height,
        };
        frame.render_widget(Clear, place);
        let block = Block::default().borders(Borders::ALL).title(" keys ");
        frame.render_widget(Paragraph::new(lines).block(block), place);
    }

    fn draw_status(&self, frame: &mut Frame<'_>, area: Rect) {
        let width = usize::from(area.width);
        let plain = Style::default().add_modifier(Modifier::DIM);
        let (text, style) = match (&self.mode, &self.note) {
            (Mode::Confirm(id, command), _) => (
                format!(
                    "kill job {id} and all it started? y, n   {}",
                    text::shorten(command, 60)
                ),
                self.paint(Color::Red).add_modifier(Modifier::BOLD),
            ),
            (Mode::Filter, _) => (format!("/{}\u{2588}", self.filter), plain),
            (_, Some(note)) => (note.clone(), plain),
            (Mode::Log(_), None) => (
                "up down page-up page-down g G scroll  q back".to_owned(),
                plain,
            ),
            (Mode::Help, None) => ("any key closes the help".to_owned(), plain),
            (Mode::List, None) if !self.filter.is_empty() => (
                format!("only with '{}'; Esc shows all  ? help  q quit", self.filter),
                plain,
            ),
            (Mode::List, None) => (
                "j k choose  enter attach  l log  x kill  / filter  A sessions  ? help  q quit"
                    .to_owned(),
                plain,
            ),
        };
        let line = Line::styled(fit(&text, width), style);
        frame.render_widget(Paragraph::new(line), area);
    }
}

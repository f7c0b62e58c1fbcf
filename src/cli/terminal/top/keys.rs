//! What the keys of `top` do.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::cli::terminal::top::log::Log;
use crate::cli::terminal::top::{Mode, Over, Top};
use crate::error::{Error, Result};
use crate::sys::fds;

/// So many jobs page-up and page-down go by.
const PAGE: usize = 10;

impl Top<'_> {
    pub(super) fn read_keys(&mut self) -> Result<Option<Over>> {
        let failed = |source: io::Error| Error::sys("read the terminal", source);
        let mut any = false;
        while event::poll(Duration::ZERO).map_err(failed)? {
            any = true;
            let Event::Key(key) = event::read().map_err(failed)? else {
                continue;
            };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            if let Some(over) = self.press(key)? {
                return Ok(Some(over));
            }
        }
        // A terminal that has gone away stays readable and says nothing.
        let gone = !any && fds::consumer_is_gone(io::stdin().as_raw_fd());
        Ok(gone.then_some(Over::Quit))
    }

    fn press(&mut self, key: KeyEvent) -> Result<Option<Over>> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return Ok(matches!(key.code, KeyCode::Char('c' | 'q')).then_some(Over::Quit));
        }
        self.note = None;
        match std::mem::replace(&mut self.mode, Mode::List) {
            Mode::List => return self.press_in_list(key.code),
            Mode::Help => {}
            Mode::Confirm(id, _) => match key.code {
                KeyCode::Char('y' | 'Y') => self.kill(&id),
                _ => self.note = Some("not killed".to_owned()),
            },
            Mode::Filter => match key.code {
                KeyCode::Enter => {}
                KeyCode::Esc => self.filter.clear(),
                code => {
                    match code {
                        KeyCode::Backspace => drop(self.filter.pop()),
                        KeyCode::Char(letter) if !letter.is_control() => self.filter.push(letter),
                        _ => {}
                    }
                    self.mode = Mode::Filter;
                }
            },
            Mode::Log(mut log) => {
                let (rows, width) = self.log_page;
                let page = isize::try_from(rows.saturating_sub(1).max(1)).unwrap_or(1);
                let by = match key.code {
                    KeyCode::Up | KeyCode::Char('k') => -1,
                    KeyCode::Down | KeyCode::Char('j') | KeyCode::Enter => 1,
                    KeyCode::PageUp | KeyCode::Char('b') => -page,
                    KeyCode::PageDown | KeyCode::Char(' ' | 'f') => page,
                    KeyCode::Home | KeyCode::Char('g') => isize::MIN / 2,
                    KeyCode::End | KeyCode::Char('G') => isize::MAX / 2,
                    KeyCode::Esc | KeyCode::Char('q' | 'l') => return Ok(None),
                    _ => 0,
                };
                if by != 0 {
                    log.scroll(by, rows, width);
                }
                self.mode = Mode::Log(log);
            }
        }
        Ok(None)
    }

    fn press_in_list(&mut self, code: KeyCode) -> Result<Option<Over>> {
        let place = self.place();
        match code {
            KeyCode::Char('q') => return Ok(Some(Over::Quit)),
            KeyCode::Esc if self.filter.is_empty() => return Ok(Some(Over::Quit)),
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Up | KeyCode::Char('k') => self.choose(place.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose(place + 1),
            KeyCode::PageUp => self.choose(place.saturating_sub(PAGE)),
            KeyCode::PageDown => self.choose(place + PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.choose(0),
            KeyCode::End | KeyCode::Char('G') => self.choose(usize::MAX),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Char('A') => self.toggle_sessions(),
            KeyCode::Enter | KeyCode::Char('a' | 'l' | 'x' | 'K') => return self.act(code),
            _ => {}
        }
        Ok(None)
    }

    fn toggle_sessions(&mut self) {
        if self.session.is_none() {
            self.note = Some("there is no session here: all jobs are shown".to_owned());
        } else {
            self.all_sessions = !self.all_sessions;
        }
    }

    /// What is done to the chosen job.
    fn act(&mut self, code: KeyCode) -> Result<Option<Over>> {
        let Some(job) = self.chosen().cloned() else {
            return Ok(None);
        };
        let can_attach = job.launch.interactive && !job.state.is_terminal();
        let id = job.id();
        match code {
            KeyCode::Enter | KeyCode::Char('a') if can_attach => {
                return Ok(Some(Over::Attach(Box::new(job))));
            }
            KeyCode::Char('a') => {
                self.note = Some(if job.state.is_terminal() {
                    format!("job {id} has ended; l shows its log")
                } else {
                    format!("job {id} was not started with 'run -i'; l shows its log")
                });
            }
            KeyCode::Char('x' | 'K') if job.state.is_terminal() => {
                self.note = Some(format!("job {id} has ended already"));
            }
            KeyCode::Char('x' | 'K') => {
                self.mode = Mode::Confirm(id.clone(), job.launch.facts.command.text.clone());
            }
            _ => match Log::of(&job) {
                Ok(log) => self.mode = Mode::Log(Box::new(log)),
                Err(error) => self.note = Some(error.to_string()),
            },
        }
        Ok(None)
    }
}

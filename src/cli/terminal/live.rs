//! A job's screen as it changes: the transcript drawn on a screen.

use crate::error::Result;
use crate::follow::output::{self, CHUNK, Piece, Source};
use crate::screen::{self, Screen};
use crate::store::JobView;
use crate::wire::control::Size;

/// What came before so many bytes cannot be on the screen any more, but for a full-screen program
/// that never clears it.
const REPLAY: u64 = 1024 * 1024;

/// How much is drawn before others get their turn.
const ONE_TURN: usize = 64 * 1024;

/// A job's output drawn on a screen.
pub(crate) struct Live {
    source: Source,
    pub(crate) screen: Screen,
    buffer: Vec<u8>,
    /// How many turns in a row had more to draw than there was time for.
    behind: u32,
}

impl Live {
    /// Draws all there is. `size`: of the terminal that it was drawn on, if known.
    pub(crate) fn of(job: &JobView, size: Size) -> Result<Self> {
        let size = if size.is_sane() { size } else { usual_size() };
        let mut live = Self {
            source: output::transcript(job)?,
            screen: Screen::new(size.rows, size.columns),
            buffer: vec![0; CHUNK],
            behind: 0,
        };
        live.source.skip_to_last(REPLAY)?;
        // Up to now, and no further: a job may write faster than anybody can draw.
        live.read_on(REPLAY as usize, |screen, bytes| screen.push(bytes))?;
        Ok(live)
    }

    /// Draws what has come since, one turn of it, and gives it too. `false`: nothing has.
    pub(crate) fn catch_up(&mut self, mut each: impl FnMut(&[u8])) -> Result<bool> {
        let mut came = false;
        let is_behind = self.read_on(ONE_TURN, |screen, bytes| {
            came = true;
            screen.push(bytes);
            each(bytes);
        })?;
        self.behind = if is_behind { self.behind + 1 } else { 0 };
        Ok(came)
    }

    /// Whether there is more to draw at once.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind > 0
    }

    /// Whether to begin anew, at what the job writes now: so many turns behind a job that writes
    /// without end, nobody catches up.
    pub(crate) fn is_hopeless(&self, turns: u32) -> bool {
        self.behind > turns
    }

    /// Reads about `most` bytes. `true`: there may be more.
    fn read_on(&mut self, most: usize, mut each: impl FnMut(&mut Screen, &[u8])) -> Result<bool> {
        let mut left = most;
        while left > 0 {
            match self.source.next(&mut self.buffer)? {
                None => return Ok(false),
                Some(Piece::Bytes(bytes)) => {
                    each(&mut self.screen, bytes);
                    left = left.saturating_sub(bytes.len());
                }
                Some(Piece::Gap(_) | Piece::Truncated) => {}
            }
        }
        Ok(true)
    }
}

/// The terminal that a job gets unless somebody resizes it.
pub(crate) fn usual_size() -> Size {
    Size {
        rows: screen::ROWS,
        columns: screen::COLUMNS,
    }
}

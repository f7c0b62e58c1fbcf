//! Bytes of a job → what a person saw.
//!
//! Two pictures of the same stream. [`Clean`] is the transcript: lines, in order, each as it was left
//! at last, for `logs`, notices and everything else that is read as text. [`Screen`] is the terminal's
//! screen: rows, colours and a cursor as they stand now, for `logs --screen`, `attach` and `top`. Pure.

mod apply;
mod clean;
mod current;
mod grid;
mod newlines;
mod row;
mod tokens;

pub use clean::{Clean, clean_tail};
pub use current::Screen;
pub use newlines::Newlines;

/// The size of the terminal that a job gets.
pub(crate) const ROWS: u16 = 24;
pub(crate) const COLUMNS: u16 = 120;

#[cfg(test)]
mod tests {
    /// A byte that is likely to be part of a sequence, a wide letter or a movement.
    pub(super) fn noise(state: &mut u64) -> u8 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let byte = (*state >> 56) as u8;
        let common = b"\x1b\x1b\x1b[[[[;?019247HJKABCDGLMPSTX@rbhlmsu\r\n\t\x08\xc2\x9b\xe6\xbc\xa2\xcc\x81 ab";
        if byte.is_multiple_of(4) {
            (*state >> 32) as u8
        } else {
            common[byte as usize % common.len()]
        }
    }
}

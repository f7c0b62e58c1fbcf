//! What a rewritten text tells the launcher of a job, beyond the command's own words: one word that no
//! shell splits or changes, however often it is read: `HOW` or `HOW+pipe`.

use crate::job::How;

const PIPE: &[u8] = b"+pipe";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub how: How,
    /// Its output is to go to a pipe, because a `nohup` in it would turn away from a terminal.
    pub pipe: bool,
}

impl Asked {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_plain(self) -> bool {
        self.how == How::Ampersand && !self.pipe
    }

    #[must_use]
    pub fn word(self) -> Vec<u8> {
        let pipe = if self.pipe { PIPE } else { b"" };
        [self.how.word().as_bytes(), pipe].concat()
    }

    /// What the word says. One that is not understood says nothing.
    #[must_use]
    pub fn read(word: &[u8]) -> Self {
        let bare = word.strip_suffix(PIPE);
        let how = std::str::from_utf8(bare.unwrap_or(word)).ok();
        Self {
            how: how.and_then(How::from_word).unwrap_or(How::Ampersand),
            pipe: bare.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        for how in How::ALL {
            for pipe in [false, true] {
                let asked = Asked { how, pipe };
                assert_eq!(Asked::read(&asked.word()), asked);
            }
        }
        assert!(Asked::read(b"nonsense").is_plain());
    }
}

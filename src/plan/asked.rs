//! What a rewritten text tells the launcher of a job, beyond the command's own words: one word that
//! no shell splits or changes, however often it is read: `HOW[+pipe][:TEXT]`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

use crate::job::How;

const PIPE: &[u8] = b"+pipe";
/// What may stand in the word as it is, besides letters and digits.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'/');

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub how: How,
    /// Its output is to go to a pipe, because a `nohup` in it would turn away from a terminal.
    pub pipe: bool,
    /// `Some` iff its words are not what the user wrote: that.
    pub text: Option<Vec<u8>>,
}

impl Asked {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.how == How::Ampersand && !self.pipe && self.text.is_none()
    }

    #[must_use]
    pub fn word(&self) -> Vec<u8> {
        let mut word = self.how.word().as_bytes().to_vec();
        if self.pipe {
            word.extend_from_slice(PIPE);
        }
        if let Some(text) = &self.text {
            word.push(b':');
            word.extend(percent_encode(text, PLAIN).to_string().into_bytes());
        }
        word
    }

    /// What the word says. One that is not understood says nothing.
    #[must_use]
    pub fn read(word: &[u8]) -> Self {
        let mut parts = word.splitn(2, |&byte| byte == b':');
        let how = parts.next().unwrap_or_default();
        let (how, pipe) = how.strip_suffix(PIPE).map_or((how, false), |h| (h, true));
        Self {
            how: std::str::from_utf8(how)
                .ok()
                .and_then(How::from_word)
                .unwrap_or(How::Ampersand),
            pipe,
            text: parts.next().map(|text| percent_decode(text).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip_and_need_no_quoting() {
        for text in [
            None,
            Some(&b""[..]),
            Some(b"sh -c 'a & b' > \"$f\" :+pipe\n\xff~=*%20"),
        ] {
            for pipe in [false, true] {
                let asked = Asked {
                    how: How::Nohup,
                    pipe,
                    text: text.map(<[u8]>::to_vec),
                };
                let word = asked.word();
                let safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"+:%-_./".contains(byte);
                assert!(word.iter().all(safe), "{}", word.escape_ascii());
                assert_eq!(Asked::read(&word), asked);
            }
        }
        assert!(Asked::read(b"ampersand").is_plain());
        assert!(Asked::read(b"nonsense").is_plain());
    }
}

//! What a rewritten text tells the launcher of a job, beyond the command's own words: one word that no
//! shell splits or changes, however often it is read: `HOW`, then `+pipe`, `+stdin` and `+lineN` or
//! `+evalN` where they apply.

use crate::job::How;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub how: How,
    /// Its output is to go to a pipe, because a `nohup` in it would turn away from a terminal.
    pub pipe: bool,
    /// The text itself says what its stdin is, so that stays; otherwise a job has `/dev/null`.
    pub stdin: bool,
    /// Where the command stands, for the messages of a shell that cannot tell.
    pub line: Option<Line>,
}

/// A line of a text that a shell reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub number: usize,
    /// The text is the argument of `eval`.
    pub in_eval: bool,
}

impl Asked {
    #[must_use]
    pub fn plain(how: How) -> Self {
        Self {
            how,
            pipe: false,
            stdin: false,
            line: None,
        }
    }

    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_plain(self) -> bool {
        self == Self::plain(How::Ampersand)
    }

    #[must_use]
    pub fn word(self) -> Vec<u8> {
        let mut word = self.how.word().to_owned();
        if self.pipe {
            word.push_str("+pipe");
        }
        if self.stdin {
            word.push_str("+stdin");
        }
        if let Some(line) = self.line {
            let kind = if line.in_eval { "+eval" } else { "+line" };
            word.push_str(kind);
            word.push_str(&line.number.to_string());
        }
        word.into_bytes()
    }

    /// What the word says. What is not understood says nothing.
    #[must_use]
    pub fn read(word: &[u8]) -> Self {
        let mut parts = std::str::from_utf8(word).unwrap_or_default().split('+');
        let how = parts.next().and_then(How::from_word);
        let mut asked = Self::plain(how.unwrap_or(How::Ampersand));
        for part in parts {
            match part {
                "pipe" => asked.pipe = true,
                "stdin" => asked.stdin = true,
                _ => {
                    let line = |kind: &str| part.strip_prefix(kind)?.parse().ok();
                    let found = |in_eval| move |number| Line { number, in_eval };
                    asked.line = line("line")
                        .map(found(false))
                        .or_else(|| line("eval").map(found(true)))
                        .or(asked.line);
                }
            }
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        let lines = [(1, true), (7, false)].map(|(number, in_eval)| Line { number, in_eval });
        for how in How::ALL {
            for flags in 0..4 {
                for line in lines.map(Some).into_iter().chain([None]) {
                    let asked = Asked {
                        how,
                        pipe: flags & 1 == 1,
                        stdin: flags & 2 == 2,
                        line,
                    };
                    assert_eq!(Asked::read(&asked.word()), asked);
                }
            }
        }
        for nonsense in [
            "nonsense",
            "",
            "+",
            "ampersand+line+line99999999999999999999",
            "\u{fe}",
        ] {
            assert!(Asked::read(nonsense.as_bytes()).is_plain(), "{nonsense}");
        }
        assert!(Asked::read(b"\xff+pipe").is_plain());
    }
}

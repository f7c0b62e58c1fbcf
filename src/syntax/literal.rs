//! Words without expansions: their value, and where each of its bytes stands.

use super::log::Log;
use super::{Dialect, Span, small};

/// How the text at some place is quoted, and so how an insertion there has to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quote {
    Bare,
    Single,
    Double,
    Ansi,
}

/// Where an insertion before a byte goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) at: usize,
    pub(crate) quote: Quote,
}

/// Where each byte of a value stands, and its end. Bytes in a row in the same quotes are one entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Log<Run>);

#[derive(Clone, Copy, Debug)]
struct Run {
    /// The offset in the value of the first byte.
    from: u32,
    at: u32,
    quote: Quote,
}

impl Places {
    /// Takes note of where the byte at offset `from` stands, which comes behind all others.
    fn push(&mut self, from: usize, place: Place) {
        let last = self.0.len().checked_sub(1).map(|last| self.0[last]);
        let goes_on =
            last.is_some_and(|last| last.quote == place.quote && last.place(from).at == place.at);
        if !goes_on {
            self.0.push(Run {
                from: small(from),
                at: small(place.at),
                quote: place.quote,
            });
        }
    }

    /// The place of the byte at that offset, or of the end.
    pub(crate) fn get(&self, at: usize) -> Place {
        let (mut low, mut high) = (0, self.0.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.0[middle].from as usize <= at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        match low.checked_sub(1) {
            Some(run) => self.0[run].place(at),
            None => Place {
                at,
                quote: Quote::Bare,
            },
        }
    }
}

impl Run {
    fn place(self, at: usize) -> Place {
        Place {
            at: self.at as usize + at.saturating_sub(self.from as usize),
            quote: self.quote,
        }
    }
}

/// The value of a word.
#[derive(Clone, Debug)]
pub(crate) struct Literal {
    pub(crate) bytes: Vec<u8>,
    pub(crate) places: Places,
}

/// Bytes that mean themselves outside quotes in every shell, wherever in a word they stand.
pub(crate) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'_' | b'.' | b'/' | b',' | b'+' | b'@' | b'-' | b':' | b'%'
        )
}

/// The word itself if it has neither quotes nor anything that could be expanded.
pub(crate) fn plain(text: &[u8], span: Span) -> Option<&[u8]> {
    let word = span.of(text);
    (!word.is_empty() && word.iter().all(|byte| is_plain(*byte))).then_some(word)
}

/// The value of a word, or `None` if it depends on anything outside it.
pub(crate) fn decode(text: &[u8], span: Span, dialect: Dialect) -> Option<Literal> {
    let mut out = Literal {
        bytes: Vec::with_capacity(span.end() - span.start()),
        places: Places::default(),
    };
    let mut at = span.start();
    let mut last = Place {
        at,
        quote: Quote::Bare,
    };
    while at < span.end() {
        match text[at] {
            b'\'' => {
                at += 1;
                while *text.get(at).filter(|_| at < span.end())? != b'\'' {
                    out.push(text[at], at, Quote::Single);
                    at += 1;
                }
                last = Place {
                    at,
                    quote: Quote::Single,
                };
                at += 1;
            }
            b'"' => {
                at = double(text, span, at + 1, &mut out)?;
                last = Place {
                    at: at - 1,
                    quote: Quote::Double,
                };
            }
            b'$' if dialect != Dialect::Posix && text.get(at + 1) == Some(&b'\'') => {
                at = ansi(text, span, at + 2, &mut out)?;
                last = Place {
                    at: at - 1,
                    quote: Quote::Ansi,
                };
            }
            b'\\' => {
                let next = *text.get(at + 1).filter(|_| at + 1 < span.end())?;
                if next != b'\n' {
                    out.push(next, at, Quote::Bare);
                }
                at += 2;
                last = Place {
                    at,
                    quote: Quote::Bare,
                };
            }
            byte if is_plain(byte)
                || byte >= 0x80
                || (byte == b'=' && at > span.start())
                || (byte == b'#' && at > span.start() && dialect != Dialect::Zsh) =>
            {
                out.push(byte, at, Quote::Bare);
                at += 1;
                last = Place {
                    at,
                    quote: Quote::Bare,
                };
            }
            _ => return None,
        }
    }
    out.places.push(out.bytes.len(), last);
    Some(out)
}

impl Literal {
    fn push(&mut self, byte: u8, at: usize, quote: Quote) {
        self.places.push(self.bytes.len(), Place { at, quote });
        self.bytes.push(byte);
    }

    /// Adds a word behind a blank, as `eval` does. An insertion before the blank stays in the
    /// quotes of the word before.
    pub(crate) fn join(&mut self, other: Self) {
        self.bytes.push(b' ');
        let before = self.bytes.len();
        for run in other.places.0 {
            self.places
                .push(before + run.from as usize, run.place(run.from as usize));
        }
        self.bytes.extend(other.bytes);
    }
}

/// Decodes to behind the closing quote.
fn double(text: &[u8], span: Span, mut at: usize, out: &mut Literal) -> Option<usize> {
    loop {
        let byte = *text.get(at).filter(|_| at < span.end())?;
        match byte {
            b'"' => return Some(at + 1),
            b'$' | b'`' => return None,
            b'\\' => {
                let next = *text.get(at + 1)?;
                match next {
                    b'\n' => {}
                    b'$' | b'`' | b'"' | b'\\' => out.push(next, at, Quote::Double),
                    _ => {
                        out.push(byte, at, Quote::Double);
                        out.push(next, at + 1, Quote::Double);
                    }
                }
                at += 2;
            }
            _ => {
                out.push(byte, at, Quote::Double);
                at += 1;
            }
        }
    }
}

/// Decodes to behind the closing quote; the rarer escapes are left alone.
fn ansi(text: &[u8], span: Span, mut at: usize, out: &mut Literal) -> Option<usize> {
    loop {
        let byte = *text.get(at).filter(|_| at < span.end())?;
        match byte {
            b'\'' => return Some(at + 1),
            b'\\' => {
                let value = match *text.get(at + 1)? {
                    b'n' => b'\n',
                    b't' => b'\t',
                    same @ (b'\\' | b'\'' | b'"') => same,
                    _ => return None,
                };
                out.push(value, at, Quote::Ansi);
                at += 2;
            }
            _ => {
                out.push(byte, at, Quote::Ansi);
                at += 1;
            }
        }
    }
}

/// Writes `insertion` so that it means itself inside that quotation.
pub(crate) fn encode(insertion: &[u8], quote: Quote) -> Vec<u8> {
    let mut out = Vec::with_capacity(insertion.len() + 16);
    match quote {
        Quote::Bare => return single_quote(insertion),
        Quote::Single => {
            for byte in insertion {
                match byte {
                    b'\'' => out.extend(b"'\\''"),
                    _ => out.push(*byte),
                }
            }
        }
        Quote::Double => {
            for byte in insertion {
                if matches!(byte, b'"' | b'$' | b'`' | b'\\') {
                    out.push(b'\\');
                }
                out.push(*byte);
            }
        }
        Quote::Ansi => {
            for byte in insertion {
                if matches!(byte, b'\'' | b'\\') {
                    out.push(b'\\');
                }
                out.push(*byte);
            }
        }
    }
    out
}

/// The bytes as one word of a shell.
pub(crate) fn single_quote(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![b'\''];
    out.extend(encode(bytes, Quote::Single));
    out.push(b'\'');
    out
}

//! Newlines for a terminal that does not translate them.

/// Turns a job's newlines into what a terminal needs to begin a line: a job's own terminal does
/// not do that. All other bytes stay. Not so in a full-screen program that takes keys: it has set
/// up its terminal, and means down. Streaming.
#[derive(Debug, Default)]
pub struct Newlines {
    /// The sequence that is being read, as far as it may matter.
    held: Vec<u8>,
    alternate: bool,
    keypad: bool,
}

impl Newlines {
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            if byte == b'\n' && !(self.alternate && self.keypad) {
                out.push(b'\r');
            }
            out.push(byte);
            self.watch(byte);
        }
    }

    fn watch(&mut self, byte: u8) {
        match byte {
            0x1b => {
                self.held.clear();
                self.held.push(byte);
            }
            _ if self.held.is_empty() => {}
            _ => {
                self.held.push(byte);
                let csi = self.held.get(1) == Some(&b'[');
                let more = csi && (self.held.len() == 2 || !(0x40..0x7f).contains(&byte));
                if !more || self.held.len() > 32 {
                    self.apply();
                    self.held.clear();
                }
            }
        }
    }

    fn apply(&mut self) {
        match self.held.as_slice() {
            b"\x1b=" => self.keypad = true,
            b"\x1b>" => self.keypad = false,
            [0x1b, b'[', b'?', modes @ .., on @ (b'h' | b'l')] => {
                for mode in modes.split(|&byte| byte == b';') {
                    match mode {
                        b"1" => self.keypad = *on == b'h',
                        b"47" | b"1047" | b"1049" => self.alternate = *on == b'h',
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_at_the_left() {
        for (bytes, wanted) in [
            (&b"a\nb"[..], &b"a\r\nb"[..]),
            (b"a\r\nb", b"a\r\r\nb"),
            (
                b"\x1b[?1049h\x1b[?1h\x1b=a\n\x1b[?1l\x1b>\x1b[?1049l\n",
                b"\x1b[?1049h\x1b[?1h\x1b=a\n\x1b[?1l\x1b>\x1b[?1049l\r\n",
            ),
            (b"\x1b[?1049hwatch\n", b"\x1b[?1049hwatch\r\n"),
        ] {
            for size in 1..=bytes.len() {
                let (mut newlines, mut out) = (Newlines::default(), Vec::new());
                bytes
                    .chunks(size)
                    .for_each(|chunk| newlines.push(chunk, &mut out));
                assert_eq!(out, wanted, "{}", bytes.escape_ascii());
            }
        }
    }
}

//! What arrives through a supervisor's request pipe: frames of at most PIPE_BUF bytes, so that each
//! arrives whole, whoever else writes.
//!
//! Any process of the user can write there. What is no frame is skipped up to the next mark: it costs
//! its sender the request, never anybody else's.

use crate::wire::control::Ask;
use crate::wire::kill_set::{self, KillSet};
use crate::wire::register::Register;

/// The longest frame; a longer write would not be atomic (pipe(7)).
pub(super) const LONGEST: usize = 4096;
/// Begins each frame.
const MARK: [u8; 3] = [0x01, b'a', b's'];
/// Mark, kind, and the length of what follows.
pub(super) const HEAD: usize = MARK.len() + 3;

/// What is asked of a supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Register(Register),
    Ask(Ask),
    /// Not asked, but told.
    KillSet(KillSet),
}

/// A frame with this content, which must fit.
pub(super) fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().min(LONGEST - HEAD);
    let mut frame = Vec::with_capacity(HEAD + length);
    frame.extend(MARK);
    frame.push(kind);
    frame.extend((length as u16).to_le_bytes());
    frame.extend(&content[..length]);
    frame
}

impl Request {
    /// Takes the next request off the front of `bytes`, and whatever is none before it. `None`: there
    /// is no whole one.
    pub fn take(bytes: &mut Vec<u8>) -> Option<Self> {
        let mut from = 0;
        let taken = loop {
            let Some(found) = bytes[from..].windows(MARK.len()).position(|w| w == MARK) else {
                break None;
            };
            from += found;
            let Some(&[kind, low, high]) = bytes.get(from + MARK.len()..from + HEAD) else {
                break None;
            };
            let length = usize::from(u16::from_le_bytes([low, high]));
            if length > LONGEST - HEAD {
                from += MARK.len();
                continue;
            }
            let Some(content) = bytes.get(from + HEAD..from + HEAD + length) else {
                break None;
            };
            let read = match kind {
                crate::wire::register::KIND => Register::read(content).map(Self::Register),
                kill_set::KIND => KillSet::read(content).map(Self::KillSet),
                _ => Ask::read(kind, content).map(Self::Ask),
            };
            from += if read.is_some() {
                HEAD + length
            } else {
                MARK.len()
            };
            if read.is_some() {
                break read;
            }
        };
        bytes.drain(..from);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::super::control::What;
    use super::*;

    fn ask(serial: u32) -> Ask {
        Ask {
            job: "7f3k2m".parse().unwrap(),
            serial,
            answer_pid: 6,
            answer_fd: 7,
            what: What::Input(b"ls\n\0\x01as".to_vec()),
        }
    }

    #[test]
    fn nonsense_costs_nobody_else_a_request() {
        let frames = |serial| ask(serial).encode();
        let (one, two) = (frames(1), frames(2));
        let cut = |frame: &[u8], at: usize| frame[..at].to_vec();
        for (name, garbage) in [
            ("none", Vec::new()),
            ("text", b"hello\n".to_vec()),
            ("zeros", vec![0; 300]),
            ("a mark", MARK.to_vec()),
            (
                "a length that no frame has",
                vec![1, b'a', b's', b'i', 0xff, 0xff],
            ),
            ("a kind that does not exist", frame(b'?', b"x\0y")),
            ("an empty frame", frame(b'i', b"")),
            (
                "an id that is none",
                frame(b'i', b"../..\x000\x001\x001\0x"),
            ),
            ("half a frame", cut(&two, two.len() / 2)),
            ("a head", cut(&two, HEAD)),
        ] {
            let mut bytes = [garbage.clone(), one.clone(), garbage, two.clone()].concat();
            let mut found = Vec::new();
            while let Some(Request::Ask(ask)) = Request::take(&mut bytes) {
                found.push(ask.serial);
            }
            // What claims to be longer than it is can hide what follows; the last is always found.
            let hides = ["half a frame", "a head"].contains(&name);
            let wanted: &[u32] = if hides { &found[..] } else { &[1, 2] };
            assert_eq!(found, wanted, "{name}");
            assert!(bytes.len() <= 2 * LONGEST, "{name}");
        }
    }

    #[test]
    fn a_frame_in_pieces() {
        let whole = ask(9).encode();
        for at in 0..whole.len() {
            let mut bytes = whole[..at].to_vec();
            assert_eq!(Request::take(&mut bytes), None, "{at}");
            bytes.extend(&whole[at..]);
            assert_eq!(
                Request::take(&mut bytes),
                Some(Request::Ask(ask(9))),
                "{at}"
            );
            assert!(bytes.is_empty());
        }
    }
}

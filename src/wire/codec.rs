//! How messages are written: fields of text with one byte between them. The last may hold any bytes.

use std::fmt::Display;
use std::str::FromStr;

/// Between the fields of a request, none of which holds it but the last.
pub(super) const NUL: u8 = 0;
/// Between numbers and words.
pub(super) const BLANK: u8 = b' ';

/// Writes fields one after the other.
pub(super) struct Writer {
    bytes: Vec<u8>,
    between: u8,
    is_first: bool,
}

impl Writer {
    pub(super) fn new(between: u8) -> Self {
        Self {
            bytes: Vec::new(),
            between,
            is_first: true,
        }
    }

    pub(super) fn bytes(mut self, field: &[u8]) -> Self {
        if !std::mem::take(&mut self.is_first) {
            self.bytes.push(self.between);
        }
        self.bytes.extend(field);
        self
    }

    pub(super) fn field(self, field: impl Display) -> Self {
        self.bytes(field.to_string().as_bytes())
    }

    pub(super) fn done(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads them back.
pub(super) struct Reader<'a> {
    /// `None`: the last was read.
    left: Option<&'a [u8]>,
    between: u8,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], between: u8) -> Self {
        Self {
            left: Some(bytes),
            between,
        }
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let left = self.left?;
        let end = left.iter().position(|&byte| byte == self.between);
        self.left = end.map(|end| &left[end + 1..]);
        Some(&left[..end.unwrap_or(left.len())])
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub(super) fn field<T: FromStr>(&mut self) -> Option<T> {
        self.text()?.parse().ok()
    }

    /// All that is left, as one field.
    pub(super) fn rest(&mut self) -> Option<&'a [u8]> {
        self.left.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let written = Writer::new(NUL).field(-5).field("a b").bytes(b"\xff\0x");
        let written = written.done();
        assert_eq!(written, b"-5\0a b\0\xff\0x");
        let mut read = Reader::new(&written, NUL);
        assert_eq!(read.field::<i32>(), Some(-5));
        assert_eq!(read.text(), Some("a b"));
        assert_eq!(read.rest(), Some(&b"\xff\0x"[..]));
        assert_eq!(read.rest(), None);
    }

    #[test]
    fn a_missing_field_is_none_and_an_empty_one_is_empty() {
        let mut read = Reader::new(b"1\0\0x", NUL);
        assert_eq!(read.field::<u8>(), Some(1));
        assert_eq!(read.bytes(), Some(&b""[..]));
        assert_eq!(read.field::<u8>(), None);
        assert_eq!(read.bytes(), None);
        assert_eq!(Reader::new(b"\xff", BLANK).text(), None);
    }
}

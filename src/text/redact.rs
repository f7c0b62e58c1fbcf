//! Takes secrets out of a command's text before it is stored.
//!
//! It errs on the side of hiding: a hidden port number costs a reader little, a stored password
//! costs its owner much. References such as `$TOKEN` are no secrets and stay. It cannot know every
//! secret; the file it goes to is 0600 all the same.

use super::secrets::{PREFIXES, VAGUE_PREFIXES, is_secret_name};

const MARK: &str = "***";

/// The text with each secret replaced by `***`.
#[must_use]
pub fn redact(command: &str) -> String {
    let mut scan = Scan {
        text: command,
        at: 0,
        kept: 0,
        out: String::with_capacity(command.len()),
        quote: None,
        mysql: ["mysql", "mariadb"]
            .iter()
            .any(|word| command.contains(word)),
    };
    while scan.at < command.len() {
        scan.step();
    }
    scan.out.push_str(&command[scan.kept..]);
    scan.out
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    /// Everything before it is in `out` already.
    kept: usize,
    out: String,
    /// The quote that is open at `at`.
    quote: Option<u8>,
    mysql: bool,
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || byte == b'.'
}

fn is_token(byte: u8) -> bool {
    is_name(byte) || matches!(byte, b'+' | b'/' | b'=' | b'~')
}

fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || matches!(byte, b';' | b'|' | b'&' | b'<' | b'>' | b'(' | b')' | b'`')
}

impl<'a> Scan<'a> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn rest(&self, at: usize) -> &'a str {
        self.text.get(at..).unwrap_or("")
    }

    /// Replaces `from..to` and goes on behind it.
    fn hide(&mut self, from: usize, to: usize) {
        if from < to {
            self.out.push_str(&self.text[self.kept..from]);
            self.out.push_str(MARK);
            self.kept = to;
        }
        self.at = self.at.max(to);
    }

    fn step(&mut self) {
        let byte = self.text.as_bytes()[self.at];
        match byte {
            b'\\' if self.quote != Some(b'\'') => self.at += 2,
            b'\'' | b'"' => {
                match self.quote {
                    None => self.quote = Some(byte),
                    Some(open) if open == byte => self.quote = None,
                    Some(_) => {}
                }
                self.at += 1;
            }
            b':' if self.rest(self.at).starts_with("://") => self.userinfo(),
            b'-' if self.rest(self.at).starts_with("-----BEGIN") => self.private_key(),
            _ if is_name(byte) => self.word(),
            _ => self.at += 1,
        }
        // An escape may have stepped into a wide character.
        while self.at < self.text.len() && !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
    }

    /// `://user:password@host`: nothing before the `@` stays.
    fn userinfo(&mut self) {
        let from = self.at + 3;
        let rest = &self.text.as_bytes()[from..];
        let end = rest
            .iter()
            .position(|&b| ends_word(b) || matches!(b, b'/' | b'?' | b'#' | b'\'' | b'"' | b'\\'))
            .unwrap_or(rest.len());
        self.at = from;
        // A raw slash or a `#` in a password ends the host too early; an `@` further on tells.
        let word = rest
            .iter()
            .position(|&b| ends_word(b) || matches!(b, b'\'' | b'"'))
            .unwrap_or(rest.len());
        let last_at = |range: &[u8]| range.iter().rposition(|&b| b == b'@');
        let found = last_at(&rest[..end]).or_else(|| {
            let at = last_at(&rest[..word])?;
            let first = rest[..at].iter().position(|&b| b == b':')?;
            // `host:8080/path@v1` has a port where the password would be.
            let port = rest[first + 1..at].first().is_some_and(u8::is_ascii_digit);
            (first < end && !port).then_some(at)
        });
        if let Some(at) = found {
            self.hide(from, from + at);
        }
    }

    fn private_key(&mut self) {
        let rest = self.rest(self.at);
        let end = rest.find("-----END").unwrap_or(rest.len());
        if rest[..end].contains("PRIVATE KEY") {
            self.hide(self.at, self.at + end);
        } else {
            self.at += "-----BEGIN".len();
        }
    }

    /// A run of name characters: a known token, the name of a secret, or nothing.
    fn word(&mut self) {
        let from = self.at;
        let bytes = self.text.as_bytes();
        let end = (from..bytes.len())
            .find(|&at| !is_name(bytes[at]))
            .unwrap_or(bytes.len());
        let word = &self.text[from..end];
        if self.known_token(from) {
            return;
        }
        self.at = end;
        let name = word.trim_start_matches('-');
        let option = name.len() < word.len();
        if matches!(word, "-u" | "--user" | "--proxy-user" | "-U") {
            return self.user_and_password();
        }
        if self.mysql && word.len() > 2 && word.starts_with("-p") && !word.starts_with("-port") {
            return self.hide(from + 2, end);
        }
        if word == "-p" && self.text[..from].trim_end().ends_with("sshpass") {
            return self.option_value();
        }
        if matches!(word.to_ascii_lowercase().as_str(), "bearer" | "basic") {
            return self.credential();
        }
        if !is_secret_name(name) {
            return;
        }
        match self.separator(end) {
            Some((b':', value)) => self.field(value, name),
            Some((_, value)) => self.assigned(value),
            None if option => self.option_value(),
            None => {}
        }
    }

    fn known_token(&mut self, from: usize) -> bool {
        let rest = self.rest(from);
        let length = |prefix: &str| {
            let after = &rest.as_bytes()[prefix.len()..];
            after
                .iter()
                .position(|&b| !is_token(b))
                .unwrap_or(after.len())
        };
        let sure = PREFIXES
            .iter()
            .filter(|(prefix, _)| rest.starts_with(prefix))
            .find_map(|&(prefix, least)| {
                let length = length(prefix);
                (length >= least).then_some(prefix.len() + length)
            });
        let found = sure.or_else(|| {
            VAGUE_PREFIXES
                .iter()
                .filter(|(prefix, _)| rest.starts_with(prefix))
                .find_map(|&(prefix, least)| {
                    let length = length(prefix);
                    let body = &rest[prefix.len()..prefix.len() + length];
                    let random = body
                        .bytes()
                        .any(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
                    (length >= least && random).then_some(prefix.len() + length)
                })
        });
        if let Some(length) = found {
            self.hide(from, from + length);
        }
        found.is_some()
    }

    /// What separates a name from its value, and where the value begins.
    fn separator(&self, end: usize) -> Option<(u8, usize)> {
        let mut at = end;
        while matches!(self.byte(at), Some(b'\\' | b'"' | b'\'' | b']')) {
            at += 1;
        }
        while matches!(self.byte(at), Some(b' ' | b'\t')) {
            at += 1;
        }
        let spaced = at > end;
        let separator = self.byte(at).filter(|&b| b == b'=' || b == b':')?;
        at += 1;
        // `token = x` assigns in a file; `--password =` does not exist.
        if separator == b':' && matches!(self.byte(at), Some(b'=')) {
            at += 1;
        }
        if separator == b':' || spaced {
            while matches!(self.byte(at), Some(b' ' | b'\t')) {
                at += 1;
            }
        }
        Some((separator, at))
    }

    /// `NAME=value`: the rest of the shell word, with its quoted parts.
    fn assigned(&mut self, from: usize) {
        let end = self.word_end(from);
        self.hide_value(from, end);
    }

    /// `name: value` of a header, of JSON or YAML.
    fn field(&mut self, from: usize, name: &str) {
        let opening = self.byte(from).filter(|b| matches!(b, b'"' | b'\''));
        let escaped = self.rest(from).starts_with("\\\"");
        if opening.is_some() || escaped {
            if opening.is_some() && opening == self.quote {
                // The quote around the whole field closes here: there is no value.
                return;
            }
            let start = from + if escaped { 2 } else { 1 };
            let closing = if escaped {
                b'"'
            } else {
                opening.unwrap_or(b'"')
            };
            let bytes = self.text.as_bytes();
            let end = (start..bytes.len())
                .find(|&at| bytes[at] == closing && (escaped || bytes[at - 1] != b'\\'))
                .unwrap_or(bytes.len());
            let end = if escaped && end > start && bytes[end - 1] == b'\\' {
                end - 1
            } else {
                end
            };
            return self.hide_value(start, end);
        }
        // In quotes a header's value goes to the end of the line; elsewhere it is one word.
        let whole_line = self.quote.is_some()
            && ["authorization", "cookie"]
                .iter()
                .any(|h| name.to_ascii_lowercase().ends_with(h));
        if let (true, Some(quote)) = (whole_line, self.quote) {
            let rest = &self.text.as_bytes()[from..];
            let end = rest
                .iter()
                .position(|&b| b == quote || b == b'\n')
                .unwrap_or(rest.len());
            return self.hide_value(from, from + end);
        }
        let end = self.word_end(from);
        self.hide_value(from, end);
        // `Authorization: Basic abc` without quotes: the scheme is not the secret.
        let shown = &self.text[from..end];
        if ["bearer", "basic", "token", "digest"]
            .iter()
            .any(|s| shown.eq_ignore_ascii_case(s))
        {
            self.credential();
        }
    }

    /// The word after `Bearer`, if it can be a credential.
    fn credential(&mut self) {
        let mut from = self.at;
        while matches!(self.byte(from), Some(b' ' | b'\t' | b'\\')) {
            from += 1;
        }
        let rest = &self.text.as_bytes()[from..];
        let length = rest
            .iter()
            .position(|&b| !is_token(b) && b != b':')
            .unwrap_or(rest.len());
        if from > self.at && length >= 4 {
            self.hide(from, from + length);
        }
    }

    /// The word after `--password`.
    fn option_value(&mut self) {
        let mut from = self.at;
        while matches!(self.byte(from), Some(b' ' | b'\t')) {
            from += 1;
        }
        if from == self.at || self.byte(from).is_none_or(|b| b == b'-' || ends_word(b)) {
            return;
        }
        let end = self.word_end(from);
        self.hide_value(from, end);
    }

    /// `-u name:password`, but not `-u 1000:1000`.
    fn user_and_password(&mut self) {
        let mut from = self.at;
        while matches!(self.byte(from), Some(b' ' | b'\t' | b'=')) {
            from += 1;
        }
        let end = self.word_end(from);
        let value = &self.text[from..end];
        let Some(colon) = value.find(':') else { return };
        let numeric = value[colon + 1..].bytes().all(|b| b.is_ascii_digit())
            && value[..colon].bytes().all(|b| b.is_ascii_digit());
        if from > self.at && !numeric && !value[colon..].starts_with("://") {
            self.hide_value(from + colon + 1, end);
        }
    }

    /// Where the shell word ends that `from` is in: at the open quote, or after all its parts.
    fn word_end(&self, from: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut at = from;
        let mut open = None;
        while let Some(&byte) = bytes.get(at) {
            match (self.quote, open) {
                (Some(outer), None) if byte == outer => break,
                (_, None) if byte == b'\\' && self.quote != Some(b'\'') => at += 1,
                (None, None) if byte == b'\'' || byte == b'"' => open = Some(byte),
                (Some(_), None)
                    if ends_word(byte) || matches!(byte, b',' | b'}' | b'\'' | b'"') =>
                {
                    break;
                }
                (None, None) if ends_word(byte) => break,
                (_, Some(b'"')) if byte == b'\\' => at += 1,
                (_, Some(quote)) if byte == quote => open = None,
                _ => {}
            }
            at += 1;
        }
        let mut end = at.min(bytes.len());
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        end
    }

    /// Hides a value unless it is empty or a reference such as `$TOKEN`; quotes around it stay.
    fn hide_value(&mut self, from: usize, end: usize) {
        let value = &self.text[from..end];
        let inner = value.trim_start_matches('"').trim_end_matches('"');
        let literal = self.quote == Some(b'\'') || value.starts_with('\'');
        let reference = inner.strip_prefix('$').is_some_and(|rest| {
            rest.starts_with(['{', '('])
                || rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
        if value.trim_matches(['"', '\'']).is_empty() || (reference && !literal) {
            self.at = self.at.max(from);
            return;
        }
        self.hide(from, end);
    }
}

#[cfg(test)]
mod tests;

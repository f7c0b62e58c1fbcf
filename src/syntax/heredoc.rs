//! Bodies of here-documents.

use super::redirect::unquote;
use super::state::{Pending, Scanner};
use super::words::Quoting;
use super::{Parse, ScopeKind};

impl Scanner<'_> {
    /// Reads the bodies that begin at the cursor, which stands after a line end.
    pub(super) fn read_heredocs(&mut self) -> Parse<()> {
        let mut chain = Vec::new();
        while let Some(last) = self.at.pending {
            let heredoc = self.found.heredocs[last as usize];
            chain.push(last);
            self.at.pending = heredoc.before;
        }
        for heredoc in chain.into_iter().rev() {
            self.read_heredoc(self.found.heredocs[heredoc as usize])?;
        }
        Ok(())
    }

    fn read_heredoc(&mut self, heredoc: Pending) -> Parse<()> {
        // An odd delimiter was refused where it stands.
        let (delimiter, quoted) = unquote(heredoc.delimiter.of(self.text)).unwrap_or_default();
        let start = self.at.pos;
        let mut body_end = self.at.end;
        let mut after = self.at.end;
        let mut line = start;
        let mut continued = false;
        while line < self.at.end {
            let length = self.reach(line, |byte| byte == b'\n');
            let rest = self.rest(line);
            let length = length.unwrap_or(rest.len());
            let mut content = &rest[..length];
            if heredoc.strip_tabs {
                let tabs = content.iter().take_while(|b| **b == b'\t').count();
                content = &content[tabs..];
            }
            let next = (line + length + 1).min(self.at.end);
            if !continued && content == delimiter {
                body_end = line;
                after = next;
                break;
            }
            // A backslash before the line end joins the lines before the delimiter is looked for.
            let slashes = content.iter().rev().take_while(|b| **b == b'\\').count();
            continued = !quoted && slashes % 2 == 1;
            line = next;
        }
        if !quoted {
            self.scan_body(start, body_end)?;
        }
        self.at.pos = after;
        Ok(())
    }

    /// Looks for expansions in an unquoted body.
    fn scan_body(&mut self, start: usize, body_end: usize) -> Parse<()> {
        let is_special = |byte: &u8| matches!(byte, b'$' | b'`');
        if !self.text[start..body_end].iter().any(is_special) {
            return Ok(());
        }
        let outer = self.at;
        self.at.scope = self.push_scope(ScopeKind::Captured);
        self.at.end = body_end;
        self.at.pos = start;
        while let Some(byte) = self.raw(self.at.pos) {
            match byte {
                b'\\' => self.step(2),
                b'$' => self.dollar(Quoting::Heredoc)?,
                b'`' => self.backquote(false)?,
                _ => self.step(1),
            }
        }
        let ambiguous = self.at.ambiguous;
        self.at = outer;
        self.at.ambiguous = ambiguous;
        Ok(())
    }
}

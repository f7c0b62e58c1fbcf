//! Bodies of here-documents.

use super::{Parse, Pending, Scanner, ScopeKind};

impl Scanner<'_> {
    /// Reads the bodies that begin at the cursor, which stands after a line end.
    pub(super) fn read_heredocs(&mut self) -> Parse<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        for heredoc in std::mem::take(&mut self.pending) {
            self.read_heredoc(&heredoc)?;
        }
        Ok(())
    }

    fn read_heredoc(&mut self, heredoc: &Pending) -> Parse<()> {
        let start = self.pos;
        let mut body_end = self.end;
        let mut after = self.end;
        let mut line = start;
        let mut continued = false;
        while line < self.end {
            let rest = &self.text[line..self.end];
            let length = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
            let mut content = &rest[..length];
            if heredoc.strip_tabs {
                let tabs = content.iter().take_while(|b| **b == b'\t').count();
                content = &content[tabs..];
            }
            let next = (line + length + 1).min(self.end);
            if !continued && content == heredoc.delimiter {
                body_end = line;
                after = next;
                break;
            }
            // A backslash before the line end joins the lines before the delimiter is looked for.
            let slashes = content.iter().rev().take_while(|b| **b == b'\\').count();
            continued = !heredoc.quoted && slashes % 2 == 1;
            line = next;
        }
        if !heredoc.quoted {
            self.scan_body(start, body_end)?;
        }
        self.pos = after;
        Ok(())
    }

    /// Looks for expansions in an unquoted body.
    fn scan_body(&mut self, start: usize, body_end: usize) -> Parse<()> {
        let whole = std::mem::replace(&mut self.end, body_end);
        let captured = self.push_scope(ScopeKind::Captured);
        let scope = std::mem::replace(&mut self.scope, captured);
        let last_end = self.last_end;
        self.pos = start;
        while let Some(byte) = self.raw(self.pos) {
            match byte {
                b'\\' => self.step(2),
                b'$' => self.dollar(super::words::Quoting::Heredoc)?,
                b'`' => self.backquote(false)?,
                _ => self.step(1),
            }
        }
        self.end = whole;
        self.scope = scope;
        self.last_end = last_end;
        Ok(())
    }
}

//! As much of YAML as the examples use: mappings, lists, plain and quoted scalars, `[a, b]`, and `|` blocks.

use std::iter::Peekable;
use std::str::Lines;

use serde_json::{Map, Value};

/// Reads a document; fails the test on what it does not know.
pub(super) fn read(text: &str) -> Value {
    let mut lines = Reader {
        lines: text.lines().peekable(),
        pending: None,
    };
    let value = lines.node(0);
    assert!(lines.peek().is_none(), "not read: {:?}", lines.peek());
    value
}

struct Reader<'a> {
    lines: Peekable<Lines<'a>>,
    /// What stands behind the `-` of a list's item, as a line of its own.
    pending: Option<(usize, String)>,
}

impl Reader<'_> {
    /// The next line that says something: its indentation and its text.
    fn peek(&mut self) -> Option<(usize, String)> {
        if let Some(pending) = &self.pending {
            return Some(pending.clone());
        }
        loop {
            let line = self.lines.peek()?;
            let text = line.trim();
            if text.is_empty() || text.starts_with('#') {
                self.lines.next();
            } else {
                return Some((line.len() - line.trim_start().len(), text.to_owned()));
            }
        }
    }

    fn next(&mut self) {
        if self.pending.take().is_none() {
            self.lines.next();
        }
    }

    fn node(&mut self, least: usize) -> Value {
        match self.peek() {
            Some((indent, _)) if indent < least => Value::Null,
            Some((indent, text)) if text.starts_with("- ") => self.list(indent),
            Some((indent, _)) => self.mapping(indent),
            None => Value::Null,
        }
    }

    fn list(&mut self, indent: usize) -> Value {
        let mut items = Vec::new();
        while let Some((at, text)) = self.peek().filter(|(at, _)| *at == indent) {
            let Some(rest) = text.strip_prefix("- ") else {
                break;
            };
            self.next();
            if key_of(rest).is_some() {
                self.pending = Some((at + 2, rest.to_owned()));
                items.push(self.mapping(at + 2));
            } else {
                items.push(scalar(rest));
            }
        }
        Value::Array(items)
    }

    fn mapping(&mut self, indent: usize) -> Value {
        let mut map = Map::new();
        while let Some((_, text)) = self.peek().filter(|(at, _)| *at == indent) {
            let Some((key, rest)) = key_of(&text) else {
                break;
            };
            self.next();
            let value = match rest {
                "" => self.node(indent + 1),
                "|" => self.block(indent),
                text => scalar(text),
            };
            map.insert(key.to_owned(), value);
        }
        Value::Object(map)
    }

    /// The lines that are further in, without their common indentation.
    fn block(&mut self, above: usize) -> Value {
        let mut lines: Vec<&str> = Vec::new();
        while let Some(line) = self.lines.peek() {
            let indent = line.len() - line.trim_start().len();
            if !line.trim().is_empty() && indent <= above {
                break;
            }
            lines.push(line);
            self.lines.next();
        }
        let filled = lines.iter().filter(|line| !line.trim().is_empty());
        let common = filled.map(|line| line.len() - line.trim_start().len());
        let common = common.min().unwrap_or(0);
        let text = lines.iter().map(|line| line.get(common..).unwrap_or(""));
        Value::String(text.map(|line| format!("{line}\n")).collect())
    }
}

/// `key: rest` or `key:`.
fn key_of(text: &str) -> Option<(&str, &str)> {
    let (key, rest) = text.split_once(':')?;
    let plain = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
    let is_key = !key.is_empty() && key.chars().all(plain);
    (is_key && (rest.is_empty() || rest.starts_with(' '))).then_some((key, rest.trim()))
}

fn scalar(text: &str) -> Value {
    let list = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Some(list) = list {
        return list.split(',').map(|item| scalar(item.trim())).collect();
    }
    let quoted = ['\'', '"'].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?;
        inner.strip_suffix(quote)
    });
    Value::String(quoted.unwrap_or(text).to_owned())
}

#[test]
fn documents() {
    let text = "# c\na: 1\nb:\n  - x: y z\n    run: |\n      one\n\n        two\n  - 'q'\n  - go \"now\"\nc: [d, e]\n";
    let wanted = serde_json::json!({
        "a": "1", "b": [{"x": "y z", "run": "one\n\n  two\n"}, "q", "go \"now\""], "c": ["d", "e"],
    });
    assert_eq!(read(text), wanted);
}

//! Joins a shell file to one line. Only the build script and the tests have this file.
//!
//! The files are written for people; the rules here are all that a file may rely on:
//!
//! * A line that begins with `#` is a comment, and so is dropped; empty lines and indentation are, too.
//! * A line ends a command, so `; ` follows it, unless its last word says that the command goes on
//!   (`then`, `in`, `&&` …) or it is the pattern of a `case`: then one blank follows.
//! * What stands between `# BEGIN eval` and `# END eval` becomes one quoted argument of `eval`.
//!
//! A line whose meaning would change when it is joined is an error, with its number.

/// The last words behind which a command goes on, or is already ended.
const OPEN: [&str; 10] = ["in", "then", "else", "do", "{", "(", "!", "&&", "||", "|"];

/// The text on one line, ready to stand in front of another command.
pub(crate) fn join(text: &str) -> Result<String, String> {
    let mut joined = String::new();
    let mut evaluated = false;
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        match line {
            "# BEGIN eval" if !evaluated => {
                joined.push_str("\\builtin eval '");
                evaluated = true;
            }
            "# END eval" if evaluated => {
                joined.push_str("'; ");
                evaluated = false;
            }
            "# BEGIN eval" | "# END eval" => {
                return Err(format!("line {number}: BEGIN and END do not match"));
            }
            _ if line.is_empty() || line.starts_with('#') => {}
            _ => {
                check(line).map_err(|wrong| format!("line {number}: {wrong}: {line}"))?;
                let line = format!("{line}{}", separator(line));
                joined.push_str(&if evaluated {
                    line.replace('\'', "'\\''")
                } else {
                    line
                });
            }
        }
    }
    if evaluated {
        return Err("BEGIN eval has no END eval".to_owned());
    }
    Ok(joined)
}

fn separator(line: &str) -> &'static str {
    let last = line.rsplit([' ', '\t']).next().unwrap_or_default();
    let is_pattern = line.ends_with(')') && !line.contains('(');
    if OPEN.contains(&last) || line.ends_with([';', '&']) || is_pattern {
        " "
    } else {
        "; "
    }
}

const CONTINUED: &str = "a line cannot be continued with a backslash";
const OPEN_QUOTE: &str = "a quote must end on its line";

/// Whether the line means the same with another one behind it.
fn check(line: &str) -> Result<(), &'static str> {
    if line.starts_with(';') {
        return Err("`;` and `;;` stand at the end of the line that they end");
    }
    // How deep in `"…"` and, within those, in `$(…)` it stands; the outermost level is neither.
    let mut levels = vec![Level::Command];
    let mut before = ' ';
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        let level = levels.last().copied().unwrap_or(Level::Command);
        match (level, c) {
            (_, '\\') => rest.next().map(drop).ok_or(CONTINUED)?,
            (Level::Command, '\'') => rest.find(|&c| c == '\'').map(drop).ok_or(OPEN_QUOTE)?,
            (Level::Command, '"') => levels.push(Level::Quoted),
            (Level::Quoted, '"') => {
                levels.pop();
            }
            (Level::Quoted, '(') if before == '$' => levels.push(Level::Command),
            (Level::Command, '(') if levels.len() > 1 => levels.push(Level::Command),
            (Level::Command, ')') if levels.len() > 1 => {
                levels.pop();
            }
            (Level::Command, '#') if " \t;&|(".contains(before) => {
                return Err("a comment must have a line of its own");
            }
            (Level::Command, '<') if before == '<' => {
                return Err("a here-document cannot be joined");
            }
            _ => {}
        }
        before = c;
    }
    if levels.len() > 1 {
        return Err(OPEN_QUOTE);
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Level {
    Command,
    Quoted,
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn lines_become_one() {
        let table = [
            ("", ""),
            ("a\nb\n", "a; b; "),
            ("# why\n\n    a\n", "a; "),
            ("f() {\n    # why\n    a\n}", "f() { a; }; "),
            (
                "if a; then\n  b\nelse\n  c\nfi",
                "if a; then b; else c; fi; ",
            ),
            (
                "case $# in\n  a|b)\n    c;;\n  *) ;;\nesac",
                "case $# in a|b) c;; *) ;; esac; ",
            ),
            ("a &&\n  b ||\nc |\nd &\ne", "a && b || c | d & e; "),
            ("x=$(a)\n(b)", "x=$(a); (b); "),
            (
                "a 'it # is' \"# $(b \"c)\" '(')\" ${d##*: } \\# $#",
                "a 'it # is' \"# $(b \"c)\" '(')\" ${d##*: } \\# $#; ",
            ),
            (
                "a\n# BEGIN eval\nb 'c'\n# END eval\nd",
                "a; \\builtin eval 'b '\\''c'\\''; '; d; ",
            ),
        ];
        for (text, joined) in table {
            assert_eq!(join(text).as_deref(), Ok(joined), "{text}");
        }
    }

    #[test]
    fn a_line_that_would_change_is_an_error() {
        for (text, wrong) in [
            ("a\nb # why", "line 2: a comment"),
            ("a;# why", "line 1: a comment"),
            ("a 'b\n# why\n'", "line 1: a quote"),
            ("a \"b\n# why\n\"", "line 1: a quote"),
            ("a \"$(b\n)\"", "line 1: a quote"),
            ("a \\\nb", "line 1: a line cannot"),
            ("cat <<E\nE", "line 1: a here-document"),
            ("case a in\nb) c\n;;\nesac", "line 3: `;`"),
            ("# END eval", "line 1: BEGIN"),
            ("# BEGIN eval\n# BEGIN eval", "line 2: BEGIN"),
            ("# BEGIN eval", "BEGIN eval has no END"),
        ] {
            let found = join(text).expect_err(text);
            assert!(found.starts_with(wrong), "{text}: {found}");
        }
    }
}

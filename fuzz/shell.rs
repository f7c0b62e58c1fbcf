//! Shell text: grammatical, nearly so, and not at all.

use crate::random::Random;

pub(crate) const TOKENS: &[&str] = &[
    "((",
    "))",
    "$((",
    "$(",
    "(",
    ")",
    "{",
    "}",
    "{ ",
    " }",
    "${ ",
    "${",
    "${x:-",
    "`",
    "\\`",
    "'",
    "\"",
    "\\",
    "\\\n",
    "\n",
    ";",
    ";;",
    ";&",
    ";;&",
    "&",
    " & ",
    "&&",
    "||",
    "|",
    "|&",
    "&!",
    "&|",
    "&>",
    "&>>",
    ">",
    "<",
    ">>",
    "<<",
    "<<-",
    "<<<",
    "<<E",
    "<<'E'",
    "\nE\n",
    "E",
    ">&",
    "2>&1",
    "{fd}>",
    "<(",
    ">(",
    "=(",
    "[[",
    "]]",
    "[",
    "]",
    "=~",
    "!",
    "time",
    "coproc",
    "if",
    "then",
    "elif",
    "else",
    "fi",
    "for",
    "in",
    "do",
    "done",
    "while",
    "until",
    "case",
    "esac",
    "select",
    "function",
    "repeat",
    "foreach",
    "end",
    "always",
    "f()",
    "()",
    "f",
    "x=",
    "x=(",
    "a[",
    "]=",
    "+=",
    "$",
    "$'",
    "$\"",
    "$#",
    "$!",
    "$?",
    "#",
    " # ",
    "*(",
    "@(",
    "!(",
    "eval",
    "eval 'a &'",
    "bash -c",
    "sh -c \"a &\"",
    "zsh -c '",
    "wait",
    "fg",
    "disown",
    "disown -a",
    "disown -h %1",
    "nohup",
    "setsid",
    "env A=1",
    "timeout 5",
    "exec",
    "command",
    "export -f f",
    "agent_sh",
    "a",
    " ",
    "\t",
    " a ",
    "\u{e9}",
    "\u{0}",
    "12",
    "-",
    "--",
    "%",
    "~",
    ",",
    "/",
    "=",
];

struct Writer<'a> {
    random: &'a mut Random,
    out: String,
    depth: usize,
    /// Delimiters whose bodies are still to be written.
    heredocs: usize,
}

/// A text of the grammar, with some freedom.
pub(crate) fn grammatical(random: &mut Random) -> Vec<u8> {
    let mut writer = Writer {
        random,
        out: String::new(),
        depth: 0,
        heredocs: 0,
    };
    writer.list();
    writer.line_end();
    writer.out.into_bytes()
}

/// Tokens in any order.
pub(crate) fn soup(random: &mut Random) -> Vec<u8> {
    let mut out = String::new();
    for _ in 0..=random.below(24) {
        out.push_str(random.pick(TOKENS));
        if random.one_in(3) {
            out.push(' ');
        }
    }
    out.into_bytes()
}

/// Puts a text into a construct around it.
pub(crate) fn wrapped(random: &mut Random, text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text).into_owned();
    let quoted = |quote: &str| text.replace('\'', quote);
    match random.below(9) {
        0 => format!("eval '{}'", quoted("'\\''")),
        1 => format!("bash -c '{}' &", quoted("'\\''")),
        2 => {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
            format!(
                "sh -c \"{}\"",
                escaped.replace('$', "\\$").replace('`', "\\`")
            )
        }
        3 => format!("x=`{}`", text.replace('\\', "\\\\").replace('`', "\\`")),
        4 => format!("x=$({text})"),
        5 => format!("(({text}) & b)"),
        6 => format!("{{ {text}\n}} & wait"),
        7 => format!("cat <<E &\n$({text})\nE\n"),
        _ => format!("f() {{ {text}\n}}; f &"),
    }
    .into_bytes()
}

impl Writer<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn line_end(&mut self) {
        self.put("\n");
        for _ in 0..std::mem::take(&mut self.heredocs) {
            let bodies = [
                "E\n",
                "x & y\nE\n",
                "$(a &)\nE\n",
                "`b`\\\nE\nE\n",
                "\tE\nE\n",
            ];
            let body = self.random.pick(&bodies);
            self.put(body);
        }
    }

    fn list(&mut self) {
        self.depth += 1;
        for _ in 0..=self.random.below(3) {
            self.and_or();
            match self.random.below(9) {
                0..3 => self.put(" & "),
                3..5 => self.put("; "),
                5 => self.put(" &!"),
                6 => self.put("\\\n;"),
                _ => self.line_end(),
            }
        }
        self.depth -= 1;
    }

    fn and_or(&mut self) {
        if self.random.one_in(12) {
            let prefix = self.random.pick(&["! ", "time ", "time -p ", "coproc "]);
            self.put(prefix);
        }
        self.command();
        while self.random.one_in(4) {
            let operator = self
                .random
                .pick(&[" && ", " || ", " | ", " |& ", "|", "&&\n"]);
            self.put(operator);
            self.command();
        }
    }

    fn command(&mut self) {
        if self.depth > 4 || self.random.below(3) > 0 {
            return self.simple();
        }
        match self.random.below(13) {
            0 => self.around("(", ")"),
            1 => self.around("{ ", "}"),
            2 => self.around("if a; then ", "fi"),
            3 => self.around("while a & do ", "done"),
            4 => self.around("for x in 1 2; do ", "done"),
            5 => self.around("case $x in a|b) ", ";; esac"),
            6 => self.around("f() { ", "}"),
            7 => self.around("function g { ", "}"),
            8 => self.put("((x & 1))"),
            9 => self.put("[[ a && b =~ (c|d) ]]"),
            10 => self.around("repeat 2 { ", "}"),
            11 => self.around("((a) ; (", "))"),
            _ => self.around("for ((i=0;i<2;i++)) { ", "}"),
        }
        if self.random.one_in(4) {
            self.redirection();
        }
    }

    fn around(&mut self, before: &str, after: &str) {
        self.put(before);
        self.list();
        self.put(after);
    }

    fn simple(&mut self) {
        if self.random.one_in(6) {
            let assignment = self.random.pick(&["A=1 ", "x=(1 2) ", "a[1]=b ", "p+=q "]);
            self.put(assignment);
        }
        let names = [
            "a",
            "sleep 1",
            "nohup b",
            "setsid c",
            "wait",
            "disown",
            "disown %1",
            "disown -ah",
            "fg",
            "f",
            "g",
            "eval",
            "env A=1 nohup d",
            "exec e",
            "export -f f",
            "$x",
            "'q'",
            "\\r",
            "timeout 5 nohup s",
            "agent_sh",
            "sh -c 'a &'",
            "bash -c \"b & c\"",
            "eval 'd &' e",
            "%1",
            ". file",
            "echo",
            "command -v x",
        ];
        let name = self.random.pick(&names);
        self.put(name);
        while self.random.one_in(2) {
            self.put(" ");
            self.word();
            if self.random.one_in(6) {
                self.redirection();
            }
        }
    }

    fn redirection(&mut self) {
        let all = [
            " >f", " 2>&1", " &>g", " <h", " <<<i", " {fd}>&-", ">&2", " <<E", " <<-'E'", " >|j",
        ];
        let redirection = self.random.pick(&all);
        self.heredocs += usize::from(redirection.contains("<<") && !redirection.contains("<<<"));
        self.put(redirection);
    }

    fn word(&mut self) {
        let deep = self.depth > 4;
        match self.random.below(if deep { 6 } else { 13 }) {
            0..3 => {
                let plain = self
                    .random
                    .pick(&["b", "--c=d", "1", "%2", "x&", "-f", "-", "é"]);
                self.put(plain);
            }
            3 => self.put("'s & t'"),
            4 => self.put("\"u & $v\""),
            5 => self.put("${w:-x & y}"),
            6 => self.around("$(", ")"),
            7 => self.around("\"$(", ")\""),
            8 => self.put("`z & `"),
            9 => self.around("<(", ")"),
            10 => self.around("${ ", "}"),
            11 => self.put("$((1 & 2))"),
            _ => self.around("$((a) & (", "))"),
        }
    }
}

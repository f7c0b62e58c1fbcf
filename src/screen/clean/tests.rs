use std::fmt::Write;

use super::super::grid::LONGEST_LINE;
use super::*;

fn clean(chunks: &[&[u8]]) -> Vec<String> {
    with(Clean::default(), chunks)
}

fn with(mut clean: Clean, chunks: &[&[u8]]) -> Vec<String> {
    let mut lines = Vec::new();
    for chunk in chunks {
        clean.push(chunk, |line| lines.push(line.to_owned()));
    }
    clean.finish(|line| lines.push(line.to_owned()));
    lines
}

const CASES: &[(&str, &[&str])] = &[
    ("", &[]),
    ("a\nb\n", &["a", "b"]),
    ("a\r\nb\r\n", &["a", "b"]),
    ("no newline", &["no newline"]),
    ("\n\n", &["", ""]),
    ("a\n\n\nb", &["a", "", "", "b"]),
    (
        "blanks  \n at both ends \n",
        &["blanks  ", " at both ends "],
    ),
    ("10%\r50%\r100%\n", &["100%"]),
    ("abcdef\rxy\n", &["xycdef"]),
    ("a long one\rshort     \n", &["short"]),
    ("Downloading 90%\r\x1b[Kdone\n", &["done"]),
    ("\x1b[2K\x1b[1Gstep 1\x1b[2K\x1b[1Gstep 2\n", &["step 2"]),
    ("\x1b[1;32mok\x1b[0m\n", &["ok"]),
    ("ab\x08c\n", &["ac"]),
    ("a\x1b[3Cb\n", &["a   b"]),
    ("\x1b]0;title\x07text\n", &["text"]),
    ("\x1b]52;c;aGk=\x1b\\text\n", &["text"]),
    ("\x1bPq#0\x1b\\text\n", &["text"]),
    ("\x1b(Btext\n", &["text"]),
    ("\x1b[38;5;12mé\x1b[m漢\n", &["é漢"]),
    ("tab\there\t\n", &["tab\there\t"]),
    ("\tMakefile\n", &["\tMakefile"]),
    ("hello world\r\tX\n", &["hello woXld"]),
    ("bell\x07\x00\n", &["bell"]),
    ("open \x1b]0;never ends\nnext\n", &["open ", "next"]),
    ("cut \x1b[12", &["cut "]),
    ("cut \x1b[31\nthe next\n", &["cut ", "the next"]),
    ("spinner |\x08/\x08-\x08\\\r\x1b[0Kend\n", &["end"]),
    // Combining marks and wide letters stay what they are, also when half of one is overwritten.
    ("e\u{301}x 👩\u{200d}💻\n", &["e\u{301}x 👩\u{200d}💻"]),
    ("\u{301}first\n", &["\u{301}first"]),
    ("漢\u{301}字\rab\n", &["ab字"]),
    ("漢字\rX\n", &["X 字"]),
    ("漢字\x1b[2GX\n", &[" X字"]),
    // Rows drawn again, as by docker and npm.
    ("a: 1\nb: 1\n\x1b[2Aa: 2\nb: 2\n", &["a: 2", "b: 2"]),
    ("x\ny\n\x1b[2A\x1b[Jdone\n", &["done"]),
    ("x\ny\x1b[1A\x1b[2K\r\x1b[1B\x1b[2K\rz", &["z"]),
    ("\x1b[sfirst\x1b[ulast!\n", &["last!"]),
    ("one\ntwo\n\x1b[H\x1b[2Jnew\n", &["new"]),
    ("one\ntwo\n\x1b[2J\x1b[Hnew\n", &["new"]),
    ("one\n\x1bcnew\n", &["new"]),
    // Full-screen programs leave nothing.
    (
        "before\n\x1b[?1049h\x1b[Hvim\n~\n~\x1b[?1049lafter\n",
        &["before", "after"],
    ),
    ("a\n\x1b[?1049hnever left", &["a"]),
    // A progress bar below what scrolls, as apt draws it.
    (
        "\x1b7\x1b[1;23r\x1b8a\nb\n\x1b7\x1b[24;1Hbar\x1b8c\n\x1b7\x1b[r\x1b8\x1b[J",
        &["a", "b", "c"],
    ),
];

#[test]
fn lines_as_a_person_saw_them() {
    for (input, wanted) in CASES {
        for size in [1, 2, 3, 7, 4096] {
            let chunks: Vec<&[u8]> = input.as_bytes().chunks(size).collect();
            assert_eq!(clean(&chunks), *wanted, "{input:?} in pieces of {size}");
        }
    }
}

/// Text that nothing was drawn over comes out byte for byte, however wide.
#[test]
fn plain_text_is_not_changed() {
    let mut lines: Vec<String> = (0..300)
        .map(|n| format!("{n} {}", "wörd\t漢 e\u{301} ".repeat(n % 61)))
        .collect();
    lines.push("x".repeat(5000));
    lines.push("漢".repeat(500));
    lines.push(format!("{}\t{}", "y".repeat(119), "z".repeat(200)));
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    for size in [1, 13, 120, 65536] {
        let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        assert!(clean(&chunks) == lines, "in pieces of {size}");
        assert!(
            with(Clean::of_file(), &chunks) == lines,
            "in pieces of {size}"
        );
    }
}

/// A program that does not know the width rewrites a line that takes two rows.
#[test]
fn a_wide_progress_line_is_one_line() {
    let mut text = String::new();
    for percent in 0..=100 {
        let _ = write!(text, "\r{percent:3}% {}", "=".repeat(150));
    }
    text.push_str("\nend\n");
    assert_eq!(
        clean(&[text.as_bytes()]),
        [format!("100% {}", "=".repeat(150)), "end".into()]
    );
}

#[test]
fn blanks_that_fill_a_row_are_not_text() {
    let text = format!("{:<120}\nb  \n{:<120}c\n", "a", "d");
    assert_eq!(
        clean(&[text.as_bytes()]),
        ["a", "b  ", &format!("{:<120}c", "d")]
    );
}

#[test]
fn a_bar_as_wide_as_the_terminal() {
    let bar = |n: usize| format!("\r{}", "#".repeat(n));
    let text: String = (1..=120).map(bar).collect::<String>() + "\nend\n";
    assert_eq!(clean(&[text.as_bytes()]), ["#".repeat(120), "end".into()]);
}

/// Moves count rows, so a wrapped line is two of them.
#[test]
fn up_over_a_wrapped_line() {
    let long = "x".repeat(150);
    let text = format!("{long}\n\x1b[2A\x1b[Jshort\n");
    assert_eq!(clean(&[text.as_bytes()]), ["short"]);
}

#[test]
fn a_stream_without_newlines_is_given_out_in_parts() {
    let flood = vec![b'x'; LONGEST_LINE * 2 + 1];
    let lines = clean(&[&flood]);
    assert_eq!(lines.iter().map(String::len).sum::<usize>(), flood.len());
    assert!(
        lines
            .iter()
            .all(|line| line.len() <= LONGEST_LINE + 24 * 120)
    );
}

#[test]
fn no_control_survives_any_bytes() {
    let mut state = 3u64;
    let every: Vec<u8> = (0..=255).chain(0..=255).collect();
    let mut inputs = vec![every];
    inputs.extend((0..500).map(|_| {
        let noise = || crate::screen::tests::noise(&mut state);
        std::iter::repeat_with(noise).take(600).collect::<Vec<u8>>()
    }));
    for (number, input) in inputs.iter().enumerate() {
        let size = Clean::new(1 + number as u16 % 5, 1 + number as u16 % 9);
        let mut lines = with(size, &[input]);
        let mut seen = Clean::new(3, 10);
        seen.push_seen(input, |line| lines.push(line.to_owned()));
        seen.settle(true, |line| lines.push(line.to_owned()));
        lines.push(seen.current());
        lines.extend(seen.latest());
        for line in lines {
            let bad = |c: char| c.is_control() && c != '\t';
            assert!(!line.contains(bad), "{line:?}");
        }
    }
}

#[test]
fn a_follower_is_told_at_once_and_again_at_rest() {
    let mut clean = Clean::default();
    let mut lines = Vec::new();
    let mut told = |clean: &mut Clean, bytes: &[u8], at_rest: bool| {
        lines.clear();
        clean.push(bytes, |line| lines.push(line.to_owned()));
        clean.settle(at_rest, |line| lines.push(line.to_owned()));
        lines.join("|")
    };
    assert_eq!(told(&mut clean, b"one\ntwo\nthr", false), "one|two");
    assert_eq!(told(&mut clean, b"ee\n", false), "three");
    assert_eq!(told(&mut clean, b"\x1b[2A\rTWO\n", false), "");
    assert_eq!(told(&mut clean, b"", true), "TWO");
    assert_eq!(told(&mut clean, b"\n", false), "");
    let many = "line\n".repeat(40);
    assert_eq!(
        told(&mut clean, many.as_bytes(), false)
            .matches("line")
            .count(),
        40
    );
    lines.clear();
    clean.finish(|line| lines.push(line.to_owned()));
    assert_eq!(lines, [] as [&str; 0]);
}

#[test]
fn what_flashed_by_was_seen() {
    let mut clean = Clean::default();
    let mut seen = Vec::new();
    clean.push_seen(b"50%\r\x1b[2Kready", |line| seen.push(line.to_owned()));
    clean.push_seen(b"\r\x1b[2K\nPassword: ", |line| seen.push(line.to_owned()));
    for wanted in ["50%", "ready", "Password: "] {
        assert!(
            seen.iter().any(|line| line == wanted),
            "{wanted} in {seen:?}"
        );
    }
    assert_eq!(clean.current(), "Password: ");
    assert_eq!(clean.latest().as_deref(), Some("Password: "));
}

#[test]
fn the_end_of_an_output() {
    for (bytes, most, wanted) in [
        (&b"a\nb\nc\n"[..], 100, "a\nb\nc\n"),
        (b"a\nbb\nc", 5, "bb\nc\n"),
        (b"aaaa\nbb\nc", 6, "bb\nc\n"),
        (b"0123456789", 4, "789\n"),
        (b"1%\r2%\r3%", 100, "3%\n"),
        (b"", 100, ""),
    ] {
        assert_eq!(
            clean_tail(bytes, most),
            wanted,
            "{:?}",
            bytes.escape_ascii()
        );
    }
    let long = "line\n".repeat(100_000);
    assert_eq!(clean_tail(long.as_bytes(), 2048).len(), 2045);
}

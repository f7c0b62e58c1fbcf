//! The supervisor's own rules: what decides there does no I/O, and everything fits on a page.

use super::{Source, sources};

/// They name signals by their numbers, and nothing else of the system.
const PURE: [&str; 3] = [
    "supervisor/state.rs",
    "supervisor/processes.rs",
    "supervisor/timers.rs",
];
const LONGEST_FILE: usize = 400;
const LONGEST_FUNCTION: usize = 60;

fn room() -> Vec<Source> {
    let mut room = sources();
    room.retain(|source| source.room == "supervisor");
    room
}

#[test]
fn decisions_do_no_io() {
    let room = room();
    for name in PURE {
        let source = room.iter().find(|source| source.name == name).unwrap();
        for path in source.paths() {
            let allowed = path.starts_with("std::time") || path.starts_with("libc::SIG");
            let outside = ["std::", "libc::", "nix::", "crate::", "super::super"];
            let is_outside = outside.iter().any(|what| path.starts_with(what));
            assert!(allowed || !is_outside, "src/{name} names {path}");
        }
    }
}

#[test]
fn everything_fits_on_a_page() {
    let mut wrong = Vec::new();
    for source in room() {
        if source.lines.len() > LONGEST_FILE {
            wrong.push(format!("src/{}", source.name));
        }
        for (at, line) in source.lines.iter().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(name) = words.iter().position(|word| *word == "fn") else {
                continue;
            };
            let end = format!("{}}}", " ".repeat(indent));
            let length = source.lines[at..].iter().position(|line| *line == end);
            if length.is_some_and(|length| length >= LONGEST_FUNCTION) {
                wrong.push(format!("src/{}: {}", source.name, words[name + 1]));
            }
        }
    }
    assert!(wrong.is_empty(), "too long: {wrong:#?}");
}

//! The rules of the house, checked by reading the files: a rule that no machine checks is a wish.

/// The demonstration shows what it says.
mod demo;
/// Test hooks are for tests.
mod hooks;
/// Every dependency's licence is one that we allow, and comes from the registry.
mod licences;
/// The README's commands exist.
mod readme;
/// Shell files pass their checkers.
mod shell;
/// What decides in the supervisor is pure, and nothing there is long.
mod supervisor;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms that do no I/O.
const PURE: [&str; 8] = [
    "syntax", "plan", "rewrite", "settings", "session", "job", "text", "screen",
];
/// One for each kind of process; none knows another.
const ROLES: [&str; 5] = ["front", "supervisor", "launcher", "entrypoint", "cli"];
/// What a pure room may not name.
const IMPURE: [&str; 8] = [
    "std::fs",
    "std::process",
    "std::env",
    "std::net",
    "std::thread",
    "nix",
    "libc",
    "crate::sys",
];
const LONGEST: usize = 500;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `dir` with one of these endings; the compiler's output is left out.
fn files(dir: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !["target", ".git"].contains(&name) {
            found.extend(files(&path, endings));
        } else if path.is_file() && endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A source file without its tests and without comments.
struct Source {
    name: String,
    /// The first part of its path below `src`: the room it is in.
    room: String,
    lines: Vec<String>,
}

fn sources() -> Vec<Source> {
    let src = root().join("src");
    let all = files(&src, &[".rs"]);
    let only_tests = test_modules(&all);
    all.into_iter()
        .filter(|path| !only_tests.contains(path))
        .filter(|path| {
            let mut parts = path.components().map(|part| part.as_os_str());
            parts.all(|part| part != "tests" && part != "tests.rs")
        })
        .map(|path| {
            let name = path
                .strip_prefix(&src)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let room = name.split(['/', '.']).next().unwrap().to_owned();
            let text = fs::read_to_string(&path).unwrap();
            let lines = without_tests(&text);
            Source { name, room, lines }
        })
        .collect()
}

/// The files that a `#[cfg(test)]` line keeps out of the program.
fn test_modules(all: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in all {
        let text = fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]") {
            if let Some(name) = pair[1]
                .strip_prefix("mod ")
                .and_then(|rest| rest.strip_suffix(';'))
            {
                found.push(path.parent().unwrap().join(format!("{name}.rs")));
            }
        }
    }
    found
}

/// Leaves out `#[cfg(test)] mod tests { … }`, which ends with the first brace in its column.
fn without_tests(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("mod tests {") {
            inside = true;
            lines.pop();
        } else if inside {
            inside = line != "}";
        } else {
            lines.push(line.to_owned());
        }
    }
    lines
}

impl Source {
    /// Its code as one text, comments and string contents blanked well enough for these checks.
    fn code(&self) -> String {
        let code = self.lines.iter().map(|line| {
            let line = line.split("//").next().unwrap_or_default();
            line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
        });
        code.collect::<Vec<_>>().join("\n")
    }

    /// Every path that it imports, with groups taken apart, and those it names in place.
    fn paths(&self) -> Vec<String> {
        let code = self.code();
        let mut found = Vec::new();
        let mut rest = code.as_str();
        while let Some(at) = rest.find("use ") {
            let statement = &rest[at + 4..];
            let end = statement.find(';').unwrap_or(statement.len());
            flatten(
                "",
                &statement[..end]
                    .replace(" as ", "::as::")
                    .split_whitespace()
                    .collect::<String>(),
                &mut found,
            );
            rest = &statement[end..];
        }
        let letter = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        found.extend(
            code.split(|c| !letter(c))
                .filter(|word| word.contains("::"))
                .map(str::to_owned),
        );
        found
    }

    fn names(&self, what: &str) -> bool {
        let below = format!("{what}::");
        let paths = self.paths();
        paths
            .iter()
            .any(|path| path == what || path.starts_with(&below))
    }
}

/// `a::{b, c::{d}}` becomes `a::b` and `a::c::d`.
fn flatten(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let Some(open) = tree.find('{') else {
        found.push(format!("{prefix}{tree}"));
        return;
    };
    let prefix = format!("{prefix}{}", &tree[..open]);
    let inner = tree[open + 1..].trim_end_matches('}');
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth <= 0 || at == inner.len() => {
                if start < at {
                    flatten(&prefix, &inner[start..at], found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

#[test]
fn imports_are_taken_apart() {
    for (tree, paths) in [
        ("std::fs", &["std::fs"][..]),
        ("std::{fs,env}", &["std::fs", "std::env"]),
        ("a::{b,c::{d,e}}", &["a::b", "a::c::d", "a::c::e"]),
        ("a::{c::{d},b}", &["a::c::d", "a::b"]),
    ] {
        let mut found = Vec::new();
        flatten("", tree, &mut found);
        assert_eq!(found, paths, "{tree}");
    }
}

#[test]
fn pure_rooms_do_no_io() {
    let mut wrong = Vec::new();
    for source in sources() {
        if !PURE.contains(&source.room.as_str()) {
            continue;
        }
        let rooms = ROLES.iter().map(|role| format!("crate::{role}"));
        let others = ["crate::store", "crate::notify", "crate::wire"].map(str::to_owned);
        for what in IMPURE
            .iter()
            .map(|&what| what.to_owned())
            .chain(rooms)
            .chain(others)
        {
            if source.names(&what) {
                wrong.push(format!("src/{} names {what}", source.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn roles_do_not_know_each_other() {
    let mut wrong = Vec::new();
    for source in sources() {
        let role = source.room.as_str();
        if !ROLES.contains(&role) {
            continue;
        }
        for other in ROLES.iter().filter(|&&other| other != role) {
            if source.names(&format!("crate::{other}")) {
                wrong.push(format!("src/{} names crate::{other}", source.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The rooms of the code map and what each may use, in the order of the page. `None`: all.
fn code_map() -> Vec<(String, Option<BTreeSet<String>>)> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let quoted = |cell: &str| -> Vec<String> {
        let words = cell.split('`').skip(1).step_by(2);
        words.map(str::to_owned).collect()
    };
    let mut map = Vec::new();
    let table = page
        .lines()
        .skip_while(|line| !line.starts_with("| room |"));
    for line in table.skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [names, .., uses] = cells.as_slice() else {
            panic!("{line}")
        };
        let uses = uses.trim_end_matches(['|', ' ']);
        let allowed = (uses != "all").then(|| quoted(uses).into_iter().collect());
        for name in quoted(names) {
            let room = name.trim_end_matches('/').trim_end_matches(".rs");
            map.push((room.to_owned(), allowed.clone()));
        }
    }
    map
}

/// What each room uses of the others.
fn used() -> BTreeMap<String, BTreeSet<String>> {
    let mut used = BTreeMap::<String, BTreeSet<String>>::new();
    for source in sources() {
        let room = used.entry(source.room.clone()).or_default();
        let named = source.paths().into_iter().filter_map(|path| {
            let first = path.strip_prefix("crate::")?.split("::").next()?.to_owned();
            (!first.is_empty() && first != source.room).then_some(first)
        });
        room.extend(named);
    }
    used
}

#[test]
fn every_room_uses_what_the_map_names() {
    let (map, used) = (code_map(), used());
    let mut wrong = Vec::new();
    for room in used.keys() {
        if map.iter().all(|(name, _)| name != room) {
            wrong.push(format!("src/{room} is not in the map"));
        }
    }
    for (room, allowed) in &map {
        let (Some(allowed), Some(used)) = (allowed, used.get(room)) else {
            assert!(used.contains_key(room), "there is no src/{room}");
            continue;
        };
        for other in used.difference(allowed) {
            wrong.push(format!(
                "src/{room} uses {other}, which its row does not name"
            ));
        }
        for other in allowed.difference(used) {
            wrong.push(format!(
                "the row of {room} names {other}, which it does not use"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A room uses only what stands above it in the map, so none uses another that uses it.
#[test]
fn no_two_rooms_use_each_other() {
    let map = code_map();
    let mut above = BTreeSet::new();
    for (room, allowed) in map {
        let Some(allowed) = allowed else { continue };
        let later: Vec<_> = allowed.difference(&above).collect();
        assert!(
            later.is_empty(),
            "{room} uses {later:?}, which stand below it"
        );
        above.insert(room);
    }
}

#[test]
fn unsafe_is_on_the_floor_alone() {
    let letter = |c: char| c.is_alphanumeric() || c == '_';
    for source in sources().iter().filter(|source| source.room != "sys") {
        let code = source.code();
        let found = code.split(|c| !letter(c)).any(|word| word == "unsafe");
        assert!(!found, "src/{} has unsafe code", source.name);
    }
}

#[test]
fn files_stay_short() {
    for source in sources() {
        let lines = source.lines.len();
        assert!(lines <= LONGEST, "src/{} has {lines} lines", source.name);
    }
    for dir in ["tests", "benches"] {
        for path in files(&root().join(dir), &[".rs", ".txt"]) {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines <= LONGEST, "{} has {lines} lines", path.display());
        }
    }
}

/// Nothing points at a directory of the place where it was written.
#[test]
fn no_path_of_a_workplace() {
    let places = ["/work", "/tmp/wt", "/root", "/home/user"].map(|place| format!("{place}{}", '/'));
    let places = places.iter().map(|place| place.replace("wt/", "wt-"));
    let places: Vec<String> = places.collect();
    let endings = [
        ".rs", ".md", ".toml", ".txt", ".json", ".sh", "run", ".py", ".js", ".ts",
    ];
    let mut wrong = Vec::new();
    for path in files(root(), &endings) {
        let text = fs::read_to_string(&path).unwrap_or_default();
        for (number, line) in text.lines().enumerate() {
            let exempt = line.contains("let places =") || line.contains("sandbox.path");
            if !exempt && places.iter().any(|place| line.contains(place)) {
                wrong.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A page that names a file, or a function in it, names one that is there.
#[test]
fn cited_files_are_there() {
    let pages = files(root(), &[".md"]);
    let sources = files(&root().join("src"), &[".rs"]);
    let mut wrong = Vec::new();
    for page in pages.iter().chain(&sources) {
        let text = fs::read_to_string(page).unwrap();
        for quoted in text.split('`').skip(1).step_by(2) {
            let (file, item) = quoted.split_once(".rs").unwrap_or_default();
            let plain = |c: char| c.is_ascii_lowercase() || c == '_' || c == '/';
            if file.is_empty() || !file.chars().all(plain) {
                continue;
            }
            let name = format!("{file}.rs");
            let near = page.parent().unwrap();
            let found = [root().join("src"), root().to_owned(), near.to_owned()]
                .map(|place| place.join(&name))
                .into_iter()
                .find(|path| path.is_file());
            let item = item.strip_prefix(':').unwrap_or_default();
            let item = item.rsplit("::").next().unwrap_or_default();
            let is_there = found.is_some_and(|path| {
                item.is_empty() || fs::read_to_string(path).unwrap().contains(item)
            });
            if !is_there {
                wrong.push(format!("{}: `{quoted}`", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

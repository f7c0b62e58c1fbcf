//! The corpus: one command a line in `corpus/*.txt`, under bash, dash and zsh, over pipes, files and a
//! terminal. Each line is `SHELLS[i][A] COMMAND`: letters of the shells it is for (`b`, `d`, `z`), `i` if
//! it reads stdin, `A` if it looks at the kind of its streams, which a shared append-only file is free to
//! change. `⏎` stands for a newline.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::support::{Ended, Input, Sandbox, Streams, has};

const GROUPS: [(&str, &str); 6] = [
    ("quoting", include_str!("corpus/quoting.txt")),
    ("expansions", include_str!("corpus/expansions.txt")),
    ("redirections", include_str!("corpus/redirections.txt")),
    ("control", include_str!("corpus/control.txt")),
    ("status", include_str!("corpus/status.txt")),
    ("data", include_str!("corpus/data.txt")),
];

/// What a case that reads stdin finds there.
const INPUT: &str = "first line\nsecond  line\nthird\\line\n";

struct Case {
    name: String,
    flags: &'static str,
    text: String,
}

impl Case {
    fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for (group, lines) in GROUPS {
            for (number, line) in lines.lines().enumerate() {
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let (flags, text) = line.split_once(' ').unwrap();
                assert!(flags.chars().all(|flag| "bdziA".contains(flag)), "{line}");
                cases.push(Self {
                    name: format!("{group}:{}", number + 1),
                    flags,
                    text: text.replace('⏎', "\n"),
                });
            }
        }
        cases
    }

    fn is_for(&self, shell: &str) -> bool {
        self.flags.contains(&shell[..1])
    }

    fn reads_stdin(&self) -> bool {
        self.flags.contains('i')
    }

    fn looks_at_streams(&self) -> bool {
        self.flags.contains('A')
    }
}

/// Type, mode and content of everything in a directory.
type Files = BTreeMap<PathBuf, (u32, Vec<u8>)>;

fn files(dir: &Path) -> Files {
    let mut found = Files::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_file() {
                fs::read(&path).unwrap()
            } else if meta.is_symlink() {
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes()
            } else {
                Vec::new()
            };
            if meta.is_dir() {
                dirs.push(path.clone());
            }
            found.insert(path, (meta.mode(), content));
        }
    }
    found
}

/// One run in an empty directory; `program` is false for the real shell.
fn observe(
    sandbox: &Sandbox,
    shell: &str,
    case: &Case,
    streams: Streams,
    program: bool,
) -> (Ended, Files) {
    let dir = sandbox.work().join("case");
    if dir.exists() {
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        fs::remove_dir_all(&dir).unwrap();
    }
    fs::create_dir(&dir).unwrap();
    let call = if program {
        sandbox.call(shell)
    } else {
        sandbox.real_call(shell)
    };
    let input = match streams {
        _ if !case.reads_stdin() => Input::Null,
        Streams::Truncated | Streams::Appended => {
            let path = sandbox.path("input");
            fs::write(&path, INPUT).unwrap();
            Input::File(path)
        }
        _ => Input::Text(INPUT.into()),
    };
    let ended = call
        .c(&case.text)
        .cwd(&dir)
        .streams(streams)
        .input(input)
        .run();
    (ended, files(&dir))
}

/// Runs every case that `choose` gives streams for both ways, and fails with all that differ.
fn compare(shell: &str, choose: impl Fn(usize, &Case) -> Option<Streams>) {
    let sandbox = Sandbox::new();
    let mut differences = Vec::new();
    let mut count = 0;
    for (index, case) in Case::all().iter().enumerate() {
        let Some(streams) = choose(index, case).filter(|_| case.is_for(shell)) else {
            continue;
        };
        if case.text.contains("git ") && !has("git") {
            continue;
        }
        count += 1;
        let native = observe(&sandbox, shell, case, streams, false);
        let ours = observe(&sandbox, shell, case, streams, true);
        if native != ours {
            differences.push(format!(
                "{} over {streams:?}: {shell} -c {:?}\n  real {native:?}\n  ours {ours:?}",
                case.name, case.text
            ));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {count} cases differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
    sandbox.assert_no_survivors();
}

fn pipes(_: usize, _: &Case) -> Option<Streams> {
    Some(Streams::Pipe)
}

/// Two truncated files and one append-only file in turn.
fn regular_files(index: usize, case: &Case) -> Option<Streams> {
    if index.is_multiple_of(2) || case.looks_at_streams() {
        Some(Streams::Truncated)
    } else {
        Some(Streams::Appended)
    }
}

/// Every third case; those that read stdin would wait for someone to type.
fn terminal(index: usize, case: &Case) -> Option<Streams> {
    (index.is_multiple_of(3) && !case.reads_stdin()).then_some(Streams::Terminal)
}

#[test]
fn the_corpus_is_large_enough() {
    let cases = Case::all();
    assert!(cases.len() >= 400, "only {}", cases.len());
    for shell in ["bash", "dash", "zsh"] {
        assert!(cases.iter().filter(|case| case.is_for(shell)).count() >= 300);
    }
}

#[test]
fn bash_over_pipes() {
    compare("bash", pipes);
}

#[test]
fn bash_over_files() {
    compare("bash", regular_files);
}

#[test]
fn bash_on_a_terminal() {
    compare("bash", terminal);
}

#[test]
fn dash_over_pipes() {
    compare("dash", pipes);
}

#[test]
fn dash_over_files() {
    compare("dash", regular_files);
}

#[test]
fn dash_on_a_terminal() {
    compare("dash", terminal);
}

#[test]
fn zsh_over_pipes() {
    compare("zsh", pipes);
}

#[test]
fn zsh_over_files() {
    compare("zsh", regular_files);
}

#[test]
fn zsh_on_a_terminal() {
    compare("zsh", terminal);
}

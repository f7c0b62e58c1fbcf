//! Random input for everything that reads bytes of others. README.md says how to run it.
#![expect(unsafe_code, reason = "an allocator that counts")]
#![expect(clippy::print_stdout, reason = "it reports")]

mod counting;
mod other_targets;
mod random;
mod shapes;
mod shell;
mod text_targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use counting::Counting;
use random::Random;

#[global_allocator]
static COUNTING: Counting = Counting;

/// The number of the text that is being tried, for whoever finds that it takes too long.
static CASE: AtomicU64 = AtomicU64::new(0);
/// No text takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

struct Target {
    name: &'static str,
    generate: fn(&mut Random, &[Vec<u8>]) -> Vec<u8>,
    /// Gives how many cases it was.
    check: fn(&[u8]) -> Result<u64, String>,
}

const TARGETS: &[Target] = &[
    Target {
        name: "scanner",
        generate: text_targets::generate,
        check: text_targets::check_scanner,
    },
    Target {
        name: "rewriter",
        generate: text_targets::generate,
        check: text_targets::check_rewriter,
    },
    Target {
        name: "record",
        generate: other_targets::generate_record,
        check: other_targets::check_record,
    },
    Target {
        name: "sanitiser",
        generate: other_targets::generate_output,
        check: other_targets::check_output,
    },
    Target {
        name: "frames",
        generate: other_targets::generate_frames,
        check: other_targets::check_frames,
    },
    Target {
        name: "settings",
        generate: other_targets::generate_settings,
        check: other_targets::check_settings,
    },
];

#[derive(Default)]
struct Options {
    targets: Vec<String>,
    cases: Option<u64>,
    seconds: Option<f64>,
    seed: Option<u64>,
    from: u64,
    replay: Option<PathBuf>,
    /// Write the text with the number `from` to this file, and nothing else.
    write: Option<PathBuf>,
}

fn options() -> Option<Options> {
    let mut options = Options::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--cases" => options.cases = Some(words.next()?.parse().ok()?),
            "--seconds" => options.seconds = Some(words.next()?.parse().ok()?),
            "--seed" => options.seed = Some(words.next()?.parse().ok()?),
            "--from" => options.from = words.next()?.parse().ok()?,
            "--write" => options.write = Some(words.next()?.into()),
            "--replay" => options.replay = Some(words.next()?.into()),
            name if TARGETS.iter().any(|target| target.name == name) => options.targets.push(word),
            _ => return None,
        }
    }
    Some(options)
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        println!(
            "[TARGET]... [--cases N | --seconds S] [--seed N] [--from TEXT] [--replay FILE | --write FILE]; targets: {}",
            names.join(", ")
        );
        return ExitCode::from(2);
    };
    let targets: Vec<&Target> = TARGETS
        .iter()
        .filter(|target| {
            options.targets.is_empty() || options.targets.iter().any(|name| name == target.name)
        })
        .collect();
    thread::spawn(watch);
    let mut good = true;
    for target in &targets {
        good &= match (&options.replay, &options.write) {
            (Some(file), _) => replay(target, file),
            (None, Some(file)) => {
                let mut random = Random::new(options.seed.unwrap_or(1), options.from);
                fs::write(file, (target.generate)(&mut random, &corpus(target))).is_ok()
            }
            (None, None) => run(target, &options, targets.len()),
        };
    }
    ExitCode::from(u8::from(!good))
}

/// Ends the program when one text takes too long, and says which one it is.
fn watch() {
    let mut last = (CASE.load(Ordering::Relaxed), Instant::now());
    loop {
        thread::park_timeout(Duration::from_secs(1));
        let case = CASE.load(Ordering::Relaxed);
        if case != last.0 {
            last = (case, Instant::now());
        } else if last.1.elapsed() > PATIENCE {
            println!("text {case} takes more than {PATIENCE:?}");
            std::process::abort();
        }
    }
}

fn corpus(target: &Target) -> Vec<Vec<u8>> {
    // The rewriter reads what the scanner reads.
    let name = if target.name == "rewriter" {
        "scanner"
    } else {
        target.name
    };
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    files
        .iter()
        .filter_map(|file| fs::read(file).ok())
        .collect()
}

fn attempt(target: &Target, input: &[u8]) -> Result<u64, String> {
    catch_unwind(AssertUnwindSafe(|| (target.check)(input))).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", words.unwrap_or("?")))
    })
}

fn replay(target: &Target, file: &Path) -> bool {
    let result = fs::read(file)
        .map_err(|error| error.to_string())
        .and_then(|input| attempt(target, &input));
    println!("{}: {} {result:?}", target.name, file.display());
    result.is_ok()
}

fn run(target: &Target, options: &Options, targets: usize) -> bool {
    let corpus = corpus(target);
    let seed = options.seed.unwrap_or(1);
    let time = options
        .seconds
        .map(|seconds| Duration::from_secs_f64(seconds / targets as f64));
    let wanted = options
        .cases
        .unwrap_or(if time.is_some() { u64::MAX } else { 10_000 });
    let start = Instant::now();
    let (mut cases, mut text) = (0, options.from);
    let is_over = |cases| cases >= wanted || time.is_some_and(|time| start.elapsed() >= time);
    for kept in &corpus {
        match attempt(target, kept) {
            Ok(count) => cases += count,
            Err(why) => return failed(target, kept, &why, "a kept input"),
        }
    }
    while !is_over(cases) {
        CASE.store(text, Ordering::Relaxed);
        let input = (target.generate)(&mut Random::new(seed, text), &corpus);
        match attempt(target, &input) {
            Ok(count) => cases += count,
            Err(why) => return failed(target, &input, &why, &format!("seed {seed}, text {text}")),
        }
        text += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{}: {cases} cases, 0 failures (seed {seed}, {seconds:.0} s)",
        target.name
    );
    true
}

/// Makes the input smaller as long as it fails, keeps it and tells of it.
fn failed(target: &Target, input: &[u8], why: &str, which: &str) -> bool {
    std::panic::set_hook(Box::new(|_| {}));
    let mut small = input.to_vec();
    let mut piece = small.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < small.len() {
            let end = (at + piece).min(small.len());
            CASE.fetch_add(1, Ordering::Relaxed);
            let shorter = [&small[..at], &small[end..]].concat();
            if attempt(target, &shorter).is_err() {
                small = shorter;
            } else {
                at = end;
            }
        }
        piece /= 2;
    }
    let why = attempt(target, &small)
        .err()
        .unwrap_or_else(|| why.to_owned());
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fuzz");
    let file = dir.join(target.name);
    let kept = fs::create_dir_all(&dir).and_then(|()| fs::write(&file, &small));
    println!("{}: {which} fails: {why}", target.name);
    println!("input: {:?}", String::from_utf8_lossy(&small));
    println!("kept as {} ({kept:?})", file.display());
    false
}

//! Memory and time of reading a text stay in proportion to it, whatever the text.
#![expect(unsafe_code, reason = "an allocator that counts")]

mod counting;
mod shapes;

use agent_sh::testing::{Dialect, plan, rewrite, scan};
use counting::{Counting, peak};
use shapes::{SHAPES, Shape, text};

#[global_allocator]
static COUNTING: Counting = Counting;

const KIB: usize = 1024;
const DIALECTS: [Dialect; 3] = [Dialect::Bash, Dialect::Posix, Dialect::Zsh];

/// The dialects to try: a large text is read in one that understands it, if there is one.
fn dialects(shape: Shape, size: usize) -> Vec<Dialect> {
    let understands = |dialect: &Dialect| scan(&text(shape, KIB), *dialect).ok;
    match DIALECTS.into_iter().find(understands) {
        Some(dialect) if size > 64 * KIB => vec![dialect],
        None if size > 64 * KIB => vec![Dialect::Bash],
        _ => DIALECTS.to_vec(),
    }
}

/// What may be live at once while a text of this length is read.
fn bound(length: usize) -> usize {
    24 * length + 8 * KIB * KIB
}

#[test]
fn memory_of_the_scanner() {
    let mut wrong = Vec::new();
    for shape in SHAPES {
        for size in [KIB, 64 * KIB, KIB * KIB] {
            let text = text(*shape, size);
            for dialect in dialects(*shape, size) {
                let (peak, script) = peak(|| scan(&text, dialect));
                println!(
                    "{:36} {dialect:?} {size:8} {:6.1} bytes a byte, {:5.1} steps, {}",
                    shape.0,
                    peak as f64 / text.len() as f64,
                    script.steps as f64 / text.len() as f64,
                    script.why.unwrap_or("ok"),
                );
                if peak > bound(text.len()) {
                    wrong.push(format!("{} {dialect:?} {size}: {peak}", shape.0));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn memory_of_the_plan() {
    let mut wrong = Vec::new();
    for shape in SHAPES {
        for size in [KIB, 64 * KIB, 127 * KIB, KIB * KIB] {
            let text = text(*shape, size);
            for dialect in dialects(*shape, size) {
                let (planned, plan) = peak(|| plan(&text, dialect));
                let (rewritten, _) = peak(|| rewrite(&text, &plan, dialect, b"/bin/launcher"));
                println!(
                    "{:36} {dialect:?} {size:8} plan {:6.1}, rewrite {:6.1} bytes a byte, {}",
                    shape.0,
                    planned as f64 / text.len() as f64,
                    rewritten as f64 / text.len() as f64,
                    plan.why.as_deref().unwrap_or("ok"),
                );
                if planned.max(rewritten) > bound(text.len()) {
                    wrong.push(format!(
                        "{} {dialect:?} {size}: {planned} {rewritten}",
                        shape.0
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Twice the text takes twice the steps.
#[test]
fn time_of_the_scanner() {
    for shape in SHAPES {
        for dialect in DIALECTS {
            let steps = |size| scan(&text(*shape, size), dialect).steps;
            let (small, large) = (steps(8 * KIB), steps(64 * KIB));
            assert!(
                large <= 9 * small + 4096,
                "{} {dialect:?}: {small} and {large} steps",
                shape.0
            );
        }
    }
}

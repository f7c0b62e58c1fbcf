//! Misspelt names.

use super::names;

/// The setting that an unknown name was probably meant to be.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let name = name.strip_prefix("agent_sh_").unwrap_or(&name);
    names()
        .map(|known| (distance(name, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len() / 3 + 1)
        .map(|(_, known)| known)
}

/// Letters to add, drop or change to get from one word to the other.
fn distance(left: &str, right: &str) -> usize {
    // Long input is nobody's misspelling.
    if left.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.bytes().enumerate() {
            let change = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

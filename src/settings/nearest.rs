//! Misspelt names.

use super::names;

/// Longer input is nobody's misspelling, and would take long to compare.
const LONGEST: usize = 64;

/// The setting that an unknown name was probably meant to be.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let name = name.strip_prefix("agent_sh_").unwrap_or(&name);
    if name.len() > LONGEST {
        return None;
    }
    names()
        .map(|known| (strsim::levenshtein(name, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len() / 3 + 1)
        .map(|(_, known)| known)
}

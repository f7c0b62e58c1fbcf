//! The trace that a job belongs to: what its caller had in `TRACEPARENT` and `TRACESTATE`, by the distributed-tracing
//! extension of CloudEvents. Pure.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde_json::{Map, Value};

const PARENT: &str = "TRACEPARENT";
const STATE: &str = "TRACESTATE";
/// What every system passes on, by the W3C recommendation.
pub(super) const LONGEST_STATE: usize = 512;

/// What of the environment is kept with the launch. A value that is no trace is nobody's.
pub(crate) fn kept(env: impl Fn(&str) -> Option<OsString>) -> BTreeMap<String, String> {
    let text = |name: &str| env(name)?.into_string().ok();
    let mut found = BTreeMap::new();
    let Some(parent) = text(PARENT).filter(|parent| ids(parent).is_some()) else {
        return found;
    };
    found.insert(PARENT.to_owned(), parent);
    let plain = |state: &String| {
        let printable = state.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        !state.is_empty() && state.len() <= LONGEST_STATE && printable
    };
    found.extend(
        text(STATE)
            .filter(plain)
            .map(|state| (STATE.to_owned(), state)),
    );
    found
}

/// The trace and the span of a `traceparent`: `00-<32 digits>-<16 digits>-<2 digits>`, neither of them zero.
#[must_use]
pub(crate) fn ids(parent: &str) -> Option<(&str, &str)> {
    let parts: Vec<&str> = parent.split('-').collect();
    let &[version, trace, span, flags] = parts.as_slice() else {
        return None;
    };
    let hex = |text: &str, length: usize| {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        text.len() == length && text.bytes().all(digit)
    };
    let some = |text: &str| text.bytes().any(|byte| byte != b'0');
    let good =
        hex(version, 2) && version != "ff" && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
    (good && some(trace) && some(span)).then_some((trace, span))
}

/// What was kept of the trace of a launch.
pub(super) fn parent(kept: &BTreeMap<String, String>) -> Option<&String> {
    kept.get(PARENT)
}

pub(super) fn state(kept: &BTreeMap<String, String>) -> Option<&String> {
    kept.get(STATE)
}

/// The attributes of an event.
pub(crate) fn attributes(kept: &BTreeMap<String, String>) -> Map<String, Value> {
    let names = [PARENT, STATE].into_iter();
    names
        .filter_map(|name| Some((name.to_lowercase(), kept.get(name)?.clone().into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn of(parent: &str, state: &str) -> Map<String, Value> {
        let found = kept(|name| {
            let value = if name == PARENT { parent } else { state };
            (!value.is_empty()).then(|| value.into())
        });
        attributes(&found)
    }

    #[test]
    fn only_a_trace_is_kept() {
        let both = of(GOOD, "a=1,b=2");
        assert_eq!(both["traceparent"], GOOD);
        assert_eq!(both["tracestate"], "a=1,b=2");
        assert_eq!(of(GOOD, "").len(), 1);
        assert_eq!(of(GOOD, "a\u{1b}b").len(), 1);
        for bad in [
            "",
            "x",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert!(of(bad, "a=1").is_empty(), "{bad}");
        }
    }
}

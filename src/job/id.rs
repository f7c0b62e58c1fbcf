//! The short name of a job, and the serial number it is made from.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The characters of an id: lower case letters and digits without look-alikes (`0 1 i l o`).
pub(super) const ID_ALPHABET: &[u8; 31] = b"23456789abcdefghjkmnpqrstuvwxyz";
/// The longest id that any version may give out.
const ID_LONGEST: usize = 8;

/// The short name of a job, unique in its store. Always matches the pattern, so it is safe in a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

impl JobId {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const BASE: u64 = ID_ALPHABET.len() as u64;
/// Three characters.
const CUBE: u64 = BASE * BASE * BASE;
/// A day has so many parts, of 2.9 seconds each.
const PARTS: u64 = CUBE;
/// There are ids for so many days: until October 2064. The other half of what three characters can say
/// stands for the same days, in ids that go on.
const DAYS: u64 = CUBE / 2;
/// So many ids in one part of a day have one character more, and the others two: the first characters of
/// those are the rest of the alphabet. So no id is the beginning of another.
const SINGLE: u64 = 20;
const PLACES: u64 = 1 + SINGLE + (BASE - SINGLE) * BASE;
/// The first of January 2024, in days since 1970.
const FIRST_DAY: u64 = 19_723;

/// Where an id stands in the order in which a store gives them out: by day, by part of the day, and by
/// place within the part. Ids and serials are one to one, for a store whose `shift` is known.
///
/// The text begins with the part of the day, so that ids sort by start within a day and differ early,
/// and goes on with the day, moved by the store's shift, so that two stores rarely give out the same.
/// One or two more characters come only where a part of the day has more than one job. No id is the
/// beginning of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Serial(u64);

impl Serial {
    const LAST: u64 = DAYS * PARTS * PLACES - 1;

    /// The first of the moment. A clock before 2024 counts as its first day, one after 2064 as the last.
    #[must_use]
    pub(crate) fn at(unix_seconds: u64) -> Self {
        let day = (unix_seconds / 86_400).saturating_sub(FIRST_DAY);
        let part = (unix_seconds % 86_400) * PARTS / 86_400;
        Self((day.min(DAYS - 1) * PARTS + part) * PLACES)
    }

    /// As it was written down. `None`: no serial of ours.
    #[must_use]
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        (number <= Self::LAST).then_some(Self(number))
    }

    #[must_use]
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// The one after it; `None` after the last.
    #[must_use]
    pub(crate) fn next(self) -> Option<Self> {
        Self::from_number(self.0 + 1)
    }

    /// Another one after it, for one that finds it taken: near and short at first, then farther away.
    /// Chance keeps those who look at the same time apart.
    #[must_use]
    pub(crate) fn nearby(self, attempt: u32, chance: u32) -> Option<Self> {
        let (part, place) = (self.0 / PLACES, self.0 % PLACES);
        let within = |from: u64, to: u64| part * PLACES + from + u64::from(chance) % (to - from);
        let short = SINGLE + 1;
        let number = match attempt {
            0..4 if place + 1 < short => within(place + 1, short),
            0..14 if place + 1 < PLACES => within(short.max(place + 1), PLACES),
            _ => (part + 1 + u64::from(attempt)) * PLACES + u64::from(chance) % PLACES,
        };
        Self::from_number(number)
    }

    /// The id in a store with this shift.
    #[must_use]
    pub(crate) fn id(self, shift: u64) -> JobId {
        let (slot, place) = (self.0 / PLACES, self.0 % PLACES);
        let (day, part) = (slot / PARTS, slot % PARTS);
        let mut text = String::with_capacity(ID_LONGEST);
        push(&mut text, part, 3);
        let day = (day + shift % DAYS) % DAYS;
        match place {
            0 => push(&mut text, day, 3),
            1..=SINGLE => {
                push(&mut text, DAYS + day, 3);
                push(&mut text, place - 1, 1);
            }
            _ => {
                push(&mut text, DAYS + day, 3);
                push(&mut text, place - 1 - SINGLE + SINGLE * BASE, 2);
            }
        }
        JobId(text)
    }

    /// Where an id stands in a store with this shift. `None`: it was not given out this way.
    #[must_use]
    pub(crate) fn of(id: &JobId, shift: u64) -> Option<Self> {
        let text = id.0.as_bytes();
        let part = value(text.get(..3)?)?;
        let code = value(text.get(3..6)?)?;
        let place = match (code / DAYS, text.get(6..)?) {
            (0, []) => 0,
            (1, [letter]) => 1 + value(&[*letter]).filter(|&digit| digit < SINGLE)?,
            (1, two @ [_, _]) => 1 + SINGLE + value(two)?.checked_sub(SINGLE * BASE)?,
            _ => return None,
        };
        let day = (code % DAYS + DAYS - shift % DAYS) % DAYS;
        Self::from_number((day * PARTS + part) * PLACES + place)
    }
}

/// Writes a number in so many characters of the alphabet.
fn push(text: &mut String, number: u64, places: u32) {
    for place in (0..places).rev() {
        let digit = number / BASE.pow(place) % BASE;
        text.push(char::from(ID_ALPHABET[digit as usize]));
    }
}

/// What characters of the alphabet say; of at most eight.
fn value(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0, |sum, byte| {
        let digit = ID_ALPHABET.iter().position(|known| known == byte)?;
        Some(sum * BASE + digit as u64)
    })
}

/// Whether `text` could begin an id. Checked before any path is built from what a caller typed.
#[must_use]
pub(crate) fn is_id_prefix(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= ID_LONGEST
        && text.bytes().all(|byte| ID_ALPHABET.contains(&byte))
}

impl FromStr for JobId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_id_prefix(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("'{text}' is no job id"))
        }
    }
}

impl TryFrom<String> for JobId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_start_within_a_day_and_match_the_pattern() {
        let mut last = String::new();
        for second in (0..86_400).step_by(97) {
            let id = Serial::at(1_700_000_000 / 86_400 * 86_400 + second).id(12_345);
            assert!(is_id_prefix(id.as_str()), "{id}");
            assert_eq!(id.as_str().len(), 6);
            assert!(*id.as_str() > *last, "{id} after {last}");
            last = String::from(id);
        }
    }

    /// Ids and serials are one to one, so no id comes twice while serials do not.
    #[test]
    fn every_serial_has_an_id_of_its_own() {
        let far = Serial::LAST;
        for shift in [0, 1, DAYS - 1, DAYS, u64::MAX] {
            let mut seen = std::collections::HashSet::new();
            let some = (0..3 * PLACES).chain(far - 2 * PLACES..=far);
            for number in some.chain((0..far).step_by(91_000_003)) {
                let serial = Serial::from_number(number).unwrap();
                let id = serial.id(shift);
                assert!(is_id_prefix(id.as_str()), "{id}");
                assert_eq!(Serial::of(&id, shift), Some(serial), "{number} {id}");
                seen.insert(String::from(id));
            }
            assert!(seen.len() > 3_000, "{}", seen.len());
            let whole = |id: &String| (6..id.len()).all(|end| !seen.contains(&id[..end]));
            assert!(seen.iter().all(whole), "no id is the beginning of another");
        }
        assert_eq!(Serial::from_number(far + 1), None);
        assert_eq!(Serial(far).next(), None);
    }

    #[test]
    fn no_clock_and_no_id_is_too_strange() {
        for seconds in [0, 1, 1_700_000_000, 4_262_268_801, u64::MAX] {
            let serial = Serial::at(seconds);
            assert!(serial.number() <= Serial::LAST);
            for attempt in [0, 3, 4, 13, 14, 63, u32::MAX] {
                for chance in [0, 1, u32::MAX] {
                    let other = serial.nearby(attempt, chance);
                    assert!(other.is_none_or(|other| other > serial), "{attempt}");
                }
            }
        }
        for text in [
            "7", "7f3k", "zzzzz", "zzzzzz", "zzzzzzz", "222222zz", "222zzy22", "2222222",
        ] {
            assert_eq!(Serial::of(&text.parse().unwrap(), u64::MAX), None, "{text}");
        }
    }

    #[test]
    fn ids_are_checked_before_they_reach_a_path() {
        for bad in [
            "",
            "..",
            "a/b",
            "last",
            "ABC",
            "abcdefghj",
            "a b",
            "é",
            "0",
            "1",
        ] {
            assert!(bad.parse::<JobId>().is_err(), "{bad}");
        }
        for good in ["7f3k", "a", "22222222"] {
            assert!(good.parse::<JobId>().is_ok(), "{good}");
        }
    }
}

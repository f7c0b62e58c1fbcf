//! Words in front of a command that the launcher stands for.

use super::prefix::base;
use crate::job::How;

/// Programs that run the rest of their words and behind which a `nohup` may stand. `timeout` is none:
/// what it runs does not inherit from it that hang-ups are ignored.
const WRAPPERS: &[&[u8]] = &[b"env", b"nice", b"stdbuf", b"ionice", b"chrt", b"taskset"];

/// A command without the words that the launcher stands for.
#[derive(Debug, Default)]
pub(crate) struct Unwrapped {
    /// The indices of the words that are left.
    pub kept: Vec<usize>,
    pub how: Option<How>,
    /// How often `nohup` was taken out.
    pub nohups: usize,
}

/// Takes `nohup` and `setsid` out, also behind `env`, `nice`, `stdbuf`: nohup would see a terminal and
/// write to nohup.out, and the session is started already.
#[must_use]
pub(crate) fn unwrap(argv: &[&[u8]]) -> Unwrapped {
    let mut result = Unwrapped::default();
    let mut at = 0;
    while let Some(word) = argv.get(at) {
        let after = &argv[at + 1..];
        match base(word) {
            b"nohup" => {
                let Some(own) = nohup_words(after) else { break };
                result.nohups += 1;
                result.how = Some(How::Nohup);
                at += 1 + own;
            }
            b"setsid" => {
                let Some((_, program)) = setsid_options(after).filter(|(_, p)| *p < after.len())
                else {
                    break;
                };
                result.how.get_or_insert(How::Setsid);
                at += 1 + program;
            }
            wrapper if WRAPPERS.contains(&wrapper) => {
                let own = wrapper_words(wrapper, after);
                let inner = after.get(own).map(|word| base(word));
                if !inner.is_some_and(|inner| {
                    matches!(inner, b"nohup" | b"setsid") || WRAPPERS.contains(&inner)
                }) {
                    break;
                }
                result.kept.extend(at..=at + own);
                at += 1 + own;
            }
            _ => break,
        }
    }
    result.kept.extend(at..argv.len());
    result
}

/// How many words after `nohup` are its own: a `--`. `None` when no program follows, as in
/// `nohup --help`.
#[must_use]
pub(crate) fn nohup_words(words: &[&[u8]]) -> Option<usize> {
    match words {
        [b"--", _, ..] => Some(1),
        [word, ..] if !word.starts_with(b"-") => Some(0),
        _ => None,
    }
}

/// How many words after a wrapper are its own: options, their values, `A=1`.
fn wrapper_words(wrapper: &[u8], words: &[&[u8]]) -> usize {
    let with_value: &[&[u8]] = match wrapper {
        b"nice" => &[b"-n", b"--adjustment"],
        b"env" => &[b"-u", b"--unset", b"-C", b"--chdir"],
        b"stdbuf" => &[b"-i", b"-o", b"-e"],
        b"ionice" => &[b"-c", b"-n"],
        _ => &[],
    };
    let mut own = 0;
    while let Some(word) = words.get(own) {
        if with_value.contains(word) {
            own += 2;
        } else if word.starts_with(b"-") || (wrapper == b"env" && word.contains(&b'=')) {
            own += 1;
        } else {
            break;
        }
    }
    own.min(words.len())
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SetsidOptions {
    pub forks: bool,
    pub waits: bool,
}

/// The options of `setsid` and how many words they are; `None` when it is asked for its help.
#[must_use]
pub(crate) fn setsid_options(words: &[&[u8]]) -> Option<(SetsidOptions, usize)> {
    let mut options = SetsidOptions::default();
    for (index, word) in words.iter().enumerate() {
        match *word {
            b"--" => return Some((options, index + 1)),
            b"--fork" => options.forks = true,
            b"--wait" => options.waits = true,
            b"--ctty" => {}
            [b'-', b'-', ..] => return None,
            [b'-', letters @ ..] if !letters.is_empty() => {
                for letter in letters {
                    match letter {
                        b'f' => options.forks = true,
                        b'w' => options.waits = true,
                        b'c' => {}
                        _ => return None,
                    }
                }
            }
            _ => return Some((options, index)),
        }
    }
    Some((options, words.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_out_the_words_it_stands_for() {
        let nohup = Some(How::Nohup);
        let setsid = Some(How::Setsid);
        let cases: &[(&str, &str, Option<How>, usize)] = &[
            ("sleep 1", "sleep 1", None, 0),
            ("nohup sleep 1", "sleep 1", nohup, 1),
            ("nohup -- sleep 1", "sleep 1", nohup, 1),
            ("nohup -- -x", "-x", nohup, 1),
            ("setsid sleep 1", "sleep 1", setsid, 0),
            ("setsid -f sleep 1", "sleep 1", setsid, 0),
            ("nohup setsid sleep 1", "sleep 1", nohup, 1),
            ("setsid nohup sleep 1", "sleep 1", nohup, 1),
            (
                "env A=1 -u B nohup sleep 1",
                "env A=1 -u B sleep 1",
                nohup,
                1,
            ),
            ("nice -n 5 nohup sleep 1", "nice -n 5 sleep 1", nohup, 1),
            ("stdbuf -oL nohup sleep 1", "stdbuf -oL sleep 1", nohup, 1),
            ("env A=1 sleep 1", "env A=1 sleep 1", None, 0),
            ("timeout 5 nohup x", "timeout 5 nohup x", None, 0),
            ("nohup --help", "nohup --help", None, 0),
            ("nohup --", "nohup --", None, 0),
            ("nohup -- --version", "--version", nohup, 1),
            ("nohup", "nohup", None, 0),
            ("setsid --version", "setsid --version", None, 0),
            ("setsid", "setsid", None, 0),
            ("/usr/bin/nohup ./x nohup", "./x nohup", nohup, 1),
        ];
        for (from, to, how, nohups) in cases {
            let words: Vec<&[u8]> = from.split(' ').map(str::as_bytes).collect();
            let result = unwrap(&words);
            let kept: Vec<&[u8]> = result.kept.iter().map(|&index| words[index]).collect();
            assert_eq!(kept.join(&b' '), to.as_bytes(), "{from}");
            assert_eq!((result.how, result.nohups), (*how, *nohups), "{from}");
        }
    }
}

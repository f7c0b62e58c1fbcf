//! The one function that a rewritten text calls, for each kind of shell: prelude.bash, prelude.zsh and
//! prelude.sh, which the build joins to one line each. prelude.bash says how it works.

use memchr::memmem;

use crate::syntax::Dialect;
use crate::syntax::literal::{Quote, encode, single_quote};

const BASH: &str = include_str!(concat!(env!("OUT_DIR"), "/prelude.bash"));
const ZSH: &str = include_str!(concat!(env!("OUT_DIR"), "/prelude.zsh"));
const POSIX: &str = include_str!(concat!(env!("OUT_DIR"), "/prelude.sh"));

/// The whole function for a text that has insertions but never calls it.
const ONLY_PLACES: &str = "agent_sh() { case $3 in @PLACES@) ;; esac; }; ";

const START: &[u8] = b"agent_sh() { ";

/// Where the insertions are told: `@`, how long the prelude is from the `)` on, and for each one
/// where in the text it stands and how long it is.
const TOLD: &[u8] = b"case $3 in @";
const PLACES: &[u8] = b"@PLACES@";

/// Where in a text an insertion stands, and how long it is.
type Place = (usize, usize);

/// The shell that reads a text.
pub(super) struct Reader<'a> {
    pub(super) dialect: Dialect,
    /// Its name, to find it by.
    pub(super) name: &'static str,
    /// The text as it was, for a shell that has to tell it.
    pub(super) restored: Option<&'a [u8]>,
}

/// The function's definition with a separator, for the front of a text with insertions at those
/// places, in order, of those lengths. `launcher` is `Some` iff the text calls it; otherwise it only
/// tells the places.
pub(super) fn prelude(reader: &Reader<'_>, launcher: Option<&[u8]>, places: &[Place]) -> Vec<u8> {
    let quoted = single_quote(launcher.unwrap_or_default());
    let (text, launcher) = match reader.dialect {
        _ if launcher.is_none() => (ONLY_PLACES, quoted),
        // There it stands inside a quoted text.
        Dialect::Bash => (BASH, encode(&quoted, Quote::Single)),
        Dialect::Zsh => (ZSH, quoted),
        Dialect::Posix => (POSIX, quoted),
    };
    let text = text.replace("@NAME@", &format!("@{}", reader.name));
    let pieces: Vec<&[u8]> = text.split("@LAUNCHER@").map(str::as_bytes).collect();
    let mut body = pieces.join(launcher.as_slice());
    if let Some(text) = reader.restored {
        // Not seen in a trace either.
        body.extend_from_slice(b"{ BASH_EXECUTION_STRING=");
        body.extend(one_line(text));
        body.extend_from_slice(b"; } 2>/dev/null; ");
    }
    let Some(at) = memmem::find(&body, PLACES) else {
        return Vec::new();
    };
    let (before, after) = (&body[..at], &body[at + PLACES.len()..]);
    let places = places.iter().map(|(at, length)| format!(",{at}.{length}"));
    let told = format!("@{}{}", after.len(), places.collect::<String>());
    [before, told.as_bytes(), after].concat()
}

/// A text as one word of bash without a line end.
fn one_line(text: &[u8]) -> Vec<u8> {
    let mut out = b"$'".to_vec();
    for &byte in text {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\\' | b'\'' => out.extend([b'\\', byte]),
            _ => out.push(byte),
        }
    }
    out.push(b'\'');
    out
}

/// The places that a prelude tells, and the text behind it.
pub(super) fn read(text: &[u8]) -> Option<(Vec<Place>, &[u8])> {
    let text = text.strip_prefix(START)?;
    let from = memmem::find(text, TOLD)? + TOLD.len();
    let upto = from + memchr::memchr(b')', &text[from..])?;
    let mut told = std::str::from_utf8(&text[from..upto]).ok()?.split(',');
    let length: usize = told.next()?.parse().ok()?;
    let places = told
        .map(|place| {
            let (at, length) = place.split_once('.')?;
            Some((at.parse().ok()?, length.parse().ok()?))
        })
        .collect::<Option<_>>()?;
    Some((places, text.get(upto..)?.get(length..)?))
}

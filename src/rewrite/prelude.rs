//! The one function that a rewritten text calls, for each kind of shell.
//!
//! It keeps everything in its positional parameters, because a variable would be seen by the
//! function or program that it runs:
//!
//! 1. the `$?` that it found; 2. the `$-` that it found; 3. what is asked for (`plan::asked`);
//! 4. `+` if an alias may be meant, else `-`; 5. the command and its arguments.
//!
//! Tracing is off while it works, and the line that turns it off is not seen: its trace goes to
//! `/dev/null`. A status that it found is given back, so that `false; a $? | b &` still sees 1; not
//! under `set -e`, where giving it back would end the shell. `$(exec …)` keeps the launcher a direct
//! child of the shell that adopts itself; it finds that shell by its parent's pid.

use memchr::memmem;

use crate::syntax::Dialect;
use crate::syntax::literal::single_quote;

const START: &[u8] = b"agent_sh() { ";

/// The first words, which every shell understands.
const QUIET: &str = r#"{ set -- "$?" "$-" "$@"; set +x; } 2>/dev/null; "#;

/// The beginning, which every shell understands: the forms with a text, then the parameters. What
/// stands first never matches: it is where the insertions are, for [`read`].
const HEAD: &str = r#"case $3 in @P@) ;; -r) return "$4";; -c|-a) case $3 in -c) eval "$(exec @L@ @agent-sh-adopt ampersand "$4")";; *) eval "$(exec @L@ @agent-sh-adopt "$4" "$5")";; esac; case $2 in *e*) set -- 0 "$2";; esac; case $2 in *x*) set -x;; esac; { return "$1"; } 2>/dev/null;; -w) case $5 in --) eval "shift 5; set -- $1 '$2' $4 - \"\$@\"";; *) eval "shift 4; set -- $1 '$2' $4 + \"\$@\"";; esac;; --) eval "shift 3; set -- $1 '$2' ampersand - \"\$@\"";; *) eval "shift 2; set -- $1 '$2' ampersand + \"\$@\"";; esac; if [ "$#" -lt 5 ]; then case $2 in *x*) set -x;; esac; { return 0; } 2>/dev/null; fi; "#;

/// What bash is asked without a fork where the word is literal. `type -t` has to print. A name that
/// nothing has is reported here: from inside a function bash would name the function's source.
const BASH: &str = r#"if [ "$4" = + ]; then if shopt -q expand_aliases && alias -- "$5" >/dev/null 2>&1; then set -- "$1" "$2" "$3" alias "${@:5}"; elif declare -F -- "$5" >/dev/null 2>&1; then set -- "$1" "$2" "$3" shell "${@:5}"; elif type -P -- "$5" >/dev/null 2>&1; then set -- "$1" "$2" "$3" file "${@:5}"; fi; else set -- "$1" "$2" "$3" "$(unalias -a; type -t -- "$5")" "${@:5}"; fi; case $4$5 in */*|[a-z]*) ;; *) if ! declare -F command_not_found_handle >/dev/null; then if [ "${#FUNCNAME[@]}" -gt 1 ]; then set -- "${BASH_SOURCE[1]}" "${BASH_LINENO[0]}" "$5"; else set -- "$0" "${BASH_LINENO[0]}" "$5"; fi; printf '%s: line %s: %s: command not found\n' "$@" >&2; return 127; fi;; esac; "#;

/// The same for zsh, which would begin its report with the name of the function.
const ZSH: &str = r#"if [ "$4" = + ]; then if [[ -o aliases ]] && alias -- "$5" >/dev/null 2>&1; then set -- "$1" "$2" "$3" alias "${@:5}"; elif functions -- "$5" >/dev/null 2>&1; then set -- "$1" "$2" "$3" shell "${@:5}"; elif whence -p -- "$5" >/dev/null 2>&1; then set -- "$1" "$2" "$3" file "${@:5}"; else set -- "$1" "$2" "$3" none "${@:5}"; fi; else set -- "$1" "$2" "$3" "$(unalias -a; whence -w -- "$5")" "${@:5}"; set -- "$1" "$2" "$3" "${4##*: }" "${@:5}"; fi; case $4$5 in none*/*) ;; none*) if ! functions command_not_found_handler >/dev/null; then if [ "${#funcstack}" -gt 1 ]; then set -- "${functrace[@]:0:1}" "$5"; else set -- "${ZSH_SCRIPT:-zsh}:${${functrace[@]:0:1}##*:}" "$5"; fi; printf '%s: command not found: %s\n' "${1%:0}" "$2" >&2; return 127; fi;; esac; "#;

/// The launch for the shells with slices. Where bash can tell, nothing but a forked child is replaced.
const LAUNCH: &str = r#"case $4 in file|command|hashed) if [ -x @L@ ] && [ "${BASHPID-}" != "$$" ]; then exec @L@ @agent-sh-launch "$3" "${@:5}"; fi;; alias|shell|function|builtin) eval "$(IFS=' '; exec @L@ @agent-sh-adopt "$3" "${*:5}")";; esac; "#;

/// The end for the shells with slices: what is no program runs in the shell that called.
const SLICED: &str = r#"if [ "$4" = alias ]; then case $2 in *x*) set -x;; *e*) ;; *) agent_sh -r "$1";; esac; eval "$5 \"\${@:6}\""; else case $2 in *x*) set -x;; *e*) ;; *) agent_sh -r "$1";; esac; "${@:5}"; fi; }; "#;

/// The end for plain shells.
const POSIX: &str = r#"case $4$(case $4 in -) unalias -a;; esac; command -v -- "$5") in +alias\ *) eval "shift 4; set -- $1 '$2' $3 alias \"\$@\"";; ?*/*) eval "shift 4; set -- $1 '$2' $3 file \"\$@\"";; ?) ;; *) eval "shift 4; set -- $1 '$2' $3 shell \"\$@\"";; esac; case $4 in file) if [ -x @L@ ]; then eval "shift 4; set -- $3 \"\$@\""; exec @L@ @agent-sh-launch "$@"; fi;; alias|shell) eval "$(IFS=' '; eval "shift 4; set -- $3 \"\$*\""; exec @L@ @agent-sh-adopt "$@")";; esac; case $4 in +) shift 4; "$@"; return;; alias) eval "shift 5; case '$2' in *x*) set -x;; *e*) ;; *) agent_sh -r $1;; esac; $5 \"\$@\"";; *) eval "shift 4; case '$2' in *x*) set -x;; *e*) ;; *) agent_sh -r $1;; esac; \"\$@\"";; esac; }; "#;

/// Where the insertions are told: `@`, how long the prelude is from the `)` on, and for each one
/// where in the text it stands and how long it is.
const PLACES: &[u8] = b"case $3 in @";

/// Where in a text an insertion stands, and how long it is.
type Place = (usize, usize);

/// The function's definition with a separator, for the front of a text with insertions at those
/// places, in order, of those lengths. `launcher` is `Some` iff the text calls it; otherwise it only
/// tells the places.
pub(super) fn prelude(dialect: Dialect, launcher: Option<&[u8]>, places: &[Place]) -> Vec<u8> {
    let quoted = single_quote(launcher.unwrap_or_default());
    let fill = |parts: &[&str]| -> Vec<u8> {
        let text = parts.concat();
        let pieces: Vec<&[u8]> = text.split("@L@").map(str::as_bytes).collect();
        pieces.join(quoted.as_slice())
    };
    let body = match dialect {
        _ if launcher.is_none() => b"case $3 in @P@) ;; esac; }; ".to_vec(),
        // Read by the child that runs it, not by the shell before it can start anything: bash takes
        // as long to parse this as for all else of a short command. The end stays outside, because
        // `eval` shows in a trace.
        Dialect::Bash => {
            let mut body = fill(&[QUIET, "eval "]);
            body.extend(single_quote(&fill(&[HEAD, BASH, LAUNCH])));
            body.extend(fill(&["; ", SLICED]));
            body
        }
        Dialect::Zsh => fill(&[QUIET, HEAD, ZSH, LAUNCH, SLICED]),
        Dialect::Posix => fill(&[QUIET, HEAD, POSIX]),
    };
    let Some(at) = memmem::find(&body, b"@P@") else {
        return Vec::new();
    };
    let (before, after) = (&body[..at], &body[at + 3..]);
    let places = places.iter().map(|(at, length)| format!(",{at}.{length}"));
    let told = format!("@{}{}", after.len(), places.collect::<String>());
    [START, before, told.as_bytes(), after].concat()
}

/// The places that a prelude tells, and the text behind it.
pub(super) fn read(text: &[u8]) -> Option<(Vec<Place>, &[u8])> {
    let text = text.strip_prefix(START)?;
    let from = memmem::find(text, PLACES)? + PLACES.len();
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

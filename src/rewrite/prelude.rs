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
const QUIET: &str = r#"{ @B@set -- "$?" "$-" "$@"; @B@set +x; } 2>/dev/null; "#;

/// The beginning, which every shell understands: the forms with a text, then the parameters. What
/// stands first never matches: it is where the insertions are, for [`read`].
const HEAD: &str = r#"case $3 in @P@) ;; -r) @B@return "$4";; -c|-a) case $3 in -c) @B@eval "$(@B@exec @L@ @agent-sh-adopt ampersand @A@ "$4")";; *) @B@eval "$(@B@exec @L@ @agent-sh-adopt "$4" @A@ "$5")";; esac; case $2 in *e*) @B@set -- 0 "$2";; esac; case $2 in *x*) @B@set -x;; esac; { @B@return "$1"; } 2>/dev/null;; -w) case $5 in --) @B@eval "@B@shift 5; @B@set -- $1 '$2' $4 - \"\$@\"";; *) @B@eval "@B@shift 4; @B@set -- $1 '$2' $4 + \"\$@\"";; esac;; --) @B@eval "@B@shift 3; @B@set -- $1 '$2' ampersand - \"\$@\"";; *) @B@eval "@B@shift 2; @B@set -- $1 '$2' ampersand + \"\$@\"";; esac; case $# in [0-4]) case $2 in *x*) @B@set -x;; esac; { @B@return 0; } 2>/dev/null;; esac; "#;

/// What bash is asked without a fork where the word is literal; `type -t` has to print.
const BASH: &str = r#"if [[ $4 = + ]]; then if [[ ":${BASHOPTS-}:" = *:expand_aliases:* && -n ${BASH_ALIASES[$5]+a} ]]; then @B@set -- "$1" "$2" "$3" alias "${@:5}"; elif @B@declare -F -- "$5" >/dev/null 2>&1; then @B@set -- "$1" "$2" "$3" function "${@:5}"; elif @B@type -P -- "$5" >/dev/null 2>&1; then @B@set -- "$1" "$2" "$3" file "${@:5}"; fi; fi; case $4 in +|-) @B@set -- "$1" "$2" "$3" "$(@B@unalias -a; @B@type -t -- "$5")" "${@:5}";; esac; case $4:$5 in *:*/*|alias:*|function:*|builtin:*|file:*) ;; *) if @B@declare -F command_not_found_handle >/dev/null; then @B@set -- "$1" "$2" "$3" missing "${@:5}"; fi;; esac; "#;

/// The same for zsh.
const ZSH: &str = r#"if [[ $4 = + ]]; then if [[ -o aliases ]] && @B@alias -- "$5" >/dev/null 2>&1; then @B@set -- "$1" "$2" "$3" alias "${@:5}"; elif @B@functions -- "$5" >/dev/null 2>&1; then @B@set -- "$1" "$2" "$3" function "${@:5}"; elif @B@whence -p -- "$5" >/dev/null 2>&1; then @B@set -- "$1" "$2" "$3" file "${@:5}"; fi; fi; case $4 in +|-) @B@set -- "$1" "$2" "$3" "$(@B@unalias -a; @B@whence -w -- "$5")" "${@:5}"; @B@set -- "$1" "$2" "$3" "${4##*: }" "${@:5}";; esac; case $4$5 in none*/*) ;; none*) if @B@functions command_not_found_handler >/dev/null; then @B@set -- "$1" "$2" "$3" missing "${@:5}"; fi;; esac; "#;

/// The launch for the shells with slices: of what is a program, and of what is nothing at all, for then
/// the launcher has it reported. Where bash can tell, nothing but a forked child is replaced.
const LAUNCH: &str = r#"case $4 in alias|function|builtin) @B@eval "$(@B@exec @L@ @agent-sh-adopt "$3" @A@ "${@:5}")";; missing) ;; *) if [[ -x @L@ && ${BASHPID-} != "$$" ]]; then @W@; @B@exec @L@ @agent-sh-launch "$3" "$4" "${@:5}"; fi;; esac; "#;

/// The end for the shells with slices: what is no program runs in the shell that called.
const SLICED: &str = r#"if [[ $4 = alias ]]; then case $2 in *x*) @B@set -x;; *e*) ;; *) agent_sh -r "$1";; esac; @B@eval "$5 \"\${@:6}\""; else case $2 in *x*) @B@set -x;; *e*) ;; *) agent_sh -r "$1";; esac; "${@:5}"; fi; }; "#;

/// The end for plain shells.
const POSIX: &str = r#"case $4$(case $4 in -) \command unalias -a;; esac; \command -v -- "$5") in +alias\ *) @B@eval "@B@shift 4; @B@set -- $1 '$2' $3 alias \"\$@\"";; ?*/*|?) @B@eval "@B@shift 4; @B@set -- $1 '$2' $3 file \"\$@\"";; *) @B@eval "@B@shift 4; @B@set -- $1 '$2' $3 shell \"\$@\"";; esac; case $4 in file) if \command [ -x @L@ ]; then @B@eval "@B@shift 4; @B@set -- $3 \"@N@:\$0:\" \"\$@\""; @B@exec @L@ @agent-sh-launch "$@"; fi;; alias|shell) @B@eval "$(@B@eval "@B@shift 4; @B@set -- $3 @A@ \"\$@\""; @B@exec @L@ @agent-sh-adopt "$@")";; esac; case $4 in alias) @B@eval "@B@shift 5; case '$2' in *x*) @B@set -x;; *e*) ;; *) agent_sh -r $1;; esac; $5 \"\$@\"";; *) @B@eval "@B@shift 4; case '$2' in *x*) @B@set -x;; *e*) ;; *) agent_sh -r $1;; esac; \"\$@\"";; esac; }; "#;

/// Where a command stands, as the launcher is told it (`launcher::complaint`), in the fourth parameter. A
/// shell begins its messages with the name of its text; inside a function bash does with the file of that
/// function, and zsh with the function.
const BASH_PLACE: &str =
    r#"@B@set -- "$1" "$2" "$3" "@N@:${BASH_SOURCE[1]:-$0}:${BASH_LINENO[0]}" "${@:5}""#;
const ZSH_PLACE: &str = r#"if [[ ${#funcstack} -gt 1 ]]; then @B@set -- "$1" "$2" "$3" "@N@:${functrace[@]:0:1}" "${@:5}"; else @B@set -- "$1" "$2" "$3" "@N@:${ZSH_SCRIPT:-zsh}:${${functrace[@]:0:1}##*:}" "${@:5}"; fi"#;

/// Where the insertions are told: `@`, how long the prelude is from the `)` on, and for each one
/// where in the text it stands and how long it is.
const PLACES: &[u8] = b"case $3 in @";

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
    // No function or alias of these names comes between: a quoted word is no alias, and functions are
    // not looked for behind `builtin`. dash takes no function with the name of a special builtin. What
    // the launcher prints for `eval` redirects by `exec`, which in bash lasts only behind `command`.
    let (own, how) = match reader.dialect {
        Dialect::Bash => ("\\builtin ", "@command"),
        Dialect::Zsh => ("\\builtin ", "@builtin"),
        Dialect::Posix => ("\\", "@"),
    };
    let place = match reader.dialect {
        Dialect::Bash => BASH_PLACE,
        Dialect::Zsh => ZSH_PLACE,
        Dialect::Posix => "",
    };
    let fill = |parts: &[&str]| -> Vec<u8> {
        let text = parts.concat().replace("@W@", place);
        let text = text.replace("@B@", own).replace("@A@", how);
        let text = text.replace("@N@", &format!("@{}", reader.name));
        let pieces: Vec<&[u8]> = text.split("@L@").map(str::as_bytes).collect();
        pieces.join(quoted.as_slice())
    };
    let mut body = match reader.dialect {
        _ if launcher.is_none() => b"case $3 in @P@) ;; esac; }; ".to_vec(),
        // Read by the child that runs it, not by the shell before it can start anything: bash takes
        // as long to parse this as for all else of a short command. The end stays outside, because
        // `eval` shows in a trace.
        Dialect::Bash => {
            let mut body = fill(&[QUIET, "@B@eval "]);
            body.extend(single_quote(&fill(&[HEAD, BASH, LAUNCH])));
            body.extend(fill(&["; ", SLICED]));
            body
        }
        Dialect::Zsh => fill(&[QUIET, HEAD, ZSH, LAUNCH, SLICED]),
        Dialect::Posix => fill(&[QUIET, HEAD, POSIX]),
    };
    if let Some(text) = reader.restored {
        // Not seen in a trace either.
        body.extend_from_slice(b"{ BASH_EXECUTION_STRING=");
        body.extend(one_line(text));
        body.extend_from_slice(b"; } 2>/dev/null; ");
    }
    let Some(at) = memmem::find(&body, b"@P@") else {
        return Vec::new();
    };
    let (before, after) = (&body[..at], &body[at + 3..]);
    let places = places.iter().map(|(at, length)| format!(",{at}.{length}"));
    let told = format!("@{}{}", after.len(), places.collect::<String>());
    [START, before, told.as_bytes(), after].concat()
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

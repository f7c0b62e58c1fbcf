//! Words that a shell runs itself and that would not mean the same inside our function: they see
//! positional parameters or scopes, read their arguments in their own way, or are grammar.

use crate::syntax::Dialect;

const COMMON: &[&str] = &[
    ".", ":", "[", "alias", "bg", "break", "cd", "command", "continue", "eval", "exec", "exit",
    "export", "false", "fc", "fg", "getopts", "hash", "jobs", "kill", "local", "printf", "pwd",
    "read", "readonly", "return", "set", "shift", "test", "time", "times", "trap", "true", "type",
    "ulimit", "umask", "unalias", "unset", "wait",
];

const BASH: &[&str] = &[
    "bind",
    "builtin",
    "caller",
    "compgen",
    "complete",
    "compopt",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "enable",
    "help",
    "history",
    "let",
    "logout",
    "mapfile",
    "popd",
    "pushd",
    "readarray",
    "shopt",
    "source",
    "suspend",
    "typeset",
];

const ZSH: &[&str] = &[
    "-",
    "autoload",
    "bindkey",
    "builtin",
    "bye",
    "cap",
    "chdir",
    "clone",
    "compctl",
    "declare",
    "dirs",
    "disable",
    "disown",
    "echotc",
    "echoti",
    "emulate",
    "enable",
    "end",
    "float",
    "functions",
    "getln",
    "history",
    "integer",
    "let",
    "limit",
    "log",
    "logout",
    "nocorrect",
    "noglob",
    "popd",
    "print",
    "private",
    "pushd",
    "pushln",
    "rehash",
    "sched",
    "setopt",
    "source",
    "stat",
    "strftime",
    "suspend",
    "ttyctl",
    "typeset",
    "unfunction",
    "unhash",
    "unlimit",
    "unsetopt",
    "vared",
    "where",
    "whence",
    "which",
    "zcompile",
    "zformat",
    "zle",
    "zmodload",
    "zparseopts",
    "zregexparse",
    "zstyle",
];

/// Builtins that only look at their arguments run just as well inside our function, and there the
/// `$?` and the `$_` in those arguments are still those of the command before.
const ARGUMENTS_ONLY: &[&str] = &["[", "echo", "kill", "printf", "pwd", "test"];

pub(super) fn takes_arguments_only(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| ARGUMENTS_ONLY.contains(&name))
}

pub(super) fn is_builtin(name: &[u8], dialect: Dialect) -> bool {
    let Ok(name) = std::str::from_utf8(name) else {
        return false;
    };
    if ARGUMENTS_ONLY.contains(&name) {
        return false;
    }
    COMMON.contains(&name)
        || match dialect {
            Dialect::Bash => BASH.contains(&name),
            // What plain shells know differs: `sh` may be any of them.
            Dialect::Posix => BASH.contains(&name) || name == "chdir",
            Dialect::Zsh => ZSH.contains(&name),
        }
}

//! What we were called as and what for: argv and the file that was executed → role. Pure; the caller says
//! which files exist.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Hidden first arguments, written by `rewrite` into the shell's text.
pub(crate) const LAUNCH: &str = "@agent-sh-launch";
pub(crate) const ADOPT: &str = "@agent-sh-adopt";
/// Hidden first arguments of helpers that we start ourselves: deliver what is pending (with the state
/// directory, and a job to follow), become a hook's program (with its path).
pub(crate) const DELIVER: &str = "@agent-sh-deliver";
pub(crate) const KEEP: &str = "@agent-sh-keep";
/// The helper of `entrypoint --mirror`, with the moment from which on jobs are of interest.
pub(crate) const MIRROR: &str = "@agent-sh-mirror";
pub(crate) const HOOK_PROGRAM: &str = "@agent-sh-exec";

/// The program's own name.
pub(crate) const OWN_NAME: &str = "agent-sh";

/// Names that mean "stand in for that shell".
const SHELLS: &[&str] = &[
    "bash", "sh", "zsh", "dash", "ksh", "mksh", "ash", "rbash", "ksh93",
];

/// Names that mean `entrypoint`: what `docker run --init` calls, and our own.
const INITS: &[&str] = &["docker-init", "agent-sh-init"];
/// The verb that is told from the others before clap is built, because it has to stay small.
const ENTRYPOINT: &str = "entrypoint";

/// The verbs of the command line, here because `-c` must be told from them before clap is built.
pub(crate) const VERBS: &[&str] = &[
    "run",
    "ps",
    "show",
    "logs",
    "wait",
    "kill",
    "restart",
    "rm",
    "send",
    "attach",
    "top",
    "notify",
    "events",
    "gc",
    "parse",
    "ci",
    "entrypoint",
    "setup",
    "hook",
    "doctor",
    "init",
    "completions",
    "man",
    "mcp",
    "help",
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Exec a background command in place: how, then its words.
    Launch(Vec<OsString>),
    /// Register the calling subshell: how, then its text.
    Adopt(Vec<OsString>),
    /// An interposed `nohup` or `setsid`, with its words.
    Interpose(Interposed, Vec<OsString>),
    /// Deliver what is pending: the state directory, and maybe a job to follow.
    Deliver(Vec<OsString>),
    /// Become the program of a hook.
    HookProgram(OsString),
    /// Stays the parent of a program that outlives whoever started it.
    Keep(Vec<OsString>),
    /// Shows on the container's stdout what jobs write.
    Mirror(Vec<OsString>),
    /// PID 1 of a container, or a reaper below it: its options and the command.
    Entrypoint(Vec<OsString>),
    /// A verb of ours; the arguments as they came.
    Verb,
    Shell(ShellCall),
    /// Called by our own name with words that are no verb and no script.
    Unknown(OsString),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interposed {
    Nohup,
    Setsid,
}

impl Interposed {
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nohup => "nohup",
            Self::Setsid => "setsid",
        }
    }
}

/// A call that stands for one of a real shell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShellCall {
    /// The shell that we were executed as; `None` when executed by our own name.
    pub stands_for: Option<String>,
    /// Executed as `agent-sh-bash` and the like: the name is for the harness's eyes.
    pub disguised: bool,
    /// How the real shell is to be called.
    pub argv0: Argv0,
    /// The arguments for the real shell.
    pub args: Vec<OsString>,
    pub form: Form,
    /// Called by our own name with one argument and no `-c`: `args` is not what came.
    pub is_bare: bool,
}

/// argv[0] for the real shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Argv0 {
    /// What came: `$0`, the prefix of messages, posix mode and login depend on it.
    Given(OsString),
    /// We were called by a name of our own, which the shell is not to show: its own name.
    Own { login: bool },
}

/// Where the shell gets its commands from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `-c`: `args[index]` is the text.
    Command {
        index: usize,
    },
    Script,
    Stdin,
    /// Nothing to supervise: a person at a terminal, `-n`, `--version`, or a mistake the shell will explain.
    Untouched,
}

/// What a name says of us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named<'a> {
    Shell {
        name: &'a str,
        disguised: bool,
    },
    Interposed(Interposed),
    /// PID 1 of a container.
    Init,
    /// Our own name, or one that somebody gave to us or to the call.
    Nothing,
}

fn named(base: &str) -> Named<'_> {
    if INITS.contains(&base) {
        return Named::Init;
    }
    let (name, disguised) = match base.strip_prefix("agent-sh-") {
        Some(inner) => (inner, true),
        None => (base, false),
    };
    match name {
        "nohup" => Named::Interposed(Interposed::Nohup),
        "setsid" => Named::Interposed(Interposed::Setsid),
        _ if SHELLS.contains(&name) => Named::Shell { name, disguised },
        _ => Named::Nothing,
    }
}

/// Whether `executed` is a script, and we are only the interpreter that its first line names: the kernel
/// notes the script as what was executed, and puts it among our arguments. (Behind the words of that
/// line, at most one of each script where the interpreter of one is another.)
fn is_script(executed: &OsStr, rest: &[OsString]) -> bool {
    rest.iter().take(4).any(|arg| arg == executed)
}

/// Reads the arguments of this process. `executed` is the file that the kernel was told to execute.
///
/// That file says whom we stand for. argv[0] is the caller's to choose (`exec -a name bash`, `-su`), and
/// only passed on. It decides where the file says nothing: the program by its own name, a descriptor
/// (`/dev/fd/5`), the dynamic linker, a script.
pub(crate) fn read(
    args: &[OsString],
    executed: Option<&OsStr>,
    stdin_is_terminal: impl Fn() -> bool,
    is_file: impl Fn(&OsStr) -> bool,
) -> Role {
    let given = args.first().cloned().unwrap_or_default();
    let rest = args.get(1..).unwrap_or_default();
    match rest.first().and_then(|arg| arg.to_str()) {
        Some(LAUNCH) => return Role::Launch(rest[1..].to_vec()),
        Some(ADOPT) => return Role::Adopt(rest[1..].to_vec()),
        Some(DELIVER) => return Role::Deliver(rest[1..].to_vec()),
        Some(KEEP) => return Role::Keep(rest[1..].to_vec()),
        Some(MIRROR) => return Role::Mirror(rest[1..].to_vec()),
        Some(HOOK_PROGRAM) if rest.len() == 2 => return Role::HookProgram(rest[1].clone()),
        _ => {}
    }
    let (base, login) = base_name(&given);
    let file = executed
        .filter(|path| !is_script(path, rest))
        .map(|path| base_name(path).0);
    let by_file = file.as_deref().map_or(Named::Nothing, named);
    let whom = match by_file {
        Named::Nothing => named(&base),
        known => known,
    };
    // A name that is the file's own tells a caller's choice from none: whoever renamed us did not mean
    // the shell's `$0`.
    let is_own = base == OWN_NAME
        || whom == Named::Nothing && file.as_ref().is_none_or(|file| *file == base);
    let call = |args: Vec<OsString>, form, is_bare| {
        let (stands_for, disguised) = match whom {
            Named::Shell { name, disguised } => (Some(name.to_owned()), disguised),
            _ => (None, false),
        };
        Role::Shell(ShellCall {
            stands_for,
            disguised,
            argv0: if is_own {
                Argv0::Own { login }
            } else {
                Argv0::Given(given.clone())
            },
            args,
            form,
            is_bare,
        })
    };
    match whom {
        Named::Shell { .. } => {
            return call(rest.to_vec(), form_of(rest, &stdin_is_terminal), false);
        }
        Named::Interposed(what) => return Role::Interpose(what, rest.to_vec()),
        Named::Init => return Role::Entrypoint(rest.to_vec()),
        Named::Nothing => {}
    }
    let Some(first) = rest.first() else {
        return call(Vec::new(), form_of(rest, &stdin_is_terminal), false);
    };
    let word = first.to_string_lossy();
    if word == ENTRYPOINT {
        return Role::Entrypoint(rest[1..].to_vec());
    }
    if VERBS.contains(&&*word) || matches!(&*word, "--help" | "-h" | "--version" | "-V") {
        return Role::Verb;
    }
    // With more words behind it, a path is a script, there or not: the shell says what is wrong.
    let is_path = rest.len() > 1 && word.contains('/');
    if word.starts_with(['-', '+']) || is_path || is_file(first) {
        return call(rest.to_vec(), form_of(rest, &stdin_is_terminal), false);
    }
    if rest.len() == 1 {
        // Claude Code's SHELL_PREFIX: the whole command is one argument.
        let args = vec![OsString::from("-c"), first.clone()];
        return call(args, Form::Command { index: 1 }, true);
    }
    Role::Unknown(first.clone())
}

/// The last part of a name, without the dash of a login shell, and whether it had one.
pub(crate) fn base_name(name: &OsStr) -> (String, bool) {
    let bytes = name.as_bytes();
    let base = bytes.rsplit(|&byte| byte == b'/').next().unwrap_or(bytes);
    let plain = base.strip_prefix(b"-");
    let text = String::from_utf8_lossy(plain.unwrap_or(base)).into_owned();
    (text, plain.is_some())
}

/// Finds the text among a shell's arguments: options may come before and after `-c`, clusters may
/// hold several letters, and `o` and `O` take the arguments that follow their cluster.
fn form_of(args: &[OsString], stdin_is_terminal: &impl Fn() -> bool) -> Form {
    let (mut command, mut stdin) = (false, false);
    let mut index = 0;
    while let Some(arg) = args.get(index) {
        let arg = arg.as_bytes();
        index += 1;
        match arg {
            b"--" | b"-" => break,
            b"--help" | b"--version" | b"--dump-strings" | b"--dump-po-strings" => {
                return Form::Untouched;
            }
            b"--rcfile" | b"--init-file" | b"--emulate" => index += 1,
            [b'-', b'-', ..] => {}
            [sign @ (b'-' | b'+'), letters @ ..] if !letters.is_empty() => {
                let set = *sign == b'-';
                for letter in letters {
                    match letter {
                        b'c' if set => command = true,
                        b's' if set => stdin = true,
                        b'n' | b'D' if set => return Form::Untouched,
                        b'o' | b'O' => index += 1,
                        _ => {}
                    }
                }
            }
            _ => {
                index -= 1;
                break;
            }
        }
    }
    let first = args.get(index);
    match (command, first) {
        (true, Some(_)) => Form::Command { index },
        (true, None) => Form::Untouched,
        (false, Some(_)) if !stdin => Form::Script,
        _ if stdin_is_terminal() => Form::Untouched,
        // Also with `-i`: a program types there, not a person. It has a supervisor like any other script,
        // so that a call below it is a nested one, whose `$PPID` is this shell.
        _ => Form::Stdin,
    }
}

#[cfg(test)]
mod tests;

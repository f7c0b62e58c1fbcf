//! What we were called as and what for: argv → role. Pure; the caller says which files exist.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Hidden first arguments, written by `rewrite` into the shell's text.
pub const LAUNCH: &str = "@agent-sh-launch";
pub const ADOPT: &str = "@agent-sh-adopt";
/// Hidden first arguments of helpers that we start ourselves: deliver what is pending (with the state
/// directory, and a job to follow), become a hook's program (with its path).
pub const DELIVER: &str = "@agent-sh-deliver";
pub const KEEP: &str = "@agent-sh-keep";
pub const HOOK_PROGRAM: &str = "@agent-sh-exec";

/// The program's own name.
pub const OWN_NAME: &str = "agent-sh";

/// Names that mean "stand in for that shell".
const SHELLS: &[&str] = &[
    "bash", "sh", "zsh", "dash", "ksh", "mksh", "ash", "rbash", "ksh93",
];

/// Names that mean `entrypoint`: what `docker run --init` calls, and our own.
const INITS: &[&str] = &["docker-init", "agent-sh-init"];
/// The verb that is told from the others before clap is built, because it has to stay small.
const ENTRYPOINT: &str = "entrypoint";

/// The verbs of the command line, here because `-c` must be told from them before clap is built.
pub const VERBS: &[&str] = &[
    "run",
    "ps",
    "show",
    "logs",
    "wait",
    "kill",
    "send",
    "attach",
    "top",
    "notify",
    "events",
    "gc",
    "parse",
    "entrypoint",
    "setup",
    "hook",
    "doctor",
    "init",
    "completions",
    "man",
    "help",
];

#[derive(Debug, PartialEq, Eq)]
pub enum Role {
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
    /// PID 1 of a container, or a reaper below it: its options and the command.
    Entrypoint(Vec<OsString>),
    /// A verb of ours; the arguments as they came.
    Verb,
    Shell(ShellCall),
    /// Called by our own name with words that are no verb and no script.
    Unknown(OsString),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interposed {
    Nohup,
    Setsid,
}

impl Interposed {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nohup => "nohup",
            Self::Setsid => "setsid",
        }
    }
}

/// A call that stands for one of a real shell.
#[derive(Debug, PartialEq, Eq)]
pub struct ShellCall {
    /// The shell that argv[0] names; `None` when called by our own name.
    pub stands_for: Option<String>,
    /// Called as `agent-sh-bash` and the like: the name is for the harness's eyes.
    pub disguised: bool,
    /// argv[0] as it came.
    pub argv0: OsString,
    /// The arguments for the real shell.
    pub args: Vec<OsString>,
    pub form: Form,
    /// Called by our own name with one argument and no `-c`: `args` is not what came.
    pub is_bare: bool,
}

/// Where the shell gets its commands from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `-c`: `args[index]` is the text.
    Command {
        index: usize,
    },
    Script,
    Stdin,
    /// Nothing to supervise: interactive, `-n`, `--version`, or a mistake the shell will explain.
    Untouched,
}

/// Reads the arguments of this process.
pub fn read(
    args: &[OsString],
    stdin_is_terminal: impl Fn() -> bool,
    is_file: impl Fn(&OsStr) -> bool,
) -> Role {
    let argv0 = args.first().cloned().unwrap_or_default();
    let rest = args.get(1..).unwrap_or_default();
    match rest.first().and_then(|arg| arg.to_str()) {
        Some(LAUNCH) => return Role::Launch(rest[1..].to_vec()),
        Some(ADOPT) => return Role::Adopt(rest[1..].to_vec()),
        Some(DELIVER) => return Role::Deliver(rest[1..].to_vec()),
        Some(KEEP) => return Role::Keep(rest[1..].to_vec()),
        Some(HOOK_PROGRAM) if rest.len() == 2 => return Role::HookProgram(rest[1].clone()),
        _ => {}
    }
    let name = base_name(&argv0);
    if INITS.contains(&name.as_str()) {
        return Role::Entrypoint(rest.to_vec());
    }
    let (name, disguised) = match name.strip_prefix("agent-sh-") {
        Some(inner) => (inner, true),
        None => (name.as_str(), false),
    };
    let call = |stands_for, args: Vec<OsString>, form| {
        Role::Shell(ShellCall {
            stands_for,
            disguised,
            argv0: argv0.clone(),
            args,
            form,
            is_bare: false,
        })
    };
    if SHELLS.contains(&name) {
        let form = form_of(rest, &stdin_is_terminal);
        return call(Some(name.to_owned()), rest.to_vec(), form);
    }
    match name {
        "nohup" => return Role::Interpose(Interposed::Nohup, rest.to_vec()),
        "setsid" => return Role::Interpose(Interposed::Setsid, rest.to_vec()),
        _ => {}
    }
    let Some(first) = rest.first() else {
        return call(None, Vec::new(), form_of(rest, &stdin_is_terminal));
    };
    let word = first.to_string_lossy();
    if word == ENTRYPOINT {
        return Role::Entrypoint(rest[1..].to_vec());
    }
    if VERBS.contains(&&*word) || matches!(&*word, "--help" | "-h" | "--version" | "-V") {
        return Role::Verb;
    }
    if word.starts_with(['-', '+']) || is_file(first) {
        return call(None, rest.to_vec(), form_of(rest, &stdin_is_terminal));
    }
    if rest.len() == 1 {
        // Claude Code's SHELL_PREFIX: the whole command is one argument.
        return Role::Shell(ShellCall {
            stands_for: None,
            disguised,
            argv0: argv0.clone(),
            args: vec![OsString::from("-c"), first.clone()],
            form: Form::Command { index: 1 },
            is_bare: true,
        });
    }
    Role::Unknown(first.clone())
}

/// The last part of argv[0], without the dash of a login shell.
fn base_name(argv0: &OsStr) -> String {
    let bytes = argv0.as_bytes();
    let base = bytes.rsplit(|&byte| byte == b'/').next().unwrap_or(bytes);
    String::from_utf8_lossy(base.strip_prefix(b"-").unwrap_or(base)).into_owned()
}

/// Finds the text among a shell's arguments: options may come before and after `-c`, clusters may
/// hold several letters, and `o` and `O` take the arguments that follow their cluster.
fn form_of(args: &[OsString], stdin_is_terminal: &impl Fn() -> bool) -> Form {
    let (mut command, mut stdin, mut interactive) = (false, false, false);
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
                        b'i' if set => interactive = true,
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
        _ if interactive || stdin_is_terminal() => Form::Untouched,
        _ => Form::Stdin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(line: &[&str]) -> Role {
        let args: Vec<OsString> = line.iter().map(OsString::from).collect();
        read(
            &args,
            || false,
            |path| path == "script.sh" || path == "/x/s",
        )
    }

    fn form(line: &[&str]) -> Form {
        match role(line) {
            Role::Shell(call) => call.form,
            other => panic!("{line:?} is {other:?}"),
        }
    }

    #[test]
    fn finds_the_text_among_the_options() {
        let at = |index| Form::Command { index };
        let cases: &[(&[&str], Form)] = &[
            (&["bash", "-c", "x"], at(1)),
            (&["bash", "-c", "x", "name", "arg"], at(1)),
            (&["bash", "-lc", "x"], at(1)),
            (&["bash", "-l", "-c", "x"], at(2)),
            (&["bash", "-c", "-l", "x"], at(2)),
            (&["bash", "-ic", "x"], at(1)),
            (&["bash", "-lic", "x"], at(1)),
            (&["bash", "-ec", "x"], at(1)),
            (&["bash", "-euo", "pipefail", "-c", "x"], at(3)),
            (&["bash", "-euoc", "pipefail", "x"], at(2)),
            (
                &["bash", "-o", "pipefail", "-o", "errexit", "-c", "x"],
                at(5),
            ),
            (&["bash", "+x", "-c", "x"], at(2)),
            (&["bash", "+o", "posix", "-c", "x"], at(3)),
            (&["bash", "-O", "extglob", "-c", "x"], at(3)),
            (&["bash", "--login", "--norc", "--posix", "-c", "x"], at(4)),
            (&["bash", "--rcfile", "f", "-c", "x"], at(3)),
            (&["bash", "-c", "--", "-x"], at(2)),
            (&["-bash", "-c", "x"], at(1)),
            (&["/usr/bin/zsh", "-fc", "x"], at(1)),
            (&["zsh", "--emulate", "sh", "-c", "x"], at(3)),
            (&["bash", "-c"], Form::Untouched),
            (&["bash", "-n", "-c", "x"], Form::Untouched),
            (&["bash", "--version"], Form::Untouched),
            (&["bash", "-i"], Form::Untouched),
            (&["bash"], Form::Stdin),
            (&["bash", "-s", "a", "b"], Form::Stdin),
            (&["bash", "script.sh", "-c", "x"], Form::Script),
            (&["bash", "-x", "anything", "a"], Form::Script),
            (&["agent-sh", "-lc", "x"], at(1)),
            (&["agent-sh", "script.sh", "a"], Form::Script),
            (&["agent-sh", "make -j2 && echo ok"], at(1)),
            (&["agent-sh", "ls"], at(1)),
            (&["/opt/agent-sh-bash", "-c", "x"], at(1)),
            (&["agent-sh"], Form::Stdin),
        ];
        for (line, expected) in cases {
            assert_eq!(form(line), *expected, "{line:?}");
        }
    }

    #[test]
    fn tells_whom_it_stands_for() {
        let stands = |line: &[&str]| match role(line) {
            Role::Shell(call) => (call.stands_for, call.disguised),
            other => panic!("{other:?}"),
        };
        assert_eq!(stands(&["-bash", "-c", "x"]), (Some("bash".into()), false));
        assert_eq!(
            stands(&["/x/agent-sh-bash", "-c", "x"]),
            (Some("bash".into()), true)
        );
        assert_eq!(stands(&["agent-sh", "-c", "x"]), (None, false));
        assert_eq!(stands(&["renamed", "-c", "x"]), (None, false));
    }

    #[test]
    fn verbs_and_the_rest() {
        assert_eq!(role(&["agent-sh", "ps"]), Role::Verb);
        assert_eq!(role(&["agent-sh", "--help"]), Role::Verb);
        assert_eq!(
            role(&["agent-sh", "wiat", "7f3k"]),
            Role::Unknown("wiat".into())
        );
        assert_eq!(
            role(&["bash", LAUNCH, "ampersand", "sleep"]),
            Role::Launch(vec!["ampersand".into(), "sleep".into()])
        );
        assert!(matches!(role(&["bash", "--help"]), Role::Shell(_)));
        assert_eq!(
            role(&["/s/nohup", "a", "b"]),
            Role::Interpose(Interposed::Nohup, vec!["a".into(), "b".into()])
        );
    }
}

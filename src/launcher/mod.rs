//! The launcher: between the shell's fork and a job's program. It registers the process with the
//! supervisor, moves its output to the terminal it is given, starts a session, and becomes the
//! program, so that the pid in `$!` is the program itself. Whatever goes wrong, the program runs; if it
//! cannot run at all, the shell that asked for it is the one to say so (`complaint`).

mod complaint;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::error::Error;
use crate::invocation::Interposed;
use crate::job::How;
use crate::plan::asked::Asked;
use crate::plan::unwrap::{nohup_words, setsid_options, unwrap};
use crate::shell::{self, Ourselves};
use crate::sys::process::{self, Forked, Image};
use crate::sys::{fds, pause, proc, session, signal};
use crate::wire::{self, Address, Register, Registered};
use crate::{message, rewrite};
use complaint::Place;

/// How long a supervisor may take to answer before the program runs without it.
const PATIENCE_MS: i32 = 5000;

/// `@agent-sh-launch ASKED PLACE CMD ARG…`: becomes CMD as a job. Returns only when that failed.
pub(crate) fn launch(words: &[OsString]) -> u8 {
    let Some((asked, rest)) = words.split_first() else {
        return 125;
    };
    let asked = Asked::read(asked.as_bytes());
    // A shell that was started before an update tells no place.
    let place = rest.first().and_then(|word| Place::read(word, asked.line));
    let argv = &rest[usize::from(place.is_some())..];
    start(
        asked,
        place.as_ref(),
        argv,
        wire::nested_supervisor(),
        false,
    )
}

/// An interposed `nohup CMD…` or `setsid CMD…`: inside a supervised tree it starts a job, outside it is
/// the original.
pub(crate) fn interpose(what: Interposed, words: &[OsString]) -> u8 {
    let supervisor = wire::nested_supervisor();
    let given = bytes(words);
    let setsid = setsid_options(&given);
    let plain = match what {
        Interposed::Nohup => nohup_words(&given).is_some(),
        Interposed::Setsid => setsid.is_some_and(|(_, own)| own < words.len()),
    };
    if supervisor.is_none() || !plain {
        return original(what, words);
    }
    let mut argv = vec![OsString::from(what.name())];
    argv.extend(words.iter().cloned());
    if what == Interposed::Setsid {
        let options = setsid.map(|(options, _)| options).unwrap_or_default();
        // Like the original: a group leader cannot start a session and forks.
        if options.forks || session::own_group() == session::pid() {
            match process::fork() {
                Ok(Forked::Parent(pid)) if options.waits => return wait_for_child(pid),
                Ok(Forked::Parent(_)) => return 0,
                Ok(Forked::Child) | Err(_) => {}
            }
        }
    }
    // It may be in the foreground, and then its input is the command's.
    let asked = Asked {
        stdin: true,
        ..Asked::plain(How::Ampersand)
    };
    start(asked, None, &argv, supervisor, what == Interposed::Nohup)
}

fn wait_for_child(pid: i32) -> u8 {
    process::wait_for(pid).map_or(125, |status| {
        crate::job::Outcome::from_wait_status(status).shell_code()
    })
}

/// Runs the real `nohup` or `setsid`.
fn original(what: Interposed, words: &[OsString]) -> u8 {
    let name = OsStr::new(what.name());
    let Some(path) = Ourselves::find().look_up(name, std::env::var_os("PATH").as_deref()) else {
        return message::error(&Error::Start {
            program: PathBuf::from(name),
            source: std::io::Error::from_raw_os_error(libc::ENOENT),
        });
    };
    let mut argv = vec![name.to_owned()];
    argv.extend(words.iter().cloned());
    let source = Image::new(&path, &argv, &[]).child_exec();
    message::error(&Error::Start {
        program: path,
        source,
    })
}

fn bytes(words: &[OsString]) -> Vec<&[u8]> {
    words.iter().map(|word| word.as_bytes()).collect()
}

fn start(
    asked: Asked,
    place: Option<&Place>,
    given: &[OsString],
    supervisor: Option<Address>,
    keep_hangup: bool,
) -> u8 {
    let unwrapped = unwrap(&bytes(given));
    let how = asked.how.or_more_explicit(unwrapped.how);
    let kept = unwrapped.kept.iter();
    let argv: Vec<OsString> = kept.map(|&index| given[index].clone()).collect();
    let Some(program) = argv.first() else {
        return 125;
    };
    let found = shell::find_program(program);
    if let Some(place) = place
        && !found.as_deref().is_some_and(shell::is_program)
    {
        // No job: the shell only has to say why, on the stream that it would have used.
        return place.complain(given, &[]);
    }
    pause::at(c"launcher-unregistered");
    let answer = supervisor.and_then(|address| {
        register(
            address,
            Register {
                asked: Asked { how, ..asked },
                pid: session::pid(),
                answer_pid: session::pid(),
                answer_fd: 0,
                text: rewrite::shown(bytes(given)).into_bytes(),
            },
        )
    });
    pause::at(c"launcher-registered");
    let mut extra: Vec<Vec<u8>> = Vec::new();
    // Also when no supervisor could be reached: a kill of the shell's group does not mean the job.
    let in_own_session = session::child_new_session().is_ok();
    if let Some(answer) = &answer {
        take_streams(answer);
        if in_own_session {
            // The shell had them ignored because the job shared its terminal's signals.
            let reset = [
                (libc::SIGINT, answer.int_ignored),
                (libc::SIGQUIT, answer.quit_ignored),
            ];
            let reset: Vec<i32> = reset
                .iter()
                .filter(|(_, keep)| !keep)
                .map(|(s, _)| *s)
                .collect();
            signal::reset(&reset);
        } else if answer.hangups {
            signal::ignore(&[libc::SIGHUP]);
        }
        extra = wire::job_environment(&answer.id, answer.tty);
    }
    if unwrapped.nohups > 0 || keep_hangup {
        signal::ignore(&[libc::SIGHUP]);
    }
    let path = found.unwrap_or_else(|| PathBuf::from(program));
    if std::env::var_os("_").is_some() {
        // The shell names the program it starts; that is not us.
        extra.push([b"_=", path.as_os_str().as_bytes()].concat());
    }
    let error = Image::new(&path, &argv, &extra).child_exec();
    if error.raw_os_error() == Some(libc::ENOEXEC) && complaint::is_text(&path) {
        // A script without a `#!` line: the shell itself would have read it.
        let shell = answer.map(|answer| PathBuf::from(answer.shell));
        let shell = place.map_or(shell, Place::reader);
        let shell = shell.filter(|shell| !shell.as_os_str().is_empty());
        let shell = shell.unwrap_or_else(|| PathBuf::from("/bin/sh"));
        let mut script = vec![shell.clone().into_os_string(), path.into_os_string()];
        script.extend(argv[1..].iter().cloned());
        let source = Image::new(&shell, &script, &extra).child_exec();
        return message::error(&Error::Start {
            program: shell,
            source,
        });
    }
    if let Some(place) = place {
        return place.complain(given, &extra);
    }
    message::error(&Error::Start {
        program: PathBuf::from(program),
        source: error,
    })
}

/// `@agent-sh-adopt ASKED PREFIX WORD…`: registers the calling subshell and prints what it has to do.
/// PREFIX says which word keeps functions from standing in for the shell's own commands: `@builtin`,
/// `@command`, or none (`@`).
pub(crate) fn adopt(words: &[OsString]) -> u8 {
    let Some((asked, words)) = words.split_first() else {
        return 125;
    };
    let (prefix, words) = match words.split_first() {
        Some((word, rest)) if word == "@builtin" => ("\\builtin \\", rest),
        Some((word, rest)) if word == "@command" => ("\\command \\", rest),
        Some((word, rest)) if word == "@" => ("\\", rest),
        _ => ("", words),
    };
    let text = words.join(OsStr::new(" "));
    let asked = Asked::read(asked.as_bytes());
    let Some(address) = wire::nested_supervisor() else {
        return 0;
    };
    let subshell = session::parent_pid();
    if subshell == address.pid {
        // The subshell was killed meanwhile.
        return 0;
    }
    pause::at(c"adoption-unregistered");
    let answer = register(
        address,
        Register {
            asked,
            pid: subshell,
            answer_pid: session::pid(),
            answer_fd: 0,
            text: text.into_vec(),
        },
    );
    pause::at(c"adoption-registered");
    let Some(answer) = answer else { return 0 };
    let mut script = String::new();
    let mut add = |line: &str| {
        script.push_str(prefix);
        script.push_str(line);
        script.push('\n');
    };
    if answer.stdin && fds::open_path("/dev/null", libc::O_RDONLY).is_ok() {
        add("exec 0</dev/null");
    }
    // `>|` also where noclobber is set; a device is never truncated.
    // A redirection that fails would end a POSIX shell, so it is tried here first.
    for (fd, path) in answer.replaced() {
        if fds::open_path(path, libc::O_WRONLY).is_ok() {
            add(&format!("exec {fd}>|{path}"));
        }
    }
    if answer.hangups {
        add("trap '' HUP");
    }
    // A variable that cannot be set is left as it is, without a word and without the shell's end.
    let variables = wire::job_environment(&answer.id, answer.tty);
    if !variables.is_empty() {
        let variables = variables.join(&b' ');
        let word = if prefix == "\\" {
            "\\command \\"
        } else {
            prefix
        };
        let line = format!(
            "{word}export {} 2>/dev/null\n",
            String::from_utf8_lossy(&variables)
        );
        script.push_str(&line);
    }
    drop(std::io::stdout().write_all(script.as_bytes()));
    0
}

/// Asks the supervisor and waits for its answer; `None` when it does not come.
fn register(address: Address, mut request: Register) -> Option<Registered> {
    let (answers, answer_end) = fds::pipe().ok()?;
    request.answer_fd = answer_end.as_raw_fd();
    let supervisor: OwnedFd = proc::pidfd_open(address.pid).ok()?;
    // Looked at after the pidfd was opened: it is the supervisor's, not that of a later process.
    if !address.is_live() {
        return None;
    }
    // A supervisor that was stopped does not read: its pipe may be full.
    let flags = libc::O_WRONLY | libc::O_NONBLOCK;
    let requests = fds::open_path(&address.pipe_path(), flags).ok()?;
    if !fds::wait_writable(requests.as_raw_fd(), PATIENCE_MS) {
        return None;
    }
    nix::unistd::write(&requests, &request.encode()).ok()?;
    let ready = fds::wait_readable(&[answers.as_raw_fd(), supervisor.as_raw_fd()], PATIENCE_MS);
    if !ready[0] {
        return None;
    }
    let mut bytes = [0u8; 4096];
    let count = nix::unistd::read(&answers, &mut bytes).ok()?;
    Registered::decode(&bytes[..count])
}

/// Puts the job's terminals, and for stdin `/dev/null`, in place of the streams that were still the
/// command's own.
fn take_streams(answer: &Registered) {
    if answer.stdin
        && let Ok(null) = fds::open_path("/dev/null", libc::O_RDONLY)
    {
        drop(fds::put(null.as_raw_fd(), 0));
    }
    // Where terminals have run out meanwhile, one of them is a pipe.
    let flags = |path: &str| match answer.tty && path.starts_with("/dev/") {
        true => libc::O_RDWR,
        false => libc::O_WRONLY,
    };
    let mut opened: Option<(&str, OwnedFd)> = None;
    for (fd, path) in answer.replaced() {
        if opened.as_ref().is_none_or(|(known, _)| *known != path) {
            opened = fds::open_path(path, flags(path))
                .ok()
                .map(|new| (path, new));
        }
        if let Some((_, output)) = &opened {
            drop(fds::put(output.as_raw_fd(), fd));
        }
    }
}

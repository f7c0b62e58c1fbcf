//! The launcher: between the shell's fork and a job's program. It registers the process with the
//! supervisor, moves its output to the terminal it is given, starts a session, and becomes the
//! program, so that the pid in `$!` is the program itself. Whatever goes wrong, the program runs.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::error::Error;
use crate::handoff::{self, Address, Register, Registered};
use crate::invocation::Interposed;
use crate::job::How;
use crate::plan::asked::Asked;
use crate::plan::unwrap::{nohup_words, setsid_options, unwrap};
use crate::shell::{self, Ourselves};
use crate::sys::process::{self, Forked, Image};
use crate::sys::{fds, proc, session, signal};
use crate::{message, rewrite};

/// How long a supervisor may take to answer before the program runs without it.
const PATIENCE_MS: i32 = 5000;

/// `@agent-sh-launch ASKED CMD ARG…`: becomes CMD as a job. Returns only when that failed.
pub fn launch(words: &[OsString], supervisor: Option<Address>) -> u8 {
    let Some((asked, argv)) = words.split_first() else {
        return 125;
    };
    start(Asked::read(asked.as_bytes()), argv, supervisor, false)
}

/// An interposed `nohup CMD…` or `setsid CMD…`: inside a supervised tree it starts a job, outside it is
/// the original.
pub fn interpose(what: Interposed, words: &[OsString], supervisor: Option<Address>) -> u8 {
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
    let asked = Asked {
        how: How::Ampersand,
        pipe: false,
    };
    start(asked, &argv, supervisor, what == Interposed::Nohup)
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

fn start(asked: Asked, given: &[OsString], supervisor: Option<Address>, keep_hangup: bool) -> u8 {
    let unwrapped = unwrap(&bytes(given));
    let how = asked.how.or_more_explicit(unwrapped.how);
    let kept = unwrapped.kept.iter();
    let argv: Vec<OsString> = kept.map(|&index| given[index].clone()).collect();
    let Some(program) = argv.first() else {
        return 125;
    };
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
    let mut extra: Vec<Vec<u8>> = Vec::new();
    // Also when no supervisor could be reached: a kill of the shell's group does not mean the job.
    let in_own_session = session::child_new_session().is_ok();
    if let Some(answer) = &answer {
        take_output(answer);
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
        extra = handoff::job_environment(&answer.id, answer.tty);
    }
    if unwrapped.nohups > 0 || keep_hangup {
        signal::ignore(&[libc::SIGHUP]);
    }
    let path = shell::find_program(program).unwrap_or_else(|| PathBuf::from(program));
    if std::env::var_os("_").is_some() {
        // The shell names the program it starts; that is not us.
        extra.push([b"_=", path.as_os_str().as_bytes()].concat());
    }
    let error = Image::new(&path, &argv, &extra).child_exec();
    if error.raw_os_error() == Some(libc::ENOEXEC) {
        // A script without a `#!` line: the shell itself would have read it.
        let shell = answer
            .map(|answer| answer.shell)
            .filter(|shell| !shell.is_empty());
        let shell = PathBuf::from(shell.unwrap_or_else(|| "/bin/sh".to_owned()));
        let mut script = vec![shell.clone().into_os_string(), path.into_os_string()];
        script.extend(argv[1..].iter().cloned());
        let source = Image::new(&shell, &script, &extra).child_exec();
        return message::error(&Error::Start {
            program: shell,
            source,
        });
    }
    message::error(&Error::Start {
        program: PathBuf::from(program),
        source: error,
    })
}

/// `@agent-sh-adopt ASKED TEXT`: registers the calling subshell and prints what it has to do.
pub fn adopt(words: &[OsString], supervisor: Option<Address>) -> u8 {
    let [asked, text] = words else { return 125 };
    let asked = Asked::read(asked.as_bytes());
    let Some(address) = supervisor else { return 0 };
    let subshell = session::parent_pid();
    if subshell == address.pid {
        // The subshell was killed meanwhile.
        return 0;
    }
    let answer = register(
        address,
        Register {
            asked,
            pid: subshell,
            answer_pid: session::pid(),
            answer_fd: 0,
            text: text.clone().into_vec(),
        },
    );
    let Some(answer) = answer else { return 0 };
    let mut script = String::new();
    let mut add = |line: &str| {
        script.push_str(line);
        script.push('\n');
    };
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
    for entry in handoff::job_environment(&answer.id, answer.tty) {
        add(&format!("export {}", String::from_utf8_lossy(&entry)));
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

/// Puts the job's terminals in place of the streams that were still the command's own.
fn take_output(answer: &Registered) {
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

//! The front: the process that the harness started. It stands for `sh -c`: finds the real shell,
//! hands the work to a supervisor, passes signals on, and ends as the shell ended.
//!
//! Nothing here may be slow: every command of an agent goes through it. Whatever fails before the
//! real shell runs ends in running the real shell on the untouched text, in this very process.

mod orphans;
mod tell;
mod terminal;

use std::ffi::{CStr, OsStr, OsString};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::error::{Error, Result};
use crate::invocation::{self, Argv0, Form, ShellCall};
use crate::session::own_command;
use crate::settings::Settings;
use crate::shell::{self, Ourselves, RealShell};
use crate::sys::affinity::Affinity;
use crate::sys::detach::{self, Detached};
use crate::sys::process::{self, Image};
use crate::sys::signal::{self, SignalFd};
use crate::sys::{fds, pause, session};
use crate::text::quote_all;
use crate::wire::{
    CHANGED_SIGNALS, FrontLink, LoneJob, RunRequest, SUPERVISOR_TITLE, SupervisorLink, ToFront,
    ToSupervisor, Work,
};
use crate::{config, message, plan, rewrite, wire};

use terminal::{Meant, Next, Terminal};

/// Signals that go on to the foreground.
const FORWARDED: &[i32] = &[
    libc::SIGCONT,
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// How often and how long apart a fork is tried when the system has no room for a process.
const FORK_TRIES: u32 = 3;
const FORK_PAUSE_MS: i32 = 50;

/// How long those who started the supervisor stay zombies at most: at first the processor is the
/// shell's.
const REAP_AFTER_MS: i32 = 10;

/// Runs a shell call to its end and gives the exit code, or dies as the real shell died.
pub(crate) fn stand_in(call: ShellCall, supervise: fn(Work) -> !) -> u8 {
    let saved = signal::Saved::now(CHANGED_SIGNALS);
    fds::fill_closed_streams();
    let ourselves = Ourselves::find();
    let settings = config::settings(&ourselves);
    let path = std::env::var_os("PATH");
    let real = match shell::find(&call, settings.shell.as_deref(), path.as_ref(), &ourselves) {
        Ok(real) => real,
        Err(error) => return message::error(&error),
    };
    let untouched = real_argv(&call, &real);
    if call.form == Form::Untouched {
        return run_in_place(&real, &untouched);
    }
    let (argv, lone) = match call.form {
        Form::Command { index } => rewritten(&untouched, index + 1, &real, &ourselves),
        _ => None,
    }
    .unzip();
    if wire::nested_supervisor().is_some() {
        return run_in_place(&real, argv.as_ref().unwrap_or(&untouched));
    }
    let command = match call.form {
        Form::Command { index } => own_command(call.args[index].as_bytes()).into_owned(),
        _ => untouched.join(std::ffi::OsStr::new(" ")).into_vec(),
    };
    let has_spots = argv.is_some();
    let mut work = Work::new(
        real.path.clone(),
        untouched.clone(),
        command,
        settings,
        saved.clone(),
        ourselves.path().to_owned(),
    );
    work.has_spots = has_spots;
    work.argv = argv.unwrap_or_else(|| untouched.clone());
    work.lone = lone.flatten();
    let announces = work.settings.announce;
    let tell = work.settings.tells().then(|| work.settings.clone());
    if let Some(handed) = hand_off(work, supervise)
        && let Some(code) = attend(handed, None, tell.as_ref())
    {
        if !call.is_bare {
            // Nothing is left to do or to say. Giving memory back piece by piece would take longer
            // than the rest of the way home.
            process::exit_now(i32::from(code));
        }
        return code;
    }
    // Nothing has run yet: no process, descriptor or memory was left for a supervisor.
    if has_spots && announces {
        message::say("cannot supervise this command: what it leaves in the background is not kept");
        signal::forget(&signal::LIMITS);
    }
    saved.child_restore(CHANGED_SIGNALS);
    run_in_place(&real, &untouched)
}

/// Starts a command as a job (`agent-sh run`) and gives the verb's exit code: with `wait` the job's
/// own, else 0 once it is published, with what is to be printed of it.
pub(crate) fn run_job(request: RunRequest, supervise: fn(Work) -> !) -> Result<(u8, Vec<u8>)> {
    let RunRequest {
        mut argv,
        is_text,
        job: run,
    } = request;
    let saved = signal::Saved::now(CHANGED_SIGNALS);
    fds::fill_closed_streams();
    let ourselves = Ourselves::find();
    let settings = config::settings(&ourselves);
    let path = std::env::var_os("PATH");
    let words = argv.iter().map(|word| word.as_bytes());
    let command = if is_text {
        argv[0].clone().into_vec()
    } else {
        quote_all(words).into_bytes()
    };
    let program = if is_text {
        let call = ShellCall {
            stands_for: None,
            disguised: false,
            argv0: Argv0::Own { login: false },
            args: vec![OsString::from("-c"), argv[0].clone()],
            form: Form::Command { index: 1 },
            is_bare: false,
        };
        let real = shell::find(&call, settings.shell.as_deref(), path.as_ref(), &ourselves)?;
        argv = real_argv(&call, &real);
        argv = rewritten(&argv, 2, &real, &ourselves).map_or(argv, |(argv, _)| argv);
        real.path
    } else {
        let asked = run.env.iter().rev().find(|(name, _)| name == "PATH");
        let asked = asked.map(|(_, value)| OsStr::new(value));
        program_for(&argv[0], run.cwd.as_deref(), asked.or(path.as_deref()))?
    };
    let mut work = Work::new(
        program,
        argv,
        command,
        settings,
        saved,
        ourselves.path().to_owned(),
    );
    work.run = Some(run);
    let mut started = Vec::new();
    let code = hand_off(work, supervise)
        .and_then(|handed| attend(handed, Some(&mut started), None))
        .ok_or_else(|| Error::Failed {
            text: "cannot start a supervisor: no room for a process or a descriptor".to_owned(),
            hint: None,
        })?;
    Ok((code, started))
}

/// The program that `run` is to start, from where it is to start it.
fn program_for(name: &OsStr, cwd: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf> {
    let failed = |errno| Error::Start {
        program: PathBuf::from(name),
        source: std::io::Error::from_raw_os_error(errno),
    };
    let found = match cwd.filter(|_| name.as_bytes().contains(&b'/')) {
        Some(cwd) => Some(cwd.join(name)).filter(|path| path.exists()),
        None => shell::find_program_in(name, path),
    };
    let found = found.ok_or_else(|| failed(libc::ENOENT))?;
    if shell::is_program(&found) {
        Ok(found)
    } else {
        Err(failed(libc::EACCES))
    }
}

/// The real shell's argv: argv[0] as it came, or its own name when we were called by ours.
fn real_argv(call: &ShellCall, real: &RealShell) -> Vec<OsString> {
    let own =
        |login: bool| OsString::from(format!("{}{}", if login { "-" } else { "" }, real.name));
    let argv0 = match &call.argv0 {
        Argv0::Given(name) if real.is_many => {
            let (base, login) = invocation::base_name(name);
            if base == real.name {
                name.clone()
            } else {
                own(login)
            }
        }
        Argv0::Given(name) => name.clone(),
        Argv0::Own { login } => own(*login),
    };
    std::iter::once(argv0)
        .chain(call.args.iter().cloned())
        .collect()
}

/// The one job of a text, if there is only one and its text says all: nothing is expanded, quoted or
/// redirected in it.
fn lone_job(text: &[u8], plan: &plan::Plan) -> Option<LoneJob> {
    let [spot] = plan.spots.as_slice() else {
        return None;
    };
    let command = &text[spot.start..spot.end];
    let plain = |byte: &u8| !b"<>'\"\\$`*?[#~\n".contains(byte);
    command.iter().all(plain).then(|| LoneJob {
        asked: spot.asked(),
        command: command.to_vec(),
    })
}

/// The argv with its text rewritten, if the text starts jobs, and its only job.
fn rewritten(
    argv: &[OsString],
    index: usize,
    real: &RealShell,
    ourselves: &Ourselves,
) -> Option<(Vec<OsString>, Option<LoneJob>)> {
    let dialect = real.dialect?;
    let text = argv[index].as_bytes();
    // Most commands have none, and need no scanner to tell.
    if !text.contains(&b'&') {
        return None;
    }
    let options = argv[..index].iter().map(|word| word.as_bytes());
    if !plan::may_be_rewritten(options, dialect) {
        return None;
    }
    let plan = plan::plan(text, dialect);
    let launcher = ourselves.path().as_os_str().as_bytes();
    let new = rewrite::rewrite(text, &plan, dialect, launcher)?;
    let mut argv = argv.to_vec();
    argv[index] = OsString::from_vec(new);
    Some((argv, lone_job(text, &plan)))
}

/// Becomes the real shell. Returns only when that failed.
fn run_in_place(real: &RealShell, argv: &[OsString]) -> u8 {
    let error = Image::new(&real.path, argv, &[]).child_exec();
    message::error(&Error::Start {
        program: real.path.clone(),
        source: error,
    })
}

/// A supervisor that has the work, and what the front needs to attend it. All of it was made before
/// the supervisor was: a front that runs out of descriptors afterwards would lose the status.
struct Handed {
    link: SupervisorLink,
    signals: SignalFd,
    terminal: Option<Terminal>,
    affinity: Option<Affinity>,
    supervisor: Detached,
    shell_pid: &'static AtomicI32,
}

/// What `ps` shows of a front that waits. Short, as it has to fit where its arguments were, and with no
/// word in it that somebody might look for to find a program: see `session::set_title`.
const TITLE: &CStr = c"agent-sh";

/// Starts the supervisor where no walk from the front finds it. `None`: nothing was started.
fn hand_off(mut work: Work, supervise: fn(Work) -> !) -> Option<Handed> {
    // Before anything is forked from us, and before the command can look for its own text.
    session::overwrite_arguments(TITLE);
    let (answers, their_answers) = fds::pipe().ok()?;
    let (their_requests, requests) = fds::pipe().ok()?;
    if work.run.is_some() {
        // A job leaves the terminal to us.
        work.terminal = None;
    }
    let terminal = match &work.terminal {
        Some(fd) => {
            let (terminal, group) = Terminal::new(fd, work.has_spots)?;
            work.group = group;
            Some(terminal)
        }
        None => None,
    };
    let mut taken = FORWARDED.to_vec();
    if terminal.as_ref().is_some_and(Terminal::is_anchored) {
        taken.extend(terminal::JOB_CONTROL);
    }
    let signals = SignalFd::deaf_to(&signal::LIMITS, &taken).ok()?;
    // With SIGCHLD ignored the kernel would reap for us, and nobody could be waited for.
    signal::reset(&[libc::SIGCHLD]);
    // A supervisor that has said its last word does not hear ours; nor may a reader of stderr end us.
    signal::ignore(&[libc::SIGPIPE]);
    let [shell_pid, supervisor_pid] = process::shared_numbers().ok()?;
    work.shell_pid = Some(shell_pid);
    let affinity = Affinity::pin();
    work.affinity = affinity.clone();
    let has_terminal = work.terminal.is_some();
    // Taken in the supervisor, which has a copy; ours is dropped below.
    let mut slot = Some((work, their_requests, their_answers));
    // A supervisor above us must not take them for strays, not even in their first moment: so they are
    // born with this name.
    session::child_set_name(SUPERVISOR_TITLE);
    let prepare = || {
        // With a controlling terminal the shell has to stay in this session; the supervisor leaves it
        // after it forked the shell.
        if !has_terminal {
            drop(session::child_new_session());
        }
    };
    let mut supervisor = || {
        let Some((mut work, requests, answers)) = slot.take() else {
            process::exit_now(1)
        };
        work.link = Some(FrontLink::new(requests, answers));
        pause::at(c"supervisor-started");
        supervise(work)
    };
    if has_terminal {
        // We are suspended while the supervisor is being started: one of those who do it, stopped by
        // Ctrl-Z, would hold us where nobody can see us stop.
        signal::block(terminal::STOPS);
    }
    for _ in 0..FORK_TRIES {
        let Ok(supervisor) = detach::spawn(prepare, &mut supervisor, supervisor_pid) else {
            drop(fds::wait_readable(&[], FORK_PAUSE_MS));
            continue;
        };
        session::child_set_name(TITLE);
        pause::at(c"front-handed-off");
        if has_terminal && !terminal.as_ref().is_some_and(Terminal::is_anchored) {
            signal::unblock(terminal::STOPS);
        }
        return Some(Handed {
            link: SupervisorLink::new(answers, requests),
            signals,
            terminal,
            affinity,
            supervisor,
            shell_pid,
        });
    }
    if let Some(affinity) = affinity {
        affinity.child_restore();
    }
    None
}

/// Waits for the supervisor's word, passing signals on, and ends as the shell ended.
/// With `started` it is a job that is only watched, and what is to be said of it goes there; without, a
/// command runs in the foreground. With `tell` the agent hears after it of ends it has not heard of.
/// `None`: the supervisor could not start anything.
fn attend(
    handed: Handed,
    mut started: Option<&mut Vec<u8>>,
    tell: Option<&Settings>,
) -> Option<u8> {
    let is_shell = started.is_none();
    let Handed {
        mut link,
        signals,
        terminal,
        affinity,
        supervisor,
        shell_pid,
    } = handed;
    let shell = || Some(shell_pid.load(Ordering::Acquire)).filter(|&pid| pid > 0);
    let mut continues = 0u8;
    let mut has_reaped = false;
    loop {
        let patience = if has_reaped { -1 } else { REAP_AFTER_MS };
        let ready = fds::wait_readable(&[link.answers.as_raw_fd(), signals.as_raw_fd()], patience);
        if !std::mem::replace(&mut has_reaped, true) {
            supervisor.reap_starters();
        }
        if ready[1] {
            while let Some(arrived) = signals.next() {
                let (signal, sender) = (arrived.signal, arrived.sender);
                let meant = match &terminal {
                    Some(terminal) => terminal.meant_for(&arrived, shell()),
                    None => Meant::without_terminal(&arrived),
                };
                match meant {
                    Meant::Nobody => {}
                    // The shell goes on already.
                    Meant::Continue if [supervisor.pid, session::pid()].contains(&sender) => {}
                    Meant::Foreground => link.tell(ToSupervisor::Signal { signal, sender }),
                    Meant::Continue => {
                        continues = continues.wrapping_add(1);
                        link.tell(ToSupervisor::Continue);
                    }
                }
            }
        }
        if !ready[0] {
            continue;
        }
        match link.hear() {
            // News from before our last word would stop us for ever, beside a shell that goes on.
            Ok(ToFront::Stopped { heard, .. }) if heard != continues => {}
            Ok(ToFront::Stopped { signal, .. }) => {
                let shell = shell().unwrap_or(0);
                let next = terminal.as_ref().map(|t| t.stop_with_shell(shell, signal));
                match next.unwrap_or(Next::Nothing) {
                    Next::Nothing => {}
                    Next::Stop => link.tell(ToSupervisor::Stop),
                    Next::Continue => {
                        continues = continues.wrapping_add(1);
                        link.tell(ToSupervisor::Continue);
                    }
                }
            }
            Ok(ToFront::Say(text)) => drop(std::io::stderr().write_all(&text)),
            Ok(ToFront::Job(text)) => {
                if let Some(started) = &mut started {
                    **started = text;
                }
            }
            Ok(ToFront::Done(status)) => {
                if let Some(terminal) = &terminal {
                    terminal.take_back(shell().unwrap_or(0));
                }
                drop(terminal);
                if let Some(settings) = tell {
                    tell::after_command(settings);
                }
                return Some(end_like(status));
            }
            Ok(ToFront::Failed(_)) => {
                if let Some(affinity) = affinity {
                    affinity.child_restore();
                }
                return None;
            }
            Err(_) => return Some(orphans::supervisor_died(supervisor.pid, shell(), is_shell)),
        }
    }
}

fn end_like(status: i32) -> u8 {
    use crate::job::Outcome;
    let outcome = Outcome::from_wait_status(status);
    if let Outcome::Signaled { signal, .. } = outcome {
        signal::die_by(signal);
    }
    outcome.shell_code()
}

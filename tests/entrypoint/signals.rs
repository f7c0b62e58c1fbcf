//! Signals, to the command or to its group.

use super::{Init, Lines, child_of, wait_for_state};
use crate::support::{Sandbox, Status, exit_of};

/// Says every signal that it gets; TERM ends it.
const PROBE: &str = r#"
import os, signal, time
def show(number, frame):
    os.write(1, b"%d\n" % number)
    if number == signal.SIGTERM:
        os._exit(7)
for number in range(1, 65):
    try:
        signal.signal(number, show)
    except (OSError, ValueError):
        pass
os.write(1, b"ready\n")
while True:
    time.sleep(0.05)
"#;

/// The same in two processes of one group; the child says on USR2 how often it got USR1. Both can take
/// signals before one of them says so, and none is lost just before a sleep: sleeps are short.
const FAMILY: &str = r#"
import os, signal, time
seen = 0
def count(number, frame):
    global seen
    seen += 1
    os.write(1, b"child\n")
def told(number, frame):
    os.write(1, b"seen %d\n" % seen)
signal.signal(signal.SIGUSR1, lambda number, frame: os.write(1, b"parent\n"))
signal.signal(signal.SIGTERM, lambda number, frame: (os.kill(child, 9), os._exit(0)))
child = os.fork()
if child == 0:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGUSR1, count)
    signal.signal(signal.SIGUSR2, told)
    os.write(1, b"ready %d\n" % os.getpid())
while True:
    time.sleep(0.05)
"#;

fn send(pid: i32, signal: i32) {
    // The program takes real-time signals by number.
    let sent = std::process::Command::new("/bin/kill")
        .args([format!("-{signal}"), pid.to_string()])
        .status();
    assert!(sent.unwrap().success(), "kill -{signal} {pid}");
}

/// Those that can be passed on: not KILL and STOP, nor what the kernel sends for a fault of one's own,
/// nor what only a parent or a terminal means.
fn forwarded() -> Vec<i32> {
    let not = [4, 5, 6, 7, 8, 9, 11, 15, 17, 19, 21, 22, 31, 32, 33];
    (1..=64).filter(|signal| !not.contains(signal)).collect()
}

#[test]
fn every_signal_is_passed_on() {
    let sandbox = Sandbox::new();
    for init in Init::pair() {
        let call = init.below(&sandbox, &[], &["python3", "-c", PROBE]).start();
        let pid = call.pid();
        let (mut child, stdout) = call.into_stdout();
        let mut lines = Lines::new(stdout);
        assert_eq!(lines.next(), "ready");
        for signal in forwarded() {
            send(pid, signal);
            assert_eq!(lines.next(), signal.to_string(), "{init:?}");
        }
        // These mean whoever uses the terminal.
        send(pid, libc::SIGTTIN);
        send(pid, libc::SIGTTOU);
        send(pid, libc::SIGTERM);
        assert_eq!(lines.next(), "15", "{init:?}");
        assert_eq!(exit_of(&mut child), Status::Exited(7), "{init:?}");
    }
}

#[test]
fn to_the_command_or_to_its_group() {
    let sandbox = Sandbox::new();
    for init in Init::pair() {
        for group in [false, true] {
            let options: &[&str] = if group { &["-g"] } else { &[] };
            let call = init
                .below(&sandbox, options, &["python3", "-c", FAMILY])
                .start();
            let pid = call.pid();
            let (mut child, stdout) = call.into_stdout();
            let mut lines = Lines::new(stdout);
            let ready = lines.next();
            let grandchild: i32 = ready.strip_prefix("ready ").unwrap().parse().unwrap();
            send(pid, libc::SIGUSR1);
            let mut said = vec![lines.next()];
            if group {
                said.push(lines.next());
            }
            said.sort();
            let wanted: &[&str] = if group {
                &["child", "parent"]
            } else {
                &["parent"]
            };
            assert_eq!(said, wanted, "{init:?}");
            send(grandchild, libc::SIGUSR2);
            assert_eq!(
                lines.next(),
                format!("seen {}", i32::from(group)),
                "{init:?}"
            );
            send(pid, libc::SIGTERM);
            assert_eq!(exit_of(&mut child), Status::Exited(0), "{init:?}");
        }
    }
}

/// As dumb-init has it: another signal, or none.
#[test]
fn signals_can_be_replaced() {
    let sandbox = Sandbox::new();
    let options = ["-r", "HUP:USR2", "-r", "10:0", "-r", "SIGTTIN:14"];
    let call = Init::Ours
        .below(&sandbox, &options, &["python3", "-c", PROBE])
        .start();
    let pid = call.pid();
    let (mut child, stdout) = call.into_stdout();
    let mut lines = Lines::new(stdout);
    assert_eq!(lines.next(), "ready");
    for (signal, wanted) in [(libc::SIGHUP, "12"), (libc::SIGTTIN, "14")] {
        send(pid, libc::SIGUSR1);
        send(pid, signal);
        assert_eq!(lines.next(), wanted);
    }
    send(pid, libc::SIGTERM);
    assert_eq!(lines.next(), "15");
    assert_eq!(exit_of(&mut child), Status::Exited(7));
}

#[test]
fn a_stop_and_going_on() {
    let sandbox = Sandbox::new();
    for init in Init::pair() {
        let call = init.below(&sandbox, &[], &["sleep", "1000"]).start();
        let pid = call.pid();
        let command = child_of(pid);
        wait_for_state(command, &['S']);
        send(pid, libc::SIGTSTP);
        wait_for_state(command, &['T']);
        send(pid, libc::SIGCONT);
        wait_for_state(command, &['S']);
        send(pid, libc::SIGTERM);
        assert_eq!(call.finish().status, Status::Exited(143), "{init:?}");
    }
}

/// What was ignored or blocked is for the command, too; nothing else is.
#[test]
fn dispositions_are_handed_on() {
    let sandbox = Sandbox::new();
    let command = ["grep", "-E", "^Sig(Ign|Blk|Cgt)", "/proc/self/status"];
    for ignored in [
        vec![],
        vec![libc::SIGUSR1, libc::SIGPIPE],
        vec![libc::SIGCHLD, libc::SIGTTOU],
    ] {
        let ignoring = |mut call: crate::support::Call<'_>| {
            for &signal in &ignored {
                call = call.ignoring(signal);
            }
            call.run()
        };
        let native = ignoring(sandbox.real_call("grep").args(&command[1..])).text();
        // With SIGCHLD ignored tini never sees its command end.
        let known = !ignored.contains(&libc::SIGCHLD);
        for init in Init::pair()
            .into_iter()
            .filter(|init| known || *init == Init::Ours)
        {
            let ended = ignoring(init.below(&sandbox, &[], &command));
            assert_eq!(ended.text(), native, "{init:?} {ignored:?}");
        }
    }
}

#[test]
fn the_death_of_the_parent() {
    let sandbox = Sandbox::new();
    for init in Init::pair() {
        let mut words = init.words(&sandbox, &["-s", "-p", "SIGTERM"]);
        if init == Init::Ours {
            // tini takes the whole name alone.
            words[4] = "term".to_owned();
        }
        let text = r#""$@" & wait"#;
        let call = sandbox
            .real_call("sh")
            .args(["-c", text, "sh"])
            .args(&words);
        let call = call.args(["python3", "-c", PROBE]).start();
        let pid = call.pid();
        let (mut child, stdout) = call.into_stdout();
        let mut lines = Lines::new(stdout);
        assert_eq!(lines.next(), "ready");
        send(pid, libc::SIGKILL);
        assert_eq!(exit_of(&mut child), Status::Signaled(libc::SIGKILL));
        assert_eq!(lines.next(), "15", "{init:?}");
        sandbox.assert_no_survivors();
    }
}

//! Text, keys and the end of input.

use super::{ECHO_BYTES, ends_with, interactive, send, writes, wrote};
use crate::support::{Sandbox, Status, real, records, stands_in};

#[test]
fn text_and_the_end_of_input() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let id = interactive(&sandbox, &["cat"]);
    send(&sandbox, &[&id, "hello", "two  words"]);
    writes(&sandbox, &id, "hello two  words\r\nhello two  words\r\n");
    send(&sandbox, &["-n", &id, "no enter"]);
    send(&sandbox, &[&id, "--", "-n more"]);
    writes(&sandbox, &id, "\nno enter-n more\r\n");
    // In the middle of a line the end of input takes two characters; the sender need not know.
    send(&sandbox, &["-n", &id, "rest"]);
    send(&sandbox, &[&id, "--eof"]);
    ends_with(&sandbox, &id, 0);
    assert!(
        wrote(&sandbox, &id).ends_with("restrest"),
        "{}",
        wrote(&sandbox, &id)
    );
    sandbox.assert_no_survivors();
}

#[test]
fn a_question_is_answered() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let text = "printf 'name? '; read -r name; echo \"got <$name>\"; exit 7";
    let ended = sandbox.agent_sh(["run", "-i", "--name", "asks", text]);
    assert!(ended.succeeded(), "{ended:?}");
    writes(&sandbox, "asks", "name? ");
    send(&sandbox, &["asks", "Ada L"]);
    ends_with(&sandbox, "asks", 7);
    assert!(wrote(&sandbox, "asks").contains("got <Ada L>"));
}

/// A real terminal program: it has a controlling terminal, and Ctrl-C interrupts what it does.
#[test]
fn a_python_session() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let python = real("python3");
    let id = interactive(&sandbox, &[python.to_str().unwrap(), "-q"]);
    writes(&sandbox, &id, ">>> ");
    send(&sandbox, &[&id, "print(6 * 7)"]);
    writes(&sandbox, &id, "42");
    send(
        &sandbox,
        &[&id, "import time; print('sle' + 'eps'); time.sleep(600)"],
    );
    writes(&sandbox, &id, "sleeps");
    send(&sandbox, &[&id, "--key", "ctrl-c"]);
    writes(&sandbox, &id, "KeyboardInterrupt");
    send(&sandbox, &[&id, "open('/dev/tty').close(); exit(3)"]);
    ends_with(&sandbox, &id, 3);
    let logs = sandbox.agent_sh(["logs", &id]).text();
    assert!(logs.contains("42") && !logs.contains('\u{1b}'), "{logs}");
}

#[test]
fn keys_arrive_as_a_keyboard_sends_them() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let python = real("python3");
    let python = python.to_str().unwrap();
    let id = interactive(&sandbox, &[python, "-c", ECHO_BYTES, ""]);
    writes(&sandbox, &id, "ready");
    for (keys, wanted) in [
        (&["up"][..], "1b 5b 41."),
        (&["enter"], "0d."),
        (&["tab", "space", "alt-x"], "09 20 1b 78."),
        (&["F5"], "1b 5b 31 35 7e."),
        (&["ctrl-c"], "03."),
        (&["ctrl-d", "ctrl-]"], "04 1d."),
        (&["backspace", "delete"], "7f 1b 5b 33 7e."),
    ] {
        let mut args = vec![id.as_str(), "--key"];
        args.extend(keys);
        send(&sandbox, &args);
        writes(&sandbox, &id, &format!("\n{wanted}"));
    }
    send(&sandbox, &[&id, "ls", "--key", "enter"]);
    writes(&sandbox, &id, "\n6c 73 0d.");
    send(&sandbox, &[&id, "-n", "a\nb\r\n"]);
    writes(&sandbox, &id, "\n61 0d 62 0d.");
    send(&sandbox, &[&id, "-n", "q"]);
    ends_with(&sandbox, &id, 0);
    // A program that asked for the application's cursor keys gets those.
    let id = interactive(&sandbox, &[python, "-c", ECHO_BYTES, r"\x1b[?1h"]);
    writes(&sandbox, &id, "ready");
    send(&sandbox, &[&id, "--key", "up", "--key", "q"]);
    writes(&sandbox, &id, "1b 4f 41 71.");
    ends_with(&sandbox, &id, 0);
}

/// More than a terminal holds: the sender waits for the slow reader, and nothing is lost or mixed.
#[test]
fn a_long_paste_arrives_whole() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let paste: String = (0..12_000).map(|n| format!("{n:07} ")).collect();
    let program = "
import os, sys, tty
tty.setraw(0)
os.write(1, b'ready')
got = b''
while len(got) < 96000: got += os.read(0, 700)
open('pasted', 'wb').write(got)
";
    let id = interactive(
        &sandbox,
        &[real("python3").to_str().unwrap(), "-c", program],
    );
    writes(&sandbox, &id, "ready");
    send(&sandbox, &["-n", &id, &paste]);
    ends_with(&sandbox, &id, 0);
    let pasted = std::fs::read_to_string(sandbox.work().join("pasted")).unwrap();
    assert!(pasted == paste, "{} of {} bytes", pasted.len(), paste.len());
}

/// A job that does not read costs its sender a while and an exit code, and nobody else anything. What
/// the sender was told was not taken is not typed later.
#[test]
fn a_job_that_does_not_read() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let program = format!(
        "
import os, select, tty
tty.setraw(0)
os.write(1, b'ready')
open('{}').readline()
count = 0
while select.select([0], [], [], 2)[0]: count += len(os.read(0, 4096))
print('count', count, 'end')
",
        gate.path()
    );
    let id = interactive(
        &sandbox,
        &[real("python3").to_str().unwrap(), "-c", &program],
    );
    writes(&sandbox, &id, "ready");
    let ended = sandbox.agent_sh(["send", "-n", &id, &"x".repeat(100_000)]);
    assert_eq!(ended.status, Status::Exited(1), "{ended:?}");
    let said = ended.errors();
    assert!(said.contains("is not reading its input"), "{said}");
    let number = |text: &str, before: &str| -> usize {
        let rest = text
            .split(before)
            .nth(1)
            .unwrap_or_else(|| panic!("{text}"));
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    let taken = number(&said, "its input: ");
    // Its supervisor has other things to do meanwhile.
    assert!(sandbox.agent_sh(["ps"]).text().contains(&id));
    gate.release(1);
    writes(&sandbox, &id, " end");
    let read = number(&wrote(&sandbox, &id), "count ");
    // One frame may have been typed in part.
    assert!(
        (taken..taken + 4096).contains(&read),
        "{taken} taken, {read} read"
    );
    ends_with(&sandbox, &id, 0);
    sandbox.assert_no_survivors();
}

#[test]
fn what_cannot_be_sent_is_explained() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let plain = sandbox.agent_sh([
        "run",
        "--name",
        "plain",
        &format!("read -r x < {}", gate.path()),
    ]);
    assert!(plain.succeeded(), "{plain:?}");
    let over = sandbox.agent_sh(["run", "-i", "--name", "over", "--", "true"]);
    assert!(over.succeeded(), "{over:?}");
    ends_with(&sandbox, "over", 0);
    for (args, code, wanted) in [
        (&["plain", "x"][..], 125, "'agent-sh run -i -- COMMAND'"),
        (&["over", "x"], 125, "already exited with 0"),
        (&["nosuch", "x"], 125, "no job 'nosuch'"),
        (&["plain", "--key", "entr"], 2, "did you mean enter"),
        (&["plain"], 2, "nothing to send"),
        (&[], 2, "agent-sh send --help"),
    ] {
        let ended = sandbox.call("agent-sh").arg("send").args(args).run();
        assert_eq!(ended.status, Status::Exited(code), "{args:?}: {ended:?}");
        assert!(ended.errors().contains(wanted), "{args:?}: {ended:?}");
        assert!(ended.stdout.is_empty(), "{args:?}: {ended:?}");
    }
    gate.release(1);
    ends_with(&sandbox, "plain", 0);
}

#[test]
fn silence_ends_a_job() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let text = "for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done; exec sleep 600";
    let ended = sandbox.agent_sh(["run", "--wait", "--idle-timeout", "1s", text]);
    assert_eq!(ended.status, Status::Exited(124), "{ended:?}");
    let said = " wrote nothing for 1s (--idle-timeout) and was ended\n";
    assert!(ended.errors().ends_with(said), "{ended:?}");
    assert!(ended.text().contains('6'), "{ended:?}");
    let found = records(&sandbox);
    assert_eq!(found[0].state(), "signaled");
    assert_eq!(found[0].data("kill_requested")["by"], "idle-timeout");
    let ended = sandbox.agent_sh([
        "run",
        "--wait",
        "--idle-timeout",
        "600s",
        "echo quick; exit 4",
    ]);
    assert_eq!(ended.status, Status::Exited(4), "{ended:?}");
}

#[test]
fn programs_that_cannot_be_started() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.script("work/bad", "#!/no/such/interpreter\n");
    sandbox.script("work/plain", "echo \"plain $1\"\n");
    std::fs::write(sandbox.work().join("text"), "x").unwrap();
    for (args, code, wanted) in [
        (&["--", "no-such-program"][..], 127, "no such file"),
        (&["--", "./missing"], 127, "no such file"),
        (&["--", "./text"], 126, "permission denied"),
        (&["--", "/"], 126, "permission denied"),
        (&["--", "./bad"], 127, "no such file"),
        (&["--wait", "--", "./bad"], 127, "no such file"),
        (&["--cwd", "/no/such", "--", "true"], 125, "cannot enter"),
    ] {
        let ended = sandbox.call("agent-sh").arg("run").args(args).run();
        assert_eq!(ended.status, Status::Exited(code), "{args:?}: {ended:?}");
        assert!(ended.errors().contains(wanted), "{args:?}: {ended:?}");
        assert!(ended.stdout.is_empty(), "{args:?}: {ended:?}");
    }
    let work = sandbox.work();
    let args = [
        "run",
        "--wait",
        "--cwd",
        work.to_str().unwrap(),
        "--",
        "./plain",
        "text",
    ];
    let ended = sandbox.call("agent-sh").cwd("/").args(args).run();
    assert_eq!(ended.text(), "plain text\n", "{ended:?}");
}

#[test]
fn a_name_means_the_newest() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let run = || sandbox.agent_sh(["run", "-i", "--name", "twin", "--", "cat"]);
    let (one, two) = (run(), run());
    assert!(one.stderr.is_empty(), "{one:?}");
    assert!(
        two.errors().contains("the name now means the new one"),
        "{two:?}"
    );
    send(&sandbox, &["twin", "--eof"]);
    ends_with(&sandbox, two.text().trim(), 0);
    send(&sandbox, &[one.text().trim(), "--eof"]);
    ends_with(&sandbox, one.text().trim(), 0);
}

//! A person at an interactive shell: Ctrl-Z, `fg`, `bg`, `kill %1`, the terminal read from the background.
//! The same dialogue is held with the real shell and with ours as the command, and what was seen is
//! compared.

use crate::support::{
    Dialogue, INTERRUPT, PROMPT, STOP, Sandbox, Streams, in_parallel, real, stands_in,
};

/// Holds a dialogue in bash and in zsh, with the real bash and with ours, and compares.
fn hold(dialogue: impl Fn(&mut Dialogue) -> Vec<String> + Sync) {
    in_parallel(&["bash", "zsh"], |_, _, shell| {
        let sandbox = Sandbox::new();
        std::fs::write(sandbox.work().join("screen.py"), SCREEN).unwrap();
        let [native, ours] = [real("bash"), sandbox.link("bash")].map(|command| {
            let mut held = Dialogue::new(&sandbox, shell, &command);
            held.seen = format!("[{}] ", command.display());
            held.read = held.seen.len();
            let seen = dialogue(&mut held);
            held.leave();
            seen
        });
        assert_eq!(
            native, ours,
            "in {shell}: left is the real command, right is ours"
        );
        sandbox.assert_no_survivors();
    });
}

/// A full-screen program: it reads keys one by one, and stops its whole group itself, as editors do.
const SCREEN: &str = "
import os, signal, sys, termios, tty
old = termios.tcgetattr(0)
tty.setraw(0)
os.write(1, b'ready')
while os.read(0, 1) != b'z':
    pass
termios.tcsetattr(0, termios.TCSADRAIN, old)
os.kill(0, signal.SIGTSTP)
tty.setraw(0)
os.write(1, b'back')
while os.read(0, 1) != b'q':
    pass
termios.tcsetattr(0, termios.TCSADRAIN, old)
sys.exit(3)
";

/// What a text may begin with: nothing, or something that makes it one with jobs, for which the shell has
/// a process group of its own.
const BEGINNINGS: [&str; 2] = ["", "true & "];

#[test]
fn stop_continue_and_kill() {
    for beginning in BEGINNINGS {
        hold(|shell| {
            shell.start(&format!(
                "$SH -c '{beginning}echo re\"\"ady; sleep 1000; echo after'"
            ));
            shell.until_prompt(STOP);
            let status = shell.status();
            shell.state("stopped");
            shell.answer("bg");
            shell.state("running");
            shell.foreground();
            shell.until_prompt(STOP);
            shell.state("stopped");
            shell.answer("kill %1");
            shell.state("");
            vec![status]
        });
    }
}

#[test]
fn interrupt_after_a_stop() {
    for beginning in BEGINNINGS {
        hold(|shell| {
            shell.start(&format!(
                "$SH -c '{beginning}echo re\"\"ady; exec sleep 1000'"
            ));
            shell.until_prompt(STOP);
            shell.state("stopped");
            shell.foreground();
            shell.until_prompt(INTERRUPT);
            let status = shell.status();
            shell.state("");
            vec![status]
        });
    }
}

/// Whoever reads the terminal from the background is stopped, and reads on in the foreground.
#[test]
fn read_from_the_background() {
    for beginning in BEGINNINGS {
        hold(|shell| {
            shell.answer(&format!(
                "$SH -c '{beginning}head -n 1 | tr a-z A-Z; exit 4' &"
            ));
            shell.state("stopped");
            shell.foreground();
            shell.send("word\n");
            shell.expect("WORD");
            shell.expect(PROMPT);
            vec![shell.status()]
        });
    }
}

/// A command that was started in the background and is brought to the foreground while it runs: the
/// interactive shell gives it the terminal and tells it nothing.
#[test]
fn brought_to_the_foreground_while_it_runs() {
    hold(|shell| {
        shell.answer("$SH -c 'echo up; sleep 1000' &");
        shell.state("running");
        shell.foreground();
        shell.until_prompt(STOP);
        shell.state("stopped");
        shell.foreground();
        shell.until_prompt(INTERRUPT);
        vec![shell.status()]
    });
}

#[test]
fn a_program_that_stops_itself() {
    for beginning in BEGINNINGS {
        let python = real("python3");
        hold(|shell| {
            shell.start(&format!(
                "$SH -c '{beginning}{} screen.py'",
                python.display()
            ));
            shell.send("z");
            shell.expect(PROMPT);
            shell.state("stopped");
            shell.foreground();
            shell.expect("back");
            shell.send("q");
            shell.expect(PROMPT);
            vec![shell.status()]
        });
    }
}

/// The other end of a pipeline reads the keys: it must have the terminal too.
#[test]
fn a_pipeline_whose_end_has_the_keys() {
    hold(|shell| {
        let reader = "sh -c 'read -r x </dev/tty; echo \"got <$x>\"; read -r y </dev/tty'";
        shell.start(&format!(
            "$SH -c 'echo re\"\"ady >&2; sleep 1000' | {reader}"
        ));
        shell.send("word\n");
        shell.expect("got <word>");
        shell.until_prompt(STOP);
        shell.state("stopped");
        shell.answer("kill %1");
        shell.state("");
        Vec::new()
    });
}

/// `kill 0` means the group of the command, once each.
#[test]
fn a_kill_of_the_own_group() {
    if !stands_in() {
        return;
    }
    hold(|shell| {
        shell.start("$SH -c 'trap \"echo g\\\"\\\"ot\" USR1; echo re\"\"ady; kill -USR1 0; kill 0; sleep 1000'");
        let from = shell.read;
        shell.expect(PROMPT);
        let times = shell.seen[from..].matches("got").count();
        vec![times.to_string(), shell.status()]
    });
}

/// A full-screen program that runs a command through pipes keeps its terminal, also where nobody could
/// give it back: it reads there all the while.
#[test]
fn who_is_given_no_stream_of_the_terminal_leaves_it_alone() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    for text in ["", "sleep 0.01 & "] {
        let look = format!("{text}cut -d\" \" -f8 /proc/$$/stat");
        let todo = format!(
            "own=$(cut -d' ' -f5 /proc/$$/stat); x=$(\"$SH\" -c '{look}' </dev/null 2>/dev/null | cat); \
             [ \"$x\" = \"$own\" ] && echo kept || echo \"taken: $x, not $own\""
        );
        for shell in [real("bash"), sandbox.link("bash")] {
            let call = sandbox.real_call("bash").c(&todo).env("SH", shell);
            let ended = call.streams(Streams::Terminal).run();
            assert_eq!(ended.text().trim(), "kept", "{text}: {ended:?}");
        }
    }
}

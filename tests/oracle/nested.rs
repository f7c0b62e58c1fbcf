//! Calls within calls: a nested stand-in becomes the real shell in place, so that its parent is the shell
//! that called it, however that one gets its commands.

use crate::support::{Call, Input, Sandbox, in_parallel, records, stands_in, wait_until};

/// The ways in which the outer shell gets its commands.
const OUTER: [&[&str]; 8] = [
    &["-c"],
    &["-i", "-c"],
    &["-i", "-m", "-c"],
    &[],
    &["-i"],
    &["-i", "+m"],
    &["+i", "+m"],
    &["-s", "a"],
];

/// The call with the text as its command or on its stdin.
fn with_text<'a>(call: Call<'a>, options: &[&str], text: &str) -> Call<'a> {
    let call = call.args(options).env("PS1", "").env("PS2", "");
    if options.contains(&"-c") {
        call.arg(text)
    } else {
        call.input(Input::Text(format!("{text}\n").into_bytes()))
    }
}

#[test]
fn a_signal_to_the_parent_reaches_the_shell_that_called() {
    let sandbox = Sandbox::new();
    let plain = "/usr/bin:/bin";
    let shimmed = format!("{}:{plain}", sandbox.path("links").display());
    in_parallel(&["bash", "dash", "zsh"], |_, _, &shell| {
        for options in OUTER {
            for (signal, action) in [
                ("TERM", "echo trapped"),
                ("TERM", ""),
                ("TERM", "-"),
                ("USR1", "echo trapped"),
                ("ALRM", "-"),
                ("HUP", "-"),
                ("QUIT", "echo trapped; exit 7"),
            ] {
                let trap = match action {
                    "-" => format!("trap - {signal}"),
                    action => format!("trap '{action}' {signal}"),
                };
                let text = format!("{trap}\n\"$SH\" -c 'kill -s {signal} $PPID'\necho after");
                let run = |call: Call<'_>, sh: &std::path::Path, path: &str| {
                    let call = with_text(call, options, &text).env("SH", sh);
                    let ended = call.env("PATH", path).run();
                    // What an interactive shell echoes and says of job control has names in it.
                    (ended.status, ended.text())
                };
                let real = crate::support::real(shell);
                let native = run(sandbox.real_call(shell), &real, plain);
                let ours = run(sandbox.call(shell), &sandbox.link(shell), &shimmed);
                assert_eq!(native, ours, "{shell} {options:?}: {text}");
            }
        }
    });
    sandbox.assert_no_survivors();
}

/// A job of a nested call outlives both shells, also where the outer one is interactive.
#[test]
fn a_job_of_a_nested_call_outlives_the_shells_above() {
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    for (count, options) in OUTER.iter().enumerate() {
        let gate = sandbox.gate();
        let text = format!(
            "\"$SH\" -c 'sh -c \"read -r x <{}; exit 6\" & echo called'",
            gate.path()
        );
        let call = with_text(sandbox.call("bash"), options, &text);
        let ended = call.env("SH", sandbox.link("bash")).run();
        assert_eq!(ended.text().lines().last(), Some("called"), "{ended:?}");
        gate.release(1);
        wait_until("the job has its record", || records(&sandbox).len() > count);
    }
    for record in records(&sandbox) {
        let facts = (record.exit_code(), record.how());
        assert_eq!(facts, (Some(6), "ampersand"), "{record:?}");
    }
    sandbox.assert_no_survivors();
}

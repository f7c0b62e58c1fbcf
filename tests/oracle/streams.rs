//! Pipes, closed and inherited descriptors, stdin that is left for the next reader.

use std::fs::{self, File};
use std::io::Read;

use super::same;
use crate::support::{Input, Sandbox, Status, Streams, stands_in, wait_until};

#[test]
fn command_substitution_captures_it() {
    let sandbox = Sandbox::new();
    let ours = sandbox.link("agent-sh");
    let text = format!(
        "x=$({0} -c 'echo captured; exit 3'); echo \"[$x] $?\"; y=`{0} -c 'printf a; printf b >&2' 2>&1`; echo \"$y\"",
        ours.display()
    );
    let ended = sandbox.real_call("bash").c(text).run();
    assert_eq!(ended.text(), "[captured] 3\nab\n", "{ended:?}");
}

/// Natively the writer dies of SIGPIPE once its reader has gone.
#[test]
fn a_reader_that_goes_away_kills_the_writer() {
    let sandbox = Sandbox::new();
    for (text, codes) in [
        ("{} -c 'yes' | head -1; echo ${PIPESTATUS[*]}", "y\n141 0\n"),
        (
            "{} -c 'exec yes' | head -1; echo ${PIPESTATUS[*]}",
            "y\n141 0\n",
        ),
        (
            "{} -c 'while echo again; do :; done' | head -2; echo ${PIPESTATUS[*]}",
            "again\nagain\n141 0\n",
        ),
        (
            "{} -c 'yes; echo yes=$? >&2' 2>err | head -1; cat err; echo ${PIPESTATUS[*]}",
            "y\nyes=141\n0\n",
        ),
    ] {
        for shell in ["bash", "dash"] {
            let real = text.replace("{}", crate::support::real(shell).to_str().unwrap());
            let ours = text.replace("{}", sandbox.link(shell).to_str().unwrap());
            let native = sandbox.real_call("bash").c(real).run();
            assert_eq!(native.text(), codes, "{shell}: {text}");
            let ended = sandbox.real_call("bash").c(ours).run();
            assert_eq!(native.stdout, ended.stdout, "{shell}: {text}");
        }
    }
    sandbox.assert_no_survivors();
}

/// A reader that had gone before the command began: the first write kills, nothing after it runs.
#[test]
fn a_reader_that_was_never_there_kills_at_the_first_write() {
    let sandbox = Sandbox::new();
    for _ in 0..20 {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let marker = sandbox.work().join("ran-on");
        let fd = std::os::fd::OwnedFd::from(writer);
        let number = std::os::fd::AsRawFd::as_raw_fd(&fd);
        // The descriptor travels as stdin and is moved to stdout by a real shell.
        assert!(number > 2);
        let text = format!(
            "exec {} -c 'echo first; : > ran-on' >&0 </dev/null",
            sandbox.link("bash").display()
        );
        let ended = sandbox.real_call("bash").c(text).input(Input::Fd(fd)).run();
        assert_eq!(ended.status, Status::Signaled(13), "{ended:?}");
        assert!(!marker.exists(), "the command ran on");
    }
}

#[test]
fn an_ignored_sigpipe_stays_ignored() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "dash", "zsh"] {
        let ended = same(&sandbox, shell, |call| {
            call.c(
                "grep SigIgn /proc/self/status; yes | head -1; sh -c 'kill -PIPE $$; echo alive'",
            )
            .ignoring(libc::SIGPIPE)
        });
        assert!(ended.text().ends_with("alive\n"), "{ended:?}");
        same(&sandbox, shell, |call| {
            call.c("grep SigIgn /proc/self/status; trap; kill -HUP $$; kill -INT $$; echo alive")
                .ignoring(libc::SIGHUP)
                .ignoring(libc::SIGINT)
        });
    }
}

/// A pattern whose period divides no buffer's size: a lost, doubled or moved block shows.
#[test]
fn a_gibibyte_through_a_pipe_is_intact() {
    const SIZE: usize = 1 << 30;
    let line = "the quick brown fox jumps over the lazy dog, 0123456789 time";
    let period = line.len() + 1;
    assert!(!4096usize.is_multiple_of(period) && !65_536usize.is_multiple_of(period));
    let sandbox = Sandbox::new();
    let text = format!("yes '{line}' | head -c {SIZE}");
    let running = sandbox.call("bash").c(text).start();
    let (mut child, mut stdout) = running.into_stdout();
    let block: Vec<u8> = format!("{line}\n").into_bytes().repeat(3000);
    let mut buffer = vec![0; 65_536];
    let mut seen = 0;
    loop {
        let count = stdout.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        let from = seen % period;
        assert!(
            buffer[..count] == block[from..from + count],
            "differs after {seen} bytes"
        );
        seen += count;
    }
    assert_eq!(seen, SIZE);
    assert!(child.wait().unwrap().success());
}

#[test]
fn binary_output_is_untouched() {
    let sandbox = Sandbox::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    fs::write(sandbox.work().join("binary"), &bytes).unwrap();
    for streams in [
        Streams::Pipe,
        Streams::Socket,
        Streams::Truncated,
        Streams::Appended,
    ] {
        let text = "cat binary; cat binary >&2";
        let ended = sandbox.call("bash").c(text).streams(streams).run();
        let expected = if streams == Streams::Appended {
            ([&bytes[..], &bytes].concat(), Vec::new())
        } else {
            (bytes.clone(), bytes.clone())
        };
        assert!((ended.stdout, ended.stderr) == expected, "{streams:?}");
    }
}

/// One object for both streams keeps the order of what is written to them, also through a nested `2>&1`.
#[test]
fn streams_that_are_one_object_stay_in_order() {
    let sandbox = Sandbox::new();
    let loop_ = "i=0; while [ $i -lt 300 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
    let expected: String = (0..300).map(|i| format!("out {i}\nerr {i}\n")).collect();
    let appended = sandbox
        .call("bash")
        .c(loop_)
        .streams(Streams::Appended)
        .run();
    assert_eq!(appended.text(), expected);
    let link = sandbox.link("bash");
    let text = format!("{} -c '{loop_}' 2>&1 | cat", link.display());
    let piped = sandbox.real_call("bash").c(text).run();
    assert_eq!(piped.text(), expected);
    let terminal = sandbox
        .call("bash")
        .c(loop_)
        .streams(Streams::Terminal)
        .run();
    assert_eq!(terminal.text().replace("\r\n", "\n"), expected);
}

#[test]
fn descriptors_three_to_nine_are_inherited() {
    let sandbox = Sandbox::new();
    let run = |program: &std::path::Path| {
        let text = format!(
            "for n in 3 4 5 6 7 8 9; do eval \"exec $n>fd$n\"; done; exec {} -c '{}'",
            program.display(),
            "for n in 3 4 5 6 7 8 9; do eval \"echo number $n >&$n\"; done; ls /proc/self/fd | tr \"\\n\" \" \""
        );
        let ended = sandbox.real_call("bash").c(text).run();
        let files: Vec<String> = (3..=9)
            .map(|n| fs::read_to_string(sandbox.work().join(format!("fd{n}"))).unwrap())
            .collect();
        (ended, files)
    };
    let native = run(&crate::support::real("bash"));
    let ours = run(&sandbox.link("bash"));
    assert_eq!(native, ours);
    assert_eq!(ours.1[6], "number 9\n");
}

#[test]
fn closed_streams_stay_closed() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "dash", "zsh"] {
        for text in [
            "ls -l /proc/self/fd > fds 2>/dev/null; wc -l < fds; rm -f fds; echo out; echo err >&2",
            "echo a; echo $?; cat; echo $?",
            "true",
            "exit 3",
        ] {
            for closed in [&[0][..], &[1], &[2], &[0, 1], &[1, 2], &[0, 1, 2]] {
                same(&sandbox, shell, |call| {
                    closed
                        .iter()
                        .fold(call.c(text), |call, &fd| call.closed(fd))
                });
            }
        }
    }
    sandbox.assert_no_survivors();
}

/// The command reads one line; the rest is there for whoever reads next.
#[test]
fn stdin_is_handed_through_unread() {
    let sandbox = Sandbox::new();
    let link = sandbox.link("bash");
    let lines: String = (1..=5000).map(|i| format!("line {i}\n")).collect();
    let path = sandbox.work().join("lines");
    fs::write(&path, &lines).unwrap();
    let text = format!(
        "{0} -c 'read x; echo \"[$x]\"'; {0} -c true; read y; echo \"<$y>\"; {0} -c 'exit 0' ; cat | wc -l",
        link.display()
    );
    let expected = "[line 1]\n<line 2>\n4998\n";
    let from_file = sandbox
        .real_call("bash")
        .c(&text)
        .input(Input::File(path.clone()))
        .run();
    assert_eq!(from_file.text(), expected, "{from_file:?}");
    let from_pipe = sandbox
        .real_call("bash")
        .c(format!("cat lines | {{ {text}; }}"))
        .run();
    assert_eq!(from_pipe.text(), expected, "{from_pipe:?}");
}

/// A late process substitution still reaches the call's own stdout.
#[test]
fn a_process_substitution_is_waited_for() {
    let sandbox = Sandbox::new();
    for _ in 0..20 {
        let ended = sandbox.call("bash").c("echo through > >(cat)").run();
        assert_eq!(ended.text(), "through\n");
    }
    sandbox.assert_no_survivors();
}

#[test]
fn a_large_file_arrives_whole_over_every_stream() {
    let sandbox = Sandbox::new();
    let file = File::create(sandbox.work().join("large")).unwrap();
    let block: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    std::io::Write::write_all(&mut &file, &block).unwrap();
    for streams in [
        Streams::Pipe,
        Streams::Socket,
        Streams::Truncated,
        Streams::Appended,
    ] {
        let ended = sandbox.call("bash").c("cat large").streams(streams).run();
        assert!(
            ended.stdout == block,
            "{streams:?}: {} bytes",
            ended.stdout.len()
        );
    }
}

/// What a job writes while the shell lives comes out where it would without us: each stream in its own
/// place, and nothing of it is left out, whoever started the job.
#[test]
fn what_jobs_write_before_the_shell_ends() {
    const WRITE: &str = "echo out; echo err >&2; : > done";
    // The shell ends once everything is written; the job may live on.
    let until = "until [ -e done ]; do sleep 0.01; done; rm done";
    let sandbox = Sandbox::new();
    for shell in ["bash", "dash", "zsh"] {
        for job in [
            format!("sh -c '{WRITE}' &"),
            format!("nohup sh -c '{WRITE}' </dev/null &"),
            format!("{{ {WRITE}; }} &"),
            format!("({WRITE}) &"),
            format!("f() {{ {WRITE}; }}; f &"),
            format!("true && sh -c '{WRITE}' &"),
            // A job within a job, whose starter has ended or not.
            format!("{{ {{ {WRITE}; }} & }} &"),
            format!("{{ sh -c '{WRITE}' & }} &"),
            format!("{{ sh -c '{WRITE}' & sleep 0.1; }} &"),
            format!("( ( ( {WRITE} ) & ) & ) &"),
            // One stream is the job's own.
            format!("sh -c '{WRITE}' >/dev/null &"),
            format!("sh -c '{WRITE}' 2>/dev/null &"),
            format!("sh -c '{WRITE}' 2>&1 &"),
            format!("{{ {WRITE}; }} 1>&2 &"),
        ] {
            for streams in [Streams::Pipe, Streams::Socket, Streams::Truncated] {
                let text = format!("{job} {until}");
                same(&sandbox, shell, |call| call.c(&text).streams(streams));
            }
        }
    }
    sandbox.assert_no_survivors();
}

/// A harness that reads late gets all that a job wrote before the shell's end.
#[test]
fn a_job_is_not_cut_short_by_a_slow_reader() {
    const SIZE: usize = 600_000;
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let text = format!("head -c {SIZE} /dev/zero & read -r x < {}", gate.path());
    let running = sandbox.call("bash").c(text).start();
    let written = || {
        let jobs = crate::support::ps_json(&sandbox);
        jobs.first().and_then(|job| job["bytes_total"].as_u64())
    };
    wait_until("the job has written", || written() == Some(SIZE as u64));
    gate.release(1);
    let ended = running.finish();
    assert_eq!(ended.stdout.len(), SIZE);
    sandbox.assert_no_survivors();
}

/// One that reads nothing holds neither the job nor the call.
#[test]
fn a_job_is_not_held_by_a_reader_that_does_not_read() {
    const SIZE: usize = 8_000_000;
    if !stands_in() {
        return;
    }
    let sandbox = Sandbox::new();
    let gate = sandbox.gate();
    let text = format!("head -c {SIZE} /dev/zero & read -r x < {}", gate.path());
    let (mut child, streams) = sandbox.call("bash").c(text).start().into_files();
    let written = || {
        let jobs = crate::support::ps_json(&sandbox);
        jobs.first().and_then(|job| job["bytes_total"].as_u64())
    };
    wait_until("the job has written", || written() == Some(SIZE as u64));
    gate.release(1);
    let status = crate::support::exit_of(&mut child);
    assert_eq!(status, Status::Exited(0));
    drop(streams);
    sandbox.assert_no_survivors();
}

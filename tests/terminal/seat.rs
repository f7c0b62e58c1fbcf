//! A person at a terminal: types, looks at the screen, resizes the window.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;

use crate::support::{Call, DEADLINE, Status, Streams, exit_of, holds_within, real, signal};

pub(super) struct Seat {
    child: Child,
    leader: File,
    terminal: PathBuf,
    screen: vt100::Parser,
    /// Every byte that came.
    pub(super) bytes: Vec<u8>,
}

fn one(number: u16) -> std::num::NonZeroU16 {
    std::num::NonZeroU16::new(number).unwrap()
}

impl Seat {
    /// Starts the call at a terminal of 24 rows and 80 columns.
    pub(super) fn start(call: Call<'_>) -> Self {
        let call = call
            .streams(Streams::Terminal)
            .env("TERM", "xterm-256color");
        let (child, leader) = call.start().into_stdout();
        fcntl(&leader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let terminal = terminal_of(&leader);
        Self {
            child,
            leader,
            terminal,
            screen: vt100::Parser::new(one(24), one(80), 0),
            bytes: Vec::new(),
        }
    }

    pub(super) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Types, as fast as the program at the terminal reads.
    #[track_caller]
    pub(super) fn keys(&mut self, keys: &str) {
        let mut rest = keys.as_bytes();
        let typed = holds_within(DEADLINE, || {
            self.look();
            match self.leader.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            rest.is_empty()
        });
        assert!(typed, "{} bytes were not read", rest.len());
    }

    /// Takes what has come; ends quietly when nobody has the terminal open.
    fn look(&mut self) {
        let mut buffer = [0; 65_536];
        while let Ok(count @ 1..) = self.leader.read(&mut buffer) {
            self.bytes.extend(&buffer[..count]);
            self.screen.process(&buffer[..count]);
        }
    }

    pub(super) fn text(&mut self) -> String {
        self.look();
        self.screen.screen().contents()
    }

    /// Waits until the screen shows it.
    #[track_caller]
    pub(super) fn sees(&mut self, what: &str) {
        let seen = holds_within(DEADLINE, || self.text().contains(what));
        assert!(seen, "no '{what}' on the screen:\n{}", self.text());
    }

    #[track_caller]
    pub(super) fn sees_no(&mut self, what: &str) {
        let gone = holds_within(DEADLINE, || !self.text().contains(what));
        assert!(gone, "still '{what}' on the screen:\n{}", self.text());
    }

    pub(super) fn resize(&mut self, rows: u16, columns: u16) {
        self.look();
        let (r, c) = (rows.to_string(), columns.to_string());
        self.stty(&["rows", &r, "cols", &c]);
        self.screen.set_size(one(rows), one(columns));
    }

    /// What `stty` says of the terminal.
    pub(super) fn stty(&self, args: &[&str]) -> String {
        let output = Command::new(real("stty"))
            .arg("-F")
            .arg(&self.terminal)
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Whether the terminal reads lines and echoes, as a fresh one does.
    pub(super) fn is_cooked(&self) -> bool {
        let all = self.stty(&["-a"]);
        [" icanon", " echo ", " isig", " opost", " icrnl"]
            .iter()
            .all(|word| all.replace('\n', " ").contains(word))
    }

    pub(super) fn signal(&self, number: Signal) {
        signal(self.pid(), number);
    }

    #[track_caller]
    pub(super) fn ended(&mut self) -> Status {
        // Somebody has to read, or the last words would hold it.
        let child = &mut self.child;
        let (leader, bytes, screen) = (&mut self.leader, &mut self.bytes, &mut self.screen);
        let over = holds_within(DEADLINE, || {
            let mut buffer = [0; 65_536];
            while let Ok(count @ 1..) = leader.read(&mut buffer) {
                bytes.extend(&buffer[..count]);
                screen.process(&buffer[..count]);
            }
            child.try_wait().unwrap().is_some()
        });
        assert!(over, "it did not end:\n{}", self.text());
        exit_of(&mut self.child)
    }

    /// Closes the window, and waits until whoever sat there has gone of it.
    pub(super) fn close(mut self) {
        drop(self.leader);
        exit_of(&mut self.child);
    }

    /// Whether a full-screen program has the screen, or its cursor is hidden.
    pub(super) fn is_left_clean(&mut self) -> bool {
        self.look();
        let screen = self.screen.screen();
        !screen.alternate_screen() && !screen.hide_cursor() && !screen.application_cursor()
    }
}

fn terminal_of(leader: &File) -> PathBuf {
    let info = format!(
        "/proc/self/fdinfo/{}",
        std::os::fd::AsRawFd::as_raw_fd(&leader.as_fd())
    );
    let text = std::fs::read_to_string(info).unwrap();
    let index = text
        .lines()
        .find_map(|line| line.strip_prefix("tty-index:"))
        .unwrap_or_else(|| panic!("no terminal: {text}"))
        .trim()
        .to_owned();
    PathBuf::from(format!("/dev/pts/{index}"))
}

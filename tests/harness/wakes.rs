//! The sinks that wake a harness by HTTP, against servers on loopback.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};

use crate::support::{DEADLINE, Sandbox, stands_in, wait_for_records, wait_until};

/// A server that answers every request with 204 and passes on what it got.
fn server() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let request = answer(stream.unwrap());
            if tell.send(request).is_err() {
                return;
            }
        }
    });
    (port, told)
}

fn answer(mut stream: TcpStream) -> String {
    let mut got = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).unwrap();
        got.extend(&buffer[..count]);
        let text = String::from_utf8_lossy(&got).into_owned();
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let head = head.to_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            length.is_some_and(|length| body.len() >= length.trim().parse().unwrap())
        });
        if whole || count == 0 {
            stream
                .write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
                .unwrap();
            return text;
        }
    }
}

#[test]
fn agentapi_and_opencode_get_the_notice_once() {
    if !stands_in() {
        return;
    }
    for sink in ["agentapi", "opencode"] {
        let (port, told) = server();
        let sandbox = Sandbox::new();
        let added = sandbox.agent_sh(["notify", "add", sink]);
        assert!(added.succeeded(), "{added:?}");
        let gate = sandbox.gate();
        let call = sandbox.call("bash").c(format!(
            "{{ read -r x < {}; echo built; exit 4; }} &",
            gate.path()
        ));
        let call = if sink == "agentapi" {
            call.env("AGENTAPI_PORT", port.to_string())
                .env("AGENT_SH_SESSION", "mine")
        } else {
            call.env("OPENCODE", "1")
                .env("OPENCODE_SERVER_URL", format!("http://127.0.0.1:{port}/"))
                .env("OPENCODE_SESSION_ID", "ses_1")
                .env("OPENCODE_SERVER_PASSWORD", "secret")
                .env("AGENT_SH_SESSION", "ses_1")
        };
        assert!(call.run().succeeded());
        gate.release(1);
        let request = told.recv_timeout(DEADLINE).unwrap();
        let path = match sink {
            "agentapi" => "POST /message ",
            _ => "POST /session/ses_1/prompt_async ",
        };
        assert!(request.starts_with(path), "{request}");
        assert!(request.contains("finished: exit 4"), "{request}");
        // base64 of opencode:secret
        let signed = request.contains("Basic b3BlbmNvZGU6c2VjcmV0");
        assert_eq!(signed, sink == "opencode", "{request}");
        wait_for_records(&sandbox, 1);
        // Whoever comes next finds nothing left to tell.
        assert!(sandbox.agent_sh(["notify", "list"]).succeeded());
        sandbox.assert_no_survivors();
        assert!(told.try_recv().is_err(), "{sink}: told twice");
    }
}

/// The address of a server may come from anywhere, a file of the directory's for one. Neither the notice nor
/// the password goes to a server that was not above the command.
#[test]
fn a_password_goes_to_the_server_of_its_own_session_alone() {
    if !stands_in() {
        return;
    }
    // A process of the same user that listens, and that no command came from.
    let mut stranger = std::process::Command::new("python3")
        .args(["-uc", STRANGER])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said =
        std::io::BufRead::lines(std::io::BufReader::new(stranger.stdout.take().unwrap()));
    let port: u16 = said.next().unwrap().unwrap().parse().unwrap();
    let (own, told) = server();
    for (name, value, why) in [
        (
            "OPENCODE_SERVER_URL",
            format!("http://127.0.0.1:{port}"),
            "is not the server",
        ),
        ("OPENCODE_PORT", port.to_string(), "is not the server"),
        (
            "OPENCODE_URL",
            "https://203.0.113.7/".to_owned(),
            "is not on this machine",
        ),
        ("OPENCODE_URL", format!("http://127.0.0.1:{own}"), ""),
    ] {
        let sandbox = Sandbox::new();
        assert!(
            sandbox
                .agent_sh(["notify", "add", "opencode", "--as", "o"])
                .succeeded()
        );
        let gate = sandbox.gate();
        let call = sandbox
            .call("bash")
            .c(format!("{{ read -r x < {}; exit 4; }} &", gate.path()))
            .env("OPENCODE", "1")
            .env(name, &value)
            .env("OPENCODE_SESSION_ID", "ses_1")
            .env("OPENCODE_SERVER_PASSWORD", "hunter2")
            .env("AGENT_SH_SESSION", "ses_1");
        assert!(call.run().succeeded());
        gate.release(1);
        wait_for_records(&sandbox, 1);
        if why.is_empty() {
            let request = told.recv_timeout(DEADLINE).unwrap();
            assert!(
                request.contains("Basic b3BlbmNvZGU6aHVudGVyMg"),
                "{request}"
            );
        } else {
            let listed = || sandbox.agent_sh(["notify", "list", "--json"]).text();
            wait_until("it was tried", || listed().contains(why));
            assert!(!listed().contains("hunter2"), "{}", listed());
        }
        sandbox.assert_no_survivors();
    }
    drop(stranger.stdin.take());
    let heard: Vec<String> = said.map(Result::unwrap).collect();
    assert!(stranger.wait().unwrap().success());
    assert_eq!(heard, [] as [&str; 0], "the stranger was spoken to");
}

/// Says its port, then each line that anybody sends, until its stdin ends.
const STRANGER: &str = "
import socket, sys, threading
s = socket.create_server(('127.0.0.1', 0))
print(s.getsockname()[1])
def serve():
    while True:
        c, _ = s.accept()
        print(c.recv(65536))
        c.close()
threading.Thread(target=serve, daemon=True).start()
sys.stdin.read()
";

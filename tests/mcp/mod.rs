//! `agent-sh mcp`: the tools, spoken to in JSON-RPC over pipes.

/// What clients get wrong, and what they leave behind.
mod manners;
/// `setup claude-code --mcp`.
mod setup;
/// Each tool, and whose jobs it sees.
mod tools;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::Child;

use nix::fcntl::OFlag;
use serde_json::{Value, json};

use crate::support::{Input, Sandbox, Status, exit_of, stands_in};

fn sandbox() -> Option<Sandbox> {
    stands_in().then(Sandbox::new)
}

/// A client of a server of its own.
struct Client {
    child: Child,
    to: Option<File>,
    from: BufReader<File>,
    serial: u64,
}

impl Client {
    /// Starts a server for a session, and shakes hands.
    fn new(sandbox: &Sandbox, session: Option<&str>) -> Self {
        let mut client = Self::silent(sandbox, session);
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = client.request("initialize", &hello);
        assert_eq!(
            answer["result"]["protocolVersion"], "2025-06-18",
            "{answer}"
        );
        assert_eq!(answer["result"]["serverInfo"]["name"], "agent-sh");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn silent(sandbox: &Sandbox, session: Option<&str>) -> Self {
        let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
        let mut call = sandbox.call("agent-sh").arg("mcp").input(Input::Fd(read));
        if let Some(key) = session {
            call = call.env("AGENT_SH_SESSION", key);
        }
        let (child, files) = call.start().into_files();
        let from = files.into_iter().next().unwrap();
        Self {
            child,
            to: Some(write.into()),
            from: BufReader::new(from),
            serial: 0,
        }
    }

    fn send(&mut self, message: &Value) {
        self.write(&format!("{message}\n"));
    }

    fn write(&mut self, text: &str) {
        self.to
            .as_mut()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    /// The next message of the server.
    #[track_caller]
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.serial += 1;
        let id = self.serial;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    #[track_caller]
    fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Calls a tool that succeeds: its structured result, which its text repeats.
    #[track_caller]
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        assert_ne!(result["isError"], true, "{answer}");
        let text = result["content"][0]["text"].as_str().unwrap();
        let said: Value = serde_json::from_str(text).unwrap();
        assert_eq!(said, result["structuredContent"]);
        said
    }

    /// Calls a tool that fails: what the model is told.
    #[track_caller]
    fn fail(&mut self, tool: &str, arguments: &Value) -> String {
        let answer = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let text = &answer["result"]["content"][0]["text"];
        text.as_str().unwrap().to_owned()
    }

    /// Closes the streams; the server ends by itself.
    #[track_caller]
    fn leave(mut self) {
        drop(self.to.take());
        assert_eq!(exit_of(&mut self.child), Status::Exited(0));
    }
}

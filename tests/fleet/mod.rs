//! Beyond one machine: brokers that keep events, and what is read back from them.

/// Many at once, and killed.
mod crowd;
/// What can be wrong with a broker, and that nothing is lost by it.
mod faults;
/// What is published, and that it is there once.
mod publish;
/// What is read back.
mod read;
/// The brokers.
mod server;

use serde_json::Value;

use crate::support::{Ended, Sandbox, stands_in};

fn sandbox() -> Option<Sandbox> {
    stands_in().then(Sandbox::new)
}

#[track_caller]
fn agent_sh(sandbox: &Sandbox, args: &[&str]) -> Ended {
    let ended = sandbox.call("agent-sh").args(args).run();
    assert!(ended.succeeded(), "{args:?}: {ended:?}");
    ended
}

/// How it stands with a subscription.
fn standing(sandbox: &Sandbox, name: &str) -> Value {
    let listed = agent_sh(sandbox, &["notify", "list", "--json"]);
    let all: Value = serde_json::from_str(&listed.text()).unwrap();
    let found = all
        .as_array()
        .unwrap()
        .iter()
        .find(|sub| sub["name"] == name);
    found.unwrap().clone()
}

fn count(standing: &Value, state: &str) -> usize {
    standing[state].as_array().unwrap().len()
}

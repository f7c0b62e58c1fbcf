//! `ci report`, and the examples in `shims/ci` as their runners run them.

/// Steps, composite actions and the clean-up of GitHub's runner.
mod github;
/// The shell executor of GitLab's runner.
mod gitlab;
/// What is reported, where to, and the exit codes.
mod report;
/// Reading the examples.
mod yaml;

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use serde_json::Value;

use crate::support::Sandbox;

/// One of the examples.
fn example(name: &str) -> Value {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("shims/ci");
    yaml::read(&fs::read_to_string(dir.join(name)).unwrap())
}

/// The project that the examples build and test: `build.sh` exits with this code.
fn project(sandbox: &Sandbox, build: u8) {
    let work = |name: &str| Path::new("work").join(name).to_str().unwrap().to_owned();
    sandbox.script(
        &work("build.sh"),
        &format!("#!/bin/sh\necho building\nexit {build}\n"),
    );
    let get =
        "#!/bin/sh\nexec python3 -c \"import urllib.request; urllib.request.urlopen('$1')\"\n";
    sandbox.script(&work("test.sh"), get);
}

/// A port that nobody listens on.
fn free_port() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port().to_string()
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str()
}

/// The pairs of a mapping, as variables of an environment.
fn pairs(value: &Value) -> Vec<(String, String)> {
    let map = value.as_object().into_iter().flatten();
    map.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
        .collect()
}

/// Checks that a document is well-formed XML, and gives the names of its elements.
fn elements(sandbox: &Sandbox, xml: &Path) -> Vec<String> {
    let text = "import sys, xml.etree.ElementTree as t\nfor e in t.parse(sys.argv[1]).iter(): print(e.tag)";
    let call = sandbox.real_call("python3").args(["-c", text]).arg(xml);
    let ended = call.run();
    assert!(ended.succeeded(), "{ended:?}");
    ended.text().lines().map(str::to_owned).collect()
}
